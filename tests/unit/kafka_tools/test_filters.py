"""Which topics and partitions are meant."""

import pytest

from lakelog_kafka_tools.filters import include, partition_rules, partition_set
from lakelog_kafka_tools.get_offsets import parse_time
from lakelog_kafka_tools.thrown import Thrown


@pytest.mark.parametrize(
    ("pattern", "topic", "meant"),
    [
        (None, "a", True),
        ("a", "a", True),
        ("a", "ab", False),
        ("a.*", "ab", True),
        (" 'a, b' ", "b", True),
        ("", "", True),
        ("", "a", False),
    ],
)
def test_a_pattern_means_whole_names(pattern: str | None, topic: str, meant: bool) -> None:
    assert include(pattern, topic) == meant


def test_what_is_no_pattern_is_refused() -> None:
    with pytest.raises(Thrown, match=r"a\( is an invalid regex"):
        include("a(", "a")


@pytest.mark.parametrize(
    ("rules", "meant"),
    [
        ("t", [0, 1, 2, 3]),
        ("t:1", [1]),
        ("t:1-3", [1, 2]),
        ("t:2-", [2, 3]),
        ("t:-2", [0, 1]),
        (":3", [3]),
        ("t:", [0, 1, 2, 3]),
        ("u,t:0", [0]),
        ("u", []),
    ],
)
def test_partitions_by_rules(rules: str, meant: list[int]) -> None:
    rule = partition_rules(rules)

    assert [number for number in range(4) if rule("t", number)] == meant


def test_partitions_by_a_list() -> None:
    assert partition_set("t", "0,2")("t", 2)
    assert not partition_set("t", "0,2")("t", 1)
    assert partition_set(None, None)("anything", 7)
    with pytest.raises(Thrown, match="expects a comma separated list of numeric partition ids"):
        partition_set("t", "0,x")


def test_a_rule_that_means_nothing_is_refused() -> None:
    with pytest.raises(Thrown, match="Invalid rule specification: t:x"):
        partition_rules("t:x")


def test_times_are_words_or_numbers() -> None:
    assert [parse_time(text) for text in ("latest", "earliest-local", "-6", "1700000000000")] == [
        -1,
        -4,
        -6,
        1700000000000,
    ]
    with pytest.raises(Thrown, match="Malformed time argument soon"):
        parse_time("soon")
