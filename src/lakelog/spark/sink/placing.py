"""Rows to partitions, and what the topic of each demands of them.

    partition column   as it says
    key                where Kafka's clients put it: ``records.partitioning``
    neither            a partition is filled with a batch, then the next; a task begins where its
                       number says, so that many small tasks reach all partitions

No step looks at a row by itself: columns become arrays of places, rows are sorted by them, and what
follows is done once for each partition that has any.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.catalog import Topic, TopicConfigs, compression_codec
from lakelog.errors import InvalidInputError, NotFoundError
from lakelog.model import TimestampType
from lakelog.records import Codec, hash_keys, sort_rows
from lakelog.spark.sink.options import WriteOptions

__all__ = ["PartitionRows", "PartitionedRows", "RowPartitioner", "TopicTarget", "home_of"]

_FRAME_BYTES = 12
"""About what a record has around its value."""
_RECORD_COLUMNS = ("key", "value", "headers", "timestamp")

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class TopicTarget:
    """A topic, as a task knows it."""

    topic: Topic
    configs: TopicConfigs
    codec: Codec
    batch_bytes: int


def home_of(topic: Topic, options: WriteOptions) -> TopicTarget:
    """Return what a task must know of a topic.

    Raises:
        NotFoundError: it is deleted, or not open yet.
    """
    if not topic.is_open:
        raise NotFoundError(f"there is no topic {topic.name!r}: check the name, or create it")
    configs = TopicConfigs.of(topic.configs)
    codec = options.codec
    if codec is None:
        codec = compression_codec(topic.configs) or Codec.NONE
    most = configs.max_message_bytes
    if codec is not Codec.NONE:
        most -= most // 128 + 64  # What cannot be compressed grows by about as much.
    return TopicTarget(topic, configs, codec, max(min(options.batch_bytes, most), 1))


class PartitionRows(NamedTuple):
    """Rows ``[start, end)`` are of one partition."""

    home: TopicTarget
    partition: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class PartitionedRows:
    """Records by partition, in the order of the rows within each."""

    rows: pa.RecordBatch
    groups: list[PartitionRows]


class RowPartitioner:
    """Places the rows of one task."""

    def __init__(self, home: Callable[[str], TopicTarget], topic: str | None, first: int) -> None:
        """``home`` returns a topic by its name; ``first`` shifts where records without keys go."""
        self._home, self._topic, self._first = home, topic, first
        self._filled: dict[str, int] = {}
        """Bytes of records without keys so far, of each topic."""

    def place(self, rows: pa.RecordBatch, now_ms: int) -> PartitionedRows:
        """Return rows by partition; they have the columns of ``read_columns``.

        Raises:
            InvalidInputError: a row cannot be in its topic.
            NotFoundError: there is no such topic.
        """
        homes, which = self._topics(rows)
        counts = np.array([home.topic.partitions for home in homes], np.int32)
        partitions, keyless = _chosen(rows, homes, which, counts)
        for index, home in enumerate(homes):
            here = slice(None) if which is None else which == index
            _check(home, keyless[here], _times_ms(rows)[here], now_ms)
            self._fill(home, rows, partitions, here)
        bases = np.cumsum(counts, dtype=np.int64) - counts
        places = partitions if which is None else partitions + bases[which]
        order, ends = sort_rows(places.astype(np.int32, copy=False), int(counts.sum()))
        groups = _groups(homes, counts, ends)
        records = rows.select([name for name in _RECORD_COLUMNS if name in rows.schema.names])
        return PartitionedRows(
            records if len(groups) < 2 else records.take(pa.array(order)), groups
        )

    def _topics(self, rows: pa.RecordBatch) -> tuple[list[TopicTarget], Array | None]:
        """Return the topics of rows, and which of them each row is of; None: all of the first."""
        if self._topic is not None:
            return [self._home(self._topic)], None
        column = rows.column("topic")
        if column.null_count:
            raise InvalidInputError(
                "[KAFKA_NULL_TOPIC_IN_DATA] The Kafka message data sent to the producer contains "
                "a null topic. Use the `topic` option for setting a default topic."
            )
        named = column.dictionary_encode()
        homes = [self._home(name) for name in named.dictionary.to_pylist()]
        return homes, None if len(homes) == 1 else named.indices.to_numpy()

    def _fill(
        self, home: TopicTarget, rows: pa.RecordBatch, partitions: Array, here: slice | Array
    ) -> None:
        """Choose for the rows of a topic that have no partition yet."""
        free = partitions < 0
        if not isinstance(here, slice):
            free &= here
        if not free.any():
            return
        lengths = pc.fill_null(pc.binary_length(rows.column("value")), 0).to_numpy()
        sizes = lengths[free].astype(np.int64) + _FRAME_BYTES
        name = home.topic.name
        ends = self._filled.get(name, 0) + np.cumsum(sizes)
        turns = (ends - sizes) // home.batch_bytes
        partitions[free] = (self._first + turns) % home.topic.partitions
        self._filled[name] = int(ends[-1])


def _chosen(
    rows: pa.RecordBatch, homes: list[TopicTarget], which: Array | None, counts: Array
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
            home = homes[0 if which is None else int(which[over[0]])]
            most = home.topic.partitions
            raise InvalidInputError(
                f"Partition {named[over[0]]} of topic {home.topic.name} with partition count "
                f"{most} is not present in metadata: use 0 to {most - 1}, or null"
            )
        partitions = np.where(named >= 0, named, partitions)
    return partitions, keyless


def _times_ms(rows: pa.RecordBatch) -> Array:
    times: Array = rows.column("timestamp").cast(pa.int64()).to_numpy() // 1000
    return times


def _check(home: TopicTarget, keyless: Array, times_ms: Array, now_ms: int) -> None:
    """See that rows may be in a topic, as a broker would."""
    configs, name = home.configs, home.topic.name
    if configs.is_compacted and keyless.any():
        raise InvalidInputError(
            f"Compacted topic cannot accept message without key in topic {name}: give every row a "
            "key, or take compact out of the topic's cleanup.policy"
        )
    if configs.timestamp_type is TimestampType.LOG_APPEND_TIME or not len(times_ms):
        return
    least, most = int(times_ms.min()), int(times_ms.max())
    early, late = now_ms - least, most - now_ms
    if late > configs.timestamp_after_max_ms or early > configs.timestamp_before_max_ms:
        raise InvalidInputError(
            f"Timestamps {least} to {most} of message(s) in topic {name} are out of range: they "
            f"should be within [{now_ms - configs.timestamp_before_max_ms}, "
            f"{now_ms + configs.timestamp_after_max_ms}]; change them, or the topic's "
            "message.timestamp.before.max.ms and message.timestamp.after.max.ms"
        )


def _groups(homes: list[TopicTarget], counts: Array, ends: Array) -> list[PartitionRows]:
    starts = np.concatenate(([0], ends[:-1]))
    used = np.flatnonzero(ends > starts)
    behind = np.cumsum(counts, dtype=np.int64)
    which = np.searchsorted(behind, used, side="right")
    partitions = used - (behind - counts)[which]
    return [
        PartitionRows(homes[index], partition, start, end)
        for index, partition, start, end in zip(
            which.tolist(),
            partitions.tolist(),
            starts[used].tolist(),
            ends[used].tolist(),
            strict=True,
        )
    ]
