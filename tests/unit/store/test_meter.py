"""Every request is counted, with its bytes and about what it costs."""

import asyncio
import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest

from lakelog.errors import NotFoundError
from lakelog.store import (
    Delete,
    Get,
    GetRange,
    GetSuffix,
    Head,
    ListPage,
    MemoryStore,
    Meter,
    Op,
    PutIfAbsent,
    Usage,
    metered,
    metered_async,
)

STORY: list[Op] = [
    PutIfAbsent("a", b"0123456789"),
    PutIfAbsent("a", b"01234"),
    Get("a"),
    GetRange("a", 0, 3),
    GetSuffix("a", 2),
    Head("a"),
    ListPage(),
    Delete("a"),
]


def test_requests_and_bytes_are_counted() -> None:
    meter = Meter()
    perform = metered(MemoryStore().perform, meter)
    for op in STORY:
        perform(op)
    with pytest.raises(NotFoundError):
        perform(Head("a"))
    assert meter.usage == Usage(
        requests={"put": 2, "get": 3, "head": 2, "list": 1, "delete": 1},
        failures=1,
        bytes_read=15,
        bytes_written=15,
    )
    assert meter.usage.price_usd == pytest.approx((3 * 5 + 5 * 0.4) / 1e6)


def test_the_loop_counts_alike() -> None:
    plain, looped = Meter(), Meter()
    perform = metered(MemoryStore().perform, plain)
    perform_async = metered_async(MemoryStore().perform_async, looped)

    async def story() -> None:
        for op in STORY:
            await perform_async(op)
        with pytest.raises(NotFoundError):
            await perform_async(Get("a"))

    for op in STORY:
        perform(op)
    with pytest.raises(NotFoundError):
        perform(Get("a"))
    asyncio.run(story())
    assert plain.usage == looped.usage


def test_threads_do_not_lose_counts() -> None:
    meter = Meter()
    perform = metered(MemoryStore().perform, meter)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: perform(ListPage()), range(4000)))
    assert meter.usage.requests == {"list": 4000}


def test_usage_comes_home_from_workers_and_adds_up() -> None:
    one = Usage(requests={"put": 1}, bytes_written=5)
    two = Usage(requests={"put": 2, "get": 1}, failures=1, bytes_read=7)
    assert pickle.loads(pickle.dumps(one)) + two == Usage(
        requests={"put": 3, "get": 1}, failures=1, bytes_read=7, bytes_written=5
    )


def test_a_million_puts_cost_five_dollars() -> None:
    assert Usage(requests={"put": 1_000_000}).price_usd == pytest.approx(5.0)
    assert Usage(requests={"get": 1_000_000}).price_usd == pytest.approx(0.4)
