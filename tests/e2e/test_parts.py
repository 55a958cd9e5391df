"""The parts that judge lakelog are the real ones."""

import uuid
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from tests.parts.kafka import Kafka, Record, read_all
from tests.parts.seaweedfs import SeaweedFS
from tests.patience import in_time

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TIMESTAMP = 1_700_000_000_123


def _topic_with_one_record(kafka: Kafka) -> tuple[str, Record]:
    topic = f"parts-{uuid.uuid4().hex}"  # noqa: TID251 (the Kafka is shared by a whole run)
    headers = (("trace", b"\x00\xff"), ("trace", None), ("ключ", b""))
    record = Record(1, 0, _TIMESTAMP, 0, b"key", None, headers)
    kafka.create_topic(topic, partitions=2)
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "enable.idempotence": True})
    producer.produce(
        topic,
        partition=record.partition,
        key=record.key,
        value=record.value,
        timestamp=record.timestamp,
        headers=list(headers),
    )
    in_time(producer.flush(30) == 0, "some are not acknowledged")
    return topic, record


@pytest.mark.kafka
def test_the_java_consumer_and_the_dump_tool_see_what_librdkafka_produced(kafka: Kafka) -> None:
    topic, record = _topic_with_one_record(kafka)

    assert read_all(kafka, topic) == [record]

    segment = kafka.partition_dir(topic, 1) / "00000000000000000000.log"
    dump = kafka.tool("kafka-dump-log", "--print-data-log", "--files", str(segment))
    assert dump.rc == 0, dump.stderr
    assert "baseOffset: 0 lastOffset: 0 count: 1 baseSequence: 0" in dump.stdout
    assert "isvalid: true" in dump.stdout
    assert f"CreateTime: {_TIMESTAMP}" in dump.stdout


@pytest.mark.kafka
def test_kafka_starts_again_on_its_directory_with_all_it_had(kafka: Kafka) -> None:
    topic, record = _topic_with_one_record(kafka)

    kafka.stop()
    kafka.start()

    assert read_all(kafka, topic) == [record]


@pytest.mark.seaweedfs
def test_only_one_of_many_racing_creates_wins(seaweedfs: SeaweedFS) -> None:
    bucket = seaweedfs.bucket("races")
    races, racers = range(5), range(4)
    start = Barrier(len(races) * len(racers))

    def create(race: int, racer: int) -> int:
        start.wait()
        body = str(racer).encode()
        return seaweedfs.request("PUT", f"/{bucket}/{race}", body, {"If-None-Match": "*"}).status

    # All races are run at once, because SeaweedFS lets a loser wait a second before it looks again.
    with ThreadPoolExecutor(start.parties) as pool:
        runs = [[pool.submit(create, race, racer) for racer in racers] for race in races]

    for race, run in enumerate(runs):
        statuses = [attempt.result() for attempt in run]
        assert sorted(statuses) == [200, 412, 412, 412]
        winner = str(statuses.index(200)).encode()
        assert seaweedfs.request("GET", f"/{bucket}/{race}").body == winner


@pytest.mark.spark
def test_spark_counts_a_range_with_its_own_python_workers(spark: "SparkSession") -> None:
    numbers = spark.range(1_000, numPartitions=2)

    assert numbers.count() == 1_000
    assert numbers.rdd.map(lambda row: row.id).sum() == 499_500
