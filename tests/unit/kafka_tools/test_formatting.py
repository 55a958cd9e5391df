"""Records become text as DefaultMessageFormatter makes it."""

import pytest

from lakelog_kafka_tools.formatting import Seen, formatter
from lakelog_kafka_tools.thrown import Thrown

_SEEN = Seen(3, 42, "CreateTime", 1700000000000, b"k", b"v", [("a", b"1"), ("b", None)])
_BARE = Seen(0, 0, None, -1, None, None, ())
_ALL = {
    f"print.{name}": "true"
    for name in ("timestamp", "partition", "offset", "delivery", "epoch", "headers", "key")
}


def _format(settings: dict[str, str], seen: Seen) -> bytes:
    return formatter(settings, lambda _: None).format(seen)


@pytest.mark.parametrize(
    ("settings", "seen", "text"),
    [
        ({}, _SEEN, b"v\n"),
        ({}, _BARE, b"null\n"),
        (
            _ALL,
            _SEEN,
            (
                b"CreateTime:1700000000000\tPartition:3\tOffset:42\tDelivery:NOT_PRESENT"
                b"\tEpoch:NOT_PRESENT\ta:1,b:null\tk\tv\n"
            ),
        ),
        (
            {**_ALL, "print.value": "false"},
            _BARE,
            (
                b"NO_TIMESTAMP\tPartition:0\tOffset:0\tDelivery:NOT_PRESENT\tEpoch:NOT_PRESENT"
                b"\tNO_HEADERS\tnull\n"
            ),
        ),
        ({"print.value": "false"}, _SEEN, b""),
        ({"print.key": "true", "key.separator": "|", "line.separator": ";"}, _SEEN, b"k|v;"),
        (
            {"print.headers": "true", "headers.separator": "&", "null.literal": "NIL"},
            _SEEN,
            b"a:1&b:NIL\tv\n",
        ),
    ],
)
def test_a_record_is_a_line(settings: dict[str, str], seen: Seen, text: bytes) -> None:
    assert _format(settings, seen) == text


@pytest.mark.parametrize(
    ("kind", "data", "text"),
    [
        ("String", b"\xff", "\ufffd"),
        ("Integer", b"\0\0\0\x07", "7"),
        ("Long", b"\xff" * 8, "-1"),
        ("Short", b"\0\x07", "7"),
        ("Double", b"\x40\x09\x21\xfb\x54\x44\x2d\x18", "3.141592653589793"),
        ("Boolean", b"\x01", "true"),
        ("UUID", b"6ba7b810-9dad-11d1-80b4-00c04fd430c8", "6ba7b810-9dad-11d1-80b4-00c04fd430c8"),
    ],
)
def test_values_may_be_numbers(kind: str, data: bytes, text: str) -> None:
    settings = {"value.deserializer": f"org.apache.kafka.common.serialization.{kind}Deserializer"}

    assert _format(settings, _SEEN._replace(value=data)) == f"{text}\n".encode()


def test_a_value_of_the_wrong_size_is_javas_exception() -> None:
    settings = {"value.deserializer": "org.apache.kafka.common.serialization.LongDeserializer"}

    with pytest.raises(Thrown, match="Size of data received by LongDeserializer is not 8"):
        _format(settings, _SEEN)


def test_a_class_that_is_not_here_is_told_of_and_left_out() -> None:
    told: list[str] = []

    chosen = formatter({"key.deserializer": "com.acme.Own", "print.key": "true"}, told.append)

    assert chosen.format(_SEEN) == b"k\tv\n"
    assert told == ["Unable to instantiate a deserializer from com.acme.Own"]
