"""Requests, each about something that is there or is not, and what of an answer is compared.

A probe changes nothing that another one looks at: what would be made is only checked, and what is
deleted is there to be deleted.
"""

# ruff: noqa: ARG005 (a probe takes what it needs of what it is given)

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, NamedTuple
from uuid import UUID

from lakelog.security import CLUSTER_NAME, Operation, PatternType, Permission, ResourceType
from tests.e2e.acls.columns import Names
from tests.unit.broker.site import batch

__all__ = ["LISTED", "PROBES", "Probe", "consumer_join", "outcome"]

MEMBER = "AAAAAAAAAAAAAAAAAAAAAQ"
NO_ID = UUID(int=0)
BATCH = batch(b"value")
LISTED = ("name", "topic", "topic_name", "group_id", "transactional_id")


class Probe(NamedTuple):
    """One request."""

    api: str
    about: str
    key: int
    version: int
    given: Callable[[Names, dict[str, UUID]], dict[str, Any]]
    """Its fields, by the names of a column and the ids of its topics."""
    lists: bool = False
    """Whether what is named in the answer counts as well."""
    difference: str = ""
    """Why the answer to who is allowed is another one here."""
    same: tuple[str, ...] = ()
    """Codes that mean that it was done, sooner or later."""

    def __str__(self) -> str:
        return f"{self.api} {self.about}".strip()


def outcome(probe: Probe, answer: Any, names: Names) -> str:
    """Return what is compared of an answer: its codes, what the client may do, and names if they
    count. Of what is listed for all, that of the column.
    """
    start, told = names.topic.removesuffix("topic"), dict[str, None]()
    for name, value in _said(answer, probe.lists):
        if value in probe.same:
            told["DONE"] = None
        elif not name:
            told[value] = None
        elif name != "of":
            told[f"{name}={value}"] = None
        elif value.startswith(start):
            told[f"{name}={value.removeprefix(start)}"] = None
    return " ".join(sorted(told))


def _said(value: Any, lists: bool) -> Iterator[tuple[str, str]]:
    if isinstance(value, list | tuple):
        for one in value:
            yield from _said(one, lists)
    elif is_dataclass(value):
        for one in fields(value):
            if one.name.startswith("__"):
                continue
            inner = getattr(value, one.name)
            if one.name.endswith("error_code") and isinstance(inner, Enum):
                yield "", inner.name.upper()
            elif one.name.endswith("authorized_operations"):
                yield "may", _operations(int(inner))
            elif lists and one.name in LISTED and isinstance(inner, str):
                yield "of", inner
            else:
                yield from _said(inner, lists)


def _operations(bits: int) -> str:
    if bits == -(1 << 31):
        return "-"
    return ",".join(one.name for one in Operation if bits & 1 << one)


# ---------------------------------------------------------------------------- requests


def _partition(**more: Any) -> list[dict[str, Any]]:
    return [{"partition_index": 0, **more}]


def _produce(name: str, names: Names, ids: dict[str, UUID], *, by_id: bool) -> dict[str, Any]:
    where = {"topic_id": ids.get(name, NO_ID)} if by_id else {"name": name}
    return {
        "transactional_id": None,
        "acks": -1,
        "timeout": 5_000,
        "topic_data": [{**where, "partition_data": [{"index": 0, "records": BATCH}]}],
    }


def _fetch(name: str, names: Names, ids: dict[str, UUID], *, by_id: bool) -> dict[str, Any]:
    where = {"topic_id": ids.get(name, NO_ID)} if by_id else {"topic": name}
    who = {} if by_id else {"replica_id": -1}
    return {
        **who,
        "max_wait": 0,
        "min_bytes": 0,
        "max_bytes": 1 << 20,
        "isolation_level": 0,
        "session_id": 0,
        "session_epoch": -1,
        "topics": [
            {
                **where,
                "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}],
            }
        ],
        "forgotten_topics_data": [],
        "rack_id": "",
    }


def _metadata(topics: Any, *, create: bool = False, operations: bool = False) -> dict[str, Any]:
    return {
        "topics": topics,
        "allow_auto_topic_creation": create,
        "include_topic_authorized_operations": operations,
    }


def _commit(group: str, topic: str) -> dict[str, Any]:
    part = {"committed_offset": 0, "committed_leader_epoch": -1, "committed_metadata": ""}
    return {
        "group_id": group,
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "group_instance_id": None,
        "topics": [{"name": topic, "partitions": _partition(**part)}],
    }


