"""The ledger of a shard: what of it is stored, what is on its way, and the task that writes.

    note --> dirty --one put at a time--> stored

Everything of a shard that is dirty goes out with the next put. A roster goes at once. Offsets that
come after a quiet time do as well; those that come within the interval after a put wait for its
end, and for company. So an object store sees at most about one put in an interval. Each put writes
all of the shard: the larger it is, the longer is the interval.

A put without an answer is put again, the same bytes, until its outcome is known; meanwhile groups
go on in memory. When another broker has the claim the shard is lost, and nothing of this one counts
any more. A shard in which nothing is written is looked at now and then: its members would otherwise
believe for ever in a coordinator that has been replaced.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import TypeVar

from lakelog.broker.lane_health import UNANSWERED_MS_MAX
from lakelog.broker.limits import REWRITTEN_BYTES_PER_S
from lakelog.broker.settings import CoordinatorSettings
from lakelog.broker.turns import in_turns
from lakelog.coordination import (
    ClaimedShard,
    Groups,
    decode_group,
    encode_group,
)
from lakelog.errors import FencedError, InvalidInputError, LakelogError, UnavailableError
from lakelog.groups import AnyDurable, Code, StoredPart
from lakelog.ports import Clock
from lakelog.store import PerformAsync, Work, run_async, working_async

__all__ = ["Ledger"]

T = TypeVar("T")

RETRY_MS_MIN = 50
RETRY_MS_MAX = 1_000


class Ledger:
    """What is stored of one shard."""

    def __init__(
        self,
        claimed: ClaimedShard,
        store: Groups,
        perform: PerformAsync,
        *,
        clock: Clock,
        settings: CoordinatorSettings,
        on_error: Callable[[LakelogError], None],
    ) -> None:
        self.claimed = claimed
        self._store = store
        self._perform = working_async(perform)
        self._clock = clock
        self._settings = settings
        self._on_error = on_error
        self.stored: dict[str, AnyDurable] = {
            name: decode_group(value) for name, value in claimed.groups.items()
        }
        self.stored_version = 0
        self._version = 0
        self._versions: dict[tuple[str, StoredPart], int] = {}
        """Of what is not stored yet."""
        self._dirty: set[str] = set()
        self._at_once = False
        self._closing = False
        self.is_closed = False
        """Whether everything is stored, and the claim is still this broker's."""
        self._stirred = asyncio.Event()
        self._put_ms: int | None = None
        self._interval_ms = settings.commit_interval_ms
        """From the last put to the next one."""
        self._heard_ms = clock.boot_ms()
        """When the claim was last known to be this broker's."""
        self._asked_ms: int | None = None
        """Since when the store has not answered."""
        self._failing = ""
        """What the store said last; nothing if all went well."""

    def trouble(self) -> str:
        """Say what keeps this shard from being stored; nothing if all is well."""
        name = f"shard {self.claimed.shard} of the consumer groups"
        waited_ms = 0 if self._asked_ms is None else self._clock.boot_ms() - self._asked_ms
        if waited_ms > UNANSWERED_MS_MAX:
            return (
                f"{name} has waited {waited_ms // 1000} s for the store: check it and the network"
            )
        return f"{name} cannot be stored: {self._failing}" if self._failing else ""

    def note(self, group_id: str, part: StoredPart) -> None:
        """Take note that a part of a group has changed."""
        self._version += 1
        self._versions[group_id, part] = self._version
        self._dirty.add(group_id)
        self._at_once |= part is StoredPart.ROSTER
        self._stirred.set()

    def version(self, group_id: str, part: StoredPart) -> int:
        """Return the version in which a part of a group, as it is now, is stored."""
        return self._versions.get((group_id, part), 0)

    def close(self) -> None:
        """Let ``write`` end as soon as everything is stored."""
        self._closing = True
        self._stirred.set()

    async def write(
        self, durable: Callable[[str], AnyDurable | None], done: Callable[[], None]
    ) -> Code:
        """Store what changes until the ledger is closed or lost, and return what is told then."""
        try:
            while await self._wait():
                if not self._dirty:
                    await self._look_again()
                    continue
                version, names = self._version, sorted(self._dirty)
                self._dirty.clear()
                self._at_once = False
                self._put_ms = self._clock.boot_ms()
                # What is to be stored is what is true now; encoding it may take a while.
                durables = {name: durable(name) for name in names}
                encoded = {
                    name: None if one is None else encode_group(one)
                    async for name, one in in_turns(durables.items())
                }
                await self._save(encoded)
                self._take(version, durables)
                done()
        except LakelogError as error:
            self._on_error(error)
            is_lost = isinstance(error, FencedError)
            return Code.NOT_COORDINATOR if is_lost else Code.COORDINATOR_NOT_AVAILABLE
        self.is_closed = True
        return Code.NOT_COORDINATOR

    async def _wait(self) -> bool:
        """Wait until a put or a look is due; False when there will be none any more."""
        while True:
            now_ms = self._clock.boot_ms()
            if self._dirty:
                begun_ms = self._put_ms
                due_ms = now_ms if begun_ms is None else begun_ms + self._interval_ms
                if self._at_once or self._closing:
                    return True
            elif self._closing:
                return False
            else:
                due_ms = self._heard_ms + self._settings.look_interval_ms
            if due_ms <= now_ms:
                return True
            self._stirred.clear()
            try:
                async with asyncio.timeout((due_ms - now_ms) / 1000):
                    await self._stirred.wait()
            except TimeoutError:
                continue

    async def look(self) -> None:
        """See whether the shard is still this broker's.

        Raises:
            FencedError: it is not.
            UnavailableError: no answer.
        """
        began_ms = self._clock.boot_ms()
        await self._heard(self._store.look(self.claimed))
        self._heard_ms = began_ms

    async def _heard(self, flow: Work[T]) -> T:
        """Ask the store, and take note of how it answers."""
        self._asked_ms = self._asked_ms or self._clock.boot_ms()
        try:
            answer = await run_async(flow, self._perform)
        except LakelogError as error:
            # That another broker has the claim is an answer, and is raised to the owner of the
            # shard.
            self._failing = "" if isinstance(error, FencedError) else str(error)[:512]
            raise
        finally:
            self._asked_ms = None
        self._failing = ""
        return answer

    async def _look_again(self) -> None:
        try:
            await self.look()
        except (UnavailableError, InvalidInputError) as error:
            self._on_error(error)
            self._heard_ms = self._clock.boot_ms()  # Not heard, but there is no hurry.

    async def _save(self, changed: Mapping[str, bytes | None]) -> None:
        """Store it, however long that takes.

        Also what the store refuses is put again, though seldom: groups live in this memory, and
        credentials, quotas and proxies are put right while a broker runs. Clients that wait are
        told that there is no answer, when its patience ends.

        Raises:
            FencedError: this broker has lost the shard.
        """
        delay_ms = RETRY_MS_MIN
        while True:
            try:
                self.claimed = await self._heard(self._store.save(self.claimed, changed))
                return
            except (UnavailableError, InvalidInputError) as error:
                self._on_error(error)
                await asyncio.sleep(delay_ms / 1000)
                delay_ms = min(2 * delay_ms, RETRY_MS_MAX)

    def _take(self, version: int, durables: Mapping[str, AnyDurable | None]) -> None:
        """Take note that a version is stored."""
        self.stored_version = version
        size = sum(map(len, self.claimed.groups.values()))
        slow_ms = min(size * 1000 // REWRITTEN_BYTES_PER_S, self._settings.patience_ms // 2)
        slow_ms *= self._store.rewrites
        self._interval_ms = max(self._settings.commit_interval_ms, slow_ms)
        self._heard_ms = self._clock.boot_ms()
        for name, durable in durables.items():
            if durable is None:
                self.stored.pop(name, None)
            else:
                self.stored[name] = durable
            for part in StoredPart:
                if self._versions.get((name, part), version + 1) <= version:
                    del self._versions[name, part]
