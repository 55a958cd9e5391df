"""Reading one partition: memory, journal and history as one, at the cost of few requests."""

import asyncio
from collections.abc import Sequence
from typing import Any

from kio.schema.errors import ErrorCode

from lakelog.broker import Limits
from lakelog.catalog import read_topic
from lakelog.formats import Bytes
from lakelog.host import SystemClock, new_id
from lakelog.log.read import KNOWN_MS
from lakelog.maintenance import SealSettings
from lakelog.manifests import change_manifest, changes
from lakelog.pipeline import CompactSettings, compact_partition
from lakelog.store import Get, GetRange, Op
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
from tests.unit.log.site import seal as seal_lane
from tests.unit.log.site import trim_lane
from tests.virtual_time import pass_time


class Watch:
    """A clock that can be set."""

    def __init__(self) -> None:
        self.passed_ms = 0

    def now_ms(self) -> int:
        return SystemClock().now_ms() + self.passed_ms

    def boot_ms(self) -> int:
        return SystemClock().boot_ms() + self.passed_ms


def seal(site: Site) -> None:
    """Make segments of all that is in lane 0, and let the journal forget it: another process."""
    site.do(seal_lane(site.lane(0), SealSettings()))
    site.do(trim_lane(site.lane(0)))


async def read_all(client: Client, offset: int = 0, **options: int) -> list[bytes]:
    values: list[bytes] = []
    while True:
        row = await client.fetch_one("t", 0, offset, **options)
        assert row.error_code is ErrorCode.none
        for at, value in records(row.records):
            if at >= offset:
                assert at == offset
                values.append(value or b"")
                offset += 1
        if offset == row.high_watermark:
            return values


def held_by(pieces: Sequence[Bytes]) -> set[int]:
    """Return the buffers that pieces are views of, by their names in this process."""
    return {id(piece.obj) for piece in pieces if isinstance(piece, memoryview)}


@story
async def test_those_who_read_the_same_from_the_store_share_the_bytes_and_hold_no_copies() -> None:
    site = Site()
    site.create("t")
    for at in range(3):
        site.append("t", 0, batch(b"%d" % at * 100_000))
    for is_sealed in (False, True):
        if is_sealed:
            seal(site)
        async with broker(site) as running:
            entry = running.services.catalog.entry("t", b"")
            partition = None if entry is None else entry.partition(0)
            assert partition is not None
            answers = [await partition.read(0, 1 << 20) for _ in range(10)]
            assert {one.size for one in answers} == {answers[0].size}
            assert len(set.union(*(held_by(one.pieces) for one in answers))) == len(
                held_by(answers[0].pieces)
            )
            copied = sum(len(one) for one in answers[0].pieces if type(one) is not memoryview)
            assert copied < 100 < 300_000 <= answers[0].size
            few = await partition.read(2, 1)
            assert [at for at, _ in records(b"".join(few.pieces))] == [2]


@story
async def test_history_journal_and_memory_are_one_log() -> None:
    site = Site()
    site.create("t")
    sent = [b"%d" % at for at in range(60)]
    for value in sent[:20]:
        site.append("t", 0, batch(value))
    seal(site)
    for value in sent[20:40]:
        site.append("t", 0, batch(value))
    async with broker(site) as running:
        client = await connect(running)
        for value in sent[40:]:
            await client.produce("t", 0, batch(value))
        assert await read_all(client) == sent
        assert await read_all(client, max_bytes=200) == sent
        assert await read_all(client, 30) == sent[30:]
        seal(site)
        assert await read_all(client) == sent
        assert (await client.list_offset("t", 0, -2)).offset == 0
        assert (await client.list_offset("t", 0, -5)).offset == 59
        await client.close()
    async with broker(site) as running:
        client = await connect(running)
        assert await read_all(client) == sent
        await client.close()


@story
async def test_reading_history_cold_moves_each_byte_about_once() -> None:
    site = Site()
    site.create("t")
    total = 0
    for at in range(200):
        body = batch(b"%d " % at + bytes(3_000))
        total += len(body)
        site.append("t", 0, body)
    seal(site)
    async with broker(site) as running:
        client = await connect(running)
        moved = 0
        perform = site.perform

        def counted(op: Op) -> Any:
            nonlocal moved
            answer = perform(op)
            if isinstance(op, GetRange):
                moved += len(answer.body)
            return answer

        site.perform = counted  # type: ignore[method-assign]
        values = await read_all(client, max_bytes=64 << 10, part_bytes=64 << 10)
        assert len(values) == 200
        assert moved <= 1.2 * total, moved / total
        await client.close()


@story
async def test_an_idle_consumer_of_many_partitions_costs_few_requests() -> None:
    """Manifests are asked for again now and then, and lanes once a second."""
    site = Site()
    site.create("t", 200)
    watch = Watch()
    async with broker(site, clock=watch) as running:
        client = await connect(running)
        wanted = {("t", at): 0 for at in range(200)}
        found = await client.fetch(wanted, session=(0, 0), max_bytes=50 << 20)
        before = len(site.ops)
        for epoch in range(1, 20):
            found = await client.fetch({}, session=(found.session_id, epoch), wait_ms=20)
        assert len(site.ops) - before <= 3
        await client.close()


