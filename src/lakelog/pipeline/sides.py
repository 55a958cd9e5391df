"""Where records come from, for a conversion or a comparison.

    a layout (kafka, kafs, strm, rustlog)   segments in a store
    parquet                                 files by day in a store
    lakelog                                 a namespace of ours, history and journal
    live                                    a running Kafka

Each lists what it has as pieces (a segment, the files of one, a partition), each piece with its
topic, partition and first offset, and reads a range of offsets of a piece as Arrow. A read is a
generator of store requests and of batches.

Of a namespace there is a piece for each segment, and one for what of a partition is still in the
journal. Where it lies may change while it waits to be read; it is read wherever it lies by then.
"""

from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakelog.errors import CorruptError, InvalidInputError
from lakelog.flows import Items, asked_for
from lakelog.formats import FORMATS, Carries
from lakelog.log import Extent, LocatedRange, Survey, look_at, sealed_ranges
from lakelog.log.rows import read_task
from lakelog.model import Rules
from lakelog.pipeline.frame import StoreRequest, Subject, at_store
from lakelog.pipeline.kafka_reader import KafkaPartition, list_live, read_live
from lakelog.pipeline.listing import list_segments, whole
from lakelog.pipeline.parquet import ParquetGroup, list_groups, read_group
from lakelog.ports import Host
from lakelog.records import OFFSET_MAX
from lakelog.segments import LAYOUTS, NAMESPACE, SegmentRef, Selection
from lakelog.segments.read import read_part
from lakelog.store import LIST_LIMIT_MAX, Usage, run

__all__ = [
    "SIDES",
    "LogPiece",
    "Piece",
    "Stream",
    "carries_of",
    "expected_reads",
    "list_namespace",
    "list_pieces",
    "object_of",
    "read_namespace",
    "read_piece",
    "subject_of",
]


@dataclass(frozen=True, slots=True)
class LogPiece:
    """Offsets of a partition, the rules of its namespace, and by which clocks it is read."""

    located: LocatedRange
    rules: Rules
    host: Host

    @property
    def topic(self) -> str:
        return self.located.member.topic

    @property
    def partition(self) -> int:
        return self.located.member.partition

    @property
    def base_offset(self) -> int:
        return self.located.base_offset

    @property
    def size(self) -> int:
        return self.located.size

    @property
    def object(self) -> str:
        return str(self.located.member)


Piece = SegmentRef | ParquetGroup | KafkaPartition | LogPiece
Stream = Generator[StoreRequest | pa.RecordBatch, Any, None]

PARQUET, LIVE = "parquet", "live"
SIDES = (*LAYOUTS, PARQUET, NAMESPACE, LIVE)
"""Everything that can be read."""

PIECE_BYTES = 8 * 1024 * 1024
"""What one request reads, about."""


def carries_of(layout: str) -> Carries:
    """Return what of a record survives on a side.

    Raises:
        InvalidInputError: there is no such side.
    """
    if layout in LAYOUTS:
        return FORMATS[LAYOUTS[layout].format].carries
    if layout in (PARQUET, NAMESPACE, LIVE):
        return Carries()
    raise InvalidInputError(f"no layout {layout!r}; there are {', '.join(SIDES)}")


def list_pieces(
    perform: Callable[[Any], Any], layout: str, selection: Selection, host: Host
) -> list[SegmentRef] | list[ParquetGroup] | list[KafkaPartition] | list[LogPiece]:
    """Return the pieces of a side, partition by partition, in the order of offsets."""
    if layout == PARQUET:
        return list_groups(perform, selection)
    if layout == NAMESPACE:
        return list_namespace(perform, selection, host)
    if layout == LIVE:
        return list_live(perform, selection)
    return list_segments(perform, layout, selection)