def _offsets(group: str, topics: Any) -> dict[str, Any]:
    one = {"group_id": group, "member_id": None, "member_epoch": -1, "topics": topics}
    return {"groups": [one], "require_stable": False}


def _named(topic: str) -> list[dict[str, Any]]:
    return [{"name": topic, "partition_indexes": [0]}]


def _join(group: str) -> dict[str, Any]:
    return {
        "group_id": group,
        "session_timeout": 10_000,
        "rebalance_timeout": 10_000,
        "member_id": "",
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b""}],
        "reason": None,
    }


def consumer_join(
    group: str, member: str, *, names: Any = None, regex: Any = None
) -> dict[str, Any]:
    """Return the fields by which a member of the newer protocol joins."""
    return {
        "group_id": group,
        "member_id": member,
        "member_epoch": 0,
        "instance_id": None,
        "rack_id": None,
        "rebalance_timeout": 30_000,
        "subscribed_topic_names": names,
        "subscribed_topic_regex": regex,
        "server_assignor": None,
        "topic_partitions": [],
    }


def _create_topics(name: str) -> dict[str, Any]:
    topic = {
        "name": name,
        "num_partitions": 1,
        "replication_factor": 1,
        "assignments": [],
        "configs": [],
    }
    return {"topics": [topic], "timeout": 10_000, "validate_only": True}


def _grow(name: str) -> dict[str, Any]:
    topic = {"name": name, "count": 2, "assignments": None}
    return {"topics": [topic], "timeout": 10_000, "validate_only": True}


def _configs(kind: int, name: str) -> dict[str, Any]:
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": ["x"]}
    return {"resources": [resource], "include_synonyms": False, "include_documentation": False}


def _alter(kind: int, name: str, *, more: dict[str, Any] | None = None) -> dict[str, Any]:
    config = {"name": "retention.ms", "value": "600000", **(more or {})}
    resource = {"resource_type": kind, "resource_name": name, "configs": [config]}
    return {"resources": [resource], "validate_only": True}


def _acl_filter() -> dict[str, Any]:
    return {
        "resource_type_filter": ResourceType.DELEGATION_TOKEN,
        "resource_name_filter": "nothing",
        "pattern_type_filter": PatternType.LITERAL,
        "principal_filter": None,
        "host_filter": None,
        "operation": Operation.ANY,
        "permission_type": Permission.ANY,
    }


def _acl(name: str, kind: ResourceType) -> dict[str, Any]:
    row = {
        "resource_type": kind,
        "resource_name": name,
        "resource_pattern_type": PatternType.LITERAL,
        "principal": "User:nobody",
        "host": "10.9.8.7",
        "operation": Operation.DESCRIBE,
        "permission_type": Permission.ALLOW,
    }
    return {"creations": [row]}


def _quota() -> dict[str, Any]:
    entity = [{"entity_type": "user", "entity_name": "nobody"}]
    ops = [{"key": "producer_byte_rate", "value": 1e6, "remove": False}]
    return {"entries": [{"entity": entity, "ops": ops}], "validate_only": True}


_TRANSACTIONS = "there are no transactions here"
_THERE, _GONE = "of a topic that is there", "of a topic that is not"


def _both(
    api: str,
    key: int,
    version: int,
    given: Callable[[str, Names, dict[str, UUID]], dict[str, Any]],
    about: str = "",
) -> list[Probe]:
    """Return a probe for a topic that is there, and one for a topic that is not."""
    extra = f"{about} " if about else ""
    return [
        Probe(api, extra + _THERE, key, version, lambda n, i: given(n.topic, n, i)),
        Probe(api, extra + _GONE, key, version, lambda n, i: given(n.missing, n, i)),
    ]


def _groups(
    api: str,
    key: int,
    version: int,
    given: Callable[[str], dict[str, Any]],
) -> list[Probe]:
    return [
        Probe(api, "of a group that is there", key, version, lambda n, _: given(n.group)),
        Probe(api, "of a group that is not", key, version, lambda n, _: given(n.missing_group)),
    ]


_UNPLACED = {"partition_index": 0, "timestamp": -1, "current_leader_epoch": -1}

