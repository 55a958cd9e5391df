"""Requests that are wrong in one place each; and what they may cost."""

import struct
import subprocess
import sys
import tracemalloc

import pytest

from lakelog.errors import CorruptError
from lakelog.wire import (
    APIS,
    ELEMENTS_MAX,
    PARTITION_ELEMENTS_MAX,
    PRODUCE_ELEMENTS_MAX,
    ApiKey,
    decode_fetch,
    decode_produce,
    decode_request,
)

# transactional_id acks timeout [name [index records]]
PRODUCE_3 = b"\xff\xff\0\1" + bytes(4) + b"\0\0\0\1\0\1t\0\0\0\1\0\0\0\7\0\0\0\2xy"
PRODUCE_9 = b"\0\0\1" + bytes(4) + b"\2\2t\2\0\0\0\7\3xy\0\0\0"
PRODUCE_13 = b"\0\0\1" + bytes(4) + b"\2" + bytes(range(16)) + b"\2\0\0\0\7\3xy\0\0\0"


@pytest.mark.parametrize(
    ("version", "body"), [(3, PRODUCE_3), (8, PRODUCE_3), (9, PRODUCE_9), (13, PRODUCE_13)]
)
def test_records_are_views_of_the_frame_and_no_copies(version: int, body: bytes) -> None:
    frame = memoryview(bytearray(b"header" + body))
    request = decode_produce(frame, 6, version)
    ((index, records),) = request.topics[0].partitions
    assert (index, bytes(records or b"")) == (7, b"xy")
    assert records is not None
    assert records.obj is frame.obj


@pytest.mark.parametrize(
    ("version", "body", "what"),
    [
        (3, PRODUCE_3[:5], "cut short"),
        (3, PRODUCE_3[:8] + b"\x7f\xff\xff\xff", "elements"),
        (3, PRODUCE_3[:8] + b"\xff\xff\xff\xfe", "elements"),
        (3, PRODUCE_3[:-6] + b"\x7f\xff\xff\xffxy", "records of"),
        (3, PRODUCE_3 + b"z", "1 bytes behind"),
        (9, PRODUCE_9[:7] + b"\xff\xff\xff\xff\x07", "elements"),
        (9, PRODUCE_9[:-6] + b"\xff\xff\xff\xff\x07xy\0\0\0", "records of"),
        (13, PRODUCE_13[:20], "an id of a topic is cut short"),
    ],
)
def test_a_produce_request_that_is_wrong_is_refused(version: int, body: bytes, what: str) -> None:
    with pytest.raises(CorruptError, match=what):
        decode_produce(memoryview(body), 0, version)


LIMITS = struct.pack(">iiib", 500, 1, 1000, 0)
FETCH_4 = struct.pack(">i", -1) + LIMITS + b"\0\0\0\1\0\1t\0\0\0\1" + struct.pack(">iqi", 7, 9, 50)
FETCH_15 = (
    LIMITS + struct.pack(">ii", 3, 4) + b"\2" + bytes(range(16)) + b"\2"
    + struct.pack(">iiqiqi", 7, 1, 9, 2, 3, 50) + b"\0\0" + b"\2" + bytes(16) + b"\2\0\0\0\5\0"
    + b"\1"
)  # fmt: skip


def test_a_replica_says_so_in_a_tag_from_version_15_on() -> None:
    tag = b"\1\1\x0d" + struct.pack(">iqb", 42, 7, 0)
    assert decode_fetch(memoryview(FETCH_15 + tag), 0, 15).replica_id == 42
    found = decode_fetch(memoryview(FETCH_15 + b"\0"), 0, 15)
    assert (found.replica_id, found.session_id, found.session_epoch) == (-1, 3, 4)
    assert found.topics[0].partitions == [(7, 9, 50, 1, 2)]
    assert found.forgotten == [("", bytes(16), [5])]