@virtual_story
async def test_an_append_while_others_are_read_cold_is_not_slept_through() -> None:
    site = Site()
    site.create("t", 2)
    site.append("t", 0, batch(b"x" * 100))
    async with broker(site, probe_ms=20_000) as running:
        client, producer = await connect(running), await connect(running)
        await client.fetch_one("t", 1, 0)
        await client.fetch_one("t", 0, 1)
        site.freezes = lambda op: isinstance(op, GetRange)
        site.open.clear()
        wanted = {("t", 0): 0, ("t", 1): 0}
        client.send_fetch(wanted, min_bytes=250, wait_ms=15_000, max_bytes=50 << 20)
        await client.writer.drain()
        await pass_time(0.1)
        await producer.produce("t", 1, batch(b"y" * 100))
        site.open.set()
        loop = asyncio.get_running_loop()
        began = loop.time()
        _, found = await client.answer()
        assert loop.time() - began < 2
        assert [len(records(part.records)) for part in found.responses[0].partitions] == [1, 1]
        for one in (client, producer):
            await one.close()


@story
async def test_records_that_were_deleted_are_out_of_range_at_their_front() -> None:
    site = Site()
    site.create("t")
    for at in range(10):
        site.append("t", 0, batch(b"%d" % at))
    seal(site)
    where = site.do(read_topic("t")).path_of(0)
    watch = Watch()
    async with broker(site, clock=watch, limits=Limits(cache_bytes=0)) as running:
        client = await connect(running)
        assert len(await read_all(client)) == 10
        write = new_id().hex()
        site.do(change_manifest(where, write, lambda now: changes.start(now, write, 4)))
        watch.passed_ms += 120_000
        row = await client.fetch_one("t", 0, 2)
        assert (row.error_code, row.log_start_offset) == (ErrorCode.offset_out_of_range, 4)
        assert (await client.list_offset("t", 0, -2)).offset == 4
        assert await read_all(client, 4) == [b"%d" % at for at in range(4, 10)]
        await client.close()


@story
async def test_a_look_at_a_partition_that_is_known_asks_for_its_manifest_and_no_more() -> None:
    site = Site()
    site.create("t", 50)
    async with broker(site) as running:
        client = await connect(running)
        before, gets = len(site.ops), site.count(Get)
        await client.fetch({("t", at): 0 for at in range(50)}, max_bytes=50 << 20)
        assert site.count(Get) - gets == 50
        assert len(site.ops) - before <= 52
        await client.close()


def compact(site: Site) -> None:
    """Compact what is sealed of the topic: another process."""
    topic = site.do(read_topic("t"))
    write, now_ms = new_id(), SystemClock().now_ms()
    settings = CompactSettings(map_bytes=1 << 20)
    done = site.do(
        compact_partition(
            topic, topic.path_of(0), settings, write, seed=new_id(), now_ms=now_ms, always=True
        )
    )
    assert done.before, "it was due"


async def kept(client: Client, end: int) -> list[tuple[int, bytes | None]]:
    """Return what a consumer from the beginning sees, as far as an offset."""
    found: list[tuple[int, bytes | None]] = []
    offset = 0
    while offset < end:
        row = await client.fetch_one("t", 0, offset)
        assert row.error_code is ErrorCode.none
        some = [one for one in records(row.records) if one[0] >= offset]
        found += some
        offset = some[-1][0] + 1
    return found


@story
async def test_what_compaction_took_away_is_no_longer_served_from_memory() -> None:
    site = Site()
    site.create("t", cleanup_policy="compact")
    watch = Watch()
    async with broker(site, clock=watch) as running:
        client = await connect(running)
        for value in (b"old", b"older", b"newest of the sealed"):
            await client.produce("t", 0, batch(value, key=b"the key"))
        await client.produce("t", 0, batch(b"another", key=b"another key"))
        seal(site)
        await client.produce("t", 0, batch(b"newest", key=b"the key"))
        assert [at for at, _ in await kept(client, 5)] == [0, 1, 2, 3, 4]
        compact(site)
        watch.passed_ms += KNOWN_MS
        left = [(2, b"newest of the sealed"), (3, b"another"), (4, b"newest")]
        assert await kept(client, 5) == left
        await client.close()


@story
async def test_what_is_sealed_and_not_compacted_is_served_from_memory_all_the_same() -> None:
    site = Site()
    site.create("t")
    watch = Watch()
    async with broker(site, clock=watch) as running:
        client = await connect(running)
        sent = [b"%d" % at for at in range(10)]
        for value in sent:
            await client.produce("t", 0, batch(value))
        seal(site)
        watch.passed_ms += KNOWN_MS
        ranges = site.count(GetRange)
        assert await read_all(client) == sent
        assert site.count(GetRange) == ranges
        await client.close()
