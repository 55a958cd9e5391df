"""What performs work: the functions by which flows are run.

``working`` and ``working_async`` make of a function that performs operations one that performs all
that work asks for. ``working_by_threads`` is for processes in which no loop runs: the store's
library waits without holding the interpreter, and a request to a bucket takes as long as thousands
of lines of Python, so what a flow asks for at once (``Many``) is asked for by threads.

``run_beside`` is for a flow whose steps are long, on a loop that has others to serve.

``each_object`` is for callers outside flows: a listing as an iterator, a page in memory at a time.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar, cast

from lakelog.errors import LakelogError
from lakelog.flows import run
from lakelog.store.asking import ask
from lakelog.store.operations import ListPage, Many, ObjectInfo, Op, Wait, Work

__all__ = [
    "Perform",
    "PerformAsync",
    "each_object",
    "run_beside",
    "run_by_threads",
    "working",
    "working_async",
    "working_by_threads",
]

T = TypeVar("T")

Perform = Callable[[Op], Any]
"""Performs one operation. Retries, meters and faults are functions around one of these."""

PerformAsync = Callable[[Op], Awaitable[Any]]

ManyBy = Callable[[Callable[[Op], Any], Sequence[Op]], Iterable[Any]]
"""Applies a function to each of many operations, as ``map`` does; by threads, for one."""

REQUESTS = 16
FLOWS = 16
"""Threads: of one function that performs work, and of flows that run side by side."""

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


async def run_beside(flow: Work[T], work: Callable[[Any], Awaitable[Any]]) -> T:
    """Run a flow to its end: what it asks for on the running loop, and its own steps in threads."""
    answer: Any = None
    error: LakelogError | None = None

    def step() -> tuple[bool, Any]:
        try:
            return False, flow.send(answer) if error is None else flow.throw(error)
        except StopIteration as done:
            return True, done.value

    try:
        while True:
            is_done, found = await asyncio.to_thread(step)
            if is_done:
                return cast("T", found)
            answer = error = None
            try:
                answer = await work(found)
            except LakelogError as raised:
                error = raised
    finally:
        error = None  # Its traceback refers to this frame: a circle that only the collector ends.


def _attempt(perform: Perform, op: Op) -> Any:
    """Perform one of many operations: the answer, or the error that it ended with."""
    try:
        return perform(op)
    except LakelogError as error:
        return error


def working_by_threads(perform: Perform) -> Callable[[Op | Many | Wait], Any]:
    """Return what performs work: many operations at once, some at a time.

    It may be shared by flows that run side by side.
    """
    pool = ThreadPoolExecutor(REQUESTS, thread_name_prefix="lakelog-request")

    def many(attempt: Callable[[Op], Any], ops: Sequence[Op]) -> Iterable[Any]:
        return pool.map(attempt, ops) if len(ops) > 1 else map(attempt, ops)

    return working(perform, many=many)


def run_by_threads(flows: Sequence[Work[T]], perform: Callable[[Op | Many | Wait], Any]) -> list[T]:
    """Run flows that share nothing side by side, and return what they return, in their order."""
    if len(flows) < 2:
        return [run(flow, perform) for flow in flows]
    with ThreadPoolExecutor(FLOWS, thread_name_prefix="lakelog-flow") as pool:
        return list(pool.map(lambda flow: run(flow, perform), flows))


def each_object(perform: Perform, prefix: str = "", after: str = "") -> Iterator[ObjectInfo]:
    """Yield every object below ``prefix`` that comes behind ``after``."""
    more = True
    while more:
        page = run(ask(ListPage(prefix, after)), perform)
        yield from page.objects
        more = page.more and bool(page.objects)
        after = page.objects[-1].key if page.objects else after
