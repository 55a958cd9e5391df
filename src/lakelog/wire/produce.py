"""Produce (key 0, versions 3 to 13), by hand: batches are views of the frame, and never copied.

    request   => transactional_id acks timeout_ms [topic [index records]]
    response  => [topic [index error base_offset log_append_time log_start_offset
                         record_errors message]] throttle_ms

Versions: 5 adds log_start_offset to the response, 8 record errors and a message, 9 is flexible,
13 names topics by id.
"""

import struct
from typing import NamedTuple

from lakelog.errors import CorruptError
from lakelog.wire.apis import APIS, ApiKey
from lakelog.wire.frames import (
    Elements,
    read_string,
    read_uvarint,
    skip_tags,
    write_count,
    write_string,
)

__all__ = [
    "ProduceRequest",
    "ProduceTopic",
    "Produced",
    "decode_produce",
    "encode_produce_response",
]

IDS_FROM = 13
FLEXIBLE_FROM = 9

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


def decode_produce(frame: memoryview, at: int, version: int) -> ProduceRequest:
    """Return the request whose body begins at ``at``.

    Raises:
        CorruptError: this is no such request.
    """
    end = len(frame)
    try:
        if version >= FLEXIBLE_FROM:
            request, at = _flexible(frame, at, end, ids=version >= IDS_FROM)
        else:
            request, at = _plain(frame, at, end)
    except (struct.error, IndexError) as error:
        raise CorruptError("a request to produce is cut short", at=at) from error
    if at != end:
        raise CorruptError(f"{end - at} bytes behind a request to produce", at=at)
    return request


def _flexible(frame: memoryview, at: int, end: int, *, ids: bool) -> tuple[ProduceRequest, int]:
    """Versions 9 and later. Lengths below 128 and no tags are the rule, and looked for in place."""
    transactional_id: str | None = None
    if frame[at]:
        transactional_id, at = read_string(frame, at, flexible=True)
    else:
        at += 1
    acks, timeout_ms = _ACKS.unpack_from(frame, at)
    topics: list[ProduceTopic] = []
    elements = Elements(_ELEMENTS_MAX)
    count, at = read_uvarint(frame, at + 6)
    for _ in range(elements.count(count - 1, at, end)):
        name: str | None = ""
        topic_id = b""
        if ids:
            topic_id = bytes(frame[at : at + 16])
            at += 16
        else:
            name, at = read_string(frame, at, flexible=True)
        partitions: list[tuple[int, memoryview | None]] = []
        count, at = read_uvarint(frame, at)
        for _ in range(elements.count(count - 1, at, end)):
            (index,) = _I32.unpack_from(frame, at)
            size, at = read_uvarint(frame, at + 4)
            if size:
                next_at = at + size - 1
                if next_at > end:
                    raise CorruptError(f"records of {size - 1} bytes", at=at)
                partitions.append((index, frame[at:next_at]))
                at = next_at
            else:
                partitions.append((index, None))
            at = skip_tags(frame, at) if frame[at] else at + 1
        at = skip_tags(frame, at) if frame[at] else at + 1
        topics.append(ProduceTopic(name or "", topic_id, partitions))
    at = skip_tags(frame, at) if frame[at] else at + 1
    return ProduceRequest(transactional_id, acks, timeout_ms, topics), at


def _plain(frame: memoryview, at: int, end: int) -> tuple[ProduceRequest, int]:
    """Versions 3 to 8."""
    transactional_id, at = read_string(frame, at, flexible=False)
    acks, timeout_ms = _ACKS.unpack_from(frame, at)
    topics: list[ProduceTopic] = []
    elements = Elements(_ELEMENTS_MAX)
    (count,) = _I32.unpack_from(frame, at + 6)
    at += 10
    for _ in range(elements.count(count, at, end)):
        name, at = read_string(frame, at, flexible=False)
        partitions: list[tuple[int, memoryview | None]] = []
        (count,) = _I32.unpack_from(frame, at)
        at += 4
        for _ in range(elements.count(count, at, end)):
            index, size = _PARTITION.unpack_from(frame, at)
            at += 8
            if size < 0:
                partitions.append((index, None))
                continue
            if at + size > end:
                raise CorruptError(f"records of {size} bytes", at=at)
            partitions.append((index, frame[at : at + size]))
            at += size
        topics.append(ProduceTopic(name or "", b"", partitions))
    return ProduceRequest(transactional_id, acks, timeout_ms, topics), at


def encode_produce_response(
    version: int, topics: list[tuple[str, bytes, list[Produced]]], throttle_ms: int = 0
) -> bytes:
    """Return the body of a response."""
    flexible = version >= FLEXIBLE_FROM
    out = [write_count(len(topics), flexible=flexible)]
    for name, topic_id, partitions in topics:
        out.append(topic_id if version >= IDS_FROM else write_string(name, flexible=flexible))
        out.append(write_count(len(partitions), flexible=flexible))
        for index, error, base, append_time, log_start, message, blamed in partitions:
            if version < 5:
                out.append(_PRODUCED_4.pack(index, error, base, append_time))
            else:
                out.append(_PRODUCED_5.pack(index, error, base, append_time, log_start))
            if flexible and message is None and not blamed:
                out.append(b"\x01\0\0")  # No record errors, no message, no tags.
            elif version >= 8:
                out.append(write_count(len(blamed), flexible=flexible))
                for at, why in blamed:
                    out += (_I32.pack(at), write_string(why, flexible=flexible))
                    out += (b"\0",) * flexible
                out.append(write_string(message, flexible=flexible))
                out += (b"\0",) * flexible
        if flexible:
            out.append(b"\0")
    out.append(_I32.pack(throttle_ms))
    if flexible:
        out.append(b"\0")
    return b"".join(out)
