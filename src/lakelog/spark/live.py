"""The reader behind ``format("lakelog")`` on a namespace: the log as it is now, to its last record.

    driver      topics; one look at each lane; manifests; start and end of each partition: fixed
                from here on. Segments and slices -> tasks, by bytes
    executors   each its task: where it lay when it was planned, or wherever it lies by now

No broker takes part, and none is asked: a record that was acknowledged is in the bucket.

There is no ``pushFilters``, on purpose. What one query pushes, Spark 4.3 leaves in the reader for
every other query of the same frame, which then misses rows (decision 18).
"""

from collections.abc import Iterable, Iterator, Mapping

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from lakelog.host import THIS_HOST
from lakelog.log import (
    Driver,
    Extent,
    Key,
    Losses,
    NamespaceReader,
    PartitionRef,
    Survey,
    TaskRanges,
)
from lakelog.log.tables import read_namespace_table
from lakelog.model import Rules
from lakelog.spark.options import ReadOptions
from lakelog.spark.tables import OptionsReader
from lakelog.spark.telling import told_plainly
from lakelog.spark.worker import disable_collector, uncollected
from lakelog.store import Perform, retrying

__all__ = [
    "LiveReader",
    "LiveTableReader",
    "ReadPartition",
    "live_log",
    "members_of",
    "read_live",
    "tasks_of",
]


class ReadPartition(InputPartition):
    """One task: what it reads, and the rules of the namespace."""

    def __init__(self, task: TaskRanges, rules: Rules) -> None:
        super().__init__(task)
        self.task, self.rules = task, rules


def live_log(options: ReadOptions, perform: Perform | None = None) -> NamespaceReader:
    """Return the log that the options name."""
    if perform is None:
        perform = retrying(options.store.open().perform)
    return NamespaceReader(perform, *THIS_HOST)


def members_of(
    log: NamespaceReader, options: ReadOptions, *, missing_ok: bool = False
) -> list[PartitionRef]:
    """Return the partitions that the options name."""
    return log.members(options.selection, topic_ids=options.topic_ids, missing_ok=missing_ok)


def tasks_of(
    log: NamespaceReader,
    options: ReadOptions,
    ranges: Mapping[Key, tuple[int, int]],
    extents: Iterable[Extent],
) -> list[InputPartition]:
    """Return the tasks that read a range of each partition, as large as the options say."""
    tasks = log.tasks(
        ranges,
        extents,
        split_bytes=options.split_bytes,
        tasks_min=options.min_partitions,
        offsets_max=options.records_max,
    )
    return [ReadPartition(task, log.survey.rules) for task in tasks]


def read_live(
    partition: InputPartition, options: ReadOptions, columns: tuple[str, ...]
) -> Iterator[pa.RecordBatch]:
    """Read one task, on an executor."""
    # Spark asks even where there is nothing to read, with a partition of its own.
    if not isinstance(partition, ReadPartition):
        return
    # Compiled: loaded where something is read, and not by every process that plans.
    from lakelog.log.rows import read_task

    disable_collector()
    clock, ids = THIS_HOST
    survey = Survey(rules=partition.rules, clock=clock, ids=ids)
    reads = read_task(partition.task, survey.lane, columns, may_lose=not options.fail_on_data_loss)
    yield from Driver(retrying(options.store.open().perform)).batches(reads)


class LiveReader(OptionsReader):
    """A batch read: plans on the driver, reads on the executors."""

    @told_plainly()
    @uncollected()
    def partitions(self) -> list[InputPartition]:
        options = self._options
        log, losses = live_log(options), Losses(fail=options.fail_on_data_loss)
        extents = log.look_at(options.selection, options.topic_ids)
        ranges = log.ranges(extents, options.starting, options.ending, losses)
        return tasks_of(log, options, ranges, extents)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_live(partition, self._options, self._columns)


class LiveTableReader(OptionsReader):
    """A table about the namespace: one task makes it, which reads manifests and no record."""

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(None)]

    def read(self, _: InputPartition) -> Iterator[pa.RecordBatch]:
        options = self._options
        with told_plainly():
            extents = live_log(options).look_at(options.selection, options.topic_ids)
        yield from read_namespace_table(options.table, extents, self._columns)
