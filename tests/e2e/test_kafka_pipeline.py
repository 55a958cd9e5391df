"""Spark on a real Kafka's directories: read, verified, compared and converted, row for row.

The directories are those of the oracle's story: five codecs, headers, nulls, times out of order,
idempotent and transactional producers, a topic that the broker has compacted.
"""

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lakelog.pipeline import Report
from lakelog.spark import jobs
from tests.e2e.oracle.reading import Row, difference, java_rows
from tests.e2e.oracle.story import RECORDS, Story
from tests.e2e.oracle.workload import COMPACTED, PARTITIONS, TRAFFIC, Traffic
from tests.parts.archives import quick_kafka
from tests.parts.kafka import read_all, running_kafka

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.spark,
    pytest.mark.timeout(300 + RECORDS // 500),
]

TOPICS = [traffic.topic for traffic in (*TRAFFIC, COMPACTED)]
BATCH_LOSSES = ["producers", "transactions", "timestamp-types"]
RECORD_LOSSES = [*BATCH_LOSSES, "keys", "headers", "null-values", "time-order"]


def spark_rows(spark: SparkSession, folder: Path, topic: str) -> list[Row]:
    reader = spark.read.format("lakelog").option("path", str(folder)).option("layout", "kafka")
    reader = reader.option("subscribe", topic).option("includeHeaders", "true")
    table: pa.Table = reader.option("splitBytes", 64 * 1024).load().toArrow()
    table = table.sort_by([("partition", "ascending"), ("offset", "ascending")])
    times = table.column("timestamp").cast(pa.int64()).to_pylist()
    kinds = table.column("timestampType").to_pylist()
    headers = table.column("headers").to_pylist()
    places = zip(table.column("partition").to_pylist(), table.column("offset").to_pylist(),
                 strict=True)  # fmt: skip
    keys, values = table.column("key").to_pylist(), table.column("value").to_pylist()
    return [
        (*place, time // 1000, kind, key, value, tuple((h["key"], h["value"]) for h in held or ()))
        for place, time, kind, key, value, held in zip(
            places, times, kinds, keys, values, headers, strict=True
        )
    ]


@pytest.mark.parametrize("traffic", [*TRAFFIC, COMPACTED], ids=lambda t: t.topic)
def test_spark_reads_what_the_java_consumer_reads(
    spark: SparkSession, story: Story, traffic: Traffic
) -> None:
    seen = java_rows(read_all(story.kafka, traffic.topic))
    assert difference(spark_rows(spark, story.stopped, traffic.topic), seen) is None


def test_every_byte_of_a_stopped_broker_is_good(spark: SparkSession, story: Story) -> None:
    report = jobs.verify(
        spark, str(story.stopped), layout="kafka", closed=True, records=True, task_bytes=1 << 20
    )
    assert report.is_good, report.findings(10)
    assert report.records >= RECORDS // len(TRAFFIC) * len(TRAFFIC)


def test_a_running_kafka_holds_the_same_records(spark: SparkSession, story: Story) -> None:
    report = jobs.compare(
        spark,
        str(story.stopped),
        layout="kafka",
        against=f"kafka://{story.kafka.bootstrap}",
        against_layout="live",
        topics=TOPICS,
    )
    assert report.is_good, report.findings(10)
    assert report.records >= RECORDS // len(TRAFFIC) * len(TRAFFIC)


def convert(
    spark: SparkSession, source: Path, layout: str, target: Path, to: str, **settings: object
) -> Report:
    return jobs.convert(
        spark,
        str(source),
        layout=layout,
        target=str(target),
        target_layout=to,
        **settings,  # type: ignore[arg-type]
    )


def test_batches_of_every_kind_come_back_byte_for_byte(
    spark: SparkSession, story: Story, tmp_path: Path
) -> None:
    assert convert(spark, story.stopped, "kafka", tmp_path / "kafs", "kafs").is_good
    assert jobs.verify(spark, str(tmp_path / "kafs"), layout="kafs").is_good
    assert convert(spark, tmp_path / "kafs", "kafs", tmp_path / "back", "kafka").is_good
    compared = 0
    for path in sorted(story.stopped.rglob("*.log")):
        data = path.read_bytes()
        if data:
            back = tmp_path / "back" / path.relative_to(story.stopped)
            assert back.read_bytes() == data, path
            compared += 1
    assert compared > 2 * len(TOPICS) * PARTITIONS


@pytest.mark.parametrize(
    ("to", "lose", "settings"),
    [
        ("strm", BATCH_LOSSES, {"codec": "zstd"}),
        ("parquet", BATCH_LOSSES, {"codec": "zstd"}),
        ("kafs", BATCH_LOSSES, {"codec": "lz4", "segment_bytes": 1 << 20}),
        ("rustlog", RECORD_LOSSES, {}),
    ],
)
def test_records_come_back_equal_and_losses_are_refused(
    spark: SparkSession, story: Story, tmp_path: Path, to: str, lose: list[str],
    settings: dict[str, object],
) -> None:  # fmt: skip
    refused = convert(spark, story.stopped, "kafka", tmp_path / "refused", to, **settings)
    assert not refused.is_good
    assert all("--lose " in found.what for found in refused.findings(100))
    done = convert(spark, story.stopped, "kafka", tmp_path / to, to, lose=lose, **settings)
    assert done.is_good, done.findings(5)
    compared = jobs.compare(
        spark, str(story.stopped), layout="kafka",
        against=str(tmp_path / to), against_layout=to,
    )  # fmt: skip
    if to == "rustlog":
        # Empty values stand for null ones, and times were lifted: but every offset is there.
        assert all("other " in found.what for found in compared.findings(100))
    else:
        assert compared.is_good, compared.findings(5)
    back = convert(spark, tmp_path / to, to, tmp_path / "back", "kafka")
    assert back.records == done.records
    assert jobs.compare(
        spark, str(tmp_path / "back"), layout="kafka",
        against=str(tmp_path / to), against_layout=to,
    ).is_good  # fmt: skip


def test_kafka_serves_what_was_converted_from_kafs(
    spark: SparkSession, story: Story, tmp_path: Path
) -> None:
    topics = ["oracle-gzip", "oracle-zstd"]
    convert(spark, story.stopped, "kafka", tmp_path / "kafs", "kafs", topics=topics)
    convert(spark, tmp_path / "kafs", "kafs", tmp_path / "back", "kafka")
    with running_kafka({"log.retention.ms": -1}, jvm=quick_kafka()) as kafka:
        for topic in topics:
            kafka.create_topic(topic, PARTITIONS)
        kafka.stop()
        for folder in (tmp_path / "back").glob("oracle-*"):
            place = kafka.data_dir / folder.name
            for path in place.glob("0*"):
                path.unlink()
            shutil.copytree(folder, place, dirs_exist_ok=True)
        kafka.start()
        for topic in topics:
            served = java_rows(read_all(kafka, topic))
            assert difference(served, java_rows(read_all(story.kafka, topic))) is None
