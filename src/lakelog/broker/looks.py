"""A look at the store that many share: one for all callers that ask while another is on its way.

    ask --> look ----------->
            ask, ask, ask --> one look ------->

A caller wants to know how things are from now on, so that a look which has begun is no answer. The
next one begins when that one has ended, and all callers share it. However many ask, and however
often, the store is asked once at a time; and at a pace, if one is given.
"""

import asyncio
from collections.abc import Awaitable, Callable

from lakelog.broker.moments import moment
from lakelog.broker.supervision import awaited

__all__ = ["SharedLook"]


class SharedLook:
    """Something that is looked at."""

    __slots__ = ("_begun_s", "_look", "_next", "_now", "_pace_s", "_seen")

    def __init__(self, look: Callable[[], Awaitable[None]], pace_s: float = 0.0) -> None:
        self._look, self._pace_s = look, pace_s
        self._begun_s = float("-inf")
        """When the last look began."""
        self._seen = 0
        """The moment when the last one began that ended well."""
        self._now: asyncio.Task[None] | None = None
        """The look that has begun."""
        self._next: asyncio.Task[None] | None = None
        """The one that waits for it."""

    @property
    def is_taken(self) -> bool:
        """Whether somebody waits for it."""
        return self._now is not None or self._next is not None

    @property
    def is_coming(self) -> bool:
        """Whether one is still to begin."""
        return self._next is not None

    async def take(self, since: int | None = None) -> None:
        """Wait for a look that begins now or later; or have one that began since a moment.

        Raises:
            LakelogError: what the look raises.
        """
        if since is not None and self._seen > since:
            return
        if self._next is None:
            self._next = awaited(self._take(self._now))
            # Retrieved, in case all callers were cancelled: that is no error.
            self._next.add_done_callback(lambda one: one.cancelled() or one.exception())
        await asyncio.shield(self._next)

    async def _take(self, before: "asyncio.Task[None] | None") -> None:
        loop = asyncio.get_running_loop()
        if before is not None and not before.done():
            await asyncio.wait((before,))
        if self._begun_s + self._pace_s > loop.time():
            await asyncio.sleep(self._begun_s + self._pace_s - loop.time())
        self._now, self._next = self._next, None
        self._begun_s, begun = loop.time(), moment()
        try:
            await self._look()
            self._seen = begun
        finally:
            self._now = None
