"""The loop on which time takes none: timers are exact, and nothing that was sent is overtaken."""

import asyncio
import threading
import time

import pytest

from tests.patience import HANGS_S, until
from tests.virtual_time import VirtualClock, pass_time, run_virtually


def test_half_an_hour_passes_at_once_and_exactly_on_every_clock() -> None:
    async def story() -> tuple[float, int, int]:
        loop, clock = asyncio.get_running_loop(), VirtualClock()
        began = loop.time(), clock.now_ms(), clock.boot_ms()
        await pass_time(1800)
        return loop.time() - began[0], clock.now_ms() - began[1], clock.boot_ms() - began[2]

    began = time.process_time()
    passed, wall_ms, boot_ms = run_virtually(story())
    assert (round(passed, 6), wall_ms, boot_ms) == (1800, 1_800_000, 1_800_000)
    assert time.process_time() - began < 1


def test_timers_come_in_their_order_however_long_the_work_between_them_takes() -> None:
    seen: list[str] = []

    async def at(name: str, seconds: float, busy: int) -> None:
        await pass_time(seconds)
        sum(range(busy))
        seen.append(name)

    async def story() -> None:
        await asyncio.gather(at("c", 0.003, 0), at("a", 0.001, 3_000_000), at("b", 0.002, 10))

    run_virtually(story())
    assert seen == ["a", "b", "c"]


def test_what_was_sent_is_there_before_time_goes_on() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readexactly(1 << 20))
        writer.close()

    async def story() -> float:
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            began = asyncio.get_running_loop().time()
            for _ in range(5):
                reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
                writer.write(bytes(1 << 20))
                async with asyncio.timeout(10):
                    assert len(await reader.read(-1)) == 1 << 20
                writer.close()
            return asyncio.get_running_loop().time() - began

    assert run_virtually(story()) < 10


def test_a_thread_takes_no_time_however_long_it_takes() -> None:
    async def story() -> float:
        go = threading.Event()
        began = asyncio.get_running_loop().time()
        asked = asyncio.create_task(asyncio.to_thread(go.wait, 30))
        threading.Timer(0.05, go.set).start()
        async with asyncio.timeout(0.01):
            assert await asked
        return asyncio.get_running_loop().time() - began

    assert run_virtually(story()) < 0.01


def test_what_never_comes_is_a_failure_at_once() -> None:
    async def story() -> None:
        await until(lambda: False)

    began = time.monotonic()
    with pytest.raises(TimeoutError):
        run_virtually(story())
    assert time.monotonic() - began < HANGS_S / 2


def test_time_does_not_pass_by_itself_on_other_loops() -> None:
    with pytest.raises(AssertionError, match="use until"):
        asyncio.run(pass_time(1))
