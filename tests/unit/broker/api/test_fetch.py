"""Stories of consumers: what is there is read, what is not is waited for, at the least cost."""

import asyncio
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from lakelog.broker import Limits
from lakelog.records import decode_batches
from lakelog.store import GetRange, GetSuffix, ListPage, Op
from tests.patience import in_time
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
from tests.virtual_time import pass_time

NO_MEMORY = Limits(cache_bytes=0, drain_ms=3_000)
"""Nothing that was written is kept: every read is a cold one, and twice the same are two."""


def gets(site: Site) -> list[GetRange]:
    return [op for op in site.ops if isinstance(op, GetRange) and op.key.endswith(".bundle")]


@pytest.mark.parametrize("version", range(7, 18))
def test_a_fetch_of_any_version_reads_what_was_produced(version: int) -> None:
    async def run() -> None:
        site = Site()
        site.create("t")
        async with broker(site) as running:
            client = await connect(running)
            await client.metadata("t")
            await client.produce("t", 0, batch(b"a", b"b"))
            row = await client.fetch_one("t", 0, 0, version=version)
            assert records(row.records) == [(0, b"a"), (1, b"b")]
            assert (row.high_watermark, row.last_stable_offset, row.log_start_offset) == (2, 2, 0)
            await client.close()

    asyncio.run(run())


@pytest.mark.parametrize("limits", [Limits(drain_ms=3_000), NO_MEMORY], ids=["hot", "cold"])
def test_at_least_one_batch_is_answered_however_large(limits: Limits) -> None:
    async def run() -> None:
        site = Site()
        site.create("t", 2)
        for partition in range(2):
            for at in range(3):
                site.append("t", partition, batch(b"%d" % at + b"x" * 5_000))
        async with broker(site, limits=limits) as running:
            client = await connect(running)
            await client.fetch({("t", 0): 3, ("t", 1): 3})
            for options in ({"max_bytes": 1}, {"part_bytes": 0}, {"max_bytes": 0}):
                found = await client.fetch({("t", 0): 1, ("t", 1): 0}, **options)
                parts = found.responses[0].partitions
                assert [offset for offset, _ in records(parts[0].records)] == [1], options
                assert [part.high_watermark for part in parts] == [3, 3], options
                if "max_bytes" in options:
                    assert not parts[1].records
            await client.close()

    asyncio.run(run())


@pytest.mark.parametrize("limits", [Limits(drain_ms=3_000), NO_MEMORY], ids=["hot", "cold"])
def test_max_bytes_bounds_an_answer_over_all_its_partitions(limits: Limits) -> None:
    async def run() -> None:
        site = Site(lanes=2)
        site.create("t", 10)
        async with broker(site, limits=limits) as running:
            client = await connect(running)
            for partition in range(10):
                for _ in range(5):
                    await client.produce("t", partition, batch(b"x" * 1_000))
            wanted = {("t", partition): 0 for partition in range(10)}
            found = await client.fetch(wanted, max_bytes=8_000)
            sizes = [len(part.records) for part in found.responses[0].partitions]
            assert 5_000 < sum(sizes) <= 8_000
            found = await client.fetch(wanted, part_bytes=2_500)
            sizes = [len(part.records) for part in found.responses[0].partitions]
            assert all(1_000 < size <= 2_500 for size in sizes)
            await client.close()

    asyncio.run(run())


@story
async def test_more_than_max_bytes_is_not_waited_for() -> None:
    site = Site()
    site.create("t")
    async with broker(site) as running:
        client = await connect(running)
        for _ in range(3):
            await client.produce("t", 0, batch(b"x" * 1_000))
        loop = asyncio.get_running_loop()
        began = loop.time()
        row = await client.fetch_one("t", 0, 0, min_bytes=100_000, max_bytes=500, wait_ms=5_000)
        assert row.records
        in_time(loop.time() - began < 2, loop.time() - began)
        await client.close()


