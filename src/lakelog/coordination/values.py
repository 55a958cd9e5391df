"""A group as it is stored: compact JSON.

    {"id": "g", "generation": 7, "type": "consumer", "protocol": "range", "leader": "c-1",
     "since_ms": …, "decided": true,
     "members": [["c-1", null, "c", "/10.0.0.1", 45000, 300000, "metadata", "assignment"]],
     "offsets": {"6f1c…": [[0, 4711, 3, "", 1700000000000]]}}

Metadata and assignments are bytes of clients, in base64. Offsets of a topic are rows: partition,
offset, leader epoch, metadata, time of the commit.

A group of the newer protocol says so, and has epochs and partitions:

    {"id": "g", "kind": "consumer", "epoch": 7, "target_epoch": 7, "since_ms": 0,
     "topics": {"orders": ["6f1c…", 3]},
     "members": [["c-1", null, null, "c", "/10.0.0.1", 300000, ["orders"], null, "uniform", 7, 6,
                  {"6f1c…": [0, 1]}, {"6f1c…": [0, 1]}, {}]],
     "offsets": {}}

A group of either kind may say ``"by"``: the address of the client that made it, or of an address of
IPv6 the first half. Groups that earlier versions made do not.

A member is: id, instance, rack, client, host, rebalance timeout, names, expression, assignor,
epoch, the epoch before, and three sets of partitions by topic: target, assigned, revoking.
"""

import json
from base64 import b64decode, b64encode
from typing import Any

from lakelog.formats import check_fields, decoding, flag, number
from lakelog.groups import (
    AnyDurable,
    Committed,
    ConsumerDurable,
    ConsumerMember,
    ConsumerRoster,
    Durable,
    Kind,
    Offsets,
    Roster,
    RosterMember,
    TopicIdPartition,
    TopicShape,
    by_topic,
)

__all__ = ["build_group", "decode_group", "encode_group"]

I32_MAX = (1 << 31) - 1
I64_MAX = (1 << 63) - 1

_SHARED = ("id", "kind", "since_ms", "members", "offsets", "by")
_FIELDS = {
    Kind.CLASSIC: frozenset({*_SHARED, "generation", "type", "protocol", "leader", "decided"}),
    Kind.CONSUMER: frozenset({*_SHARED, "epoch", "target_epoch", "topics"}),
}


def encode_group(durable: AnyDurable) -> bytes:
    """Return a group as text."""
    if isinstance(durable, ConsumerDurable):
        fields = _consumer_fields(durable)
    else:
        fields = _classic_fields(durable)
    if durable.made_by:
        fields["by"] = durable.made_by
    text = json.dumps(fields, separators=(",", ":"))
    return f'{text[:-1]},"offsets":{{{_offsets_text(durable.offsets)}}}}}'.encode()


def _classic_fields(durable: Durable) -> dict[str, Any]:
    roster = durable.roster
    return {
        "id": durable.id,
        "generation": roster.generation,
        "type": roster.protocol_type,
        "protocol": roster.protocol,
        "leader": roster.leader,
        "since_ms": roster.since_ms,
        "decided": roster.is_decided,
        "members": [
            (
                one.id,
                one.instance_id,
                one.client_id,
                one.client_host,
                one.session_timeout_ms,
                one.rebalance_timeout_ms,
                b64encode(one.metadata).decode(),
                b64encode(one.assignment).decode(),
            )
            for one in roster.members
        ],
    }


def _consumer_fields(durable: ConsumerDurable) -> dict[str, Any]:
    roster = durable.roster
    return {
        "id": durable.id,
        "kind": Kind.CONSUMER.value,
        "epoch": roster.epoch,
        "target_epoch": roster.target_epoch,
        "since_ms": roster.since_ms,
        "topics": {
            name: (shape.id.hex(), shape.partitions) for name, shape in roster.topics.items()
        },
        "members": [
            (
                one.id,
                one.instance_id,
                one.rack_id,
                one.client_id,
                one.client_host,
                one.rebalance_timeout_ms,
                one.names,
                one.regex,
                one.assignor,
                one.epoch,
                one.previous_epoch,
                _by_topic(one.target),
                _by_topic(one.assigned),
                _by_topic(one.revoking),
            )
            for one in roster.members.values()
        ],
    }


def _by_topic(topic_partitions: frozenset[TopicIdPartition]) -> dict[str, list[int]]:
    return {
        topic_id.hex(): partitions for topic_id, partitions in by_topic(topic_partitions).items()
    }


def _offsets_text(offsets: Offsets) -> str:
    """Return the inside of the offsets. By hand: there may be many, and they are written often."""
    topics: dict[bytes, list[str]] = {}
    for (topic_id, partition), (offset, epoch, metadata, commit_ms) in offsets.rows.items():
        said = json.dumps(metadata) if metadata else '""'
        rows = topics.setdefault(topic_id, [])
        rows.append(f"[{partition},{offset},{epoch},{said},{commit_ms}]")
    return ",".join(f'"{topic_id.hex()}":[{",".join(rows)}]' for topic_id, rows in topics.items())


def decode_group(data: bytes, where: str = "") -> AnyDurable:
    """Return the group in a text.

    Raises:
        CorruptError: it is none.
        UnsupportedError: a later version made it.
    """
    with decoding("group", where):
        return build_group(json.loads(data), where)


