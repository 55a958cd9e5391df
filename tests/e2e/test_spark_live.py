"""Spark and Kafka's clients see one log, whatever brokers and keepers do to it meanwhile.

The judge is Kafka's Java consumer, and the comparison is of everything that it is given: topic,
partition, offset, timestamp and its type, key, value and headers. ``LAKELOG_LIVE_RANGES`` says how
many ranges are compared.
"""

import contextlib
import datetime as dt
import os
import random  # noqa: TID251 (seeded)
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from tests.e2e.live.twins import (
    START_MS,
    Namespace,
    Sent,
    create_topic,
    produce,
    rows_of,
    running_namespace,
)
from tests.parts.kafka import Record, read_all

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

RANGES = int(os.environ.get("LAKELOG_LIVE_RANGES", "10"))  # noqa: TID251
RECORDS = 6000
"""In all: not more than a slow machine can read in tasks as small as they are here."""
EPOCH = dt.datetime.fromtimestamp(0, dt.UTC)


def records(first: int, count: int, partitions: int = 1) -> list[Sent]:
    return [
        Sent(
            partition=i % partitions,
            key=b"k%d" % (i % 5) if i % 4 else None,
            value=b"value %d " % i * (1 + i % 9) if i % 6 else None,
            timestamp=START_MS + i,
            headers=[("h", b"%d" % i), ("h", None)] if i % 3 == 0 else None,
        )
        for i in range(first, first + count)
    ]


@pytest.fixture(scope="module")
def namespace() -> Iterator[Namespace]:
    with running_namespace(("--no-keep",)) as made:  # What is sealed is counted here.
        yield made


def read(spark: SparkSession, namespace: Namespace, **options: object) -> DataFrame:
    reader = spark.read.format("lakelog").option("path", str(namespace.folder))
    for name, value in options.items():
        reader = reader.option(name, str(value))
    return reader.load()


def as_row(topic: str, record: Record) -> tuple[Any, ...]:
    headers = [{"key": key, "value": value} for key, value in record.headers] or None
    place = topic, record.partition, record.offset, record.timestamp * 1000, record.timestamp_type
    return *place, record.key, record.value, headers


def as_tuple(row: dict[str, Any]) -> tuple[Any, ...]:
    place = row["topic"], row["partition"], row["offset"]
    time_us = (row["timestamp"] - EPOCH) // dt.timedelta(microseconds=1)
    return *place, time_us, row["timestampType"], row["key"], row["value"], row["headers"]


