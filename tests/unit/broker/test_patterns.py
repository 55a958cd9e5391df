"""Topics by expression: what fits, what is no expression, and what nobody can make slow."""

import asyncio
import re
import sys
from collections.abc import Callable
from itertools import pairwise

import pytest

from lakelog.broker.patterns import (
    AT_ONCE,
    KEPT_MAX,
    NAMES_KEPT_MAX,
    Patterns,
    re2_compile,
)
from lakelog.groups import REGEX_MAX
from tests.unit.broker.site import story

NAMES = ("orders", "orders-eu", "other")


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


@story
async def test_a_name_fits_as_a_whole() -> None:
    patterns = Patterns(Counting())
    assert await patterns.match("orders", NAMES) == frozenset({"orders"})
    assert await patterns.match("orders.*", NAMES) == frozenset({"orders", "orders-eu"})
    assert await patterns.match("x", NAMES) == frozenset()
    assert await patterns.match("(", NAMES) is None


@story
async def test_what_was_found_is_kept_as_long_as_the_names_are_the_same() -> None:
    counting = Counting()
    patterns = Patterns(counting)
    for _ in range(3):
        await patterns.match("o.*", NAMES)
    assert (counting.compiled, counting.matched) == (["o.*"], 3)
    assert await patterns.match("o.*", (*NAMES, "o")) == frozenset({*NAMES, "o"})
    assert (counting.compiled, counting.matched) == (["o.*"], 7)


@story
async def test_many_who_ask_for_one_expression_at_once_try_it_once() -> None:
    counting = Counting()
    patterns = Patterns(counting)
    found = await asyncio.gather(*(patterns.match("o.*", NAMES) for _ in range(10)))
    assert set(found) == {frozenset(NAMES)}
    assert (counting.compiled, counting.matched) == (["o.*"], 3)


@story
async def test_others_have_their_turn_while_an_expression_is_tried() -> None:
    names = tuple(f"t{at}" for at in range(20 * AT_ONCE))
    counting = Counting()
    patterns = Patterns(counting)
    searching = [asyncio.create_task(patterns.match(f"t{at}", names)) for at in range(10)]
    tried = [0]
    while not all(task.done() for task in searching):
        await asyncio.sleep(0)
        tried.append(counting.matched)
    steps = [after - before for before, after in pairwise(tried)]
    assert max(steps) <= 2 * AT_ONCE, "one search at a time, a slice of names at a time"
    assert counting.matched == 10 * len(names)


@story
async def test_only_so_many_are_kept_and_only_short_ones_are_looked_at() -> None:
    counting = Counting()
    patterns = Patterns(counting)
    for number in range(KEPT_MAX + 1):
        await patterns.match(f"o{number}", NAMES)
    await patterns.match("o0", NAMES)
    assert len(counting.compiled) == KEPT_MAX + 2
    assert await patterns.match("o" * (REGEX_MAX + 1), NAMES) is None
    assert len(counting.compiled) == KEPT_MAX + 2


@story
async def test_expressions_that_find_many_names_are_kept_as_long_as_there_is_room() -> None:
    counting = Counting()
    patterns = Patterns(counting)
    names = tuple(f"t{at}" for at in range(NAMES_KEPT_MAX // 4))
    for number in range(5):
        await patterns.match(f"t.*|{number}", names)
    assert len(counting.compiled) == 5
    await patterns.match("t.*|4", names)
    assert len(counting.compiled) == 5
    await patterns.match("t.*|0", names)
    assert len(counting.compiled) == 6


def test_without_the_library_no_expression_is_understood(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    assert re2_compile("orders") is None


@story
async def test_re2_takes_no_longer_for_an_expression_that_was_made_to_be_slow() -> None:
    patterns = Patterns()
    assert await patterns.match("orders.*", NAMES) == frozenset({"orders", "orders-eu"})
    assert await patterns.match("(a+)+b", ("a" * 200,)) == frozenset()
    for wrong in ("(", "(?=look)", r"(a)\1", "(a{1000}){1000}"):
        assert await patterns.match(wrong, NAMES) is None
