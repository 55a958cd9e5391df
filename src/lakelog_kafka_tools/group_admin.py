"""Requests about groups and offsets, in the order in which Java's admin client sends them."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from lakelog.errors import CorruptError
from lakelog_kafka_tools import apis
from lakelog_kafka_tools.cluster import Cluster, Node, worst_code
from lakelog_kafka_tools.java import hash_order, text_hash
from lakelog_kafka_tools.schemas import decode, schema
from lakelog_kafka_tools.thrown import (
    UNSUPPORTED_VERSION,
    Thrown,
    check_codes,
    illegal,
    refused,
)

__all__ = [
    "Committed",
    "Group",
    "GroupListing",
    "Member",
    "TopicPartition",
    "alter_offsets",
    "committed_offsets",
    "decode_assignment",
    "delete_groups",
    "delete_offsets",
    "describe_groups",
    "list_groups",
    "list_offsets",
]

TopicPartition = tuple[str, int]
EARLIEST, LATEST = -2, -1
_GROUP_ID_NOT_FOUND = 69
_NEEDS_VERSION = {-3: 7, -4: 8, -5: 9, -6: 11}


class GroupListing(NamedTuple):
    """A group that is there."""

    group_id: str
    type: str
    state: str


class Member(NamedTuple):
    """A member of a group."""

    member_id: str
    instance_id: str
    client_id: str
    host: str
    assigned: Sequence[TopicPartition]
    target: Sequence[TopicPartition] = ()
    epoch: int | None = None
    is_upgraded: bool | None = None


class Group(NamedTuple):
    """A group and its members."""

    group_id: str
    state: str
    assignor: str
    coordinator: Node
    members: Sequence[Member]
    epoch: int | None = None
    target_epoch: int | None = None


class Committed(NamedTuple):
    """An offset that a group has committed."""

    offset: int
    leader_epoch: int | None


def list_groups(
    cluster: Cluster,
    states: Sequence[str] = (),
    types: Sequence[str] = ("Classic", "Consumer"),
    protocols: Collection[str] = ("", "consumer"),
) -> list[GroupListing]:
    """Return the groups of all brokers, in the order of Java's map of them."""
    found: dict[str, GroupListing] = {}
    for node in sorted(cluster.nodes("findAllBrokers")):
        request = {"states_filter": list(states), "types_filter": list(types)}

        def attempt(node: int = node, request: dict[str, Any] = request) -> dict[str, Any]:
            answer = cluster.node(node).ask(apis.LIST_GROUPS, request, cluster.timeout_s)
            check_codes([answer])
            return answer

        for row in cluster.again("listGroups", attempt)["groups"]:
            if not protocols or row["protocol_type"] in protocols:
                name = row["group_id"]
                kind, state = row["group_type"].title(), row["group_state"]
                found[name] = GroupListing(name, kind or "Unknown", state or "Unknown")
    return [found[name] for name in hash_order(found, text_hash)]


def describe_groups(cluster: Cluster, names: Iterable[str]) -> dict[str, Group | Thrown]:
    """Return groups, or why they cannot be described, whichever protocol they speak."""
    return {name: _describe_group(cluster, name) for name in dict.fromkeys(names)}


def _describe_group(cluster: Cluster, name: str) -> Group | Thrown:
    call = "describeConsumerGroups"
    not_found: str | None = None
    try:
        request = {"group_ids": [name]}
        api = apis.CONSUMER_GROUP_DESCRIBE
        answer, node = cluster.ask_coordinator(name, api, request, call, worst_code("groups"))
        (row,) = answer["groups"]
        if not row["error_code"]:
            return _consumer_group(row, node)
        if row["error_code"] not in (_GROUP_ID_NOT_FOUND, UNSUPPORTED_VERSION):
            return refused(row["error_code"], row["error_message"])
        not_found = row["error_message"] if row["error_code"] == _GROUP_ID_NOT_FOUND else None
    except Thrown as thrown:
        if thrown.code != UNSUPPORTED_VERSION:
            return thrown
    try:
        api, request = apis.DESCRIBE_GROUPS, {"groups": [name]}
        answer, node = cluster.ask_coordinator(name, api, request, call, worst_code("groups"))
    except Thrown as thrown:
        return thrown
    (row,) = answer["groups"]
    code = row["error_code"]
    if code:
        message = row["error_message"]
        return refused(code, not_found or message if code == _GROUP_ID_NOT_FOUND else message)
    if row["protocol_type"] not in ("", "consumer"):
        return illegal(f"GroupId {name} is not a consumer group ({row['protocol_type']}).")
    return _classic_group(row, node)


