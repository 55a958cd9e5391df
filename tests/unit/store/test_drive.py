"""Drivers perform what a flow asks for, and hand errors to it."""

import asyncio
from collections.abc import Callable, Generator
from typing import Any

import pytest

from lakelog.errors import NotFoundError, UnavailableError
from lakelog.store import (
    Flow,
    Head,
    MemoryStore,
    Op,
    PutIfAbsent,
    each_object,
    get,
    put_if_absent,
    run,
    run_async,
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