PROBES: list[Probe] = [
    *_both("Produce", 0, 12, lambda t, n, i: _produce(t, n, i, by_id=False)),
    *_both("Produce", 0, 13, lambda t, n, i: _produce(t, n, i, by_id=True), "by the id"),
    *_both("Fetch", 1, 12, lambda t, n, i: _fetch(t, n, i, by_id=False)),
    *_both("Fetch", 1, 17, lambda t, n, i: _fetch(t, n, i, by_id=True), "by the id"),
    *_both(
        "ListOffsets", 2, 10,
        lambda t, n, i: {
            "replica_id": -1, "isolation_level": 0, "timeout": 5_000,
            "topics": [{"name": t, "partitions": [_UNPLACED]}],
        },
    ),
    *_both("Metadata", 3, 12, lambda t, n, i: _metadata([{"topic_id": NO_ID, "name": t}])),
    *_both(
        "Metadata", 3, 12,
        lambda t, n, i: _metadata([{"topic_id": i.get(t, UUID(int=9)), "name": None}]), "by the id",
    ),
    Probe(
        "Metadata", "of all topics, with operations", 3, 12,
        lambda n, _: _metadata(None, operations=True), lists=True,
    ),
    *_both(
        "DescribeTopicPartitions", 75, 0,
        lambda t, n, i: {"topics": [{"name": t}], "response_partition_limit": 10, "cursor": None},
    ),
    *_both("OffsetCommit", 8, 9, lambda t, n, i: _commit(n.group, t)),
    *_both("OffsetFetch", 9, 9, lambda t, n, i: _offsets(n.group, _named(t))),
    Probe(
        "OffsetFetch", "of all topics of a group", 9, 9, lambda n, _: _offsets(n.group, None),
        lists=True,
    ),
    Probe(
        "OffsetFetch", "of a group that is not", 9, 9,
        lambda n, _: _offsets(n.missing_group, None), lists=True,
    ),
    *_groups("FindCoordinator", 10, 4, lambda g: {"key_type": 0, "coordinator_keys": [g]}),
    *_groups("JoinGroup", 11, 9, _join),
    *_groups(
        "SyncGroup", 14, 5,
        lambda g: {
            "group_id": g, "generation_id": 1, "member_id": "m", "group_instance_id": None,
            "protocol_type": "consumer", "protocol_name": "range", "assignments": [],
        },
    ),
    *_groups(
        "Heartbeat", 12, 4,
        lambda g: {
            "group_id": g, "generation_id": 1, "member_id": "m", "group_instance_id": None,
        },
    ),
    *_groups(
        "LeaveGroup", 13, 5,
        lambda g: {
            "group_id": g,
            "members": [{"member_id": "m", "group_instance_id": None, "reason": None}],
        },
    ),
    *_groups(
        "DescribeGroups", 15, 6,
        lambda g: {"groups": [g], "include_authorized_operations": True},
    ),
    Probe(
        "ListGroups", "", 16, 5, lambda n, _: {"states_filter": [], "types_filter": []},
        lists=True,
    ),
    *_both(
        "ConsumerGroupHeartbeat", 68, 1,
        lambda t, n, i: consumer_join(n.missing_group, MEMBER, names=[t]),
    ),
    Probe(
        "ConsumerGroupHeartbeat", "by an expression", 68, 1,
        lambda n, _: consumer_join(n.missing_group, MEMBER, regex="c.*"),
    ),
    Probe(
        "ConsumerGroupDescribe", "of a group with a topic", 69, 1,
        lambda n, _: {"group_ids": [n.members], "include_authorized_operations": True},
    ),
    Probe(
        "ConsumerGroupDescribe", "of a group that is not", 69, 1,
        lambda n, _: {"group_ids": [n.absent_group], "include_authorized_operations": True},
    ),
    *_both("CreateTopics", 19, 7, lambda t, n, i: _create_topics(t)),
    *_both("CreatePartitions", 37, 3, lambda t, n, i: _grow(t)),
    *_both(
        "DeleteRecords", 21, 2,
        lambda t, n, i: {
            "topics": [{"name": t, "partitions": _partition(offset=0)}], "timeout": 10_000,
        },
    ),
    Probe(
        "InitProducerId", "", 22, 4,
        lambda n, _: {
            "transactional_id": None, "transaction_timeout": 1_000, "producer_id": -1,
            "producer_epoch": -1,
        },
    ),
    Probe(
        "InitProducerId", "of a transaction", 22, 4,
        lambda n, _: {
            "transactional_id": n.transaction, "transaction_timeout": 1_000, "producer_id": -1,
            "producer_epoch": -1,
        },
        difference=_TRANSACTIONS,
    ),
    Probe(
        "FindCoordinator", "of a transaction", 10, 4,
        lambda n, _: {"key_type": 1, "coordinator_keys": [n.transaction]},
        difference=_TRANSACTIONS,
    ),
    *_both(
        "OffsetForLeaderEpoch", 23, 4,
        lambda t, n, i: {
            "replica_id": -1,
            "topics": [
                {
                    "topic": t,
                    "partitions": [
                        {"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}
                    ],
                }
            ],
        },
    ),
    Probe("DescribeAcls", "", 29, 3, lambda n, _: _acl_filter()),
    Probe("CreateAcls", "", 30, 3, lambda n, _: _acl("nothing", ResourceType.DELEGATION_TOKEN)),
    Probe(
        "CreateAcls", "that cannot be", 30, 3,
        lambda n, _: _acl(f"no {CLUSTER_NAME}", ResourceType.CLUSTER),
    ),
    Probe("DeleteAcls", "", 31, 3, lambda n, _: {"filters": [_acl_filter()]}),
    *_both("DescribeConfigs", 32, 4, lambda t, n, i: _configs(2, t)),
    Probe("DescribeConfigs", "of the broker", 32, 4, lambda n, _: _configs(4, "1")),
    *_both("AlterConfigs", 33, 2, lambda t, n, i: _alter(2, t)),
    *_both(
        "IncrementalAlterConfigs", 44, 1,
        lambda t, n, i: _alter(2, t, more={"config_operation": 0}),
    ),
    Probe("DescribeLogDirs", "", 35, 4, lambda n, _: {"topics": []}),
    Probe(
        "DescribeCluster", "with operations", 60, 1,
        lambda n, _: {"include_cluster_authorized_operations": True, "endpoint_type": 1},
    ),
    *_both(
        "DescribeProducers", 61, 0,
        lambda t, n, i: {"topics": [{"name": t, "partition_indexes": [0]}]},
    ),
    Probe(
        "DescribeClientQuotas", "", 48, 1,
        lambda n, _: {"components": [], "strict": False},
    ),
    Probe("AlterClientQuotas", "", 49, 1, lambda n, _: _quota()),
    Probe(
        "DescribeUserScramCredentials", "of a user that is not", 50, 0,
        lambda n, _: {"users": [{"name": "nobody"}]},
    ),
    Probe(
        "AlterUserScramCredentials", "that cannot be", 51, 0,
        lambda n, _: {"deletions": [{"name": "nobody", "mechanism": 2}], "upsertions": []},
    ),
    Probe("SaslHandshake", "without SASL", 17, 1, lambda n, _: {"mechanism": "PLAIN"}),
    Probe("SaslAuthenticate", "without SASL", 36, 2, lambda n, _: {"auth_bytes": b"x"}),
    Probe(
        "ApiVersions", "", 18, 3,
        lambda n, _: {"client_software_name": "tests", "client_software_version": "1"},
    ),
    *reversed(
        _both(
            "OffsetDelete", 47, 0,
            lambda t, n, i: {
                "group_id": n.group, "topics": [{"name": t, "partitions": _partition()}],
            },
        )
    ),
    Probe(
        "OffsetDelete", "of a group that is not", 47, 0,
        lambda n, _: {
            "group_id": n.absent_group, "topics": [{"name": n.topic, "partitions": _partition()}],
        },
    ),
    Probe(
        "DeleteGroups", "of a group that is there", 42, 2,
        lambda n, _: {"groups_names": [n.doomed_group]},
    ),
    Probe(
        "DeleteGroups", "of a group that is not", 42, 2,
        lambda n, _: {"groups_names": [n.absent_group]},
    ),
    Probe(
        "Metadata", "that creates a topic", 3, 12,
        lambda n, _: _metadata([{"topic_id": NO_ID, "name": n.made}], create=True),
        same=("NONE", "UNKNOWN_TOPIC_OR_PARTITION", "LEADER_NOT_AVAILABLE"),
    ),
    Probe(
        "DeleteTopics", _GONE, 20, 6,
        lambda n, _: {"topics": [{"name": n.missing, "topic_id": NO_ID}], "timeout": 10_000},
    ),
    Probe(
        "DeleteTopics", "by an id that is not", 20, 6,
        lambda n, _: {"topics": [{"name": None, "topic_id": UUID(int=9)}], "timeout": 10_000},
    ),
    Probe(
        "DeleteTopics", _THERE, 20, 6,
        lambda n, _: {"topics": [{"name": n.doomed, "topic_id": NO_ID}], "timeout": 10_000},
    ),
]  # fmt: skip
