"""Varints at their borders."""

import pytest

from lakelog.errors import CorruptError
from lakelog.records import decode_varint, decode_varlong, encode_varint


@pytest.mark.parametrize(
    ("value", "raw"),
    [
        (0, "00"), (-1, "01"), (1, "02"), (-64, "7f"), (64, "8001"), (-65, "8101"),
        ((1 << 31) - 1, "feffffff0f"), (-(1 << 31), "ffffffff0f"),
    ],
)  # fmt: skip
def test_known_values_have_known_bytes(value: int, raw: str) -> None:
    assert encode_varint(value).hex() == raw
    assert decode_varint(bytes.fromhex(raw), 0, len(raw) // 2) == (value, len(raw) // 2)
    assert decode_varlong(bytes.fromhex(raw), 0, len(raw) // 2) == (value, len(raw) // 2)


@pytest.mark.parametrize("value", [(1 << 63) - 1, -(1 << 63)])
def test_a_varlong_holds_64_bits(value: int) -> None:
    assert decode_varlong(encode_varint(value), 0, 10) == (value, 10)


@pytest.mark.parametrize("raw", ["", "80", "ffff"])
def test_a_varint_must_end_before_the_end(raw: str) -> None:
    data = bytes.fromhex(raw)
    with pytest.raises(CorruptError, match="runs past the end"):
        decode_varint(data, 0, len(data))


def test_nothing_is_read_from_the_end_on() -> None:
    with pytest.raises(CorruptError, match="runs past the end"):
        decode_varint(b"\x80\x01", 0, 1)


@pytest.mark.parametrize(
    ("raw", "what"), [("ffffffff1f", "fit 32 bits"), ("808080808000", "more than 5 bytes")]
)
def test_a_varint_of_more_than_32_bits_is_refused(raw: str, what: str) -> None:
    with pytest.raises(CorruptError, match=what):
        decode_varint(bytes.fromhex(raw), 0, len(raw) // 2)


@pytest.mark.parametrize(
    ("raw", "what"), [("ff" * 9 + "02", "fit 64 bits"), ("80" * 10 + "00", "more than 10 bytes")]
)
def test_a_varlong_of_more_than_64_bits_is_refused(raw: str, what: str) -> None:
    with pytest.raises(CorruptError, match=what):
        decode_varlong(bytes.fromhex(raw), 0, len(raw) // 2)
