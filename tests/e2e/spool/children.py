"""Processes that write to a spool or ship it, and are killed: forked, so that they begin soon."""

import os
import select
import signal
import struct
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from lakelog.spool import open as open_spool
from lakelog.spool import ship

__all__ = ["Child", "shipper", "writer"]

TOPIC = "t"
_TOLD = struct.Struct(">Q")


class Child:
    """A process that is doing something, and tells numbers; it lives until it is killed."""

    def __init__(self, act: Callable[[Callable[[int], None]], None]) -> None:
        self._read, write = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            code = 1
            try:
                os.close(self._read)
                act(lambda number: (os.write(write, _TOLD.pack(number)), None)[1])
                code = 0
            except BaseException:  # noqa: BLE001 (whatever it was, this process ends here)
                traceback.print_exc()
                sys.stderr.flush()
            finally:
                os._exit(code)
        os.close(write)
        self._buffer = b""

    def told(self, within_s: float) -> list[int]:
        """Wait for as long, and return the numbers that came."""
        end = time.monotonic() + within_s
        while (left := end - time.monotonic()) > 0:
            if select.select([self._read], [], [], left)[0]:
                data = os.read(self._read, 1 << 16)
                if not data:
                    break
                self._buffer += data
        return self._take()

    def kill(self) -> list[int]:
        """Kill it, and return the rest of what it told."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        while data := os.read(self._read, 1 << 16):
            self._buffer += data
        os.close(self._read)
        return self._take()

    def join(self) -> int:
        """Wait until it ends by itself, and return its status."""
        _, status = os.waitpid(self.pid, 0)
        os.close(self._read)
        return os.waitstatus_to_exitcode(status)

    def _take(self) -> list[int]:
        whole = len(self._buffer) // _TOLD.size * _TOLD.size
        data, self._buffer = self._buffer[:whole], self._buffer[whole:]
        return [number for (number,) in _TOLD.iter_unpack(data)]


def writer(folder: Path, sync: str, *, count: int = 1 << 40, batch: int = 7) -> Child:
    """Append numbers, from the end of the log on; tells the end behind each append."""

    def act(tell: Callable[[int], None]) -> None:
        with open_spool(str(folder), sync=sync, segment_bytes=64 << 10) as spool:
            end = spool.log(TOPIC).end
            while end < count:
                some = min(batch, count - end)
                values = [b"%d" % number for number in range(end, end + some)]
                assert spool.append_many(TOPIC, values) == end
                end += some
                tell(end)

    return Child(act)


def shipper(folder: Path, to: str, *, range_records: int, once: bool = False) -> Child:
    """Ship again and again; tells the end of every range that was confirmed."""

    def act(tell: Callable[[int], None]) -> None:
        while True:
            for done in ship(str(folder), to, range_records=range_records):
                tell(done.end)
            if once:
                return

    return Child(act)
