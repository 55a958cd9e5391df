"""Taking turns on the loop: a request that names thousands of things is not answered in one go."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import TypeVar

__all__ = ["in_turns"]

TURN_S = 0.005
"""How long one request has the loop before others have their turn."""

T = TypeVar("T")


async def in_turns(many: Iterable[T], at_once: int | None = None) -> AsyncIterator[T]:
    """Yield each of many things, and let others go on whenever that has taken a while; behind so
    many ``at_once`` at the latest, if that is given.
    """
    loop = asyncio.get_running_loop()
    began, count = loop.time(), 0
    for one in many:
        yield one
        count += 1
        if count == at_once or loop.time() - began >= TURN_S:
            await asyncio.sleep(0)
            began, count = loop.time(), 0
