"""Laws of redirects, with whole brokers on one storage: whoever does not lead says who does.

Leading is a hint and no safety, so these laws are about what clients are told: the right broker, by
a list that is no older than the question, and by epochs that never go down.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from lakelog.broker import Broker
from lakelog.catalog import add_lanes, create_topic, read_topic
from lakelog.coordination.node import LOOKS_AT_ONCE
from lakelog.journal import probe
from lakelog.log import read
from lakelog.store import ListPage, Op, PutIfAbsent, PutIfMatch
from tests.patience import HANGS_S, until
from tests.unit.broker.site import (
    Client,
    Machine,
    Site,
    batch,
    broker,
    connect,
    is_membership,
    records,
    virtual_story,
)
from tests.virtual_time import pass_time, run_virtually

NONE, NOT_LEADER = ErrorCode.none, ErrorCode.not_leader_or_follower
UNKNOWN = ErrorCode.unknown_topic_or_partition
LANES = {0, 1, 2, 3}
BEAT_MS = 500
SELDOM_MS = 60_000
"""Between beats, and lists: what is listed meanwhile is listed because somebody asked."""


def is_list(op: Op) -> bool:
    return is_membership(op) and isinstance(op, ListPage)


def is_bundle(op: Op) -> bool:
    return isinstance(op, PutIfAbsent) and op.key.endswith(".bundle")


def led(running: Broker) -> set[int]:
    return {lane for lane in LANES if running.services.cluster.leads(lane)}


@dataclass(slots=True)
class Node:
    """A broker, the machine that it runs on, and a client of it."""

    running: Broker
    machine: Machine
    client: Client

    @property
    def id(self) -> int:
        return self.running.services.cluster.node_id

    @property
    def port(self) -> int:
        return self.running.ports["PLAINTEXT"]

    @property
    def led(self) -> set[int]:
        return led(self.running)

    def epoch(self, lane: int) -> int:
        return self.running.services.cluster.node.leadership.epochs[lane]


@asynccontextmanager
async def node(site: Site, **settings: Any) -> AsyncIterator[Node]:
    """Run one broker of several. Its client stays until the broker has ended."""
    machine = Machine(site)
    async with AsyncExitStack() as stack, broker(site, machine=machine, **settings) as running:
        client = await connect(running)
        stack.push_async_callback(client.close)
        yield Node(running, machine, client)


def site_with_topic() -> Site:
    """Return a store with a topic that has a partition in each of four lanes."""
    site = Site(lanes=len(LANES))
    site.create("t", len(LANES))
    return site


@asynccontextmanager
async def two(site: Site, **settings: Any) -> AsyncIterator[tuple[Node, Node]]:
    """Run two brokers, each of which leads some lanes, and knows which."""
    async with node(site, **settings) as a, node(site, **settings) as b:
        await until_divided(a, b)
        yield a, b


async def until_divided(a: Node, b: Node) -> None:
    """Wait until one of two brokers leads each lane, and both know it."""

    def are() -> bool:
        return bool(a.led and b.led and not a.led & b.led and a.led | b.led == LANES)

    async with asyncio.timeout(HANGS_S):
        while not are():
            # Those that beat seldom look when they are asked.
            await asyncio.gather(*(one.running.services.cluster.look() for one in (a, b)))
            await pass_time(0.05)


def lanes_of(running: Broker, name: str = "t") -> dict[int, int]:
    """Return a partition of each lane."""
    entry = running.services.catalog.known(name)
    assert entry is not None
    return {entry.topic.lane(index): index for index in range(entry.topic.partitions)}


# ---------------------------------------------------------------------------- asked of all


@virtual_story
async def test_sizes_that_all_brokers_tell_add_up() -> None:
    async with two(site_with_topic()) as nodes:
        told: list[int] = []
        for one in nodes:
            (result,) = (await one.client.ask(35, 4, topics=None)).results
            told += [row.partition_index for topic in result.topics for row in topic.partitions]
        assert sorted(told) == sorted(lanes_of(nodes[0].running).values())


# ---------------------------------------------------------------------------- asked, wrongly


async def produce(client: Client, partition: int, name: str = "t") -> ErrorCode:
    return ErrorCode((await client.produce(name, partition, batch(b"x"))).error_code)


async def fetch(client: Client, partition: int) -> ErrorCode:
    return ErrorCode((await client.fetch_one("t", partition, 0)).error_code)


async def list_offsets(client: Client, partition: int) -> ErrorCode:
    return ErrorCode((await client.list_offset("t", partition, -1)).error_code)


async def delete_records(client: Client, partition: int) -> ErrorCode:
    part = {"partition_index": partition, "offset": 0}
    topics = [{"name": "t", "partitions": [part]}]
    found = await client.ask(21, 2, topics=topics, timeout=1_000)
    return ErrorCode(found.topics[0].partitions[0].error_code)


async def end_of_epoch(client: Client, partition: int) -> ErrorCode:
    part = {"partition": partition, "current_leader_epoch": -1, "leader_epoch": 0}
    topics = [{"topic": "t", "partitions": [part]}]
    found = await client.ask(23, 4, replica_id=-1, topics=topics)
    return ErrorCode(found.topics[0].partitions[0].error_code)


async def describe_producers(client: Client, partition: int) -> ErrorCode:
    found = await client.ask(61, 0, topics=[{"name": "t", "partition_indexes": [partition]}])
    return ErrorCode(found.topics[0].partitions[0].error_code)


Asks = Callable[[Client, int], Any]

APIS: dict[str, Asks] = {
    "Produce": produce,
    "Fetch": fetch,
    "ListOffsets": list_offsets,
    "DeleteRecords": delete_records,
    "OffsetForLeaderEpoch": end_of_epoch,
    "DescribeProducers": describe_producers,
}

every_api = pytest.mark.parametrize("ask", APIS.values(), ids=APIS.keys())


@every_api
def test_the_leader_answers_and_every_other_broker_says_that_it_is_not(ask: Asks) -> None:
    async def run() -> None:
        site = site_with_topic()
        async with two(site, heartbeat_ms=BEAT_MS) as (a, b):
            for lane, partition in lanes_of(a.running).items():
                for one in (a, b):
                    told = await ask(one.client, partition)
                    assert told is (NONE if lane in one.led else NOT_LEADER)
            redirects = [one.running.services.metrics.redirects for one in (a, b)]
            assert redirects == [len(b.led), len(a.led)]
            assert await ask(a.client, 4) is UNKNOWN

    run_virtually(run())


@every_api
def test_that_another_broker_leads_is_not_said_before_the_members_were_listed(ask: Asks) -> None:
    async def run() -> None:
        site = site_with_topic()
        async with two(site, heartbeat_ms=SELDOM_MS) as (a, b):
            theirs, mine = (lanes_of(a.running)[min(one.led)] for one in (b, a))
            a.machine.sleep(is_list)
            asked = asyncio.create_task(ask(a.client, theirs))
            await pass_time(5)
            assert not asked.done()
            a.machine.wake()
            assert await asked is NOT_LEADER
            await pass_time(0.01)
            a.machine.fails = is_list
            assert await ask(a.client, theirs) is NOT_LEADER, "it does not lead, whoever does"
            assert await ask(a.client, mine) is NONE, "what is led here needs no list"

    run_virtually(run())


@virtual_story
async def test_a_leader_is_named_by_a_list_or_not_at_all() -> None:
    site = site_with_topic()
    async with two(site, heartbeat_ms=SELDOM_MS) as (a, b):
        partition = lanes_of(a.running)[min(b.led)]
        for named in (b.id, -1, b.id):
            await pass_time(0.01)
            a.machine.fails = is_list if named < 0 else lambda _: False
            row = await a.client.produce("t", partition, batch(b"x"))
            assert (row.error_code, row.current_leader.leader_id) == (NOT_LEADER, named)
            await pass_time(0.01)
            found = await a.client.fetch_one("t", partition, 0)
            assert (found.error_code, found.current_leader.leader_id) == (NOT_LEADER, named)


def lists(site: Site) -> int:
    return sum(map(is_list, site.member_ops))


@virtual_story
async def test_a_list_answers_only_those_who_asked_before_it_began_and_all_of_them() -> None:
    site = site_with_topic()
    async with two(site, heartbeat_ms=SELDOM_MS) as (a, b), AsyncExitStack() as stack:
        partition = lanes_of(a.running)[min(b.led)]
        clients = [await connect(a.running) for _ in range(20)]
        for client in clients:
            stack.push_async_callback(client.close)
        await pass_time(1)
        before = lists(site)
        site.freezes = is_list
        site.open.clear()
        first = [asyncio.create_task(produce(one, partition)) for one in clients[:10]]
        await until(lambda: lists(site) == before + 1)
        later = [asyncio.create_task(produce(one, partition)) for one in clients[10:]]
        await pass_time(0.1)
        seen: list[int] = []
        for one in later:
            one.add_done_callback(lambda _: seen.append(lists(site) - before))
        site.open.set()
        assert set(await asyncio.gather(*first, *later)) == {NOT_LEADER}
        await pass_time(0.01)
        assert lists(site) == before + 2
        assert seen == [2] * 10


@virtual_story
async def test_however_many_ask_the_wrong_broker_it_lists_four_times_a_second() -> None:
    site = site_with_topic()
    async with two(site, heartbeat_ms=SELDOM_MS) as (a, b):
        partition = lanes_of(a.running)[min(b.led)]
        loop = asyncio.get_running_loop()
        await pass_time(2)
        before, end_s = lists(site), loop.time() + 3
        while loop.time() < end_s:
            assert await produce(a.client, partition) is NOT_LEADER
            await pass_time(0.01)
        assert 12 <= lists(site) - before <= 12 + LOOKS_AT_ONCE


# ---------------------------------------------------------------------------- where to go instead


def redirected(found: Any, row: Any) -> tuple[int | None, int | None, list[tuple[int, int]]]:
    """Return leader, epoch and addresses that an answer tells in its tagged fields."""
    leader = getattr(row, "current_leader", None)
    endpoints = getattr(found, "node_endpoints", ())
    return (
        None if leader is None else leader.leader_id,
        None if leader is None else leader.leader_epoch,
        [(one.node_id, one.port) for one in endpoints],
    )


@pytest.mark.parametrize("version", range(3, 14))
def test_a_producer_is_told_where_to_go_in_every_version_that_can_say_it(version: int) -> None:
    async def run() -> None:
        site = site_with_topic()
        async with two(site, heartbeat_ms=BEAT_MS) as (a, b):
            await a.client.metadata("t")
            lane = min(b.led)
            partition = lanes_of(a.running)[lane]
            a.client.send_produce({("t", partition): batch(b"x")}, version=version)
            _, found = await a.client.answer()
            row = found.responses[0].partition_responses[0]
            assert row.error_code is NOT_LEADER
            told = redirected(found, row)
            if version >= 10:
                assert told == (b.id, b.epoch(lane), [(b.id, b.port)])
            else:
                assert told == (None, None, [])

    run_virtually(run())


@pytest.mark.parametrize("version", range(7, 18))
def test_a_consumer_is_told_where_to_go_in_every_version_that_can_say_it(version: int) -> None:
    async def run() -> None:
        site = site_with_topic()
        async with two(site, heartbeat_ms=BEAT_MS) as (a, b):
            await a.client.metadata("t")
            mine, lane = (lanes_of(a.running)[min(one.led)] for one in (a, b)), min(b.led)
            at_a, at_b = mine
            assert await produce(a.client, at_a) is NONE
            wanted = {("t", at_a): 0, ("t", at_b): 0}
            # It is told at once, however long the fetch would wait for records.
            asked = a.client.fetch(wanted, version=version, wait_ms=20_000, min_bytes=1 << 20)
            found = await asyncio.wait_for(asked, 5)
            rows = {row.partition_index: row for row in found.responses[0].partitions}
            assert records(rows[at_a].records) == [(0, b"x")]
            assert rows[at_b].error_code is NOT_LEADER
            leader, epoch, endpoints = redirected(found, rows[at_b])
            if version >= 12:
                assert (leader, epoch) == (b.id, b.epoch(lane))
                assert rows[at_a].current_leader.leader_id == -1
            assert endpoints == ([(b.id, b.port)] if version >= 16 else [])

    run_virtually(run())


async def metadata(client: Client) -> tuple[dict[int, int], dict[int, tuple[int, int]]]:
    """Return brokers and their ports, and the leader and the epoch of each partition."""
    found = await client.ask(
        3, 12, topics=[{"topic_id": None, "name": "t"}], allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False, include_topic_authorized_operations=False,
    )  # fmt: skip
    rows = found.topics[0].partitions
    for row in rows:
        is_led = row.leader_id >= 0
        assert row.error_code is (NONE if is_led else ErrorCode.leader_not_available)
        assert row.replica_nodes == row.isr_nodes == ((row.leader_id,) if is_led else ())
    brokers = {one.node_id: one.port for one in found.brokers}
    return brokers, {row.partition_index: (row.leader_id, row.leader_epoch) for row in rows}


@virtual_story
async def test_every_broker_names_all_of_them_and_the_same_leaders() -> None:
    site = Site(lanes=4)
    site.create("t", 6)
    async with two(site, heartbeat_ms=BEAT_MS) as (a, b):
        await pass_time(2 * BEAT_MS / 1000)
        expected = {
            index: (one.id, one.epoch(lane))
            for index in range(6)
            for one in (a, b)
            if (lane := a.running.services.catalog.known("t").topic.lane(index)) in one.led  # type: ignore[union-attr]
        }
        assert len(expected) == 6
        for one in (a, b):
            assert await metadata(one.client) == ({a.id: a.port, b.id: b.port}, expected)
            pages = await one.client.ask(
                75, 0, topics=[{"name": "t"}], response_partition_limit=100, cursor=None
            )
            rows = {row.partition_index: row for row in pages.topics[0].partitions}
            told = {at: (row.leader_id, row.leader_epoch) for at, row in rows.items()}
            assert told == expected
            found = await one.client.ask(
                60, 1, include_cluster_authorized_operations=False, endpoint_type=1
            )
            assert {row.broker_id: row.port for row in found.brokers} == {
                a.id: a.port, b.id: b.port,
            }  # fmt: skip


# ---------------------------------------------------------------------------- over moves


class Gossip:
    """What brokers tell of leaders, again and again, and the laws of that."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.told: dict[int, list[dict[int, tuple[int, int]]]] = {}
        """By port: what a broker has told of every partition, in turn."""

    async def listen(self) -> None:
        while True:
            for one in list(self.nodes):
                try:
                    _, leaders = await metadata(one.client)
                except (ConnectionError, asyncio.IncompleteReadError):
                    continue
                self.told.setdefault(one.port, []).append(leaders)
            await pass_time(0.05)

    def check(self) -> None:
        named: dict[tuple[int, int], int] = {}
        for rounds in self.told.values():
            highest: dict[int, int] = {}
            for leaders in rounds:
                for partition, (leader, epoch) in leaders.items():
                    if leader >= 0:
                        assert epoch >= highest.get(partition, -1), "an epoch went down"
                        highest[partition] = epoch
                        was = named.setdefault((partition, epoch), leader)
                        assert was == leader, "two leaders by one epoch"