def expected_reads(pieces: Iterable[Piece], *, passes: int = 1) -> tuple[int, Usage]:
    """Return how many objects there are to read, and about what that takes, listing included."""
    objects = total = gets = 0
    for piece in pieces:
        for size in _sizes(piece):
            objects += 1
            gets += passes * -(-size // PIECE_BYTES)
            total += passes * size
    lists = objects // LIST_LIMIT_MAX + 1
    return objects, Usage(requests={"get": gets, "list": lists}, bytes_read=total)


def _sizes(piece: Piece) -> Iterable[int]:
    if isinstance(piece, SegmentRef):
        return piece.sizes.values()
    if isinstance(piece, LogPiece):
        return (piece.size,)
    return (size for _, size in piece.objects) if isinstance(piece, ParquetGroup) else ()


def object_of(piece: Piece) -> str:
    """Return the name by which people know a piece."""
    return piece.key(piece.fmt.suffix) if isinstance(piece, SegmentRef) else piece.object


def subject_of(piece: Piece) -> Subject:
    """Return what a result about a piece is about."""
    return Subject(piece.topic, piece.partition, piece.base_offset, object_of(piece))


def read_piece(
    piece: Piece,
    store: str,
    columns: Iterable[str],
    *,
    offset_from: int = 0,
    offset_to: int = OFFSET_MAX,
    **settings: Any,
) -> Stream:
    """Yield the records of a piece, and on the way what it takes to read them.

    Settings are those of segments.read.read_part, and for segments only.

    Raises:
        CorruptError, UnsupportedError: something is wrong with a segment.
    """
    chosen = tuple(columns)
    if isinstance(piece, SegmentRef):
        flow = read_part(whole(piece, offset_from, offset_to), chosen, **settings)
        yield from at_store(store, flow)
    elif isinstance(piece, ParquetGroup):
        yield from _within(read_group(piece, store, chosen), offset_from, offset_to)
    elif isinstance(piece, LogPiece):
        yield from read_namespace(piece, store, chosen, offset_from, offset_to)
    else:
        yield from read_live(piece, store, chosen, offset_from, offset_to)


def _within(stream: Stream, offset_from: int, offset_to: int) -> Stream:
    """Yield only records of a range of offsets."""
    found = Items(stream, StoreRequest, asked_for)
    while True:
        try:
            item = yield from found.next()
        except pa.ArrowInvalid as error:
            raise CorruptError(f"not Parquet: {error}", at=0) from error
        if item is None:
            return
        offsets = item.column("offset")
        wanted = pc.and_(pc.greater_equal(offsets, offset_from), pc.less(offsets, offset_to))
        if (kept := item.filter(wanted)).num_rows:
            yield kept


# ---------------------------------------------------------------------------- a namespace


def list_namespace(
    perform: Callable[[Any], Any], selection: Selection, host: Host
) -> list[LogPiece]:
    """Return the pieces of the partitions that are wanted, in the order of offsets."""
    survey, extents = run(look_at(selection, *host), perform)
    return [
        LogPiece(located, survey.rules, host) for extent in extents for located in _spans(extent)
    ]


def _spans(extent: Extent) -> Iterable[LocatedRange]:
    yield from sealed_ranges(extent, extent.log_start, extent.sealed_end)
    start = max(extent.log_start, extent.sealed_end)
    if start < extent.end:
        yield LocatedRange(extent.member, start, extent.end, 0, None)


def read_namespace(
    piece: LogPiece, store: str, columns: Iterable[str], offset_from: int, offset_to: int
) -> Generator[StoreRequest | pa.RecordBatch, Any, None]:
    """Yield the records of a range of offsets."""
    located = piece.located
    base, next_ = max(located.base_offset, offset_from), min(located.next_offset, offset_to)
    if base >= next_:
        return
    survey = Survey(rules=piece.rules, clock=piece.host.clock, ids=piece.host.ids)
    wanted = located._replace(base_offset=base, next_offset=next_)
    # What is gone is looked for elsewhere.
    yield from at_store(store, read_task([wanted], survey.lane, columns))
