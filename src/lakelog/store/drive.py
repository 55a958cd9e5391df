"""What performs work: the functions by which flows are run.

``working`` and ``working_async`` make of a function that performs operations one that performs all
that work asks for.
``each_object`` is for callers outside flows: a listing as an iterator, a page in memory at a time.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from lakelog.errors import LakelogError
from lakelog.store.operations import ListPage, Many, ObjectInfo, Op, Page, Wait

__all__ = [
    "Perform",
    "PerformAsync",
    "each_object",
    "working",
    "working_async",
]

Perform = Callable[[Op], Any]
"""Performs one operation. Retries, meters and faults are functions around one of these."""

PerformAsync = Callable[[Op], Awaitable[Any]]

ManyBy = Callable[[Callable[[Op], Any], Sequence[Op]], Iterable[Any]]
"""Applies a function to each of many operations, as ``map`` does; by threads, for one."""

_sleep: Callable[[float], None] = time.sleep  # noqa: TID251 (a driver: this is where waiting is)


def working(
    perform: Perform, *, sleep: Callable[[float], None] = _sleep, many: ManyBy = map
) -> Callable[[Op | Many | Wait], Any]:
    """Return what performs work: one operation after the other, unless ``many`` does otherwise."""

    def work(request: Op | Many | Wait) -> Any:
        match request:
            case Wait():
                return sleep(request.ms / 1000)
            case Many():
                return tuple(many(partial(_attempt, perform), request.ops))
            case _:
                return perform(request)

    return work


def working_async(
    perform: PerformAsync, *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
) -> Callable[[Op | Many | Wait], Awaitable[Any]]:
    """Return what performs work on the running loop: many operations at once."""

    async def work(request: Op | Many | Wait) -> Any:
        match request:
            case Wait():
                return await sleep(request.ms / 1000)
            case Many():
                return tuple(await asyncio.gather(*map(attempt, request.ops)))
            case _:
                return await perform(request)

    async def attempt(op: Op) -> Any:
        try:
            return await perform(op)
        except LakelogError as error:
            return error

    return work


def _attempt(perform: Perform, op: Op) -> Any:
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
