"""Writing with Spark: a frame becomes part of the log, once, without a broker.

options   what the options of a write mean
columns   which columns a frame may have, in the words of Spark's Kafka sink
placing   rows -> topic and partition; they are packed by ``lakelog.log.packing``
tasks     what one task does with its rows: windows of them, staged one after the other
writers   the two writers that Spark knows, of batches and of streams
"""

from lakelog.spark.sink.options import WriteOptions, parse_write_options
from lakelog.spark.sink.writers import LogWriter, stream_writer_of, write, writer_of

__all__ = [
    "LogWriter",
    "WriteOptions",
    "parse_write_options",
    "stream_writer_of",
    "write",
    "writer_of",
]
