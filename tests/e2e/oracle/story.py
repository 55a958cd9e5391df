"""The story that the oracle's tests are about: one Kafka, and what becomes of its directories.

It is written to, copied while it runs, stopped, copied again, given segments that lakelog wrote,
and started once more. LAKELOG_ORACLE_RECORDS says how many records the story has,
LAKELOG_ORACLE_SEED which ones.
"""

import os
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random  # noqa: TID251 (seeded)

from confluent_kafka import Producer

from tests.e2e.oracle.reading import Partition
from tests.e2e.oracle.workload import (
    COMPACTED,
    PARTITIONS,
    TRAFFIC,
    Traffic,
    create_topics,
    is_compacted,
    produce,
    produce_compacted,
    records,
)
from tests.e2e.oracle.writing import Replaced, replace_segments
from tests.parts.archives import quick_kafka
from tests.parts.kafka import Kafka, copy_directory, running_kafka
from tests.patience import in_time

__all__ = ["RECORDS", "SEED", "WRITTEN", "Story", "tell_story"]

RECORDS = int(
    os.environ.get("LAKELOG_ORACLE_RECORDS", "100000")  # noqa: TID251 (tests have no settings)
)
SEED = int(
    os.environ.get("LAKELOG_ORACLE_SEED", "20250601")  # noqa: TID251 (tests have no settings)
)
WRITTEN = "oracle-written"
"""The topic of which lakelog replaces segments."""

_SETTINGS = {
    # The records are as old as their timestamps say, and must not be dropped for it.
    "log.retention.ms": -1,
    "producer.id.expiration.ms": 2**31 - 1,
    "log.segment.delete.delay.ms": 3_600_000,
    "log.cleaner.backoff.ms": 100,
}
_LOUD = "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.storage.internals.log=info"


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """What there is to be judged once everything has happened."""

    kafka: Kafka
    live: Path
    """The directories as they were while producers were writing to them."""
    running: Path
    """As they were when all had been written, and the broker still ran."""
    stopped: Path
    """As the broker left them."""
    replaced: tuple[Replaced, ...]
    """As lakelog gave them back, with other records; copies of what Kafka then started on."""
    continuing: Producer
    """An idempotent producer that began before all that and is not done."""
    loading: str
    """What Kafka said when it started on lakelog's files."""

    def partitions(self, copy: Path, traffic: Traffic) -> list[Partition]:
        folders = (copy / f"{traffic.topic}-{number}" for number in range(PARTITIONS))
        return [Partition(folder, active=copy != self.stopped) for folder in folders]


@contextmanager
def tell_story(home: Path) -> Iterator[Story]:
    """Let it happen below ``home``."""
    with running_kafka(_SETTINGS, jvm=[*quick_kafka(), _LOUD]) as kafka:
        create_topics(kafka, RECORDS)
        with ThreadPoolExecutor(1) as pool:
            producing = pool.submit(produce, kafka, RECORDS, SEED)
            _wait(lambda: producing.done() or _has_grown(kafka), within_s=120)
            _copy(kafka, home / "live")
            producing.result()
        produce_compacted(kafka, SEED)
        continuing = _begin_writing(kafka)
        _wait(lambda: is_compacted(kafka), within_s=180)
        _copy(kafka, home / "running")
        kafka.stop()
        _copy(kafka, home / "stopped")
        replaced = tuple(_replace(kafka, home / "written"))
        log = kafka.data_dir.parent / "kafka.log"
        said_before = log.stat().st_size
        kafka.start()
        yield Story(
            kafka=kafka,
            live=home / "live",
            running=home / "running",
            stopped=home / "stopped",
            replaced=replaced,
            continuing=continuing,
            loading=log.read_bytes()[said_before:].decode(),
        )
    shutil.rmtree(home)


def _wait(condition: Callable[[], bool], within_s: float) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        in_time(time.monotonic() < deadline, f"not within {within_s:g} s")
        time.sleep(0.02)  # noqa: TID251 (nothing to wait on but the other process)


def _has_grown(kafka: Kafka) -> bool:
    folders = (kafka.partition_dir(t.topic, n) for t in TRAFFIC for n in range(PARTITIONS))
    return all(len(list(folder.glob("*.log"))) > 1 for folder in folders)


def _copy(kafka: Kafka, to: Path) -> None:
    for traffic in (*TRAFFIC, COMPACTED):
        for number in range(PARTITIONS):
            folder = kafka.partition_dir(traffic.topic, number)
            copy_directory(folder, to / folder.name)


def _begin_writing(kafka: Kafka) -> Producer:
    """Fill a topic of two partitions; return the idempotent producer of the first."""
    kafka.create_topic(WRITTEN, 2, internal_segment_bytes=50_000, segment_index_bytes=60_000)
    common = {
        "bootstrap.servers": kafka.bootstrap,
        "log_level": 0,
        "batch.num.messages": 50,
        "reconnect.backoff.max.ms": 200,
    }
    producers = [Producer({**common, "enable.idempotence": n == 0}) for n in range(2)]
    for message in records(Random(SEED), 6_000):
        number = message.partition % 2
        producers[number].produce(WRITTEN, message.value, message.key, number)
    for producer in producers:
        in_time(producer.flush(60) == 0, "some are not acknowledged")
    return producers[0]


def _replace(kafka: Kafka, copies: Path) -> Iterator[Replaced]:
    """Replace the closed segments of the first partition, and all of the second."""
    # Kafka forgets a producer whose last record is old, so these are from an hour ago.
    first_time = int(time.time() - 3_600) * 1_000  # noqa: TID251 (Kafka looks at the clock)
    for number in range(2):
        folder = kafka.partition_dir(WRITTEN, number)
        rng = Random(SEED + number)
        replaced = replace_segments(folder, rng, first_time=first_time, also_last=number == 1)
        copy_directory(folder, copies / folder.name)
        yield Replaced(copies / folder.name, replaced.rows, replaced.bases)
