"""Bytes by ranges, from files: what drives a format's walk on a disk.

Side files are opened and read before the size of the data file is taken. A broker writes to the
log first and to its indexes afterwards, so seen in this order no index speaks of a batch that we
do not see, even while the broker is writing.
"""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass

from lakelog.cli.dump.recognize import (
    HEAD_BYTES,
    SegmentFile,
    SideFile,
    recognize,
)
from lakelog.formats import Files, Format, Range

__all__ = ["OpenSegment", "open_segment", "read_side", "recognize_file"]

SIDE_BYTES_MAX = 64 * 1024 * 1024
"""The largest side file that is held; every decoder refuses larger ones."""


def recognize_file(path: str, told: Format | None = None) -> SegmentFile | SideFile:
    """Return what the file at ``path`` is; ``told`` is the format it is said to have.

    Raises:
        InvalidInputError: it is nothing we know.
        OSError: it cannot be read.
    """
    log_head = b""
    if path.endswith(".index"):
        with suppress(OSError):
            log_head = _head(f"{path.removesuffix('.index')}.log")
    return recognize(path, _head(path), log_head=log_head, told=told)


def _head(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123 (paths are shown as they were given)
        return file.read(HEAD_BYTES)


def read_side(path: str) -> bytes:
    """Return a side file; of one that is too large, one byte more than is allowed."""
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123
        return _read(file.fileno(), 0, SIDE_BYTES_MAX + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenSegment:
    """A segment whose files are open."""

    file: SegmentFile
    files: Files
    handle: int
    sides: dict[str, bytes | int]
    """Bytes, or a handle where they are too many."""

    @property
    def size(self) -> int:
        return self.files.sizes[self.file.format.suffix]

    def give(self, wish: Range) -> bytes:
        """Return the bytes of a range."""
        if wish.suffix == self.file.format.suffix:
            return _read(self.handle, wish.start, wish.end)
        side = self.sides[wish.suffix]
        if isinstance(side, int):
            return _read(side, wish.start, wish.end)
        return side[wish.start : wish.end]


@contextmanager
def open_segment(file: SegmentFile) -> Iterator[OpenSegment]:
    """Open a segment's files and close them afterwards."""
    with ExitStack() as stack:
        data = stack.enter_context(open(file.path, "rb", buffering=0))  # noqa: PTH123
        sides: dict[str, bytes | int] = {}
        sizes: dict[str, int] = {}
        for suffix in file.format.side_suffixes:
            with suppress(FileNotFoundError):
                side = stack.enter_context(open(file.beside(suffix), "rb", buffering=0))  # noqa: PTH123
                sizes[suffix] = size = os.fstat(side.fileno()).st_size
                is_small = size <= SIDE_BYTES_MAX
                sides[suffix] = _read(side.fileno(), 0, size) if is_small else side.fileno()
        sizes[file.format.suffix] = os.fstat(data.fileno()).st_size
        yield OpenSegment(
            file=file,
            files=Files(base_offset=file.base_offset, sizes=sizes),
            handle=data.fileno(),
            sides=sides,
        )


def _read(handle: int, start: int, end: int) -> bytes:
    """Return bytes ``[start, end)``; less only where the file ends."""
    data = os.pread(handle, end - start, start)
    if len(data) == end - start or not data:
        return data
    parts = [data]
    at = start + len(data)
    while at < end and (data := os.pread(handle, end - at, at)):
        parts.append(data)
        at += len(data)
    return b"".join(parts)
