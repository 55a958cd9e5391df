"""Topics by expression: what fits, what is no expression, and what nobody can make slow."""

import re
import sys
from collections.abc import Callable

import pytest

from lakelog.broker.patterns import KEPT_MAX, Patterns, re2_compile

NAMES = ["orders", "orders-eu", "other"]


class Counting:
    """Python's own matcher, for harmless expressions; it counts what it is asked."""

    def __init__(self) -> None:
        self.compiled: list[str] = []
        self.matched = 0

    def __call__(self, expression: str) -> Callable[[str], object] | None:
        self.compiled.append(expression)
        try:
            found = re.compile(expression)
        except re.error:
            return None

        def fits(name: str) -> object:
            self.matched += 1
            return found.fullmatch(name)

        return fits


def test_a_name_fits_as_a_whole() -> None:
    patterns = Patterns(Counting())
    assert patterns.match("orders", NAMES) == frozenset({"orders"})
    assert patterns.match("orders.*", NAMES) == frozenset({"orders", "orders-eu"})
    assert patterns.match("x", NAMES) == frozenset()
    assert patterns.match("(", NAMES) is None


def test_what_was_found_is_kept_as_long_as_the_names_are_the_same() -> None:
    counting = Counting()
    patterns = Patterns(counting)
    for _ in range(3):
        patterns.match("o.*", list(NAMES))
    assert (counting.compiled, counting.matched) == (["o.*"], 3)
    assert patterns.match("o.*", [*NAMES, "o"]) == frozenset({*NAMES, "o"})
    assert (counting.compiled, counting.matched) == (["o.*"], 7)


def test_only_so_many_are_kept_and_only_short_ones_are_looked_at() -> None:
    counting = Counting()
    patterns = Patterns(counting)
    for number in range(KEPT_MAX + 1):
        patterns.match(f"o{number}", NAMES)
    patterns.match("o0", NAMES)
    assert len(counting.compiled) == KEPT_MAX + 2
    assert patterns.match("o" * 1025, NAMES) is None
    assert len(counting.compiled) == KEPT_MAX + 2


def test_without_the_library_no_expression_is_understood(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    assert re2_compile("orders") is None


def test_re2_takes_no_longer_for_an_expression_that_was_made_to_be_slow() -> None:
    patterns = Patterns()
    assert patterns.match("orders.*", NAMES) == frozenset({"orders", "orders-eu"})
    assert patterns.match("(a+)+b", ["a" * 200]) == frozenset()
    for wrong in ("(", "(?=look)", r"(a)\1", "(a{1000}){1000}"):
        assert patterns.match(wrong, NAMES) is None
