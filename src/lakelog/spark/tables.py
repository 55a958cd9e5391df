"""Readers of the tables about a log: its segments, and its batches.

The segments are known from a listing, which one task does, page by page: the driver never holds
them. For the batches the driver plans tasks of whole segments, because a walk tells of a segment's
damage only when it has seen all of it.
"""

from collections.abc import Iterator
from logging import getLogger

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from lakelog.host import THIS_HOST
from lakelog.log import tell_unsealed
from lakelog.segments import HISTORY, ReadTask, each_segment, plan_tasks
from lakelog.segments.tables import read_batches, read_segments
from lakelog.spark.options import ReadOptions
from lakelog.spark.telling import told_plainly
from lakelog.spark.worker import disable_collector
from lakelog.store import retrying, run, working_by_threads

__all__ = [
    "BatchesReader",
    "OptionsReader",
    "SegmentsReader",
    "SplitPartition",
    "warn_of_unsealed",
]

_LOG = getLogger(__name__)


def warn_of_unsealed(options: ReadOptions) -> None:
    """Tell the log of the driver what a plan over the segments of a namespace leaves out."""
    if options.layout != HISTORY:
        return
    flow = tell_unsealed(options.selection, *THIS_HOST)
    if told := run(flow, working_by_threads(retrying(options.store.open().perform))):
        _LOG.warning("%s: %s: leave the option layout out to read them, too", options.path, told)


class SplitPartition(InputPartition):
    """One task: what it reads."""

    def __init__(self, split: ReadTask) -> None:
        super().__init__(split)
        self.split = split


class OptionsReader(DataSourceReader):
    """A reader that knows its options, and the columns that are wanted."""

    def __init__(self, options: ReadOptions, columns: tuple[str, ...]) -> None:
        self._options, self._columns = options, columns


class SegmentsReader(OptionsReader):
    """One task lists everything."""

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(None)]

    def read(self, _: InputPartition) -> Iterator[pa.RecordBatch]:
        options = self._options
        perform = working_by_threads(retrying(options.store.open().perform))
        segments = each_segment(perform, options.layout, options.selection)
        yield from read_segments(segments, self._columns)


class BatchesReader(OptionsReader):
    """Tasks of whole segments."""

    @told_plainly()
    def partitions(self) -> list[InputPartition]:
        options = self._options
        perform = working_by_threads(retrying(options.store.open().perform))
        segments = list(each_segment(perform, options.layout, options.selection))
        splits = plan_tasks(
            segments,
            splits_min=options.min_partitions,
            split_bytes=options.split_bytes,
            whole=True,
        )
        warn_of_unsealed(options)
        return [SplitPartition(split) for split in splits]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, SplitPartition):
            disable_collector()
            perform = retrying(self._options.store.open().perform)
            yield from read_batches(partition.split, perform, self._columns)
