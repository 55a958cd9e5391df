"""Kafka's own reader of ``__consumer_offsets`` reads ours, and finds what it finds in Kafka's."""

import json
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.parts.kafka import Kafka, tool
from tests.parts.lakelog import running_lakelog

FORGOTTEN = "forgotten"
COMMITS = {
    "billing": {0: (3, ""), 1: (5, "half")},
    "search": {1: (0, "")},
    "naïve ☃": {2: (7, "all")},
}


def commit(bootstrap: str) -> None:
    """Commit for each group, and for one more that is deleted afterwards."""
    client = AdminClient({"bootstrap.servers": bootstrap})
    for made in client.create_topics([NewTopic("told", 3)]).values():
        made.result(30)
    for group, places in {**COMMITS, FORGOTTEN: {0: (1, "")}}.items():
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
        where = [
            TopicPartition("told", partition, offset, metadata=words)
            for partition, (offset, words) in places.items()
        ]
        for one in consumer.commit(offsets=where, asynchronous=False):
            assert one.error is None
        consumer.close()
    client.delete_consumer_groups([FORGOTTEN])[FORGOTTEN].result(30)


def read(bootstrap: str) -> list[tuple[Any, ...]]:
    """Return what Kafka's formatter makes of the topic: group, topic, partition, offset, words.

    The last word on a key counts: what is forgotten is told by a record without a value.
    """
    done = tool(
        "kafka-console-consumer", "--bootstrap-server", bootstrap,
        "--topic", "__consumer_offsets", "--from-beginning", "--timeout-ms", "10000",
        "--formatter", "org.apache.kafka.tools.consumer.OffsetsMessageFormatter",
    )  # fmt: skip
    rows: dict[tuple[str, str, int], tuple[int, str]] = {}
    text, at = done.stdout, 0
    while (at := text.find("{", at)) >= 0:
        told, at = json.JSONDecoder().raw_decode(text, at)
        key, value = told["key"]["data"], told["value"]
        if key["group"] not in (*COMMITS, FORGOTTEN) or "topic" not in key:
            continue
        where = key["group"], key["topic"], key["partition"]
        rows.pop(where, None)
        if value is not None:  # confluent-kafka ends what it stores with a zero of its own.
            rows[where] = value["data"]["offset"], value["data"]["metadata"].rstrip("\0")
    return sorted((*where, *words) for where, words in rows.items())


@pytest.mark.kafka
def test_kafkas_reader_of_offsets_finds_what_it_finds_in_kafka(kafka: Kafka) -> None:
    expected = sorted(
        (group, "told", partition, *row)
        for group, places in COMMITS.items()
        for partition, row in places.items()
    )
    commit(kafka.bootstrap)
    assert read(kafka.bootstrap) == expected
    with running_lakelog() as broker:
        commit(broker.bootstrap)
        assert read(broker.bootstrap) == expected
