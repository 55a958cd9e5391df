"""The end of a broker's lanes: what was accepted is stored, but not at any price of time."""

import asyncio
from collections.abc import Collection

from structlog.typing import FilteringBoundLogger

from lakelog.broker.lanes import LaneWriter
from lakelog.broker.supervision import awaited

__all__ = ["close_lanes"]

HOPELESS_MS = 5_000
"""How long a broker that stops waits for a store that refuses: a full disk stays full."""


async def close_lanes(
    writers: Collection[LaneWriter], drain_ms: int, log: FilteringBoundLogger
) -> None:
    """Store what was accepted, and close all lanes; tell what may not have been stored."""
    closing = {awaited(writer.close()): writer for writer in writers}
    await _wait_for(closing, drain_ms)
    for writer in writers:
        await writer.abort()
        if writer.unstored:
            log.error(
                "what was accepted may not be stored; its producers were told so",
                lane=writer.lane.number,
                requests=writer.unstored,
                why=writer.trouble(),
            )
    for error in await asyncio.gather(*closing, return_exceptions=True):
        if isinstance(error, Exception):
            log.error("a lane did not close", error=repr(error))


async def _wait_for(closing: "dict[asyncio.Task[None], LaneWriter]", drain_ms: int) -> None:
    """Wait until lanes are closed, not for ever, and less for those whose store refuses."""
    loop = asyncio.get_running_loop()
    begun_s, left = loop.time(), set(closing)
    refused = {writer: writer.health.refused_puts for writer in closing.values()}
    while left:
        waited_ms = (loop.time() - begun_s) * 1000
        is_hopeless = all(
            writer.health.is_failing or writer.health.refused_puts > refused[writer]
            for writer in map(closing.__getitem__, left)
        )
        if waited_ms >= min(drain_ms, HOPELESS_MS if is_hopeless else 1 << 62):
            return
        _, left = await asyncio.wait(left, timeout=0.05)
