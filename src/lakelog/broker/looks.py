"""A look at the store that many share: one for all callers that ask while another is on its way.

    ask --> look ----------->
            ask, ask, ask --> one look ------->

A caller wants to know how things are from now on, so that a look which has begun is no answer. The
next one begins when that one has ended, and all callers share it. However many ask, and however
often, the store is asked once at a time.
"""

import asyncio
from collections.abc import Awaitable, Callable

from lakelog.broker.supervision import awaited

__all__ = ["SharedLook"]


class SharedLook:
    """Something that is looked at."""

    __slots__ = ("_look", "_next", "_now")

    def __init__(self, look: Callable[[], Awaitable[None]]) -> None:
        self._look = look
        self._now: asyncio.Task[None] | None = None
        """The look that has begun."""
        self._next: asyncio.Task[None] | None = None
        """The one that waits for it."""

    async def take(self) -> None:
        """Wait for a look that begins now or later.

        Raises:
            LakelogError: what the look raises.
        """
        if self._next is None:
            self._next = awaited(self._take(self._now))
            # Retrieved, in case all callers were cancelled: that is no error.
            self._next.add_done_callback(lambda one: one.cancelled() or one.exception())
        await asyncio.shield(self._next)

    async def _take(self, before: "asyncio.Task[None] | None") -> None:
        if before is not None and not before.done():
            await asyncio.wait((before,))
        self._now, self._next = self._next, None
        try:
            await self._look()
        finally:
            self._now = None
