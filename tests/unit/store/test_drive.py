"""Drivers perform what a flow asks for, and hand errors to it."""

import asyncio
import gc
import weakref
from collections.abc import Callable, Generator
from contextlib import suppress
from typing import Any

import pytest

from lakelog.errors import NotFoundError, UnavailableError
from lakelog.store import (
    Created,
    Flow,
    Head,
    Many,
    MemoryStore,
    Op,
    PutIfAbsent,
    Wait,
    Work,
    each_object,
    get,
    put_if_absent,
    run,
    run_async,
    working,
    working_async,
)

Drive = Callable[[Flow[Any], Callable[[Op], Any]], Any]


def _run_on_a_loop(flow: Flow[Any], perform: Callable[[Op], Any]) -> Any:
    async def perform_async(op: Op) -> Any:
        return perform(op)

    return asyncio.run(run_async(flow, perform_async))


@pytest.fixture(params=[run, _run_on_a_loop], ids=["run", "run_async"])
def drive(request: pytest.FixtureRequest) -> Drive:
    chosen: Drive = request.param
    return chosen


def test_answers_go_to_the_flow_and_its_result_comes_back(drive: Drive) -> None:
    def flow() -> Flow[bytes]:
        yield from put_if_absent("a", b"hello")
        return (yield from get("a"))

    assert drive(flow(), MemoryStore().perform) == b"hello"


def test_an_error_is_thrown_into_the_flow(drive: Drive) -> None:
    def flow() -> Flow[str]:
        try:
            yield from get("missing")
        except NotFoundError:
            yield from put_if_absent("missing", b"")
            return "created"
        return "found"

    assert drive(flow(), MemoryStore().perform) == "created"


def test_an_error_that_was_handled_is_gone_at_once(drive: Drive) -> None:
    """Also without the collector, whose work would hold a broker's loop."""
    seen: list[weakref.ref[NotFoundError]] = []

    def missing(_: Op) -> None:
        error = NotFoundError("nothing")
        seen.append(weakref.ref(error))
        try:
            raise error
        finally:
            del error

    def flow() -> Flow[None]:
        with suppress(NotFoundError):
            yield from get("missing")

    was = gc.isenabled()
    gc.disable()
    try:
        drive(flow(), missing)
        assert [one() for one in seen] == [None]
    finally:
        if was:
            gc.enable()


def test_an_error_that_a_flow_does_not_handle_comes_out(drive: Drive) -> None:
    with pytest.raises(NotFoundError):
        drive(get("missing"), MemoryStore().perform)


def test_a_flow_that_raises_is_over(drive: Drive) -> None:
    def flow() -> Flow[None]:
        yield Head("a")
        raise UnavailableError("enough")

    with pytest.raises(UnavailableError, match="enough"):
        drive(flow(), lambda _: None)


def test_a_bug_is_not_thrown_into_the_flow_but_closes_it(drive: Drive) -> None:
    closed = []

    def flow() -> Generator[Op, Any, None]:
        try:
            yield Head("a")
        except Exception:  # noqa: BLE001
            closed.append("caught")
        finally:
            closed.append("closed")

    with pytest.raises(ZeroDivisionError):
        drive(flow(), lambda _: 1 // 0)
    assert closed == ["closed"]


def test_a_flow_that_asks_for_nothing_is_run(drive: Drive) -> None:
    def flow(*ops: Op) -> Flow[int]:
        yield from ops
        return 7

    assert drive(flow(), lambda _: None) == 7


def test_a_listing_is_read_a_page_at_a_time() -> None:
    store = MemoryStore()
    asked: list[Op] = []

    def perform(op: Op) -> Any:
        asked.append(op)
        return store.perform(op)

    for number in range(2000):
        store.perform(PutIfAbsent(f"f/{number:04}", b""))
    objects = each_object(perform, "f/")
    assert next(objects).key == "f/0000"
    assert len(asked) == 1
    assert len(list(objects)) == 1999
    assert len(asked) == 3


# ---------------------------------------------------------------------------- work

Works = Callable[[Callable[[Op], Any], list[float]], Callable[[Op | Many | Wait], Any]]


def _working(perform: Callable[[Op], Any], slept: list[float]) -> Callable[[Op | Many | Wait], Any]:
    return working(perform, sleep=slept.append)


def _working_on_a_loop(
    perform: Callable[[Op], Any], slept: list[float]
) -> Callable[[Op | Many | Wait], Any]:
    async def perform_async(op: Op) -> Any:
        return perform(op)

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    one = working_async(perform_async, sleep=sleep)

    async def finish(wish: Op | Many | Wait) -> Any:
        return await one(wish)

    return lambda wish: asyncio.run(finish(wish))


@pytest.fixture(params=[_working, _working_on_a_loop], ids=["working", "working_async"])
def works(request: pytest.FixtureRequest) -> Works:
    chosen: Works = request.param
    return chosen


def test_work_waits_by_the_sleep_that_it_was_given(works: Works) -> None:
    slept: list[float] = []
    one = works(MemoryStore().perform, slept)
    assert one(Wait(1_500)) is None
    assert one(Wait(0)) is None
    assert slept == [1.5, 0]


def test_work_of_one_operation_is_that_operation(works: Works) -> None:
    one = works(MemoryStore().perform, [])
    assert one(PutIfAbsent("a", b"1")) == Created(etag="1")
    with pytest.raises(NotFoundError):
        one(Head("b"))


def test_many_are_answered_in_their_order_and_one_failure_spares_the_others(works: Works) -> None:
    store = MemoryStore()
    store.perform(PutIfAbsent("b", b"22"))
    one = works(store.perform, [])
    missing, found, lost = one(Many((Head("a"), Head("b"), Head("c"))))
    assert isinstance(missing, NotFoundError)
    assert isinstance(lost, NotFoundError)
    assert found.size == 2
    assert one(Many(())) == ()


def test_a_bug_in_one_of_many_comes_out(works: Works) -> None:
    one = works(lambda _: 1 // 0, [])
    with pytest.raises(ZeroDivisionError):
        one(Many((Head("a"), Head("b"))))


def test_on_a_loop_many_are_under_way_at_once() -> None:
    """Each waits for all others to have begun: one after the other would never end."""
    count = 8

    async def story() -> tuple[Any, ...]:
        all_there = asyncio.Barrier(count)

        async def perform(op: Op) -> Any:
            await all_there.wait()
            if op == Head("3"):
                raise UnavailableError("lost")
            return op

        one = working_async(perform)
        ops = tuple(Head(str(number)) for number in range(count))
        answers: tuple[Any, ...] = await asyncio.wait_for(one(Many(ops)), 10)
        return answers

    answers = asyncio.run(story())
    assert isinstance(answers[3], UnavailableError)
    assert [answers[at] for at in (0, 1, 7)] == [Head("0"), Head("1"), Head("7")]


def test_a_flow_of_work_is_driven_like_any_other() -> None:
    slept: list[float] = []

    def flow() -> Work[list[str]]:
        yield from put_if_absent("a", b"1")
        yield Wait(20)
        answers: tuple[Any, ...] = yield Many((Head("a"), Head("b")))
        return [type(answer).__name__ for answer in answers]

    perform = MemoryStore().perform
    assert run(flow(), working(perform, sleep=slept.append)) == ["ObjectInfo", "NotFoundError"]
    assert slept == [0.02]
