"""Lines become records as LineMessageReader makes them."""

import pytest

from lakelog_kafka_tools.lines import NewRecord, line_reader
from lakelog_kafka_tools.thrown import Thrown


@pytest.mark.parametrize(
    ("settings", "line", "record"),
    [
        ({}, "a\tb", NewRecord(None, b"a\tb", [])),
        ({"parse.key": "true"}, "a\tb\tc", NewRecord(b"a", b"b\tc", [])),
        ({"parse.key": "TRUE ", "key.separator": "::"}, "a::b", NewRecord(b"a", b"b", [])),
        (
            {"parse.headers": "true"},
            "a:b,c:d\tv",
            NewRecord(None, b"v", [("a", b"b"), ("c", b"d")]),
        ),
        (
            {"parse.headers": "true", "parse.key": "true"},
            "a:b:c,d:\tk\tv",
            NewRecord(b"k", b"v", [("a", b"b:c"), ("d", b"")]),
        ),
        (
            {"parse.key": "true", "null.marker": "NIL"},
            "NIL\tNIL",
            NewRecord(None, None, []),
        ),
        (
            {"parse.headers": "true", "null.marker": "NIL"},
            "NIL\tv",
            NewRecord(None, b"v", []),
        ),
        (
            {"parse.headers": "true", "null.marker": "NIL"},
            "a:NIL\tv",
            NewRecord(None, b"v", [("a", None)]),
        ),
        ({"parse.key": "true", "ignore.error": "true"}, "nokey", NewRecord(None, b"nokey", [])),
        (
            {"parse.headers": "true", "ignore.error": "true"},
            "nopair\tv",
            NewRecord(None, b"v", [("nopair", None)]),
        ),
        ({"parse.key": "true"}, "\t", NewRecord(b"", b"", [])),
    ],
)
def test_a_line_is_a_record(settings: dict[str, str], line: str, record: NewRecord) -> None:
    assert line_reader(settings).read(line, 1) == record


@pytest.mark.parametrize(
    ("settings", "line", "message"),
    [
        ({"parse.key": "true"}, "x", "No key separator found on line number 4: 'x'"),
        ({"parse.headers": "true"}, "x", "No headers delimiter found on line number 4: 'x'"),
        (
            {"parse.headers": "true"},
            "x\ty",
            "No header key separator found in pair 'x' on line number 4",
        ),
        (
            {"parse.headers": "true", "null.marker": "NIL"},
            "NIL:1\ty",
            "Header keys should not be equal to the null marker 'NIL' as they can't be null",
        ),
    ],
)
def test_what_is_missing_is_told(settings: dict[str, str], line: str, message: str) -> None:
    with pytest.raises(Thrown) as thrown:
        line_reader(settings).read(line, 4)

    assert thrown.value.message == message


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"headers.delimiter": ","}, "headers.delimiter and headers.separator may not be equal"),
        ({"null.marker": "\t"}, "null.marker and key.separator may not be equal"),
        ({"null.marker": ":"}, "null.marker and headers.key.separator may not be equal"),
    ],
)
def test_marks_differ(settings: dict[str, str], message: str) -> None:
    with pytest.raises(Thrown) as thrown:
        line_reader(settings)

    assert thrown.value.message == message
