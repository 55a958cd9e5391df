"""One connection among others: order, limits, hostile frames, and what becomes of memory."""

import asyncio
import gc
import socket
import struct
import tracemalloc
from typing import Any
from uuid import UUID

import pytest
import uvloop
from kio.schema.errors import ErrorCode

from lakelog.broker import Broker, Limits
from lakelog.broker.budget import Budget, Buffers
from lakelog.broker.connection import Connection
from lakelog.broker.response_slots import ResponseSlot
from lakelog.store import PutIfAbsent
from lakelog.wire import ApiKey
from tests.patience import HANGS_S, until
from tests.unit.broker.site import (
    Client,
    Site,
    batch,
    broker,
    connect,
    records,
    story,
    virtual_story,
)
from tests.virtual_time import pass_time, run_virtually


def frame(*parts: bytes) -> bytes:
    body = b"".join(parts)
    return struct.pack(">i", len(body)) + body


async def is_alive(client: Client) -> bool:
    found = await client.ask(18, 3, client_software_name="site", client_software_version="1")
    return bool(found.error_code is ErrorCode.none)


async def settled(running: Broker, used: int = 0) -> None:
    """Wait until the budget is given back."""
    await until(lambda: running.budget.used <= used)


@story
async def test_answers_come_in_the_order_of_requests_also_when_the_first_waits() -> None:
    site = Site()
    site.create("t")
    async with broker(site) as running:
        client = await connect(running)
        numbers = [client.send_fetch({("t", 0): 0}, wait_ms=400)]
        for _ in range(10):
            numbers.append(
                client.send(18, 3, client_software_name="s", client_software_version="1")
            )
            numbers.append(client.send_produce({("t", 0): batch(b"x")}))
            numbers.append(client.send_fetch({("t", 0): 0}))
        assert [(await client.answer())[0] for _ in numbers] == numbers
        await client.close()


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_more_requests_than_may_wait_are_left_where_they_are_and_answered_later(run: Any) -> None:
    async def story_() -> None:
        site = Site()
        site.create("t")
        limits = Limits(connection_requests=3, drain_ms=1_000)
        async with broker(site, limits=limits) as running:
            client = await connect(running)
            numbers = [client.send_fetch({("t", 0): 0}, wait_ms=300)]
            for at in range(1_500):
                software = "s" * (at % 50)
                numbers.append(
                    client.send(18, 3, client_software_name=software, client_software_version="1")
                )
            for at in range(60):
                body = batch(bytes(1_000 * at))
                numbers.append(client.send_produce({("t", 0): body}))
            for _ in range(300):  # Turns of the loop, in which it could read more.
                await asyncio.sleep(0)
            assert running.budget.used < 1_000
            found = [(await asyncio.wait_for(client.answer(), HANGS_S))[0] for _ in numbers]
            assert found == numbers
            await client.close()
            await settled(running)

    run(story_())


class Deaf(asyncio.Transport):
    """A transport of nobody."""

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...
    def abort(self) -> None: ...
    def get_write_buffer_size(self) -> int:
        return 0


class Slow:
    """Takes frames and answers none."""

    limits = Limits(connection_requests=2)

    def __init__(self) -> None:
        self.budget = Budget(1 << 20)
        self.buffers = Buffers(1 << 20)
        self.answers = Budget(1 << 20)
        self.taken: list[bytes] = []

    def identified(self, _: Connection, principal: str, why: str) -> None:
        """Nobody shows a certificate here."""

    def opened(self, _: Connection) -> str:
        return ""

    def closed(self, _: Connection, why: str) -> None:
        raise AssertionError(why)

    def sent(self, size: int) -> None: ...

    def frame(self, _: Connection, frame: memoryview, slot: ResponseSlot) -> None:  # noqa: ARG002
        self.taken.append(bytes(frame))


@story
async def test_there_is_always_room_for_more_bytes_also_behind_frames_that_wait() -> None:
    """A buffer without room would be the end of the connection."""
    frames = Slow()
    connection = Connection(frames, "PLAINTEXT")
    connection.connection_made(Deaf())
    stream = b"".join(frame(bytes([at]) * (10 + at)) for at in range(200)) * 4
    at = 0
    while at < len(stream):
        room = connection.get_buffer(-1)
        assert len(room) > 0
        some = stream[at : at + len(room)]
        room[: len(some)] = some
        connection.buffer_updated(len(some))
        at += len(some)
    assert frames.taken == [bytes([at]) * (10 + at) for at in range(3)]


