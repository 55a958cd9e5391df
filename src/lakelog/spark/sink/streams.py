"""The writer behind ``df.writeStream.format("lakelog")``: each micro-batch once.

    tasks    learn the query and the batch from what Spark tells every task of a stream
    commit   learns the query from the messages of the tasks, and the batch from Spark

Spark makes a writer for each micro-batch, pickles it to the tasks, and makes *another one* for the
commit. So nothing that a writer draws can be told to the commit but by messages. If no task has
sent one, there is nothing to commit, and an abort cannot say what to bar: the sweep finds it.

The id of an attempt follows from the id of the writer and the batch. A query that is started again
has other attempts of the same write, of which one counts.
"""

from collections.abc import Iterator
from hashlib import blake2b
from typing import Any
from uuid import UUID

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter

from lakelog.errors import InvalidInputError
from lakelog.host import THIS_HOST
from lakelog.log import Identity
from lakelog.spark.sink.writers import Job, Written

__all__ = ["LogStreamWriter", "attempt_of"]

_QUERY = "sql.streaming.queryId"
_BATCH = "streaming.sql.batchId"


def attempt_of(writer: bytes, identity: Identity) -> bytes:
    """Return the id of the attempt that a writer makes of a micro-batch."""
    digest = blake2b(digest_size=16)
    digest.update(writer + identity.query + identity.number.to_bytes(8, "big"))
    return digest.digest()


class LogStreamWriter(DataSourceStreamArrowWriter):
    """One micro-batch after the other."""

    def __init__(self, job: Job) -> None:
        self._job, self._id = job, THIS_HOST.ids()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        identity = _identity(TaskContext.get())
        return self._job.write(iterator, identity, attempt_of(self._id, identity))

    def commit(self, messages: list[Any], batchId: int) -> None:  # noqa: N803 (Spark's name)
        for message in messages:
            if message.identity.number != batchId or message.write != messages[0].write:
                raise InvalidInputError(
                    f"a task wrote for batch {message.identity.number} of {batchId}, attempt "
                    f"{message.write.hex()}: restart the query"
                )
        self._job.commit(messages)

    def abort(self, messages: list[Any], batchId: int) -> None:  # noqa: N803
        del batchId
        attempts = {(one.identity, one.write) for one in messages if one is not None}
        for identity, write in attempts:
            self._job.abandon(identity, write)


def _identity(context: TaskContext | None) -> Identity:
    query = None if context is None else context.getLocalProperty(_QUERY)
    batch = None if context is None else context.getLocalProperty(_BATCH)
    if query is None or batch is None:
        raise InvalidInputError(
            "this task does not know which query it is of: start it by df.writeStream"
        )
    return Identity(UUID(query).bytes, int(batch), True)
