"""Reading: a task's parts of segments become Arrow batches, through whatever store they are in.

The columns are those of records, and where they lie: ``topic`` and ``partition``, which are the
same for all records of a part.
"""

from collections.abc import Generator, Iterable, Iterator
from typing import Any

import pyarrow as pa

from lakelog.errors import CorruptError, InvalidInputError, UnsupportedError
from lakelog.formats import Range
from lakelog.formats.columns import scan_columns
from lakelog.history.segments import Part, SegmentRef, Split
from lakelog.records.columns import ROWS_MAX, TYPES
from lakelog.store import Fetched, GetRange, Op, Perform

__all__ = ["PLACED_COLUMNS", "placed_schema", "read_part", "read_split"]

PLACED_TYPES: dict[str, pa.DataType] = {
    "key": TYPES["key"],
    "value": TYPES["value"],
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": TYPES["offset"],
    "timestamp": TYPES["timestamp"],
    "timestampType": TYPES["timestampType"],
    "headers": TYPES["headers"],
}
PLACED_COLUMNS = tuple(PLACED_TYPES)


def placed_schema(columns: Iterable[str] = PLACED_COLUMNS) -> pa.Schema:
    """Return the schema of ``columns``, in that order.

    Raises:
        InvalidInputError: one of them is not a column of records.
    """
    chosen = tuple(columns)
    for name in chosen:
        if name not in PLACED_TYPES:
            raise InvalidInputError(f"no column {name!r}; there are {', '.join(PLACED_COLUMNS)}")
    return pa.schema([pa.field(name, PLACED_TYPES[name]) for name in chosen])


def read_part(
    part: Part, columns: Iterable[str] = PLACED_COLUMNS, **settings: Any
) -> Generator[Op | pa.RecordBatch, Any, None]:
    """Yield the records of a part as Arrow, and on the way the reads it takes.

    Settings are those of formats.columns.scan_columns.

    Raises:
        CorruptError, UnsupportedError: something is wrong with the segment; ``where`` is its key.
    """
    segment, schema = part.segment, placed_schema(columns)
    wanted = [name for name in schema.names if name in TYPES] or ["offset"]
    scan = scan_columns(
        segment.fmt, segment.files, wanted,
        byte_from=part.byte_from, byte_to=part.byte_to,
        offset_from=part.offset_from, offset_to=part.offset_to, **settings,
    )  # fmt: skip
    place = _Place(segment, schema)
    answer: bytes | None = None
    while True:
        try:
            item = scan.send(answer)
        except StopIteration:
            return
        except (CorruptError, UnsupportedError) as error:
            key = segment.key(error.where or segment.fmt.suffix)
            raise type(error)(error.what, at=error.at, where=key) from error
        answer = None
        if isinstance(item, Range):
            fetched: Fetched = yield GetRange(segment.key(item.suffix), item.start, item.end)
            answer = fetched.body
        else:
            yield place.add_to(item)


class _Place:
    """The constant columns of a segment, made once and sliced."""

    def __init__(self, segment: SegmentRef, schema: pa.Schema) -> None:
        self._schema = schema
        self._values = {
            "topic": pa.scalar(segment.topic, pa.string()),
            "partition": pa.scalar(segment.partition, pa.int32()),
        }
        self._made: dict[str, pa.Array] = {}

    def add_to(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        rows = batch.num_rows
        columns = [
            self._constant(name, rows) if name in self._values else batch.column(name)
            for name in self._schema.names
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _constant(self, name: str, rows: int) -> pa.Array:
        if name not in self._made or len(self._made[name]) < rows:
            self._made[name] = pa.repeat(self._values[name], max(rows, min(2 * rows, ROWS_MAX)))
        return self._made[name].slice(0, rows)


def read_split(
    split: Split, perform: Perform, columns: Iterable[str] = PLACED_COLUMNS, **settings: Any
) -> Iterator[pa.RecordBatch]:
    """Yield the records of a task, its parts one after another."""
    chosen = tuple(columns)
    for part in split.parts:
        flow = read_part(part, chosen, **settings)
        answer: Any = None
        while True:
            try:
                item = flow.send(answer)
            except StopIteration:
                break
            answer = None
            if isinstance(item, pa.RecordBatch):
                yield item
            else:
                answer = perform(item)
