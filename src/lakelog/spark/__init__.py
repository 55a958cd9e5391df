"""Spark: the data source ``lakelog``, through PySpark's own interface for Python data sources.

options   what the options of a read mean
source    records: plans on the driver, reads on the executors
tables    segments and batches, as tables
jobs      the verbs of the pipeline on a cluster; submit: for spark-submit
session   the Spark of the command line; doctor and probe: what is wrong with it
worker    what every task of ours does first
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
