"""The walking skeleton: the whole system once through, by its thinnest line.

    Java producer -> broker -> bundles -> Spark reads the journal
                                      `-> seal -> Spark and a Java consumer read the same
    kill -9, start again, and all of it once more

It is quick, so that every change can run it (`make skeleton`). What it walks past is looked at
closely elsewhere.
"""

from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.e2e.live.twins import Namespace, create_topic, rows_of, running_namespace
from tests.parts.kafka import read_all, tool

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

TOPIC = "walk"
PARTITIONS = 3

Row = tuple[int, int, bytes | None, bytes | None]


def produce(namespace: Namespace, first: int, count: int) -> None:
    """Let the Java client produce, as it comes: idempotent, acks=all."""
    lines = "".join(f"key-{i % 7}:value {i}\n" for i in range(first, first + count))
    done = tool(
        "kafka-console-producer", "--bootstrap-server", namespace.broker.bootstrap,
        "--topic", TOPIC, "--reader-property", "parse.key=true",
        "--reader-property", "key.separator=:", stdin=lines,
    )  # fmt: skip
    assert done.rc == 0, done.stderr


def by_spark(spark: SparkSession, namespace: Namespace) -> list[Row]:
    """Return what Spark reads, straight from the storage."""
    frame = (
        spark.read.format("lakelog")
        .option("path", str(namespace.folder))
        .option("subscribe", TOPIC)
        .load()
    )
    rows: list[dict[str, Any]] = rows_of(frame)
    return sorted((row["partition"], row["offset"], row["key"], row["value"]) for row in rows)


def by_consumer(namespace: Namespace) -> list[Row]:
    """Return what a Java consumer reads, through the broker."""
    rows = read_all(namespace.broker, TOPIC)
    return sorted((row.partition, row.offset, row.key, row.value) for row in rows)


def test_what_java_produces_is_the_same_for_spark_and_consumers_sealed_or_not(
    spark: SparkSession,
) -> None:
    with running_namespace() as namespace:
        create_topic(namespace.broker.bootstrap, TOPIC, PARTITIONS)
        for turn in range(2):
            produce(namespace, 500 * turn, 500)
            journal = by_spark(spark, namespace)
            assert len(journal) == 500 * (turn + 1)
            assert sorted(int((row[3] or b"").split()[1]) for row in journal) == list(
                range(500 * (turn + 1))
            )
            namespace.keep(idle=True)
            assert list(namespace.folder.glob(f"{TOPIC}/*/*.kfs")), "nothing was sealed"
            assert by_spark(spark, namespace) == journal
            assert by_consumer(namespace) == journal
            namespace.broker.kill()
            namespace.broker.restart()
