"""Fetch (key 1, versions 4 to 18), by hand: what is answered is a list of pieces, not one copy.

    request   => replica_id (to 14) max_wait_ms min_bytes max_bytes isolation (session, epoch: 7)
                 [topic [partition leader_epoch (9) offset last_epoch (12) log_start (5) max_bytes]]
                 [forgotten topic [partition]] (7) rack (11)
    response  => throttle_ms (error session: 7) [topic [partition error high_watermark stable
                 log_start (5) [aborted] preferred_replica (11) records current_leader (12)]]
                 node_endpoints (16)

Versions: 12 is flexible, 13 names topics by id, 15 moves the replica id into a tag. A fetch of a
replica is not ours to answer; whoever sends one is refused.
"""

import struct
from collections.abc import Sequence
from operator import itemgetter
from typing import NamedTuple

from lakelog.errors import CorruptError
from lakelog.wire.apis import APIS, ApiKey
from lakelog.wire.frames import (
    Elements,
    read_string,
    read_topic,
    read_uvarint,
    skip_tags,
    write_count,
    write_string,
    write_uvarint,
)
from lakelog.wire.leaders import CurrentLeader, MetadataBroker, endpoint_tags, leader_tags

__all__ = [
    "FetchPartition",
    "FetchRequest",
    "FetchTopic",
    "FetchedPartition",
    "FetchedTopic",
    "decode_fetch",
    "encode_fetch_response",
]

FLEXIBLE_FROM = 12
IDS_FROM = 13
REPLICA_STATE_FROM = 15
ENDPOINTS_FROM = 16
_REPLICA_STATE = 1
_ELEMENTS_MAX = APIS[ApiKey.FETCH].elements_max

_I32 = struct.Struct(">i")
_NONE = _I32.pack(-1)
_LIMITS = struct.Struct(">iiib")
_SESSION = struct.Struct(">ii")
_REPLICA = struct.Struct(">iq")

_PARTITIONS = (
    (12, struct.Struct(">iiqiqi"), itemgetter(0, 2, 5, 1, 3)),
    (9, struct.Struct(">iiqqi"), itemgetter(0, 2, 4, 1)),
    (5, struct.Struct(">iqqi"), itemgetter(0, 1, 3)),
    (4, struct.Struct(">iqi"), itemgetter(0, 1, 2)),
)
"""From which version on: the fixed fields of a partition, in the order in which they stand, and
which of them are wanted, in the order of FetchPartition."""

_FETCHED_4 = struct.Struct(">ihqq")
_FETCHED_5 = struct.Struct(">ihqqq")


class FetchPartition(NamedTuple):
    """From where a partition is wanted, and how much of it."""

    partition: int
    offset: int
    max_bytes: int
    leader_epoch: int = -1
    last_epoch: int = -1


class FetchTopic(NamedTuple):
    """A topic has a name or, from version 13 on, an id."""

    name: str
    id: bytes
    partitions: list[FetchPartition]


class FetchRequest(NamedTuple):
    """What a consumer wants."""

    replica_id: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation: int
    session_id: int
    session_epoch: int
    topics: list[FetchTopic]
    forgotten: list[tuple[str, bytes, list[int]]]
    rack: str


class FetchedPartition(NamedTuple):
    """What there is of a partition; records are pieces that stand one behind the other."""

    partition: int
    error: int
    high_watermark: int = -1
    log_start: int = -1
    pieces: Sequence[bytes | bytearray | memoryview] = ()
    size: int = 0
    leader: CurrentLeader | None = None
    """Who leads the partition, if this broker does not."""
    preferred_replica: int = -1
    """The broker that the consumer should read from instead, in its own rack."""


class FetchedTopic(NamedTuple):
    """The partitions of one topic."""

    name: str
    id: bytes
    partitions: list[FetchedPartition]


def decode_fetch(frame: memoryview, at: int, version: int) -> FetchRequest:
    """Return the request whose body begins at ``at``.

    Raises:
        CorruptError: this is no such request.
    """
    flexible = version >= FLEXIBLE_FROM
    replica_id, session_id, session_epoch, rack = -1, 0, -1, ""
    forgotten: list[tuple[str, bytes, list[int]]] = []
    elements = Elements(_ELEMENTS_MAX)
    try:
        if version < REPLICA_STATE_FROM:
            (replica_id,) = _I32.unpack_from(frame, at)
            at += 4
        limits: tuple[int, int, int, int] = _LIMITS.unpack_from(frame, at)
        at += _LIMITS.size
        if version >= 7:
            session_id, session_epoch = _SESSION.unpack_from(frame, at)
            at += _SESSION.size
        topics, at = _topics(frame, at, version, elements)
        if version >= 7:
            forgotten, at = _forgotten(frame, at, version, elements)
        if version >= 11:
            found, at = read_string(frame, at, flexible=flexible)
            rack = found or ""
        if version >= REPLICA_STATE_FROM:
            replica_id, at = _replica_tag(frame, at)
        elif flexible:
            at = skip_tags(frame, at)
    except struct.error as error:
        raise CorruptError("a request to fetch is cut short", at=at) from error
    if at != len(frame):
        raise CorruptError(f"{len(frame) - at} bytes behind a request to fetch", at=at)
    return FetchRequest(replica_id, *limits, session_id, session_epoch, topics, forgotten, rack)