@virtual_story
async def test_epochs_that_are_told_never_go_down_and_one_epoch_names_one_leader() -> None:
    """A broker comes, is killed, comes back under its id, and stops."""
    site = site_with_topic()
    gossip = Gossip()
    listening = asyncio.create_task(gossip.listen())
    async with node(site, heartbeat_ms=BEAT_MS) as a:
        gossip.nodes.append(a)
        await pass_time(1)
        async with node(site, heartbeat_ms=BEAT_MS, node_id=2) as b:
            gossip.nodes.append(b)
            await until_divided(a, b)
            await pass_time(1)
            gossip.nodes.remove(b)
            b.machine.kill()
            await until(lambda: a.led == LANES)
            await pass_time(1)
            async with node(site, heartbeat_ms=BEAT_MS, node_id=2) as again:
                gossip.nodes.append(again)
                await until_divided(a, again)
                await pass_time(1)
                gossip.nodes.remove(again)
            assert a.led == LANES
            await pass_time(1)
    listening.cancel()
    await asyncio.gather(listening, return_exceptions=True)
    gossip.check()
    last = gossip.told[a.port][-1]
    assert all(leader == a.id and epoch >= 4 for leader, epoch in last.values() if epoch > 0)
    assert len({told[partition] for told in gossip.told[a.port] for partition in told}) >= 5


