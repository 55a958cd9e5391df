"""One shard of groups, driven: timers, and requests that wait.

    ask --step--> group --Persist--> the ledger, which stores it
                    `--Reply--> at once, or when what it speaks of is stored

A client that waits for the store longer than ``patience_ms`` is told to try again: its change may
have been stored, and trying again is right in both cases. When another broker has the claim all
clients are told to look for their coordinator.

Offsets are read from what is stored and never from what is about to be.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from lakelog.broker.budget import address_of
from lakelog.broker.group_memory import GroupMemory, GroupMemoryFull
from lakelog.broker.ledger import Ledger
from lakelog.broker.limits import Limits
from lakelog.broker.looks import SharedLook
from lakelog.broker.settings import CoordinatorSettings
from lakelog.broker.supervision import Supervisor, awaited
from lakelog.coordination import ClaimedShard, Groups
from lakelog.errors import FencedError, LakelogError
from lakelog.groups import (
    Answer,
    AnyDurable,
    AnyGroup,
    Code,
    Commit,
    ConsumerHeartbeat,
    Event,
    Heartbeat,
    Join,
    Now,
    Offsets,
    Persist,
    Reply,
    Request,
    StoredPart,
    Sync,
    Tick,
    absent,
    advance,
    refusal,
    revive,
)
from lakelog.ports import Clock
from lakelog.store import PerformAsync

__all__ = ["Refused", "Shard"]

HOPELESS_MS = 2_000
"""How long closing waits for a store that refuses."""

AGAIN_MS = 1_000
"""After a group has failed at what was due."""

GROWING = (Join, Sync, ConsumerHeartbeat, Commit)
"""Requests that may make a group larger, and are refused when there is no room."""


Refused = Callable[[Code, GroupMemoryFull], None]
"""Called with what a client was told that found no room, and why."""


def _no_room(event: Request, *, is_new: bool) -> Code:
    """Return what clients tell their users, and do not try again; of a group that is in use its
    members do try again, since others may go.
    """
    if isinstance(event, Commit):
        return Code.INVALID_COMMIT_OFFSET_SIZE
    return Code.GROUP_MAX_SIZE_REACHED if is_new else Code.COORDINATOR_NOT_AVAILABLE


def _address(event: Event) -> str:
    """Return the address of the client that an event comes from, if it can make a group."""
    if isinstance(event, Join | ConsumerHeartbeat | Commit):
        return address_of(event.client_host.removeprefix("/"))
    return ""


class _Waiting(NamedTuple):
    """An answer that waits for a version to be stored, and what ends the wait."""

    version: int
    answer: Answer
    timer: asyncio.TimerHandle


class Shard:
    """The groups of one shard, for as long as this broker has the claim."""

    def __init__(
        self,
        claimed: ClaimedShard,
        store: Groups,
        perform: PerformAsync,
        *,
        clock: Clock,
        settings: CoordinatorSettings,
        limits: Limits,
        on_error: Callable[[LakelogError], None],
        refused: Refused,
        tasks: Supervisor,
    ) -> None:
        self._clock = clock
        self._tasks = tasks
        self._settings = settings
        self._on_error, self._refused = on_error, refused
        self.ledger = Ledger(
            claimed, store, perform, clock=clock, settings=settings, on_error=on_error
        )
        self._look = SharedLook(self.ledger.look)
        stored = self.ledger.stored
        self.groups: dict[str, AnyGroup] = {
            name: revive(one, self._now(), settings.rules) for name, one in stored.items()
        }
        """Every group, as it is in memory."""
        self.memory = GroupMemory(claimed.shard, limits, store.group_bytes_max)
        for name, group in self.groups.items():
            self.memory.take(name, group.size_bytes, group.made_by)
        self.refuses: Code | None = None
        """Why nothing is answered any more; None: it is."""

        self._tickets = 0
        self._asked: dict[int, tuple[asyncio.Future[Answer], Request]] = {}
        self._waiting: dict[int, _Waiting] = {}
        """By ticket."""
        self._timers: dict[str, tuple[int, asyncio.TimerHandle]] = {}
        self._writer = awaited(self._write())
        for name, group in self.groups.items():
            self._arm(name, group)

    # ------------------------------------------------------------------------ asking

    def offsets(self, group_id: str) -> Offsets:
        """Return the offsets of a group that are stored."""
        stored = self.ledger.stored.get(group_id)
        return Offsets() if stored is None else stored.offsets

    async def confirm(self) -> Code:
        """Say whether this broker has the claim, by a look that begins now or later."""
        code = self.refuses
        if code is not None:
            return code
        try:
            await self._look.take()
        except FencedError as error:
            self._on_error(error)
            self._stop(Code.NOT_COORDINATOR)
            self._writer.cancel()
        except LakelogError as error:
            self._on_error(error)
            return Code.COORDINATOR_NOT_AVAILABLE
        return self.refuses or Code.NONE

    def ask(self, group_id: str, request: Request) -> "asyncio.Future[Answer]":
        """Put a request to a group, as long as nothing is refused. The answer may take as long as a
        rebalance.
        """
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._tickets += 1
        request = replace(request, ticket=self._tickets)
        self._asked[self._tickets] = answer, request
        try:
            self._step(group_id, request)
        except BaseException:
            self._asked.pop(request.ticket, None)
            raise
        return answer

    def tell(self, group_id: str, event: Event) -> None:
        """Put an event to a group that has no answer."""
        if self.refuses is None and group_id in self.groups:
            self._step(group_id, event)

    # ------------------------------------------------------------------------ stepping

    def _now(self) -> Now:
        return Now(self._clock.boot_ms(), self._clock.now_ms())

    def _step(self, group_id: str, event: Event) -> None:
        before = self.groups.get(group_id) or absent(group_id, _address(event))
        after, effects = advance(before, event, self._now(), self._settings.rules)
        is_sign = isinstance(event, Heartbeat) or (
            # It is one, and no more, in the newer protocol as well, as long as nothing changes.
            isinstance(event, ConsumerHeartbeat) and after.roster is before.roster
        )
        if not is_sign and not self._weigh(before, after, event):
            return
        if after.is_absent:
            self.groups.pop(group_id, None)
            self._disarm(group_id)
        else:
            self.groups[group_id] = after
            # A sign of life only moves deadlines away; the timer finds that out by itself.
            if not is_sign and not isinstance(event, Commit):
                self._arm(group_id, after)
        for effect in effects:
            match effect:
                case Persist(part):
                    self.ledger.note(group_id, part)
                case Reply(ticket, answer, None):
                    self._answer(ticket, answer)
                case Reply(ticket, answer, StoredPart() as part):
                    self._wait(self.ledger.version(group_id, part), ticket, answer)

    def _weigh(self, before: AnyGroup, after: AnyGroup, event: Event) -> bool:
        """Account for a change of size; False: there is no room, and the request was refused."""
        memory, old = self.memory, self.memory.size_of(after.id)
        if isinstance(event, Commit) and old:
            new = old + after.offsets.size_bytes - before.offsets.size_bytes
        else:
            new = 0 if after.is_absent else after.size_bytes
        if isinstance(event, GROWING):
            why = memory.refuses(after.id, new, after.offsets.size_bytes, after.made_by)
            if why is not None:
                code = _no_room(event, is_new=not old)
                self._refused(code, why)
                self._answer(event.ticket, refusal(event, code))
                return False
        memory.take(after.id, new, after.made_by)
        return True

    def _answer(self, ticket: int, answer: Answer) -> None:
        asked = self._asked.pop(ticket, None)
        if asked is not None and not asked[0].done():  # The client may have gone.
            asked[0].set_result(answer)

    def _arm(self, group_id: str, group: AnyGroup) -> None:
        """Set the timer of a group, unless it will ring in time."""
        deadline_ms = group.next_deadline_ms
        armed = self._timers.get(group_id)
        if deadline_ms is None or (armed is not None and armed[0] <= deadline_ms):
            return
        self._disarm(group_id)
        self._ring_at(group_id, deadline_ms)

    def _ring_at(self, group_id: str, deadline_ms: int) -> None:
        left_ms = max(deadline_ms - self._clock.boot_ms(), 1)
        timer = asyncio.get_running_loop().call_later(left_ms / 1000, self._ring, group_id)
        self._timers[group_id] = deadline_ms, timer

    def _disarm(self, group_id: str) -> None:
        armed = self._timers.pop(group_id, None)
        if armed is not None:
            armed[1].cancel()

    def _ring(self, group_id: str) -> None:
        self._timers.pop(group_id, None)
        try:
            self.tell(group_id, Tick())
        except Exception as error:  # noqa: BLE001 (this group is asked again, the others go on)
            self._tasks.failed("group timer", error)
            self._ring_at(group_id, self._clock.boot_ms() + AGAIN_MS)

    # ------------------------------------------------------------------------ waiting

    def _wait(self, version: int, ticket: int, answer: Answer) -> None:
        """Answer when a version is stored, which it may be already."""
        if version <= self.ledger.stored_version:
            self._answer(ticket, answer)
            return
        timer = asyncio.get_running_loop().call_later(
            self._settings.patience_ms / 1000, self._lose_patience, ticket
        )
        self._waiting[ticket] = _Waiting(version, answer, timer)

    def _lose_patience(self, ticket: int) -> None:
        """Tell a client that has waited too long to try again."""
        del self._waiting[ticket]
        self._refuse(ticket, Code.COORDINATOR_NOT_AVAILABLE)

    def _refuse(self, ticket: int, code: Code) -> None:
        asked = self._asked.get(ticket)
        if asked is not None:
            self._answer(ticket, refusal(asked[1], code))

    def _stop(self, code: Code) -> None:
        """Answer nothing more, and refuse what waits."""
        self.refuses = code
        for ticket in list(self._asked):
            self._refuse(ticket, code)
        for one in self._waiting.values():
            one.timer.cancel()
        self._waiting.clear()
        for group_id in list(self._timers):
            self._disarm(group_id)

    # ------------------------------------------------------------------------ writing

    async def _write(self) -> None:
        code = Code.COORDINATOR_NOT_AVAILABLE
        try:
            code = await self.ledger.write(self._durable, self._release)
        finally:
            self._stop(self.refuses or code)

    def _durable(self, name: str) -> AnyDurable | None:
        return self.groups.get(name, absent(name)).durable

    def _release(self) -> None:
        """Answer requests that waited for what is stored now."""
        for ticket, one in list(self._waiting.items()):
            if one.version <= self.ledger.stored_version:
                del self._waiting[ticket]
                one.timer.cancel()
                self._answer(ticket, one.answer)

    # ------------------------------------------------------------------------ ending

    async def over(self) -> None:
        """Wait until nothing is stored any more; raises what the writer died of, if it did."""
        await asyncio.wait((self._writer,))
        if not self._writer.cancelled() and (error := self._writer.exception()) is not None:
            raise error

    async def close(self) -> ClaimedShard | None:
        """Take nothing more, store what was taken, and answer all requests.

        Returns the claim that this broker has still; None: it has lost it, or does not know.
        """
        if self.refuses is None:
            self.refuses = Code.NOT_COORDINATOR
        for group_id in list(self._timers):
            self._disarm(group_id)
        for ticket in [ticket for ticket in self._asked if ticket not in self._waiting]:
            self._refuse(ticket, self.refuses)
        self.ledger.close()
        # A store that has just refused will hardly take it now: do not wait for long.
        drain_ms = self._settings.drain_ms
        drain_ms = min(drain_ms, HOPELESS_MS) if self.ledger.trouble() else drain_ms
        done, _ = await asyncio.wait((self._writer,), timeout=drain_ms / 1000)
        if not done:
            self._writer.cancel()
        await self.over()
        return self.ledger.claimed if self.ledger.is_closed else None
