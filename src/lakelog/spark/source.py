"""The reader behind ``spark.read.format("lakelog")``.

Spark calls ``partitions`` once, in a Python process of the driver, and ``read`` for each of them in
a worker. The reader and its partitions are pickled in between, so they hold plain values: a store
is named by its address and opened where it is used.

Arrow batches are what ``read`` yields. Spark compares their schema with the declared one exactly,
and has no column pruning for Python sources: columns that are not wanted must not be declared. So
the option ``columns``, or a ``.schema(...)`` that leaves some out, is what saves decoding them.
"""

from collections.abc import Iterator, Mapping

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from lakelog.errors import InvalidInputError
from lakelog.history import Split
from lakelog.history.read import PLACED_COLUMNS, read_split
from lakelog.history.scan import ScanRequest, plan_scan
from lakelog.spark.options import ReadOptions, parse_options
from lakelog.store import StoreSpec, retrying

__all__ = ["SegmentReader", "SplitPartition", "schema_of"]

_DDL = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    "headers": "array<struct<key:string,value:binary>>",
}
assert tuple(_DDL) == PLACED_COLUMNS


def schema_of(options: Mapping[str, str]) -> str:
    """Return the schema that the options ask for: that of Spark's Kafka source, or a part of it.

    Raises:
        InvalidInputError: an option cannot be understood.
    """
    parsed = parse_options(options)
    columns = parsed.columns or tuple(
        name for name in PLACED_COLUMNS if parsed.include_headers or name != "headers"
    )
    for name in columns:
        if name not in _DDL:
            raise InvalidInputError(f"no column {name!r}; there are {', '.join(PLACED_COLUMNS)}")
    return ", ".join(f"{name} {_DDL[name]}" for name in columns)


class SplitPartition(InputPartition):
    """One task: what it reads."""

    def __init__(self, split: Split) -> None:
        super().__init__(split)
        self.split = split


class SegmentReader(DataSourceReader):
    """Plans on the driver, reads on the executors."""

    def __init__(self, schema: StructType, options: Mapping[str, str]) -> None:
        self._options: ReadOptions = parse_options(options)
        self._columns = tuple(schema.fieldNames())
        _check_schema(schema)
        self._store = StoreSpec(self._options.path, dict(self._options.store_options))

    def partitions(self) -> list[InputPartition]:
        options, store = self._options, self._store.open()
        request = ScanRequest(
            layout=options.layout,
            selection=options.selection,
            starting=options.starting,
            ending=options.ending,
            split_bytes=options.split_bytes,
            splits_min=options.min_partitions,
        )
        splits = plan_scan(store, request)
        return [SplitPartition(split) for split in splits]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Spark asks even where there is nothing to read, with a partition of its own.
        if isinstance(partition, SplitPartition):
            perform = retrying(self._store.open().perform)
            yield from read_split(partition.split, perform, self._columns)


def _check_schema(schema: StructType) -> None:
    """Check that a schema given by the user is a part of ours.

    Raises:
        InvalidInputError: another column, or another type.
    """
    for field in schema.fields:
        kind = field.dataType.simpleString()
        if _DDL.get(field.name) != kind:
            columns = ", ".join(f"{name} {kind}" for name, kind in _DDL.items())
            raise InvalidInputError(f"no column {field.name} {kind}; there are {columns}")