def hand_over(connection: Connection, data: bytes) -> None:
    """Let bytes come, as a transport does it."""
    while data:
        room = connection.get_buffer(-1)
        some, data = data[: len(room)], data[len(room) :]
        room[: len(some)] = some
        connection.buffer_updated(len(some))


@story
async def test_a_large_frame_is_received_into_one_piece_of_memory_a_bit_at_a_time() -> None:
    """To copy what has come into larger and larger pieces took tens of milliseconds at once."""
    frames = Slow()
    frames.budget, frames.buffers = Budget(64 << 20), Buffers(64 << 20)
    connection = Connection(frames, "PLAINTEXT")
    connection.connection_made(Deaf())
    large = struct.pack(">hh", 0, 9) + bytes(range(256)) * (20 << 12)
    data = frame(large)
    hand_over(connection, data[: 1 << 20])
    hand_over(connection, data[1 << 20 : 2 << 20])
    room = connection.get_buffer(-1)
    assert len(room) == 256 << 10
    held = connection._chunk
    hand_over(connection, data[2 << 20 :])
    assert connection._chunk is held
    assert frames.taken == [large]
    hand_over(connection, frame(b"0123456789"))
    assert frames.taken == [large, b"0123456789"]


@virtual_story
async def test_a_wake_up_that_comes_while_writing_is_paused_is_not_lost() -> None:
    """There is room while the client does not read its answers, and none when it does again. Then
    the connection still waits for room, and nobody else would call it.
    """
    frames = Slow()
    connection = Connection(frames, "PLAINTEXT")
    connection.connection_made(Deaf())
    frames.budget.take(1 << 20, "")
    hand_over(connection, frame(bytes(100_000)))
    assert frames.taken == [], "there is no room"
    connection.pause_writing()
    frames.budget.give(1 << 20, "")
    frames.budget.take(1 << 20, "")
    connection.resume_writing()
    await asyncio.sleep(0)
    assert frames.taken == [], "there is none again"
    frames.budget.give(1 << 20, "")
    await pass_time(0.01)
    assert frames.taken == [bytes(100_000)]


@virtual_story
async def test_the_time_in_which_nothing_is_read_is_not_the_clients() -> None:
    """It is told to read, and reads in the next turn of the loop: who looks in between, or stops it
    again, must not find the whole time of waiting on the client's bill.
    """
    frames = Slow()
    connection = Connection(frames, "PLAINTEXT")
    connection.connection_made(Deaf())
    late_s, now_s = frames.limits.frame_ms / 1000 + 1, asyncio.get_running_loop().time
    hand_over(connection, frame(bytes(100))[:50])
    connection.pause_writing()
    await pass_time(late_s)
    connection.resume_writing()
    connection.watch(now_s())
    assert not connection.why, "between the word and the deed"
    connection.pause_writing()
    await pass_time(late_s)
    connection.resume_writing()
    await asyncio.sleep(0)
    connection.watch(now_s())
    assert not connection.why, "stopped twice"
    await pass_time(late_s)
    connection.watch(now_s())
    assert "it has to be whole" in connection.why


@story
async def test_frames_may_come_in_any_pieces() -> None:
    site = Site()
    site.create("t")
    async with broker(site) as running:
        client = await connect(running)
        reader, writer = await asyncio.open_connection("127.0.0.1", running.ports["PLAINTEXT"])
        sent = bytearray()
        client.writer, real = (
            type("Sink", (), {"write": staticmethod(sent.extend)})(),
            client.writer,
        )
        bodies = [batch(bytes([at]) * (1 + at * at * 700)) for at in range(25)]
        for body in bodies:
            client.send_produce({("t", 0): body})
        client.writer = real
        at, step = 0, 1
        while at < len(sent):
            writer.write(sent[at : at + step])
            await writer.drain()
            await asyncio.sleep(0)
            at, step = at + step, step * 3 % 10_007 + 1
        offsets = []
        for _ in bodies:
            size = struct.unpack(">i", await reader.readexactly(4))[0]
            await reader.readexactly(size)
            offsets.append(size)
        writer.close()
        await client.close()
    assert site.stored("t") == [bytes([at]) * (1 + at * at * 700) for at in range(25)]


