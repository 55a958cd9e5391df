"""Compaction as Kafka does it: the same segments cleaned by a real broker and by lakelog.

Partitions are written while the broker's cleaner is held back, copied, and then cleaned, three
times in a row. What is left must be the same: every header, every record, and where nothing is
compressed every byte. When Kafka cleaned is read from what it wrote: the horizon of the tombstones
that it met first, less their retention.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random  # noqa: TID251 (seeded)

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from lakelog.records import Batch, Codec, decode_batches
from lakelog.records.cleaning import Cleaned
from lakelog.records.cleaning_rules import CleaningRules, last_batches
from lakelog.records.offset_map import OffsetMap
from tests.parts.archives import quick_kafka
from tests.parts.kafka import Kafka, copy_directory, running_kafka
from tests.patience import heard, in_time
from tests.shorthands import clean

pytestmark = pytest.mark.kafka

ROUNDS = 3
FIRST_TIME = 1_700_000_000_000
KEYS = 40
_SETTINGS = {
    "log.retention.ms": -1,
    "producer.id.expiration.ms": 2**31 - 1,
    "log.cleaner.backoff.ms": 50,
    "log.cleaner.threads": 2,
}
_WITHIN_S = 60


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic to be cleaned; its partitions are those of the codecs, in their order."""

    name: str
    retention_ms: int
    times: str = "CreateTime"


