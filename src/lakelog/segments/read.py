"""Reading: a task's parts of segments become Arrow batches, through whatever store they are in.

``topic`` and ``partition`` are the same for all records of a part (``placed``).
"""

from collections.abc import Generator, Iterable
from typing import Any

import pyarrow as pa

from lakelog.errors import CorruptError, UnsupportedError
from lakelog.flows import Items
from lakelog.formats import Range
from lakelog.formats.columns import scan_columns
from lakelog.records.columns import ROWS_MAX, TYPES
from lakelog.segments.placed import PLACED_COLUMNS, placed_schema
from lakelog.segments.segments import SegmentRange
from lakelog.store import Op

__all__ = ["Placing", "read_part"]


def read_part(
    part: SegmentRange, columns: Iterable[str] = PLACED_COLUMNS, **settings: Any
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
    placing = Placing(segment.topic, segment.partition, schema)
    found = Items(scan, Range, segment.read)
    try:
        while (item := (yield from found.next())) is not None:
            yield placing.add_to(item)
    except (CorruptError, UnsupportedError) as error:
        raise segment.named(error) from error


class Placing:
    """The columns that are the same for all records of a partition, made once and sliced."""

    def __init__(self, topic: str, partition: int, schema: pa.Schema) -> None:
        self._schema = schema
        self._values = {
            "topic": pa.scalar(topic, pa.string()),
            "partition": pa.scalar(partition, pa.int32()),
        }
        self._made: dict[str, pa.Array] = {}

    def add_to(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch of records with the columns of the schema, in its order."""
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