@pytest.mark.parametrize(
    "bad",
    [
        struct.pack(">i", -1),
        struct.pack(">i", 9) + bytes(9),
        struct.pack(">i", (100 << 20) + 1),
        b"GET / HTTP/1.1\r\n\r\n",
        frame(struct.pack(">hhih", 9999, 0, 1, -1), bytes(10)),
        frame(struct.pack(">hhih", 0, 2, 1, -1), bytes(10)),
        frame(struct.pack(">hhih", 0, 9, 1, -1), b"\xff" * 10),
        frame(struct.pack(">hhih", 1, 12, 1, -1), b"\xff" * 10),
        frame(struct.pack(">hhih", 12, 4, 1, -1), b"\xff" * 10),
        frame(struct.pack(">hhih", 19, 5, 1, -1), b"\0\xff\xff\xff\xff\x07", bytes(4)),
        frame(struct.pack(">hhih", 3, 1, 1, 500), bytes(4)),
    ],
    ids=lambda bad: bad[:14].hex(),
)
def test_a_bad_frame_ends_its_connection_and_no_other(bad: bytes) -> None:
    async def run() -> None:
        site = Site()
        async with broker(site) as running:
            good, hostile = await connect(running), await connect(running)
            hostile.writer.write(bad)
            assert await hostile.is_closed()
            assert await is_alive(good)
            fresh = await connect(running)
            assert await is_alive(fresh)
            for client in (good, hostile, fresh):
                await client.close()
            await settled(running)

    asyncio.run(run())


@story
async def test_a_version_of_api_versions_that_nobody_knows_is_answered_in_the_oldest() -> None:
    async with broker(Site()) as running:
        client = await connect(running)
        client.writer.write(frame(struct.pack(">hhih", 18, 99, 5, -1), b"whatever"))
        size = struct.unpack(">i", await client.reader.readexactly(4))[0]
        data = await client.reader.readexactly(size)
        number, code, count = struct.unpack_from(">ihi", data)
        assert (number, code) == (5, ErrorCode.unsupported_version)
        keys = dict(struct.unpack_from(">hhh", data, 10 + 6 * at)[::2] for at in range(count))
        assert keys[18] == 4
        assert await is_alive(client)
        await client.close()


@virtual_story
async def test_a_short_frame_that_announces_a_large_one_costs_next_to_nothing() -> None:
    async with broker(Site()) as running:
        clients = [await connect(running) for _ in range(20)]
        await is_alive(clients[0])
        gc.collect()
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            for client in clients:
                client.writer.write(struct.pack(">ihhih", 100 << 20, 0, 9, 1, -1) + bytes(6))
            await pass_time(0.2)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert running.connections == 20
        assert (peak - before) / 20 < 64 << 10
        for client in clients:
            await client.close()


@virtual_story
async def test_requests_that_never_come_to_their_end_take_no_more_than_the_budget() -> None:
    limits = Limits(memory_bytes=4 << 20)
    async with broker(Site(), limits=limits) as running:
        good = await connect(running)
        clients = [await connect(running) for _ in range(10)]
        for client in clients:
            client.writer.write(struct.pack(">ihhih", 100 << 20, 0, 9, 1, -1))
            client.writer.write(bytes(1 << 20))
        await pass_time(0.5)
        assert 0 < running.buffers.used <= 4 << 20
        assert running.connections < 11, "those that were too many have to come again"
        assert await is_alive(good)
        for client in (good, *clients):
            await client.close()
        await until(lambda: not running.connections)
        assert running.buffers.used == 0