def _consumer_group(row: Mapping[str, Any], node: Node) -> Group:
    members = [
        Member(
            member_id=one["member_id"],
            instance_id=one["instance_id"] or "",
            client_id=one["client_id"],
            host=one["client_host"],
            assigned=_named(one["assignment"]),
            target=_named(one["target_assignment"]),
            epoch=one["member_epoch"],
            is_upgraded={0: False, 1: True}.get(one["member_type"]),
        )
        for one in row["members"]
    ]
    return Group(
        row["group_id"],
        row["group_state"],
        row["assignor_name"],
        node,
        members,
        row["group_epoch"],
        row["assignment_epoch"],
    )


def _named(assignment: Mapping[str, Any]) -> list[TopicPartition]:
    return [
        (row["topic_name"], number)
        for row in assignment["topic_partitions"]
        for number in row["partitions"]
    ]


def _classic_group(row: Mapping[str, Any], node: Node) -> Group:
    members = [
        Member(
            member_id=one["member_id"],
            instance_id=one["group_instance_id"] or "",
            client_id=one["client_id"],
            host=one["client_host"],
            assigned=decode_assignment(one["member_assignment"]),
        )
        for one in row["members"]
    ]
    return Group(row["group_id"], row["group_state"], row["protocol_data"], node, members)


def decode_assignment(data: bytes) -> list[TopicPartition]:
    """Return the partitions in an assignment of Kafka's consumers; none if it is in another form.

    The leader of a group writes it and brokers do not look at it, so it may be any bytes.
    """
    try:
        topics = decode(schema(apis.CONSUMER_ASSIGNMENT), data, 0, 0, False)["topics"]
    except CorruptError:
        return []
    found = [(row["name"], number) for row in topics for number in row["partitions"]]
    return found if all(number >= 0 for _, number in found) else []


def committed_offsets(cluster: Cluster, group: str) -> dict[TopicPartition, Committed | None]:
    """Return the offsets that a group has committed, by partition.

    Raises:
        Thrown: the cluster does not list them.
    """
    request: dict[str, Any] = {
        "group_id": group,
        "topics": None,
        "groups": [{"group_id": group, "topics": None}],
    }
    call = "listConsumerGroupOffsets"

    def code(answer: dict[str, Any]) -> int:
        return int(answer["error_code"]) or worst_code("groups")(answer)

    answer, _ = cluster.ask_coordinator(group, apis.OFFSET_FETCH, request, call, code)
    check_codes([answer, *answer["groups"]])
    topics = answer["groups"][0]["topics"] if answer["groups"] else answer["topics"]
    found: dict[TopicPartition, Committed | None] = {}
    for row in topics:
        for one in row["partitions"]:
            if not one["error_code"]:
                offset, epoch = one["committed_offset"], one["committed_leader_epoch"]
                value = Committed(offset, epoch if epoch >= 0 else None) if offset >= 0 else None
                found[row["name"], one["partition_index"]] = value
    return found


def delete_groups(cluster: Cluster, names: Iterable[str]) -> dict[str, Thrown | None]:
    """Delete groups; return what went wrong with each."""
    found: dict[str, Thrown | None] = {}
    api, call = apis.DELETE_GROUPS, "deleteConsumerGroups"
    for name in dict.fromkeys(names):
        found[name] = None
        try:
            request = {"groups_names": [name]}
            answer, _ = cluster.ask_coordinator(name, api, request, call, worst_code("results"))
            check_codes(answer["results"])
        except Thrown as thrown:
            found[name] = thrown
    return found


