"""Rows to partitions, and what the topic of each demands of them.

    partition column   as it says
    key                where Kafka's clients put it: ``records.partitioning``
    neither            a partition is filled with a batch, then the next; a task begins where its
                       number says, so that many small tasks reach all partitions

No step looks at a row by itself: columns become arrays of places, rows are sorted by them, and what
follows is done once for each partition that has any.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.errors import InvalidInputError
from lakelog.log.packing import PartitionedRows, PartitionRows, TopicTarget, check_rows
from lakelog.records import hash_keys, sort_rows

__all__ = ["RowPartitioner"]

_FRAME_BYTES = 12
"""About what a record has around its value."""
_RECORD_COLUMNS = ("key", "value", "headers", "timestamp")

Array = npt.NDArray[Any]


class RowPartitioner:
    """Places the rows of one task."""

    def __init__(
        self, find_target: Callable[[str], TopicTarget], topic: str | None, first: int
    ) -> None:
        """``find_target`` finds a topic by its name; ``first`` shifts where keyless records go."""
        self._find_target, self._topic, self._first = find_target, topic, first
        self._filled: dict[str, int] = {}
        """Bytes of records without keys so far, of each topic."""

    def partition(self, rows: pa.RecordBatch, now_ms: int) -> PartitionedRows:
        """Return rows by partition; they have the columns of ``read_columns``.

        Raises:
            InvalidInputError: a row cannot be in its topic.
            NotFoundError: there is no such topic.
        """
        targets, which = self._topics(rows)
        counts = np.array([target.topic.partitions for target in targets], np.int32)
        partitions, keyless = _chosen(rows, targets, which, counts)
        for index, target in enumerate(targets):
            here = slice(None) if which is None else which == index
            check_rows(target, keyless[here], _times_ms(rows)[here], now_ms)
            self._fill(target, rows, partitions, here)
        bases = np.cumsum(counts, dtype=np.int64) - counts
        places = partitions if which is None else partitions + bases[which]
        order, ends = sort_rows(places.astype(np.int32, copy=False), int(counts.sum()))
        groups = _groups(targets, counts, ends)
        records = rows.select([name for name in _RECORD_COLUMNS if name in rows.schema.names])
        return PartitionedRows(
            records if len(groups) < 2 else records.take(pa.array(order)), groups
        )

    def _topics(self, rows: pa.RecordBatch) -> tuple[list[TopicTarget], Array | None]:
        """Return the topics of rows, and which of them each row is of; None: all of the first."""
        if self._topic is not None:
            return [self._find_target(self._topic)], None
        column = rows.column("topic")
        if column.null_count:
            raise InvalidInputError(
                "[KAFKA_NULL_TOPIC_IN_DATA] The Kafka message data sent to the producer contains "
                "a null topic. Use the `topic` option for setting a default topic."
            )
        named = column.dictionary_encode()
        targets = [self._find_target(name) for name in named.dictionary.to_pylist()]
        return targets, None if len(targets) == 1 else named.indices.to_numpy()

    def _fill(
        self, target: TopicTarget, rows: pa.RecordBatch, partitions: Array, here: slice | Array
    ) -> None:
        """Choose for the rows of a topic that have no partition yet."""
        free = partitions < 0
        if not isinstance(here, slice):
            free &= here
        if not free.any():
            return
        lengths = pc.fill_null(pc.binary_length(rows.column("value")), 0).to_numpy()
        sizes = lengths[free].astype(np.int64) + _FRAME_BYTES
        name = target.topic.name
        ends = self._filled.get(name, 0) + np.cumsum(sizes)
        turns = (ends - sizes) // target.batch_bytes
        partitions[free] = (self._first + turns) % target.topic.partitions
        self._filled[name] = int(ends[-1])


def _chosen(
    rows: pa.RecordBatch, targets: list[TopicTarget], which: Array | None, counts: Array
) -> tuple[Array, Array]:
    """Return the partition that each row names or its key means, else -1; and who has no key."""
    count = counts[0] if which is None else counts[which]
    if "key" in rows.schema.names:
        hashes = hash_keys(rows.column("key"))
        keyless = hashes < 0
        partitions = np.where(keyless, np.int32(-1), hashes % count)
    else:
        keyless = np.ones(rows.num_rows, np.bool_)
        partitions = np.full(rows.num_rows, -1, np.int32)
    if "partition" in rows.schema.names and rows.column("partition").null_count < rows.num_rows:
        column = rows.column("partition")
        least = pc.min(column).as_py()
        if least < 0:
            raise InvalidInputError(
                f"Invalid partition: {least}. Partition number should always be non-negative or "
                "null."
            )
        named = pc.fill_null(column, -1).to_numpy()
        over = np.flatnonzero(named >= count)
        if len(over):
            target = targets[0 if which is None else int(which[over[0]])]
            most = target.topic.partitions
            raise InvalidInputError(
                f"Partition {named[over[0]]} of topic {target.topic.name} with partition count "
                f"{most} is not present in metadata: use 0 to {most - 1}, or null"
            )
        partitions = np.where(named >= 0, named, partitions)
    return partitions, keyless


def _times_ms(rows: pa.RecordBatch) -> Array:
    times: Array = rows.column("timestamp").cast(pa.int64()).to_numpy() // 1000
    return times


def _groups(targets: list[TopicTarget], counts: Array, ends: Array) -> list[PartitionRows]:
    starts = np.concatenate(([0], ends[:-1]))
    used = np.flatnonzero(ends > starts)
    behind = np.cumsum(counts, dtype=np.int64)
    which = np.searchsorted(behind, used, side="right")
    partitions = used - (behind - counts)[which]
    return [
        PartitionRows(targets[index], partition, start, end)
        for index, partition, start, end in zip(
            which.tolist(),
            partitions.tolist(),
            starts[used].tolist(),
            ends[used].tolist(),
            strict=True,
        )
    ]