@story
async def test_a_claim_of_many_elements_allocates_no_room_for_them() -> None:
    """Of every API with arrays: an allocation of 16 GB that fails would end the process."""
    from lakelog.wire import APIS

    async with broker(Site()) as running:
        for api in APIS.values():
            for version in range(api.min_version, api.max_version + 1):
                client = await connect(running)
                tags = b"\0" if version >= api.flexible_from else b""
                for claim in (b"\x7f\xff\xff\xff" * 5, b"\xff\xff\xff\xff\x07" * 4):
                    head = struct.pack(">hhih", int(api.key), version, 1, -1)
                    client.writer.write(frame(head, tags, claim))
                await client.is_closed()
                await client.close()
        last = await connect(running)
        assert await is_alive(last)
        await last.close()


@story
async def test_a_bug_while_reading_ends_the_connection_and_leaves_nobody_waiting() -> None:
    site = Site()
    site.create("t")
    async with broker(site) as running:
        client, other = await connect(running), await connect(running)

        def bug(_: object) -> bool:
            raise ZeroDivisionError

        site.fails = bug
        client.send_fetch({("t", 0): 0}, wait_ms=20_000)
        assert await client.is_closed()
        site.fails = lambda _: False
        assert await is_alive(other)
        for one in (client, other):
            await one.close()
        await settled(running)
        (said,) = [one for one in site.log if one["event"] == "a bug"]
        assert (said["api"], said["api_key"], said["client_id"]) == ("Fetch", 1, "site")
        assert "ZeroDivisionError" in said["error"]
        site.log.remove(said)


@virtual_story
async def test_too_many_connections_are_refused_and_there_is_room_again_later() -> None:
    async with broker(Site(), limits=Limits(connections=3, drain_ms=1_000)) as running:
        clients = [await connect(running) for _ in range(3)]
        for client in clients:
            assert await is_alive(client)
        fourth = await connect(running)
        assert await fourth.is_closed()
        await fourth.close()
        assert await is_alive(clients[0])
        await clients.pop().close()
        await pass_time(0.1)
        fourth = await connect(running)
        assert await is_alive(fourth)
        for client in (*clients, fourth):
            await client.close()


@virtual_story
async def test_an_idle_connection_is_closed_and_a_waiting_one_is_not() -> None:
    site = Site()
    site.create("t")
    limits = Limits(idle_ms=5_200, drain_ms=1_000)
    async with broker(site, limits=limits) as running:
        idle, waiting = await connect(running), await connect(running)
        waiting.send_fetch({("t", 0): 0}, wait_ms=7_000)
        assert await is_alive(idle)
        assert await idle.is_closed()
        await waiting.answer()
        for client in (idle, waiting):
            await client.close()


@story
async def test_a_client_that_does_not_read_is_not_read_and_its_answers_do_not_pile_up() -> None:
    site = Site()
    site.create("t")
    for _ in range(4):
        site.append("t", 0, batch(bytes(900_000)))
    limits = Limits(connection_requests=20, drain_ms=1_000)
    async with broker(site, limits=limits) as running:
        other = await connect(running)
        raw = socket.socket()
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        raw.connect(("127.0.0.1", running.ports["PLAINTEXT"]))
        raw.setblocking(False)
        reader, writer = await asyncio.open_connection(sock=raw, limit=1_024)
        slow = Client(reader, writer)
        gc.collect()
        tracemalloc.start()
        try:
            for _ in range(30):
                slow.send_fetch({("t", 0): 0}, max_bytes=4 << 20, part_bytes=4 << 20)
            await asyncio.sleep(1)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < 40 << 20, peak
        assert await is_alive(other)
        for _ in range(30):
            _, found = await slow.answer()
            assert len(found.responses[0].partitions[0].records) > 3_000_000
        for client in (slow, other):
            await client.close()
        await settled(running)


# ---------------------------------------------------------------------------- budget


def small() -> Limits:
    return Limits(memory_bytes=4 << 20, connection_bytes=1 << 20, drain_ms=3_000)


async def held(running: Broker) -> int:
    return sum(writer.waiting_bytes for writer in running.services.lanes.values())


async def flood(client: Client, count: int, acks: int, timeout_ms: int = 30_000) -> None:
    """Send as fast as the broker reads."""
    body = batch(bytes(100_000))
    for _ in range(count):
        client.send_produce({("t", 0): body}, acks=acks, timeout_ms=timeout_ms)
        await client.writer.drain()


