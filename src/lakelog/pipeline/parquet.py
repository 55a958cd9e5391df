"""Parquet, partitioned by day: what a segment becomes for those who read tables, and back.

    topic={topic}/day={yyyy-mm-dd}/{partition:05}-{base offset:020}.parquet

One segment becomes a file for each day (UTC) of its records. Spark, DuckDB and others take topic
and day from the path; the rest are the columns of the source. The files that one segment became
bear the same name in different folders, so the way back finds them, puts their records in the order
of offsets, and has the segment.
"""

import re
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakelog.errors import InvalidInputError
from lakelog.pipeline.frame import StoreRequest
from lakelog.records import OFFSET_MAX, Codec
from lakelog.segments import Selection
from lakelog.store import Fetched, Get, each_object

__all__ = ["PARQUET_COLUMNS", "DayWriter", "ParquetGroup", "list_groups", "read_group"]

PARQUET_COLUMNS = (
    "key", "value", "partition", "offset", "timestamp", "timestampType", "headers",
)  # fmt: skip

_KEY = re.compile(
    r"(?:.*/)?topic=([^/]+)/day=(-?[0-9]{4,}-[0-9]{2}-[0-9]{2})/([0-9]{5,10})-([0-9]{20})\.parquet"
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY_US = 24 * 60 * 60 * 1_000_000
_CODECS = {
    None: "snappy",
    Codec.NONE: "none",
    Codec.GZIP: "gzip",
    Codec.SNAPPY: "snappy",
    Codec.LZ4: "lz4",
    Codec.ZSTD: "zstd",
}
_ROWS_MAX = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetGroup:
    """The files of one segment."""

    topic: str
    partition: int
    base_offset: int
    next_offset_max: int
    objects: tuple[tuple[str, int], ...]
    """Keys and sizes."""

    @property
    def size(self) -> int:
        return sum(size for _, size in self.objects)

    @property
    def object(self) -> str:
        """The key that stands for all of them."""
        return self.objects[0][0]


def list_groups(perform: Callable[[Any], Any], selection: Selection) -> list[ParquetGroup]:
    """Return what was made of each segment, partition by partition."""
    found: dict[tuple[str, int, int], list[tuple[str, int]]] = {}
    for info in each_object(perform):
        named = _KEY.fullmatch(info.key)
        if named is not None and selection.wants(named[1], int(named[3])):
            place = named[1], int(named[3]), int(named[4])
            found.setdefault(place, []).append((info.key, info.size))
    places = sorted(found)
    groups: list[ParquetGroup] = []
    for number, (topic, partition, base) in enumerate(places):
        later = places[number + 1] if number + 1 < len(places) else None
        is_last = later is None or later[:2] != (topic, partition)
        groups.append(
            ParquetGroup(
                topic=topic,
                partition=partition,
                base_offset=base,
                next_offset_max=OFFSET_MAX if is_last or later is None else later[2],
                objects=tuple(sorted(found[topic, partition, base])),
            )
        )
    return groups


def read_group(
    group: ParquetGroup, store: str, columns: Iterable[str]
) -> Generator[StoreRequest | pa.RecordBatch, Any, None]:
    """Yield the records of a group in the order of their offsets, and on the way the reads."""
    tables: list[pa.Table] = []
    chosen = list(columns)
    for key, size in group.objects:
        fetched: Fetched = yield StoreRequest(store, Get(key, size_bytes_max=size))
        tables.append(pq.read_table(pa.BufferReader(fetched.body), columns=chosen))
    table = pa.concat_tables(tables)
    if len(tables) > 1:
        table = table.take(pc.sort_indices(table.column("offset")))
    yield from table.to_batches(max_chunksize=_ROWS_MAX)


class DayWriter:
    """One segment on its way into files by day."""

    def __init__(self, topic: str, partition: int, base_offset: int, codec: Codec | None) -> None:
        if not re.fullmatch(r"[A-Za-z0-9._-]+", topic):
            raise InvalidInputError(
                f"topic {topic!r} cannot be the name of a folder: name the others with --topic"
            )
        self._name = f"{partition:05}-{base_offset:020}.parquet"
        self._topic, self._partition, self._codec = topic, partition, _CODECS[codec]
        self._days: dict[int, tuple[pa.BufferOutputStream, pq.ParquetWriter]] = {}

    def add(self, batch: pa.RecordBatch) -> None:
        """Take records in, with the columns of records."""
        batch = batch.append_column("partition", self._partitions(batch.num_rows))
        batch = batch.select(PARQUET_COLUMNS)
        days = batch.column("timestamp").cast(pa.int64()).to_numpy() // _DAY_US
        for day in np.unique(days).tolist():
            self._writer(day, batch.schema).write_batch(batch.filter(pa.array(days == day)))

    def _partitions(self, rows: int) -> pa.Array:
        return pa.repeat(pa.scalar(self._partition, pa.int32()), rows)

    def _writer(self, day: int, schema: pa.Schema) -> Any:
        if day not in self._days:
            stream = pa.BufferOutputStream()
            self._days[day] = stream, pq.ParquetWriter(stream, schema, compression=self._codec)
        return self._days[day][1]

    def finish(self) -> dict[str, bytes]:
        """Return the files by key."""
        made: dict[str, bytes] = {}
        for day, (stream, writer) in sorted(self._days.items()):
            writer.close()
            key = f"topic={self._topic}/day={_date(day)}/{self._name}"
            made[key] = stream.getvalue().to_pybytes()
        return made


def _date(day: int) -> str:
    try:
        return f"{_EPOCH + timedelta(days=day):%Y-%m-%d}"
    except OverflowError as error:
        raise InvalidInputError(
            f"a time {day} days from 1970 has no date: Parquet by day cannot hold it"
        ) from error