@virtual_story
async def test_a_leader_of_before_is_not_told_again_when_its_successor_dies() -> None:
    """Nobody is, until somebody leads by a higher epoch: clients would not believe the old one."""
    site = site_with_topic()
    gossip = Gossip()
    async with node(site, heartbeat_ms=BEAT_MS, node_id=1) as a:
        # It beats, so that others think it alive. It sees nobody, and says nothing new.
        a.machine.fails = lambda op: is_list(op) or getattr(op, "key", "").endswith("/member")
        async with (
            node(site, heartbeat_ms=BEAT_MS, node_id=3) as b,
            node(site, heartbeat_ms=BEAT_MS, node_id=5) as c,
        ):
            await until(lambda: led(b.running) and led(c.running))
            await pass_time(2 * BEAT_MS / 1000)
            gossip.nodes.append(c)
            listening = asyncio.create_task(gossip.listen())
            await pass_time(0.2)
            former = b.led
            b.machine.kill()
            await pass_time(6 * BEAT_MS / 1000)
            partitions = [lanes_of(c.running)[lane] for lane in former]
            told = gossip.told[c.port]
            assert all(told[0][at][0] == b.id for at in partitions)
            orphans = [at for at in partitions if told[-1][at] == (-1, -1)]
            assert orphans, "nobody leads what the first one should, and does not know"
            a.machine.fails = lambda _: False
            await until(lambda: all(told[-1][at][0] == a.id for at in orphans))
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)
    gossip.check()
    assert all(told[-1][at][1] > told[0][at][1] for at in orphans)