@pytest.mark.parametrize("acks", [-1, 0])
def test_a_frozen_store_stops_producers_and_not_heartbeats_and_all_goes_on(acks: int) -> None:
    async def run() -> None:
        site = Site()
        site.create("t")
        async with broker(site, limits=small()) as running:
            clients = [await connect(running) for _ in range(30)]
            calm = await connect(running)
            await calm.produce("t", 0, batch(b"x"))
            site.open.clear()
            floods = [asyncio.create_task(flood(client, 20, acks)) for client in clients]
            await pass_time(1)
            # The budget, and what each connection may have in any case.
            bound = (4 << 20) + 31 * 3 * 101_000
            assert running.budget.used <= bound
            assert await held(running) <= bound
            assert await is_alive(calm)
            site.open.set()
            await asyncio.wait_for(asyncio.gather(*floods), 20)
            for client in clients:
                for _ in range(20 if acks else 0):
                    _, found = await client.answer()
                    row = found.responses[0].partition_responses[0]
                    assert row.error_code is ErrorCode.none
                await is_alive(client)
                await client.close()
            await calm.close()
            await settled(running)
        assert len(site.stored("t")) == 601

    run_virtually(run())


@virtual_story
async def test_clients_that_come_again_and_again_do_not_fill_the_memory() -> None:
    """What a lost connection has sent is still on its way to the store."""
    site = Site()
    site.create("t")
    async with broker(site, limits=small()) as running:
        first = await connect(running)
        await first.produce("t", 0, batch(b"x"))
        site.open.clear()
        for _ in range(40):
            client = await connect(running)
            sending = asyncio.create_task(flood(client, 8, -1))
            await pass_time(0.03)
            sending.cancel()
            client.writer.transport.abort()
            await asyncio.gather(sending, return_exceptions=True)
        await pass_time(0.2)
        assert await held(running) <= (4 << 20) + 300_000
        assert running.budget.used >= await held(running)
        site.open.set()
        await settled(running)
        assert await is_alive(first)
        await first.close()


@story
async def test_requests_that_timed_out_do_not_fill_the_memory() -> None:
    site = Site()
    site.create("t")
    async with broker(site, limits=small()) as running:
        client = await connect(running)
        await client.produce("t", 0, batch(b"x"))
        site.open.clear()
        for _ in range(20):
            for _ in range(5):
                client.send_produce({("t", 0): batch(bytes(100_000))}, timeout_ms=50)
            for _ in range(5):
                _, found = await client.answer()
                row = found.responses[0].partition_responses[0]
                assert row.error_code is ErrorCode.request_timed_out
        assert await held(running) <= 1_100_000
        site.open.set()
        made = await client.produce("t", 0, batch(b"y"))
        assert made.error_code is ErrorCode.none
        await client.close()
        await settled(running)


# ---------------------------------------------------------------------------- the end


@story
async def test_what_is_acknowledged_while_a_broker_drains_is_stored_and_no_more_is_taken() -> None:
    site = Site(lanes=2)
    site.create("t", 8)
    acknowledged: list[bytes] = []
    refused = 0
    async with broker(site) as running:
        clients = [await connect(running) for _ in range(10)]

        async def work(number: int, client: Client) -> None:
            nonlocal refused
            try:
                for at in range(100_000):
                    value = b"%d/%d" % (number, at)
                    made = await client.produce("t", number % 8, batch(value))
                    if made.error_code is ErrorCode.none:
                        acknowledged.append(value)
                    else:
                        assert made.error_code is ErrorCode.request_timed_out
                        refused += 1
            except (asyncio.IncompleteReadError, ConnectionError):
                pass

        working = [asyncio.create_task(work(*pair)) for pair in enumerate(clients)]
        await until(lambda: len(acknowledged) > 200)
        port = running.ports["PLAINTEXT"]
    await asyncio.wait_for(asyncio.gather(*working), HANGS_S)
    with pytest.raises(OSError, match=r"refused|reset|Connect"):
        await asyncio.open_connection("127.0.0.1", port)
    assert len(acknowledged) > 100
    stored = site.stored("t")
    assert set(acknowledged) <= set(stored)
    assert len(stored) == len(set(stored))
    for client in clients:
        await client.close()


