"""Records that are hard on a reader, produced to a real Kafka by librdkafka.

There is a topic for each codec, and each topic has one more trouble of its own: space set aside in
advance, times out of order, times of the broker's, transactions that overlap, very small batches.
All topics grow at the same time, so that a copy of the directories can be taken in between. A last
topic is compacted by the broker, which rewrites its batches with the Java codecs.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, pairwise
from pathlib import Path
from random import Random  # noqa: TID251 (seeded)
from typing import NamedTuple

from confluent_kafka import Producer

from lakelog.records import Codec
from tests.parts.kafka import Kafka
from tests.patience import in_time

__all__ = [
    "COMPACTED",
    "PARTITIONS",
    "TRAFFIC",
    "Traffic",
    "create_topics",
    "is_compacted",
    "produce",
    "produce_compacted",
    "records",
]

FIRST_TIME = 1_700_000_000_000
PARTITIONS = 3
_CHUNK = 400
_COMPACTED_RECORDS = 6_000
_TRIES = 600

_HEADER_KEYS = ("trace", "", "ключ", "鍵", "🔑", "a-rather-long-name-for-a-header")
_HEADER_VALUES = (None, b"", b"\x00\xff", b"value" * 9)
_WORDS = b"the quick brown fox jumps over the lazy dog while a log grows at its end ".split()


class Message(NamedTuple):
    """A record on its way to Kafka."""

    partition: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """A topic, and how it is written to."""

    topic: str
    codec: Codec
    idempotent: bool = False
    transactional: bool = False
    jitter_ms: int = 0
    batch_messages: int = 200
    configs: Mapping[str, object] = field(default_factory=dict)

    @property
    def interval_bytes(self) -> int:
        return int(str(self.configs.get("index_interval_bytes", 4096)))


TRAFFIC = (
    Traffic(topic="oracle-none", codec=Codec.NONE, configs={"preallocate": True}),
    Traffic(topic="oracle-gzip", codec=Codec.GZIP, idempotent=True, jitter_ms=90_000),
    Traffic(
        topic="oracle-snappy",
        codec=Codec.SNAPPY,
        batch_messages=40,
        configs={"message_timestamp_type": "LogAppendTime"},
    ),
    Traffic(topic="oracle-lz4", codec=Codec.LZ4, transactional=True, jitter_ms=20),
    Traffic(
        topic="oracle-zstd",
        codec=Codec.ZSTD,
        idempotent=True,
        jitter_ms=2_000,
        batch_messages=25,
        configs={"index_interval_bytes": 1500},
    ),
)
COMPACTED = Traffic(
    topic="oracle-compacted",
    codec=Codec.NONE,
    idempotent=True,
    configs={
        "cleanup_policy": "compact",
        "internal_segment_bytes": 24 * 1024,
        "min_cleanable_dirty_ratio": 0.001,
    },
)


def create_topics(kafka: Kafka, count: int) -> None:
    """Create the topics, with segments so small that each partition has several."""
    for traffic in (*TRAFFIC, COMPACTED):
        configs = {
            "compression_type": "producer",
            "internal_segment_bytes": max(80 * 1024, count // 2),
            "segment_index_bytes": 60_000,
            **traffic.configs,
        }
        kafka.create_topic(traffic.topic, PARTITIONS, **configs)


def records(
    rng: Random, count: int, *, first_time: int = FIRST_TIME, jitter_ms: int = 0
) -> Iterator[Message]:
    """Yield records with all that may be missing missing, and with sizes from 0 to a few KB."""
    text = b" ".join(rng.choice(_WORDS) + b"%x" % rng.randrange(1 << 16) for _ in range(4_000))
    choices = [
        [(rng.choice(_HEADER_KEYS), rng.choice(_HEADER_VALUES)) for _ in range(number % 4)]
        for number in range(80)
    ]
    for number in range(count):
        kind = rng.random()
        start = int(kind * 20_000)
        size = rng.randrange(4_000) if kind < 0.015 else rng.randrange(160)
        value = None if kind > 0.97 else b"" if kind > 0.94 else text[start : start + size]
        named = rng.choice(("key-{}", "ключ-{}", "")).format(number % 1_000).encode()
        yield Message(
            partition=rng.randrange(PARTITIONS),
            timestamp=first_time + number // 3 * 20 + rng.randint(-jitter_ms, jitter_ms),
            key=None if number % 5 == 0 else named,
            value=value,
            headers=rng.choice(choices),
        )


def produce(kafka: Kafka, count: int, seed: int) -> None:
    """Produce ``count`` records to the topics of every codec, a little to each in turn."""
    shares = [count * n // len(TRAFFIC) for n in range(len(TRAFFIC) + 1)]
    growing = []
    for number, (start, end) in enumerate(pairwise(shares)):
        traffic = TRAFFIC[number]
        messages = records(Random(seed + number), end - start, jitter_ms=traffic.jitter_ms)
        grow = _transactions if traffic.transactional else _plain
        growing.append(grow(kafka, traffic, messages))
    while growing:
        growing = [grows for grows in growing if next(grows, None) is not None]


def _plain(kafka: Kafka, traffic: Traffic, messages: Iterator[Message]) -> Iterator[int]:
    producer = _producer(kafka, traffic)
    while chunk := list(islice(messages, _CHUNK)):
        for message in chunk:
            _send(producer, traffic.topic, message)
        yield len(chunk)
    in_time(producer.flush(60) == 0, "some are not acknowledged")


def _transactions(kafka: Kafka, traffic: Traffic, messages: Iterator[Message]) -> Iterator[int]:
    """Two transactions are open at a time, and a third producer has none."""
    writers = [
        _producer(kafka, traffic, {"transactional.id": f"{traffic.topic}-{n}"}) for n in range(2)
    ]
    lanes = [*writers, _producer(kafka, traffic)]
    for writer in writers:
        writer.init_transactions(60)
    turn = 0
    while chunk := list(islice(messages, 4 * _CHUNK)):
        for writer in writers:
            writer.begin_transaction()
        for number, message in enumerate(chunk):
            _send(lanes[number % len(lanes)], traffic.topic, message)
        for lane in lanes:
            # What an abort finds unsent never reaches the log, and we want it there.
            in_time(lane.flush(60) == 0, "some are not acknowledged")
        for number, writer in enumerate(writers):
            (writer.abort_transaction if (turn + number) % 3 else writer.commit_transaction)(60)
        turn += 1
        yield len(chunk)


def _producer(
    kafka: Kafka, traffic: Traffic, settings: Mapping[str, object] | None = None
) -> Producer:
    return Producer(
        {
            "bootstrap.servers": kafka.bootstrap,
            "log_level": 0,
            "compression.type": traffic.codec.name.lower(),
            "enable.idempotence": traffic.idempotent or traffic.transactional,
            "linger.ms": 20,
            "batch.size": 24_000,
            "batch.num.messages": traffic.batch_messages,
            **(settings or {}),
        }
    )


def _send(producer: Producer, topic: str, message: Message) -> None:
    for _ in range(_TRIES):
        try:
            producer.produce(
                topic,
                partition=message.partition,
                timestamp=message.timestamp,
                key=message.key,
                value=message.value,
                headers=message.headers,
            )
            return
        except BufferError:
            producer.poll(0.1)
    raise AssertionError(f"{topic} takes no more records")


# ---------------------------------------------------------------------------- compaction


def produce_compacted(kafka: Kafka, seed: int) -> None:
    """Produce few keys many times, in batches of every codec.

    One producer writes only once, and all it writes is outdated at once. Its batches are emptied
    but not taken away, because the broker must not forget the producer.
    """
    rng = Random(seed)
    settings = {"batch.num.messages": 30}
    producers = [
        _producer(kafka, replace(COMPACTED, codec=codec), settings) for codec in (*Codec, Codec.LZ4)
    ]
    for producer in (producers.pop(), producers[0]):
        for number in range(30):
            message = Message(number % PARTITIONS, FIRST_TIME, b"first-%d" % number, b"", [])
            _send(producer, COMPACTED.topic, message)
        _flush([producer])
    for number, message in enumerate(records(rng, _COMPACTED_RECORDS)):
        key = f"k{rng.randrange(300)}".encode()
        _send(producers[number // 30 % len(producers)], COMPACTED.topic, message._replace(key=key))
        if number % 300 == 0:
            _flush(producers)
    _flush(producers)


def _flush(producers: Sequence[Producer]) -> None:
    for producer in producers:
        in_time(producer.flush(60) == 0, "some are not acknowledged")


def is_compacted(kafka: Kafka) -> bool:
    """Return whether the cleaner has come as far as it may: up to the segment in use."""
    checkpoint = kafka.data_dir / "cleaner-offset-checkpoint"
    lines = checkpoint.read_text().splitlines() if checkpoint.exists() else []
    cleaned = {tuple(line.split()[:2]): int(line.split()[2]) for line in lines[2:]}
    return all(
        cleaned.get((COMPACTED.topic, str(partition)))
        == _last_base(kafka.partition_dir(COMPACTED.topic, partition))
        for partition in range(PARTITIONS)
    )


def _last_base(folder: Path) -> int:
    return max(int(path.stem) for path in folder.glob("*.log"))