class Producer:
    """It sends numbers to a partition, one after the other, to whom it is sent."""

    def __init__(self, partition: int, nodes: dict[int, Node]) -> None:
        self._partition, self._nodes = partition, nodes
        self.sent = 0
        self.codes: set[ErrorCode] = set()

    async def send(self) -> None:
        at = 1
        while True:
            client = await connect(self._nodes[at].running)
            try:
                at = await self._send_to(client, at)
            except (ConnectionError, asyncio.IncompleteReadError):
                at = 1
            finally:
                await client.close()

    async def _send_to(self, client: Client, at: int) -> int:
        """Send until another broker is named, and return that."""
        while True:
            row = await client.produce("t", self._partition, batch(b"%d" % self.sent))
            self.codes.add(ErrorCode(row.error_code))
            if row.error_code is NONE:
                self.sent += 1
                await pass_time(0.03)
            elif row.current_leader.leader_id not in (-1, at):
                return int(row.current_leader.leader_id)


@virtual_story
async def test_records_are_written_once_and_in_order_while_lanes_move() -> None:
    """Producers that go where they are sent, while a broker comes, and stops again."""
    site = site_with_topic()
    nodes: dict[int, Node] = {}
    producers = [Producer(partition, nodes) for partition in range(4)]
    async with node(site, heartbeat_ms=BEAT_MS) as a:
        nodes[1] = a
        tasks = [asyncio.create_task(one.send()) for one in producers]
        await pass_time(0.5)
        async with node(site, heartbeat_ms=BEAT_MS) as b:
            nodes[2] = b
            await until_divided(a, b)
            await pass_time(1)
            assert a.running.services.metrics.redirects >= len(b.led)
        await pass_time(1)
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
    assert {type(one) for one in ended} == {asyncio.CancelledError}
    for partition, one in enumerate(producers):
        assert one.codes <= {NONE, NOT_LEADER}
        # The last one may be stored and not answered.
        found = stored(site, partition)
        assert found[: one.sent] == [b"%d" % number for number in range(one.sent)]
        assert one.sent <= len(found) <= one.sent + 1
        assert one.sent > 50
    assert NOT_LEADER in set[ErrorCode]().union(*(one.codes for one in producers))