@story
async def test_a_fetch_waits_for_as_long_as_it_may_and_no_longer() -> None:
    site = Site()
    site.create("t")
    async with broker(site) as running:
        client = await connect(running)
        loop = asyncio.get_running_loop()
        began = loop.time()
        row = await client.fetch_one("t", 0, 0, wait_ms=300)
        assert (row.error_code, row.records, row.high_watermark) == (ErrorCode.none, b"", 0)
        assert loop.time() - began > 0.28
        in_time(loop.time() - began < 1.5, loop.time() - began)
        await client.close()


@virtual_story
async def test_a_waiting_fetch_is_woken_by_a_producer() -> None:
    site = Site(lanes=2)
    site.create("t", 4)
    async with broker(site) as running:
        consumer, producer = await connect(running), await connect(running)
        wanted = {("t", partition): 0 for partition in range(4)}
        await consumer.fetch(wanted)
        loop = asyncio.get_running_loop()
        consumer.send_fetch(wanted, wait_ms=10_000)
        await pass_time(0.1)
        began = loop.time()
        await producer.produce("t", 2, batch(b"a"))
        _, found = await consumer.answer()
        assert loop.time() - began < 0.5
        assert [len(records(part.records)) for part in found.responses[0].partitions] == [
            0,
            0,
            1,
            0,
        ]
        for client in (consumer, producer):
            await client.close()


@virtual_story
async def test_a_waiting_fetch_waits_until_there_is_as_much_as_it_wants() -> None:
    site = Site()
    site.create("t", 2)
    async with broker(site) as running:
        consumer, producer = await connect(running), await connect(running)
        body = batch(b"x" * 400)
        consumer.send_fetch({("t", 0): 0, ("t", 1): 0}, wait_ms=10_000, min_bytes=3 * len(body))
        answer = asyncio.create_task(consumer.answer())
        for at in range(3):
            await pass_time(0.05)
            assert not answer.done()
            await producer.produce("t", at % 2, body)
        _, found = await asyncio.wait_for(answer, 5)
        assert [len(records(part.records)) for part in found.responses[0].partitions] == [2, 1]
        for client in (consumer, producer):
            await client.close()


@virtual_story
async def test_an_append_of_another_process_is_found_by_one_request_a_second() -> None:
    site = Site()
    site.create("t", 50)
    async with broker(site) as running:
        clients = [await connect(running) for _ in range(5)]
        wanted = {("t", partition): 0 for partition in range(50)}
        for client in clients:
            await client.fetch(wanted)
            client.send_fetch(wanted, wait_ms=20_000)
        await pass_time(0.3)
        before = len(site.ops)
        await pass_time(2.5)
        assert 2 <= len(site.ops) - before <= 4, site.ops[before:]
        site.append("t", 33, batch(b"from afar"))
        loop = asyncio.get_running_loop()
        began = loop.time()
        for client in clients:
            _, found = await client.answer()
            parts = found.responses[0].partitions
            assert records(parts[33].records) == [(0, b"from afar")]
            await client.close()
        assert loop.time() - began < 1.8


@virtual_story
async def test_a_lane_for_which_nobody_waits_is_not_looked_at() -> None:
    site = Site(lanes=4)
    site.create("t", 4)
    async with broker(site) as running:
        client = await connect(running)
        wanted = {("t", partition): 0 for partition in range(4)}
        await client.fetch(wanted, wait_ms=100)
        before = len(site.ops)
        await pass_time(1.5)
        assert len(site.ops) == before
        client.send_fetch(wanted, wait_ms=20_000)
        await pass_time(0.1)
        await client.close()
        await pass_time(0.2)
        before = len(site.ops)
        await pass_time(1.5)
        assert len(site.ops) == before, "its consumer is gone"


