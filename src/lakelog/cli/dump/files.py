"""The files of segments: which format each is in, and their bytes by ranges.

The name decides where it can: suffix, and base offset before it. Kafka and RustLog both call their
files .log and .index, so there the first bytes decide; and a file that was renamed on its way here
is recognized by its first bytes alone, if its format has a magic or its suffix was kept.

Side files are opened and read before the size of the data file is taken. A broker writes to the
log first and to its indexes afterwards, so seen in this order no index speaks of a batch that we
do not see, even while the broker is writing.
"""

import os
import struct
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import PurePath

from lakelog.errors import InvalidInputError
from lakelog.formats import FORMATS, Files, Format, Range, kafkalog, kafs, rustlog, strm

__all__ = [
    "HEAD_BYTES",
    "SIDE_BYTES_MAX",
    "OpenSegment",
    "SegmentFile",
    "SideFile",
    "base_offset_of",
    "is_side_name",
    "open_segment",
    "read_range",
    "read_side",
    "recognize",
    "recognize_file",
]

HEAD_BYTES = 4096
"""How much of a file is looked at to recognize it."""
SIDE_BYTES_MAX = 64 * 1024 * 1024
"""The largest side file that is kept in memory; every decoder refuses larger ones."""

SIDE_NAMES = {
    kafkalog.LEADER_EPOCHS_NAME: kafkalog.FORMAT,
    kafkalog.METADATA_NAME: kafkalog.FORMAT,
    rustlog.CHECKPOINT_NAME: rustlog.FORMAT,
}

# Kafka renames files that are to be deleted or swapped in; they can be named and shown too.
_PASSING_SUFFIXES = (".deleted", ".cleaned", ".swap")
_KAFS_INDEX_MAGIC = b"IDX\0"
# Where each format repeats the base offset, or has its first record's.
_BASE_OFFSET_AT = {"kafkalog": 0, "kafs": 8, "strm": 20, "rustlog": 4}
_I64 = struct.Struct(">q")

_BY_SUFFIX: dict[str, list[Format]] = {}
# RustLog comes last: it has no magic, so without a name to go by everything looks like one.
for _row in sorted(FORMATS.values(), key=lambda row: row is rustlog.FORMAT):
    _BY_SUFFIX.setdefault(_row.suffix, []).append(_row)
_SIDE_SUFFIXES = {suffix for row in FORMATS.values() for suffix in row.side_suffixes}


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentFile:
    """A data file, and where its side files would be."""

    path: str
    format: Format
    base_offset: int
    stem: str
    """The path without its suffix."""
    tail: str = ""
    """What Kafka put behind the suffix."""

    def beside(self, suffix: str) -> str:
        """Return the path of the file with ``suffix``."""
        return self.path if suffix == self.format.suffix else f"{self.stem}{suffix}{self.tail}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SideFile:
    """A file that says something of a segment, named on its own."""

    path: str
    format: Format
    kind: str
    """Its suffix, or its name where it has no other."""
    base_offset: int


def base_offset_of(name: str) -> int | None:
    """Return the base offset if a file is, by its name, the data file of a segment."""
    stem, dot, suffix = name.rpartition(".")
    for row in _BY_SUFFIX.get(dot + suffix, ()):
        base_offset = row.base_offset(stem)
        if base_offset is not None:
            return base_offset
    return None


def is_side_name(name: str) -> bool:
    """Whether a file in a directory is, by its name, one that lies beside segments."""
    stem, dot, suffix = name.rpartition(".")
    if name in SIDE_NAMES:
        return True
    if dot + suffix not in _SIDE_SUFFIXES:
        return False
    return any(row.base_offset(stem) is not None for row in FORMATS.values())


def recognize(
    path: str, head: bytes, *, log_head: bytes = b"", given: Format | None = None
) -> SegmentFile | SideFile:
    """Return what the file at ``path`` is, by its name and its first bytes.

    ``log_head`` are the first bytes of the .log beside it, if there is one. ``given`` is the format
    of a data file whose name and bytes do not show it.

    Raises:
        InvalidInputError: it is of no known format.
    """
    name = PurePath(path).name
    if name in SIDE_NAMES:
        return SideFile(path=path, format=SIDE_NAMES[name], kind=name, base_offset=0)
    tail = next((passing for passing in _PASSING_SUFFIXES if name.endswith(passing)), "")
    suffix = PurePath(name.removesuffix(tail)).suffix
    stem = name.removesuffix(suffix + tail)
    by_magic = [row for row in (kafs.FORMAT, strm.FORMAT) if row.sniff(head, 0)]
    is_side = suffix in _SIDE_SUFFIXES or head.startswith(_KAFS_INDEX_MAGIC)
    rows = by_magic or _BY_SUFFIX.get(suffix, [])
    if given is not None and not is_side:
        rows = [given]
    if rows and not is_side:
        row, base_offset = _judge(rows, stem, path, head)
        end = len(path) - len(tail) - len(suffix)
        return SegmentFile(
            path=path, format=row, base_offset=base_offset, stem=path[:end], tail=tail
        )
    if is_side:
        row, base_offset = _judge_side(stem, path, head, log_head)
        kind = ".index" if row is kafs.FORMAT else suffix
        return SideFile(path=path, format=row, kind=kind, base_offset=base_offset)
    raise InvalidInputError(f"{path}: not a segment of any format, nor a file beside one")


