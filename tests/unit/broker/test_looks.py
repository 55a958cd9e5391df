"""However many ask how things are, the store is asked once at a time."""

import asyncio
from itertools import pairwise
from typing import Any

import pytest

from lakelog.broker.looks import SharedLook
from lakelog.broker.moments import moment
from lakelog.errors import UnavailableError
from lakelog.store import Get, Head
from tests.unit.broker.site import Site, broker, connect, story, virtual_story

REQUEST_BYTES_MIN = 20


class Store:
    """Answers when it is told to."""

    def __init__(self) -> None:
        self.begun: list[asyncio.Future[None]] = []

    async def look(self) -> None:
        self.begun.append(asyncio.get_running_loop().create_future())
        await self.begun[-1]


async def a_moment() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@story
async def test_whoever_asks_while_a_look_is_on_its_way_shares_the_next_one() -> None:
    store = Store()
    shared = SharedLook(store.look)
    first = asyncio.create_task(shared.take())
    await a_moment()
    later = [asyncio.create_task(shared.take()) for _ in range(20)]
    await a_moment()
    assert len(store.begun) == 1
    store.begun[0].set_result(None)
    await first
    await a_moment()
    assert len(store.begun) == 2
    assert not any(one.done() for one in later)
    store.begun[1].set_result(None)
    await asyncio.gather(*later)
    assert len(store.begun) == 2


@story
async def test_an_error_is_told_to_all_and_the_next_look_is_another_one() -> None:
    store = Store()
    shared = SharedLook(store.look)
    both = [asyncio.create_task(shared.take()) for _ in range(2)]
    await a_moment()
    both[0].cancel()
    store.begun[0].set_exception(UnavailableError("no answer: retry"))
    with pytest.raises(UnavailableError):
        await both[1]
    again = asyncio.create_task(shared.take())
    await a_moment()
    store.begun[1].set_result(None)
    await again


@story
async def test_those_who_ask_for_offsets_that_are_not_there_share_looks_at_the_shard() -> None:
    site = Site()
    async with broker(site) as running:
        clients = [await connect(running) for _ in range(20)]
        groups: list[dict[str, Any]] = [{"group_id": "group", "topics": None}]
        site.ops.clear()
        asked = [one.ask(9, 8, groups=groups, require_stable=False) for one in clients]
        site.open.clear()
        answers = asyncio.gather(*asked)
        while running.budget.used < len(clients) * REQUEST_BYTES_MIN:
            await asyncio.sleep(0)  # Not all of them have come.
        for _ in range(10 * len(clients)):
            await asyncio.sleep(0)  # Each has its turn.
        site.open.set()
        for found in await answers:
            assert not found.groups[0].error_code.value
        assert 0 < sum(isinstance(op, Get | Head) for op in site.ops) <= 2
        for one in clients:
            await one.close()


@virtual_story
async def test_looks_keep_a_pace_and_who_waits_meanwhile_shares_the_next_one() -> None:
    begun: list[float] = []
    loop = asyncio.get_running_loop()

    async def look() -> None:
        begun.append(loop.time())

    shared = SharedLook(look, pace_s=0.25)
    for _ in range(4):
        await asyncio.gather(*(shared.take() for _ in range(20)))
    assert [round(after - before, 6) for before, after in pairwise(begun)] == [0.25] * 3


@virtual_story
async def test_a_look_that_began_since_then_will_do_if_it_ended_well() -> None:
    looks = 0

    async def look() -> None:
        nonlocal looks
        looks += 1
        if looks == 2:
            raise UnavailableError("no answer")

    shared = SharedLook(look)
    before = moment()
    await shared.take()
    await shared.take(before)
    assert looks == 1
    since = moment()  # At the same time, by the clock of the loop.
    with pytest.raises(UnavailableError):
        await shared.take(since)
    await shared.take(since)
    await shared.take(since)
    assert looks == 3