@story
async def test_out_of_range_is_said_only_after_a_look() -> None:
    site = Site()
    site.create("t")
    async with broker(site) as running:
        client = await connect(running)
        await client.produce("t", 0, batch(b"a"))
        await client.fetch_one("t", 0, 0)
        for _ in range(4):
            site.append("t", 0, batch(b"x", b"y"))
        row = await client.fetch_one("t", 0, 7)
        assert (row.error_code, records(row.records)[0][0]) == (ErrorCode.none, 7)
        row = await client.fetch_one("t", 0, 9)
        assert (row.error_code, row.records, row.high_watermark) == (ErrorCode.none, b"", 9)
        for offset in (10, -5, 1 << 60):
            row = await client.fetch_one("t", 0, offset)
            assert row.error_code is ErrorCode.offset_out_of_range
            assert not row.records
        await client.close()


@virtual_story
async def test_when_the_store_does_not_answer_nothing_is_said_to_be_out_of_range() -> None:
    site = Site()
    site.create("t")
    async with broker(site) as running:
        client = await connect(running)
        await client.produce("t", 0, batch(b"a"))
        site.fails = lambda op: not isinstance(op, ListPage)
        client.send_fetch({("t", 0): 7})
        number = asyncio.create_task(client.answer())
        await pass_time(0.5)
        if number.done():
            row = number.result()[1].responses[0].partitions[0]
            assert row.error_code is not ErrorCode.offset_out_of_range
        site.fails = lambda _: False
        await asyncio.wait_for(number, 30)
        await client.close()


@story
async def test_topics_are_asked_for_in_the_store_before_they_are_said_to_be_unknown() -> None:
    site = Site()
    async with broker(site) as running:
        client = await connect(running)
        site.create("late")
        site.append("late", 0, batch(b"a"))
        row = await client.fetch_one("late", 0, 0, wait_ms=5_000)
        assert records(row.records) == [(0, b"a")]
        row = await client.fetch_one("never", 0, 0, wait_ms=10_000)
        assert row.error_code is ErrorCode.unknown_topic_or_partition
        row = await client.fetch_one("late", 7, 0, wait_ms=10_000)
        assert row.error_code is ErrorCode.unknown_topic_or_partition
        row = await client.fetch_one("bad name!", 0, 0)
        assert row.error_code is ErrorCode.unknown_topic_or_partition
        await client.close()


@story
async def test_many_partitions_of_an_unknown_topic_are_one_question() -> None:
    site = Site()
    async with broker(site) as running:
        client = await connect(running)
        client.ids["gone"] = UUID(int=77)
        before = len(site.ops)
        for version in (12, 13):
            found = await client.fetch({("gone", at): 0 for at in range(100)}, version=version)
            codes = {part.error_code for part in found.responses[0].partitions}
            unknown = ErrorCode.unknown_topic_or_partition
            assert codes == {unknown if version < 13 else ErrorCode.unknown_topic_id}
        assert len(site.ops) - before <= 4
        await client.close()


@story
async def test_a_fetch_of_a_replica_is_not_answered() -> None:
    site = Site()
    site.create("t")
    async with broker(site) as running:
        client = await connect(running)
        client.send_fetch({("t", 0): 0}, replica=3)
        assert await client.is_closed()
        await client.close()


@virtual_story
async def test_what_was_deleted_is_not_read_any_more() -> None:
    site = Site()
    site.create("t")
    async with broker(site) as running:
        client = await connect(running)
        await client.produce("t", 0, batch(b"a"))
        await client.ask(20, 6, topics=[{"name": "t", "topic_id": None}], timeout=1000)
        row = await client.fetch_one("t", 0, 0, wait_ms=5_000)
        assert row.error_code is ErrorCode.unknown_topic_or_partition
        site.create("t")
        made = await client.produce("t", 0, batch(b"new"))
        assert made.base_offset == 0
        row = await client.fetch_one("t", 0, 0)
        assert records(row.records) == [(0, b"new")]
        await client.close()


# ---------------------------------------------------------------------------- cold


async def read_all(client: Client, name: str, partitions: int, **options: int) -> list[bytes]:
    """Read partitions to their ends, as a consumer does."""
    at = dict.fromkeys(range(partitions), 0)
    values: list[bytes] = []
    while True:
        found = await client.fetch({(name, one): offset for one, offset in at.items()}, **options)
        parts = found.responses[0].partitions
        for part in parts:
            assert part.error_code is ErrorCode.none
            for offset, value in records(part.records):
                if offset >= at[part.partition_index]:
                    values.append(value or b"")
                    at[part.partition_index] = offset + 1
        if all(at[part.partition_index] == part.high_watermark >= 0 for part in parts):
            return values


