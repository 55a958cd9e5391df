"""What a request changed, as rows of the audit log: taken from the request and its answer.

    CreateTopics, DeleteTopics, CreatePartitions     TOPIC:orders
    AlterConfigs, IncrementalAlterConfigs            TOPIC:orders      which configs, to what
    DeleteRecords                                    TOPIC:orders      which partition, up to where
    DeleteGroups, OffsetDelete                       GROUP:etl
    CreateAcls, DeleteAcls                           TOPIC:orders      who may, or may not, do what
    AlterUserScramCredentials                        USER:alice        which mechanisms; no key
    AlterClientQuotas                                USER:alice, ...   which quotas, to what

What was denied is left out: it has been told when it was.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from kio.schema.errors import ErrorCode

from lakelog.security import Operation, PatternType, Permission, ResourceType, ScramMechanism
from lakelog.wire import ApiKey, Fields

__all__ = ["Change", "changes_of"]

_DENIED = frozenset(
    {
        ErrorCode.topic_authorization_failed,
        ErrorCode.group_authorization_failed,
        ErrorCode.cluster_authorization_failed,
    }
)
_TOPIC = 2
"""Of configs: what else has some is the cluster's."""
_ALTERATIONS = ("=", " removed", " appended ", " subtracted ")
"""How a config was changed, by the number of the operation."""


class Change(NamedTuple):
    """One thing that was changed, or was to be."""

    operation: str
    resource: str
    result: str
    detail: str = ""


def changes_of(key: int, request: Any, answer: Any) -> Iterator[Change]:
    """Yield what a request changed; nothing if it is of those that change nothing for others."""
    rows = _ROWS.get(key)
    if rows is None or getattr(request, "validate_only", False):
        return
    for operation, resource, code, detail in rows(request, answer):
        if code not in _DENIED:
            yield Change(operation.name, resource, code.name.upper(), detail)


_Row = tuple[Operation, str, ErrorCode, str]


def _code(row: Fields) -> ErrorCode:
    return ErrorCode(row.get("error_code", ErrorCode.none))


def _create_topics(_: Any, answer: Any) -> Iterator[_Row]:
    for row in answer["topics"]:
        yield Operation.CREATE, f"TOPIC:{row['name']}", _code(row), _partitions(row)


def _partitions(row: Fields) -> str:
    count = row.get("num_partitions", -1)
    return f"{count} partitions" if count >= 0 else ""


def _delete_topics(_: Any, answer: Any) -> Iterator[_Row]:
    for row in answer["responses"]:
        yield Operation.DELETE, f"TOPIC:{row['name'] or row['topic_id']}", _code(row), ""


def _create_partitions(request: Any, answer: Any) -> Iterator[_Row]:
    wanted = {str(one.name): one.count for one in request.topics}
    for row in answer["results"]:
        detail = f"{wanted[row['name']]} partitions"
        yield Operation.ALTER, f"TOPIC:{row['name']}", _code(row), detail


def _alter_configs(request: Any, answer: Any) -> Iterator[_Row]:
    wanted = {(one.resource_type, one.resource_name): one.configs for one in request.resources}
    for row in answer["responses"]:
        type_, name = row["resource_type"], row["resource_name"]
        kind = "TOPIC" if type_ == _TOPIC else "CLUSTER"
        detail = ", ".join(map(_config, wanted[type_, name]))
        yield Operation.ALTER_CONFIGS, f"{kind}:{name}", _code(row), detail


def _config(one: Any) -> str:
    operation = getattr(one, "config_operation", 0)
    value = "" if operation == 1 else one.value
    known = 0 <= operation < len(_ALTERATIONS)
    return f"{one.name}{_ALTERATIONS[operation] if known else '?'}{value}"


def _delete_records(request: Any, answer: Any) -> Iterator[_Row]:
    wanted = {
        (str(topic.name), one.partition_index): one.offset
        for topic in request.topics
        for one in topic.partitions
    }
    for topic in answer["topics"]:
        for row in topic["partitions"]:
            index = row["partition_index"]
            detail = f"partition {index} before offset {wanted[str(topic['name']), index]}"
            yield Operation.DELETE, f"TOPIC:{topic['name']}", _code(row), detail


