"""What is acknowledged before a read is planned is in it: every time, whatever keepers do.

A round is a record with ``acks=all`` to a partition drawn by lot, and then, at once, three readers:

    batch    planned anew, as each query plans: the last records of each partition, to the end
    stream   one that has looked at the lanes in each round before: that record, and nothing else
    Spark    a whole job over the whole log, every fiftieth time and in the end

The first two are the readers that Spark calls, called in this process: a round takes milliseconds.
A keeper seals, trims and deletes all the while. ``LAKELOG_FRESH_ROUNDS`` says how many.
"""

import json
import os
from collections.abc import Iterable, Iterator
from random import Random  # noqa: TID251 (seeded)

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, Message, Producer
from pyspark.sql import SparkSession
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable

from lakelog.model import Rules
from lakelog.spark.live import LiveReader
from lakelog.spark.options import parse_options
from lakelog.spark.streams import LiveStreamReader
from tests.e2e.live.twins import Namespace, create_topic, running_namespace
from tests.e2e.live.upkeep import Upkeep
from tests.patience import in_time

pytestmark = pytest.mark.spark

ROUNDS = int(os.environ.get("LAKELOG_FRESH_ROUNDS", "20"))  # noqa: TID251
JOB_EVERY = 50
LAST = 5
"""Records of each partition that a batch reads."""
TOPIC, PARTITIONS = "fresh", 4
COLUMNS = ("partition", "offset", "value")
RULES = Rules(lanes=2, grace_ms=2_000, checkpoint_every=8)

Row = tuple[int, int, bytes]
"""Partition, offset, value."""


@pytest.fixture
def namespace() -> Iterator[Namespace]:
    with running_namespace(("--keep-every", "2"), RULES) as made:
        yield made


class Teller:
    """A producer that sends one record, and returns where it is when it has been told."""

    def __init__(self, bootstrap: str) -> None:
        settings = {"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0}
        self._producer = Producer(settings)

    def send(self, partition: int, value: bytes) -> Row:
        told: list[Row] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            assert error is None, error
            offset = message.offset()
            assert offset is not None
            told.append((partition, offset, value))

        self._producer.produce(TOPIC, value, partition=partition, on_delivery=delivered)
        in_time(self._producer.flush(30) == 0, "some are not acknowledged")
        (row,) = told
        return row


def rows_in(batches: Iterable[pa.RecordBatch]) -> list[Row]:
    return sorted(tuple(row[name] for name in COLUMNS) for b in batches for row in b.to_pylist())


def read(reader: LiveReader | LiveStreamReader, parts: Iterable[InputPartition]) -> list[Row]:
    return rows_in(batch for part in parts for batch in reader.read(part))


class Follower:
    """A stream that reads what is new since it was asked last."""

    def __init__(self, options: dict[str, str]) -> None:
        self._reader = LiveStreamReader(parse_options(options, query="stream"), COLUMNS)
        self._at = self._reader.initialOffset()

    def read(self) -> list[Row]:
        start, end = self._at, self._reader.latestOffset(self._at, ReadAllAvailable())
        self._at = end
        return read(self._reader, self._reader.partitions(start, end))


class Log:
    """What has been acknowledged."""

    def __init__(self) -> None:
        self._rows: list[list[Row]] = [[] for _ in range(PARTITIONS)]

    def add(self, row: Row) -> None:
        assert row[1] == len(self._rows[row[0]]), "a gap"
        self._rows[row[0]].append(row)

    def rows(self, last: int = 1 << 62) -> list[Row]:
        return [row for rows in self._rows for row in rows[max(0, len(rows) - last) :]]

    def starts(self, last: int) -> str:
        """Where the last records of each partition begin, as an option says it."""
        starts = {str(p): max(0, len(rows) - last) for p, rows in enumerate(self._rows)}
        return json.dumps({TOPIC: starts})


@pytest.mark.timeout(ROUNDS + 660)
def test_what_is_acknowledged_is_in_every_read_that_is_planned_afterwards(
    spark: SparkSession, namespace: Namespace
) -> None:
    create_topic(namespace.broker.bootstrap, TOPIC, PARTITIONS)
    options = {"path": str(namespace.folder), "subscribe": TOPIC, "startingOffsets": "earliest"}
    frame = spark.read.format("lakelog").options(**options).option("columns", ",".join(COLUMNS))
    chance, teller, follower = Random(4), Teller(namespace.broker.bootstrap), Follower(options)
    log, jobs = Log(), 0
    with Upkeep(namespace, segment_bytes=2_000) as upkeep:
        for number in range(ROUNDS):
            row = teller.send(chance.randrange(PARTITIONS), b"%d" % number)
            log.add(row)
            tail = parse_options(options | {"startingOffsets": log.starts(LAST)})
            batch = LiveReader(tail, COLUMNS)
            assert read(batch, batch.partitions()) == log.rows(LAST), f"a batch, round {number}"
            assert follower.read() == [row], f"a stream, round {number}"
            if number % JOB_EVERY == 0 or number == ROUNDS - 1:
                found = rows_in(frame.load().toArrow().to_batches())
                assert found == log.rows(), f"a job, round {number}"
                jobs += 1
            upkeep.check()
    print(f"\n{ROUNDS} rounds, {jobs} jobs, {dict(upkeep.done)}")  # noqa: T201
    in_time(upkeep.done["segments"] > 0, upkeep.done)
    in_time(upkeep.done["trimmed"] > 0, upkeep.done)
