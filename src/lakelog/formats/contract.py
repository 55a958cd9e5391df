"""What every segment format offers, so that all are read, dumped, verified and tested alike.

A segment is a data file and perhaps side files, named by suffix: ``{".kfs": ..., ".index": ...}``.
Nothing here touches a disk or a socket. Code that needs bytes is a generator that yields a
``Range`` and is sent those bytes; whoever drives it decides where they come from: a buffer, a
file, a range GET, an event loop.

    Ranged[T]   yields Ranges, returns a T                      open a segment, look up an offset
    Walk        yields Ranges, and also Blocks and Damages      every byte of a segment, in order

A ``Walk`` is the one full reader of a format: it checks everything the format lets it check, goes
on behind damage where it can, and holds no more than a few blocks at a time.

Of blocks outside its ``span`` a walk checks all that can be checked without looking at records:
framing, checksums, order, counts, and what header, footer and side files say of them. That is a
hundred times faster, so who wants both cuts a segment into spans: every walk checks the whole, and
each one the records of its part.
"""

from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeVar

from lakelog.errors import CorruptError, UnsupportedError
from lakelog.flows import items_of, run
from lakelog.model import Record
from lakelog.records import BatchHeader, Codec

__all__ = [
    "EVERYTHING",
    "NOTHING",
    "Block",
    "Bytes",
    "Carries",
    "Damage",
    "Files",
    "Format",
    "Found",
    "IndexEntry",
    "Range",
    "Ranged",
    "Segment",
    "Span",
    "Walk",
    "Walker",
    "Window",
    "damage_or",
    "drive_items",
    "fetch",
    "fetch_file",
    "offset_stem",
    "run",
    "stem_offset",
    "walk_blocks",
]

T = TypeVar("T")
Bytes = bytes | bytearray | memoryview

CHUNK_BYTES = 1 << 20
"""What a walk asks for at a time: large enough for an object store, small enough for a laptop."""

SWEEP_BYTES = 8 << 20
"""The same, where records are not looked at: bytes go by too fast for many small requests."""

Span = tuple[int, int]
"""Positions ``[start, end)`` of the data file."""

EVERYTHING: Span = (0, 1 << 63)
NOTHING: Span = (0, 0)

OFFSET_MAX = (1 << 63) - 2
"""The last offset that a record can have: the one behind it must fit 63 bits as well."""

_STEM_DIGITS = 20


@dataclass(frozen=True, slots=True)
class Range:
    """A request for bytes ``[start, end)`` of a file; the answer is shorter only where it ends."""

    suffix: str
    start: int
    end: int


Ranged = Generator[Range, Any, T]


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """What is known of a segment before a byte is read: its name and the size of each file."""

    base_offset: int
    """From the name. Formats that repeat it inside check that the two agree."""

    sizes: Mapping[str, int]
    """Bytes by suffix. A side file that is not listed is not there."""

    active: bool = False
    """Whether a writer may still be appending: then an incomplete end is not damage."""


class Block(NamedTuple):
    """Neighbouring records that a format stores as one piece: a batch, a block, a single record.

    A tuple, for there are many: see BatchHeader.
    """

    position: int
    size: int
    count: int  # type: ignore[assignment]  # It hides a method of tuples that nobody needs.
    """How many records it holds; outside the walk's span, how many it says it holds."""

    records: tuple[Record, ...] = ()
    """None, outside the walk's span."""

    header: BatchHeader | None = None
    """The header, where the piece is a Kafka record batch."""

    next_offset: int = 0
    """Behind its last record; 0 where only its records would tell, and they are not read. Of the
    last block of a segment it is always known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """Something that no correct writer made, or that this reader cannot read."""

    error: CorruptError | UnsupportedError
    """``error.at`` is where it shows; ``error.where`` is the suffix of the file."""

    position: int
    """Where that begins which is skipped because of it; ``error.at`` when nothing is."""

    size: int = 0
    """How many bytes are skipped because of it; 0 when nothing is."""

    header: BatchHeader | None = None
    """The header, where it could be read and only what follows it is bad."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexEntry:
    """Where a block or a record begins, and the offset of its first record."""

    offset: int
    position: int


Found = Block | Damage
Walk = Generator[Range | Found, Any, None]


class Walker(Protocol):
    """Begins a walk."""

    def __call__(self, files: Files, *, span: Span = EVERYTHING) -> Walk:
        """Walk a segment; records are read of blocks whose position lies in ``span``."""
        ...