def stored(site: Site, partition: int) -> list[bytes]:
    """Return the values of a partition."""
    topic = site.do(read_topic("t"))
    lane, values, offset = site.lane(topic.lane(partition)), [], 0
    site.do(probe(lane))
    while (chunk := site.do(read(lane, topic.path_of(partition), offset, 1 << 20))).body:
        values += [value or b"" for _, value in records(chunk.body)]
        offset = chunk.next_offset
    return values


# ---------------------------------------------------------------------------- news


@virtual_story
async def test_a_partition_that_one_broker_adds_another_serves_at_once() -> None:
    site = Site(lanes=4)
    site.create("t", 2)
    async with two(site, heartbeat_ms=SELDOM_MS) as (a, b):
        row = {"name": "t", "count": 8, "assignments": None}
        made = await a.client.ask(37, 3, topics=[row], timeout=1_000, validate_only=False)
        assert made.results[0].error_code is NONE
        known = b.running.services.catalog.known("t")
        assert known is not None
        assert known.topic.partitions == 2, "it has not heard of it"
        for index in range(2, 8):
            lane = known.topic.lane(index)
            first = await produce(b.client, index)
            # Who has just found it is asked again, so that batches keep their order.
            assert first is NOT_LEADER if lane not in b.led else first in (NONE, NOT_LEADER)
            if lane in b.led:
                assert await produce(b.client, index) is NONE
                found = await b.client.fetch_one("t", index, 0)
                assert [value for _, value in records(found.records)] == [b"x"] * (
                    1 + (first is NONE)
                )
            else:
                assert await fetch(b.client, index) is NOT_LEADER


