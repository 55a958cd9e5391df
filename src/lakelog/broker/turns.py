"""Taking turns on the loop: a request that names thousands of things is not answered in one go."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import TypeVar

__all__ = ["in_turns"]

TURN_S = 0.005
"""How long somebody has the loop before others have their turn."""

T = TypeVar("T")


async def in_turns(many: Iterable[T]) -> AsyncIterator[T]:
    """Yield each of many things, and let others go on whenever that has taken a while."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    for one in many:
        yield one
        if loop.time() - began >= TURN_S:
            await asyncio.sleep(0)
            began = loop.time()
