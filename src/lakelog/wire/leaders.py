"""Leaders in responses: who leads a partition now, and where the brokers are that are named so.

Whoever asks a broker that does not lead a partition is told in tagged fields who does (KIP-951), so
that it needs no Metadata request to find out:

    partition   CurrentLeader: leader_id, leader_epoch     Produce 10, tag 0; Fetch 12, tag 1
    response    NodeEndpoints: [node_id host port rack]    Produce 10, Fetch 16, tag 0
"""

import struct
from collections.abc import Sequence
from typing import NamedTuple

from lakelog.wire.frames import write_string, write_uvarint

__all__ = ["CurrentLeader", "MetadataBroker", "endpoint_tags", "leader_tags"]

_LEADER = struct.Struct(">iib")
_I32 = struct.Struct(">i")


class MetadataBroker(NamedTuple):
    """Where a broker is to be found."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


class CurrentLeader(NamedTuple):
    """The leader of a partition."""

    node_id: int
    epoch: int


def leader_tags(leader: CurrentLeader | None, tag: int) -> bytes:
    """Return the tagged fields of a partition: its leader, or none."""
    if leader is None:
        return b"\0"
    return bytes((1, tag, _LEADER.size)) + _LEADER.pack(*leader, 0)


def endpoint_tags(brokers: Sequence[MetadataBroker]) -> bytes:
    """Return the tagged fields of a response: where brokers are, or none."""
    if not brokers:
        return b"\0"
    out = [write_uvarint(len(brokers) + 1)]
    for node_id, host, port, rack in brokers:
        out += [_I32.pack(node_id), write_string(host, flexible=True), _I32.pack(port)]
        out += [write_string(rack, flexible=True), b"\0"]
    body = b"".join(out)
    return b"\x01\0" + write_uvarint(len(body)) + body
