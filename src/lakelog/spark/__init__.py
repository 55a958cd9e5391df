"""Spark: the data source ``lakelog``, through PySpark's own interface for Python data sources.

options   what the options of a read mean
source    the reader: plans on the driver, reads on the executors
"""

from lakelog.spark.options import ReadOptions, parse_options
from lakelog.spark.source import SegmentReader, SplitPartition, schema_of

__all__ = ["ReadOptions", "SegmentReader", "SplitPartition", "parse_options", "schema_of"]
