"""Namespaces that versions have left, under a real broker, a real client and a real Spark.

What is looked at closely is in ``tests/golden/namespaces``, with a clock that stands where the
namespace was left. Here it is today, so what has expired since may be gone at any moment, and is
not asked for.
"""

import shutil
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from pyspark.sql import SparkSession

from tests.golden.namespaces.copies import HERE, digest, expected, text_of, versions
from tests.parts.lakelog import Lakelog, running_lakelog
from tests.patience import HANGS_S

every_version = pytest.mark.parametrize("version", versions())

FOR_EVER = {"retention.ms": "-1"}


def copied(version: str, folder: Path) -> Path:
    shutil.copytree(HERE / version / "objects", folder / "copy")
    return folder / "copy"


def lasting(version: str) -> dict[str, Any]:
    """Return the partitions of which nothing expires, as they were served."""
    told = expected(version)
    return {
        name: about
        for name, about in told["partitions"].items()
        if FOR_EVER.items() <= told["topics"][name.rpartition("-")[0]]["configs"].items()
    }


def consumed(broker: Lakelog, name: str) -> list[list[object]]:
    """Return every record of a partition as librdkafka hands it out."""
    topic, _, number = name.rpartition("-")
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": "reader"}
    consumer = Consumer({**settings, "enable.auto.commit": False, "enable.partition.eof": False})
    try:
        place = TopicPartition(topic, int(number), OFFSET_BEGINNING)
        start, end = consumer.get_watermark_offsets(place, timeout=HANGS_S)
        consumer.assign([place])
        rows: list[list[object]] = []
        while start < end and (not rows or int(str(rows[-1][0])) < end - 1):
            found = consumer.poll(HANGS_S)
            assert found is not None, f"nothing comes of {name} behind {rows[-1:]}"
            assert not found.error(), found.error()
            headers = [[key, text_of(value)] for key, value in found.headers() or ()]
            kept = [text_of(found.key()), text_of(found.value()), headers]
            rows.append([found.offset(), found.timestamp()[1], *kept])
        return rows
    finally:
        consumer.close()


@every_version
def test_a_real_client_reads_commits_and_appends_through_a_real_broker(
    version: str, tmp_path: Path
) -> None:
    told = lasting(version)
    assert len(told) > 5
    with running_lakelog(f"file://{copied(version, tmp_path)}") as broker:
        for name, about in told.items():
            assert digest(consumed(broker, name)) == about["sha256"], name
        member = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "reports"})
        (row,) = member.committed([TopicPartition("orders", 0)], timeout=HANGS_S)
        assert row.offset == expected(version)["groups"]["reports"]["offsets"]["orders-0"][0]
        member.close()
        producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True})
        producer.produce("orders", b"new", partition=0)
        assert producer.flush(HANGS_S) == 0
        rows = consumed(broker, "orders-0")
        assert rows[-1][3] == text_of(b"new")
        assert digest(rows[:-1]) == told["orders-0"]["sha256"]


@pytest.mark.spark
@every_version
def test_spark_reads_what_the_version_has_served(
    version: str, spark: SparkSession, tmp_path: Path
) -> None:
    told = expected(version)
    options = {"path": str(copied(version, tmp_path)), "includeHeaders": "true"}
    names = ",".join(told["topics"])
    frame = spark.read.format("lakelog").options(**options, subscribe=names).load()
    rows: dict[str, list[list[object]]] = {name: [] for name in told["partitions"]}
    for one in frame.toArrow().sort_by("offset").to_pylist():
        headers = [[header["key"], text_of(header["value"])] for header in one["headers"] or ()]
        kept = [text_of(one["key"]), text_of(one["value"]), headers]
        at_ms = round(one["timestamp"].timestamp() * 1000)
        rows[f"{one['topic']}-{one['partition']}"].append([one["offset"], at_ms, *kept])
    for name, about in told["partitions"].items():
        assert digest(rows[name]) == about["sha256"], name
