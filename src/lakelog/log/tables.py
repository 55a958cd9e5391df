"""Tables about a namespace: its partitions, and the segments of its history.

partitions   a row for each: where it begins, how far it is sealed, where it ends
segments     a row for each that a manifest names, with what the manifest says of it
"""

from collections.abc import Iterable, Iterator

import pyarrow as pa

from lakelog.formats import kafs
from lakelog.log.survey import Extent
from lakelog.segments.tables import TIME, Row, table_batches, time_us

__all__ = ["NAMESPACE_TABLES", "read_namespace_table"]

NAMESPACE_TABLES = {
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
        "min_timestamp": TIME,
        "max_timestamp": TIME,
        "appended": TIME,
        "generation": pa.int64(),
    },
}


def read_namespace_table(
    table: str, extents: Iterable[Extent], columns: Iterable[str]
) -> Iterator[pa.RecordBatch]:
    """Yield one of the tables as Arrow, for some partitions."""
    rows = _partition_rows(extents) if table == "partitions" else _segment_rows(extents)
    return table_batches(table, rows, columns, NAMESPACE_TABLES)


def _partition_rows(extents: Iterable[Extent]) -> Iterator[Row]:
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


def _segment_rows(extents: Iterable[Extent]) -> Iterator[Row]:
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
                time_us(row.min_timestamp),
                time_us(row.max_timestamp),
                time_us(row.appended_ms),
                row.generation,
            )
