"""A stream reads for a while, and everything that can go on beside it does.

    producers   two that try again until they are told; one that never tries twice
    broker      killed every other second, and started again
    keepers     two: seal, trim, delete what has been trimmed, with a grace of seconds
    log_start   rises right behind what the query has read
    query       stopped now and then, and started again with its checkpoint

In the end its output is the log: what was acknowledged is there, once, at the offset that its
producer was told; of what nobody was told of, nothing is there twice; and no offset is missing.
``LAKELOG_STREAM_SECONDS`` says how long producers send.
"""

import json
import os
import time
from pathlib import Path
from random import Random  # noqa: TID251 (seeded)

import pytest
from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from lakelog.model import Rules
from lakelog.names import bundle_key
from tests.e2e.broker.traffic import UNTOLD, Sender, encode_value, sending
from tests.e2e.live.reckless import Reckless
from tests.e2e.live.twins import Namespace, create_topic, running_namespace
from tests.e2e.live.upkeep import Upkeep
from tests.parts.kafka import read_all
from tests.patience import in_time

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

SECONDS = float(os.environ.get("LAKELOG_STREAM_SECONDS", "20"))  # noqa: TID251
TOPIC, PARTITIONS = "told", 3
RATE, SIZE = 120, 100
"""Records of a producer in a second, and bytes of their values."""
RULES = Rules(lanes=2, grace_ms=4_000, checkpoint_every=16)
ARGUMENTS = ("--flush-interval-ms", "20", "--keep-every", "3")
STOP_EVERY = 4
"""Kills of the broker, and then the query is stopped as well."""

FIRST_SEGMENT = f"segment-{0:020d}*.kfs"
STARVED = "Python worker failed to connect back"
"""What Spark says when a machine is so busy that Python takes ten seconds to start."""

Log = dict[tuple[int, int], bytes | None]
"""By partition and offset."""


class Reading:
    """A query that may be stopped and go on, and how far it has come."""

    def __init__(self, spark: SparkSession, namespace: Namespace, home: Path) -> None:
        self._spark, self._folder, self._home = spark, namespace.folder, home
        self._ends: dict[int, int] = {}
        self.restarts, self.starved = -1, 0
        self._query = self._start()

    def _start(self) -> StreamingQuery:
        self.restarts += 1
        options = {"path": str(self._folder), "subscribe": TOPIC, "startingOffsets": "earliest"}
        frame = self._spark.readStream.format("lakelog").options(**options).load()
        return (
            frame.select("partition", "offset", "value")
            .writeStream.format("parquet")
            .option("checkpointLocation", str(self._home / "checkpoint"))
            .trigger(processingTime="200 milliseconds")
            .start(str(self._home / "rows"))
        )

    def read_to(self) -> dict[int, int]:
        """Where batches end whose rows have been written and committed."""
        query = self._query  # Another thread may start the next one.
        progress = query.lastProgress
        ends = json.loads(progress.json)["sources"][0]["endOffset"] if progress else {}
        for partition, offset in (ends or {}).get(TOPIC, {}).items():
            before = self._ends.get(int(partition), 0)
            self._ends[int(partition)] = max(before, offset)
        return dict(self._ends)

    def check(self) -> None:
        """See that it runs. One for which Spark could not start a process in time goes on."""
        if not self._query.isActive:
            error = str(self._query.exception())
            assert STARVED in error, error
            self.read_to()
            self.starved += 1
            self._query = self._start()

    def restart(self) -> None:
        self.check()
        self.read_to()
        self._query.stop()
        self._query = self._start()

    def finish(self, ends: dict[int, int]) -> Log:
        """Read to the end of the log, stop, and return what has been written."""
        last = time.monotonic() + 60
        while self.read_to() != ends:
            self.check()
            in_time(time.monotonic() < last, f"it is at {self.read_to()}, not {ends}")
            time.sleep(0.1)  # noqa: TID251 (for the query)
        self._query.stop()
        rows = self._spark.read.parquet(str(self._home / "rows")).toArrow().to_pylist()
        log = {(row["partition"], row["offset"]): row["value"] for row in rows}
        assert len(log) == len(rows), "some rows are there twice"
        return log