@pytest.mark.parametrize(
    ("version", "body", "what"),
    [
        (4, FETCH_4[:10], "cut short"),
        (4, FETCH_4[:17] + b"\x7f\xff\xff\xff", "elements"),
        (4, FETCH_4 + b"z", "1 bytes behind"),
        (13, struct.pack(">i", -1) + FETCH_15[:30], "id of a topic"),
        (15, FETCH_15[:21] + b"\xff\xff\xff\xff\x07", "elements"),
    ],
)
def test_a_fetch_request_that_is_wrong_is_refused(version: int, body: bytes, what: str) -> None:
    with pytest.raises(CorruptError, match=what):
        decode_fetch(memoryview(body), 0, version)


@pytest.mark.parametrize(
    ("key", "version", "body", "what"),
    [
        (ApiKey.HEARTBEAT, 0, b"\0\1g\0", "cut short"),
        (ApiKey.HEARTBEAT, 0, b"\xff\xff\0\0\0\1\0\1m", "-1 elements"),
        (ApiKey.HEARTBEAT, 0, b"\0\1\xff\0\0\0\1\0\1m", "Heartbeat 0"),
        (ApiKey.DELETE_TOPICS, 1, b"\xff\xff\xff\xff\0\0\0\0", "elements"),
        (ApiKey.DELETE_TOPICS, 1, b"\x7f\xff\xff\xff\0\0\0\0", "elements"),
        (ApiKey.DELETE_TOPICS, 1, struct.pack(">i", ELEMENTS_MAX + 1) + bytes(1 << 20), "elements"),
        (ApiKey.DELETE_TOPICS, 4, b"\xff\xff\xff\xff\x07\0\0\0\0\0", "elements"),
        (ApiKey.DELETE_TOPICS, 4, b"\1\0\0", "cut short"),
    ],
)
def test_a_request_that_is_wrong_is_refused(
    key: ApiKey, version: int, body: bytes, what: str
) -> None:
    with pytest.raises(CorruptError, match=what):
        decode_request(key, version, memoryview(body))


def test_an_absent_list_is_told_from_an_empty_one() -> None:
    assert decode_request(ApiKey.METADATA, 1, memoryview(b"\xff\xff\xff\xff")).topics is None
    assert decode_request(ApiKey.METADATA, 1, memoryview(bytes(4))).topics == ()


def produce_body(version: int, topics: int, partitions: int) -> bytes:
    """Return a request of topics without a name, each with partitions without records."""
    if version >= 9:
        topic = b"\1" + _uvarint(partitions + 1) + (bytes(4) + b"\0\0") * partitions + b"\0"
        return b"\0\0\1" + bytes(4) + _uvarint(topics + 1) + topic * topics + b"\0"
    topic = bytes(2) + struct.pack(">i", partitions) + struct.pack(">ii", 0, -1) * partitions
    return b"\xff\xff\0\1" + bytes(4) + struct.pack(">i", topics) + topic * topics


def fetch_body(version: int, topics: int, partitions: int, forgotten: int = 0) -> bytes:
    start = struct.pack(">i", -1) + LIMITS
    if version >= 12:
        row = struct.pack(">iiqiqi", 0, 1, 0, 2, 3, 50) + b"\0"
        topic = b"\1" + _uvarint(partitions + 1) + row * partitions + b"\0"
        gone = b"\2\1" + _uvarint(forgotten + 1) + bytes(4 * forgotten) + b"\0"
        body = _uvarint(topics + 1) + topic * topics + (gone if forgotten else b"\1")
        return start + bytes(8) + body + b"\1\0"
    topic = bytes(2) + struct.pack(">i", partitions) + struct.pack(">iqi", 0, 0, 50) * partitions
    return start + struct.pack(">i", topics) + topic * topics


def _uvarint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


FETCH_MAX = APIS[ApiKey.FETCH].elements_max