class Segment(Protocol):
    """An opened segment: header, footer and index have been read and checked, the rest has not."""

    @property
    def base_offset(self) -> int: ...

    def read_from(self, offset: int, limit: int) -> Ranged[tuple[Record, ...]]:
        """Return at most ``limit`` records from the first one at or after ``offset``.

        Reads only what it must. Raises CorruptError or UnsupportedError on what it meets.
        """
        ...

    def offset_at(self, timestamp: int) -> Ranged[int | None]:
        """Return the first offset whose record is not older than ``timestamp``, or None."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Carries:
    """What of a record survives in a format. Conversions lose the rest, and say so."""

    keys: bool = True
    null_values: bool = True
    headers: bool = True
    gaps: bool = True
    """Offsets that are missing between two records."""
    time_order: bool = False
    """Whether timestamps may not go down."""
    timestamp_types: bool = True
    """Whether create time and log append time are told apart."""
    codecs: frozenset[Codec] = field(default_factory=lambda: frozenset(Codec))


def offset_stem(base_offset: int) -> str:
    """Return the name that files have after an offset: twenty digits."""
    return f"{base_offset:0{_STEM_DIGITS}d}"


def stem_offset(stem: str) -> int | None:
    """Return the offset of which ``stem`` is the name; None: it is another kind of name."""
    if len(stem) != _STEM_DIGITS or not (stem.isascii() and stem.isdecimal()):
        return None
    offset = int(stem)
    return offset if offset <= OFFSET_MAX else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """One segment format: a row of FORMATS."""

    name: str
    title: str
    suffix: str
    """Of the data file."""

    side_suffixes: tuple[str, ...]
    carries: Carries
    default_codec: Codec = Codec.NONE
    """How a segment is compressed if nobody says how."""

    sealed: bool
    """Whether a checksum over the whole file makes every flipped bit and every cut noticed."""

    checksums: bool
    """Whether records are under a checksum at all. If not, a reader that finds nothing wrong has
    verified nothing."""

    file_stem: Callable[[int], str] = offset_stem
    """Base offset -> file name without its suffix."""

    base_offset: Callable[[str], int | None] = stem_offset
    """File name without its suffix -> base offset; None when it is not a name of this format."""

    sniff: Callable[[bytes, int], bool]
    """First bytes of a data file and its base offset -> can it be this format?"""

    walk: Walker
    open: Callable[[Files], Ranged[Segment]]


# ---------------------------------------------------------------------------- asking for bytes


def fetch(suffix: str, start: int, end: int) -> Ranged[bytes]:
    """Ask for a range: ``data = yield from fetch(".kfs", 0, 32)``.

    An empty one is not asked for: a store refuses it.
    """
    data: bytes = (yield Range(suffix, start, end)) if start < end else b""
    return data


def fetch_file(files: Files, suffix: str, bytes_max: int) -> Ranged[bytes | None]:
    """Return a side file whole, or None when there is none.

    Raises:
        UnsupportedError: it has more than ``bytes_max`` bytes.
    """
    size = files.sizes.get(suffix)
    if size is None:
        return None
    if size > bytes_max:
        raise UnsupportedError(
            f"{size} bytes are over the limit of {bytes_max}", at=0, where=suffix
        )
    return (yield from fetch(suffix, 0, size))


def damage_or(flow: Ranged[T]) -> Generator[Range | Found, Any, T | None]:
    """Return what a part of a walk finds; None, and a Damage on the way, when it fails."""
    try:
        return (yield from flow)
    except (CorruptError, UnsupportedError) as error:
        yield Damage(error=error, position=error.at)
        return None


class Window:
    """A view of one file that moves forward: asks for large pieces, hands out small ones."""

    def __init__(self, suffix: str, size: int, *, chunk_bytes: int = CHUNK_BYTES) -> None:
        self.suffix = suffix
        self.size = size
        self._chunk_bytes = chunk_bytes
        self._start = 0
        self._data = memoryview(b"")

    def read(self, start: int, end: int) -> Ranged[memoryview]:
        """Return ``[start, end)`` of the file, less where it ends."""
        end = min(end, self.size)
        data_end = self._start + len(self._data)
        if start >= end:
            return memoryview(b"")
        if not self._start <= start <= end <= data_end:
            ahead = min(self.size, max(end, start + self._chunk_bytes))
            if self._start <= start < data_end:
                kept = self._data[start - self._start :]
                more = yield from fetch(self.suffix, data_end, ahead)
                self._data = memoryview(b"".join((kept, more)))
            else:
                self._data = memoryview((yield from fetch(self.suffix, start, ahead)))
            self._start = start
        at = start - self._start
        return self._data[at : at + end - start]

    def ahead(self, start: int, least: int) -> Ranged[memoryview]:
        """Return all that is held from ``start`` on: ``least`` bytes, or to where the file ends.

        Where less is held it is asked for again together with what follows: to ask twice for the
        beginning of a block is cheaper than to copy all that comes behind it.
        """
        least = min(least, self.size - start)
        if not self._start <= start <= self._start + len(self._data) - least:
            self._data = memoryview(b"")  # Let go first, so that its memory is used again.
            end = min(self.size, start + max(least, self._chunk_bytes))
            self._data = memoryview((yield from fetch(self.suffix, start, end)))
            self._start = start
        return self._data[start - self._start :]


# ---------------------------------------------------------------------------- giving bytes


def drive_items(
    flow: Generator[Range | T, Any, None], give: Callable[[Range], bytes]
) -> Iterator[T]:
    """Run a flow that also yields what it finds: give it bytes, and pass the rest on."""
    return items_of(flow, Range, give)


def walk_blocks(walk: Walk, give: Callable[[Range], bytes]) -> Iterator[Block | Damage]:
    """Run a walk, giving it bytes and passing on what it finds."""
    return drive_items(walk, give)
