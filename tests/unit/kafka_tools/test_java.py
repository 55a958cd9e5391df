"""What is printed in the order of a map, and numbers, ids and times as Java reads them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog_kafka_tools.java import (
    decimal,
    described_order,
    hash_order,
    id_bytes,
    id_text,
    parse_int,
    partition_hash,
    read_datetime,
    read_duration_ms,
    split,
    text_hash,
    trie_order,
)
from lakelog_kafka_tools.thrown import Thrown


@pytest.mark.parametrize(
    ("text", "value"),
    [("", 0), ("a", 97), ("hello", 99162322), ("Aa", 2112), ("BB", 2112), ("𝄞", 1772394)],
)
def test_a_text_has_javas_hash(text: str, value: int) -> None:
    assert text_hash(text) == value


def test_partitions_come_as_the_real_tool_printed_them() -> None:
    # kafka-consumer-groups --reset-offsets of a topic "one" with four partitions.
    partitions = [("one", number) for number in range(4)]

    assert hash_order(partitions, partition_hash) == [
        ("one", 2),
        ("one", 3),
        ("one", 0),
        ("one", 1),
    ]


def test_topics_come_as_the_real_tool_printed_them() -> None:
    # kafka-configs --describe --entity-type topics.
    names = ["__consumer_offsets", "a.b_c", "one"]

    assert hash_order(names, text_hash) == ["a.b_c", "one", "__consumer_offsets"]


def test_topics_are_described_in_an_order_that_three_maps_make() -> None:
    # kafka-topics --describe of six topics: the map in the middle is larger than the others.
    names = ["__consumer_offsets", "lines", "orders", "twAa-r", "twBB-r", "with.dots_and_lines"]

    assert described_order(names) == [
        "orders",
        "lines",
        "twAa-r",
        "twBB-r",
        "__consumer_offsets",
        "with.dots_and_lines",
    ]


@given(st.lists(st.text(max_size=5)))
def test_an_order_has_every_key_once(keys: list[str]) -> None:
    for found in (hash_order(keys, text_hash), trie_order(keys, text_hash)):
        assert sorted(found) == sorted(set(keys))


def test_few_keys_stay_as_they_came_in_a_set_of_scala() -> None:
    assert trie_order(["d", "c", "b", "a"], text_hash) == ["d", "c", "b", "a"]


def test_groups_come_as_the_real_tool_printed_them() -> None:
    # kafka-configs --describe --entity-type groups.
    names = ["some", "ours-g", "rea1-g", "other", "zebra", "new", "g1", "twAa-cg", "twBB-cg"]

    assert trie_order(names, text_hash) == [
        "ours-g",
        "rea1-g",
        "g1",
        "new",
        "zebra",
        "other",
        "some",
        "twAa-cg",
        "twBB-cg",
    ]


@pytest.mark.parametrize(
    ("text", "number"),
    [("7", 7), ("-7", -7), ("+7", 7), ("007", 7), ("", None), ("7 ", None), ("2147483648", None)],
)
def test_integers(text: str, number: int | None) -> None:
    assert parse_int(text) == number


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (1024.0, "1024.0"),
        (12.5, "12.5"),
        (20480000.0, "2.048E7"),
        (1e7, "1.0E7"),
        (9999999.0, "9999999.0"),
        (0.0005, "5.0E-4"),
    ],
)
def test_doubles(value: float, text: str) -> None:
    assert decimal(value) == text


def test_empty_parts_at_the_end_are_left_out() -> None:
    assert split("a,,b,,", ",") == ["a", "", "b"]
    assert split("", ",") == [""]


@given(st.binary(min_size=16, max_size=16))
def test_ids_are_read_as_they_are_written(topic_id: bytes) -> None:
    assert id_bytes(id_text(topic_id)) == topic_id


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("abc", "decoded as 2 bytes, which is not equal to the expected 16 bytes"),
        ("a" * 25, "is too long to be decoded as a base64 UUID"),
    ],
)
def test_what_is_no_id_is_refused(text: str, message: str) -> None:
    with pytest.raises(Thrown, match=message):
        id_bytes(text)


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("PT1H", 3_600_000),
        ("P1DT2H3M4.5S", 93_784_500),
        ("-PT1S", -1000),
        ("PT-1.5S", -1500),
        ("pt0.001s", 1),
    ],
)
def test_durations(text: str, milliseconds: int) -> None:
    assert read_duration_ms(text) == milliseconds


@pytest.mark.parametrize("text", ["", "P", "PT", "1H", "PT1X"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(Thrown, match="cannot be parsed to a Duration"):
        read_duration_ms(text)


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("1970-01-01T00:00:01.500", 1500),
        ("1970-01-01T00:00:01.500Z", 1500),
        ("1970-01-01T01:00:00.000+01:00", 0),
        ("1969-12-31T19:00:00.000-0500", 0),
        ("2026-02-03T04:05:06.789", 1770091506789),
    ],
)
def test_times(text: str, milliseconds: int) -> None:
    assert read_datetime(text) == milliseconds


@pytest.mark.parametrize("text", ["2026-01-01", "2026-13-01T00:00:00.000", "x", "aTb"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(Thrown, match=r"java\.text\.ParseException"):
        read_datetime(text)