def ends_of(bootstrap: str) -> dict[int, int]:
    """Where partitions end, as a consumer is told."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "nobody", "log_level": 0})
    try:
        return {
            number: consumer.get_watermark_offsets(TopicPartition(TOPIC, number), timeout=30)[1]
            for number in range(PARTITIONS)
        }
    finally:
        consumer.close()


def acked_by(senders: list[Sender]) -> tuple[Log, set[bytes]]:
    """What producers that try until they are told were told, and what without being told where."""
    acked: Log = {}
    untold: set[bytes] = set()
    for sender in senders:
        assert not sender.errors, sender.errors
        assert sender.acked == sender.records
        for number, offset in enumerate(sender.offsets):
            value = encode_value(sender.number, number, SIZE)
            if offset == UNTOLD:
                untold.add(value)
                continue
            place = number % sender.partitions, offset
            assert place not in acked, f"two were told {place}"
            acked[place] = value
    return acked, untold


def check(log: Log, ends: dict[int, int], senders: list[Sender], reckless: Reckless) -> None:
    every = {(number, offset) for number, end in ends.items() for offset in range(end)}
    assert log.keys() == every, f"{sorted(log.keys() ^ every)[:10]} are missing, or too many"
    firm, untold = acked_by(senders)
    assert not firm.keys() & reckless.acked.keys(), "two were told the same"
    acked = firm | reckless.acked
    wrong = [place for place, value in acked.items() if log.get(place) != value]
    assert not wrong, f"{wrong[:10]} were acknowledged and are not there"
    rest = [value for place, value in log.items() if place not in acked]
    assert len(rest) == len(set(rest)), "something is there twice"
    assert untold <= set(rest), "some were acknowledged and are not there"
    assert set(rest) <= reckless.unknown | untold, "something is there that nobody sent, or again"


def torment(namespace: Namespace, reading: Reading, senders: list[Sender], upkeep: Upkeep) -> int:
    """Kill the broker and stop the query until producers are through; return the kills."""
    chance, kills, before = Random(18), 0, 0
    while not all(sender.is_through for sender in senders):
        time.sleep(chance.uniform(1.0, 2.5))  # noqa: TID251 (a life)
        upkeep.check()
        reading.check()
        acked = sum(sender.acked for sender in senders)
        if acked == before:
            continue  # It gets to live until somebody has been answered.
        before, kills = acked, kills + 1
        namespace.broker.kill()
        if kills % STOP_EVERY == 0:
            reading.restart()
        namespace.broker.start()
    return kills


def wait_for_deletion(namespace: Namespace) -> None:
    """Wait until whichever keeper has deleted the first bundles, and the first segments."""
    last = time.monotonic() + 60
    lanes = [namespace.folder / bundle_key(lane, 0) for lane in range(RULES.lanes)]
    while any(path.exists() for path in lanes) or [*namespace.folder.rglob(FIRST_SEGMENT)]:
        in_time(time.monotonic() < last, "nothing has been deleted")
        time.sleep(0.2)  # noqa: TID251 (for keepers)


@pytest.mark.timeout(SECONDS * 2 + 660)
def test_a_stream_is_the_log_while_brokers_die_and_keepers_delete_what_it_has_read(
    spark: SparkSession, tmp_path: Path
) -> None:
    with running_namespace(ARGUMENTS, RULES) as namespace:
        bootstrap = namespace.broker.bootstrap
        create_topic(bootstrap, TOPIC, PARTITIONS)
        reading = Reading(spark, namespace, tmp_path)
        senders = [
            Sender(
                number, bootstrap, TOPIC,
                partitions=PARTITIONS, records=int(SECONDS * RATE), rate=RATE, size=SIZE,
            )
            for number in range(2)
        ]  # fmt: skip
        reckless = Reckless(bootstrap, TOPIC, partitions=PARTITIONS, seconds=SECONDS, rate=RATE / 2)
        with Upkeep(namespace, TOPIC, reading.read_to) as upkeep, sending(senders):
            reckless.start()
            try:
                kills = torment(namespace, reading, senders, upkeep)
            finally:
                reckless.join()
            ends = ends_of(bootstrap)
            log = reading.finish(ends)
            wait_for_deletion(namespace)
        check(log, ends, senders, reckless)
        left = {(one.partition, one.offset): one.value for one in read_all(namespace.broker, TOPIC)}
    assert left == {
        place: value for place, value in log.items() if place[1] >= upkeep.starts.get(place[0], 0)
    }
    told = dict(upkeep.done) | {"kills": kills, "restarts": reading.restarts}
    told["starved"] = reading.starved
    told |= {"rows": len(log), "left": len(left), "not told of": len(reckless.unknown)}
    print(f"\n{told}")  # noqa: T201
    in_time(kills >= 2, "it takes a while to start")
    in_time(min(upkeep.starts.values()) > 100, upkeep.starts)
    in_time(upkeep.done["segments"] > 0, told)
