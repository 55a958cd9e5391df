"""Reading on behind damage: what can be read is, and each damage is a row that tells of it.

    key  value  topic   partition  offset  _corrupt
    k1   v1     orders  0          41      null
    null null   orders  0          null    broker-1/orders-0/….log at byte 8192: CRC-32C is …; …
    k9   v9     orders  0          77      null

A part is read by the compiled scan as long as it is sound, which it nearly always is. At the first
damage the walk of the format takes over: it is slow, but knows how to go on, with and without an
index. It begins anew, so what the scan has given already is passed over: everything up to the block
that holds the last of those records.

A damage belongs to the part in which that begins which is skipped, and one of a side file to the
part that begins the segment. So each is told once, however a segment is cut. What only a pass over
a whole file can tell (its checksum, its counts, an index against its segment) is no reason for the
walk to take over: the records are not touched by it. ``lakelog inspect`` tells.
"""

from collections.abc import Generator, Iterable, Iterator
from typing import Any

import pyarrow as pa

from lakelog.errors import CorruptError, UnsupportedError
from lakelog.flows import Items, asked_for, items_of
from lakelog.formats import Block, Damage, Range
from lakelog.model import Header, Record, TimestampType
from lakelog.records.columns import BYTES_MAX, time_overflow
from lakelog.segments.placed import CORRUPT, PLACED_COLUMNS, placed_schema
from lakelog.segments.read import read_part
from lakelog.segments.segments import ReadTask, SegmentRange
from lakelog.segments.select import Mode
from lakelog.store import Op, Perform

__all__ = ["mend_part", "read_split"]

_ROWS = 8192
_TIME_MAX = ((1 << 63) - 1) // 1000
_TIME_MIN = -(1 << 63) // 1000 + 1

Flow = Generator[Op | pa.RecordBatch, Any, None]


def read_split(
    split: ReadTask,
    perform: Perform,
    columns: Iterable[str] = PLACED_COLUMNS,
    *,
    mode: Mode = Mode.FAILFAST,
    **settings: Any,
) -> Iterator[pa.RecordBatch]:
    """Yield the records of a task, its parts one after another.

    Settings are those of formats.columns.scan_columns.
    """
    chosen = tuple(columns)
    read = mend_part if mode is Mode.PERMISSIVE else read_part
    for part in split.parts:
        yield from items_of(read(part, chosen, **settings), Op, perform)


def mend_part(part: SegmentRange, columns: Iterable[str] = PLACED_COLUMNS, **settings: Any) -> Flow:
    """Yield the records and the damages of a part as Arrow, and on the way the reads it takes."""
    schema = placed_schema(columns, Mode.PERMISSIVE)
    asked = dict.fromkeys((*schema.names, "offset"))
    asked.pop(CORRUPT, None)
    scan = read_part(part, asked, **settings)
    given: int | None = None
    found = Items(scan, Op, asked_for)
    try:
        while (item := (yield from found.next())) is not None:
            given = item.column("offset")[-1].as_py()
            yield _with_corrupt(item, schema)
    except (CorruptError, UnsupportedError):
        yield from _walk_part(part, schema, given)


def _with_corrupt(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    none = pa.nulls(batch.num_rows, pa.string())
    columns = [none if name == CORRUPT else batch.column(name) for name in schema.names]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _walk_part(part: SegmentRange, schema: pa.Schema, given: int | None) -> Flow:
    segment, rows = part.segment, _Rows(part, schema, given)
    walk = segment.fmt.walk(segment.files, span=(part.byte_from, part.byte_to))
    found = Items(walk, Range, segment.read)
    while (item := (yield from found.next())) is not None:
        rows.add(item)
        if rows.is_full:
            yield rows.batch()
    if rows.held:
        yield rows.batch()


class _Rows:
    """Rows on their way, a few thousand at a time."""

    def __init__(self, part: SegmentRange, schema: pa.Schema, given: int | None) -> None:
        self._part, self._schema, self._given = part, schema, given
        self.held: list[dict[str, object]] = []
        self._bytes = 0

    @property
    def is_full(self) -> bool:
        return len(self.held) >= _ROWS or self._bytes >= BYTES_MAX

    def batch(self) -> pa.RecordBatch:
        held, self.held, self._bytes = self.held, [], 0
        return pa.RecordBatch.from_pylist(held, schema=self._schema)

    def add(self, found: Block | Damage) -> None:
        if isinstance(found, Damage):
            header = found.header
            if header is not None and self._is_given_in(header.base_offset, header.next_offset):
                self._given = None
            if self._is_ours(found):
                self._tell(found.error, found.position, found.size)
        elif found.records and not (found.header is not None and found.header.is_control):
            self._add_block(found)

    def _add_block(self, block: Block) -> None:
        records = block.records
        if self._given is not None:
            if not self._is_given_in(records[0].offset, records[-1].offset + 1):
                return
            records = tuple(record for record in records if record.offset > self._given)
            self._given = None
        fits = all(_TIME_MIN <= record.timestamp <= _TIME_MAX for record in records)
        if "timestamp" in self._schema.names and not fits:
            self._tell(time_overflow(block.position, ""), block.position, block.size)
            return
        kind = TimestampType.CREATE_TIME if block.header is None else block.header.timestamp_type
        for record in records:
            if self._part.offset_from <= record.offset < self._part.offset_to:
                self.held.append(self._row(record, int(kind)))
                self._bytes += len(record.key or b"") + len(record.value or b"")

    def _is_given_in(self, base_offset: int, next_offset: int) -> bool:
        return self._given is not None and base_offset <= self._given < next_offset

    def _is_ours(self, damage: Damage) -> bool:
        part, position = self._part, damage.position
        if damage.error.where not in ("", part.segment.fmt.suffix):
            return part.byte_from == 0
        if part.byte_from <= position < part.byte_to:
            return True
        return position >= part.byte_to == part.segment.size

    def _tell(self, error: CorruptError | UnsupportedError, position: int, size: int) -> None:
        key = self._part.segment.key(error.where or self._part.segment.fmt.suffix)
        skipped = f"; {size} bytes skipped" if size else ""
        row: dict[str, object] = dict.fromkeys(self._schema.names)
        row |= self._place() | {CORRUPT: f"{key} at byte {position}: {error.what}{skipped}"}
        self.held.append(row)

    def _place(self) -> dict[str, object]:
        segment = self._part.segment
        return {"topic": segment.topic, "partition": segment.partition}

    def _row(self, record: Record, timestamp_type: int) -> dict[str, object]:
        return self._place() | {
            "key": record.key,
            "value": record.value,
            "offset": record.offset,
            "timestamp": record.timestamp * 1000,
            "timestampType": timestamp_type,
            "headers": [_pair(header) for header in record.headers] or None,
        }


def _pair(header: Header) -> dict[str, object]:
    # A Java consumer replaces what is not UTF-8, and so do the kernels.
    key = header.key.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return {"key": key, "value": header.value}
