"""What one client can do to the others through connections and memory: little, and not for long."""

import asyncio
import gc
import os
import resource
import struct
import sys
import tracemalloc
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import count
from socket import socket
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from lakelog.broker import Broker, Limits
from lakelog.broker.metrics.gauges import register_gauges
from lakelog.broker.metrics.prometheus import encode, read_gauges
from lakelog.coordination import SHARDS, shard_of
from lakelog.journal import FlushSettings
from lakelog.names import bundle_key
from lakelog.store import Get, PutIfAbsent
from lakelog.wire import ApiKey
from tests.hostile import attacks
from tests.patience import until
from tests.unit.broker.site import Client, Site, batch, broker, connect, story, virtual_story
from tests.virtual_time import pass_time, run_virtually

HERE, ELSEWHERE = "127.0.0.1", "127.0.0.2"


@asynccontextmanager
async def attacked(
    running: Broker, attack: Callable[..., Sequence[socket]], *args: Any, **options: Any
) -> AsyncIterator[list[socket]]:
    """Attack a broker of this process, from a thread."""
    port = running.ports["PLAINTEXT"]
    sockets = list(await asyncio.to_thread(attack, HERE, port, *args, **options))
    await pass_time(0.05)
    try:
        yield sockets
    finally:
        attacks.hang_up(sockets)


async def ended(sockets: Sequence[socket], within_s: float = 5.0) -> int:
    """Return how many of them the broker has ended."""
    asked = [asyncio.to_thread(attacks.is_ended, one, within_s) for one in sockets]
    return sum(await asyncio.gather(*asked))


