"""Spark: the data source ``lakelog``, through PySpark's own interface for Python data sources.

options   what the options of a read mean
source    which reader it is; records of segments: plans on the driver, reads on the executors
tables    segments and batches, as tables
live      records of a namespace, history and journal as one; tables of what it consists of
streams   the same, trigger by trigger
sink      frames -> the log: the writers, of batches and of streams
jobs      the verbs of the pipeline on a cluster; submit: for spark-submit;
          shuffled_compaction: one of them that takes two steps
session   the Spark of the command line; doctor and probe: what is wrong with it
telling   what Spark shows of our errors
worker    what every task of ours does first
"""

from lakelog.spark.live import LiveReader, LiveTableReader
from lakelog.spark.options import ReadOptions, parse_options
from lakelog.spark.sink import (
    LogWriter,
    WriteOptions,
    parse_write_options,
    stream_writer_of,
    write,
    writer_of,
)
from lakelog.spark.source import RecordsReader, reader_of, schema_of, stream_reader_of
from lakelog.spark.tables import BatchesReader, SegmentsReader, SplitPartition
from lakelog.spark.telling import told_plainly

__all__ = [
    "BatchesReader",
    "LiveReader",
    "LiveTableReader",
    "LogWriter",
    "ReadOptions",
    "RecordsReader",
    "SegmentsReader",
    "SplitPartition",
    "WriteOptions",
    "parse_options",
    "parse_write_options",
    "reader_of",
    "schema_of",
    "stream_reader_of",
    "stream_writer_of",
    "told_plainly",
    "write",
    "writer_of",
]
