"""Producers repeat themselves: what a request has in common with the one before is not read twice.

    key version | correlation_id | client_id … acks timeout topic | partition size | records | 0 0 0
    `-- same --'                   `------------ same -----------'

A request of one partition, and nearly all of them are, is recognised by the bytes around what
changes. Comparing them takes a tenth of the time that decoding takes. What does not match is
decoded: a shape only ever says what ``decode_produce`` would say. Their answers are alike as well.
"""

import struct
from typing import NamedTuple

from lakelog.wire.frames import RequestHeader, read_uvarint, write_string, write_uvarint
from lakelog.wire.produce import FLEXIBLE_FROM, IDS_FROM, ProduceRequest

__all__ = ["ProduceShape", "answer_again", "match_produce", "shape_of"]

_START, _CORRELATION_END = 4, 8
_TAGS = b"\0\0\0"  # Of the partition, the topic and the request.
_I32 = struct.Struct(">i")
_HEAD = struct.Struct(">i4sB")
_BODY = struct.Struct(">ihqqqBBBBiB")
"""Partition, error, offset, append time, log start; no errors of records, no message, no tags; not
throttled, no tags."""


class ProduceShape(NamedTuple):
    """What requests of a producer have in common."""

    start: bytes
    middle: bytes
    at: int
    """Where the partition stands."""
    header: RequestHeader
    request: ProduceRequest
    """The one that it was seen in: all but its partition and its records is common."""
    topic: bytes
    """What stands before the partition in an answer."""


def shape_of(
    frame: memoryview, header: RequestHeader, request: ProduceRequest
) -> ProduceShape | None:
    """Return the shape of a request; None: it is not of the kind that is worth it."""
    if header.version < FLEXIBLE_FROM or len(request.topics) != 1:
        return None
    topic = request.topics[0]
    if len(topic.partitions) != 1 or request.transactional_id is not None:
        return None
    if request.acks not in (-1, 0, 1):
        return None
    index, records = topic.partitions[0]
    if records is None or frame[-3:] != _TAGS:
        return None
    at = len(frame) - 3 - len(records) - len(write_uvarint(len(records) + 1)) - 4
    topic = topic._replace(partitions=[])
    middle = bytes(frame[_CORRELATION_END:at])
    kept = request._replace(topics=[topic])
    name = topic.id if header.version >= IDS_FROM else write_string(topic.name, flexible=True)
    answer = b"\x02" + name + b"\x02"
    shape = ProduceShape(bytes(frame[:_START]), middle, at, header, kept, answer)
    # Lengths may be written in more bytes than they need: then it is not where we think it is.
    return shape if match_produce(shape, frame) == (index, records) else None


def match_produce(shape: ProduceShape, frame: memoryview) -> tuple[int, memoryview] | None:
    """Return the partition and the records of a request of this shape; None: it is of another."""
    start, middle, at = shape[:3]
    end = len(frame) - 3
    if end < at + 5 or frame[:_START] != start or frame[_CORRELATION_END:at] != middle:
        return None
    (index,) = _I32.unpack_from(frame, at)
    size, at = read_uvarint(frame, at + 4)
    if at + size - 1 != end or not size or frame[end:] != _TAGS:
        return None
    return index, frame[at:end]


def answer_again(
    shape: ProduceShape, correlation_id: bytes, index: int, base: int, stamp: int, log_start: int
) -> bytes:
    """Return the whole frame that answers such a request, if all went well."""
    topic = shape.topic
    size = _HEAD.size - 4 + len(topic) + _BODY.size
    body = _BODY.pack(index, 0, base, stamp, log_start, 1, 0, 0, 0, 0, 0)
    return _HEAD.pack(size, correlation_id, 0) + topic + body