def build_group(fields: dict[str, Any], where: str = "") -> AnyDurable:
    """Return the group that the fields of a text describe.

    Raises:
        ValueError, TypeError, KeyError, AttributeError: they describe none.
        UnsupportedError: a later version made it.
    """
    kind = Kind(fields.get("kind", Kind.CLASSIC.value))
    check_fields(fields, _FIELDS[kind], where=where)
    return _classic(fields) if kind is Kind.CLASSIC else _consumer(fields)


def _classic(fields: dict[str, Any]) -> Durable:
    members = tuple(_member(row) for row in fields["members"])
    roster = Roster(
        generation=_within(fields["generation"], I32_MAX),
        protocol_type=_optional(fields["type"]),
        protocol=_optional(fields["protocol"]),
        leader=_optional(fields["leader"]),
        since_ms=_within(fields["since_ms"], I64_MAX),
        is_decided=flag(fields["decided"]),
        members=members,
    )
    ids = {member.id for member in members}
    if len(ids) != len(members) or (members and roster.leader not in ids):
        raise ValueError("two members have one id, or the leader is none of them")
    return Durable(
        id=_text(fields["id"]),
        roster=roster,
        offsets=_offsets(fields["offsets"]),
        made_by=_text(fields.get("by", "")),
    )


def _member(row: Any) -> RosterMember:
    id_, instance_id, client_id, client_host, session_ms, rebalance_ms, metadata, assignment = row
    return RosterMember(
        id=_text(id_),
        instance_id=_optional(instance_id),
        client_id=_text(client_id),
        client_host=_text(client_host),
        session_timeout_ms=_within(session_ms, I32_MAX),
        rebalance_timeout_ms=_within(rebalance_ms, I32_MAX),
        metadata=b64decode(_text(metadata), validate=True),
        assignment=b64decode(_text(assignment), validate=True),
    )


def _consumer(fields: dict[str, Any]) -> ConsumerDurable:
    members = [_consumer_member(row) for row in fields["members"]]
    roster = ConsumerRoster(
        epoch=_within(fields["epoch"], I32_MAX),
        target_epoch=_within(fields["target_epoch"], I32_MAX),
        since_ms=_within(fields["since_ms"], I64_MAX),
        topics={
            _text(name): TopicShape(_topic_id(topic_id), _within(partitions, I32_MAX))
            for name, (topic_id, partitions) in fields["topics"].items()
        },
        members={one.id: one for one in members},
    )
    had = [topic_partition for one in members for topic_partition in (*one.assigned, *one.revoking)]
    if len(roster.members) != len(members) or len(set(had)) != len(had):
        raise ValueError("two members have one id, or one partition")
    return ConsumerDurable(
        id=_text(fields["id"]),
        roster=roster,
        offsets=_offsets(fields["offsets"]),
        made_by=_text(fields.get("by", "")),
    )


def _consumer_member(row: Any) -> ConsumerMember:
    (
        id_, instance_id, rack_id, client_id, client_host, rebalance_ms, names, regex, assignor,
        epoch, previous, target, assigned, revoking,
    ) = row  # fmt: skip
    return ConsumerMember(
        id=_text(id_),
        instance_id=_optional(instance_id),
        rack_id=_optional(rack_id),
        client_id=_text(client_id),
        client_host=_text(client_host),
        rebalance_timeout_ms=_within(rebalance_ms, I32_MAX),
        names=tuple(map(_text, names)),
        regex=_optional(regex),
        assignor=_optional(assignor),
        epoch=_within(epoch, I32_MAX, -2),
        previous_epoch=_within(previous, I32_MAX),
        target=_partitions(target),
        assigned=_partitions(assigned),
        revoking=_partitions(revoking),
    )


def _partitions(topics: dict[str, Any]) -> frozenset[TopicIdPartition]:
    return frozenset(
        TopicIdPartition(_topic_id(name), _within(partition, I32_MAX))
        for name, partitions in topics.items()
        for partition in partitions
    )


def _topic_id(value: object) -> bytes:
    topic_id = bytes.fromhex(_text(value))
    if len(topic_id) != 16:
        raise ValueError(f"{value!r} is no id of a topic")
    return topic_id


def _offsets(topics: dict[str, Any]) -> Offsets:
    found: dict[TopicIdPartition, Committed] = {}
    count = 0
    for name, rows in topics.items():
        topic_id = _topic_id(name)
        for partition, offset, epoch, metadata, commit_ms in rows:
            found[TopicIdPartition(topic_id, _within(partition, I32_MAX))] = Committed(
                _within(offset, I64_MAX, -I64_MAX - 1),
                _within(epoch, I32_MAX, -I32_MAX - 1),
                _text(metadata),
                _within(commit_ms, I64_MAX),
            )
            count += 1
    if len(found) != count:
        raise ValueError("two offsets of one partition")
    return Offsets.of(found)


def _text(value: object) -> str:
    if type(value) is not str:
        raise TypeError(f"{value!r} is no text")
    return value


def _optional(value: object) -> str | None:
    return None if value is None else _text(value)


def _within(value: object, most: int, least: int = 0) -> int:
    found = number(value)
    if not least <= found <= most:
        raise ValueError(f"{found} is not within {least} and {most}")
    return found
