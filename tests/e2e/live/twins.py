"""Twins: the same records at the same offsets in a real Kafka and in a namespace of lakelog.

Both are written by the same client. What a reader of one is given can be held against what a reader
of the other is given, byte for byte.
"""

import contextlib
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import DataFrame, SparkSession

from lakelog.catalog import make_namespace, open_namespace, read_topic
from lakelog.host import SystemClock, new_id
from lakelog.journal import Lane
from lakelog.maintenance import MaintenanceReport, SealSettings, maintain
from lakelog.manifests import change_manifest, changes
from lakelog.model import Rules
from lakelog.store import StoreSpec, retrying, run, working
from tests.parts.kafka import Kafka
from tests.parts.lakelog import Lakelog, running_lakelog
from tests.patience import HANGS_S, heard, in_time

START_MS = time.time_ns() // 1_000_000 - 3_600_000
"""An hour ago: Kafka expires what is old, and refuses what is from the future."""

Headers = list[tuple[str, bytes | None]]


@dataclass(frozen=True)
class Sent:
    """A record for both."""

    partition: int
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: Headers | None = None


class Namespace:
    """A place that a broker writes, and what keepers do to it."""

    def __init__(self, broker: Lakelog, place: StoreSpec) -> None:
        self.broker, self.place = broker, place
        self._perform = working(retrying(place.open().perform))

    @property
    def folder(self) -> Path:
        """Where its objects are files."""
        assert self.place.url.startswith("file://"), f"{self.place.url} is no folder"
        return Path(self.place.url.removeprefix("file://"))

    def keep(self, *, segment_bytes: int = 20_000, idle: bool = False) -> MaintenanceReport:
        """Seal all there is, and trim what may be trimmed."""
        rules = run(open_namespace(), self._perform).rules
        lanes = {
            number: Lane(
                number=number, rules=rules, clock=SystemClock(), ids=new_id, writer=new_id()
            )
            for number in range(rules.lanes)
        }
        settings = SealSettings(segment_bytes=segment_bytes)
        kept = run(maintain(lanes, settings, idle=idle), self._perform)
        assert not kept.failures
        return kept

    def delete_records(self, topic: str, offset: int, partition: int = 0) -> None:
        """Let a partition begin at an offset."""
        where, write = run(read_topic(topic), self._perform).path_of(partition), new_id().hex()
        run(
            change_manifest(where, write, lambda now: changes.start(now, write, offset)),
            self._perform,
        )


@contextlib.contextmanager
def running_namespace(
    arguments: Iterable[str] = (), rules: Rules | None = None, place: StoreSpec | None = None
) -> Iterator[Namespace]:
    """A broker on a place, or a folder of its own; without rules, with those it makes itself."""
    with tempfile.TemporaryDirectory(prefix="lakelog-live-") as home:
        place = place or StoreSpec(f"file://{home}/log")
        if rules is not None:
            run(make_namespace(new_id(), rules), working(retrying(place.open().perform)))
        with running_lakelog(place.url, place.options, tuple(arguments)) as broker:
            yield Namespace(broker, place)


def create_topic(bootstrap: str, name: str, partitions: int, **configs: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    topic = NewTopic(name, partitions, 1, config=configs)
    for done in admin.create_topics([topic]).values():
        done.result(timeout=HANGS_S)


def produce(bootstrap: str, topic: str, records: Iterable[Sent], codec: str = "none") -> None:
    """Send records, and wait until all of them are acknowledged."""
    failed: list[object] = []
    producer = Producer(
        {"bootstrap.servers": bootstrap, "compression.type": codec, "batch.num.messages": 50}
    )
    for one in records:
        producer.produce(
            topic,
            partition=one.partition,
            key=one.key,
            value=one.value,
            timestamp=one.timestamp,
            headers=one.headers,
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )
    in_time(producer.flush(30) == 0, "some are not acknowledged")
    assert not failed


class Twins:
    """A Kafka and a namespace."""

    def __init__(self, kafka: Kafka, namespace: Namespace) -> None:
        self.kafka, self.namespace = kafka, namespace

    @property
    def addresses(self) -> tuple[str, str]:
        return self.kafka.bootstrap, self.namespace.broker.bootstrap

    def create_topic(self, name: str, partitions: int) -> None:
        for bootstrap in self.addresses:
            create_topic(bootstrap, name, partitions)

    def produce(self, topic: str, records: list[Sent], codec: str = "none") -> None:
        for bootstrap in self.addresses:
            produce(bootstrap, topic, records, codec)

    def delete_records(self, topic: str, offset: int) -> None:
        admin = AdminClient({"bootstrap.servers": self.kafka.bootstrap, "log_level": 0})
        heard(admin.delete_records([TopicPartition(topic, 0, offset)]).values())
        self.namespace.delete_records(topic, offset)

    def options(self, source: str) -> dict[str, str]:
        """What a reader of one of them must be told, beside what it is to read."""
        if source == "lakelog":
            return {"path": str(self.namespace.folder)}
        return {
            "kafka.bootstrap.servers": self.kafka.bootstrap,
            "kafkaConsumer.pollTimeoutMs": "20000",  # It fails then: a busy machine takes its time.
            "kafka.fetch.max.wait.ms": "5",  # Else each task waits half a second at the end.
        }

    def read(self, spark: SparkSession, source: str, options: dict[str, str]) -> DataFrame:
        return spark.read.format(source).options(**(self.options(source) | options)).load()


def rows_of(frame: DataFrame) -> list[dict[str, Any]]:
    """All rows, in the order of the log."""
    table: pa.Table = frame.toArrow()
    rows: list[dict[str, Any]] = table.to_pylist()
    return sorted(rows, key=lambda row: (row["topic"], row["partition"], row["offset"]))
