"""A commit for a group that comes here in a moment waits for it; for another it is sent away."""

import asyncio

from lakelog.broker.waiting_commits import WAIT_S
from lakelog.groups import Code
from lakelog.names import group_shard_key
from lakelog.store import Get
from tests.patience import until
from tests.unit.broker.site import Machine, Site, broker, virtual_story
from tests.unit.broker.test_claims import ALL, BEAT_MS, GROUPS, committed, held
from tests.virtual_time import pass_time


@virtual_story
async def test_commits_wait_for_a_broker_that_takes_over_and_keep_their_order() -> None:
    site = Site()
    topic = site.create("t")
    async with broker(site, heartbeat_ms=BEAT_MS) as b:
        async with broker(site, heartbeat_ms=BEAT_MS) as a:
            await until(lambda: bool(held(a)) and held(a) | held(b) == ALL)
            shard = min(held(a))
            waiting = []

            async def send() -> None:
                """Commit at the one that does not have it yet, as soon as it will have it."""
                await until(lambda: shard not in held(a))
                for offset in range(1, 6):
                    waiting.append(
                        asyncio.ensure_future(committed(b, GROUPS[shard], topic, offset))
                    )
                    await asyncio.sleep(0)

            sending = asyncio.ensure_future(send())
        await sending
        assert await asyncio.gather(*waiting) == [Code.NONE] * 5
        offsets = b.services.coordinator.offsets(GROUPS[shard])
        assert not isinstance(offsets, Code)
        assert [one.offset for one in offsets.rows.values()] == [5]


@virtual_story
async def test_a_commit_for_a_group_of_another_broker_is_sent_there_after_one_look() -> None:
    site = Site()
    topic = site.create("t")
    async with (
        broker(site, heartbeat_ms=60_000) as a,
        broker(site, heartbeat_ms=60_000) as b,
    ):
        await until(lambda: bool(held(a)) and bool(held(b)) and held(a) | held(b) == ALL)
        shard = min(held(a))
        await pass_time(1)
        before = site.count(Get, group_shard_key(shard))
        asked = (committed(b, GROUPS[shard], topic, offset) for offset in range(20))
        assert set(await asyncio.gather(*asked)) == {Code.NOT_COORDINATOR}
        assert site.count(Get, group_shard_key(shard)) == before + 1


@virtual_story
async def test_a_commit_does_not_wait_for_ever() -> None:
    site = Site()
    topic = site.create("t")
    machine = Machine(site)
    async with broker(site, machine=machine, heartbeat_ms=BEAT_MS) as a:
        async with broker(site, heartbeat_ms=BEAT_MS) as b:
            await until(lambda: bool(held(b)) and held(a) | held(b) == ALL)
            shard = min(held(b))
            machine.fails = lambda op: "/groups/" in getattr(op, "key", "")
        began_s = asyncio.get_running_loop().time()
        await until(lambda: not a.services.coordinator.held() or shard not in held(a))
        assert await committed(a, GROUPS[shard], topic, 1) is not Code.NONE
        assert asyncio.get_running_loop().time() - began_s < WAIT_S + 2
        machine.fails = lambda _: False
        await until(lambda: held(a) == ALL)
        assert await committed(a, GROUPS[shard], topic, 1) is Code.NONE
