"""Puts of named objects: asked for again, later each time, and not for ever."""

from itertools import pairwise
from typing import Any

import pytest

from lakelog.errors import InvalidInputError, LakelogError, TooLargeError, UnavailableError
from lakelog.store import (
    Created,
    Exists,
    Get,
    MemoryStore,
    Op,
    PutIfAbsent,
    put_advisory,
    put_answered,
    put_named,
    run,
    working,
)
from lakelog.store.puts import ADVICE, PUTS


class Story:
    """A store whose first puts fail, and the pauses that were made."""

    def __init__(self, *errors: LakelogError, stored: bool = False) -> None:
        self.store = MemoryStore()
        self.errors, self.stored = list(errors), stored
        self.puts = 0
        self.waits: list[float] = []

    def perform(self, op: Op) -> Any:
        assert isinstance(op, PutIfAbsent)
        self.puts += 1
        assert self.puts < 1000, "it goes on for ever"
        if not self.errors:
            return self.store.perform(op)
        if self.stored:
            self.store.perform(op)
        raise self.errors.pop(0)

    def run(self, flow: Any) -> Any:
        return run(flow, working(self.perform, sleep=self.waits.append))


def dead() -> Story:
    return Story(*[UnavailableError("503 Slow Down")] * 5000)


def test_a_store_that_never_answers_ends_a_put_with_a_plain_error() -> None:
    story = dead()
    with pytest.raises(UnavailableError, match=r"503 Slow Down.*10 attempts.*unknown"):
        story.run(put_named("a/1", b"x"))
    assert story.puts == PUTS.attempts_max
    assert len(story.waits) == PUTS.attempts_max - 1


def test_pauses_grow_and_keys_that_failed_together_do_not_come_back_together() -> None:
    pauses = []
    for number in range(200):
        story = dead()
        with pytest.raises(UnavailableError):
            story.run(put_named(f"a/{number:032x}", b"x"))
        pauses.append(story.waits)
    means = [sum(some) / len(some) for some in zip(*pauses, strict=True)]
    assert all(one < two for one, two in pairwise(means[:-1]))
    assert len({tuple(some) for some in pauses}) == len(pauses)
    bounds = [min(10.0, 0.1 * 2**attempt) for attempt in range(9)]
    assert all(w <= bound for some in pauses for w, bound in zip(some, bounds, strict=True))


def test_a_put_that_was_lost_is_made_again_and_one_that_was_stored_is_found() -> None:
    story = Story(UnavailableError("lost"), UnavailableError("lost"))
    put = story.run(put_answered("a/1", b"x"))
    assert isinstance(put.answer, Created)
    story = Story(UnavailableError("lost"), stored=True)
    put = story.run(put_answered("a/1", b"x"))
    assert (put.answer, put.is_sure) == (Exists(), False)
    assert story.run(put_answered("a/1", b"x")) == (Exists(), True)
    assert story.store.perform(Get("a/1")).body == b"x"


@pytest.mark.parametrize("error", [TooLargeError("413"), InvalidInputError("400")])
def test_a_refusal_ends_at_once(error: LakelogError) -> None:
    story = Story(error)
    with pytest.raises(type(error)):
        story.run(put_named("a/1", b"x"))
    assert (story.puts, story.waits) == (1, [])


def test_advice_that_the_store_does_not_take_fails_nothing() -> None:
    story = dead()
    assert story.run(put_advisory("a/1.index", b"x")) is False
    assert story.puts == ADVICE.attempts_max
    assert Story(TooLargeError("413")).run(put_advisory("a/1.index", b"x")) is False
    assert Story().run(put_advisory("a/1.index", b"x")) is True
