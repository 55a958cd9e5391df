"""What `lakelog dump` and `lakelog inspect` have in common: arguments, stdout, stderr and the end.

stdout gets text in large pieces, but never late. Lines are gathered and written together, since a
write for each would cost more than making it. Yet people who look at a large file want its first
line at once, and on a terminal every line: so what was gathered is written when it is large, when
it is old, and always on a terminal.

stderr gets damage, progress, and how it ended. Damage is reported where it is found, and summed up
at the end in one line that closes with a command to try next. Progress is drawn only for people:
when stderr is a terminal, and stdout is not the same one, where it would run into the output.
"""

import os
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO, TextIO, TypeVar

import click

from lakelog.cli.dump.reading import Fault
from lakelog.cli.tables import counted
from lakelog.errors import InvalidInputError
from lakelog.formats import FORMATS

__all__ = ["Output", "Report", "format_option", "paths_argument", "readable", "streams"]

F = TypeVar("F", bound=Callable[..., Any])
PIECE_CHARS = 128 * 1024
DELAY_S_MAX = 0.1
DRAW_EVERY_S = 0.2
_ERASE = "\r\x1b[K"


def paths_argument(command: F) -> F:
    kind = click.Path(exists=True)
    return click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=kind)(command)


def format_option(command: F) -> F:
    """Add ``--format``, of which the command gets the format itself, or None."""
    option = click.option(
        "--format",
        "given_format",
        type=click.Choice(list(FORMATS)),
        callback=lambda _ctx, _param, name: FORMATS.get(name),
        help="The format of data files; recognized by name and first bytes unless given.",
    )
    return option(command)


class Output:
    """Gathers text and writes it as UTF-8."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.is_terminal = stream.isatty()
        self._parts: list[str] = []
        self._chars = 0
        self._written_at = -DELAY_S_MAX

    def write(self, text: str) -> None:
        """Write ``text``, which ends in a newline, sooner or later."""
        self._parts.append(text)
        self._chars += len(text)
        is_old = time.monotonic() - self._written_at >= DELAY_S_MAX
        if self._chars >= PIECE_CHARS or is_old or self.is_terminal:
            self.flush()

    def flush(self) -> None:
        """Write what was gathered."""
        if self._parts:
            # A path that is not UTF-8 comes with surrogate escapes, and goes out as it was.
            data = "".join(self._parts).encode("utf-8", "surrogateescape")
            self._parts.clear()
            self._chars = 0
            try:
                self._stream.write(data)
                self._stream.flush()
            except BrokenPipeError:
                raise
            except OSError as error:
                raise click.ClickException(f"cannot write to stdout: {error.strerror}") from error
        self._written_at = time.monotonic()


class Report:
    """Counts what is wrong, and reports it."""

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
        """Report damage."""
        self.faults += 1
        self.bytes_affected += fault.size
        self.damaged.setdefault(fault.path)
        skipped = f"; {fault.size} bytes affected" if fault.size else ""
        self.say(f"{fault.path} at byte {fault.position}: {fault.what}{skipped}")

    def refuse(self, why: object) -> None:
        """Report a file that cannot be read."""
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

    def close(self, paths: Sequence[str], following: Sequence[str]) -> None:
        """Sum up what was damaged in ``paths``; ``following`` is the command to try next."""
        if not self.files and not self.unread:
            self.refuse(f"no segments in {', '.join(paths)}")
        self._erase()
        if self.faults:
            places = counted(self.faults, "place")
            files = counted(len(self.damaged), "file")
            self.say(
                f"damage in {places}, in {files}, {self.bytes_affected} bytes affected; "
                f"next: {shlex.join(following)}"
            )

    def _erase(self) -> None:
        if self._is_drawn:
            self._stderr.write(_ERASE)
            self._is_drawn = False


def _mebibytes(size: int) -> str:
    return f"{size / (1 << 20):.1f}"


@contextmanager
def readable(path: str, report: Report) -> Iterator[None]:
    """Go on with the next file when this one cannot be read; say so on stderr."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        report.refuse(f"{path}: {error.strerror}")
    except InvalidInputError as error:
        report.refuse(error)


@contextmanager
def streams() -> Iterator[tuple[Output, Report]]:
    """Give stdout and stderr, and end quietly when stdout is closed."""
    output = Output(sys.stdout.buffer)
    report = Report(sys.stderr, output)
    try:
        yield output, report
        output.flush()
    except BrokenPipeError:
        # The interpreter flushes stdout once more when it ends; let that go nowhere.
        with suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, sys.stdout.fileno())
    sys.exit(report.exit_code)