@every_api
def test_no_broker_says_that_a_partition_is_unknown_which_another_has_added(ask: Asks) -> None:
    async def run() -> None:
        site = site_with_topic()
        async with two(site, heartbeat_ms=SELDOM_MS) as (a, b):
            topic = await a.running.services.catalog.topic("t")
            assert topic is not None
            grown = await a.running.services.catalog.grow(topic, 8)
            mine = next(index for index in range(4, 8) if grown.lane(index) in b.led)
            assert await ask(b.client, mine) in (NONE, NOT_LEADER)
            assert await ask(b.client, mine) is NONE
            assert await ask(b.client, 8) is UNKNOWN

    run_virtually(run())


@virtual_story
async def test_what_one_broker_makes_and_deletes_another_hears_of_within_two_beats() -> None:
    site = site_with_topic()
    async with two(site, heartbeat_ms=BEAT_MS) as (a, b):
        theirs, beats_s = b.running.services.catalog, 2 * BEAT_MS / 1000 + 0.1
        made = await a.running.services.catalog.create("new", 4, {})
        assert theirs.known("new") is None
        await pass_time(beats_s)
        assert theirs.known("new") is not None, "nobody has asked for it"
        await a.running.services.catalog.configure(made, lambda _: {"retention.ms": "77"})
        await pass_time(beats_s)
        entry = theirs.known("new")
        assert entry is not None
        assert entry.topic.configs["retention.ms"] == "77"
        await a.running.services.catalog.delete(made)
        await pass_time(beats_s)
        assert theirs.known("new") is None
        hints = [one.running.services.cluster.node.member.hint for one in (a, b)]
        assert hints[0]
        assert not hints[1], "news is not passed on"


@virtual_story
async def test_one_hint_may_stand_for_many_changes() -> None:
    site = Site(lanes=4)
    async with two(site, heartbeat_ms=BEAT_MS) as (a, b):
        a.machine.sleep(lambda op: isinstance(op, PutIfMatch) and op.key.endswith("/member"))
        names = [f"new-{at}" for at in range(10)]
        for name in names:
            await a.running.services.catalog.create(name, 1, {})
        await pass_time(0.1)
        before = sum(isinstance(op, PutIfMatch) for op in site.member_ops)
        a.machine.wake()
        await pass_time(2 * BEAT_MS / 1000 + 0.1)
        assert list(b.running.services.catalog.names()) == names
        told = sum(isinstance(op, PutIfMatch) for op in site.member_ops) - before
        assert told <= 2 + 2 * 4, "beats of two brokers, and two announcements"


# ---------------------------------------------------------------------------- leaving


@virtual_story
async def test_a_leader_that_stops_goes_on_until_another_leads() -> None:
    site = site_with_topic()
    async with node(site, heartbeat_ms=BEAT_MS) as b, AsyncExitStack() as stack:
        a = await stack.enter_async_context(node(site, heartbeat_ms=BEAT_MS))
        await until_divided(a, b)
        lane = min(a.led)
        partition, before = lanes_of(a.running)[lane], a.epoch(lane)
        # The other one can not take what this one leads.
        b.machine.sleep(is_bundle)
        stopping = asyncio.create_task(stack.aclose())
        for _ in range(20):
            await pass_time(0.1)
            assert await produce(a.client, partition) is NONE
        assert not stopping.done()
        b.machine.wake()
        await until(lambda: lane in b.led)
        await stopping
        assert b.epoch(lane) > before
        assert b.led == LANES
        assert await produce(b.client, partition) is NONE
        assert len(stored(site, partition)) == 21


