"""Metadata responses (key 3, versions 0 to 13), by hand: with 10,000 partitions they are large.

    response => throttle_ms (3) [broker] cluster_id (2) controller_id (1) [topic]
                cluster_operations (8 to 10) error (13)
    topic    => error name topic_id (10) is_internal (1) [partition] operations (8)

The bytes of a topic depend on the topic, its leader and the version, so whoever answers keeps them,
and a response is a join of what is kept.
"""

import struct
from collections.abc import Sequence
from typing import NamedTuple

from lakelog.wire.frames import write_count, write_string

__all__ = ["MetadataBroker", "encode_metadata", "encode_metadata_topic"]

FLEXIBLE_FROM = 9
NO_OPERATIONS = -(1 << 31)
"""Nobody asked what they are allowed to do, or nothing is forbidden here."""

_I16 = struct.Struct(">h")
_I32 = struct.Struct(">i")


class MetadataBroker(NamedTuple):
    """Where a broker is to be found."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


def encode_metadata_topic(
    version: int,
    *,
    name: str | None,
    topic_id: bytes,
    error: int = 0,
    leader: int = -1,
    epochs: Sequence[int] = (),
    is_internal: bool = False,
) -> bytes:
    """Return a topic as it stands in a response; ``epochs`` has the leader epoch of each partition.

    Partitions have one replica, which is their leader: copies are the store's business.
    """
    flexible = version >= FLEXIBLE_FROM
    out = [_I16.pack(error), write_string(name if version >= 12 else name or "", flexible=flexible)]
    if version >= 10:
        out.append(topic_id)
    if version >= 1:
        out.append(b"\1" if is_internal else b"\0")
    out.append(write_count(len(epochs), flexible=flexible))
    replicas = write_count(1, flexible=flexible) + _I32.pack(leader)
    behind = replicas + replicas
    if version >= 5:
        behind += write_count(0, flexible=flexible)
    if flexible:
        behind += b"\0"
    if version >= 7:
        pack = struct.Struct(">hiii").pack
        out += [pack(0, index, leader, epoch) + behind for index, epoch in enumerate(epochs)]
    else:
        pack = struct.Struct(">hii").pack
        out += [pack(0, index, leader) + behind for index in range(len(epochs))]
    if version >= 8:
        out.append(_I32.pack(NO_OPERATIONS))
    if flexible:
        out.append(b"\0")
    return b"".join(out)


def encode_metadata(
    version: int,
    brokers: Sequence[MetadataBroker],
    topics: Sequence[bytes],
    *,
    cluster_id: str,
    controller_id: int,
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
    if 8 <= version <= 10:
        out.append(_I32.pack(NO_OPERATIONS))
    if version >= 13:
        out.append(_I16.pack(0))
    if flexible:
        out.append(b"\0")
    return b"".join(out)
