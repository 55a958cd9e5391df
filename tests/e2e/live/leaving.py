"""A Kafka that is left: topics of every kind on its disk, and what its consumers were given.

    mixed       all codecs, headers, nulls and both kinds of times, in several segments
    compacted   after the cleaner: gaps, and a batch of which nothing is left but its place
    cut         DeleteRecords up to the middle of a segment
    emptied     DeleteRecords up to the end
    expired     its old segments are gone
    txn         committed and aborted transactions that reach over segments, the last committed
    nothing     two partitions without a record
    streamed    a running query of Spark has read one half of it

Everything here speaks to a cluster by its address alone, so that the same questions can be put to
lakelog.
"""

import itertools
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.e2e.live.twins import START_MS
from tests.e2e.oracle.reading import Row
from tests.parts.archives import quick_kafka
from tests.parts.kafka import Kafka, copy_directory, running_kafka
from tests.patience import in_time

__all__ = [
    "CODECS",
    "COME_TO",
    "PARTITIONS",
    "TOPICS",
    "UNABORTED",
    "Left",
    "bounds_of",
    "commit",
    "consume",
    "copy_of",
    "fill",
    "group_of",
    "leaving_kafka",
    "offsets_by_time",
    "send_numbers",
]

PARTITIONS = {
    "mixed": 3,
    "compacted": 1,
    "cut": 1,
    "emptied": 1,
    "expired": 1,
    "txn": 2,
    "nothing": 2,
    "streamed": 2,
}
TOPICS = tuple(sorted(PARTITIONS))
UNABORTED = tuple(topic for topic in TOPICS if topic != "txn")
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

_SETTINGS = {
    "log.cleaner.backoff.ms": 100,
    "log.initial.task.delay.ms": 100,
    "log.retention.check.interval.ms": 200,
    "log.segment.delete.delay.ms": 100,
}
_SMALL = {"internal_segment_bytes": 8_000, "retention_ms": -1}
_ANSWER_S = 30