def fill(site: Site, partitions: int, bundles: int, size: int) -> int:
    """Bundles of one slice for each partition; returns the bytes of all batches."""
    from lakelog.catalog import read_topic
    from lakelog.journal import append, new_append

    site.create("t", partitions)
    topic = site.do(read_topic("t"))
    lane = site.lane(0)
    total = 0
    for at in range(bundles):
        bodies = [batch(b"%d/%d " % (at, one) + bytes(size)) for one in range(partitions)]
        total += sum(map(len, bodies))
        site.do(append(lane, [new_append(topic.id, one, body) for one, body in enumerate(bodies)]))
    return total


@story
async def test_slices_of_one_bundle_for_many_partitions_are_one_request() -> None:
    site = Site()
    fill(site, 40, 1, 500)
    async with broker(site) as running:
        client = await connect(running)
        before = len(gets(site))
        found = await client.fetch({("t", one): 0 for one in range(40)}, max_bytes=50 << 20)
        assert all(part.records for part in found.responses[0].partitions)
        assert len(gets(site)) - before == 1
        await client.close()


@story
async def test_a_second_consumer_costs_nothing() -> None:
    site = Site()
    fill(site, 5, 30, 2_000)
    async with broker(site) as running:
        first, second = await connect(running), await connect(running)
        values = await read_all(first, "t", 5)
        assert len(values) == 150
        before = len(site.ops)
        assert await read_all(second, "t", 5) == values
        assert await read_all(second, "t", 5, max_bytes=9_000)
        assert not site.ops[before:]
        for client in (first, second):
            await client.close()


@pytest.mark.parametrize("size", [100, 3_000, 40_000])
@pytest.mark.parametrize("max_bytes", [10_000, 100_000])
def test_reading_everything_cold_moves_each_byte_about_once(size: int, max_bytes: int) -> None:
    async def run() -> None:
        site = Site()
        total = fill(site, 4, 40, size)
        async with broker(site) as running:
            client = await connect(running)
            moved = 0
            perform = site.perform

            def counted(op: Op) -> object:
                nonlocal moved
                answer = perform(op)
                if isinstance(op, GetRange | GetSuffix) and op.key.endswith(".bundle"):
                    moved += len(answer.body)
                return answer

            site.perform = counted  # type: ignore[method-assign]
            values = await read_all(client, "t", 4, max_bytes=max_bytes, part_bytes=max_bytes)
            assert len(values) == 160
            assert moved <= 1.2 * total + 40 * 200, moved / total
            await client.close()

    asyncio.run(run())


@story
async def test_a_large_slice_is_read_in_parts_and_not_again_and_again() -> None:
    """One slice of many batches, read by a consumer that takes little at a time."""
    site = Site()
    site.create("t")
    site.append("t", 0, b"".join(batch(b"%d " % at + bytes(3_000)) for at in range(100)))
    async with broker(site) as running:
        client = await connect(running)
        moved = 0
        perform = site.perform

        def counted(op: Op) -> object:
            nonlocal moved
            answer = perform(op)
            if isinstance(op, GetRange):
                moved += len(answer.body)
            return answer

        site.perform = counted  # type: ignore[method-assign]
        values = await read_all(client, "t", 1, max_bytes=10_000, part_bytes=10_000)
        assert len(values) == 100
        assert moved < 1.2 * 100 * 3_100, moved
        await client.close()


# ---------------------------------------------------------------------------- sessions