def _judge(rows: Sequence[Format], stem: str, path: str, head: bytes) -> tuple[Format, int]:
    """Return the row whose data file this is, and its base offset."""
    found = [(row, _base_offset(row, stem, head)) for row in rows]
    for row, base_offset in found:
        if row.sniff(head, base_offset):
            return row, base_offset
    # The first bytes are damaged, so the path decides.
    is_rustlog = _is_rustlog_path(path)
    return next((pair for pair in found if (pair[0] is rustlog.FORMAT) == is_rustlog), found[0])


def _base_offset(row: Format, stem: str, head: bytes) -> int:
    named = row.base_offset(stem)
    if named is not None:
        return named
    at = _BASE_OFFSET_AT[row.name]
    inside: int = _I64.unpack_from(head, at)[0] if len(head) >= at + _I64.size else 0
    return max(inside, 0)


def _is_rustlog_path(path: str) -> bool:
    """Say whether a file is where RustLog keeps its partitions, and no other format does."""
    return "partitions" in PurePath(path).parts[-3:-2]


def _judge_side(stem: str, path: str, head: bytes, log_head: bytes) -> tuple[Format, int]:
    if head.startswith(_KAFS_INDEX_MAGIC) or kafs.FORMAT.base_offset(stem) is not None:
        return kafs.FORMAT, kafs.FORMAT.base_offset(stem) or 0
    base_offset = kafkalog.FORMAT.base_offset(stem) or 0
    if log_head:
        return _judge(_BY_SUFFIX[kafkalog.FORMAT.suffix], stem, path, log_head)[0], base_offset
    return (rustlog.FORMAT if _is_rustlog_path(path) else kafkalog.FORMAT), base_offset


def recognize_file(path: str, given: Format | None = None) -> SegmentFile | SideFile:
    """Return what the file at ``path`` is; ``given`` is the format it is said to have.

    Raises:
        InvalidInputError: it is of no known format.
        OSError: it cannot be read.
    """
    log_head = b""
    if path.endswith(".index"):
        with suppress(OSError):
            log_head = _head(f"{path.removesuffix('.index')}.log")
    return recognize(path, _head(path), log_head=log_head, given=given)


def _head(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123 (paths are shown as they were given)
        return file.read(HEAD_BYTES)


def read_side(path: str) -> bytes:
    """Return a side file; of one that is too large, one byte more than is allowed."""
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123
        return read_range(file.fileno(), 0, SIDE_BYTES_MAX + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenSegment:
    """A segment whose files are open."""

    file: SegmentFile
    files: Files
    contents: dict[str, bytes | int]
    """By suffix: a side file's bytes; a handle of the data file, and of a large side file."""

    @property
    def size(self) -> int:
        return self.files.sizes[self.file.format.suffix]

    def give(self, wanted: Range) -> bytes:
        """Return the bytes of a range."""
        found = self.contents[wanted.suffix]
        if isinstance(found, int):
            return read_range(found, wanted.start, wanted.end)
        return found[wanted.start : wanted.end]


@contextmanager
def open_segment(file: SegmentFile) -> Iterator[OpenSegment]:
    """Open a segment's files and close them afterwards."""
    with ExitStack() as stack:
        data = stack.enter_context(open(file.path, "rb", buffering=0))  # noqa: PTH123
        contents: dict[str, bytes | int] = {file.format.suffix: data.fileno()}
        sizes: dict[str, int] = {}
        for suffix in file.format.side_suffixes:
            with suppress(FileNotFoundError):
                side = stack.enter_context(open(file.beside(suffix), "rb", buffering=0))  # noqa: PTH123
                sizes[suffix] = size = os.fstat(side.fileno()).st_size
                is_small = size <= SIDE_BYTES_MAX
                contents[suffix] = read_range(side.fileno(), 0, size) if is_small else side.fileno()
        sizes[file.format.suffix] = os.fstat(data.fileno()).st_size
        files = Files(base_offset=file.base_offset, sizes=sizes)
        yield OpenSegment(file=file, files=files, contents=contents)


def read_range(handle: int, start: int, end: int) -> bytes:
    """Return bytes ``[start, end)``; less only where the file ends."""
    parts: list[bytes] = []
    while start < end and (data := os.pread(handle, end - start, start)):
        parts.append(data)
        start += len(data)
    return b"".join(parts)
