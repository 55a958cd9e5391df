"""Kafka's protocol: frames, headers, and the decoder of every request.

What is recognised as a repetition of a request is compared with what decoding says of it. The
first two bytes of an input choose an API and a version, where there is a choice.
"""

from collections.abc import Callable

from lakelog.errors import CorruptError, UnsupportedError
from lakelog.wire import (
    APIS,
    FRAME_BYTES_MIN,
    ApiKey,
    decode_fetch,
    decode_produce,
    decode_request,
    decode_request_header,
    find_api,
)
from lakelog.wire.repeats import match_produce, shape_of
from tests.fuzz.targets import Target

__all__ = ["CONTROL", "TARGETS"]

CONTROL = tuple(
    (int(api.key), version)
    for api in APIS.values()
    if api.key not in (ApiKey.PRODUCE, ApiKey.FETCH)
    for version in range(api.min_version, api.max_version + 1)
)
"""Every request that kio reads, in the order in which inputs choose."""

SIZE_BYTES = 4


def _frames(data: bytes) -> None:
    """A stream of frames; the first that is bad ends it."""
    view, at = memoryview(data), 0
    taken = 0
    while len(data) - at >= SIZE_BYTES:
        size = int.from_bytes(view[at : at + SIZE_BYTES], "big", signed=True)
        at += SIZE_BYTES
        if not FRAME_BYTES_MIN <= size <= len(data) - at:
            break
        header = decode_request_header(view[at : at + size])
        assert find_api(header.api.key, header.version) is header.api
        assert FRAME_BYTES_MIN <= header.body_at <= size
        at += size
        taken += 1
    if not taken:
        raise CorruptError("no frame", at=at)


def _request(data: bytes) -> None:
    key, version = CONTROL[int.from_bytes(data[:2], "big") % len(CONTROL)]
    request = decode_request(key, version, memoryview(data)[2:])
    assert type(request).__version__ == APIS[key].max_version


def _produce(data: bytes) -> None:
    api = APIS[ApiKey.PRODUCE]
    version = api.min_version + (data[0] if data else 0) % (api.max_version - api.min_version + 1)
    body = memoryview(data)[1:]
    request = decode_produce(body, 0, version)
    records = [part for topic in request.topics for _, part in topic.partitions if part is not None]
    assert sum(map(len, records)) <= len(body)
    start = int(api.key).to_bytes(2, "big") + version.to_bytes(2, "big") + bytes(4) + b"\xff\xff"
    frame = memoryview(start + (b"\0" if version >= api.flexible_from else b"") + body)
    shape = shape_of(frame, decode_request_header(frame), request)
    if shape is not None:
        found = match_produce(shape, frame)
        assert found is None or [found] == request.topics[0].partitions


def _fetch(data: bytes) -> None:
    api = APIS[ApiKey.FETCH]
    version = api.min_version + (data[0] if data else 0) % (api.max_version - api.min_version + 1)
    request = decode_fetch(memoryview(data)[1:], 0, version)
    parts = sum(len(topic.partitions) for topic in request.topics)
    forgotten = sum(len(indexes) for _, _, indexes in request.forgotten)
    assert 16 * parts + 4 * forgotten <= len(data)


def _make(check: Callable[[bytes], None]) -> Target:
    def target(data: bytes) -> bool:
        try:
            check(data)
        except (CorruptError, UnsupportedError):
            return False
        return True

    return target


TARGETS: dict[str, Target] = {
    "wire-frames": _make(_frames),
    "wire-request": _make(_request),
    "wire-produce": _make(_produce),
    "wire-fetch": _make(_fetch),
}
