"""Requests about topics and settings, in the order in which Java's admin client sends them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from lakelog_kafka_tools import apis
from lakelog_kafka_tools.apis import Api
from lakelog_kafka_tools.cluster import Cluster, worst_code
from lakelog_kafka_tools.java import id_text
from lakelog_kafka_tools.thrown import (
    EXECUTION,
    RUNTIME,
    UNSUPPORTED_VERSION,
    Thrown,
    check_codes,
    kafka_error,
    refused,
    unless_thrown,
)

__all__ = [
    "Entry",
    "Listing",
    "Moving",
    "Partition",
    "Resource",
    "Topic",
    "alter_configs",
    "create_partitions",
    "create_topic",
    "delete_topics",
    "describe_configs",
    "describe_topic_ids",
    "describe_topics",
    "list_reassignments",
    "list_resources",
    "list_topics",
    "partition_leaders",
]

PARTITIONS_PER_ANSWER = 2000
_DENIED = 31
TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32


class Listing(NamedTuple):
    """A topic that is there."""

    name: str
    topic_id: bytes
    is_internal: bool


class Partition(NamedTuple):
    """A partition of a topic."""

    number: int
    leader: int | None
    replicas: Sequence[int]
    isr: Sequence[int]
    elr: Sequence[int] | None = None
    last_elr: Sequence[int] | None = None


class Topic(NamedTuple):
    """A topic and its partitions."""

    name: str
    topic_id: bytes
    partitions: Sequence[Partition]


class Moving(NamedTuple):
    """Replicas of a partition that are moved."""

    replicas: Sequence[int]
    adding: Sequence[int]
    removing: Sequence[int]


class Resource(NamedTuple):
    """What settings belong to."""

    kind: int
    name: str

    @property
    def node(self) -> int | None:
        """The broker that alone knows of it."""
        return int(self.name) if self.kind in (BROKER, BROKER_LOGGER) and self.name else None


class Entry(NamedTuple):
    """A setting."""

    name: str
    value: str | None
    source: int
    is_sensitive: bool
    synonyms: Sequence[tuple[str, str | None, int]]

    @property
    def is_default(self) -> bool:
        return self.source == 5


def list_topics(cluster: Cluster) -> list[Listing]:
    """Return all topics."""
    request = {"topics": None, "allow_auto_topic_creation": True}
    answer = cluster.ask(apis.METADATA, request, "listTopics")
    cluster.learn_from(answer)
    return [
        Listing(row["name"], row["topic_id"], row["is_internal"])
        for row in answer["topics"]
        if not row["error_code"]
    ]


def describe_topics(
    cluster: Cluster, names: Iterable[str], limit: int = PARTITIONS_PER_ANSWER
) -> dict[str, Topic | Thrown]:
    """Return topics, or why they cannot be described."""
    wanted = sorted(set(names))
    if not wanted:
        return {}
    alive = cluster.nodes("describeCluster")
    try:
        return _describe_in_pages(cluster, wanted, set(alive), limit)
    except Thrown as thrown:
        if thrown.code != UNSUPPORTED_VERSION:
            raise
    rows = [{"name": name} for name in wanted]
    answer = cluster.ask(apis.METADATA, {"topics": rows}, "describeTopics")
    found = {row["name"]: _topic(row, set(alive)) for row in answer["topics"]}
    for name in wanted:
        message = f"Topic {name} not found."
        found.setdefault(name, kafka_error("UnknownTopicOrPartition", message, 3))
    return found


def _describe_in_pages(
    cluster: Cluster, names: Sequence[str], alive: set[int], limit: int
) -> dict[str, Topic | Thrown]:
    found: dict[str, Topic | Thrown] = {}
    waiting = list(names)
    cursor: dict[str, Any] | None = None
    while waiting:
        rows = [{"name": name} for name in waiting]
        request = {"topics": rows, "response_partition_limit": limit, "cursor": cursor}
        call = "describeTopicPartitions"
        answer = cluster.ask(apis.DESCRIBE_TOPIC_PARTITIONS, request, call)
        for row in answer["topics"]:
            topic, before = _topic(row, alive), found.get(row["name"])
            if isinstance(topic, Topic) and isinstance(before, Topic):
                topic = before._replace(partitions=[*before.partitions, *topic.partitions])
            found[row["name"]] = topic
        cursor = answer["next_cursor"]
        if cursor is None:
            break
        waiting = [name for name in waiting if name >= cursor["topic_name"]]
    return found


def describe_topic_ids(cluster: Cluster, topic_id: bytes) -> Topic:
    """Return the topic of an id.

    Raises:
        Thrown: there is none.
    """
    request = {"topics": [{"topic_id": topic_id, "name": None}]}
    answer = cluster.ask(apis.METADATA, request, "describeTopicsWithIds")
    cluster.learn_from(answer)
    alive = {row["node_id"] for row in answer["brokers"]}
    for row in answer["topics"]:
        topic = _topic(row, alive)
        if row["topic_id"] == topic_id and isinstance(topic, Topic):
            return topic
    raise kafka_error("UnknownTopicId", f"TopicId {id_text(topic_id)} not found.", 100)


def partition_leaders(cluster: Cluster, names: Iterable[str]) -> dict[tuple[str, int], int | None]:
    """Return the leaders of all partitions of topics, by partition.

    Raises:
        Thrown: a topic cannot be described.
    """
    return {
        (name, one.number): one.leader
        for name, topic in describe_topics(cluster, names).items()
        for one in unless_thrown(topic, EXECUTION, RUNTIME).partitions
    }


def _topic(row: Mapping[str, Any], alive: set[int]) -> Topic | Thrown:
    if row["error_code"]:
        return refused(row["error_code"])
    partitions = [
        Partition(
            number=one["partition_index"],
            leader=one["leader_id"] if one["leader_id"] in alive else None,
            replicas=one["replica_nodes"],
            isr=one["isr_nodes"],
            elr=one.get("eligible_leader_replicas"),
            last_elr=one.get("last_known_elr"),
        )
        for one in row["partitions"]
    ]
    return Topic(row["name"], row["topic_id"], sorted(partitions))


def list_reassignments(cluster: Cluster, topics: Iterable[Topic]) -> dict[tuple[str, int], Moving]:
    """Return the partitions whose replicas are moved; none if the cluster does not list them."""
    rows = [
        {"name": topic.name, "partition_indexes": [one.number for one in topic.partitions]}
        for topic in topics
    ]
    request = {"timeout_ms": 60_000, "topics": rows}
    try:
        answer = cluster.ask_controller(
            apis.LIST_PARTITION_REASSIGNMENTS,
            request,
            "listPartitionReassignments",
            lambda answer: int(answer["error_code"]),
        )
    except Thrown as thrown:
        if thrown.code == UNSUPPORTED_VERSION:
            return {}
        raise
    if answer["error_code"] == _DENIED:
        return {}
    check_codes([answer])
    return {
        (row["name"], one["partition_index"]): Moving(
            one["replicas"], one["adding_replicas"], one["removing_replicas"]
        )
        for row in answer["topics"]
        for one in row["partitions"]
    }


def create_topic(
    cluster: Cluster,
    name: str,
    partitions: int | None,
    replication: int | None,
    assignment: Sequence[Sequence[int]],
    configs: Mapping[str, str],
) -> None:
    """Create a topic.

    Raises:
        Thrown: the cluster does not.
    """
    if not name:
        message = "The given topic name '' cannot be represented in a request."
        raise kafka_error("InvalidTopic", message)
    row = {
        "name": name,
        "num_partitions": -1 if partitions is None or assignment else partitions,
        "replication_factor": -1 if replication is None or assignment else replication,
        "assignments": [
            {"partition_index": number, "broker_ids": brokers}
            for number, brokers in enumerate(assignment)
        ],
        "configs": [{"name": key, "value": value} for key, value in configs.items()],
    }
    request = {"topics": [row], "timeout_ms": 30_000}
    _change(cluster, apis.CREATE_TOPICS, request, "createTopics", "topics")


def delete_topics(cluster: Cluster, names: Sequence[str]) -> None:
    """Delete topics.

    Raises:
        Thrown: the cluster does not delete one of them.
    """
    if not names:
        return
    request = {
        "topics": [{"name": name} for name in names],
        "topic_names": list(names),
        "timeout_ms": 30_000,
    }
    _change(cluster, apis.DELETE_TOPICS, request, "deleteTopics", "responses")


def create_partitions(
    cluster: Cluster, topics: Mapping[str, tuple[int, Sequence[Sequence[int]] | None]]
) -> None:
    """Let topics have more partitions.

    Raises:
        Thrown: the cluster does not.
    """
    rows = [
        {
            "name": name,
            "count": count,
            "assignments": None if new is None else [{"broker_ids": one} for one in new],
        }
        for name, (count, new) in topics.items()
    ]
    request = {"topics": rows, "timeout_ms": 30_000}
    _change(cluster, apis.CREATE_PARTITIONS, request, "createPartitions", "results")


def _change(cluster: Cluster, api: Api, request: dict[str, Any], call: str, rows: str) -> None:
    """Ask the controller for a change, and raise the first error in the rows of its answer."""
    check_codes(cluster.ask_controller(api, request, call, worst_code(rows))[rows])


def describe_configs(
    cluster: Cluster, resources: Sequence[Resource], *, synonyms: bool = False
) -> dict[Resource, list[Entry] | Thrown]:
    """Return the settings of resources, or why they cannot be described."""
    found: dict[Resource, list[Entry] | Thrown] = {}
    together = [one for one in resources if one.node is None]
    alone = ([one] for one in resources if one.node is not None)
    for group in [*([together] if together else []), *alone]:
        rows = [
            {"resource_type": one.kind, "resource_name": one.name, "configuration_keys": None}
            for one in group
        ]
        request = {"resources": rows, "include_synonyms": synonyms}
        answer = _ask_for(cluster, group[0], apis.DESCRIBE_CONFIGS, request, "describeConfigs")
        for row in answer["results"]:
            resource = Resource(row["resource_type"], row["resource_name"])
            code = row["error_code"]
            found[resource] = refused(code, row["error_message"]) if code else _entries(row)
    return found


def _ask_for(
    cluster: Cluster, resource: Resource, api: Api, request: dict[str, Any], call: str
) -> dict[str, Any]:
    """Ask the broker whose resource it is; of others' resources, any broker."""
    if resource.node is not None:
        return cluster.ask_node(resource.node, api, request, call)
    return cluster.ask(api, request, call)


