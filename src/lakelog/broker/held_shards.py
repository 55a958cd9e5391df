"""The shards of groups that are here: each is claimed, kept, and given up when it should not be.

    loading     it is not known yet whether it can be had
    here        a ``Shard`` answers for its groups
    elsewhere   NOT_COORDINATOR: another broker has the claim, or should have it
    damaged     COORDINATOR_NOT_AVAILABLE: the cell cannot be read, and is left as it is

Each shard has a task, which looks every half second whether it should be here; more often while a
broker is about to give its shards up.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial

from lakelog.broker.claims import Claims
from lakelog.broker.shards import Shard
from lakelog.broker.supervision import Supervisor, awaited
from lakelog.coordination import LOOK_MS, ClaimedShard, decode_group
from lakelog.errors import LakelogError, UnavailableError
from lakelog.groups import AnyDurable, Code

__all__ = ["LOADING", "HeldShards"]

LOOK_S = LOOK_MS / 1000
RELEASE_S_MAX = 20.0
"""For all of them together, and more than one may take. A claim that is not answered has no end of
its own, and keeps no broker from leaving."""
SOON_S = 0.1
"""While a broker leaves: clients of its groups wait."""
LOADING = Code.COORDINATOR_LOAD_IN_PROGRESS


class HeldShards:
    """The shards of a namespace, for one broker."""

    def __init__(
        self,
        claims: Claims,
        open_: Callable[[ClaimedShard], Shard],
        tasks: Supervisor,
        on_error: Callable[[LakelogError], None],
    ) -> None:
        self._claims, self._open, self._tasks, self._on_error = claims, open_, tasks, on_error
        self.shards: list[Shard | Code] = []
        """Empty until the store has said how many there are."""
        self.refuses: Code | None = LOADING
        """What is told while there are no shards at all."""
        self._elsewhere: dict[int, tuple[ClaimedShard, Mapping[str, AnyDurable]]] = {}
        """Shards of other brokers, as they were read last."""
        self._leaving = asyncio.Event()
        self._settled: dict[int, asyncio.Event] = {}
        """Of each shard: that it is here, or known not to be for now."""
        self._changed = asyncio.Event()
        """Set when one of them comes or goes; then there is another event."""
        self._loading: asyncio.Task[None] | None = None
        self._keeping: list[asyncio.Task[None]] = []
        """A task for each shard."""

    def begin(self) -> None:
        """Begin to claim what should be here."""
        self._loading = awaited(self._load())

    async def loaded(self) -> None:
        """Wait until every shard is here, or is known not to be for now.

        Raises:
            LakelogError: the store does not say how many there are, and waiting does not help.
        """
        assert self._loading is not None
        await asyncio.shield(self._loading)
        await asyncio.gather(*(one.wait() for one in self._settled.values()))

    def here(self) -> Iterator[tuple[int, Shard]]:
        """Yield the shards that answer, by their numbers."""
        for number, shard in enumerate(self.shards if self.refuses is None else ()):
            if isinstance(shard, Shard) and shard.refuses is None:
                yield number, shard

    def trouble(self) -> str:
        """Say what keeps groups from being coordinated; nothing if all is well."""
        for number, shard in enumerate(self.shards):
            code = shard.refuses if isinstance(shard, Shard) else shard
            if code is Code.COORDINATOR_NOT_AVAILABLE:
                return f"shard {number} of the consumer groups is not loaded: see the log"
            if isinstance(shard, Shard) and (trouble := shard.ledger.trouble()):
                return trouble
        return ""

    async def stored_groups(self) -> dict[str, AnyDurable]:
        """Return every group as it is stored, also those that other brokers coordinate.

        Raises:
            LakelogError: some cannot be read now.
        """
        if self.refuses is not None:
            raise UnavailableError("the consumer groups are not loaded: ask again")
        found: dict[str, AnyDurable] = {}
        here = dict(self.here())
        for number in range(len(self.shards)):
            if number in here:
                self._elsewhere.pop(number, None)
                found |= here[number].ledger.stored
            else:
                found |= await self._read_elsewhere(number)
        return found

    async def _read_elsewhere(self, number: int) -> Mapping[str, AnyDurable]:
        known, groups = self._elsewhere.get(number, (None, {}))
        now = await self._claims.read(number, known)
        if now is not None and now is not known:
            groups = {name: decode_group(value) for name, value in now.groups.items()}
            self._elsewhere[number] = now, groups
        return groups

    async def soon(self, number: int, within_s: float) -> None:
        """Wait for a shard that is about to come here, as far as the store tells."""
        with suppress(TimeoutError, LakelogError):
            async with asyncio.timeout(within_s):
                if not await self._claims.is_coming(number, len(self.shards)):
                    return
                while not isinstance(self.shards[number], Shard) and self._should_have(number):
                    await self._changed.wait()

    async def release(self) -> None:
        """Give every shard up: this broker is about to leave."""
        self._leaving.set()
        if self._keeping:
            await asyncio.wait(self._keeping, timeout=RELEASE_S_MAX)

    async def close(self, *, release: bool = True) -> None:
        """Store what was taken, answer all requests, and give shards up that can be had."""
        self.refuses = Code.COORDINATOR_NOT_AVAILABLE
        ending = [one for one in (self._loading, *self._keeping) if one is not None]
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)
        shards = [shard for shard in self.shards if isinstance(shard, Shard)]
        try:
            claims = await asyncio.gather(*(shard.close() for shard in shards))
            held = [one for one in claims if one is not None and release]
            await asyncio.gather(*(self._claims.release(one) for one in held))
        finally:
            await self._claims.leave()

    # ------------------------------------------------------------------------ keeping

    async def _load(self) -> None:
        try:
            count = await self._claims.count()
        except LakelogError as error:
            self._on_error(error)
            self.refuses = Code.COORDINATOR_NOT_AVAILABLE
            raise
        self.shards = [LOADING] * count
        self._settled = {number: asyncio.Event() for number in range(count)}
        self.refuses = None
        self._keeping = [
            self._tasks.keep(f"shard {number}", partial(self._keep, number))
            for number in range(count)
        ]

    async def _keep(self, number: int) -> None:
        """Have a shard while it should be here, and give it up when it should not."""
        while True:
            shard = self.shards[number]
            if isinstance(shard, Shard):
                await self._have(number, shard)
            if self._leaving.is_set():
                return
            if not self._claims.is_due(number, len(self.shards)):
                self._put(number, Code.NOT_COORDINATOR)
                self._settled[number].set()
            elif await self._try_to_have(number, len(self.shards)):
                self._settled[number].set()
            if not isinstance(self.shards[number], Shard):
                await self._pause()

    def _should_have(self, number: int) -> bool:
        is_leaving = self._leaving.is_set()
        return not is_leaving and self._claims.is_mine(number, len(self.shards))

    async def _try_to_have(self, number: int, count: int) -> bool:
        """Claim a shard that should be here, once; False: there was no answer."""
        try:
            claimed = await self._claims.claim(number, count)
        except UnavailableError as error:
            self._on_error(error)
            return False
        except LakelogError as error:
            if self.shards[number] is not Code.COORDINATOR_NOT_AVAILABLE:
                self._on_error(error)
            self._put(number, Code.COORDINATOR_NOT_AVAILABLE)
            return True
        if claimed is not None:
            self._put(number, self._open(claimed))
        elif self._claims.is_elsewhere(number, count):
            self._put(number, Code.NOT_COORDINATOR)
        else:
            self._put(number, LOADING)
        return True

    async def _have(self, number: int, shard: Shard) -> None:
        """Wait until a shard is lost or should not be here any more, and give it up then."""
        ended, leaving = awaited(shard.over()), awaited(self._leaving.wait())
        try:
            while not ended.done() and self._should_have(number):
                await asyncio.wait(
                    (ended, leaving), timeout=LOOK_S, return_when=asyncio.FIRST_COMPLETED
                )
            if ended.done():
                self._put(number, Code.COORDINATOR_NOT_AVAILABLE)
                await ended  # It raises what the writer of the shard died of.
                self._put(number, shard.refuses or Code.COORDINATOR_NOT_AVAILABLE)
                await self._claims.fenced(number)
                return
        finally:
            ended.cancel()
            leaving.cancel()
        claimed = await shard.close()
        if claimed is None:
            self._claims.doubt(number)
        else:
            await self._claims.release(claimed)
        self._put(number, Code.NOT_COORDINATOR)

    def _put(self, number: int, found: Shard | Code) -> None:
        self.shards[number] = found
        self._changed.set()
        self._changed = asyncio.Event()

    async def _pause(self) -> None:
        """Wait for a while, or until this broker is about to leave."""
        with suppress(TimeoutError):
            async with asyncio.timeout(SOON_S if self._claims.expects_release else LOOK_S):
                await self._leaving.wait()
