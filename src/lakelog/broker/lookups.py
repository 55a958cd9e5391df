"""Questions whose answer is that there is nothing: asked once a second, however many ask.

    a name         one read of its cell, whose answer is good for a second
    many names     more than ``NAMES_MAX`` in a second: one listing, which answers for every name
    an id          one listing: there is no other way to find it

An answer is good for requests that come within ``FRESH_MS`` after its question *began*. So a topic
that another process makes is seen a second later at the latest, and what the store is asked does
not grow with the names that clients make up. Errors are not remembered: unknown is not that there
is none.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

from lakelog.broker.supervision import awaited
from lakelog.ports import Clock

__all__ = ["FRESH_MS", "NAMES_MAX", "Lookups"]

FRESH_MS = 1_000
"""For so long it is believed that a topic is not there."""

NAMES_MAX = 100
"""Names that are asked for one by one, in ``FRESH_MS``."""

_NEVER = -(1 << 62)


class _Asked(NamedTuple):
    """A question, which may have been answered."""

    began_ms: int
    task: "asyncio.Task[None]"


class Lookups:
    """Asks the store for topics that are not known, and remembers for a moment that it did."""

    def __init__(
        self,
        clock: Clock,
        ask: Callable[[str], Coroutine[Any, Any, None]],
        list_: Callable[[], Coroutine[Any, Any, None]],
    ) -> None:
        self._clock, self._ask, self._list = clock, ask, list_
        self._asked: dict[str, _Asked] = {}
        self._listing: _Asked | None = None
        """The one that is on its way: there is never a second."""
        self._listed_ms = _NEVER
        """When the last listing began that a lookup has used."""

    async def name(self, name: str, since_ms: int | None = None) -> None:
        """Return when the store has said whether there is such a topic, not long ago.

        Raises:
            LakelogError: there was no answer.
        """
        since_ms = self._since_ms() if since_ms is None else since_ms
        asked = self._asked.get(name)
        while asked is None or asked.began_ms < since_ms:
            if asked is None or asked.task.done():
                asked = self._begin(name, since_ms)
            if asked is None:
                await self.all(since_ms)
                return
            await asyncio.shield(asked.task)
        await asyncio.shield(asked.task)

    async def all(self, since_ms: int | None = None) -> None:
        """Return when the store has listed every topic, not long ago.

        Raises:
            LakelogError: there was no answer.
        """
        since_ms = self._since_ms() if since_ms is None else since_ms
        while self._listed_ms < since_ms:
            listing = self._listing or self._list_now()
            await asyncio.shield(listing.task)
            self._listed_ms = max(self._listed_ms, listing.began_ms)

    async def anew(self) -> None:
        """List every topic by a listing that begins now, or behind the one that is on its way.

        Raises:
            LakelogError: there was no answer.
        """
        if self._listing is not None:
            await asyncio.wait([self._listing.task])
        listing = self._listing or self._list_now()
        await asyncio.shield(listing.task)

    def _since_ms(self) -> int:
        return self._clock.boot_ms() - FRESH_MS

    def _begin(self, name: str, since_ms: int) -> _Asked | None:
        """Ask for a name; None: too many are asked for already."""
        if len(self._asked) >= NAMES_MAX:
            self._asked = {
                key: one
                for key, one in self._asked.items()
                if one.began_ms >= since_ms or not one.task.done()
            }
            if len(self._asked) >= NAMES_MAX:
                return None
        asked = _Asked(self._clock.boot_ms(), awaited(self._named(name)))
        self._asked[name] = asked
        return asked

    async def _named(self, name: str) -> None:
        try:
            await self._ask(name)
        except BaseException:
            self._asked.pop(name, None)
            raise

    def _list_now(self) -> _Asked:
        self._listing = _Asked(self._clock.boot_ms(), awaited(self._listed()))
        return self._listing

    async def _listed(self) -> None:
        try:
            await self._list()
        finally:
            self._listing = None
