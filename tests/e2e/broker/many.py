"""A program: kafka-python with thousands of partitions in one request.

    python -m tests.e2e.broker.many produce|follow BOOTSTRAP TOPIC PARTITIONS

Unlike librdkafka it puts every partition that is ready into one request, as the Java client does,
and has fetch sessions. It is a program of its own because its import warns of old age.
"""

import sys
import time
from collections import Counter
from contextlib import closing

from kafka import (
    KafkaConsumer,
    KafkaProducer,
    TopicPartition,
)

GROWN = 20
"""Partitions that grow while somebody follows all of them."""

PATIENCE_S = 60


def produce(bootstrap: str, topic: str, partitions: int) -> None:
    """Send a record to every partition."""
    with closing(KafkaProducer(bootstrap_servers=bootstrap, linger_ms=500)) as producer:
        sent = [
            producer.send(topic, b"all", partition=partition) for partition in range(partitions)
        ]
        for one in sent:
            one.get(timeout=PATIENCE_S)


def follow(bootstrap: str, topic: str, partitions: int) -> None:
    """Ask where every partition begins and ends; then, in a session, hear of the few that grow."""
    places = [TopicPartition(topic, partition) for partition in range(partitions)]
    with closing(
        KafkaConsumer(bootstrap_servers=bootstrap, group_id=None, enable_auto_commit=False)
    ) as consumer:
        ends = consumer.end_offsets(places)
        assert min(ends.values()) >= 1, Counter(ends.values())
        assert set(consumer.beginning_offsets(places).values()) == {0}
        consumer.assign(places)
        for place in places:
            consumer.seek(place, ends[place])
        consumer.poll(500)
        grown = Counter(range(0, partitions, partitions // GROWN))
        with closing(KafkaProducer(bootstrap_servers=bootstrap)) as producer:
            for partition in grown:
                producer.send(topic, b"more", partition=partition)
            producer.flush(PATIENCE_S)
        heard: Counter[int] = Counter()
        end = time.monotonic() + PATIENCE_S
        while heard.total() < len(grown) and time.monotonic() < end:
            for place, records in consumer.poll(500).items():
                heard[place.partition] += len(records)
        assert heard == grown, heard


if __name__ == "__main__":
    what, to, name, some = sys.argv[1:]
    {"produce": produce, "follow": follow}[what](to, name, int(some))