TOPICS = (
    Topic("clean-slow", retention_ms=86_400_000),
    Topic("clean-soon", retention_ms=1),
    Topic("clean-append", retention_ms=1, times="LogAppendTime"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """One cleaning of one partition by Kafka."""

    topic: Topic
    codec: Codec
    number: int
    before: bytes
    """The closed segments."""
    behind: bytes
    """The segment in use, which is not cleaned but has producers in it."""
    after: bytes
    dirty_from: int
    clean_to: int

    def now(self) -> int:
        horizons = [batch.header.delete_horizon for batch in decode_batches(self.after)]
        return max(horizon for horizon in horizons if horizon is not None) - self.topic.retention_ms

    def by_lakelog(self) -> Cleaned:
        headers = [batch.header for batch in decode_batches(self.before + self.behind)]
        newest = OffsetMap(1 << 20, seed=self.number)
        assert not newest.note(self.before, offset_from=self.dirty_from).is_full
        assert newest.end == self.clean_to
        rules = CleaningRules(
            now_ms=self.now(),
            delete_retention_ms=self.topic.retention_ms,
            producers=last_batches(headers),
            next_offset=self.clean_to,
        )
        return clean(self.before, newest, rules)


@pytest.fixture(scope="module")
def passes(tmp_path_factory: pytest.TempPathFactory) -> list[Pass]:
    home = tmp_path_factory.mktemp("compaction")
    with running_kafka(_SETTINGS, jvm=quick_kafka()) as kafka:
        for topic in TOPICS:
            kafka.create_topic(
                topic.name,
                len(Codec),
                internal_segment_bytes=6_000,
                delete_retention_ms=topic.retention_ms,
                file_delete_delay_ms=0,
                message_timestamp_type=topic.times,
            )
        return list(_tell(kafka, home))


def _tell(kafka: Kafka, home: Path) -> Iterator[Pass]:
    writers = _Writers(kafka)
    cleaned = {(topic, codec): 0 for topic in TOPICS for codec in Codec}
    for number in range(ROUNDS):
        writers.write(number)
        before = _copies(kafka, home / f"{number}-before")
        _let_clean(kafka, True)
        _wait_for_cleaner(kafka)
        _let_clean(kafka, False)
        after = _copies(kafka, home / f"{number}-after")
        for which, dirty_from in cleaned.items():
            segments = before[which]
            clean_to = max(segments)
            yield Pass(
                topic=which[0],
                codec=which[1],
                number=number,
                before=_joined(segments, clean_to),
                behind=segments[clean_to],
                after=_joined(after[which], clean_to),
                dirty_from=dirty_from,
                clean_to=clean_to,
            )
            cleaned[which] = clean_to


class _Writers:
    """A producer for each codec, one that comes only once, and one with transactions."""

    def __init__(self, kafka: Kafka) -> None:
        self._rng = Random(20250701)
        self._settings = {
            "bootstrap.servers": kafka.bootstrap,
            "log_level": 0,
            "linger.ms": 5,
            "enable.idempotence": True,
        }
        self._steady = {
            codec: Producer(
                {
                    **self._settings,
                    "compression.type": codec.name.lower(),
                    "batch.num.messages": 20,
                }
            )
            for codec in Codec
        }
        self._transactions = Producer({**self._settings, "transactional.id": "cleaning"})
        self._transactions.init_transactions(60)

    def write(self, number: int) -> None:
        if number == 0:
            self._write_once()
        self._transactions.begin_transaction()
        for topic in TOPICS:
            for codec in Codec:
                self._send(self._transactions, topic, codec, b"k%d" % number, number)
        self._transactions.commit_transaction(60)
        for codec, producer in self._steady.items():
            for topic in TOPICS:
                producer.produce(topic.name, None, b"gone-%d" % number, codec)
                for _ in range(220):
                    key = b"k%d" % self._rng.randrange(KEYS)
                    no_key = number == 0 and self._rng.random() < 0.05
                    self._send(producer, topic, codec, None if no_key else key, number)
            in_time(producer.flush(60) == 0, "some are not acknowledged")

    def _write_once(self) -> None:
        once = Producer(self._settings)
        for topic in TOPICS:
            for codec in Codec:
                for key in range(3):
                    self._send(once, topic, codec, b"k%d" % key, 0)
        in_time(once.flush(60) == 0, "some are not acknowledged")

    def _send(
        self, producer: Producer, topic: Topic, codec: Codec, key: bytes | None, number: int
    ) -> None:
        rng = self._rng
        producer.produce(
            topic.name,
            partition=int(codec),
            key=key,
            value=None if rng.random() < 0.15 else rng.randbytes(rng.randrange(30)) * 3,
            timestamp=FIRST_TIME + 1_000_000 * number + rng.randrange(5_000),
            headers=[("h", b"1"), ("", None)] if rng.random() < 0.1 else [],
        )


def _copies(kafka: Kafka, to: Path) -> dict[tuple[Topic, Codec], dict[int, bytes]]:
    found = {}
    for topic in TOPICS:
        for codec in Codec:
            folder = kafka.partition_dir(topic.name, int(codec))
            copy_directory(folder, to / folder.name)
            logs = sorted((to / folder.name).glob("*.log"))
            found[topic, codec] = {int(path.stem): path.read_bytes() for path in logs}
    return found


def _joined(segments: dict[int, bytes], end: int) -> bytes:
    return b"".join(segments[base] for base in sorted(segments) if base < end)


def _let_clean(kafka: Kafka, allowed: bool) -> None:
    """A topic is not compacted from the start, so that it may have records without a key."""
    settings = {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.0001" if allowed else "1",
    }
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in settings.items()
    ]
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
    resources = [
        ConfigResource(ResourceType.TOPIC, topic.name, incremental_configs=entries)
        for topic in TOPICS
    ]
    heard(admin.incremental_alter_configs(resources).values())


def _wait_for_cleaner(kafka: Kafka) -> None:
    deadline = time.monotonic() + _WITHIN_S
    while not all(_is_clean(kafka, topic, codec) for topic in TOPICS for codec in Codec):
        in_time(time.monotonic() < deadline, "the log cleaner did not come")
        time.sleep(0.05)  # noqa: TID251 (nothing to wait on but the cleaner)


def _is_clean(kafka: Kafka, topic: Topic, codec: Codec) -> bool:
    checkpoint = kafka.data_dir / "cleaner-offset-checkpoint"
    lines = checkpoint.read_text().splitlines()[2:] if checkpoint.exists() else []
    active = max(int(p.stem) for p in kafka.partition_dir(topic.name, int(codec)).glob("*.log"))
    return f"{topic.name} {int(codec)} {active}" in lines


# --------------------------------------------------------------------------------------- tests


def _bare(batch: Batch) -> tuple[object, ...]:
    """A batch without what depends on how well a library compresses."""
    return batch.header._replace(length=0, crc=0), batch.records


def test_we_leave_what_kafka_leaves(passes: list[Pass]) -> None:
    assert len(passes) == ROUNDS * len(TOPICS) * len(Codec)
    for one in passes:
        ours = [_bare(batch) for batch in decode_batches(one.by_lakelog().run)]
        theirs = [_bare(batch) for batch in decode_batches(one.after)]
        for mine, expected in zip(ours, theirs, strict=False):
            assert mine == expected, (one.topic.name, one.codec, one.number)
        assert len(ours) == len(theirs)


def test_we_write_the_bytes_that_kafka_writes(passes: list[Pass]) -> None:
    for one in passes:
        if one.codec is Codec.NONE:
            assert one.by_lakelog().run == one.after


def test_kafka_had_all_to_do_that_a_cleaner_can_have_to_do(passes: list[Pass]) -> None:
    before = [batch for one in passes for batch in decode_batches(one.before)]
    after = [batch for one in passes for batch in decode_batches(one.after)]
    records = [record for batch in before for record in batch.records]

    assert {batch.header.codec for batch in after} == set(Codec)
    assert any(record.key is None for record in records)
    assert any(not batch.records for batch in after), "a producer whose records are all gone"
    assert any(batch.header.is_control and batch.header.delete_horizon for batch in after)
    assert any(
        made.records_kept < made.records_read for made in (one.by_lakelog() for one in passes)
    )
    soon = [one for one in passes if one.topic.retention_ms == 1 and one.number]
    for one in soon:
        old = {b"gone-%d" % number for number in range(one.number)}
        assert old & {r.key for b in decode_batches(one.before) for r in b.records}
        assert not old & {r.key for b in decode_batches(one.after) for r in b.records}
    markers = [sum(b.header.is_control for b in decode_batches(one.after)) for one in soon]
    assert min(markers) < ROUNDS