def _topics(
    frame: memoryview, at: int, version: int, elements: Elements
) -> tuple[list[FetchTopic], int]:
    flexible, by_id = version >= FLEXIBLE_FROM, version >= IDS_FROM
    fields, wanted = next(row[1:] for row in _PARTITIONS if version >= row[0])
    topics: list[FetchTopic] = []
    count, at = elements.read(frame, at, flexible=flexible)
    for _ in range(count):
        name, topic_id, at = read_topic(frame, at, by_id=by_id, flexible=flexible)
        partitions: list[FetchPartition] = []
        inner, at = elements.read(frame, at, flexible=flexible)
        for _ in range(inner):
            partitions.append(FetchPartition(*wanted(fields.unpack_from(frame, at))))
            at += fields.size
            if flexible:
                at = skip_tags(frame, at)
        if flexible:
            at = skip_tags(frame, at)
        topics.append(FetchTopic(name, topic_id, partitions))
    return topics, at


def _forgotten(
    frame: memoryview, at: int, version: int, elements: Elements
) -> tuple[list[tuple[str, bytes, list[int]]], int]:
    flexible, by_id = version >= FLEXIBLE_FROM, version >= IDS_FROM
    forgotten: list[tuple[str, bytes, list[int]]] = []
    count, at = elements.read(frame, at, flexible=flexible)
    for _ in range(count):
        name, topic_id, at = read_topic(frame, at, by_id=by_id, flexible=flexible)
        inner, at = elements.read(frame, at, flexible=flexible)
        indexes = struct.unpack_from(f">{max(inner, 0)}i", frame, at)
        at += 4 * max(inner, 0)
        if flexible:
            at = skip_tags(frame, at)
        forgotten.append((name, topic_id, list(indexes)))
    return forgotten, at


def _replica_tag(frame: memoryview, at: int) -> tuple[int, int]:
    """Return the replica that asks, from the tags behind a request, and where they end."""
    end = skip_tags(frame, at)
    count, at = read_uvarint(frame, at)
    replica_id = -1
    for _ in range(count):
        tag, at = read_uvarint(frame, at)
        size, at = read_uvarint(frame, at)
        if tag == _REPLICA_STATE and size >= _REPLICA.size:
            replica_id = _REPLICA.unpack_from(frame, at)[0]
        at += size
    return replica_id, end


def encode_fetch_response(
    version: int,
    topics: Sequence[FetchedTopic],
    *,
    error: int = 0,
    session_id: int = 0,
    throttle_ms: int = 0,
    endpoints: Sequence[MetadataBroker] = (),
) -> list[bytes | bytearray | memoryview]:
    """Return the body of a response, in pieces; ``endpoints`` are those of leaders it names."""
    flexible = version >= FLEXIBLE_FROM
    start = _I32.pack(throttle_ms)
    if version >= 7:
        start += struct.pack(">hi", error, session_id)
    start += write_count(len(topics), flexible=flexible)
    out: list[bytes | bytearray | memoryview] = []
    head = [start]
    # Between fixed fields and records: no aborted transactions, and mostly no preferred replica.
    aborted = b"\0" if flexible else _NONE
    middle = aborted + _NONE if version >= 11 else aborted
    for name, topic_id, partitions in topics:
        head.append(topic_id if version >= IDS_FROM else write_string(name, flexible=flexible))
        head.append(write_count(len(partitions), flexible=flexible))
        for index, code, mark, log_start, pieces, size, leader, preferred in partitions:
            if version >= 5:
                head.append(_FETCHED_5.pack(index, code, mark, mark, log_start))
            else:
                head.append(_FETCHED_4.pack(index, code, mark, mark))
            is_sent_on = preferred >= 0 and version >= 11
            head.append(aborted + _I32.pack(preferred) if is_sent_on else middle)
            head.append(write_uvarint(size + 1) if flexible else _I32.pack(size))
            if pieces:
                out.append(b"".join(head))
                out.extend(pieces)
                head = []
            if flexible:
                head.append(b"\0" if leader is None else leader_tags(leader, 1))
        if flexible:
            head.append(b"\0")
    if flexible:
        head.append(endpoint_tags(endpoints if version >= ENDPOINTS_FROM else ()))
    out.append(b"".join(head))
    return out
