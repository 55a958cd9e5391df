"""What a request leaves behind is gone when it is answered, and does not wait for the collector.

A broker lets Python's collector look at everything but seldom (``tune_process``), because nothing
else runs meanwhile. So what refers to itself would pile up, as each fetch from the store once did.
"""

import gc
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any

import pytest

from lakelog.store import Read
from tests.unit.broker.site import Client, Site, batch, broker, connect, story

TIMES = 100
ASKED: dict[str, Any] = {
    "allow_auto_topic_creation": False,
    "include_topic_authorized_operations": False,
}


async def produce(client: Client) -> None:
    assert not (await client.produce("orders", 0, batch(b"x"))).error_code.value


async def fetch(client: Client) -> None:
    client.send_fetch({("orders", 0): 0})
    _, found = await client.answer()
    assert found.responses[0].partitions[0].records


async def fetch_and_wait(client: Client) -> None:
    client.send_fetch({("orders", 1): 0}, wait_ms=1)
    await client.answer()


async def metadata(client: Client) -> None:
    await client.ask(3, 12, topics=None, **ASKED)


async def list_offsets(client: Client) -> None:
    part = {"partition_index": 0, "timestamp": -1, "current_leader_epoch": -1}
    rows = [{"name": "orders", "partitions": [part]}]
    await client.ask(2, 7, replica_id=-1, isolation_level=0, topics=rows)


async def commit(client: Client) -> None:
    part = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
    rows = [{"name": "orders", "partitions": [part]}]
    who = {"group_id": "g", "member_id": "", "generation_id_or_member_epoch": -1}
    await client.ask(8, 8, **who, topics=rows)


KINDS = [produce, fetch, fetch_and_wait, metadata, list_offsets, commit]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_request_leaves_no_garbage(kind: Callable[[Client], Awaitable[None]]) -> None:
    @story
    async def told() -> None:
        site = Site()
        site.create("orders", 2)
        async with broker(site) as running:
            client = await connect(running)
            await produce(client)
            assert await garbage(lambda: kind(client)) < TIMES
            await client.close()

    told()


@story
async def test_a_request_that_asks_the_store_leaves_no_garbage() -> None:
    """The records are not in the memory of a broker that has just begun."""
    site = Site()
    site.create("orders", 2)
    async with broker(site) as first:
        client = await connect(first)
        await produce(client)
        await client.close()
    async with broker(site) as second:
        client = await connect(second)
        assert await garbage(lambda: fetch(client)) < TIMES
        await client.close()


@story
async def test_a_store_that_fails_leaves_no_garbage() -> None:
    site = Site()
    site.create("orders", 2)
    async with broker(site) as running:
        client = await connect(running)
        await produce(client)
        turns = count()
        site.fails = lambda op: isinstance(op, Read) and next(turns) % 2 == 0
        assert await garbage(lambda: list_offsets(client)) < TIMES
        await client.close()


async def garbage(once: Callable[[], Awaitable[None]]) -> int:
    """Return how many objects are left of doing it many times that only the collector finds."""
    for _ in range(5):
        await once()
    gc.collect()
    gc.disable()
    try:
        for _ in range(TIMES):
            await once()
        return gc.collect()
    finally:
        gc.enable()
