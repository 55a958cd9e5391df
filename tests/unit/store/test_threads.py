"""Threads perform what is asked for at once, and run flows side by side."""

import threading
from typing import Any

import pytest

from lakelog.errors import NotFoundError, UnavailableError
from lakelog.store import (
    Created,
    Delete,
    Fetched,
    Get,
    Head,
    Many,
    MemoryStore,
    Op,
    PutIfAbsent,
    Wait,
    Work,
    delete_many,
    fetch_many,
    get,
    list_objects,
    put_if_absent,
    run,
    run_by_threads,
    working,
    working_by_threads,
)
from lakelog.store.drive import FLOWS, REQUESTS
from lakelog.store.operations import AT_ONCE

SOON_S = 30


def test_many_are_asked_for_at_once_and_answered_in_their_order() -> None:
    met = threading.Barrier(REQUESTS)
    store = MemoryStore()

    def perform(op: Op) -> Any:
        met.wait(SOON_S)  # It breaks unless all of them are here.
        return store.perform(op)

    keys = [f"k{n}" for n in range(REQUESTS)]
    work = working_by_threads(perform)
    made = work(Many(tuple(PutIfAbsent(key, key.encode()) for key in keys)))
    assert all(isinstance(answer, Created) for answer in made)
    found = work(Many(tuple(Get(key) for key in keys)))
    assert [answer.body.decode() for answer in found] == keys


def test_who_fails_is_told_and_keeps_nobody_from_being_answered() -> None:
    store = MemoryStore()
    store.perform(PutIfAbsent("a", b"1"))
    found = working_by_threads(store.perform)(Many((Head("nothing"), Get("a"), Head("none"))))
    assert [type(answer) for answer in found] == [NotFoundError, Fetched, NotFoundError]
    assert working_by_threads(store.perform)(Many(())) == ()


def test_one_operation_and_a_wait_are_as_without_threads() -> None:
    work = working_by_threads(MemoryStore().perform)
    assert work(Wait(0)) is None
    with pytest.raises(NotFoundError):
        work(Get("nothing"))


def test_flows_run_side_by_side_and_share_what_performs() -> None:
    met = threading.Barrier(FLOWS)
    store = MemoryStore()

    def flow(number: int) -> Work[int]:
        yield from put_if_absent(f"{number}", b"%d" % number)
        met.wait(SOON_S)
        found = yield from fetch_many([Get(f"{number}")] * 3)
        return sum(int(one.body) for one in found if one is not None)

    told = run_by_threads([flow(n) for n in range(FLOWS)], working_by_threads(store.perform))
    assert told == [3 * n for n in range(FLOWS)]


def test_a_flow_that_fails_ends_all_of_them() -> None:
    work = working_by_threads(MemoryStore().perform)
    with pytest.raises(NotFoundError):
        run_by_threads([get("nothing"), get("none")], work)
    assert run_by_threads([], work) == []


# ---------------------------------------------------------------------------- many objects


def rounds_of(flow: Work[None], store: MemoryStore) -> list[int]:
    """Run a flow, and return how much it asked for each time."""
    sizes: list[int] = []
    work = working(store.perform)

    def perform(wish: Any) -> Any:
        sizes.append(len(wish.ops) if isinstance(wish, Many) else 1)
        return work(wish)

    run(flow, perform)
    return sizes


@pytest.mark.parametrize("count", [0, 1, AT_ONCE, AT_ONCE + 1, 1000])
def test_objects_are_deleted_in_as_few_rounds_as_can_be(count: int) -> None:
    store = MemoryStore()
    for n in range(count):
        store.perform(PutIfAbsent(f"old/{n}", b""))
    store.perform(PutIfAbsent("young", b""))
    sizes = rounds_of(delete_many([f"old/{n}" for n in range(count)]), store)
    assert sum(sizes) == count
    assert len(sizes) == -(-count // AT_ONCE)
    assert [one.key for one in run(list_objects(""), store.perform)] == ["young"]


def test_what_could_not_be_deleted_is_told_after_the_others_of_its_round() -> None:
    store = MemoryStore()
    for key in "abc":
        store.perform(PutIfAbsent(key, b""))

    def perform(op: Op) -> Any:
        if op == Delete("a"):
            raise UnavailableError("no answer: retry")
        return store.perform(op)

    with pytest.raises(UnavailableError):
        run(delete_many(["a", "b", "c"]), working(perform))
    assert [one.key for one in run(list_objects(""), store.perform)] == ["a"]


def test_more_reads_than_are_asked_for_at_once_keep_their_order() -> None:
    store = MemoryStore()
    keys = [f"{n:03}" for n in range(3 * AT_ONCE + 1)]
    for key in keys[::2]:
        store.perform(PutIfAbsent(key, key.encode()))
    found = run(fetch_many([Get(key) for key in keys]), working(store.perform))
    told = [None if one is None else bytes(one.body).decode() for one in found]
    assert told == [key if at % 2 == 0 else None for at, key in enumerate(keys)]
