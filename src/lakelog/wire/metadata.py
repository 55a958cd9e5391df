"""Metadata responses (key 3, versions 0 to 13), by hand: with 10,000 partitions they are large.

    response => throttle_ms (3) [broker] cluster_id (2) controller_id (1) [topic]
                cluster_operations (8 to 10) error (13)
    topic    => error name topic_id (10) is_internal (1) [partition] operations (8)

The bytes of a topic depend on the topic, its leaders and the version, so whoever answers keeps
them, and a response is a join of what is kept.
"""

import struct
from collections.abc import Sequence
from typing import NamedTuple

from lakelog.wire.frames import write_count, write_string
from lakelog.wire.leaders import MetadataBroker

__all__ = ["MetadataPartition", "encode_metadata", "encode_metadata_topic", "with_operations"]

FLEXIBLE_FROM = 9
OPERATIONS_FROM = 8
NO_OPERATIONS = -(1 << 31)
"""Nobody asked what they are allowed to do, or nothing is forbidden here."""

_I16 = struct.Struct(">h")
_I32 = struct.Struct(">i")
_INDEX = struct.Struct(">hi")
_LEADERLESS = 5
"""LEADER_NOT_AVAILABLE"""


class MetadataPartition(NamedTuple):
    """Who leads a partition, and who else may be read from."""

    leader: int = -1
    """-1: nobody does now."""
    epoch: int = -1
    replicas: tuple[int, ...] = ()


def encode_metadata_topic(
    version: int,
    *,
    name: str | None,
    topic_id: bytes,
    error: int = 0,
    partitions: Sequence[MetadataPartition] = (),
    is_internal: bool = False,
) -> bytes:
    """Return a topic as it stands in a response.

    The replicas of a partition are the brokers that serve it: copies are the store's business.
    """
    flexible = version >= FLEXIBLE_FROM
    out = [_I16.pack(error), write_string(name if version >= 12 else name or "", flexible=flexible)]
    if version >= 10:
        out.append(topic_id)
    if version >= 1:
        out.append(b"\1" if is_internal else b"\0")
    out.append(write_count(len(partitions), flexible=flexible))
    parts: dict[MetadataPartition, tuple[int, bytes]] = {}
    for index, one in enumerate(partitions):
        made = parts.get(one)
        if made is None:  # Partitions of a lane have them in common.
            made = parts[one] = _LEADERLESS * (one.leader < 0), _behind_index(version, one)
        out.append(_INDEX.pack(made[0], index) + made[1])
    if version >= OPERATIONS_FROM:
        out.append(_I32.pack(NO_OPERATIONS))
    if flexible:
        out.append(b"\0")
    return b"".join(out)


def with_operations(version: int, topic: bytes, operations: int) -> bytes:
    """Return a topic that also says what the client may do with it."""
    if version < OPERATIONS_FROM:
        return topic
    end = len(topic) - (version >= FLEXIBLE_FROM)
    return topic[: end - _I32.size] + _I32.pack(operations) + topic[end:]


def _behind_index(version: int, one: MetadataPartition) -> bytes:
    flexible = version >= FLEXIBLE_FROM
    epoch = _I32.pack(one.epoch) if version >= 7 else b""
    nodes = write_count(len(one.replicas), flexible=flexible)
    nodes += b"".join(map(_I32.pack, one.replicas))
    offline = write_count(0, flexible=flexible) if version >= 5 else b""
    return _I32.pack(one.leader) + epoch + nodes + nodes + offline + b"\0" * flexible


def encode_metadata(
    version: int,
    brokers: Sequence[MetadataBroker],
    topics: Sequence[bytes],
    *,
    cluster_id: str,
    controller_id: int,
    operations: int | None = None,
) -> bytes:
    """Return the body of a response."""
    flexible = version >= FLEXIBLE_FROM
    out: list[bytes] = []
    if version >= 3:
        out.append(_I32.pack(0))
    out.append(write_count(len(brokers), flexible=flexible))
    for broker in brokers:
        out.append(_I32.pack(broker.node_id))
        out.append(write_string(broker.host, flexible=flexible))
        out.append(_I32.pack(broker.port))
        if version >= 1:
            out.append(write_string(broker.rack, flexible=flexible))
        if flexible:
            out.append(b"\0")
    if version >= 2:
        out.append(write_string(cluster_id, flexible=flexible))
    if version >= 1:
        out.append(_I32.pack(controller_id))
    out.append(write_count(len(topics), flexible=flexible))
    out += topics
    if OPERATIONS_FROM <= version <= 10:
        out.append(_I32.pack(NO_OPERATIONS if operations is None else operations))
    if version >= 13:
        out.append(_I16.pack(0))
    if flexible:
        out.append(b"\0")
    return b"".join(out)
