"""Headers and primitives: one case for each way in which they are wrong."""

import struct

import pytest

from lakelog.errors import CorruptError, UnsupportedError
from lakelog.wire import decode_request_header
from lakelog.wire.frames import (
    TAGS_MAX,
    read_string,
    read_uvarint,
    skip_tags,
    write_string,
    write_uvarint,
)


def header(key: int, version: int, length: int, rest: bytes = b"") -> memoryview:
    return memoryview(struct.pack(">hhih", key, version, 1, length) + rest)


def test_a_header_is_read_with_its_client_and_its_tags() -> None:
    found = decode_request_header(header(12, 4, 3, b"abc\1\7\2xy" + b"body"))
    assert (found.api.name, found.version, found.client_id) == ("Heartbeat", 4, "abc")
    assert found.body_at == 18


def test_a_client_that_is_no_text_is_still_a_client() -> None:
    assert decode_request_header(header(12, 0, 2, b"\xff\xfe")).client_id == "\ufffd\ufffd"


@pytest.mark.parametrize("key", [-1, 7, 9999])
def test_an_api_that_is_not_offered_is_unsupported(key: int) -> None:
    with pytest.raises(UnsupportedError, match=f"API {key}"):
        decode_request_header(header(key, 0, -1))


@pytest.mark.parametrize(("key", "version"), [(0, 2), (0, 14), (18, 5), (1, -1)])
def test_a_version_that_is_not_offered_is_unsupported(key: int, version: int) -> None:
    with pytest.raises(UnsupportedError, match=f"version {version}"):
        decode_request_header(header(key, version, -1))


@pytest.mark.parametrize(
    ("frame", "what"),
    [
        (memoryview(bytes(9)), "9 bytes"),
        (header(12, 0, 5, b"abcd"), "client id of 5"),
        (header(12, 0, -2), "client id of -2"),
        (header(12, 4, -1), "varint"),
        (header(12, 4, -1, b"\1\1\5abcd"), "tagged field of 5"),
        (header(12, 4, -1, bytes((TAGS_MAX + 1,)) + bytes(200)), "tagged fields"),
    ],
)
def test_a_header_that_is_cut_short_or_says_too_much_is_refused(
    frame: memoryview, what: str
) -> None:
    with pytest.raises(CorruptError, match=what):
        decode_request_header(frame)


@pytest.mark.parametrize("value", [0, 1, 127, 128, 16_383, 16_384, (1 << 31) - 1, (1 << 32) - 1])
def test_varints_come_back(value: int) -> None:
    data = write_uvarint(value)
    assert read_uvarint(memoryview(data), 0) == (value, len(data))
    assert read_uvarint(data + b"\xff", 0) == (value, len(data))


@pytest.mark.parametrize(
    "data", [b"", b"\x80", b"\xff\xff\xff\xff\xff\x01", b"\xff\xff\xff\xff\x10"]
)
def test_a_varint_that_does_not_end_or_is_too_large_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptError, match="varint"):
        read_uvarint(memoryview(data), 0)


@pytest.mark.parametrize("flexible", [True, False])
@pytest.mark.parametrize("text", [None, "", "a", "ä" * 100, "\U0001f600"])
def test_strings_come_back(text: str | None, flexible: bool) -> None:
    data = write_string(text, flexible=flexible)
    assert read_string(memoryview(data), 0, flexible=flexible) == (text, len(data))


@pytest.mark.parametrize(
    ("data", "flexible", "what"),
    [
        (b"\0", False, "cut short"),
        (b"\0\5abcd", False, "string of 5"),
        (b"\6abcd", True, "string of 5"),
        (b"\0\1\xff", False, "UTF-8"),
    ],
)
def test_a_string_that_is_none_is_refused(data: bytes, flexible: bool, what: str) -> None:
    with pytest.raises(CorruptError, match=what):
        read_string(memoryview(data), 0, flexible=flexible)


def test_no_tags_are_one_byte() -> None:
    assert skip_tags(b"\0rest", 0) == 1