Bounds = dict[tuple[str, int], tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Left:
    """What a Kafka has left behind."""

    folder: Path
    """Its directory, when it had stopped."""
    seen: dict[str, list[Row]]
    """What a consumer of committed records was given, by topic."""
    bounds: Bounds
    """The first offset of each partition, and the next one."""
    times: dict[tuple[str, int, int], int]
    """Where records of a time or later begin, by partition and time."""


@contextmanager
def leaving_kafka() -> Iterator[Kafka]:
    """A Kafka that cleans and expires as soon as it may."""
    with running_kafka(_SETTINGS, jvm=quick_kafka()) as kafka:
        yield kafka


def fill(kafka: Kafka) -> None:
    """Make the topics, and wait until cleaner and retention have come."""
    for topic, count in PARTITIONS.items():
        configs: dict[str, object] = dict(_SMALL)
        if topic == "compacted":
            configs |= {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": 0.001}
        if topic == "expired":
            configs |= {"retention_bytes": 3_000}
        kafka.create_topic(topic, count, **configs)
    _fill_mixed(kafka)
    _fill_compacted(kafka)
    for topic in ("cut", "emptied", "expired"):
        send_numbers(kafka.bootstrap, topic, 0, 900)
    _fill_txn(kafka)
    _delete(kafka, "cut", 333)
    _delete(kafka, "emptied", 900)
    _wait(lambda: _is_cleaned(kafka, "compacted"))
    _wait(lambda: bounds_of(kafka.bootstrap, ["expired"])["expired", 0][0] > 0)


def copy_of(kafka: Kafka, folder: Path) -> None:
    """Copy the directory of a Kafka that has stopped, with all that is beside the topics."""
    for path in sorted(kafka.data_dir.iterdir()):
        if path.is_dir():
            copy_directory(path, folder / path.name)
        else:
            (folder / path.name).write_bytes(path.read_bytes())


# ---------------------------------------------------------------------------- what is written


def _producer(bootstrap: str, **settings: object) -> Producer:
    dotted = {name.replace("_", "."): value for name, value in settings.items()}
    return Producer({"bootstrap.servers": bootstrap, "log_level": 0, "linger.ms": 20, **dotted})


def _flush(producer: Producer) -> None:
    in_time(producer.flush(60) == 0, "some are not acknowledged")


def send_numbers(bootstrap: str, topic: str, first: int, count: int) -> None:
    """Send numbers in turn to the partitions of a topic."""
    producer = _producer(bootstrap, batch_num_messages=40, enable_idempotence=True)
    failed: list[KafkaError] = []
    for number in range(first, first + count):
        producer.produce(
            topic,
            partition=number % PARTITIONS[topic],
            key=b"key %d" % number,
            value=b"%d" % number,
            timestamp=START_MS + number,
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )
    _flush(producer)
    assert not failed


def _fill_mixed(kafka: Kafka) -> None:
    """Send records with all that may be missing missing, by every codec."""
    for turn, codec in enumerate((*CODECS, "none")):
        producer = _producer(kafka.bootstrap, compression_type=codec, batch_num_messages=30)
        for number in range(240):
            value = b"%s %d " % (codec.encode(), number) + bytes(range(number % 250)) * 2
            producer.produce(
                "mixed",
                partition=number % 3,
                key=None if number % 5 == 0 else b"" if number % 7 == 0 else b"key %d" % number,
                value=None if number % 11 == 0 else b"" if number % 13 == 0 else value,
                timestamp=START_MS + 1_000 * turn - 7 * number,
                headers=[("a", b"1"), ("a", None), ("é", b"\xff")] if number % 3 else [],
            )
        _flush(producer)
        if turn == 2:
            _alter(kafka, "mixed", "message.timestamp.type", "LogAppendTime")
        if turn == 3:
            _alter(kafka, "mixed", "message.timestamp.type", "CreateTime")


def _alter(kafka: Kafka, topic: str, name: str, value: str) -> None:
    done = kafka.tool(
        "kafka-configs", "--bootstrap-server", kafka.bootstrap, "--alter", "--entity-type",
        "topics", "--entity-name", topic, "--add-config", f"{name}={value}",
    )  # fmt: skip
    assert done.rc == 0, done.stderr


def _fill_compacted(kafka: Kafka) -> None:
    # The last batch of a producer stays, also when its records are gone: it holds the sequence.
    for turn in range(3):
        producer = _producer(kafka.bootstrap, batch_num_messages=20, enable_idempotence=True)
        for number in range(300):
            value = None if turn == 1 and number % 9 == 0 else b"%d in turn %d" % (number, turn)
            if turn < 2 or number % 4:
                producer.produce(
                    "compacted", key=b"key %d" % number, value=value, timestamp=START_MS
                )
        _flush(producer)


def _fill_txn(kafka: Kafka) -> None:
    """Two producers whose transactions overlap, and one without any."""
    writers = [_producer(kafka.bootstrap, transactional_id=f"txn-{n}") for n in range(2)]
    plain = _producer(kafka.bootstrap)
    for writer in writers:
        writer.init_transactions(60)
    for turn in range(5):
        for writer in writers:
            writer.begin_transaction()
        for number in range(60):
            for at, writer in enumerate((*writers, plain)):
                value = b"turn %d writer %d: %d " % (turn, at, number) + b"." * 60
                writer.produce("txn", value=value, partition=number % 2, timestamp=START_MS)
            if number % 20 == 0:
                for writer in (*writers, plain):
                    _flush(writer)
        for at, writer in enumerate(writers):
            _flush(writer)
            (writer.abort_transaction if (turn + at) % 2 else writer.commit_transaction)(60)
    _flush(plain)
    writers[0].begin_transaction()
    for number in range(4):
        writers[0].produce("txn", value=b"last", partition=number % 2, timestamp=START_MS)
    writers[0].commit_transaction(60)


def _delete(kafka: Kafka, topic: str, offset: int) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
    for done in admin.delete_records([TopicPartition(topic, 0, offset)]).values():
        done.result(timeout=_ANSWER_S)


def _is_cleaned(kafka: Kafka, topic: str) -> bool:
    """Return whether the cleaner has come as far as it may: up to the segment in use."""
    checkpoint = kafka.data_dir / "cleaner-offset-checkpoint"
    lines = checkpoint.read_text().splitlines() if checkpoint.exists() else []
    last = max(int(path.stem) for path in kafka.partition_dir(topic, 0).glob("*.log"))
    return f"{topic} 0 {last}" in lines


def _wait(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        in_time(time.monotonic() < deadline, "Kafka did not clean up")
        time.sleep(0.05)  # noqa: TID251 (nothing to wait on but the other process)


# ---------------------------------------------------------------------------- what is read


def _consumer(bootstrap: str, **settings: object) -> Consumer:
    dotted = {name.replace("_", "."): value for name, value in settings.items()}
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "log_level": 0,
            "group.id": "reading",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 20,
            "isolation.level": "read_committed",
            **dotted,
        }
    )


def _places(topics: Iterable[str]) -> list[tuple[str, int]]:
    return [(topic, number) for topic in topics for number in range(PARTITIONS[topic])]


def bounds_of(bootstrap: str, topics: Iterable[str] = TOPICS) -> Bounds:
    """Return where partitions begin and end, as a consumer is told."""
    consumer = _consumer(bootstrap)
    try:
        found = {
            place: consumer.get_watermark_offsets(TopicPartition(*place), timeout=_ANSWER_S)
            for place in _places(topics)
        }
        return {place: (low, high) for place, (low, high) in found.items()}
    finally:
        consumer.close()


def offsets_by_time(bootstrap: str) -> dict[tuple[str, int, int], int]:
    """Return where partitions reach some times."""
    # Kafka also finds what was aborted, and nothing where the cleaner has been.
    places = _places(topic for topic in TOPICS if topic not in ("compacted", "txn"))
    consumer = _consumer(bootstrap)
    try:
        return {
            (found.topic, found.partition, time_ms): found.offset
            for time_ms in (0, START_MS, START_MS + 123, START_MS + 250)
            for found in consumer.offsets_for_times(
                [TopicPartition(*place, time_ms) for place in places], timeout=_ANSWER_S
            )
        }
    finally:
        consumer.close()


def consume(bootstrap: str, topics: Iterable[str] = TOPICS) -> dict[str, list[Row]]:
    """Return all records that were committed, from the very beginning, by topic."""
    topics = list(topics)
    consumer = _consumer(bootstrap, enable_partition_eof=True)
    consumer.assign([TopicPartition(*place, OFFSET_BEGINNING) for place in _places(topics)])
    rows: dict[str, list[Row]] = {topic: [] for topic in topics}
    left = set(_places(topics))
    deadline = time.monotonic() + 60
    try:
        while left:
            in_time(time.monotonic() < deadline, f"no end of {sorted(left)}")
            for message in consumer.consume(500, timeout=0.5):
                topic, partition, offset = message.topic(), message.partition(), message.offset()
                assert topic is not None
                assert partition is not None
                assert offset is not None
                error = message.error()
                if error is not None:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    left.discard((topic, partition))
                    continue
                kind, timestamp = message.timestamp()
                kind -= 1  # librdkafka counts the kinds from 1.
                held = message.key(), message.value(), tuple(message.headers() or ())
                rows[topic].append((partition, offset, timestamp, kind, *held))
    finally:
        consumer.close()
    return {topic: _by_partition(found) for topic, found in rows.items()}


def _by_partition(rows: list[Row]) -> list[Row]:
    """Sort by partition, and leave those of each in the order in which they came."""
    rows = sorted(rows, key=lambda row: row[0])
    for one, other in itertools.pairwise(rows):
        assert one[0] < other[0] or one[1] < other[1], "a record came twice, or too late"
    return rows


# ---------------------------------------------------------------------------- a group

COME_TO = {("mixed", 0): 123, ("mixed", 1): 77, ("mixed", 2): 400}
"""How far a group has come."""


def commit(bootstrap: str) -> None:
    """Let the group have come to its offsets."""
    consumer = group_of(bootstrap)
    places = [TopicPartition(*place, offset) for place, offset in COME_TO.items()]
    consumer.commit(offsets=places, asynchronous=False)
    consumer.close()


def group_of(bootstrap: str) -> Consumer:
    """Return a member of the group, which has no other place to begin."""
    return _consumer(bootstrap, group_id="billing", auto_offset_reset="error")
