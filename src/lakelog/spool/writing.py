"""The writer of a folder of logs: appends of many threads, sync policies, who may write at all.

    append -- encode -- write --.                     under one lock: microseconds
                                 `-- sync, by policy  outside of it: one fsync for all that wait

A partition is recovered when it is first used, and only so many of their files are open at a time:
a folder may have ten thousand of them.

Once the disk has failed, nothing is taken any more, whoever asks and whatever the partition: see
``disk``. That the disk is full is not such a failure: nothing was written, and the next append may
find room.
"""

import contextlib
import logging
import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from lakelog.errors import InvalidInputError, UnavailableError
from lakelog.model import Header
from lakelog.spool.counters import Counters
from lakelog.spool.disk import Disk, named_folder
from lakelog.spool.encoding import Encoded, Encoder
from lakelog.spool.fullness import bytes_used
from lakelog.spool.partition import PartitionLog
from lakelog.spool.recovery import recover
from lakelog.spool.settings import NEVER, SpoolSettings

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["US_PER_MS", "WRITER_LOCK", "Writer"]

WRITER_LOCK = ".lock"
US_PER_MS = 1000

_log = logging.getLogger("lakelog.spool")


class Writer:
    """The one writer of a folder."""

    def __init__(
        self,
        disk: Disk,
        settings: SpoolSettings,
        *,
        is_adopted: bool,
        lock: int,
        clock_us: Callable[[], int],
    ) -> None:
        self.disk, self.settings, self.counters = disk, settings, Counters()
        self._is_adopted, self._lock_handle, self._clock_us = is_adopted, lock, clock_us
        self._lock = threading.RLock()
        self._logs: dict[tuple[str, int], PartitionLog] = {}
        self._open: OrderedDict[tuple[str, int], PartitionLog] = OrderedDict()
        self._encoder = Encoder()
        self._failure: UnavailableError | None = None
        self._is_closed = self._is_over = False
        self._syncs = settings.sync != NEVER
        self._room: float = math.inf
        """How many bytes the folder may still take."""
        if settings.bytes_max is not None:
            self._room = settings.bytes_max - bytes_used(disk)

    # ------------------------------------------------------------------------ appending

    def append(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Sequence[Header] = (),
        partition: int = 0,
    ) -> int:
        """Append a record, and return its offset.

        Raises:
            FullError: there is no room; nothing was written.
            InvalidInputError: it is too large, or the topic cannot be one.
            UnavailableError: the disk failed, and this spool takes no more.
        """
        keys = None if key is None else [key]
        return self.append_many(
            topic, [value], keys=keys, headers=[headers] if headers else None, partition=partition
        )

    def append_many(
        self,
        topic: str,
        values: Sequence[bytes | None],
        *,
        keys: Sequence[bytes | None] | None = None,
        headers: Sequence[Sequence[Header]] | None = None,
        partition: int = 0,
    ) -> int:
        """Append records, one after another, and return the offset of the first.

        Raises:
            FullError, InvalidInputError, UnavailableError: as ``append``.
        """
        with self._lock:
            if self._is_over:
                self._check()
            log = self._logs.get((topic, partition)) or self._load(topic, partition)
            now_us = self._clock_us()
            encoded = self._encoder.encode(log.next_record(now_us), values, keys, headers)
            size = len(encoded.data)
            if now_us >= log.due_us or size > log.room or size > self._room:
                self._make_room(log, size, now_us)
                encoded = self._encoder.encode(log.next_record(now_us), values, keys, headers)
            # As ``_write`` does it: every call less is felt here.
            if log.handle is None:
                self._hold(log)
            try:
                offset = log.append(encoded, now_us)
            except UnavailableError as error:
                self._fail(error)
                raise
            self._room -= size
        if self._syncs:
            self._sync_by_policy(log, now_us)
        return offset

    def append_columns(self, topic: str, columns: "pa.RecordBatch", *, partition: int = 0) -> int:
        """Append the rows of Arrow columns ``value``, ``key``, ``headers`` and ``timestamp``.

        Without a timestamp they have the time of now. A time that goes down is lifted.

        Raises:
            FullError, InvalidInputError, UnavailableError: as ``append``.
        """
        with self._lock:
            log, now_us = self.log(topic, partition), self._clock_us()
            encoded = self._encoder.encode_columns(log.next_record(0), columns, now_us)
            size = len(encoded.data)
            if now_us >= log.due_us or size > log.room or size > self._room:
                self._make_room(log, size, now_us)
                encoded = self._encoder.encode_columns(log.next_record(0), columns, now_us)
            offset = self._write(log, encoded, now_us)
        if self._syncs:
            self._sync_by_policy(log, now_us)
        return offset

    def _make_room(self, log: PartitionLog, size: int, now_us: int) -> None:
        """See that an append has room in its segment."""
        if size > log.room or now_us >= log.due_us:
            self._seal(log)

    def _write(self, log: PartitionLog, encoded: Encoded, now_us: int) -> int:
        if log.handle is None:
            self._hold(log)
        try:
            offset = log.append(encoded, now_us)
        except UnavailableError as error:
            self._fail(error)
            raise
        self._room -= len(encoded.data)
        return offset

    def _hold(self, log: PartitionLog) -> None:
        """Let a log hold its file open, and another one let go of its own if they are too many."""
        while len(self._open) >= self.settings.open_files_max:
            _, oldest = self._open.popitem(last=False)
            if self._syncs:
                self._synced(oldest)
            oldest.let_go()
        self._open[log.name] = log

    # ------------------------------------------------------------------------ syncing

    def _sync_by_policy(self, log: PartitionLog, now_us: int) -> None:
        records = self.settings.sync.records
        if (records is not None and log.unsynced >= records) or self._is_due(log, now_us):
            self._synced(log, now_us)

    def _is_due(self, log: PartitionLog, now_us: int) -> bool:
        since, ms = log.unsynced_us, self.settings.sync.ms
        return bool(since) and ms is not None and now_us - since >= ms * US_PER_MS

    def _synced(self, log: PartitionLog, begun_us: int | None = None) -> None:
        begun_us = self._clock_us() if begun_us is None else begun_us
        try:
            log.sync(log.end)
        except (UnavailableError, OSError) as error:
            with self._careful():
                raise error
        self.counters.synced(self._clock_us() - begun_us)

    def flush(self) -> None:
        """Make everything durable that was appended.

        Raises:
            UnavailableError: the disk failed.
        """
        self._check()
        with self._lock:
            logs = [log for log in self._logs.values() if log.unsynced]
        for log in logs:
            self._synced(log)

    # ------------------------------------------------------------------------ partitions

    def log(self, topic: str, partition: int = 0) -> PartitionLog:
        """Return the log of a partition; it is made if there is none.

        Raises:
            CorruptError: it is damaged.
        """
        with self._lock:
            self._check()
            return self._logs.get((topic, partition)) or self._load(topic, partition)

    def partitions(self) -> list[tuple[str, int]]:
        """Return the topics and partitions in the folder."""
        return self.disk.partitions()

    def _load(self, topic: str, partition: int) -> PartitionLog:
        folder, name = named_folder(topic, partition), (topic, partition)
        begun = self._clock_us()
        with self._careful():
            self.disk.make(folder)
            found = recover(self.disk, folder, is_adopted=self._is_adopted)
        self.counters.recovered(found.cut_bytes, len(found.rebuilt), self._clock_us() - begun)
        if found.cut_bytes:
            _log.warning(
                "%s: %s bytes that were half written were cut off", folder, found.cut_bytes
            )
        log = PartitionLog(self.disk, folder, name, found, now_us=begun, settings=self.settings)
        if found.scanned.raw:
            self._seal(log)  # Segments of a spool hold envelopes only.
        self._logs[name] = log
        return log

    def seal(self, topic: str, partition: int = 0) -> None:
        """Seal the active segment of a partition, and begin the next.

        Raises:
            UnavailableError: the disk failed.
        """
        with self._lock:
            self._seal(self.log(topic, partition))

    def _seal(self, log: PartitionLog) -> None:
        if log.handle is None and log.active[1]:
            self._hold(log)
        with self._careful():
            log.seal()
        self.counters.rolled += 1

    # ------------------------------------------------------------------------ the end

    @contextlib.contextmanager
    def _careful(self) -> Iterator[None]:
        """Let what the disk refuses be FullError, or the end."""
        try:
            yield
        except UnavailableError as error:
            self._fail(error)
            raise
        except OSError as error:
            refusal = self.disk.refusal(error)
            if isinstance(refusal, UnavailableError):
                self._fail(refusal)
            raise refusal from error

    def _check(self) -> None:
        if self._failure is not None:
            raise UnavailableError(str(self._failure))
        if self._is_closed:
            raise InvalidInputError("this spool is closed: open it again")

    def _fail(self, error: UnavailableError) -> None:
        self._failure, self._is_over = self._failure or error, True

    def close(self) -> None:
        """Make all durable, and let others open the folder.

        Raises:
            UnavailableError: the disk failed. The folder can be opened again.
        """
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = self._is_over = True
            try:
                for log in self._logs.values():
                    if self._failure is None:
                        with self._careful():
                            log.close()
                    else:
                        log.let_go()
            finally:
                self.disk.system.close(self._lock_handle)
