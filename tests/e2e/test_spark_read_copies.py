"""The disks of three brokers are one log: each record once, and only those that a consumer sees."""

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition
from pyspark.sql import SparkSession

from tests.parts.kafka import read_all
from tests.parts.kafka_cluster import KafkaCluster
from tests.patience import heard, in_time

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

TOPIC = "copied"
Row = tuple[int, int, bytes]


def produce(bootstrap: str, partition: int, values: Iterable[bytes], **settings: object) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, **settings})
    for value in values:
        producer.produce(TOPIC, value=value, partition=partition)
        producer.poll(0)
    in_time(producer.flush(30) == 0, "some are not acknowledged")


def on_disk(spark: SparkSession, folder: Path) -> list[Row]:
    reader = spark.read.format("lakelog").option("path", str(folder)).option("layout", "kafka")
    frame = reader.option("subscribe", TOPIC).option("columns", "partition,offset,value").load()
    return sorted((row.partition, row.offset, bytes(row.value)) for row in frame.collect())


def consumed(cluster: KafkaCluster) -> list[Row]:
    return [(r.partition, r.offset, r.value or b"") for r in read_all(cluster, TOPIC)]


def fill(name: str, count: int, size: int = 2000) -> Iterable[bytes]:
    return (b"%s-%d" % (name.encode(), i) + b"." * size for i in range(count))


def lose_a_tail(cluster: KafkaCluster) -> None:
    """Let broker 2, which leads partition 0, take records that no other broker hears of."""
    cluster.node(1).suspend()
    cluster.node(3).suspend()
    for number in range(6):
        # A batch each: the first may be an answer to a fetch that was already on its way.
        produce(cluster.node(2).bootstrap, 0, fill(f"lost-{number}", 3), acks=1)
    cluster.node(2).kill()
    cluster.node(1).resume()
    cluster.node(3).resume()
    cluster.wait_until(lambda: cluster.leader(TOPIC, 0) in (1, 3))
    produce(cluster.node(1).bootstrap, 0, fill("kept", 2), acks="all")


def delete_records(cluster: KafkaCluster, partition: int, before: int) -> Callable[[], bool]:
    """Delete records; returns whether every broker has noted it on its disk."""
    admin = cluster.admin()
    heard(admin.delete_records([TopicPartition(TOPIC, partition, before)]).values())
    notes = [node.data_dir / "log-start-offset-checkpoint" for node in cluster.nodes]
    return lambda: all(f"{TOPIC} {partition} {before}\n" in note.read_text() for note in notes)


def test_copies_that_differ_read_like_one_consumer(
    spark: SparkSession, kafka_cluster: KafkaCluster
) -> None:
    cluster = kafka_cluster
    cluster.create_topic(TOPIC, [[2, 1, 3], [1, 2, 3]], segment_bytes=1 << 20)
    for partition in (0, 1):
        produce(cluster.bootstrap, partition, fill("all", 1200), acks="all")
    lose_a_tail(cluster)

    stale = on_disk(spark, cluster.node(2).data_dir)
    found, expected = on_disk(spark, cluster.home), consumed(cluster)
    assert sum(value.startswith(b"lost") for *_, value in stale) == 18
    assert max(stale)[:2] >= max(row for row in found if row[0] == 0)[:2]
    assert found == sorted(expected)
    assert sum(value.startswith(b"kept") for *_, value in found) == 2
    assert sum(value.startswith(b"lost") for *_, value in found) <= 3

    every = spark.read.format("lakelog").option("layout", "kafka").option("columns", "topic")
    topics = {row.topic for row in every.load(str(cluster.home)).distinct().collect()}
    assert {TOPIC, "__cluster_metadata"} <= topics

    cluster.node(2).start()
    cluster.wait_until(lambda: all(len(cluster.in_sync(TOPIC, p)) == 3 for p in (0, 1)))
    cluster.wait_until(delete_records(cluster, 1, before=700))
    again = on_disk(spark, cluster.home)
    assert again == sorted(consumed(cluster))
    assert min(row[1] for row in again if row[0] == 1) == 700
    assert {row for row in again if row[0] == 0} == {row for row in found if row[0] == 0}
