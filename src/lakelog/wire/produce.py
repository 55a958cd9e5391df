"""Produce (key 0, versions 3 to 13), by hand: batches are views of the frame, and never copied.

    request   => transactional_id acks timeout_ms [topic [index records]]
    response  => [topic [index error base_offset log_append_time log_start_offset
                         record_errors message current_leader]] throttle_ms node_endpoints

Versions: 5 adds log_start_offset to the response, 8 record errors and a message, 9 is flexible,
10 tells who leads, 13 names topics by id.
"""

import struct
from collections.abc import Sequence
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
)
from lakelog.wire.leaders import CurrentLeader, MetadataBroker, endpoint_tags, leader_tags

__all__ = [
    "ProduceRequest",
    "ProduceTopic",
    "Produced",
    "decode_produce",
    "encode_produce_response",
]

IDS_FROM = 13
FLEXIBLE_FROM = 9
LEADERS_FROM = 10

_ELEMENTS_MAX = APIS[ApiKey.PRODUCE].elements_max

_ACKS = struct.Struct(">hi")
_I32 = struct.Struct(">i")
_PARTITION = struct.Struct(">ii")
_PRODUCED_4 = struct.Struct(">ihqq")
_PRODUCED_5 = struct.Struct(">ihqqq")


class ProduceTopic(NamedTuple):
    """The batches for one topic, which has a name or, from version 13 on, an id."""

    name: str
    id: bytes
    partitions: list[tuple[int, memoryview | None]]


class ProduceRequest(NamedTuple):
    """Batches to be stored."""

    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: list[ProduceTopic]


class Produced(NamedTuple):
    """How it went for one partition."""

    partition: int
    error: int
    base_offset: int = -1
    append_time: int = -1
    log_start: int = -1
    message: str | None = None
    record_errors: tuple[tuple[int, str], ...] = ()
    """Which records are to blame, counted from the first of the request, and why."""
    leader: CurrentLeader | None = None
    """Who leads the partition, if this broker does not."""


def decode_produce(frame: memoryview, at: int, version: int) -> ProduceRequest:
    """Return the request whose body begins at ``at``.

    Raises:
        CorruptError: this is no such request.
    """
    flexible, by_id, end = version >= FLEXIBLE_FROM, version >= IDS_FROM, len(frame)
    topics: list[ProduceTopic] = []
    elements = Elements(_ELEMENTS_MAX)
    try:
        transactional_id, at = read_string(frame, at, flexible=flexible)
        acks, timeout_ms = _ACKS.unpack_from(frame, at)
        count, at = elements.read(frame, at + _ACKS.size, flexible=flexible)
        for _ in range(count):
            name, topic_id, at = read_topic(frame, at, by_id=by_id, flexible=flexible)
            partitions: list[tuple[int, memoryview | None]] = []
            count, at = elements.read(frame, at, flexible=flexible)
            for _ in range(count):
                if flexible:
                    (index,) = _I32.unpack_from(frame, at)
                    size, at = read_uvarint(frame, at + 4)
                    size -= 1
                else:
                    index, size = _PARTITION.unpack_from(frame, at)
                    at += _PARTITION.size
                records: memoryview | None = None
                if size >= 0:
                    if at + size > end:
                        raise CorruptError(f"records of {size} bytes", at=at)
                    records = frame[at : at + size]
                    at += size
                partitions.append((index, records))
                # No tags are the rule, and looked for in place.
                if flexible:
                    at = skip_tags(frame, at) if frame[at] else at + 1
            if flexible:
                at = skip_tags(frame, at) if frame[at] else at + 1
            topics.append(ProduceTopic(name, topic_id, partitions))
        if flexible:
            at = skip_tags(frame, at) if frame[at] else at + 1
    except (struct.error, IndexError) as error:
        raise CorruptError("a request to produce is cut short", at=at) from error
    if at != end:
        raise CorruptError(f"{end - at} bytes behind a request to produce", at=at)
    return ProduceRequest(transactional_id, acks, timeout_ms, topics)


def encode_produce_response(
    version: int,
    topics: list[tuple[str, bytes, list[Produced]]],
    throttle_ms: int = 0,
    endpoints: Sequence[MetadataBroker] = (),
) -> bytes:
    """Return the body of a response; ``endpoints`` are those of leaders that it names."""
    flexible = version >= FLEXIBLE_FROM
    out = [write_count(len(topics), flexible=flexible)]
    for name, topic_id, partitions in topics:
        out.append(topic_id if version >= IDS_FROM else write_string(name, flexible=flexible))
        out.append(write_count(len(partitions), flexible=flexible))
        for index, error, base, append_time, log_start, message, blamed, leader in partitions:
            if version < 5:
                out.append(_PRODUCED_4.pack(index, error, base, append_time))
            else:
                out.append(_PRODUCED_5.pack(index, error, base, append_time, log_start))
            if flexible and message is None and not blamed and leader is None:
                out.append(b"\x01\0\0")  # No record errors, no message, no tags.
            elif version >= 8:
                out.append(write_count(len(blamed), flexible=flexible))
                for at, why in blamed:
                    out += (_I32.pack(at), write_string(why, flexible=flexible))
                    out += (b"\0",) * flexible
                out.append(write_string(message, flexible=flexible))
                if flexible:
                    out.append(leader_tags(leader if version >= LEADERS_FROM else None, 0))
        if flexible:
            out.append(b"\0")
    out.append(_I32.pack(throttle_ms))
    if flexible:
        out.append(endpoint_tags(endpoints if version >= LEADERS_FROM else ()))
    return b"".join(out)
