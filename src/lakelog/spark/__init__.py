"""Spark: the data source ``lakelog``, through PySpark's own interface for Python data sources.

options   what the options of a read mean
source    records: plans on the driver, reads on the executors
tables    segments and batches, as tables
"""

from lakelog.spark.options import ReadOptions, parse_options
from lakelog.spark.source import RecordsReader, reader_of, schema_of
from lakelog.spark.tables import BatchesReader, SegmentsReader, SplitPartition

__all__ = [
    "BatchesReader",
    "ReadOptions",
    "RecordsReader",
    "SegmentsReader",
    "SplitPartition",
    "parse_options",
    "reader_of",
    "schema_of",
]
