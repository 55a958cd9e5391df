"""Small batches of real producers become large ones, and no client can tell.

    producers   idempotent and not, by every codec, a few records a batch; with keys and headers
    pipeline    seal, a segment a bundle; merge, on Spark; a new broker behind it
    oracle      what producers were told, and what consumers read and asked for before the merge

The topic says ``compression.type=zstd``. Another has the time of the append, which batches must not
share. Producers that are still there go on afterwards, as if nothing had happened.
"""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from pyspark.sql import SparkSession

from lakelog.catalog import read_topic
from lakelog.formats import kafs
from lakelog.host import THIS_HOST
from lakelog.maintenance import read_segment
from lakelog.manifests import read_manifest
from lakelog.model import Rules
from lakelog.pipeline import run_here
from lakelog.pipeline.jobs import merge_job, seal_job, verify_job
from lakelog.records import BatchHeader, Codec, decode_header
from lakelog.spark.jobs import run_job
from lakelog.store import run
from tests.e2e.live.twins import Namespace, create_topic, running_namespace
from tests.e2e.live.views import Bucket
from tests.patience import in_time

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

PACKED, STAMPED = "packed", "stamped"
TOPICS = {
    PACKED: {"compression.type": "zstd"},
    STAMPED: {"compression.type": "lz4", "message.timestamp.type": "LogAppendTime"},
}
PARTITIONS, ROUNDS, RECORDS = 2, 2, 200
BATCH_RECORDS = 5
PATIENCE_S = 60.0
START_MS = time.time_ns() // 1_000_000 - 3_600_000

Place = tuple[int, int]
"""Partition and offset."""


Headers = tuple[tuple[str, bytes | None], ...]


class Seen(NamedTuple):
    """A record as clients see it."""

    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp: tuple[int, int]
    """Its type, and the time."""


Log = dict[Place, Seen]


def seen(message: Message) -> Seen:
    headers: Any = message.headers() or ()
    return Seen(message.key(), message.value(), tuple(headers), message.timestamp())


def record_of(number: int) -> dict[str, Any]:
    """Keys, values and headers of every kind: none, empty and some."""
    return {
        "partition": number % PARTITIONS,
        "timestamp": START_MS + number * 7 % 1000,
        "key": None if number % 5 == 0 else b"user-%d" % (number % 97),
        "value": None if number % 41 == 0 else b'{"number":%d,"page":"/orders/list"}' % number,
        "headers": [("trace", b"%d" % number), ("empty", b""), ("none", None)][: number % 4],
    }


