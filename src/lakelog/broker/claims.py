"""Claims to shards of groups: taken when a broker starts, and taken back when a rival has gone.

    start     a broker that starts takes every shard: the one before it has died, or is about to
    lost      another broker has done that to this one, which is not ready then, and waits
    regained  the rival has said that it leaves, or has given no sign of life for ``gone_ms``

A broker gives a sign of life every ``pulse_ms``: one small cell, whatever it coordinates. On S3
that is 8,640 puts and as many gets a day, about 1.40 dollars a month. How long ago a sign was given
is measured by the clock of the broker that waits, from when it saw it first: no two clocks are
compared. A rival that only slept is fenced by the claim, as ever.
"""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeVar

from lakelog.broker.settings import CoordinatorSettings
from lakelog.coordination import BucketGroups, ClaimedShard, Pulse
from lakelog.errors import FencedError, LakelogError, UnavailableError
from lakelog.ports import Clock
from lakelog.store import PerformAsync, Work, run_async, working_async

__all__ = ["Claims"]

RETRY_MS = 500
LEAVE_S_MAX = 2.0

T = TypeVar("T")


class Claims:
    """The claims of one broker."""

    def __init__(
        self,
        store: BucketGroups,
        perform: PerformAsync,
        *,
        clock: Clock,
        settings: CoordinatorSettings,
        on_error: Callable[[LakelogError], None],
    ) -> None:
        self._store, self._clock, self._settings = store, clock, settings
        self._perform = working_async(perform)
        self._on_error = on_error
        self._since_ms = clock.now_ms()
        self._rivals: dict[int, Pulse | None] = {}
        self.address = ""
        """Where clients find this broker; told to a broker that has lost groups to it."""

    async def take(
        self, shard: int, shards: int | None, former: bytes | None = None
    ) -> ClaimedShard:
        """Take a shard over; while the store does not answer, again and again.

        Raises:
            FencedError: another broker has it, or has taken it at the same time.
            CorruptError: it cannot be read.
        """
        return await self._answered(lambda: self._store.claim(shard, shards, former))

    async def regain(self, shard: int, shards: int) -> ClaimedShard:
        """Wait until no other broker that lives has a shard, and take it."""
        while True:
            former = await self._answered(lambda: self._store.owner(shard))
            if former is not None:
                await self._outlive(shard, former)
            try:
                return await self.take(shard, shards, former)
            except FencedError as error:
                self._on_error(error)  # Another one was faster: now that is the rival.

    async def _outlive(self, shard: int, rival: bytes) -> None:
        """Wait until a rival has gone."""
        seen, seen_ms = "", 0
        try:
            while True:
                pulse = await self._answered(lambda: self._store.pulse(rival))
                self._rivals[shard] = pulse
                now_ms = self._clock.boot_ms()
                if pulse is None or (
                    pulse.sign == seen and now_ms - seen_ms >= self._settings.gone_ms
                ):
                    return
                if pulse.sign != seen:
                    seen, seen_ms = pulse.sign, now_ms
                await asyncio.sleep(self._settings.pulse_ms / 2000)
        finally:
            self._rivals.pop(shard, None)

    def trouble(self) -> str:
        """Say which broker has taken groups from this one, as far as that is known."""
        rival = "another broker"
        for pulse in filter(None, self._rivals.values()):
            since = datetime.fromtimestamp(pulse.since_ms / 1000, UTC).isoformat(" ", "seconds")
            rival = f"another broker at {pulse.where} (it started at {since})"
        return (
            f"{rival} has taken the consumer groups over: stop one of the two. This one takes them "
            f"back {self._settings.gone_ms // 1000} s after the other has gone"
        )

    async def beat(self) -> None:
        """Give one sign of life, however long the store takes for it."""
        await self._answered(lambda: self._store.beat(self.address, self._since_ms))

    async def leave(self) -> None:
        """Say that this broker has gone, if the store takes that at once."""
        try:
            async with asyncio.timeout(LEAVE_S_MAX):
                await run_async(self._store.leave(), self._perform)
        except (LakelogError, TimeoutError):
            pass  # It is seen all the same, though later.

    async def _answered(self, asked: Callable[[], Work[T]]) -> T:
        while True:
            try:
                return await run_async(asked(), self._perform)
            except UnavailableError as error:
                self._on_error(error)
                await asyncio.sleep(RETRY_MS / 1000)
