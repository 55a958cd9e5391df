"""Reads and deletions are repeated with full jitter; what is put never."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from lakelog.errors import (
    InvalidInputError,
    LakelogError,
    NotFoundError,
    TooLargeError,
    UnavailableError,
)
from lakelog.store import (
    Delete,
    Get,
    GetRange,
    GetSuffix,
    Head,
    ListPage,
    Op,
    PutIfAbsent,
    PutIfMatch,
    RetryPolicy,
    retrying,
    retrying_async,
)

POLICY = RetryPolicy(attempts_max=4, delay_ms_base=100, delay_ms_max=300)
REPEATED = [ListPage(), Head("a"), Get("a"), GetRange("a", 0, 1), GetSuffix("a", 1), Delete("a")]
PUTS = [PutIfAbsent("a", b""), PutIfMatch("a", b"", "e")]


class Flaky:
    """Fails some times, then answers."""

    def __init__(self, failures: int, error: LakelogError | None = None) -> None:
        self.failures = failures
        self.error = error or UnavailableError("no answer")
        self.asked = 0
        self.slept: list[float] = []

    def perform(self, _: Op) -> str:
        self.asked += 1
        if self.asked <= self.failures:
            raise self.error
        return "answer"

    async def perform_async(self, op: Op) -> str:
        return self.perform(op)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    async def sleep_async(self, seconds: float) -> None:
        self.slept.append(seconds)


def _plain(store: Flaky, op: Op) -> Any:
    return retrying(store.perform, POLICY, sleep=store.sleep, uniform=lambda: 0.5)(op)


def _on_a_loop(store: Flaky, op: Op) -> Any:
    patient = retrying_async(
        store.perform_async, POLICY, sleep=store.sleep_async, uniform=lambda: 0.5
    )

    async def ask() -> Any:
        return await patient(op)

    return asyncio.run(ask())


Ask = Callable[[Flaky, Op], Any]


@pytest.fixture(params=[_plain, _on_a_loop], ids=["plain", "on-a-loop"])
def ask(request: pytest.FixtureRequest) -> Ask:
    chosen: Ask = request.param
    return chosen


@pytest.mark.parametrize("op", REPEATED)
def test_what_can_be_repeated_is_until_there_is_an_answer(ask: Ask, op: Op) -> None:
    store = Flaky(3)
    assert ask(store, op) == "answer"
    assert store.asked == 4
    assert store.slept == [0.05, 0.1, 0.15]


def test_a_read_is_given_up_after_as_many_attempts_as_allowed(ask: Ask) -> None:
    store = Flaky(99)
    with pytest.raises(UnavailableError):
        ask(store, Get("a"))
    assert store.asked == 4
    assert len(store.slept) == 3


@pytest.mark.parametrize("op", PUTS)
def test_what_is_put_is_never_repeated(ask: Ask, op: Op) -> None:
    store = Flaky(1)
    with pytest.raises(UnavailableError):
        ask(store, op)
    assert (store.asked, store.slept) == (1, [])


def test_an_answer_that_is_an_error_is_not_asked_for_again(ask: Ask) -> None:
    store = Flaky(1, NotFoundError("not there"))
    with pytest.raises(NotFoundError):
        ask(store, Get("a"))
    assert store.asked == 1


@pytest.mark.parametrize("kind", [InvalidInputError, TooLargeError])
@pytest.mark.parametrize("op", [Get("a"), *PUTS])
def test_what_the_store_refuses_is_not_asked_for_again(
    ask: Ask, op: Op, kind: type[LakelogError]
) -> None:
    store = Flaky(99, kind("refused"))
    with pytest.raises(kind):
        ask(store, op)
    assert (store.asked, store.slept) == (1, [])


def test_delays_are_anything_from_nothing_to_a_bound_that_doubles() -> None:
    policy = RetryPolicy(delay_ms_base=100, delay_ms_max=10_000)
    assert [policy.delay_s(n, lambda: 1.0) for n in (0, 1, 2, 6, 7, 999)] == [
        0.1, 0.2, 0.4, 6.4, 10.0, 10.0,
    ]  # fmt: skip
    assert policy.delay_s(5, lambda: 0.0) == 0.0


def test_impossible_policies_are_refused() -> None:
    with pytest.raises(InvalidInputError):
        RetryPolicy(attempts_max=0)
    with pytest.raises(InvalidInputError):
        RetryPolicy(delay_ms_base=-1)
