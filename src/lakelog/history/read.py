"""Reading: a task's parts of segments become Arrow batches, through whatever store they are in.

The columns are those of records, and where they lie: ``topic`` and ``partition``, which are the
same for all records of a part. A read that goes on behind damage has one more, ``_corrupt``: see
``mend``.
"""

from collections.abc import Generator, Iterable
from typing import Any

import pyarrow as pa

from lakelog.errors import CorruptError, InvalidInputError, UnsupportedError
from lakelog.formats import Range
from lakelog.formats.columns import scan_columns
from lakelog.history.segments import Part, SegmentRef
from lakelog.history.select import Mode
from lakelog.records.columns import ROWS_MAX, TYPES
from lakelog.store import Fetched, GetRange, Op

__all__ = ["CORRUPT", "PLACED_COLUMNS", "PLACED_TYPES", "placed_schema", "read_part"]

CORRUPT = "_corrupt"
"""Null for a record; for damage, what is wrong and where. All else of such a row is null then,
except topic and partition."""

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


def placed_schema(columns: Iterable[str] = PLACED_COLUMNS, mode: Mode = Mode.FAILFAST) -> pa.Schema:
    """Return the schema of ``columns``, in that order.

    Raises:
        InvalidInputError: one of them is not a column of records.
    """
    types = PLACED_TYPES if mode is Mode.FAILFAST else {**PLACED_TYPES, CORRUPT: pa.string()}
    chosen = tuple(columns)
    for name in chosen:
        if name not in types:
            hint = f"; mode={Mode.PERMISSIVE} adds it" if name == CORRUPT else ""
            raise InvalidInputError(f"no column {name!r}; there are {', '.join(types)}{hint}")
    return pa.schema([pa.field(name, types[name]) for name in chosen])


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
            raise segment.named(error) from error
        answer = None
        if isinstance(item, Range):
            fetched: Fetched = yield GetRange(segment.key(item.suffix), item.start, item.end)
            answer = fetched.body
            del fetched  # The next piece takes its memory.
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
