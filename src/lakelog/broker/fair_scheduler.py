"""Whose request is next: the clients of each address have a slice of each turn of the loop.

    address A   ####################   a few
    address B   #                      one       ---> the loop, or a thread ---> the loop again
    address C   ##                     two

A request of a few bytes may take milliseconds to answer, and a connection may send a hundred at
once. If each began as soon as it came, a client with some connections could put seconds of work
before everybody else's. So requests of one address begin until a slice of time is used up; those
that are left stand in line, and the loop looks after all others before the next slice. Many clients
may share an address, so that a slice is not one request: a busy loop has few turns in a second.

What is decoded or encoded in a thread keeps the turn until it is done: those threads also write to
local files, for everybody.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import islice
from time import perf_counter
from weakref import WeakValueDictionary

__all__ = ["FairScheduler"]

SLICE_S = 0.002
"""How long requests of an address go on beginning in one turn of the loop, at least."""
SLICE_S_MAX = 0.02
"""And at most: half of what the last turn took, while some are left of it. A loop with much to do
has few turns.
"""

AT_ONCE = 32
"""So many are told that it may be their turn. Those that are too late for the slice wait on."""


class FairScheduler:
    """The lines in which requests stand."""

    __slots__ = ("_lines", "_now")

    def __init__(self, now: Callable[[], float] = perf_counter) -> None:
        self._lines: WeakValueDictionary[str, _Line] = WeakValueDictionary()
        self._now = now

    @asynccontextmanager
    async def turn(self, address: str) -> AsyncIterator[None]:
        """Wait until it is the turn of this request of an address; keep it as short as it can be.

        A request that has its turn must not wait for another request.
        """
        line = self._lines.get(address)
        if line is None:
            line = self._lines[address] = _Line(self._now)
        await line.enter()
        try:
            yield
        finally:
            line.leave()


class _Line:
    """The line of one address. It lives while requests stand in it, or a slice goes on."""

    __slots__ = ("__weakref__", "_began", "_is_held", "_loop", "_now", "_slice_s", "_waiting")

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[asyncio.Event] = deque()
        """Requests in line, each by the event that tells it to look again."""
        self._began: float | None = None
        """When the slice of this turn of the loop began; None: it has not."""
        self._slice_s = SLICE_S
        self._is_held = False

    async def enter(self) -> None:
        """Return when a request may begin."""
        if self._waiting or not self._has_time():
            await self._stand()
        self._is_held = True

    def leave(self) -> None:
        """Let the next one begin."""
        self._is_held = False
        if self._waiting and self._began is None:
            self._loop.call_soon(self._call)

    async def _stand(self) -> None:
        called = asyncio.Event()
        self._waiting.append(called)
        try:
            while True:
                await called.wait()
                called.clear()
                if self._waiting[0] is called and self._has_time():
                    break
        except asyncio.CancelledError:
            self._loop.call_soon(self._call)  # It may have been called in the place of others.
            raise
        finally:
            self._waiting.remove(called)

    def _has_time(self) -> bool:
        """Say whether one more may begin in this turn of the loop."""
        if self._is_held:
            return False
        now = self._now()
        if self._began is None:
            self._began = now
            self._loop.call_soon(self._renew)
        return now - self._began < self._slice_s

    def _renew(self) -> None:
        """Begin another turn of the loop."""
        assert self._began is not None
        took_s = self._now() - self._began if self._waiting else 0.0
        self._slice_s = min(max(SLICE_S, took_s / 2), SLICE_S_MAX)
        self._began = None
        self._call()

    def _call(self) -> None:
        """Tell the first ones to look whether it is their turn."""
        for called in islice(self._waiting, AT_ONCE):
            called.set()
