"""Flows as one flow: each sees what it would see alone, and much is asked for at once."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.errors import NotFoundError, UnavailableError
from lakelog.store import (
    Created,
    Get,
    Head,
    Many,
    MemoryStore,
    PutIfAbsent,
    Wait,
    Work,
    fetch_many,
    get,
    put_if_absent,
    run,
    together,
    working,
)

STEPS = st.lists(st.sampled_from(["put", "get", "none", "many", "wait"]), max_size=6)


def life(name: str, steps: list[str]) -> Work[list[Any]]:
    """Do something, and return what was seen of it."""
    seen: list[Any] = []
    for at, step in enumerate(steps):
        key = f"{name}/{at}"
        match step:
            case "put":
                seen.append((yield from put_if_absent(key, key.encode())))
            case "get":
                yield PutIfAbsent(key, b"x")
                seen.append((yield from get(key)))
            case "none":
                try:
                    yield from get(key)
                except NotFoundError as error:
                    seen.append(str(error))
            case "many":
                found = yield from fetch_many([Get(key), Get(f"{name}/0")])
                seen.append([one and one.body for one in found])
            case _:
                yield Wait(at)
    return seen


def awake(store: MemoryStore) -> Any:
    return working(store.perform, sleep=lambda _: None)


@given(st.lists(STEPS, max_size=7), st.integers(1, 4))
def test_each_sees_what_it_would_see_alone(lives: list[list[str]], at_once: int) -> None:
    store = MemoryStore()
    flows = [life(f"{n}", steps) for n, steps in enumerate(lives)]
    found = run(together(flows, at_once), awake(store))
    alone = [run(life(f"{n}", steps), awake(MemoryStore())) for n, steps in enumerate(lives)]
    assert _without_etags(found) == _without_etags(alone)


def _without_etags(seen: list[list[Any]]) -> list[list[Any]]:
    return [["created" if isinstance(one, Created) else one for one in some] for some in seen]


def test_what_they_ask_for_is_asked_for_at_once_but_not_by_more_than_may() -> None:
    asked: list[int] = []
    begun: list[int] = []

    def flow(number: int) -> Work[int]:
        begun.append(number)
        for _ in range(3):
            yield Head("a")
        return number

    store = MemoryStore()
    store.perform(PutIfAbsent("a", b""))
    work = awake(store)

    def perform(wish: Any) -> Any:
        asked.append(len(wish.ops))
        assert len(begun) <= 4 * (1 + len(asked) // 3)
        return work(wish)

    assert run(together(map(flow, range(10)), 4), perform) == list(range(10))
    assert asked == [4, 4, 4, 4, 4, 4, 2, 2, 2]


def test_the_longest_wait_is_waited_for_once() -> None:
    waits: list[float] = []

    def flow(ms: int) -> Work[int]:
        yield Wait(ms)
        return ms

    sleeping = working(MemoryStore().perform, sleep=waits.append)
    told = run(together(map(flow, (10, 30, 20)), 3), sleeping)
    assert told == [10, 30, 20]
    assert sum(waits) == pytest.approx(0.03)


def test_who_waits_holds_up_nobody() -> None:
    done: list[str] = []

    def waiting() -> Work[None]:
        for _ in range(5):
            yield Wait(1000)
        done.append("waited")

    def busy(number: int) -> Work[None]:
        for _ in range(5):
            yield Head("a")
        done.append(f"busy {number}")

    def perform(wish: Any) -> Any:
        if isinstance(wish, Wait):
            assert len(done) >= 3, "the others have ended"
            return None
        return tuple(None for _ in wish.ops)

    run(together([waiting(), *map(busy, range(3))], 4), perform)
    assert done[-1] == "waited"


def test_the_first_error_ends_all_and_nobody_is_left_open() -> None:
    closed: list[int] = []

    def flow(number: int) -> Work[None]:
        try:
            yield Many((Head("a"),))
            if number == 1:
                raise UnavailableError("no answer: retry")
            yield Head("a")
        finally:
            closed.append(number)

    def flows() -> Iterator[Work[None]]:
        yield from map(flow, range(3))

    with pytest.raises(UnavailableError):
        run(together(flows(), 3), awake(MemoryStore()))
    assert sorted(closed) == [0, 1, 2]
