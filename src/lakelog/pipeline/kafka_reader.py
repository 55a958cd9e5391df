"""A running Kafka as the other side of a comparison.

Its partitions are read by a consumer of librdkafka, one piece of a partition after another, without
a group. The consumer is a port of its own kind: what is asked of it are values, too, so that the
steps that ask stay flows.

    ListPartitions()                               [(topic, partition, first, end)]
    ReadRecords(topic, partition, offset, end)     Arrow batch; empty at the end
"""

from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa

from lakelog.errors import InvalidInputError, UnavailableError
from lakelog.host import install_command
from lakelog.pipeline.frame import StoreRequest
from lakelog.segments import Selection
from lakelog.segments.placed import placed_schema

__all__ = [
    "KafkaPartition",
    "KafkaReader",
    "ListPartitions",
    "ReadRecords",
    "list_live",
    "read_live",
]

SCHEME = "kafka"
_WAIT_S = 30.0
_MOVES_MAX = 100
_MOVE_S = 0.1
"""A partition whose leader moves is asked for so often again, and after so long."""
_ROWS_MAX = 10_000
_LOG_APPEND_TIME = 2
_GROUP = "lakelog-verify"


@dataclass(frozen=True, slots=True)
class ListPartitions:
    """Ask for every partition, its first offset, and the offset behind its last record."""


@dataclass(frozen=True, slots=True)
class ReadRecords:
    """Ask for some records of a partition from ``offset`` on, below ``end``."""

    topic: str
    partition: int
    offset: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaPartition:
    """A partition of a running Kafka, as it was when it was listed."""

    topic: str
    partition: int
    base_offset: int
    next_offset_max: int

    @property
    def size(self) -> int:
        return 0

    @property
    def object(self) -> str:
        return f"{self.topic}-{self.partition}"


def list_live(perform: Callable[[Any], Any], selection: Selection) -> list[KafkaPartition]:
    """Return the partitions that are wanted."""
    return [
        KafkaPartition(topic=topic, partition=number, base_offset=first, next_offset_max=end)
        for topic, number, first, end in perform(ListPartitions())
        if selection.wants(topic, number)
    ]


def read_live(
    piece: KafkaPartition, store: str, columns: Iterable[str], offset_from: int, offset_to: int
) -> Generator[StoreRequest | pa.RecordBatch, Any, None]:
    """Yield the records of a range of offsets."""
    at = max(offset_from, piece.base_offset)
    end = min(offset_to, piece.next_offset_max)
    names = list(columns)
    while at < end:
        batch = yield StoreRequest(store, ReadRecords(piece.topic, piece.partition, at, end))
        if not batch.num_rows:
            return
        yield batch.select(names)
        at = batch.column("offset")[-1].as_py() + 1


class KafkaReader:
    """Performs what is asked of a running Kafka at ``kafka://host:port``."""

    def __init__(self, url: str, options: Mapping[str, str] | None = None) -> None:
        """``options`` go to librdkafka: security.protocol and the like.

        Raises:
            InvalidInputError: no address, or confluent-kafka is not installed.
        """
        parts = urlsplit(url)
        if parts.scheme != SCHEME or not parts.netloc:
            raise InvalidInputError(f"{url!r} is no address: use kafka://host:port")
        try:
            from confluent_kafka import Consumer
        except ImportError as error:
            raise InvalidInputError(
                f"a running Kafka is read with confluent-kafka: {install_command('kafka')}"
            ) from error
        self.url = url
        self._consumer = Consumer(
            {
                "bootstrap.servers": parts.netloc,
                "group.id": _GROUP,
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
                "isolation.level": "read_uncommitted",
                "fetch.wait.max.ms": 20,  # Nobody is producing: an end is an end.
                **(options or {}),
            }
        )
        self._position: tuple[str, int, int] | None = None
        """Topic, partition, and the offset that comes next, of what is being read."""
        self._through: tuple[str, int, int] | None = None
        """Topic, partition and end of the range that was last read to its end."""

    def perform(self, op: ListPartitions | ReadRecords) -> Any:
        """Do what is asked for."""
        if isinstance(op, ListPartitions):
            return list(self._partitions())
        return self._read(op)

    def _partitions(self) -> Iterable[tuple[str, int, int, int]]:
        from confluent_kafka import KafkaException, TopicPartition

        try:
            topics = self._consumer.list_topics(timeout=_WAIT_S).topics
            for topic, about in sorted(topics.items()):
                for number in sorted(about.partitions):
                    topic_partition = TopicPartition(topic, number)
                    yield topic, number, *self._bounds(topic_partition)
        except KafkaException as error:
            raise UnavailableError(f"{self.url} does not answer: {error}") from error

    def _bounds(self, topic_partition: Any) -> tuple[int, int]:
        """Return the first offset, and the one behind the last; wait for a leader that moves."""
        from confluent_kafka import KafkaError, KafkaException

        moving = (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE)
        for attempt in range(_MOVES_MAX):
            try:
                low, high = self._consumer.get_watermark_offsets(topic_partition, timeout=_WAIT_S)
            except KafkaException as error:
                if attempt + 1 == _MOVES_MAX or error.args[0].code() not in moving:
                    raise
                self._consumer.poll(_MOVE_S)  # It asks who leads now, and waits.
            else:
                return low, high
        raise AssertionError

    def _read(self, op: ReadRecords) -> pa.RecordBatch:
        from confluent_kafka import KafkaError, TopicPartition

        position = op.topic, op.partition, op.offset
        range_end = op.topic, op.partition, op.end
        if self._position != position and self._through != range_end:
            self._consumer.assign([TopicPartition(*position)])
        rows: list[dict[str, Any]] = []
        while not rows and self._through != range_end:
            first = self._consumer.poll(_WAIT_S)
            if first is None:
                raise UnavailableError(f"{self.url} sent nothing of {op.topic}-{op.partition}")
            # What is there already comes at once; to wait for more would be to wait in vain.
            for message in (first, *self._consumer.consume(_ROWS_MAX, timeout=0)):
                error = message.error()
                if error is None and message.offset() < op.end:
                    rows.append(_row(message))
                elif error is None or error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001
                    self._through = range_end
                else:
                    raise UnavailableError(f"{op.topic}-{op.partition} at {op.offset}: {error}")
        # A consumer that went past the range, or told its end, does neither again.
        is_through = self._through == range_end or not rows
        self._position = None if is_through else (*position[:2], rows[-1]["offset"] + 1)
        return pa.RecordBatch.from_pylist(rows, schema=placed_schema())


def _row(message: Any) -> dict[str, Any]:
    kind, timestamp_ms = message.timestamp()
    headers = message.headers()
    return {
        "key": message.key(),
        "value": message.value(),
        "topic": message.topic(),
        "partition": message.partition(),
        "offset": message.offset(),
        "timestamp": timestamp_ms * 1000,
        "timestampType": int(kind == _LOG_APPEND_TIME),
        "headers": headers and [{"key": key, "value": value} for key, value in headers],
    }
