"""Java's properties files."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.errors import InvalidInputError
from lakelog_kafka_tools.settings import parse_properties


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", {}),
        ("# a=1\n! b=2\n\n   \n", {}),
        ("a=1\nb:2\nc 3\nd = 4\n  e\t:  5", {"a": "1", "b": "2", "c": "3", "d": "4", "e": "5"}),
        ("a", {"a": ""}),
        ("a=b=c:d", {"a": "b=c:d"}),
        ("a = x \r\nb=y\r", {"a": "x ", "b": "y"}),
        ("a=1,\\\n   2,\\\n   3\nb=4", {"a": "1,2,3", "b": "4"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("a\\:b\\=c=\\u00e4\\t\\x", {"a:b=c": "ä\tx"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=1\\\n# no comment", {"a": "1# no comment"}),
    ],
)
def test_lines_are_read_as_java_reads_them(text: str, found: dict[str, str]) -> None:
    assert parse_properties(text) == found


def test_an_escape_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="four hex digits"):
        parse_properties("a=\\u12g4")


def test_a_file_that_is_too_large_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="is it the properties file"):
        parse_properties("a" * (1 << 20) + "=1")


WORDS = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=9)


@given(st.dictionaries(WORDS, WORDS))
def test_what_is_written_plainly_is_read_back(given_: dict[str, str]) -> None:
    text = "\n".join(f"{name} = {value}" for name, value in given_.items())
    assert parse_properties(text) == given_
