"""Tables about a log, beside that of its records: its segments, and its batches.

    segments   a row for each segment, from names and sizes alone; nothing is opened
    batches    a row for each batch (block, single record) and each damage, by a walk that checks
               everything but looks at no record

Both show what lies there: every copy that a broker holds, and what DeleteRecords took, too; where a
manifest lies beside segments, what it names. A column that a format cannot fill is null. So is
``min_timestamp`` of most batches, whose header tells only the first time and the latest.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import pyarrow as pa

from lakelog.errors import InvalidInputError
from lakelog.formats import NOTHING, Block, Damage, Range, walk_blocks
from lakelog.model import TimestampType
from lakelog.records import OFFSET_MAX, BatchHeader
from lakelog.segments.segments import ReadTask, SegmentRef
from lakelog.store import Perform, run

__all__ = [
    "TABLES",
    "TIME",
    "read_batches",
    "read_segments",
    "table_batches",
    "table_schema",
    "time_us",
]

_ROWS = 8192
TIME = pa.timestamp("us", tz="UTC")
_TIME_MAX = ((1 << 63) - 1) // 1000

TABLES = {
    "segments": {
        "topic": pa.string(),
        "partition": pa.int32(),
        "base_offset": pa.int64(),
        "next_offset": pa.int64(),
        "format": pa.string(),
        "object": pa.string(),
        "bytes": pa.int64(),
        "index_bytes": pa.int64(),
        "active": pa.bool_(),
    },
    "batches": {
        "topic": pa.string(),
        "partition": pa.int32(),
        "object": pa.string(),
        "position": pa.int64(),
        "bytes": pa.int64(),
        "base_offset": pa.int64(),
        "next_offset": pa.int64(),
        "records": pa.int64(),
        "codec": pa.string(),
        "timestamp_type": pa.int32(),
        "min_timestamp": TIME,
        "max_timestamp": TIME,
        "leader_epoch": pa.int32(),
        "producer_id": pa.int64(),
        "producer_epoch": pa.int32(),
        "base_sequence": pa.int32(),
        "transactional": pa.bool_(),
        "control": pa.bool_(),
        "error": pa.string(),
    },
}

Tables = Mapping[str, Mapping[str, pa.DataType]]
"""Columns of tables, and their types."""

Row = tuple[Any, ...]
_NO_HEADER: Row = (None,) * 13


def table_schema(
    table: str, columns: Iterable[str] | None = None, tables: Tables = TABLES
) -> pa.Schema:
    """Return the schema of a table, or of some of its columns.

    Raises:
        InvalidInputError: there is no such table, or no such column in it.
    """
    if table not in tables:
        raise InvalidInputError(f"no table {table!r}; there are {', '.join(tables)}")
    types = tables[table]
    chosen = tuple(types if columns is None else columns)
    for name in chosen:
        if name not in types:
            raise InvalidInputError(f"no column {name!r}; there are {', '.join(types)}")
    return pa.schema([pa.field(name, types[name]) for name in chosen])


def read_segments(
    segments: Iterable[SegmentRef], columns: Iterable[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the table of segments."""
    return table_batches("segments", map(_segment_row, segments), columns)


def _segment_row(segment: SegmentRef) -> Row:
    end, size = segment.next_offset_max, segment.size
    return (
        segment.topic,
        segment.partition,
        segment.base_offset,
        None if end == OFFSET_MAX else end,
        segment.format,
        segment.key(segment.fmt.suffix),
        size,
        sum(segment.sizes.values()) - size,
        segment.active,
    )


def read_batches(
    split: ReadTask, perform: Perform, columns: Iterable[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the table of batches, for the segments of a task."""
    rows = (row for part in split.parts for row in _segment_batches(part.segment, perform))
    return table_batches("batches", rows, columns)


def _segment_batches(segment: SegmentRef, perform: Perform) -> Iterator[Row]:
    def give(wanted: Range) -> bytes:
        return run(segment.read(wanted), perform)

    topic_partition = segment.topic, segment.partition
    data = segment.key(segment.fmt.suffix)
    for found in walk_blocks(segment.fmt.walk(segment.files, span=NOTHING), give):
        match found:
            case Block(header=None):
                nothing = (None, None, found.count, *_NO_HEADER[3:])
                yield (*topic_partition, data, found.position, found.size, *nothing, None)
            case Block(header=BatchHeader() as header):
                yield (
                    *topic_partition,
                    data,
                    found.position,
                    found.size,
                    *_header_row(header),
                    None,
                )
            case Damage(error=error):
                key = segment.key(error.where or segment.fmt.suffix)
                what = f"at byte {error.at}: {error.what}"
                yield (*topic_partition, key, found.position, found.size, *_NO_HEADER, what)


def _header_row(header: BatchHeader) -> Row:
    kind, has_producer = header.timestamp_type, header.producer_id >= 0
    is_one_time = kind is TimestampType.LOG_APPEND_TIME or header.count == 1
    return (
        header.base_offset,
        header.next_offset,
        header.count,
        header.codec.name.lower(),
        int(kind),
        time_us(header.max_timestamp) if is_one_time else None,
        time_us(header.max_timestamp),
        header.leader_epoch,
        header.producer_id if has_producer else None,
        header.producer_epoch if has_producer else None,
        header.base_sequence if has_producer else None,
        header.is_transactional,
        header.is_control,
    )


def time_us(timestamp: int) -> int | None:
    """Return a time in milliseconds as a column has it; None: it is none, or does not fit."""
    return timestamp * 1000 if 0 <= timestamp <= _TIME_MAX else None


def table_batches(
    table: str, rows: Iterator[Row], columns: Iterable[str] | None, tables: Tables = TABLES
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a table as Arrow, with the columns that are wanted."""
    schema = table_schema(table, columns, tables)
    while held := list(islice(rows, _ROWS)):
        values = dict(zip(tables[table], zip(*held, strict=True), strict=True))
        arrays = [pa.array(values[field.name], field.type) for field in schema]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)
