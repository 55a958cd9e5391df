"""Claims to shards of groups: this broker takes those that it should own, and gives up the others.

claim      tried every half second while the shard should be here and is not (``coordination``
           says whom it may be taken from, and when)
release    by a write, so that whoever should own it takes it at once
fenced     another broker has taken it: remembered, so that the two do not fight over it
find       whom clients of a shard are sent to; one question at a time for all that ask
"""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from lakelog.broker.cluster import Cluster
from lakelog.broker.looks import SharedLook
from lakelog.coordination import ClaimedShard, Groups, ShardClaims, State
from lakelog.errors import FencedError, LakelogError, UnavailableError
from lakelog.ports import Clock
from lakelog.store import PerformAsync, Work, run_async, working_async

__all__ = ["Claims"]

RETRY_S = 0.5
RELEASE_S_MAX = 5.0

T = TypeVar("T")


class Claims:
    """The claims of one broker."""

    def __init__(
        self,
        store: Groups,
        perform: PerformAsync,
        *,
        cluster: Cluster,
        clock: Clock,
        on_error: Callable[[LakelogError], None],
    ) -> None:
        self._store, self._cluster, self._clock = store, cluster, clock
        self._perform = working_async(perform)
        self._rules = ShardClaims(store, cluster.node, clock, cluster.heartbeat_ms)
        self._on_error = on_error
        self._since_ms = clock.now_ms()
        self._finds: dict[int, SharedLook] = {}
        self._found: dict[int, int | None] = {}
        self.lost = 0
        """How often another broker has taken a shard from this one."""

    @property
    def node_id(self) -> int:
        """The broker whose claims these are."""
        return self._cluster.node_id

    @property
    def expects_release(self) -> bool:
        """Whether a broker is about to give its shards up."""
        members = self._cluster.node.view.living.values()
        return any(member.state is State.DRAINING for member in members)

    async def count(self) -> int:
        """Return how many shards there are, however long the store takes to say it.

        Raises:
            LakelogError: it does not say, and waiting does not help.
        """
        return await self._answered(self._store.count)

    def is_mine(self, shard: int, shards: int) -> bool:
        """Whether this broker should own a shard."""
        return self._cluster.is_member and self._rules.is_mine(shard, shards)

    def is_due(self, shard: int, shards: int) -> bool:
        """Whether a shard that is not here is to be claimed, or looked at."""
        return self._cluster.is_member and self._rules.is_due(shard, shards)

    async def claim(self, shard: int, shards: int) -> ClaimedShard | None:
        """Take a shard that this broker should own, if it may; None: not now.

        Raises:
            UnavailableError: there was no answer.
            LakelogError: it cannot be read, and waiting does not help.
        """
        try:
            return await run_async(self._rules.claim(shard, shards), self._perform)
        except FencedError as error:
            self._on_error(error)
            return None

    def is_elsewhere(self, shard: int, shards: int) -> bool:
        """Whether another broker coordinates a shard, as far as was seen; if not, it comes here."""
        return self._rules.is_elsewhere(shard, shards)

    async def is_coming(self, shard: int, shards: int) -> bool:
        """Whether a shard that is not here comes soon: clients are sent here by now.

        Raises:
            LakelogError: there was no answer.
        """
        if await self.find(shard, shards) != self.node_id:
            return False
        return self.expects_release or not self.is_elsewhere(shard, shards)

    async def read(self, shard: int, known: ClaimedShard | None) -> ClaimedShard | None:
        """Return a shard as it is stored, whoever has it; the one that is known, if it is the same.

        Raises:
            LakelogError: there was no answer, or it cannot be read.
        """
        flow = self._store.read(shard) if known is None else self._store.read_again(known)
        return await run_async(flow, self._perform)

    async def fenced(self, shard: int) -> None:
        """Remember who has taken a shard from this broker."""
        self.lost += 1
        await run_async(self._rules.fenced(shard), self._perform)

    async def release(self, held: ClaimedShard) -> None:
        """Give a shard up, if the store takes that soon: otherwise it is taken from the dead."""
        try:
            async with asyncio.timeout(RELEASE_S_MAX):
                await self._answered(lambda: self._rules.release(held))
        except (LakelogError, TimeoutError) as error:
            self._on_error(UnavailableError(f"shard {held.shard} was not released: {error}"))

    def doubt(self, shard: int) -> None:
        """Note that this broker may have the claim to a shard which it does not use any more."""
        self._rules.doubt(shard)

    async def find(self, shard: int, shards: int) -> int | None:
        """Return the node id that coordinates a shard which is not here; None: nobody does now.

        Raises:
            LakelogError: there was no answer.
        """
        if shard not in self._finds:

            async def look() -> None:
                asked = self._rules.coordinator(shard, shards)
                self._found[shard] = await run_async(asked, self._perform)

            self._finds[shard] = SharedLook(look)
        await self._finds[shard].take()
        return self._found[shard]

    async def beat(self) -> None:
        """Give a sign of life, if there is a broker of version 0.1.0 that looks for one."""
        if self._rules.sees_pulses:
            address = ", ".join(self._cluster.node.member.listeners.values())
            await self._answered(lambda: self._store.beat(address, self._since_ms))

    async def leave(self) -> None:
        """Take the sign of life away."""
        if self._rules.sees_pulses:
            try:
                async with asyncio.timeout(RELEASE_S_MAX):
                    await run_async(self._store.leave(), self._perform)
            except (LakelogError, TimeoutError):
                pass  # It is seen all the same, though later.

    async def _answered(self, asked: Callable[[], Work[T]]) -> T:
        while True:
            try:
                return await run_async(asked(), self._perform)
            except UnavailableError as error:
                self._on_error(error)
                await asyncio.sleep(RETRY_S)