@story
async def test_a_session_says_everything_once_and_then_only_what_is_new() -> None:
    site = Site()
    site.create("t", 3)
    async with broker(site) as running:
        client = await connect(running)
        await client.produce("t", 0, batch(b"a"))
        wanted = {("t", one): 0 for one in range(3)}
        found = await client.fetch(wanted, session=(0, 0), max_bytes=50 << 20)
        session = found.session_id
        assert session > 0
        assert [part.partition_index for part in found.responses[0].partitions] == [0, 1, 2]
        found = await client.fetch({("t", 0): 1}, session=(session, 1))
        assert (found.error_code, found.session_id, found.responses) == (
            ErrorCode.none, session, (),
        )  # fmt: skip
        await client.produce("t", 2, batch(b"c"))
        found = await client.fetch({}, session=(session, 2))
        (part,) = found.responses[0].partitions
        assert (part.partition_index, records(part.records)) == (2, [(0, b"c")])
        found = await client.fetch({}, session=(session, 3), forgotten={"t": [2]})
        assert found.responses == ()
        await client.close()


@story
async def test_a_session_that_is_not_there_is_an_error_of_the_whole_fetch() -> None:
    site = Site()
    site.create("t")
    async with broker(site) as running:
        client = await connect(running)
        found = await client.fetch({}, session=(12345, 1), wait_ms=5_000)
        assert found.error_code is ErrorCode.fetch_session_id_not_found
        found = await client.fetch({("t", 0): 0}, session=(0, 0))
        session = found.session_id
        found = await client.fetch({}, session=(session, 7), wait_ms=5_000)
        assert found.error_code is ErrorCode.invalid_fetch_session_epoch
        found = await client.fetch({("t", 0): 0}, session=(session, -1))
        assert (found.error_code, found.session_id) == (ErrorCode.none, 0)
        found = await client.fetch({}, session=(session, 1), wait_ms=5_000)
        assert found.error_code is ErrorCode.fetch_session_id_not_found
        await client.close()


@virtual_story
async def test_a_waiting_session_is_woken_for_a_partition_that_was_not_named_again() -> None:
    site = Site()
    site.create("t", 3)
    async with broker(site) as running:
        client, producer = await connect(running), await connect(running)
        found = await client.fetch({("t", one): 0 for one in range(3)}, session=(0, 0))
        client.send_fetch({}, session=(found.session_id, 1), wait_ms=10_000)
        await pass_time(0.05)
        await producer.produce("t", 1, batch(b"b"))
        _, found = await asyncio.wait_for(client.answer(), 5)
        (part,) = found.responses[0].partitions
        assert (part.partition_index, records(part.records)) == (1, [(0, b"b")])
        for one in (client, producer):
            await one.close()


@story
async def test_a_partition_that_fills_every_answer_does_not_starve_the_others() -> None:
    site = Site()
    site.create("t", 3)
    async with broker(site) as running:
        client = await connect(running)
        for one in range(3):
            for _ in range(5):
                await client.produce("t", one, batch(b"x" * 1_000))
        found = await client.fetch({("t", one): 0 for one in range(3)}, session=(0, 0), max_bytes=1)
        session, at, seen = found.session_id, [0, 0, 0], set()
        for epoch in range(1, 4):
            for part in (part for topic in found.responses for part in topic.partitions):
                if part.records:
                    seen.add(part.partition_index)
                    at[part.partition_index] = records(part.records)[-1][0] + 1
            wanted = {("t", one): offset for one, offset in enumerate(at)}
            found = await client.fetch(wanted, session=(session, epoch), max_bytes=1)
        assert seen == {0, 1, 2}
        await client.close()


@story
async def test_batches_from_memory_and_from_the_store_are_the_same() -> None:
    site = Site()
    site.create("t")
    async with broker(site) as running:
        client = await connect(running)
        for at in range(5):
            await client.produce("t", 0, batch(b"%d" % at, b"second"))
        hot = (await client.fetch_one("t", 0, 0)).records
        await client.close()
    async with broker(site, limits=NO_MEMORY) as running:
        client = await connect(running)
        cold = (await client.fetch_one("t", 0, 0)).records
        assert hot == cold
        assert len(list(decode_batches(hot))) == 5
        assert (await client.fetch_one("t", 0, 3)).records == hot[len(hot) // 5 :]
        await client.close()
