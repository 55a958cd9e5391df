"""Streams of the live log: every record once, over restarts, changes of format, kills and seals."""

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tests.e2e.live.twins import (
    START_MS,
    Namespace,
    Sent,
    Twins,
    create_topic,
    produce,
    running_namespace,
)
from tests.parts.kafka import Kafka, read_all
from tests.patience import HANGS_S, LateError, in_time

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


@pytest.fixture(scope="module")
def namespace() -> Iterator[Namespace]:
    with running_namespace() as made:
        yield made


def records(first: int, count: int, partitions: int) -> list[Sent]:
    return [
        Sent(partition=i % partitions, key=None, value=b"%d" % i, timestamp=START_MS + i)
        for i in range(first, first + count)
    ]


def start(
    spark: SparkSession, source: str, options: dict[str, str], home: Path, **trigger: Any
) -> StreamingQuery:
    """A query that writes what it reads to files, each batch once."""
    frame = spark.readStream.format(source).options(**options).load()
    writer = frame.selectExpr("topic", "partition", "offset", "CAST(value AS STRING) AS value")
    return (
        writer.writeStream.format("json")
        .option("checkpointLocation", str(home / "checkpoint"))
        .trigger(**(trigger or {"availableNow": True}))
        .start(str(home / "rows"))
    )


def finish(query: StreamingQuery) -> list[dict[str, Any]]:
    """Wait for its end, and return what it says of its batches."""
    in_time(query.awaitTermination(120), query.lastProgress)
    return [json.loads(progress.json) for progress in query.recentProgress]


def rows_of(spark: SparkSession, home: Path) -> list[tuple[str, int, int, str]]:
    schema = "topic string, partition int, offset bigint, value string"
    found = spark.read.schema(schema).json(str(home / "rows")).collect()
    return sorted((row.topic, row.partition, row.offset, row.value) for row in found)


def expected_of(topic: str, count: int, partitions: int) -> list[tuple[str, int, int, str]]:
    return sorted((topic, i % partitions, i // partitions, str(i)) for i in range(count))


def test_a_query_of_kafka_goes_on_with_its_checkpoint(
    spark: SparkSession, kafka: Kafka, namespace: Namespace, tmp_path: Path
) -> None:
    twins, topic = Twins(kafka, namespace), "moved"
    twins.create_topic(topic, 2)
    wanted = {"subscribe": topic, "startingOffsets": "earliest"}
    twins.produce(topic, records(0, 101, 2))
    finish(start(spark, "kafka", twins.options("kafka") | wanted, tmp_path))
    assert rows_of(spark, tmp_path) == expected_of(topic, 101, 2)
    twins.produce(topic, records(101, 100, 2))
    namespace.keep(idle=True)
    twins.produce(topic, records(201, 30, 2))
    finish(start(spark, "lakelog", twins.options("lakelog") | wanted, tmp_path))
    assert rows_of(spark, tmp_path) == expected_of(topic, 231, 2)


def test_available_now_reads_all_there_is_in_batches_and_tells_where_it_is(
    spark: SparkSession, namespace: Namespace, tmp_path: Path
) -> None:
    create_topic(namespace.broker.bootstrap, "limited", 2)
    produce(namespace.broker.bootstrap, "limited", records(0, 100, 2))
    options = {"path": str(namespace.folder), "subscribe": "limited"}
    options |= {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "40"}
    told = [
        one for one in finish(start(spark, "lakelog", options, tmp_path)) if one["numInputRows"]
    ]
    assert [one["numInputRows"] for one in told] == [40, 40, 20]
    ends = [one["sources"][0]["endOffset"] for one in told]
    assert ends[0] == {"limited": {"0": 20, "1": 20}}
    assert told[0]["sources"][0]["latestOffset"] == {"limited": {"0": 50, "1": 50}}
    assert rows_of(spark, tmp_path) == expected_of("limited", 100, 2)


def test_a_stream_misses_nothing_and_repeats_nothing_while_brokers_die_and_keepers_seal(
    spark: SparkSession, tmp_path: Path
) -> None:
    with running_namespace() as namespace:
        broker, total = namespace.broker, 1500
        create_topic(broker.bootstrap, "busy", 3)
        options = {"path": str(namespace.folder), "subscribe": "busy"}
        options["startingOffsets"] = "earliest"
        query = start(spark, "lakelog", options, tmp_path, processingTime="200 milliseconds")
        for first in range(0, total, 100):
            if first == 700:
                broker.kill()
                broker.start()
            produce(broker.bootstrap, "busy", records(first, 100, 3))
            if first % 400 == 0:
                namespace.keep(idle=True)
        until(query, lambda: latest(query) == {"busy": {"0": 500, "1": 500, "2": 500}})
        query.stop()
        found = rows_of(spark, tmp_path)
        log = sorted(
            ("busy", one.partition, one.offset, (one.value or b"").decode())
            for one in read_all(broker, "busy")
        )
        assert found == log == expected_of("busy", total, 3)


def latest(query: StreamingQuery) -> Any:
    """Where the last batch that has been written ended."""
    progress = query.lastProgress
    return json.loads(progress.json)["sources"][0]["endOffset"] if progress else None


def until(query: StreamingQuery, holds: Callable[[], bool]) -> None:
    waiting = threading.Event()
    for _ in range(600):
        if holds():
            return
        assert query.isActive, query.exception()
        waiting.wait(0.1)
    raise LateError(f"it ended at {latest(query)}")


def test_a_topic_that_is_created_again_stops_the_query_with_both_ids(
    spark: SparkSession, namespace: Namespace, tmp_path: Path
) -> None:
    bootstrap = namespace.broker.bootstrap
    create_topic(bootstrap, "again", 1)
    produce(bootstrap, "again", records(0, 5, 1))
    options = {"path": str(namespace.folder), "subscribe": "again", "startingOffsets": "earliest"}
    query = start(spark, "lakelog", options, tmp_path, processingTime="100 milliseconds")
    until(query, lambda: latest(query) == {"again": {"0": 5}})
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    for done in admin.delete_topics(["again"]).values():
        done.result(timeout=HANGS_S)
    create_topic(bootstrap, "again", 1)
    produce(bootstrap, "again", records(0, 9, 1))
    # Which it notices first depends on when it looks.
    with pytest.raises(Exception, match=r"created again: its id was|was deleted|no topic again"):
        query.awaitTermination(60)