def alter_offsets(cluster: Cluster, group: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Commit offsets for a group that has no members.

    Raises:
        Thrown: the cluster does not.
    """
    rows = [
        {
            "name": topic,
            "partitions": [
                {
                    "partition_index": number,
                    "committed_offset": offsets[topic, number],
                    "committed_leader_epoch": -1,
                    "committed_metadata": "",
                }
                for number in numbers
            ],
        }
        for topic, numbers in _by_topic(offsets).items()
    ]
    request = {
        "group_id": group,
        "generation_id_or_member_epoch": -1,
        "retention_time_ms": -1,
        "topics": rows,
    }
    api, call = apis.OFFSET_COMMIT, "alterConsumerGroupOffsets"
    answer, _ = cluster.ask_coordinator(group, api, request, call, _deep_code)
    failed = [
        (f"{row['name']}-{one['partition_index']}", one["error_code"])
        for row in answer["topics"]
        for one in row["partitions"]
        if one["error_code"]
    ]
    if failed:
        names = ", ".join(name for name, _ in failed)
        message = f"Failed altering consumer group offsets for the following partitions: [{names}]"
        raise refused(failed[0][1], message)


def delete_offsets(
    cluster: Cluster, group: str, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, Thrown | None]:
    """Delete offsets of a group; return what went wrong with each.

    Raises:
        Thrown: it went wrong with the group.
    """
    rows = [
        {"name": topic, "partitions": [{"partition_index": number} for number in numbers]}
        for topic, numbers in _by_topic(partitions).items()
    ]
    request = {"group_id": group, "topics": rows}
    api, call = apis.OFFSET_DELETE, "deleteConsumerGroupOffsets"
    answer, _ = cluster.ask_coordinator(
        group, api, request, call, lambda answer: int(answer["error_code"])
    )
    check_codes([answer])
    return {
        (row["name"], one["partition_index"]): refused(one["error_code"])
        if one["error_code"]
        else None
        for row in answer["topics"]
        for one in row["partitions"]
    }


def list_offsets(
    cluster: Cluster, partitions: Collection[TopicPartition], timestamp: int
) -> dict[TopicPartition, int | Thrown]:
    """Return for each partition the first offset at or after a time, -1 if there is none.

    Times below zero stand for positions: EARLIEST, LATEST and those of tiered storage.
    """
    found: dict[TopicPartition, int | Thrown] = {}
    waiting = set(partitions)

    def attempt() -> None:
        for leader, theirs in _leaders(cluster, waiting).items():
            link = cluster.node(leader)
            if link.newest(apis.LIST_OFFSETS) < _NEEDS_VERSION.get(timestamp, 0):
                failure = refused(UNSUPPORTED_VERSION, "The broker does not support this time.")
                found.update(dict.fromkeys(theirs, failure))
                waiting.difference_update(theirs)
                continue
            answer = link.ask(apis.LIST_OFFSETS, _offsets_request(theirs, timestamp), 30.0)
            for row in answer["topics"]:
                for one in row["partitions"]:
                    partition, code = (row["name"], one["partition_index"]), one["error_code"]
                    if code not in (5, 6):
                        found[partition] = refused(code) if code else one["offset"]
                        waiting.discard(partition)
        if waiting:
            raise refused(5)

    if waiting:
        cluster.again("listOffsets", attempt)
    return found


def _offsets_request(partitions: Iterable[TopicPartition], timestamp: int) -> dict[str, Any]:
    rows = [
        {
            "name": topic,
            "partitions": [
                {"partition_index": number, "current_leader_epoch": -1, "timestamp": timestamp}
                for number in numbers
            ],
        }
        for topic, numbers in _by_topic(partitions).items()
    ]
    return {"replica_id": -1, "topics": rows, "timeout_ms": 60_000}


def _leaders(
    cluster: Cluster, partitions: Collection[TopicPartition]
) -> dict[int, list[TopicPartition]]:
    rows = [{"name": topic} for topic in _by_topic(partitions)]
    answer = cluster.any().ask(apis.METADATA, {"topics": rows}, 30.0)
    cluster.learn_from(answer)
    leaders = {
        (row["name"], one["partition_index"]): one["leader_id"]
        for row in answer["topics"]
        for one in row["partitions"]
    }
    found: dict[int, list[TopicPartition]] = {}
    for partition in sorted(partitions):
        if leaders.get(partition, -1) >= 0:
            found.setdefault(leaders[partition], []).append(partition)
    return found


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, number in partitions:
        found.setdefault(topic, []).append(number)
    return found


def _deep_code(answer: dict[str, Any]) -> int:
    return max(
        (int(one["error_code"]) for row in answer["topics"] for one in row["partitions"]),
        default=0,
    )