async def produces(client: Client, size: int, *, within_s: float = 3.0) -> None:
    """Produce like anybody else."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    row = await client.produce("t", 0, batch(bytes(size)))
    assert row.error_code is ErrorCode.none
    assert loop.time() - began < within_s


def whys(site: Site) -> list[str]:
    return [event["why"] for event in site.log if event["event"] == "connection closed"]


def small(**limits: int) -> Limits:
    return Limits(memory_bytes=4 << 20, connection_bytes=1 << 20, drain_ms=1_000, **limits)


# ---------------------------------------------------------------------------- requests


@virtual_story
async def test_a_request_that_does_not_become_whole_in_time_is_ended_however_it_trickles() -> None:
    site = Site()
    limits = small(frame_ms=300, frame_bytes_per_s=1 << 20)
    async with (
        broker(site, limits=limits) as running,
        attacked(running, attacks.begin_requests, 3, 100_000, 50_000) as sockets,
    ):
        for _ in range(10):
            attacks.trickle(sockets)
            await pass_time(0.1)
        assert await ended(sockets) == 3
        assert running.buffers.used == 0
    assert any("a request of 100000 bytes" in why and "whole after" in why for why in whys(site))


@virtual_story
async def test_a_request_has_more_time_the_larger_it_is_and_none_counts_that_it_is_not_read() -> (
    None
):
    site = Site()
    site.create("t")
    limits = small(frame_ms=300, frame_bytes_per_s=500_000)
    async with broker(site, limits=limits) as running:
        client = await connect(running)
        await client.produce("t", 0, batch(b"x"))
        data = attacks.produce_frame("t", batch(bytes(400_000)))
        half = len(data) // 2
        client.writer.write(data[:half])
        await pass_time(0.6)
        client.writer.write(data[half:])
        assert await client.reader.readexactly(4)
        await client.close()
        late = await connect(running)
        running.budget.take(4 << 20, "somebody")
        late.writer.write(data[:half])
        await pass_time(1.5)
        running.budget.give(4 << 20, "somebody")
        late.writer.write(data[half:])
        assert await late.reader.readexactly(4)
        await late.close()


@pytest.mark.parametrize("source", [HERE, ELSEWHERE], ids=["the same", "another"])
def test_requests_that_are_not_whole_go_when_others_need_the_memory(source: str) -> None:
    async def run() -> None:
        site = Site()
        site.create("t")
        size = (4 << 20) // 3 - 1_000
        async with broker(site, limits=small()) as running:
            client = await connect(running)
            attack = attacks.begin_requests
            async with attacked(running, attack, 3, size, size * 99 // 100, source=source) as held:
                for _ in range(4):
                    await produces(client, 800_000)
                assert await ended(held, 0.2) >= 1
            await client.close()
        assert any("the oldest of the address that has most" in why for why in whys(site))

    run_virtually(run())


@virtual_story
async def test_what_has_come_of_small_requests_counts_as_well() -> None:
    site = Site()
    async with (
        broker(site, limits=small()) as running,
        attacked(running, attacks.begin_requests, 200, 64_000, 60_000, source=ELSEWHERE),
    ):
        await pass_time(0.2)
        assert 0 < running.connections * 60_000 <= 4 << 20


@virtual_story
async def test_fetches_that_wait_and_are_padded_leave_room_for_others() -> None:
    site = Site()
    site.create("t")
    site.create("empty")
    async with broker(site, limits=small()) as running:
        client = await connect(running)
        await client.produce("t", 0, batch(b"x"))
        options = {"connections": 8, "requests": 4, "source": ELSEWHERE}
        padding = bytes(900_000)
        async with attacked(running, attacks.waiting_fetches, "empty", rack=padding, **options):
            await produces(client, 500_000)
        await client.close()


@virtual_story
async def test_a_tag_that_nobody_knows_holds_no_memory() -> None:
    site = Site()
    site.create("t")
    async with (
        broker(site, limits=small()) as running,
        attacked(
            running, attacks.waiting_fetches, "t", connections=2, requests=1, tag=bytes(900_000)
        ) as sockets,
    ):
        assert await ended(sockets) == 2


@story
async def test_a_flood_of_one_address_does_not_stand_before_the_requests_of_another() -> None:
    site = Site()
    site.create("t", 2)
    async with broker(site, flush=FlushSettings(interval_ms=0, requests_max=4)) as running:
        honest = await connect(running)
        await honest.produce("t", 0, batch(b"first"))
        flooding = await connect(running, source=ELSEWHERE)
        site.freezes = lambda op: isinstance(op, PutIfAbsent)
        site.open.clear()
        lane = running.services.lanes[0]
        flooding.send_produce({("t", 1): batch(b"00")})
        # A bundle is on its way, and all others wait for it.
        await until(lambda: site.count(PutIfAbsent, bundle_key(0, 2)))
        for number in range(1, 90):
            flooding.send_produce({("t", 1): batch(b"%02d" % number)})
        queued = 89 * len(batch(b"00"))
        await until(lambda: lane.waiting_bytes >= queued)
        honest.send_produce({("t", 0): batch(b"second")})
        await until(lambda: lane.waiting_bytes > queued)
        site.open.set()
        await honest.answer()
        for _ in range(90):
            await flooding.answer()
        await honest.close()
        await flooding.close()
    assert site.stored("t")[2:] == [b"%02d" % number for number in range(90)]
    bundles = [site.perform(Get(bundle_key(0, seq))).body for seq in range(1, 5)]
    assert [b"second" in body for body in bundles] == [False, False, True, False]


@virtual_story
async def test_only_produce_may_be_large() -> None:
    site = Site()
    async with (
        broker(site) as running,
        attacked(running, attacks.begin_requests, 2, 50 << 20, 14, key=attacks.FETCH) as sockets,
    ):
        assert await ended(sockets) == 2
    assert any("only Produce" in why for why in whys(site))


@virtual_story
async def test_a_fetch_that_waits_counts_for_what_it_wants_and_not_for_how_it_was_sent() -> None:
    site = Site()
    site.create("t")
    async with (
        broker(site) as running,
        attacked(
            running, attacks.waiting_fetches, "t", connections=1, requests=5, tag=bytes(16_000)
        ),
    ):
        assert 0 < running.budget.used < 5_000


@virtual_story
async def test_a_request_that_waits_does_not_hold_the_frame_in_which_it_came() -> None:
    """Bytes behind a request are passed over, as Kafka does it, and may not stay for it."""
    site = Site()
    site.create("t")
    body = struct.pack(">ibi", -1, 0, 1) + struct.pack(">h", 1) + b"u" + struct.pack(">i", 0)
    ask = attacks.frame(ApiKey.LIST_OFFSETS, 3, body + bytes(3 << 20), flexible=False)
    async with broker(site) as running:
        clients = [await connect(running) for _ in range(10)]
        site.open.clear()
        gc.collect()
        tracemalloc.start()
        try:
            for client in clients:
                client.writer.write(ask)
                await client.writer.drain()
            await pass_time(2)
            held = tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()
            site.open.set()
        assert all([await client.reader.readexactly(4) for client in clients])
        assert held < 10 << 20, held
        for client in clients:
            await client.close()


# ---------------------------------------------------------------------------- answers


@story
async def test_commits_of_one_address_do_not_keep_others_from_making_groups() -> None:
    """14 MiB of offsets for one shard of groups, by a client that is a member of none."""
    site = Site()
    site.create("t", 250)
    names = (name for n in count() if shard_of(name := f"g{n}", SHARDS) == 0)
    rows = [
        {
            "partition_index": n,
            "committed_offset": n,
            "committed_leader_epoch": -1,
            "committed_metadata": "x" * 4096,
        }
        for n in range(250)
    ]

    async def commits(client: Client, rows: list[dict[str, Any]]) -> ErrorCode:
        who = {"group_id": next(names), "member_id": "", "generation_id_or_member_epoch": -1}
        topics = [{"name": "t", "partitions": rows}]
        found = await client.ask(8, 8, **who, group_instance_id=None, topics=topics)
        (code,) = {one.error_code for one in found.topics[0].partitions}
        return ErrorCode(code)

    async with broker(site) as running:
        register_gauges(running.services.metrics, running.services)
        hostile, honest = await connect(running, source=ELSEWHERE), await connect(running)
        told = [await commits(hostile, rows) for _ in range(14)]
        assert told[-1] is ErrorCode.invalid_commit_offset_size
        assert await commits(honest, rows[:1]) is ErrorCode.none
        metrics = running.services.metrics
        text = encode(metrics, await read_gauges(metrics))[0].decode()
        used = running.services.coordinator.shard_sizes()[0][1]
        await hostile.close()
        await honest.close()
    refused = len(told) - told.count(ErrorCode.none)
    assert f'lakelog_group_refusals_total{{limit="address_percent"}} {refused:.1f}' in text
    (size,) = (line for line in text.splitlines() if 'group_shard_bytes{shard="0"}' in line)
    assert 3 << 20 < float(size.split()[1]) == used < 6 << 20
    lines = [one for one in site.log if one["event"] == "there was no room for consumer groups"]
    assert sum(one["count"] for one in lines) == refused
    assert "clients of 127.0.0.2 made" in lines[0]["cause"]


def full_site(size: int = 900_000, count: int = 8) -> Site:
    """A site with a topic of some megabytes."""
    site = Site()
    site.create("t")
    for _ in range(count):
        site.append("t", 0, batch(bytes(size)))
    return site


async def consumes(client: Client, *, within_s: float = 10.0) -> None:
    """Fetch like anybody else: at least a batch."""
    row = await asyncio.wait_for(client.fetch_one("t", 0, 0, max_bytes=8 << 20), within_s)
    assert len(row.records) >= 900_000


@pytest.mark.parametrize("cache", [16 << 20, 0], ids=["in memory", "from the store"])
@pytest.mark.parametrize("source", [HERE, ELSEWHERE], ids=["the same", "another"])
def test_answers_that_nobody_reads_are_bounded_and_others_get_theirs(
    source: str, cache: int
) -> None:
    async def run() -> None:
        site = full_site()
        limits = Limits(answer_bytes=16 << 20, answer_ms=20_000, cache_bytes=cache, drain_ms=1_000)
        async with broker(site, limits=limits) as running:
            client = await connect(running)
            await consumes(client)
            gc.collect()
            tracemalloc.start()
            try:
                async with attacked(
                    running, attacks.unread_fetches, "t",
                    connections=12, requests=20, max_bytes=8 << 20, source=source,
                ):  # fmt: skip
                    await consumes(client)
                    await until(lambda: running.connections == 1)  # Who does not read is ended.
                    held = tracemalloc.get_traced_memory()[0]
            finally:
                tracemalloc.stop()
            assert held < 40 << 20, held
            await consumes(client)
            await client.close()
            await pass_time(0.3)
            assert running.answers.used == 0
        assert any("read answers, or ask for less" in why for why in whys(site))

    run_virtually(run())


@virtual_story
async def test_a_client_that_does_not_take_its_answer_is_ended_and_a_slow_one_is_not() -> None:
    site = full_site(count=12)
    limits = Limits(answer_ms=2_000, answer_bytes_per_s=100_000, drain_ms=1_000)
    async with (
        broker(site, limits=limits) as running,
        attacked(
            running, attacks.unread_fetches, "t", connections=2, requests=1, max_bytes=16 << 20
        ) as (deaf, slow),
    ):
        for _ in range(30):
            await pass_time(0.1)
            assert await asyncio.to_thread(attacks.take, slow, 200_000) == 200_000
        assert running.connections == 1
        deaf.close()
    assert len([why for why in whys(site) if why.startswith("the client took 0 bytes")]) == 1


# ---------------------------------------------------------------------------- connections


async def is_served(client: Client) -> bool:
    found = await client.ask(18, 3, client_software_name="site", client_software_version="1")
    return bool(found.error_code is ErrorCode.none)


@virtual_story
async def test_one_address_does_not_take_all_connections() -> None:
    site = Site()
    async with broker(site, limits=Limits(connections=40, drain_ms=1_000)) as running:
        async with attacked(running, attacks.silence, 60, source=ELSEWHERE):
            await pass_time(0.2)
            assert running.connections == 30, "three quarters of all"
            client = await connect(running)
            assert await is_served(client)
            await client.close()
            await pass_time(0.2)
        assert running.services.metrics.connections_refused == 30
    told = [event for event in site.log if event["event"] == "connections refused"]
    assert len(told) == 1, "thirty are a line"
    assert "max.connections.per.ip" in told[0]["why"]
    assert whys(site).count(told[0]["why"]) == 0


@virtual_story
async def test_an_address_that_connects_too_often_waits_and_others_do_not() -> None:
    site = Site()
    limits = Limits(address_connection_rate=20, drain_ms=1_000)
    async with broker(site, limits=limits) as running:
        for _ in range(3):
            async with attacked(running, attacks.silence, 15, source=ELSEWHERE):
                pass
        await pass_time(0.1)
        assert running.services.metrics.connections_refused > 10
        client = await connect(running)
        assert await is_served(client)
        await client.close()


SILENT = """
import sys
from tests.hostile import attacks
from tests.patience import until
held = attacks.silence("127.0.0.1", int(sys.argv[1]), 300, source="127.0.0.2")
print(len(held), flush=True)
sys.stdin.read()
"""


@story
async def test_connections_leave_files_for_the_store() -> None:
    """The attacker is a process of its own: its sockets are its own files."""
    site = Site()
    site.create("t")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
    try:
        async with broker(site) as running:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-c", SILENT, str(running.ports["PLAINTEXT"]),
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
            )  # fmt: skip
            assert process.stdin is not None
            assert process.stdout is not None
            await process.stdout.readline()
            for _ in range(500):  # Turns of the loop, in which it could take more of them.
                await asyncio.sleep(0)
            for one in [os.open("/dev/null", os.O_RDONLY) for _ in range(60)]:
                os.close(one)
            client = await connect(running)
            await produces(client, 1_000)
            await client.close()
            process.stdin.close()
            await process.wait()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