@contextlib.contextmanager
def meanwhile(
    namespace: Namespace, topic: str, partitions: int, most: Callable[[], int]
) -> Iterator[list[int]]:
    """Somebody produces, up to so many by now, and a keeper seals and trims."""
    over, sent, codecs = threading.Event(), [600], ("none", "zstd", "lz4")
    produce(namespace.broker.bootstrap, topic, records(0, 600, partitions))

    def work() -> None:
        while not over.wait(0.05):
            if sent[0] >= most():
                continue
            some = records(sent[0], 200, partitions)
            produce(namespace.broker.bootstrap, topic, some, codecs[sent[0] // 200 % 3])
            sent[0] += 200
            if sent[0] % 600 == 0:
                namespace.keep()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield sent
    finally:
        over.set()
        thread.join()


@pytest.mark.timeout(RANGES * 10 + 240)
def test_random_ranges_are_what_a_consumer_reads_while_the_log_is_written_and_sealed(
    spark: SparkSession, namespace: Namespace
) -> None:
    create_topic(namespace.broker.bootstrap, "busy", 3)
    dice = random.Random(6)
    found: list[tuple[list[int], list[int], list[tuple[Any, ...]]]] = []
    # It is written to its end, also when there are many ranges.
    with meanwhile(namespace, "busy", 3, lambda: RECORDS * (len(found) + 2) // RANGES) as sent:
        for _ in range(RANGES):
            last = sent[0] // 3
            lows = [dice.randrange(last) for _ in range(3)]
            highs = [dice.randrange(low, last + 1) for low in lows]
            found.append((lows, highs, _ranged(spark, namespace, lows, highs, dice)))
    log = [as_row("busy", record) for record in read_all(namespace.broker, "busy")]
    for lows, highs, rows in found:
        expected = [row for row in log if lows[row[1]] <= row[2] < highs[row[1]]]
        assert rows == expected
    count = sum(len(rows) for _, _, rows in found)
    print(f"\n{RANGES} ranges, {count} rows of a log of {len(log)}")  # noqa: T201
    assert count > 100 * RANGES


def _ranged(
    spark: SparkSession, namespace: Namespace, lows: list[int], highs: list[int], dice: Any
) -> list[tuple[Any, ...]]:
    def shape(offsets: list[int]) -> str:
        inner = ", ".join(f'"{p}": {offset}' for p, offset in enumerate(offsets))
        return f'{{"busy": {{{inner}}}}}'

    frame = read(
        spark, namespace, subscribe="busy", includeHeaders="true", startingOffsets=shape(lows),
        endingOffsets=shape(highs), splitBytes=dice.choice([10_000, 1 << 20]),
    )  # fmt: skip
    return [as_tuple(row) for row in rows_of(frame)]


def test_times_that_the_broker_gave_are_what_a_consumer_reads(
    spark: SparkSession, namespace: Namespace
) -> None:
    configs = {"message.timestamp.type": "LogAppendTime"}
    create_topic(namespace.broker.bootstrap, "stamped", 2, **configs)
    produce(namespace.broker.bootstrap, "stamped", records(0, 100, 2), "lz4")
    namespace.keep(idle=True)
    produce(namespace.broker.bootstrap, "stamped", records(100, 100, 2), "gzip")
    frame = read(spark, namespace, subscribe="stamped", includeHeaders="true")
    expected = [as_row("stamped", record) for record in read_all(namespace.broker, "stamped")]
    assert [as_tuple(row) for row in rows_of(frame)] == expected
    assert {row[4] for row in expected} == {1}
    assert min(row[3] for row in expected) > 1000 * START_MS + 1_000_000_000, "not the producer's"


def test_tables_tell_what_a_namespace_consists_of(
    spark: SparkSession, namespace: Namespace
) -> None:
    create_topic(namespace.broker.bootstrap, "told", 2)
    produce(namespace.broker.bootstrap, "told", records(0, 300, 2))
    namespace.keep(segment_bytes=3000)
    produce(namespace.broker.bootstrap, "told", records(300, 100, 2))
    (one, two) = read(spark, namespace, table="partitions", subscribe="told").collect()
    assert (one.partition, one.log_start_offset, one.sealed_end_offset, one.end_offset) == (
        0, 0, 150, 200,
    )  # fmt: skip
    assert one.topic_id == two.topic_id
    segments = read(spark, namespace, table="segments", subscribe="told").collect()
    assert sum(row.records for row in segments) == 300
    assert {row.partition: max(r.next_offset for r in segments if r.partition == row.partition)
            for row in segments} == {0: 150, 1: 150}  # fmt: skip
    assert all((namespace.folder / row.object).stat().st_size == row.bytes for row in segments)
    assert one.segments + two.segments == len(segments)


def test_sql_reads_the_live_log_as_a_view(spark: SparkSession, namespace: Namespace) -> None:
    create_topic(namespace.broker.bootstrap, "viewed", 1)
    produce(namespace.broker.bootstrap, "viewed", records(0, 20))
    options = f"(path '{namespace.folder}', subscribe 'viewed')"
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW viewed USING lakelog OPTIONS {options}")
    (found,) = spark.sql("SELECT count(*) AS n, max(offset) AS last FROM viewed").collect()
    assert (found.n, found.last) == (20, 19)
    spark.catalog.dropTempView("viewed")


def test_spark_leaves_the_filters_of_one_query_to_the_next_so_that_none_are_pushed(
    spark: SparkSession,
) -> None:
    """Decision 18. The day this fails, filters can be pushed down."""

    class HalvesReader(DataSourceReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.numbers = [0, 1]

        def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:  # noqa: N802
            self.numbers = [0]
            return iter(filters)

        def partitions(self) -> list[InputPartition]:
            return [InputPartition(number) for number in self.numbers]

        def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
            yield (partition.value,)

    class Halves(DataSource):  # type: ignore[misc]
        def schema(self) -> str:
            return "n int"

        def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 (by name)
            return HalvesReader()

    session = spark.newSession()
    session.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    session.dataSource.register(Halves)
    frame = session.read.format("Halves").load()
    assert frame.where("n = 0").count() == 1
    assert frame.count() == 1, "there are two"