class Sender:
    """A producer of small batches, and what it was told."""

    def __init__(self, bootstrap: str, codec: str, *, idempotent: bool) -> None:
        self.told: dict[str, Log] = {topic: {} for topic in TOPICS}
        self.errors: list[object] = []
        self._sent = 0
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "log_level": 0,
                "enable.idempotence": idempotent,
                "compression.type": codec,
                "batch.num.messages": BATCH_RECORDS,
                "linger.ms": 1,
            }
        )

    def send(self, count: int) -> None:
        """Send to all topics, and wait until everything is acknowledged."""
        for _ in range(count):
            record = record_of(self._sent)
            note = partial(self._note, tuple(record["headers"]))
            for topic in TOPICS:
                self._producer.produce(topic, **record, on_delivery=note)
            self._sent += 1
        assert self._producer.flush(PATIENCE_S) == 0
        assert not self.errors, self.errors

    def _note(self, headers: Headers, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.errors.append(error)
            return
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        assert topic is not None
        assert partition is not None
        assert offset is not None
        log = self.told[topic]
        assert (partition, offset) not in log
        # The client does not hand headers back.
        log[partition, offset] = seen(message)._replace(headers=headers)


def read_all(bootstrap: str, topic: str) -> Log:
    """Everything from the beginning to the end, by a consumer that knows nothing yet."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "nobody",
            "log_level": 0,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "check.crcs": True,
        }
    )
    found: Log = {}
    try:
        consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
        left, deadline = set(range(PARTITIONS)), time.monotonic() + PATIENCE_S
        while left:
            in_time(time.monotonic() < deadline, left)
            for message in consumer.consume(10_000, 0.1):
                partition, offset, error = message.partition(), message.offset(), message.error()
                assert partition is not None
                if error is not None:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    left.discard(partition)
                    continue
                assert offset is not None
                assert (partition, offset) not in found
                found[partition, offset] = seen(message)
    finally:
        consumer.close()
    return found


def ask_times(bootstrap: str, topic: str, log: Log) -> list[int]:
    """Which offsets a client is told for some times, of which some are before and behind all."""
    times = sorted({one.timestamp[1] for one in log.values()})
    asked = [times[0] - 1, *times[:: max(1, len(times) // 9)], times[-1], times[-1] + 1]
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "nobody", "log_level": 0})
    try:
        return [
            found.offset
            for moment in asked
            for found in consumer.offsets_for_times(
                [TopicPartition(topic, number, moment) for number in range(PARTITIONS)], PATIENCE_S
            )
        ]
    finally:
        consumer.close()


@dataclass
class Story:
    """A broker, producers, and the bucket below."""

    namespace: Namespace

    def __post_init__(self) -> None:
        self.broker, self.url = self.namespace.broker, self.namespace.broker.storage
        self.bootstrap = self.broker.bootstrap
        self.bucket = Bucket(self.namespace.folder)
        for topic, configs in TOPICS.items():
            create_topic(self.bootstrap, topic, PARTITIONS, **configs)
        self.senders = [
            Sender(self.bootstrap, "none", idempotent=True),
            Sender(self.bootstrap, "gzip", idempotent=False),
            Sender(self.bootstrap, "snappy", idempotent=True),
        ]

    def told(self, topic: str) -> Log:
        found: Log = {}
        for sender in self.senders:
            assert not found.keys() & sender.told[topic].keys()
            found |= sender.told[topic]
        return found

    def batches(self, topic: str) -> list[BatchHeader]:
        """The batches of history."""
        about = run(read_topic(topic), self.bucket.perform)
        found = []
        for number in range(PARTITIONS):
            where = about.path_of(number)
            for row in run(read_manifest(where), self.bucket.perform).segments:
                body = run(read_segment(where, row), self.bucket.perform)
                assert len(body) == row.length - kafs.HEADER_BYTES - kafs.FOOTER_BYTES
                at = 0
                while at < len(body):
                    found.append(decode_header(body, at))
                    at += found[-1].size
        return found

    def seal(self) -> None:
        report = run_here(seal_job(self.url, host=THIS_HOST, segment_bytes=1, backlog_ms=0))
        assert report.outcomes["sealed"] > 0

    def merge(self, spark: SparkSession) -> Mapping[str, int]:
        report = run_job(
            spark, merge_job(self.url, host=THIS_HOST, segment_bytes=64 << 20, rows_min=2)
        )
        assert report.is_good, report.findings(5)
        return report.outcomes


@pytest.fixture
def story() -> Iterator[Story]:
    rules = Rules(lanes=2, grace_ms=60_000, checkpoint_every=16)
    arguments = ("--flush-interval-ms", "20", "--no-keep")
    with running_namespace(arguments, rules) as namespace:
        yield Story(namespace)


def sizes(batches: list[BatchHeader]) -> tuple[int, int]:
    return len(batches), sum(header.size for header in batches)


def test_small_batches_become_large_ones_and_no_client_can_tell(
    spark: SparkSession, story: Story
) -> None:
    for _ in range(ROUNDS):
        for sender in story.senders:
            sender.send(RECORDS)
    story.seal()
    logs = {topic: read_all(story.bootstrap, topic) for topic in TOPICS}
    times = {topic: ask_times(story.bootstrap, topic, log) for topic, log in logs.items()}
    before = {topic: story.batches(topic) for topic in TOPICS}
    assert {topic: story.told(topic) for topic in TOPICS} == logs
    assert {len(log) for log in logs.values()} == {ROUNDS * RECORDS * len(story.senders)}

    assert story.merge(spark) == {"merged": PARTITIONS * len(TOPICS)}
    story.broker.restart()

    after = {topic: story.batches(topic) for topic in TOPICS}
    for topic, log in logs.items():
        assert read_all(story.bootstrap, topic) == log
        assert ask_times(story.bootstrap, topic, log) == times[topic]
        print(f"\n{topic}: {sizes(before[topic])} -> {sizes(after[topic])}")  # noqa: T201
    (many, old_bytes), (few, new_bytes) = sizes(before[PACKED]), sizes(after[PACKED])
    # One batch for each turn of a producer in each partition, where it was one for five records.
    assert (
        many
        > PARTITIONS * ROUNDS * len(story.senders) * RECORDS // PARTITIONS // BATCH_RECORDS // 2
    )
    assert few <= PARTITIONS * ROUNDS * len(story.senders)
    assert new_bytes < old_bytes / 3
    assert {header.codec for header in after[PACKED]} == {Codec.ZSTD}
    assert len({header.producer_id for header in after[PACKED]}) == 3
    assert run_here(verify_job(story.url, host=THIS_HOST, layout="lakelog", records=True)).is_good
    assert story.merge(spark) == {}

    for sender in story.senders:
        sender.send(RECORDS)
    assert read_all(story.bootstrap, PACKED) == story.told(PACKED)
