"""Looking into batches, beside the loop: in turns, one scan of an address at a time.

A batch of a hundred bytes may hold half a gigabyte of records, and somebody has to look at them if
they are asked for by time, or must have keys. So a scan (``records.scanning``) goes on in a thread
for some milliseconds, and then others have their turn. What it holds meanwhile counts as an answer
of the client that asked. The clients of one address wait for each other, and those of others do not
wait for them, as long as few addresses ask.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from lakelog.broker.budget import Budget
from lakelog.records import Scan

__all__ = ["SCANS_MAX", "RunScan", "Scans"]

SCANS_MAX = 4
"""At the same time; each of another address."""

T = TypeVar("T")

RunScan = Callable[[Scan[Any]], Awaitable[Any]]
"""Runs the scans of one client."""


class Scans:
    """Runs the scans of all clients."""

    __slots__ = ("_answers", "_lines", "_turns")

    def __init__(self, answers: Budget) -> None:
        self._answers = answers
        self._turns = asyncio.Semaphore(SCANS_MAX)
        self._lines: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """Where the clients of an address wait for each other."""

    async def run(self, scan: Scan[T], address: str) -> T:
        """Run a scan of an address to its end, and return what it found.

        Raises:
            LakelogError: what the scan raises.
        """
        line = self._lines.setdefault(address, asyncio.Lock())
        async with line:
            await self._find_room(address)
            async with self._turns:
                return await self._run(scan, address)

    async def _run(self, scan: Scan[T], address: str) -> T:
        held = 0
        try:
            while True:
                is_done, found = await asyncio.to_thread(_step, scan)
                if is_done:
                    result: T = found
                    return result
                change, held = found - held, found
                self._answers.change(change, address)
        finally:
            self._answers.change(-held, address)

    async def _find_room(self, address: str) -> None:
        """Wait while clients of the address, or all together, have too many answers unread."""
        while self._answers.is_spent(address):
            woken = asyncio.Event()
            self._answers.wait(woken.set, address)
            try:
                await woken.wait()
            finally:
                self._answers.forget(woken.set, address)


def _step(scan: Scan[Any]) -> tuple[bool, Any]:
    """Let a scan have a turn; return whether it has ended, and what it found or how much it holds.

    The end of a generator cannot be raised through a task.
    """
    try:
        return False, next(scan)
    except StopIteration as done:
        return True, done.value