def _entries(row: Mapping[str, Any]) -> list[Entry]:
    return [
        Entry(
            name=one["name"],
            value=one["value"],
            source=one["config_source"],
            is_sensitive=one["is_sensitive"],
            synonyms=[(syn["name"], syn["value"], syn["source"]) for syn in one["synonyms"]],
        )
        for one in row["configs"]
    ]


def alter_configs(
    cluster: Cluster, resource: Resource, deleted: Sequence[str], added: Mapping[str, str]
) -> None:
    """Change settings.

    Raises:
        Thrown: the cluster does not.
    """
    rows = [{"name": name, "config_operation": 1, "value": ""} for name in deleted]
    rows += [{"name": name, "config_operation": 0, "value": value} for name, value in added.items()]
    row = {"resource_type": resource.kind, "resource_name": resource.name, "configs": rows}
    api, call = apis.INCREMENTAL_ALTER_CONFIGS, "incrementalAlterConfigs"
    check_codes(_ask_for(cluster, resource, api, {"resources": [row]}, call)["responses"])


def list_resources(cluster: Cluster, kind: int) -> list[str]:
    """Return the names of the resources of a kind that have settings.

    Raises:
        Thrown: the cluster does not list them.
    """
    request = {"resource_types": [kind]}
    answer = cluster.ask(apis.LIST_CONFIG_RESOURCES, request, "listConfigResources")
    check_codes([answer])
    # A broker that knows no kinds lists client metrics only.
    return [
        row["resource_name"]
        for row in answer["config_resources"]
        if row["resource_type"] in (kind, 0)
    ]
