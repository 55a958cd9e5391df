"""Two brokers on one storage: who has the groups, who says so, and who has them in the end."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from lakelog.broker import Broker, Listener
from lakelog.broker.coordinator import Coordinator
from lakelog.broker.settings import CoordinatorSettings
from lakelog.coordination import BucketGroups
from lakelog.errors import CorruptError, FencedError, UnavailableError
from lakelog.groups import Code, Commit, GroupRules, NewOffset, Offsets, TopicIdPartition
from lakelog.host import new_id
from lakelog.names import BROKERS_PREFIX, GROUPS_PREFIX, pulse_key
from lakelog.store import ListPage, MemoryStore, Op, PutIfAbsent, PutIfMatch, run, working
from tests.patience import until
from tests.unit.broker.site import Site, batch, broker, connect, story
from tests.virtual_time import VirtualClock, pass_time, run_virtually

QUICK = CoordinatorSettings(
    commit_interval_ms=0,
    look_interval_ms=20,
    pulse_ms=20,
    gone_ms=1_000,
    rules=GroupRules(initial_rebalance_delay_ms=0),
)
TOPIC = b"0123456789abcdef"


def commit(offset: int) -> Commit:
    return Commit(offsets=(NewOffset(TopicIdPartition(TOPIC, 0), offset),))


def offset_of(coordinator: Coordinator) -> int:
    found = coordinator.offsets("g")
    assert isinstance(found, Offsets), found
    return found.rows[TopicIdPartition(TOPIC, 0)].offset


class Machine:
    """A broker's machine, from which the plug can be pulled: nothing it sends arrives any more."""

    def __init__(self, store: MemoryStore) -> None:
        self.store = store
        self.is_dead = False

    async def perform(self, op: Op) -> Any:
        if self.is_dead:
            await asyncio.Event().wait()
        return self.store.perform(op)

    def coordinator(self, settings: CoordinatorSettings = QUICK) -> Coordinator:
        return Coordinator(
            BucketGroups(new_id(), shards=2),
            self.perform,
            clock=VirtualClock(),
            ids=new_id,
            settings=replace(settings, drain_ms=50),
        )


@asynccontextmanager
async def two(store: MemoryStore) -> AsyncIterator[tuple[Coordinator, Coordinator, Machine]]:
    """A broker, and a second one that has taken its groups, with its machine."""
    machine = Machine(store)
    async with Machine(store).coordinator() as first:
        await first.loaded()
        assert (await first.commit("g", commit(3))).codes == (Code.NONE,)
        second = machine.coordinator()
        await second.load("elsewhere:9092")
        assert offset_of(second) == 3

        async def is_lost() -> bool:
            return (
                await first.confirm(["g"]) == {"g": Code.NOT_COORDINATOR}
                and "at elsewhere:9092" in first.trouble()
            )

        await until(is_lost)
        yield first, second, machine
        machine.is_dead = True
        await second.close()


def test_a_broker_whose_groups_were_taken_says_by_whom_and_does_not_take_them_back() -> None:
    async def main() -> None:
        async with two(MemoryStore()) as (first, second, _):
            assert "another broker at elsewhere:9092 (it started at 20" in first.trouble()
            assert "stop one of the two" in first.trouble()
            await pass_time(2 * QUICK.gone_ms / 1000)
            assert (await first.commit("g", commit(4))).codes == (Code.NOT_COORDINATOR,)
            assert (await second.commit("g", commit(5))).codes == (Code.NONE,)
            assert second.trouble() == ""

    run_virtually(main())


def test_a_broker_that_took_groups_and_was_killed_gives_them_back_within_a_bound() -> None:
    async def main() -> None:
        async with two(MemoryStore()) as (first, second, machine):
            assert (await second.commit("g", commit(5))).codes == (Code.NONE,)
            machine.is_dead = True

            async def is_back() -> bool:
                is_mine = (await first.commit("g", commit(6))).codes == (Code.NONE,)
                return is_mine and first.trouble() == ""

            await until(is_back)
            assert offset_of(first) == 6

    run_virtually(main())


def test_a_broker_that_took_groups_and_stops_gives_them_back_at_once() -> None:
    async def main() -> None:
        store = MemoryStore()
        slow = replace(QUICK, gone_ms=3_600_000)
        async with Machine(store).coordinator(slow) as first:
            await first.loaded()
            async with Machine(store).coordinator(slow) as second:
                await second.loaded()
                assert (await first.commit("g", commit(4))).codes == (Code.NOT_COORDINATOR,)
                assert (await second.commit("g", commit(5))).codes == (Code.NONE,)

            async def is_back() -> bool:
                return isinstance(first.offsets("g"), Offsets)

            await until(is_back)
            assert offset_of(first) == 5
        assert not store.perform(ListPage(BROKERS_PREFIX)).objects

    run_virtually(main())


