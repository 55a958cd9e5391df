"""Cold reads: neighbours together, the same only once, and errors to everybody who asked."""

import asyncio
from typing import Any

import pytest

from lakelog.broker.cache import GAP_BYTES_MAX, ColdCache
from lakelog.errors import NotFoundError, UnavailableError
from lakelog.store import Fetched, Get, GetRange, MemoryStore, Op, PutIfAbsent
from tests.unit.broker.site import virtual_story
from tests.virtual_time import pass_time

KEY = "a/1.bundle"
BODY = bytes(range(256)) * 2_000


class Store(MemoryStore):
    def __init__(self) -> None:
        super().__init__()
        self.asked: list[Op] = []
        self.fails = False
        for key in (KEY, "a/2.bundle", "a/cell"):
            self.perform(PutIfAbsent(key, BODY))

    async def perform_async(self, op: Op) -> Any:
        self.asked.append(op)
        await pass_time(0.01)
        if self.fails:
            raise UnavailableError("no answer: retry")
        return self.perform(op)


async def read(cache: ColdCache, *spans: tuple[int, int], key: str = KEY) -> list[bytes]:
    ops = [GetRange(key, start, end) for start, end in spans]
    found: list[Fetched] = await asyncio.gather(*(cache.perform(op) for op in ops))
    for op, one in zip(ops, found, strict=True):
        assert (one.start, one.info.key) == (min(op.start, len(BODY)), key)
        assert one.body == BODY[op.start : op.end]
    return [one.body for one in found]


@virtual_story
async def test_neighbours_are_one_request_and_far_ones_are_not() -> None:
    store = Store()
    cache = ColdCache(store.perform_async, 1 << 20)
    far = 400 + GAP_BYTES_MAX
    await read(cache, (100, 200), (0, 100), (300, 400), (150, 250), (far + 1, far + 50))
    assert store.asked == [GetRange(KEY, 0, 400), GetRange(KEY, far + 1, far + 50)]
    assert cache.fetched_bytes == 449


@virtual_story
async def test_what_was_read_is_not_asked_for_again_and_cells_are() -> None:
    store = Store()
    cache = ColdCache(store.perform_async, 1 << 20)
    for _ in range(2):
        await read(cache, (0, 100), (200, 300))
        await read(cache, (0, 100), key="a/2.bundle")
        await read(cache, (0, 100), key="a/cell")
        await cache.perform(Get("a/cell", 1 << 20))
    assert len(store.asked) == 2 + 4


@virtual_story
async def test_who_asks_while_it_is_on_its_way_waits_for_it_and_may_give_up() -> None:
    store = Store()
    cache = ColdCache(store.perform_async, 1 << 20)
    first = asyncio.create_task(cache.perform(GetRange(KEY, 0, 100)))
    await pass_time(0.003)
    second = asyncio.create_task(cache.perform(GetRange(KEY, 0, 100)))
    await pass_time(0.001)
    first.cancel()
    assert (await second).body == BODY[:100]
    assert len(store.asked) == 1


@virtual_story
async def test_an_error_is_told_to_all_and_kept_by_nobody() -> None:
    store = Store()
    store.fails = True
    cache = ColdCache(store.perform_async, 1 << 20)
    ops = [GetRange(KEY, 0, 100), GetRange(KEY, 100, 200)]
    found = await asyncio.gather(*map(cache.perform, ops), return_exceptions=True)
    assert [type(one) for one in found] == [UnavailableError] * 2
    store.fails = False
    await read(cache, (0, 100), (100, 200))
    with pytest.raises(NotFoundError):
        await cache.perform(GetRange("a/none.bundle", 0, 100))


@virtual_story
async def test_it_is_bounded_and_the_longest_unused_goes_first() -> None:
    store = Store()
    cache = ColdCache(store.perform_async, 300)
    for start in (0, 100_000, 200_000):
        await read(cache, (start, start + 100))
    await read(cache, (0, 100))
    await read(cache, (300_000, 300_100))
    assert cache.size_bytes == 300
    before = len(store.asked)
    await read(cache, (0, 100))
    assert len(store.asked) == before
    await read(cache, (100_000, 100_100))
    assert len(store.asked) == before + 1
    await read(cache, (0, 1_000))
    assert cache.size_bytes <= 300


@virtual_story
async def test_a_range_behind_the_end_is_empty() -> None:
    cache = ColdCache(Store().perform_async, 1 << 20)
    assert await read(cache, (len(BODY) - 10, len(BODY) + 10), (len(BODY) - 5, len(BODY) + 90))