def _delete_groups(_: Any, answer: Any) -> Iterator[_Row]:
    for row in answer["results"]:
        yield Operation.DELETE, f"GROUP:{row['group_id']}", _code(row), ""


def _offset_delete(request: Any, answer: Any) -> Iterator[_Row]:
    resource = f"GROUP:{request.group_id}"
    if not answer["topics"]:
        yield Operation.DELETE, resource, _code(answer), "offsets"
    for topic in answer["topics"]:
        for row in topic["partitions"]:
            detail = f"the offset of {topic['name']}-{row['partition_index']}"
            yield Operation.DELETE, resource, _code(row), detail


def _create_acls(request: Any, answer: Any) -> Iterator[_Row]:
    for one, row in zip(request.creations, answer["results"], strict=True):
        pattern = one.resource_pattern_type
        resource = _resource(one.resource_type, one.resource_name, pattern)
        yield Operation.ALTER, resource, _code(row), f"added: {_acl(_rule(one))}"


def _delete_acls(_: Any, answer: Any) -> Iterator[_Row]:
    for result in answer["filter_results"]:
        code = _code(result)
        if code is not ErrorCode.none:
            yield Operation.ALTER, "CLUSTER:kafka-cluster", code, "ACLs to be removed"
        for row in result["matching_acls"]:
            resource = _resource(row["resource_type"], row["resource_name"], row["pattern_type"])
            yield Operation.ALTER, resource, _code(row), f"removed: {_acl(row)}"


def _rule(one: Any) -> Fields:
    """Return what an ACL that is to be made says of who may do what."""
    names = ("principal", "host", "operation", "permission_type")
    return {name: getattr(one, name) for name in names}


def _resource(type_: int, name: str, pattern: int) -> str:
    end = "*" if pattern == PatternType.PREFIXED else ""
    return f"{ResourceType(type_).name}:{name}{end}"


def _acl(row: Fields) -> str:
    permission, operation = Permission(row["permission_type"]), Operation(row["operation"])
    return f"{row['principal']} from {row['host']}: {permission.name} {operation.name}"


def _alter_users(request: Any, answer: Any) -> Iterator[_Row]:
    done: dict[str, list[str]] = {}
    for said, some in (("removed", request.deletions), ("set", request.upsertions)):
        for one in some:
            mechanism = ScramMechanism.of(int(one.mechanism))
            name = "?" if mechanism is None else mechanism.value
            done.setdefault(str(one.name), []).append(f"{name} {said}")
    for row in answer["results"]:
        detail = ", ".join(done[row["user"]])
        yield Operation.ALTER, f"USER:{row['user']}", _code(row), detail


def _alter_quotas(request: Any, answer: Any) -> Iterator[_Row]:
    wanted = {
        frozenset((str(part.entity_type), part.entity_name) for part in one.entity): one.ops
        for one in request.entries
    }
    for row in answer["entries"]:
        parts = [(part["entity_type"], part["entity_name"]) for part in row["entity"]]
        named = ((str(kind).upper(), "<default>" if name is None else name) for kind, name in parts)
        detail = ", ".join(
            f"{op.key} removed" if op.remove else f"{op.key}={op.value:g}"
            for op in wanted.get(frozenset(parts), ())
        )
        resource = ", ".join(f"{kind}:{name}" for kind, name in named)
        yield Operation.ALTER_CONFIGS, resource, _code(row), detail


_ROWS: Mapping[int, Callable[[Any, Any], Iterator[_Row]]] = {
    ApiKey.CREATE_TOPICS: _create_topics,
    ApiKey.DELETE_TOPICS: _delete_topics,
    ApiKey.CREATE_PARTITIONS: _create_partitions,
    ApiKey.ALTER_CONFIGS: _alter_configs,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _alter_configs,
    ApiKey.DELETE_RECORDS: _delete_records,
    ApiKey.DELETE_GROUPS: _delete_groups,
    ApiKey.OFFSET_DELETE: _offset_delete,
    ApiKey.CREATE_ACLS: _create_acls,
    ApiKey.DELETE_ACLS: _delete_acls,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _alter_users,
    ApiKey.ALTER_CLIENT_QUOTAS: _alter_quotas,
}
