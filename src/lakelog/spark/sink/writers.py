"""The writers behind ``df.write.format("lakelog")``: who does what, and where.

    driver      options, columns, the topic: refused before a task runs
    executors   rows -> staged objects, under the id of this attempt
    driver      commit: one bundle for each lane, all of them or none. abort: the attempt is barred

A writer is made on the driver and pickled to the tasks, so it holds plain values. The id of the
attempt is drawn with it: every task of a job has the same.

Spark calls abort also when commit failed. An attempt that was decided for by then stays: to bar it
is tried, and does nothing.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from lakelog.catalog import Topic, open_namespace, read_topic
from lakelog.errors import InvalidInputError
from lakelog.host import THIS_HOST
from lakelog.journal import StoreTime, new_lanes, stamp
from lakelog.log import (
    Committed,
    Driver,
    Identity,
    Staged,
    abandon_write,
    commit_write,
)
from lakelog.log.packing import TopicTarget, target_of
from lakelog.spark.sink.columns import check_columns
from lakelog.spark.sink.options import WriteOptions, parse_write_options
from lakelog.spark.sink.placing import RowPartitioner
from lakelog.spark.sink.tasks import TaskWriter
from lakelog.spark.worker import disable_collector

__all__ = ["Job", "LogWriter", "Written", "open_job", "stream_writer_of", "write", "writer_of"]


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """What one task has staged."""

    identity: Identity
    write: bytes
    staged: tuple[Staged, ...]


@dataclass(frozen=True, slots=True)
class Job:
    """What every process of a write knows."""

    options: WriteOptions
    topic: Topic | None
    """The one of the option."""

    def write(self, rows: Iterable[pa.RecordBatch], identity: Identity, write: bytes) -> Written:
        """Stage the rows of one task."""
        disable_collector()
        context = TaskContext.get()
        if context is None:
            raise InvalidInputError("rows are written by tasks: use df.write or df.writeStream")
        driver, task = self.options.driver(), context.partitionId()
        # A batch that is tried again puts its records where they were.
        shift = identity.query if identity.is_stream else write
        first = int.from_bytes(blake2b(shift, digest_size=4).digest(), "big") + identity.number
        partitioner = RowPartitioner(self._find_target(driver), self.options.topic, first + task)
        writer = TaskWriter(
            driver,
            THIS_HOST.clock,
            partitioner,
            identity=identity,
            write=write,
            task=task,
            attempt=context.attemptNumber(),
            buffer_bytes=self.options.buffer_bytes,
            time=StoreTime(),
        )
        return Written(identity, write, tuple(writer.write(rows)))

    def _find_target(self, driver: Driver) -> Callable[[str], TopicTarget]:
        @cache
        def target(name: str) -> TopicTarget:
            known = self.topic
            topic = known or driver.run(read_topic(name))
            return target_of(topic, self.options.codec, self.options.batch_bytes)

        return target

    def commit(self, messages: list[Written]) -> Committed | None:
        """Let what tasks have staged be in the log; None if that is nothing."""
        staged = [one for message in messages for one in message.staged]
        if not staged:
            return None
        identity, write = messages[0].identity, messages[0].write
        time, driver = StoreTime(), self.options.driver()
        now_ms = driver.run(stamp(time, *THIS_HOST))
        # Topics that were made while a query runs may be in lanes that were added meanwhile.
        rules = driver.run(open_namespace()).rules
        lanes = new_lanes(rules, *THIS_HOST, time)
        return driver.run(commit_write(lanes, identity, write, staged, now_ms=now_ms))

    def abandon(self, identity: Identity, write: bytes) -> None:
        """See to it that what was staged never is in the log."""
        self.options.driver().run(abandon_write(identity, write))


def open_job(schema: StructType, options: Mapping[str, str]) -> Job:
    """Return a write, as far as it can be known before there are rows.

    Raises:
        InvalidInputError: an option or a column is not as it must be.
        NotFoundError: there is no such namespace, or no such topic.
    """
    parsed = parse_write_options(options)
    check_columns(schema, parsed.topic)
    driver = parsed.driver()
    driver.run(open_namespace())
    topic = None if parsed.topic is None else driver.run(read_topic(parsed.topic))
    if topic is not None:
        target_of(topic, parsed.codec, parsed.batch_bytes)
    return Job(parsed, topic)


class LogWriter(DataSourceArrowWriter):
    """A batch: all rows of a frame, once."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._identity, self._write = Identity(THIS_HOST.ids(), 0, False), THIS_HOST.ids()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        return self._job.write(iterator, self._identity, self._write)

    def commit(self, messages: list[Any]) -> None:
        self._job.commit(messages)

    def abort(self, messages: list[Any]) -> None:
        # A task that failed has no message, and may have staged something.
        del messages
        self._job.abandon(self._identity, self._write)


def writer_of(
    schema: StructType, options: Mapping[str, str], *, overwrite: bool
) -> DataSourceArrowWriter:
    """Return the writer of a batch.

    Raises:
        InvalidInputError: an option, a column or the mode is not as it must be.
        NotFoundError: there is no such namespace, or no such topic.
    """
    if overwrite:
        raise InvalidInputError(
            "Save mode Overwrite not allowed for Kafka. Allowed save modes are Append and "
            'ErrorIfExists (default): a log is appended to, use .mode("append")'
        )
    return LogWriter(open_job(schema, options))


def stream_writer_of(schema: StructType, options: Mapping[str, str]) -> DataSourceStreamWriter:
    """Return the writer of a micro-batch. In output mode complete, too, its rows are appended.

    Raises:
        InvalidInputError: an option or a column is not as it must be; or this Spark has no stream
            writers that are given Arrow.
        NotFoundError: there is no such namespace, or no such topic.
    """
    try:
        from lakelog.spark.sink.streams import LogStreamWriter
    except ImportError as error:
        raise InvalidInputError(
            "to write streams needs Spark 4.1 or later: upgrade pyspark, or write by foreachBatch"
        ) from error
    return LogStreamWriter(open_job(schema, options))


def write(frame: DataFrame, path: str, *, topic: str | None = None, **options: object) -> None:
    """Append the rows of a frame to a topic, or to those that its column ``topic`` names.

    The same as ``frame.write.format("lakelog").mode("append")``, where the mode is needed: Spark
    does not offer its default for sources in Python.
    """
    writer = frame.write.format("lakelog").mode("append").option("path", path)
    if topic is not None:
        writer = writer.option("topic", topic)
    for name, value in options.items():
        writer = writer.option(name, str(value))
    writer.save()