@virtual_story
async def test_a_broker_whose_store_does_not_answer_stops_in_time() -> None:
    site = Site()
    site.create("t")
    loop = asyncio.get_running_loop()
    async with broker(site, limits=Limits(drain_ms=500)) as running:
        client = await connect(running)
        await client.produce("t", 0, batch(b"a"))
        site.freezes = lambda op: isinstance(op, PutIfAbsent)
        site.open.clear()
        client.send_produce({("t", 0): batch(b"b")})
        await client.writer.drain()
        await pass_time(0.1)
        began = loop.time()
    assert loop.time() - began < 5
    _, found = await client.answer()
    assert found.responses[0].partition_responses[0].error_code is ErrorCode.request_timed_out
    await client.close()


@virtual_story
async def test_waiting_fetches_do_not_keep_a_broker_from_stopping() -> None:
    site = Site()
    site.create("t")
    loop = asyncio.get_running_loop()
    async with broker(site) as running:
        client = await connect(running)
        client.send_fetch({("t", 0): 0}, wait_ms=30_000)
        await pass_time(0.1)
        began = loop.time()
    assert loop.time() - began < 4
    assert await client.is_closed()
    await client.close()


@story
async def test_a_name_that_is_an_id_of_nobody_and_other_strangeness_ends_nothing() -> None:
    site = Site()
    site.create("t")
    async with broker(site) as running:
        client = await connect(running)
        client.ids["t"] = UUID(int=0)
        found = await client.fetch({("t", 0): 0}, version=13)
        assert found.responses[0].partitions[0].error_code is ErrorCode.unknown_topic_id
        row = await client.fetch_one("", 0, 0)
        assert row.error_code is ErrorCode.unknown_topic_or_partition
        row = await client.fetch_one("t", -1, 0)
        assert row.error_code is ErrorCode.unknown_topic_or_partition
        made = await client.produce("t", -1, batch(b"x"))
        assert made.error_code is ErrorCode.unknown_topic_or_partition
        row = await client.fetch_one("t", 0, 0, wait_ms=-5)
        assert records(row.records) == []
        await client.close()


@story
async def test_a_small_commit_does_not_overtake_a_large_one() -> None:
    """A large request is decoded beside the loop. What comes behind it on the connection waits."""
    site = Site()
    site.create("orders", 3_000)
    async with broker(site) as running:
        client = await connect(running)

        def commit(offset: int, partitions: int) -> None:
            rows = [
                {
                    "partition_index": index,
                    "committed_offset": offset,
                    "committed_leader_epoch": -1,
                    "committed_metadata": "a word about it",
                }
                for index in range(partitions)
            ]
            client.send(
                ApiKey.OFFSET_COMMIT,
                8,
                group_id="g",
                generation_id_or_member_epoch=-1,
                member_id="",
                topics=[{"name": "orders", "partitions": rows}],
            )

        for turn in range(5):
            commit(10 * turn + 1, 3_000)
            commit(10 * turn + 2, 1)
        for _ in range(10):
            _, answer = await client.answer()
            codes = {row.error_code for topic in answer.topics for row in topic.partitions}
            assert codes == {ErrorCode.none}
        wanted = [{"name": "orders", "partition_indexes": [0, 1]}]
        found = await client.ask(ApiKey.OFFSET_FETCH, 7, group_id="g", topics=wanted)
        rows = found.topics[0].partitions
        assert [row.committed_offset for row in rows] == [42, 41]
        await client.close()


@virtual_story
async def test_answers_are_forgotten_when_they_are_sent_not_when_garbage_is_looked_for() -> None:
    """What fetches knows where its answer goes. If that knew what fetches, both would stay."""
    site = Site()
    site.create("t", 1)
    async with broker(site, limits=Limits(cache_bytes=2, drain_ms=1_000)) as running:
        client = await connect(running)
        await client.produce("t", 0, batch(bytes(500_000)))
        await client.fetch_one("t", 0, 0)
        gc.collect()
        gc.disable()
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            for _ in range(40):
                row = await client.fetch_one("t", 0, 0)
                assert len(row.records) > 500_000
                del row
            await pass_time(0.05)
            grown = tracemalloc.get_traced_memory()[0] - before
        finally:
            tracemalloc.stop()
            gc.enable()
        assert grown < 5_000_000
        await client.close()
