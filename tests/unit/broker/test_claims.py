"""Several brokers on one storage: who has which groups, who gives them up, and who takes them.

A story has groups enough that every shard has some, and commits to each of them again and again,
wherever FindCoordinator sends it: whatever becomes of brokers, no commit that was acknowledged goes
back.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count

import pytest
from kio.schema.errors import ErrorCode

from lakelog.broker import Broker, Listener
from lakelog.coordination import (
    RELEASED,
    SHARDS,
    BucketGroups,
    ClaimedShard,
    State,
    decode_member,
    decode_shard,
    shard_of,
)
from lakelog.errors import CorruptError, FencedError, UnavailableError
from lakelog.groups import Code, Commit, Heartbeat, NewOffset, Offsets, TopicIdPartition
from lakelog.host import new_id
from lakelog.names import GROUPS_PREFIX, group_shard_key, member_key, pulse_key
from lakelog.store import Get, MemoryStore, Op, PutIfAbsent, PutIfMatch, run, working
from tests.patience import until
from tests.unit.broker.site import (
    Client,
    Machine,
    Site,
    batch,
    broker,
    connect,
    is_membership,
    story,
    virtual_story,
)
from tests.virtual_time import pass_time

BEAT_MS = 500
ALL = set(range(SHARDS))
LANES = {0, 1, 2, 3}

GROUPS = {
    shard: next(name for n in count() if shard_of(name := f"g{n}", SHARDS) == shard)
    for shard in sorted(ALL)
}
"""A group of each shard."""


def held(running: Broker) -> set[int]:
    return set(running.services.coordinator.held())


def led(running: Broker) -> set[int]:
    return {lane for lane in LANES if running.services.cluster.leads(lane)}


def run_of(running: Broker) -> bytes:
    return running.services.cluster.node.member.run


def stored(site: Site, shard: int) -> ClaimedShard:
    return decode_shard(site.perform(Get(group_shard_key(shard))).body, shard)


def holders(site: Site) -> set[bytes]:
    return {stored(site, shard).claim.broker for shard in ALL}


def claims_of(site: Site) -> dict[int, list[bytes]]:
    """Return the runs that have had each shard, in turn; RELEASED where it was given up."""
    found: dict[int, list[bytes]] = {shard: [] for shard in ALL}
    for op in site.ops:
        if isinstance(op, PutIfAbsent | PutIfMatch) and op.key.startswith(GROUPS_PREFIX):
            shard = int(op.key.removeprefix(GROUPS_PREFIX))
            assert isinstance(op.body, bytes)
            by = decode_shard(op.body, shard).claim.broker
            if found[shard][-1:] != [by]:
                found[shard].append(by)
    return found


def commit(topic: bytes, offset: int) -> Commit:
    return Commit(offsets=(NewOffset(TopicIdPartition(topic, 0), offset),))


async def committed(running: Broker, group: str, topic: bytes, offset: int) -> Code:
    answer = await running.services.coordinator.commit(group, commit(topic, offset))
    return answer.codes[0]


async def found_at(client: Client, group: str) -> tuple[ErrorCode, int]:
    """Return what FindCoordinator says, and the port that it names."""
    answer = await client.ask(10, 4, key_type=0, coordinator_keys=[group])
    row = answer.coordinators[0]
    return row.error_code, row.port


async def fetched(client: Client, group: str) -> tuple[ErrorCode, int]:
    """Return what OffsetFetch says."""
    topics = [{"name": "t", "partition_indexes": [0]}]
    answer = await client.ask(9, 7, group_id=group, topics=topics, require_stable=False)
    rows = [row for topic in answer.topics for row in topic.partitions]
    return answer.error_code, rows[0].committed_offset if rows else -1


class Consumers:
    """Those who commit: one for each group, again and again, at whom they are sent to."""

    def __init__(self, topic: bytes) -> None:
        self._topic = topic
        self.brokers: list[Broker] = []
        """Those that may be asked for the way."""
        self.offsets = dict.fromkeys(GROUPS.values(), -1)
        """The last commit of each that was acknowledged."""
        self.waited_s = dict.fromkeys(GROUPS.values(), 0.0)
        """The longest time between two of them."""

    async def consume(self, group: str) -> None:
        loop = asyncio.get_running_loop()
        offset, since_s = 0, loop.time()
        while True:
            found = await self.brokers[0].services.coordinator.find(group)
            for one in self.brokers:
                if one.services.cluster.node_id == found:
                    code = await committed(one, group, self._topic, offset)
                    if code is Code.NONE:
                        self.offsets[group], offset = offset, offset + 1
                        self.waited_s[group] = max(self.waited_s[group], loop.time() - since_s)
                        since_s = loop.time()
            await pass_time(0.1)

    def check(self) -> None:
        """See that no commit went back, wherever the groups are now."""
        for group, offset in self.offsets.items():
            told = [one.services.coordinator.offsets(group) for one in self.brokers]
            (found,) = [one for one in told if isinstance(one, Offsets)]
            assert found.rows[TopicIdPartition(self._topic, 0)].offset >= offset >= 0


@asynccontextmanager
async def consumers(topic: bytes, *brokers: Broker) -> AsyncIterator[Consumers]:
    """Commit while a story is told; at its end, see that no commit went back."""
    them = Consumers(topic)
    them.brokers = list(brokers)
    tasks = [asyncio.create_task(them.consume(group)) for group in GROUPS.values()]
    try:
        yield them
    finally:
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(one, asyncio.CancelledError) for one in ended), ended
    them.check()


async def takes(is_so: Callable[[], bool]) -> float:
    """Return how many seconds it takes until something is so."""
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    await until(is_so)
    return loop.time() - began_s


# ---------------------------------------------------------------------------- coming and going


@virtual_story
async def test_a_second_broker_is_given_its_part_and_takes_nothing() -> None:
    site = Site(lanes=4)
    topic = site.create("t", 4)
    async with broker(site, heartbeat_ms=BEAT_MS) as first, consumers(topic, first) as them:
        assert (held(first), led(first)) == (ALL, LANES)
        await pass_time(0.5)
        async with broker(site, heartbeat_ms=BEAT_MS) as second:
            them.brokers.append(second)
            await until(lambda: held(second) and held(first) | held(second) == ALL)
            assert not held(first) & held(second)
            assert min(len(held(one)) for one in (first, second)) >= 3
            await until(lambda: led(second) and not led(first) & led(second))
            assert led(first) | led(second) == LANES
            await pass_time(1)
            assert max(them.waited_s.values()) < 1.5
            a, b = run_of(first), run_of(second)
            moved = claims_of(site)
            assert {shard for shard in ALL if moved[shard] == [a]} == held(first)
            assert {shard for shard in ALL if moved[shard] == [a, RELEASED, b]} == held(second)
            clients = [await connect(one) for one in (first, second)]
            for shard, group in GROUPS.items():
                at = first if shard in held(first) else second
                for client in clients:
                    where = await found_at(client, group)
                    assert where == (ErrorCode.none, at.ports["PLAINTEXT"])
            for client in clients:
                await client.close()
            them.check()
            them.brokers.remove(second)
        await until(lambda: held(first) == ALL)
        await pass_time(0.5)


@virtual_story
async def test_a_broker_that_stops_gives_its_groups_up_and_another_takes_them_at_once() -> None:
    site = Site(lanes=4)
    topic = site.create("t", 4)
    loop = asyncio.get_running_loop()
    async with broker(site, heartbeat_ms=BEAT_MS) as first, consumers(topic, first) as them:
        async with broker(site, heartbeat_ms=BEAT_MS) as second:
            them.brokers.append(second)
            await until(lambda: held(second) and held(first) | held(second) == ALL)
            given, run_ = held(second), run_of(second)
            began_s = loop.time()
        them.brokers.remove(second)
        assert led(first) == LANES
        await until(lambda: held(first) == ALL)
        assert loop.time() - began_s < 2 * BEAT_MS / 1000 + 0.6
        moved = claims_of(site)
        assert all(moved[shard][-3:] == [run_, RELEASED, run_of(first)] for shard in given)
        assert decode_member(site.perform(Get(member_key(2))).body, 2).state is State.LEFT
        await pass_time(0.5)


@virtual_story
async def test_what_a_killed_broker_had_another_has_after_three_beats() -> None:
    site = Site(lanes=4)
    topic = site.create("t", 4)
    machine = Machine(site)
    async with broker(site) as first, broker(site, machine=machine) as second:
        await until(lambda: held(second) and held(first) | held(second) == ALL)
        await until(lambda: led(second) and not led(first) & led(second))
        victim = GROUPS[min(held(second))]
        assert await committed(second, victim, topic, 7) is Code.NONE
        await pass_time(3)
        had, run_ = held(second), run_of(second)
        machine.kill()
        waited_s = await takes(lambda: held(first) == ALL)
        assert 6 < waited_s < 13.5
        await until(lambda: led(first) == LANES)
        moved = claims_of(site)
        assert all(moved[shard][-2:] == [run_, run_of(first)] for shard in had)
        client = await connect(first)
        assert await found_at(client, victim) == (ErrorCode.none, first.ports["PLAINTEXT"])
        assert await fetched(client, victim) == (ErrorCode.none, 7)
        for partition in range(4):
            assert (await client.produce("t", partition, batch(b"x"))).error_code == 0
        await client.close()


@virtual_story
async def test_a_broker_that_slept_finds_out_that_it_was_replaced() -> None:
    site = Site(lanes=4)
    topic = site.create("t", 4)
    machine = Machine(site)
    async with (
        broker(site, heartbeat_ms=BEAT_MS) as first,
        broker(site, heartbeat_ms=BEAT_MS, machine=machine) as second,
    ):
        await until(lambda: held(second) and held(first) | held(second) == ALL)
        shard = min(held(second))
        group = GROUPS[shard]
        assert await committed(second, group, topic, 7) is Code.NONE
        machine.sleep()
        await until(lambda: held(first) == ALL)
        assert await committed(first, group, topic, 9) is Code.NONE
        before = stored(site, shard)
        assert shard in held(second), "it knows of nothing"
        client = await connect(second)
        machine.wake()
        # What it remembers is 7; a consumer that was told so would go back.
        assert await fetched(client, group) == (ErrorCode.not_coordinator, -1)
        beat = Heartbeat(member_id="m", generation=1)
        coordinator = second.services.coordinator
        assert await coordinator.heartbeat(group, beat) is Code.NOT_COORDINATOR
        assert await committed(second, group, topic, 8) is Code.NOT_COORDINATOR
        assert await found_at(client, group) == (ErrorCode.none, first.ports["PLAINTEXT"])
        assert stored(site, shard) == before
        # It lives again, and so gets back what is its part; by then it is given up.
        await until(lambda: shard in held(second))
        assert claims_of(site)[shard][-3:] == [run_of(first), RELEASED, run_of(second)]
        assert await fetched(client, group) == (ErrorCode.none, 9)
        await client.close()


@virtual_story
async def test_a_broker_that_hears_of_nobody_keeps_its_groups() -> None:
    """It can neither beat nor list. Its claims are its own until somebody takes them."""
    site = Site(lanes=4)
    topic = site.create("t", 4)
    machine = Machine(site)
    async with broker(site, heartbeat_ms=BEAT_MS, machine=machine) as running:
        machine.fails = is_membership
        async with consumers(topic, running) as them:
            await pass_time(5)
            assert max(them.waited_s.values()) < 0.5
            assert (held(running), led(running)) == (ALL, LANES)
            assert "the list of brokers could not be read for" in running.is_ready()[1]
            machine.fails = lambda _: False
            await until(lambda: running.is_ready() == (True, "ready"))


# ---------------------------------------------------------------------------- one node id twice


@virtual_story
async def test_a_broker_whose_node_id_another_process_takes_is_lost_and_leads_nothing() -> None:
    site = Site(lanes=4)
    topic = site.create("t", 4)
    async with broker(site, heartbeat_ms=BEAT_MS, node_id=7) as first:
        lost = asyncio.create_task(first.services.cluster.lost())
        assert await committed(first, GROUPS[0], topic, 5) is Code.NONE
        await pass_time(1)
        assert not lost.done()
        async with broker(site, heartbeat_ms=BEAT_MS, node_id=7) as second:
            # It need not wait for anybody: the run that had the node id is none any more.
            assert await takes(lambda: held(second) == ALL) < 0.6
            assert led(second) == LANES
            assert isinstance(await lost, FencedError)
            assert "another broker was started with node id 7" in str(await lost)
            assert led(first) == set()
            why = "another process has taken the node id of this broker"
            assert first.is_ready() == (False, why)
            await until(lambda: held(first) == set())
            assert await committed(first, GROUPS[0], topic, 6) is Code.NOT_COORDINATOR
            client = await connect(first)
            assert await fetched(client, GROUPS[0]) == (ErrorCode.not_coordinator, -1)
            await client.close()
            assert holders(site) == {run_of(second)}
            await pass_time(2)
            assert holders(site) == {run_of(second)}, "nobody fights for them"
            assert second.is_ready() == (True, "ready")
            told = decode_member(site.perform(Get(member_key(7))).body, 7)
            assert (told.run, told.state) == (run_of(second), State.SERVING)


@virtual_story
async def test_one_that_was_replaced_does_not_say_farewell_for_its_successor() -> None:
    site = Site(lanes=4)
    async with broker(site, heartbeat_ms=BEAT_MS, node_id=7) as second:
        pass
    async with broker(site, heartbeat_ms=BEAT_MS, node_id=7) as first:
        starting = broker(site, heartbeat_ms=BEAT_MS, node_id=7)
        second = await starting.__aenter__()
        await first.services.cluster.lost()
        await until(lambda: held(second) == ALL)
    told = decode_member(site.perform(Get(member_key(7))).body, 7)
    assert (told.run, told.state) == (run_of(second), State.SERVING)
    assert holders(site) == {run_of(second)}
    await starting.__aexit__(None, None, None)


# ---------------------------------------------------------------------------- version 0.1.0


@virtual_story
async def test_a_broker_of_version_0_1_0_is_not_robbed_while_it_gives_signs_of_life() -> None:
    """It is no member: it has claims and a pulse, which it gives every ten seconds."""
    site = Site(lanes=4)
    topic = site.create("t", 4)
    old_run = new_id()
    old = BucketGroups(old_run)
    for shard in range(SHARDS):
        site.do(old.claim(shard, None if shard == 0 else SHARDS))
    site.do(old.beat("old.example:9092", 0))
    async with broker(site, heartbeat_ms=BEAT_MS) as running:
        assert held(running) == set()
        for _ in range(3):
            await pass_time(10)
            site.do(old.beat("old.example:9092", 0))
            assert held(running) == set()
            assert holders(site) == {old_run}
        assert await committed(running, GROUPS[0], topic, 1) is Code.NOT_COORDINATOR
        # It is looked for in turn, and would take what gives no sign.
        assert site.do(old.pulse(run_of(running))) is not None
        assert 30 <= await takes(lambda: held(running) == ALL) < 31.5
        assert await committed(running, GROUPS[0], topic, 1) is Code.NONE
        run_ = run_of(running)
    assert site.do(old.pulse(run_)) is None, "it leaves no sign behind"


@virtual_story
async def test_a_broker_of_version_0_1_0_that_has_left_is_not_waited_for() -> None:
    site = Site(lanes=4)
    old = BucketGroups(new_id())
    for shard in range(SHARDS):
        site.do(old.claim(shard, None if shard == 0 else SHARDS))
    site.do(old.beat("old.example:9092", 0))
    site.do(old.leave())
    async with broker(site, heartbeat_ms=BEAT_MS) as running:
        assert held(running) == ALL


@virtual_story
async def test_a_broker_that_waits_for_groups_ends_when_the_store_does_not_answer() -> None:
    site = Site(lanes=4)
    old = BucketGroups(new_id())
    for shard in range(SHARDS):
        site.do(old.claim(shard, None if shard == 0 else SHARDS))
    site.do(old.beat("old.example:9092", 0))
    machine, loop = Machine(site), asyncio.get_running_loop()
    async with broker(site, heartbeat_ms=BEAT_MS, machine=machine) as running:
        machine.kill()
        await pass_time(2)  # By now it has asked for every shard, and has no answer.
        assert held(running) == set()
        began_s = loop.time()
    assert loop.time() - began_s < 60


def test_a_pulse_that_is_none_is_said_to_be() -> None:
    store, groups = MemoryStore(), BucketGroups(b"a" * 16)
    run(groups.beat("here:1", 5), working(store.perform))
    found = run(groups.pulse(b"a" * 16), working(store.perform))
    assert found is not None
    assert (found.where, found.since_ms) == ("here:1", 5)
    store.perform(PutIfAbsent(pulse_key(b"b" * 16), b'{"format":1}'))
    with pytest.raises(CorruptError, match="no pulse"):
        run(groups.pulse(b"b" * 16), working(store.perform))


# ---------------------------------------------------------------------------- who cannot start


def taken(site: Site) -> list[str]:
    """Return what was written to shards of groups, and what was said of brokers."""
    puts = [*site.ops, *site.member_ops]
    keys = [op.key for op in puts if isinstance(op, PutIfAbsent | PutIfMatch)]
    return [key for key in keys if key.startswith(GROUPS_PREFIX) or key == member_key(2)]


def forget(site: Site) -> None:
    site.ops.clear()
    site.member_ops.clear()


@story
async def test_a_broker_that_cannot_have_its_port_takes_nothing_from_the_one_that_has_it() -> None:
    site = Site()
    topic = site.create("t")
    async with broker(site) as running:
        assert await committed(running, "g", topic, 7) is Code.NONE
        forget(site)
        listener = Listener(port=running.ports["PLAINTEXT"])
        with pytest.raises(UnavailableError, match="choose another address with --listen"):
            async with broker(site, listeners=(listener,)):
                raise AssertionError("it has started")
        assert taken(site) == []
        assert await committed(running, "g", topic, 7) is Code.NONE
        assert running.is_ready() == (True, "ready")


@virtual_story
async def test_a_broker_that_cannot_read_its_topics_takes_no_groups_either() -> None:
    site = Site()
    async with broker(site) as running:
        forget(site)
        machine = Machine(site)
        machine.fails = lambda op: "/topics/" in getattr(op, "prefix", "")
        with pytest.raises(UnavailableError, match="the network is out"):
            async with broker(site, machine=machine):
                raise AssertionError("it has started")
        assert [key for key in taken(site) if key.startswith(GROUPS_PREFIX)] == []
        assert decode_member(site.perform(Get(member_key(2))).body, 2).state is State.LEFT
        assert running.is_ready() == (True, "ready")


@virtual_story
async def test_a_broker_that_cannot_become_a_member_does_not_start_and_says_so_soon() -> None:
    site = Site()
    machine = Machine(site)
    machine.fails = is_membership
    began_s = asyncio.get_running_loop().time()
    with pytest.raises(UnavailableError, match="the network is out"):
        async with broker(site, machine=machine):
            raise AssertionError("it has started")
    assert asyncio.get_running_loop().time() - began_s < 15
    assert taken(site) == []


@virtual_story
async def test_a_broker_that_gets_no_answer_at_first_becomes_a_member_none_the_less() -> None:
    site = Site()
    machine = Machine(site)
    asked: list[Op] = []

    def fails(op: Op) -> bool:
        """Every other request about brokers is lost, ten times."""
        if is_membership(op) and len(asked) < 20:
            asked.append(op)
            return len(asked) % 2 == 1
        return False

    machine.fails = fails
    async with broker(site, machine=machine) as running:
        assert running.is_ready() == (True, "ready")
        assert held(running) == ALL