def test_a_broker_that_slept_while_its_groups_were_taken_back_changes_nothing() -> None:
    async def main() -> None:
        async with two(MemoryStore()) as (first, second, machine):
            machine.is_dead = True

            async def is_back() -> bool:
                return (await first.commit("g", commit(6))).codes == (Code.NONE,)

            await until(is_back)
            # It wakes up, and believes that it still has them.
            assert offset_of(second) == 3
            store = machine.store
            before = {one.key: one.etag for one in store.perform(ListPage(GROUPS_PREFIX)).objects}
            held = second._shards[0].ledger._claimed  # type: ignore[union-attr]
            with pytest.raises(FencedError, match="another broker has taken it over"):
                run(second._store.save(held, {}), working(store.perform))
            after = {one.key: one.etag for one in store.perform(ListPage(GROUPS_PREFIX)).objects}
            assert before == after
            assert (await first.commit("g", commit(7))).codes == (Code.NONE,)

    run_virtually(main())


def test_a_pulse_that_is_none_is_said_to_be() -> None:
    store, groups = MemoryStore(), BucketGroups(b"a" * 16)
    run(groups.beat("here:1", 5), working(store.perform))
    found = run(groups.pulse(b"a" * 16), working(store.perform))
    assert found is not None
    assert (found.where, found.since_ms) == ("here:1", 5)
    store.perform(PutIfAbsent(pulse_key(b"b" * 16), b'{"format":1}'))
    with pytest.raises(CorruptError, match="no pulse"):
        run(groups.pulse(b"b" * 16), working(store.perform))


# ---------------------------------------------------------------------------- whole brokers


def taken(site: Site) -> list[str]:
    """Return what was written to shards of groups."""
    puts = [op.key for op in site.ops if isinstance(op, PutIfAbsent | PutIfMatch)]
    return [key for key in puts if key.startswith(GROUPS_PREFIX)]


@story
async def test_a_broker_that_cannot_have_its_port_takes_nothing_from_the_one_that_has_it() -> None:
    site = Site()
    topic = site.create("t")
    async with broker(site) as running:
        client = await connect(running)
        new = Commit(offsets=(NewOffset(TopicIdPartition(topic, 0), 7),))
        assert (await running.services.coordinator.commit("g", new)).codes == (Code.NONE,)
        site.ops.clear()
        listener = Listener(port=running.ports["PLAINTEXT"])
        with pytest.raises(UnavailableError, match="choose another address with --listen"):
            async with broker(site, listeners=(listener,)):
                raise AssertionError("it has started")
        assert taken(site) == []
        assert (await running.services.coordinator.commit("g", new)).codes == (Code.NONE,)
        assert running.is_ready() == (True, "ready")
        await client.close()


@story
async def test_a_broker_that_cannot_read_its_lanes_takes_no_groups_either() -> None:
    site = Site()
    async with broker(site) as running:
        site.ops.clear()
        site.fails = lambda op: "/topics/" in getattr(op, "prefix", "")
        with pytest.raises(UnavailableError, match="the store is out"):
            async with broker(site):
                raise AssertionError("it has started")
        assert taken(site) == []
        site.fails = lambda _: False
        assert running.is_ready() == (True, "ready")


async def committed(running: Broker, topic: bytes, offset: int) -> bool:
    new = Commit(offsets=(NewOffset(TopicIdPartition(topic, 0), offset),))
    return (await running.services.coordinator.commit("g", new)).codes == (Code.NONE,)


@story
async def test_a_consumer_goes_on_after_a_second_broker_came_and_was_killed() -> None:
    site = Site()
    topic = site.create("t")
    async with broker(site, groups=QUICK) as first:
        client = await connect(first)
        assert (await client.produce("t", 0, batch(b"a", b"b"))).error_code == 0
        assert await committed(first, topic, 1)
        second_machine = Machine(site)
        second = second_machine.coordinator()
        await second.load("elsewhere:9092")

        async def is_told() -> bool:
            return not first.is_ready()[0]

        await until(is_told)
        assert "stop one of the two" in first.is_ready()[1]
        assert not await committed(first, topic, 2)
        second_machine.is_dead = True

        async def is_back() -> bool:
            return await committed(first, topic, 2) and first.is_ready() == (True, "ready")

        await until(is_back)
        found = await client.ask(
            9, 5, group_id="g", topics=[{"name": "t", "partition_indexes": [0]}]
        )
        assert found.topics[0].partitions[0].committed_offset == 2
        await second.close()
        await client.close()