@pytest.mark.parametrize("version", [3, 9])
@pytest.mark.parametrize(
    ("topics", "partitions", "is_taken"),
    [
        (PRODUCE_ELEMENTS_MAX, 0, True),
        (PRODUCE_ELEMENTS_MAX + 1, 0, False),
        (1, PRODUCE_ELEMENTS_MAX - 1, True),
        (1, PRODUCE_ELEMENTS_MAX, False),
        (PRODUCE_ELEMENTS_MAX // 2, 1, True),
        (PRODUCE_ELEMENTS_MAX // 2 + 1, 1, False),
    ],
)
def test_a_produce_request_has_so_many_topics_and_partitions_and_no_more(
    version: int, topics: int, partitions: int, is_taken: bool
) -> None:
    body = memoryview(produce_body(version, topics, partitions))
    if is_taken:
        assert len(decode_produce(body, 0, version).topics) == topics
    else:
        with pytest.raises(CorruptError, match="topics and partitions: send fewer"):
            decode_produce(body, 0, version)


@pytest.mark.parametrize("version", [4, 12])
@pytest.mark.parametrize(
    ("topics", "partitions", "is_taken"),
    [
        (FETCH_MAX, 0, True),
        (FETCH_MAX + 1, 0, False),
        (1, FETCH_MAX - 1, True),
        (1, FETCH_MAX, False),
        (10_000, 1, True),
    ],
)
def test_a_fetch_request_has_so_many_topics_and_partitions_and_no_more(
    version: int, topics: int, partitions: int, is_taken: bool
) -> None:
    body = memoryview(fetch_body(version, topics, partitions))
    if is_taken:
        assert len(decode_fetch(body, 0, version).topics) == topics
    else:
        with pytest.raises(CorruptError, match="topics and partitions: send fewer"):
            decode_fetch(body, 0, version)


def test_what_a_fetch_forgets_counts_as_well() -> None:
    body = memoryview(fetch_body(12, 1, FETCH_MAX - 10, forgotten=8))
    assert len(decode_fetch(body, 0, 12).forgotten[0][2]) == 8
    with pytest.raises(CorruptError, match="send fewer"):
        decode_fetch(memoryview(fetch_body(12, 1, FETCH_MAX - 10, forgotten=9)), 0, 12)


@pytest.mark.parametrize("version", [3, 9])
def test_elements_are_counted_before_anything_is_made_of_them(version: int) -> None:
    topics = memoryview(produce_body(version, 200_000, 0))
    fetched = memoryview(fetch_body(version + 3, 200_000, 0))
    tracemalloc.start()
    try:
        with pytest.raises(CorruptError):
            decode_produce(topics, 0, version)
        with pytest.raises(CorruptError):
            decode_fetch(fetched, 0, version + 3)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_tools_may_ask_for_ten_thousand_partitions_at_once() -> None:
    """In as many topics: then there are twice as many elements."""
    for key in (ApiKey.METADATA, ApiKey.LIST_OFFSETS, ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH):
        assert APIS[key].elements_max == PARTITION_ELEMENTS_MAX >= 3 * 10_000
    topic = bytes(2) + struct.pack(">i", 1) + struct.pack(">iq", 0, -1)
    body = struct.pack(">ii", -1, 10_000) + topic * 10_000
    assert len(decode_request(ApiKey.LIST_OFFSETS, 1, memoryview(body)).topics) == 10_000


HOSTILE = """
import resource
from lakelog.errors import CorruptError
from lakelog.wire import APIS, decode_request
CLAIMS = (b"\\x7f\\xff\\xff\\xff" * 5, b"\\xff\\xff\\xff\\xff\\x07" * 4,
          b"\\0\\1a\\x7f\\xff\\xff\\xff" * 3, b"\\2a\\xff\\xff\\xff\\xff\\x07" * 3,
          b"\\0\\0\\0\\1\\0\\1a\\x7f\\xff\\xff\\xff", b"\\2\\2a\\xff\\xff\\xff\\xff\\x07\\0\\0")
def everything():
    for api in list(APIS.values())[2:]:
        for version in range(api.min_version, api.max_version + 1):
            for claim in CLAIMS:
                try:
                    decode_request(int(api.key), version, memoryview(claim))
                except CorruptError:
                    pass
everything()
with open("/proc/self/statm") as file:
    size = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + (64 << 20),) * 2)
everything()
print("alive")
"""


def test_no_claim_of_a_short_request_ends_the_process() -> None:
    """kio makes room for what an array claims to have; without the room the process is ended."""
    ended = subprocess.run(
        [sys.executable, "-c", HOSTILE], capture_output=True, text=True, timeout=120, check=False
    )
    assert ended.stdout == "alive\n", ended.stderr[-2000:]