@virtual_story
async def test_whoever_asks_a_leader_that_has_just_been_replaced_is_sent_on() -> None:
    """Whoever comes while a broker leaves is answered: it is done, or who leads now."""
    site = site_with_topic()
    async with node(site, heartbeat_ms=BEAT_MS) as b, AsyncExitStack() as stack:
        a = await stack.enter_async_context(node(site, heartbeat_ms=BEAT_MS))
        await until_divided(a, b)
        lane = min(a.led)
        partition = lanes_of(a.running)[lane]
        clients = [await connect(a.running) for _ in range(30)]
        told: list[tuple[ErrorCode, int]] = []

        async def send(client: Client, at_s: float) -> None:
            await pass_time(at_s)
            row = await client.produce("t", partition, batch(b"x"))
            told.append((ErrorCode(row.error_code), row.current_leader.leader_id))

        asked = [asyncio.create_task(send(one, at / 20)) for at, one in enumerate(clients)]
        await stack.aclose()
        for one in asked:
            one.cancel()
        ended = await asyncio.gather(*asked, return_exceptions=True)
        for client in clients:
            await client.close()
        assert set(told) == {(NONE, -1), (NOT_LEADER, b.id)}
        assert {type(one) for one in ended} <= {type(None), asyncio.CancelledError}, "cut off"


@virtual_story
async def test_a_broker_that_is_alone_stops_at_once() -> None:
    site = Site(lanes=4)
    async with node(site):
        began_s = asyncio.get_running_loop().time()
    assert asyncio.get_running_loop().time() - began_s < 0.5


@virtual_story
async def test_lanes_that_are_added_are_led_and_used_by_topics_that_come_later() -> None:
    site = Site(lanes=4)
    site.create("old", 4)
    async with two(site, heartbeat_ms=BEAT_MS) as (a, b):
        old = await a.running.services.catalog.topic("old")
        assert old is not None
        kept = old.lanes_of_all()
        site.do(add_lanes(12))
        # One broker hears of it by a topic that another process has made; the other by its hint.
        site.create("new", 12)
        assert await produce(a.client, 0, "new") in (NONE, NOT_LEADER)
        grown = await a.running.services.catalog.grow(old, 12)
        assert grown.lanes_of_all()[:4] == kept
        assert len(set(grown.lanes_of_all()[4:])) == 8
        await pass_time(4 * BEAT_MS / 1000)
        a_led, b_led = (set(one.running.services.cluster.led()) for one in (a, b))
        assert a_led | b_led == set(range(12))
        assert not a_led & b_led
        assert min(len(a_led), len(b_led)) >= 4
        for name in ("old", "new"):
            topic = await b.running.services.catalog.topic(name)
            assert topic is not None
            for partition in range(12):
                leader = a if topic.lane(partition) in a_led else b
                assert await produce(leader.client, partition, name) is NONE
        assert len(site.stored("old")) == 12


@virtual_story
async def test_a_topic_in_lanes_that_the_namespace_does_not_have_stops_no_other() -> None:
    site = Site(lanes=4)
    site.create("good", 4)
    site.do(
        create_topic("bad", topic_id=bytes(15) + b"x", partitions=9, lanes=9, now_ms=0, configs={})
    )
    async with node(site, heartbeat_ms=BEAT_MS) as one:
        assert await produce(one.client, 0, "good") is NONE
        assert await produce(one.client, 0, "bad") is not NONE
        assert "bad" in one.running.services.catalog.damaged


@virtual_story
async def test_every_leader_that_is_named_is_listed_also_when_it_goes_meanwhile() -> None:
    """kafka-python ends in an error otherwise, and tells its user."""
    site = site_with_topic()
    async with node(site, heartbeat_ms=BEAT_MS) as a:
        async with node(site, heartbeat_ms=BEAT_MS) as b:
            await until_divided(a, b)
            gone = b.id
            topics = [{"name": name, "topic_id": None} for name in ("t", "late")]
            a.client.send(
                3,
                12,
                topics=topics,
                allow_auto_topic_creation=False,
                include_topic_authorized_operations=False,
            )
            site.freezes = lambda op: "/topics/" in str(getattr(op, "key", ""))
            site.open.clear()
            await pass_time(0.1)
        await until(lambda: gone not in a.running.services.cluster.node.view.serving)
        site.open.set()
        _, found = await a.client.answer()
        leaders = {row.leader_id for one in found.topics for row in one.partitions}
        assert gone in leaders, "they were looked at before it went"
        assert leaders <= {one.node_id for one in found.brokers}
