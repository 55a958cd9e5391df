"""What is asked of topics and settings, in the order in which Java's admin client asks."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from lakelog_kafka_tools import apis
from lakelog_kafka_tools.cluster import Cluster
from lakelog_kafka_tools.java import id_text
from lakelog_kafka_tools.thrown import Thrown, refused

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
]

PARTITIONS_PER_ANSWER = 2000
_UNKNOWN_TOPIC = 3
_UNSUPPORTED = 35
_NO_ID = bytes(16)
TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
_PACKAGE = "org.apache.kafka.common.errors"


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
    """Replicas of a partition that are on their way."""

    replicas: Sequence[int]
    adding: Sequence[int]
    removing: Sequence[int]


class Resource(NamedTuple):
    """What settings belong to."""

    kind: int
    name: str


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


def list_topics(cluster: Cluster, call: str = "listTopics") -> list[Listing]:
    """Return all topics."""
    answer = cluster.ask(apis.METADATA, {"topics": None, "allow_auto_topic_creation": True}, call)
    cluster.note(answer)
    return [
        Listing(row["name"], row["topic_id"], row["is_internal"])
        for row in answer["topics"]
        if not row["error_code"]
    ]


def describe_topics(
    cluster: Cluster, names: Iterable[str], limit: int = PARTITIONS_PER_ANSWER
) -> dict[str, Topic | Thrown]:
    """Return topics, or why not."""
    wanted = sorted(set(names))
    if not wanted:
        return {}
    alive = cluster.nodes("describeCluster")
    try:
        return _describe_in_pages(cluster, wanted, set(alive), limit)
    except Thrown as thrown:
        if thrown.code != _UNSUPPORTED:
            raise
    rows = [{"name": name} for name in wanted]
    answer = cluster.ask(apis.METADATA, {"topics": rows}, "describeTopics")
    found: dict[str, Topic | Thrown] = {}
    for row in answer["topics"]:
        code = row["error_code"]
        found[row["name"]] = refused(code) if code else _topic(row, set(alive))
    kind = f"{_PACKAGE}.UnknownTopicOrPartitionException"
    for name in wanted:
        found.setdefault(name, Thrown(kind, f"Topic {name} not found.", _UNKNOWN_TOPIC))
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
            name, code = row["name"], row["error_code"]
            topic = refused(code) if code else _topic(row, alive)
            before = found.get(name)
            if isinstance(topic, Topic) and isinstance(before, Topic):
                topic = before._replace(partitions=[*before.partitions, *topic.partitions])
            found[name] = topic
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
    cluster.note(answer)
    alive = {row["node_id"] for row in answer["brokers"]}
    for row in answer["topics"]:
        if row["topic_id"] == topic_id and not row["error_code"]:
            return _topic(row, alive)
    kind = f"{_PACKAGE}.UnknownTopicIdException"
    raise Thrown(kind, f"TopicId {id_text(topic_id)} not found.", 100)


def _topic(row: Mapping[str, Any], alive: set[int]) -> Topic:
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
    """Return the partitions whose replicas are on their way; none if the cluster does not tell."""
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
        if thrown.code == _UNSUPPORTED:
            return {}
        raise
    code = answer["error_code"]
    if code == 31:
        return {}
    if code:
        raise refused(code, answer["error_message"])
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
        kind = f"{_PACKAGE}.InvalidTopicException"
        raise Thrown(kind, "The given topic name '' cannot be represented in a request.")
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
    _all(
        cluster.ask_controller(apis.CREATE_TOPICS, request, "createTopics", _code("topics")),
        "topics",
    )


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
    found = cluster.ask_controller(apis.DELETE_TOPICS, request, "deleteTopics", _code("responses"))
    _all(found, "responses")


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
    call = "createPartitions"
    found = cluster.ask_controller(apis.CREATE_PARTITIONS, request, call, _code("results"))
    _all(found, "results")


def _code(rows: str) -> Any:
    return lambda answer: max((int(row["error_code"]) for row in answer[rows]), default=0)


def _all(answer: Mapping[str, Any], rows: str) -> None:
    for row in answer[rows]:
        if row["error_code"]:
            raise refused(row["error_code"], row["error_message"])


def describe_configs(
    cluster: Cluster, resources: Sequence[Resource], *, synonyms: bool = False
) -> dict[Resource, list[Entry] | Thrown]:
    """Return the settings of resources, or why not."""
    found: dict[Resource, list[Entry] | Thrown] = {}
    apart = [one for one in resources if one.kind in (BROKER, BROKER_LOGGER) and one.name]
    for group in [[one for one in resources if one not in apart], *([one] for one in apart)]:
        if not group:
            continue
        rows = [
            {"resource_type": one.kind, "resource_name": one.name, "configuration_keys": None}
            for one in group
        ]
        request = {"resources": rows, "include_synonyms": synonyms}
        if group[0] in apart:
            node = int(group[0].name)
            answer = cluster.ask_node(node, apis.DESCRIBE_CONFIGS, request, "describeConfigs")
        else:
            answer = cluster.ask(apis.DESCRIBE_CONFIGS, request, "describeConfigs")
        for row in answer["results"]:
            resource = Resource(row["resource_type"], row["resource_name"])
            code = row["error_code"]
            found[resource] = refused(code, row["error_message"]) if code else _entries(row)
    return found


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
    if resource.kind in (BROKER, BROKER_LOGGER) and resource.name:
        answer = cluster.ask_node(int(resource.name), api, {"resources": [row]}, call)
    else:
        answer = cluster.ask(api, {"resources": [row]}, call)
    _all(answer, "responses")


def list_resources(cluster: Cluster, kind: int) -> list[str]:
    """Return the names of the resources of a kind that have settings.

    Raises:
        Thrown: the cluster does not tell.
    """
    request = {"resource_types": [kind]}
    answer = cluster.ask(apis.LIST_CONFIG_RESOURCES, request, "listConfigResources")
    if answer["error_code"]:
        raise refused(answer["error_code"])
    # A broker that knows no kinds has only client metrics to tell of.
    return [
        row["resource_name"]
        for row in answer["config_resources"]
        if row["resource_type"] in (kind, 0)
    ]
