"""The places where a flow meets the world.

``working`` and ``working_async`` make of a function that performs operations one that performs all
that work asks for.
``each_object`` is for callers outside flows: a listing as an iterator, a page in memory at a time.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from lakelog.errors import LakelogError
from lakelog.store.operations import ListPage, Many, ObjectInfo, Op, Page, Wait

__all__ = [
    "Perform",
    "PerformAsync",
    "attempt",
    "each_object",
    "working",
    "working_async",
]

Perform = Callable[[Op], Any]
"""Performs one operation. Retries, meters and faults are functions around one of these."""

PerformAsync = Callable[[Op], Awaitable[Any]]

_sleep: Callable[[float], None] = time.sleep  # noqa: TID251 (a driver: this is where waiting is)


def working(
    perform: Perform, *, sleep: Callable[[float], None] = _sleep
) -> Callable[[Op | Many | Wait], Any]:
    """Return what performs work: one operation after the other."""

    def one(wish: Op | Many | Wait) -> Any:
        match wish:
            case Wait():
                return sleep(wish.ms / 1000)
            case Many():
                return tuple(attempt(perform, op) for op in wish.ops)
            case _:
                return perform(wish)

    return one


def working_async(
    perform: PerformAsync, *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
) -> Callable[[Op | Many | Wait], Awaitable[Any]]:
    """Return what performs work on the running loop: many operations at once."""

    async def one(wish: Op | Many | Wait) -> Any:
        match wish:
            case Wait():
                return await sleep(wish.ms / 1000)
            case Many():
                return tuple(await asyncio.gather(*(tried(op) for op in wish.ops)))
            case _:
                return await perform(wish)

    async def tried(op: Op) -> Any:
        try:
            return await perform(op)
        except LakelogError as error:
            return error

    return one


def attempt(perform: Perform, op: Op) -> Any:
    """Perform one of many operations: the answer, or the error that it ended with."""
    try:
        return perform(op)
    except LakelogError as error:
        return error


def each_object(perform: Perform, prefix: str = "", after: str = "") -> Iterator[ObjectInfo]:
    """Yield every object below ``prefix`` that comes behind ``after``."""
    more = True
    while more:
        page: Page = perform(ListPage(prefix, after))
        yield from page.objects
        more = page.more and bool(page.objects)
        after = page.objects[-1].key if page.objects else after
