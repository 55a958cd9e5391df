"""Batches are looked into beside the loop: in turns, within the memory for answers, fairly."""

import asyncio
import struct
import threading
import tracemalloc

import pytest
from crc32c import crc32c
from kio.schema.errors import ErrorCode

from lakelog.broker.budget import Budget
from lakelog.broker.scans import Scans
from lakelog.errors import CorruptError
from lakelog.records import HEADER_BYTES, Codec, Scan, compress, encode_varint
from tests.patience import in_time
from tests.unit.broker.site import Site, batch, broker, connect, story, virtual_story
from tests.virtual_time import pass_time

HEADERS = 300_000


def headed(codec: Codec = Codec.ZSTD) -> bytes:
    """Return a batch of one record with very many headers, which are all alike."""
    record = b"\0\0\0\x01\x01" + encode_varint(HEADERS) + b"\0\x01" * HEADERS
    body = compress(codec, encode_varint(len(record)) + record)
    made = bytearray(batch(b""))
    made[HEADER_BYTES:] = body
    struct.pack_into(">i", made, 8, len(made) - 12)
    struct.pack_into(">h", made, 21, codec)
    struct.pack_into(">I", made, 17, crc32c(made[21:]))
    return bytes(made)


class Loop:
    """How long the loop did nothing else, at worst."""

    def __init__(self) -> None:
        self.worst_s = 0.0

    async def watch(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            before = loop.time()
            await asyncio.sleep(0.001)
            self.worst_s = max(self.worst_s, loop.time() - before)


def scan(steps: int, held: int, seen: list[str], name: str = "") -> Scan[str]:
    for _ in range(steps):
        seen.append(name or threading.current_thread().name)
        yield held
    return "found"


@story
async def test_a_scan_goes_on_in_threads_and_what_it_holds_counts_as_an_answer() -> None:
    answers = Budget(1_000)
    scans = Scans(answers)
    seen: list[str] = []
    used: list[int] = []

    def growing() -> Scan[str]:
        for size in (10, 500, 20):
            yield size
            used.append(answers.used)
        return "found"

    assert await scans.run(growing(), "here") == "found"
    assert used == [10, 500, 20]
    assert await scans.run(scan(3, 100, seen), "here") == "found"
    assert threading.main_thread().name not in seen
    assert answers.used == 0


@story
async def test_what_a_scan_raises_is_raised_and_it_holds_nothing_then() -> None:
    answers = Budget(1_000)
    scans = Scans(answers)

    def failing() -> Scan[None]:
        yield 10
        raise CorruptError("no such thing", at=0)

    with pytest.raises(CorruptError, match="no such thing"):
        await scans.run(failing(), "here")
    assert answers.used == 0


@virtual_story
async def test_a_scan_waits_until_there_is_room_and_holds_up_no_other_address() -> None:
    answers = Budget(1_000, address_percent=50)
    scans = Scans(answers)
    seen: list[str] = []
    answers.take(500, "here")
    waiting = asyncio.create_task(scans.run(scan(1, 1, seen, "here"), "here"))
    await pass_time(0.02)
    assert await scans.run(scan(1, 1, seen, "there"), "there") == "found"
    assert seen == ["there"]
    answers.give(500, "here")
    assert await waiting == "found"
    answers.take(500, "here")
    gone = asyncio.create_task(scans.run(scan(1, 1, seen, "here"), "here"))
    await pass_time(0.02)
    gone.cancel()
    await asyncio.wait((gone,))
    assert answers.waiting == 0
    answers.give(500, "here")


@story
async def test_scans_of_an_address_wait_for_each_other_and_not_for_those_of_another() -> None:
    scans = Scans(Budget(1_000))
    seen: list[str] = []
    many = [scans.run(scan(50, 1, seen, "greedy"), "greedy") for _ in range(20)]
    tasks = [asyncio.create_task(one) for one in many]
    await asyncio.sleep(0)
    assert await scans.run(scan(50, 1, seen, "modest"), "modest") == "found"
    assert seen.count("greedy") < 10 * 50
    await asyncio.gather(*tasks)


@pytest.mark.parametrize("codec", [Codec.ZSTD, Codec.GZIP], ids=["zstd", "gzip"])
def test_asking_for_a_time_does_not_hold_up_the_loop_whatever_is_there(codec: Codec) -> None:
    async def run() -> None:
        site = Site()
        site.create("t")
        hostile = headed(codec)
        assert len(hostile) < 2_000
        async with broker(site) as running:
            client = await connect(running)
            for _ in range(5):
                assert (await client.produce("t", 0, hostile)).error_code is ErrorCode.none
            made = await client.produce("t", 0, batch(b"late", times=[_ms(hostile) + 60_000]))
            loop = Loop()
            watch = asyncio.create_task(loop.watch())
            await asyncio.sleep(0.05)
            loop.worst_s = 0.0
            tracemalloc.start()
            found = await client.list_offset("t", 0, _ms(hostile))
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            watch.cancel()
            assert found.offset == 0
            found = await client.list_offset("t", 0, _ms(hostile) + 1)
            await client.close()
            assert found.offset == made.base_offset
            assert peak < 8 << 20, peak  # Objects of all headers take some 40 MB.
            in_time(loop.worst_s < 0.3, loop.worst_s)

    asyncio.run(run())


def _ms(made: bytes) -> int:
    """Return the time of a batch's first record."""
    return int(struct.unpack_from(">q", made, 27)[0])


@story
async def test_keys_of_a_compacted_topic_are_looked_for_without_making_records() -> None:
    site = Site()
    site.create("t", cleanup_policy="compact")
    async with broker(site) as running:
        client = await connect(running)
        await client.produce("t", 0, batch(b"first"))
        tracemalloc.start()
        made = await client.produce("t", 0, headed())
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert made.error_code is ErrorCode.invalid_record
        assert [one.batch_index for one in made.record_errors] == [0]
        assert peak < 8 << 20, peak
        await client.close()
