"""kafka-topics: its lines, its checks, and what it asks of brokers old and new."""

from typing import Any

import pytest

from lakelog_kafka_tools import apis, topics
from lakelog_kafka_tools.admin import Entry, Moving, Partition, Topic
from lakelog_kafka_tools.cluster import open_cluster
from lakelog_kafka_tools.thrown import Thrown
from lakelog_kafka_tools.topics import parse_assignment
from lakelog_kafka_tools.topics_text import Reports, partition_text, topic_text
from tests.unit.kafka_tools.scripted import metadata, scripted, told

_ID = bytes(15) + b"\x02"
_ENTRIES = [
    Entry("min.insync.replicas", "2", 4, False, ()),
    Entry("retention.ms", "7", 1, False, ()),
    Entry("segment.bytes", "1", 5, False, ()),
]
_PARTITION = Partition(0, 1, [1, 2, 3], [1, 2], [], [])
_MOVING = Moving([1, 2, 3, 4], [4], [])


def test_the_line_of_a_topic() -> None:
    topic = Topic("t", _ID, [_PARTITION])

    assert topic_text(topic, _ENTRIES, None) == (
        "Topic: t\tTopicId: AAAAAAAAAAAAAAAAAAAAAg\tPartitionCount: 1\tReplicationFactor: 3"
        "\tConfigs: min.insync.replicas=2,retention.ms=7"
    )


def test_a_topic_without_an_id_shows_none() -> None:
    assert "TopicId" not in topic_text(Topic("t", bytes(16), [_PARTITION]), (), None)


def test_the_line_of_a_partition() -> None:
    assert partition_text("t", _PARTITION, None) == (
        "\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1,2,3\tIsr: 1,2\tElr: \tLastKnownElr: "
    )
    assert partition_text("t", Partition(3, None, [4], []), _MOVING) == (
        "\tTopic: t\tPartition: 3\tLeader: none\tReplicas: 4\tIsr: \tAdding Replicas: 4"
        "\tRemoving Replicas: \tElr: N/A\tLastKnownElr: N/A"
    )


def test_replicas_on_their_way_do_not_count() -> None:
    partition = Partition(0, 1, [1, 2, 3, 4], [1, 2, 3])

    assert "ReplicationFactor: 3" in topic_text(Topic("t", _ID, [partition]), (), _MOVING)
    assert not Reports(under_replicated=True).shows_partition(partition, (), _MOVING)
    assert Reports(under_replicated=True).shows_partition(partition, (), None)


@pytest.mark.parametrize(
    ("reports", "shown"),
    [
        (Reports(), True),
        (Reports(overridden=True), False),
        (Reports(unavailable=True, alive={1}), False),
        (Reports(unavailable=True, alive={2}), True),
        (Reports(under_min_isr=True), False),
        (Reports(at_min_isr=True), True),
        (Reports(under_replicated=True), True),
    ],
)
def test_what_is_wrong_with_a_partition_may_be_all_that_is_shown(
    reports: Reports, shown: bool
) -> None:
    assert reports.shows_partition(_PARTITION, _ENTRIES, None) == shown


def test_brokers_of_partitions() -> None:
    assert parse_assignment("1:2, 2:3") == [[1, 2], [2, 3]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1:1", "Partition replica lists may not contain duplicate entries: 1"),
        ("1,1:2", "Partition 1 has different replication factor: [1, 2]"),
        ("x", 'For input string: "x"'),
    ],
)
def test_an_assignment_that_makes_no_sense_is_refused(text: str, message: str) -> None:
    with pytest.raises(Thrown) as thrown:
        parse_assignment(text)

    assert thrown.value.message == message


def _row(name: str, **more: Any) -> dict[str, Any]:
    partition = {"partition_index": 0, "leader_id": 1, "replica_nodes": [1], "isr_nodes": [1]}
    return {"name": name, "topic_id": _ID, "partitions": [partition], **more}


def test_topics_are_listed_in_order_and_chosen_by_a_pattern() -> None:
    with scripted({apis.METADATA: {}}) as broker:
        rows = (_row("b"), _row("__consumer_offsets", is_internal=True), _row("a"))
        broker.answers[apis.METADATA] = metadata(broker.bootstrap, *rows)
        given = ("--bootstrap-server", broker.bootstrap, "--list")

        assert told(topics.run, *given).out == "__consumer_offsets\na\nb\n"
        assert told(topics.run, *given, "--exclude-internal").out == "a\nb\n"
        assert told(topics.run, *given, "--topic", "a, c").out == "a\n"


def test_a_broker_that_knows_nothing_of_eligible_leaders_is_asked_as_before() -> None:
    config = {"resource_type": 2, "resource_name": "a", "configs": []}
    answers = {apis.METADATA: {}, apis.DESCRIBE_CONFIGS: {"results": [config]}}
    with scripted(answers, {apis.METADATA: 1, apis.DESCRIBE_CONFIGS: 1}) as broker:
        broker.answers[apis.METADATA] = metadata(broker.bootstrap, _row("a"))

        found = told(topics.run, "--bootstrap-server", broker.bootstrap, "--describe")

    assert found.out == (
        "Topic: a\tPartitionCount: 1\tReplicationFactor: 1\tConfigs: \n"
        "\tTopic: a\tPartition: 0\tLeader: 1\tReplicas: 1\tIsr: 1\tElr: N/A\tLastKnownElr: N/A\n"
    )
    assert found.code == 0


def test_a_topic_that_exists_is_an_error_unless_it_may() -> None:
    refusal = {"name": "a", "error_code": 36, "error_message": "Topic 'a' already exists."}
    with scripted({apis.METADATA: {}, apis.CREATE_TOPICS: {"topics": [refusal]}}) as broker:
        broker.answers[apis.METADATA] = metadata(broker.bootstrap)
        given = ("--bootstrap-server", broker.bootstrap, "--create", "--topic", "a")

        assert told(topics.run, *given) == (
            1,
            "Error while executing topic command : Topic 'a' already exists.\n",
            "",
        )
        assert told(topics.run, *given, "--if-not-exists") == (0, "", "")


def test_nobody_at_the_address_is_javas_timeout_when_the_time_is_over() -> None:
    with scripted({}) as broker:
        address = broker.bootstrap

    def at_once(bootstrap: str, properties: dict[str, str], warn: Any) -> Any:
        return open_cluster(bootstrap, properties, warn, 0)

    given = ("--bootstrap-server", address, "--list")
    found = told(topics.run, *given, connect=at_once)

    assert found.code == 1
    assert found.out == (
        "Error while executing topic command : Timed out waiting for a node assignment. Call:"
        " listTopics\n"
    )
    assert "Connection refused" in found.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--list", "--delete"), "Command must include exactly one action"),
        (("--create",), 'Missing required argument "[topic]"'),
        (("--alter", "--topic", "a"), 'Missing required argument "[partitions]"'),
        (
            ("--list", "--partitions", "3"),
            'Option "[partitions]" can\'t be used with option "[list]"',
        ),
    ],
)
def test_options_that_do_not_go_together_end_with_the_usage(
    arguments: tuple[str, ...], message: str
) -> None:
    found = told(topics.run, "--bootstrap-server", "x:1", *arguments)

    assert found.code == 1
    assert found.err.startswith(message)
    assert "--under-replicated-partitions" in found.err
