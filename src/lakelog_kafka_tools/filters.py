"""Which topics and partitions are meant: patterns, as Java's tools take them."""

import re
from collections.abc import Callable
from functools import cache

from lakelog_kafka_tools.java import parse_int, split
from lakelog_kafka_tools.thrown import RUNTIME, Thrown

__all__ = ["TERSE", "include", "partition_rules", "partition_set"]

_INTERNAL = {"__consumer_offsets", "__transaction_state", "__share_group_state"}
_RULE = re.compile(r"([^:,]*)(?::(?:([0-9]*)|(?:([0-9]*)-([0-9]*))))?")
_QUOTES = "\"'"
TERSE = "org.apache.kafka.tools.TerseException"
"""What is shown without a trace."""
Rule = Callable[[str, int | None], bool]
"""Says whether a partition is meant; of None, whether any of a topic may be."""


def include(pattern: str | None, topic: str, without_internal: bool = False) -> bool:
    """Say whether a topic is meant by a list of patterns; None means every topic.

    Raises:
        Thrown: it is no pattern.
    """
    if without_internal and topic in _INTERNAL:
        return False
    return pattern is None or _compiled(pattern).fullmatch(topic) is not None


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    text = pattern.strip().replace(",", "|").replace(" ", "")
    text = text.lstrip(_QUOTES).rstrip(_QUOTES)
    try:
        return re.compile(text)
    except re.error:
        raise Thrown(RUNTIME, f"{text} is an invalid regex.") from None


def partition_rules(text: str) -> Rule:
    """Return what ``topic:0-3,other,:5`` means.

    Raises:
        Thrown: it means nothing.
    """
    rules = [_rule(part) for part in split(text, ",")]
    return lambda topic, number: any(rule(topic, number) for rule in rules)


def _rule(text: str) -> Rule:
    found = _RULE.fullmatch(text)
    if found is None:
        raise Thrown(TERSE, f"Invalid rule specification: {text}").inside(RUNTIME)
    pattern = found[1] or ".*"
    if found[2]:
        low, high = int(found[2]), int(found[2]) + 1
    else:
        low, high = int(found[3] or 0), int(found[4]) if found[4] else 1 << 31
    return lambda topic, number: (
        include(pattern, topic) and (number is None or low <= number < high)
    )


def partition_set(topic: str | None, partitions: str | None) -> Rule:
    """Return what a topic's pattern and a list of partitions mean; either may be missing.

    Raises:
        Thrown: a partition is no number.
    """
    numbers: set[int] = set()
    for part in split(partitions, ",") if partitions else ():
        number = parse_int(part)
        if number is None:
            raise Thrown(
                TERSE,
                "--partitions expects a comma separated list of numeric partition ids, but"
                f" received: {partitions}",
            )
        numbers.add(number)
    pattern = ".*" if topic is None else topic
    return lambda name, number: (
        include(pattern, name) and (number is None or not numbers or number in numbers)
    )
