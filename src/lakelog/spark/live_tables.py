"""Tables about a namespace: its partitions, and the segments of its history.

    partitions   a row for each: where it begins, how far it is sealed, where it ends
    segments     a row for each that a manifest names, with what the manifest says of it

One task makes a table: it takes a request for each manifest and a few for each lane, and reads no
record.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from lakelog.errors import InvalidInputError
from lakelog.formats import kafs
from lakelog.log import Extent
from lakelog.spark.live import live_log, members_of
from lakelog.spark.options import ReadOptions
from lakelog.spark.telling import told_plainly

__all__ = ["LIVE_TABLES", "LiveTableReader", "live_schema"]

_ROWS = 8192
_TIME = pa.timestamp("us", tz="UTC")
_TIME_MAX = ((1 << 63) - 1) // 1000

LIVE_TABLES: dict[str, dict[str, pa.DataType]] = {
    "partitions": {
        "topic": pa.string(),
        "topic_id": pa.string(),
        "partition": pa.int32(),
        "lane": pa.int32(),
        "log_start_offset": pa.int64(),
        "sealed_end_offset": pa.int64(),
        "end_offset": pa.int64(),
        "segments": pa.int64(),
        "segment_bytes": pa.int64(),
        "compacted": pa.bool_(),
    },
    "segments": {
        "topic": pa.string(),
        "topic_id": pa.string(),
        "partition": pa.int32(),
        "base_offset": pa.int64(),
        "next_offset": pa.int64(),
        "object": pa.string(),
        "position": pa.int64(),
        "bytes": pa.int64(),
        "records": pa.int64(),
        "min_timestamp": _TIME,
        "max_timestamp": _TIME,
        "appended": _TIME,
        "generation": pa.int64(),
    },
}


def live_schema(table: str, columns: Iterable[str] | None = None) -> pa.Schema:
    """Return the schema of a table, or of some of its columns.

    Raises:
        InvalidInputError: there is no such column in it.
    """
    types = LIVE_TABLES[table]
    chosen = tuple(types if columns is None else columns)
    for name in chosen:
        if name not in types:
            raise InvalidInputError(f"no column {name!r}; there are {', '.join(types)}")
    return pa.schema([pa.field(name, types[name]) for name in chosen])


class LiveTableReader(DataSourceReader):
    """One task looks at everything."""

    def __init__(self, options: ReadOptions, columns: tuple[str, ...]) -> None:
        self._options, self._columns = options, columns

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(None)]

    def read(self, _: InputPartition) -> Iterator[pa.RecordBatch]:
        with told_plainly():
            log = live_log(self._options)
            members = members_of(log, self._options)
            log.look(members)
        table = self._options.table
        rows = (_partition_row if table == "partitions" else _segment_rows)(log.extents(members))
        schema, names = live_schema(table, self._columns), tuple(LIVE_TABLES[table])
        while held := list(islice(rows, _ROWS)):
            columns = dict(zip(names, zip(*held, strict=True), strict=True))
            arrays = [pa.array(columns[field.name], field.type) for field in schema]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _partition_row(extents: Iterable[Extent]) -> Iterator[tuple[Any, ...]]:
    for extent in extents:
        member, rows = extent.member, extent.rows
        yield (
            member.topic,
            member.where.topic.hex(),
            member.partition,
            member.lane,
            extent.log_start,
            extent.sealed_end,
            extent.end,
            len(rows),
            sum(row.length for row in rows),
            member.compacted,
        )


def _segment_rows(extents: Iterable[Extent]) -> Iterator[tuple[Any, ...]]:
    for extent in extents:
        member = extent.member
        for row in extent.rows:
            yield (
                member.topic,
                member.where.topic.hex(),
                member.partition,
                row.base_offset,
                row.next_offset,
                f"{member.where.prefix}{row.name}{kafs.FORMAT.suffix}",
                row.position,
                row.length,
                row.records,
                _time(row.min_timestamp),
                _time(row.max_timestamp),
                _time(row.appended_ms),
                row.generation,
            )


def _time(timestamp: int) -> int | None:
    return timestamp * 1000 if 0 <= timestamp <= _TIME_MAX else None
