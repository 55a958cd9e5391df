"""What goes to stderr: damage, how far we are, and how it ended.

Damage is told where it is met, and summed up at the end in one line that closes with a command to
try next. Progress is drawn only for people: when stderr is a terminal, and stdout is not the same
one, where it would run into the output.
"""

import shlex
import time
from collections.abc import Sequence
from typing import TextIO

from lakelog.cli.dump.reading import Fault
from lakelog.cli.output import Output

__all__ = ["Report"]

DRAW_EVERY_S = 0.2
_ERASE = "\r\x1b[K"


class Report:
    """Counts what is wrong, and tells."""

    def __init__(self, stderr: TextIO, output: Output) -> None:
        self._stderr = stderr
        self._output = output
        self._is_drawing = stderr.isatty() and not output.is_terminal
        self._is_drawn = False
        self._drawn_at = self._began_at = time.monotonic()
        self.faults = 0
        self.bytes_affected = 0
        self.files = 0
        self.damaged: dict[str, None] = {}
        """Paths of damaged files, in order."""
        self.unread = 0

    @property
    def exit_code(self) -> int:
        """1 when something is damaged, 2 when something could not be read at all."""
        if self.faults:
            return 1
        return 2 if self.unread else 0

    def fault(self, fault: Fault) -> None:
        """Tell of damage."""
        self.faults += 1
        self.bytes_affected += fault.size
        self.damaged.setdefault(fault.path)
        skipped = f"; {fault.size} bytes affected" if fault.size else ""
        self.say(f"{fault.path} at byte {fault.position}: {fault.what}{skipped}")

    def refuse(self, why: object) -> None:
        """Tell of a file that cannot be read."""
        self.unread += 1
        self.say(str(why))

    def say(self, line: str) -> None:
        """Write a line, behind all output so far."""
        self._output.flush()
        self._erase()
        shown = line.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        self._stderr.write(f"lakelog: {shown}\n")
        self._stderr.flush()

    def begin_file(self) -> None:
        self.files += 1
        self._began_at = time.monotonic()

    def progress(self, path: str, done: int, size: int, records: int) -> None:
        """Show how far a file has been read, now and then."""
        if not self._is_drawing:
            return
        now = time.monotonic()
        if now - self._drawn_at < DRAW_EVERY_S:
            return
        self._drawn_at = now
        left_s = (now - self._began_at) * (size - done) / max(done, 1)
        self._stderr.write(
            f"{_ERASE}{path}: {_mebibytes(done)} of {_mebibytes(size)} MiB, "
            f"{records:,} records, {left_s:.0f} s left"
        )
        self._stderr.flush()
        self._is_drawn = True

    def close(self, following: Sequence[str]) -> None:
        """Sum up what was damaged; ``following`` is the command to try next."""
        self._erase()
        if self.faults:
            places = _several(self.faults, "place")
            files = _several(len(self.damaged), "file")
            self.say(
                f"damage in {places}, in {files}, {self.bytes_affected} bytes affected; "
                f"next: {shlex.join(following)}"
            )

    def _erase(self) -> None:
        if self._is_drawn:
            self._stderr.write(_ERASE)
            self._is_drawn = False


def _several(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _mebibytes(size: int) -> str:
    return f"{size / (1 << 20):.1f}"
