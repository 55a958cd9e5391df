"""A request that names many things lets others have their turn meanwhile."""

import asyncio
import gc
import struct
import time

import pytest

from lakelog.broker.turns import TURN_S, in_turns
from lakelog.wire import ApiKey
from tests.hostile import attacks
from tests.patience import in_time
from tests.unit.broker.site import Site, broker, connect, story


@story
async def test_many_things_are_given_in_their_order_and_others_go_on_meanwhile() -> None:
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    task = asyncio.create_task(other())
    found = []
    async for one in in_turns(range(5)):
        time.sleep(2 * TURN_S)  # noqa: TID251 (it is what takes a while)
        found.append(one)
    task.cancel()
    assert found == [0, 1, 2, 3, 4]
    assert turns >= 2
    assert [one async for one in in_turns(range(0))] == []


GROUPS = 30_000
_COUNT = b"\xb1\xea\x01"  # As a varint, and one more.
EMPTY_GROUPS = {
    ApiKey.CONSUMER_GROUP_DESCRIBE: (0, _COUNT + b"\1" * GROUPS + b"\0\0"),
    ApiKey.DESCRIBE_GROUPS: (5, _COUNT + b"\1" * GROUPS + b"\0\0"),
    ApiKey.FIND_COORDINATOR: (4, b"\0" + _COUNT + b"\1" * GROUPS + b"\0"),
    ApiKey.DELETE_GROUPS: (2, _COUNT + b"\1" * GROUPS + b"\0"),
    ApiKey.DESCRIBE_PRODUCERS: (0, _COUNT + b"\1\1\0" * GROUPS + b"\0"),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (1, _COUNT + b"\0\1\1\0" * GROUPS + b"\0\0"),
}


@pytest.mark.parametrize("key", EMPTY_GROUPS, ids=lambda key: key.name.lower())
def test_a_small_request_that_names_many_things_does_not_hold_up_the_loop(key: ApiKey) -> None:
    version, body = EMPTY_GROUPS[key]

    async def run() -> None:
        async with broker(Site()) as running:
            client = await connect(running)
            # What an API needs is made when it is asked for first.
            one = body[: body.index(_COUNT)] + b"\1" + b"\0" * (body[-2:].count(0))
            client.writer.write(attacks.frame(key, version, one))
            await client.reader.readexactly(
                struct.unpack(">i", await client.reader.readexactly(4))[0]
            )
            loop = asyncio.get_running_loop()
            worst_s = 0.0

            async def watch() -> None:
                nonlocal worst_s
                while True:
                    before = loop.time()
                    await asyncio.sleep(0.001)
                    worst_s = max(worst_s, loop.time() - before)

            task = asyncio.create_task(watch())
            await asyncio.sleep(0.01)
            began, worst_s = loop.time(), 0.0
            client.writer.write(attacks.frame(key, version, body))
            assert await client.reader.readexactly(4)
            took_s = loop.time() - began
            task.cancel()
            await client.close()
        in_time(worst_s < max(took_s / 2, 0.05), (worst_s, took_s))

    gc.collect()
    gc.freeze()  # What other tests have left is not looked through while this one measures.
    try:
        asyncio.run(run())
    finally:
        gc.unfreeze()
