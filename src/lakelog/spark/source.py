"""The reader behind ``spark.read.format("lakelog")``: which it is, and the one of segments.

Spark calls ``partitions`` once, in a Python process of the driver, and ``read`` for each of them in
a worker. The reader and its partitions are pickled in between, so they hold plain values: a store
is named by its address and opened where it is used.

Arrow batches are what ``read`` yields. Spark compares their schema with the declared one exactly,
and has no column pruning for Python sources: columns that are not wanted must not be declared. So
the option ``columns``, or a ``.schema(...)`` that leaves some out, is what saves decoding them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from lakelog.errors import InvalidInputError
from lakelog.log.tables import NAMESPACE_TABLES
from lakelog.segments import Mode, ReadTask
from lakelog.segments.placed import (
    CORRUPT,
    PLACED_COLUMNS,
    PLACED_TYPES,
    placed_schema,
)
from lakelog.segments.scan import ScanRequest, plan_scan
from lakelog.segments.tables import TABLES, table_schema
from lakelog.spark.live import LiveReader, LiveTableReader
from lakelog.spark.options import ReadOptions, is_new_table, parse_options
from lakelog.spark.tables import (
    BatchesReader,
    OptionsReader,
    SegmentsReader,
    SplitPartition,
    warn_of_unsealed,
)
from lakelog.spark.telling import told_plainly
from lakelog.spark.worker import disable_collector
from lakelog.store import retrying

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamReader

__all__ = ["RecordsReader", "reader_of", "schema_of", "stream_reader_of"]

_DDL: dict[pa.DataType, str] = {
    pa.binary(): "binary",
    pa.string(): "string",
    pa.bool_(): "boolean",
    pa.int32(): "int",
    pa.int64(): "bigint",
    PLACED_TYPES["timestamp"]: "timestamp",
    PLACED_TYPES["headers"]: "array<struct<key:string,value:binary>>",
}
_DEFAULT = tuple(name for name in PLACED_COLUMNS if name != "headers")
_RECORDS = "records"
_TABLE_READERS: dict[tuple[bool, str], Callable[..., DataSourceReader]] = {
    (False, "segments"): SegmentsReader,
    (False, "batches"): BatchesReader,
    **{(True, table): LiveTableReader for table in NAMESPACE_TABLES},
}


def schema_of(options: Mapping[str, str]) -> str:
    """Return the schema that the options ask for: that of Spark's Kafka source, or a part of it.

    Raises:
        InvalidInputError: an option cannot be understood.
    """
    if is_new_table(options):
        return _ddl(placed_schema(_DEFAULT))
    parsed = parse_options(options, query="any")
    if parsed.table != _RECORDS:
        return _ddl(_table(parsed, parsed.columns))
    columns = parsed.columns or (PLACED_COLUMNS if parsed.include_headers else _DEFAULT)
    if parsed.mode is Mode.PERMISSIVE and CORRUPT not in columns:
        columns += (CORRUPT,)
    return _ddl(placed_schema(columns, parsed.mode))


def _ddl(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {_DDL[field.type]}" for field in schema)


def reader_of(schema: StructType, options: Mapping[str, str]) -> DataSourceReader:
    """Return the reader of the table that the options name.

    Raises:
        InvalidInputError: an option cannot be understood, or the schema is not a part of ours.
    """
    parsed, columns = parse_options(options), tuple(schema.fieldNames())
    if parsed.table != _RECORDS:
        _check_schema(schema, _table(parsed, columns))
        return _TABLE_READERS[parsed.is_live, parsed.table](parsed, columns)
    _check_schema(schema, placed_schema(columns, parsed.mode))
    if parsed.is_live:
        return LiveReader(parsed, columns)
    return RecordsReader(parsed, columns)


def stream_reader_of(schema: StructType, options: Mapping[str, str]) -> "DataSourceStreamReader":
    """Return the reader of a stream.

    Raises:
        InvalidInputError: an option cannot be understood, or the schema is not a part of ours; or
            this Spark cannot limit what a trigger of a Python source reads.
    """
    parsed, columns = parse_options(options, query="stream"), tuple(schema.fieldNames())
    _check_schema(schema, placed_schema(columns))
    try:
        from lakelog.spark.streams import LiveStreamReader
    except ImportError as error:
        raise InvalidInputError("streams need Spark 4.2 or later: upgrade pyspark") from error
    return LiveStreamReader(parsed, columns)


def _table(parsed: ReadOptions, columns: Iterable[str] | None) -> pa.Schema:
    return table_schema(parsed.table, columns, NAMESPACE_TABLES if parsed.is_live else TABLES)


def _check_schema(given: StructType, ours: pa.Schema) -> None:
    """Check that the types of a schema given by the user are ours; its names are."""
    for field, known in zip(given.fields, ours, strict=True):
        kind, expected = field.dataType.simpleString(), _DDL[known.type]
        if kind != expected:
            raise InvalidInputError(f"column {field.name} is {expected}, not {kind}")


class RecordsReader(OptionsReader):
    """Plans on the driver, reads on the executors."""

    @told_plainly()
    def partitions(self) -> list[InputPartition]:
        options = self._options
        request = ScanRequest(
            layout=options.layout,
            selection=options.selection,
            starting=options.starting,
            ending=options.ending,
            split_bytes=options.split_bytes,
            splits_min=options.min_partitions,
            mode=options.mode,
        )
        splits: list[ReadTask] = plan_scan(options.store.open(), request)
        warn_of_unsealed(options)
        return [SplitPartition(split) for split in splits]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Spark asks even where there is nothing to read, with a partition of its own.
        if isinstance(partition, SplitPartition):
            # Compiled: loaded where something is read, and not by every process that plans.
            from lakelog.segments.mend import read_split

            disable_collector()
            perform = retrying(self._options.store.open().perform)
            yield from read_split(partition.split, perform, self._columns, mode=self._options.mode)
