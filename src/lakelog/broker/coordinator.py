"""The coordinator: finds the shard of a group, loads shards, and puts requests to them.

loading     COORDINATOR_LOAD_IN_PROGRESS, but a heartbeat is simply answered, and a SyncGroup is
            told to join again: as Kafka does, so that a restart is no rebalance
loaded      the group answers
lost        NOT_COORDINATOR: another broker has taken the claim; it is taken back when that has gone
damaged     COORDINATOR_NOT_AVAILABLE: the cell cannot be read, and is left as it is
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar
from uuid import UUID

from lakelog.broker.claims import Claims
from lakelog.broker.limits import Limits
from lakelog.broker.patterns import Patterns
from lakelog.broker.settings import CoordinatorSettings
from lakelog.broker.shards import Refused, Shard
from lakelog.broker.supervision import Supervisor, awaited
from lakelog.broker.turns import in_turns
from lakelog.coordination import BucketGroups, ClaimedShard, shard_of
from lakelog.errors import FencedError, LakelogError
from lakelog.groups import (
    Answer,
    AnyGroup,
    Code,
    Commit,
    CommitAnswer,
    ConsumerAnswer,
    ConsumerDurable,
    ConsumerGroup,
    ConsumerHeartbeat,
    Delete,
    DeleteOffsets,
    DeleteOffsetsAnswer,
    Description,
    Durable,
    Group,
    Heartbeat,
    Join,
    JoinAnswer,
    Leave,
    LeaveAnswer,
    Listing,
    Offsets,
    Request,
    Roster,
    Sweep,
    Sync,
    SyncAnswer,
    TopicIdPartition,
    TopicsGone,
    absent,
    check_member,
    describe,
    refusal,
)
from lakelog.ports import Clock, Ids
from lakelog.store import PerformAsync

__all__ = ["Coordinator"]

GROUP_ID_BYTES_MAX = 1024
CLIENT_ID_MAX = 256
"""Characters of a client's id that go into the ids of members, and are remembered."""

A = TypeVar(
    "A", JoinAnswer, SyncAnswer, LeaveAnswer, ConsumerAnswer, CommitAnswer, DeleteOffsetsAnswer,
    Code,
)  # fmt: skip
T = TypeVar("T")
Coming = Coroutine[Any, Any, T]
"""An answer that is still to come."""


class Coordinator:
    """All groups of a namespace. Use it as a context: what was accepted is answered at its end."""

    def __init__(
        self,
        store: BucketGroups,
        perform: PerformAsync,
        *,
        clock: Clock,
        ids: Ids,
        settings: CoordinatorSettings | None = None,
        limits: Limits | None = None,
        on_error: Callable[[LakelogError], None] = lambda _: None,
        refused: Refused = lambda *_: None,
        patterns: Patterns | None = None,
        tasks: Supervisor | None = None,
    ) -> None:
        self._tasks = tasks or Supervisor()
        self.patterns = patterns or Patterns()
        """For members that subscribe to topics by an expression."""
        self._store = store
        self._perform = perform
        self._clock = clock
        self._ids = ids
        self._settings = settings or CoordinatorSettings()
        self._limits = limits or Limits()
        self._on_error, self._refused = on_error, refused
        self._claims = Claims(
            store, perform, clock=clock, settings=self._settings, on_error=on_error
        )
        self._shards: list[Shard | Code] = []
        """Empty until the first is loaded, which tells how many there are."""
        self._refuses: Code | None = Code.COORDINATOR_LOAD_IN_PROGRESS
        """What is told while there are no shards at all."""
        self._loading: asyncio.Task[None] | None = None
        self._kept: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> "Coordinator":
        self._loading = awaited(self._load())
        sweep_s = self._settings.sweep_interval_ms / 1000
        self._kept.append(self._tasks.every("groups sweep", sweep_s, self._sweep))
        pulse_s = self._settings.pulse_ms / 1000
        self._kept.append(self._tasks.every("pulse", pulse_s, self._claims.beat))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def load(self, address: str = "") -> None:
        """Claim and load every shard; a broker that loses shards by that is told the ``address``.

        Raises:
            LakelogError: one cannot be, and waiting does not help.
        """
        self._claims.address = address
        await self.__aenter__()
        await self.loaded()

    async def loaded(self) -> None:
        """Wait until every shard is loaded.

        Raises:
            LakelogError: one cannot be, and waiting does not help.
        """
        assert self._loading is not None
        await asyncio.shield(self._loading)

    def trouble(self) -> str:
        """Say what keeps groups from being coordinated; nothing if all is well."""
        for number, shard in enumerate(self._shards):
            code = shard.refuses if isinstance(shard, Shard) else shard
            if code is Code.NOT_COORDINATOR:
                return self._claims.trouble()
            if code is not None:
                return f"shard {number} of the consumer groups is not loaded: see the log"
            if isinstance(shard, Shard) and (trouble := shard.ledger.trouble()):
                return trouble
        return ""

    async def close(self) -> None:
        """Take nothing more, store what was taken, and answer all requests."""
        self._refuses = Code.COORDINATOR_NOT_AVAILABLE
        ending = [task for task in (self._loading, *self._kept) if task is not None]
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)
        shards = [shard for shard in self._shards if isinstance(shard, Shard)]
        try:
            await asyncio.gather(*(shard.close() for shard in shards))
        finally:
            await self._claims.leave()

    # ------------------------------------------------------------------------ asking
    # What a request does to its group is done when one of these returns, and so in the order of the
    # calls. The answer that is returned comes when it is stored, and others have done their part.

    def join(self, group_id: str, event: Join) -> Coming[JoinAnswer]:
        """Wait for a generation; as long as a rebalance takes."""
        client_id = event.client_id[:CLIENT_ID_MAX]
        stem = client_id if event.instance_id is None else event.instance_id[:CLIENT_ID_MAX]
        new_member_id = f"{stem}-{UUID(bytes=self._ids())}"
        event = replace(event, client_id=client_id, new_member_id=new_member_id)
        return _of(JoinAnswer, self._ask(group_id, event))

    def sync(self, group_id: str, event: Sync) -> Coming[SyncAnswer]:
        """Wait for an assignment; as long as the leader takes."""
        return _of(SyncAnswer, self._ask(group_id, event))

    def heartbeat(self, group_id: str, event: Heartbeat) -> Coming[Code]:
        """Tell that a member lives."""
        return _of(Code, self._ask(group_id, event))

    def leave(self, group_id: str, event: Leave) -> Coming[LeaveAnswer]:
        """Let members go."""
        return _of(LeaveAnswer, self._ask(group_id, event))

    def consumer_heartbeat(self, group_id: str, event: ConsumerHeartbeat) -> Coming[ConsumerAnswer]:
        """Let a member of the newer protocol join, live or leave."""
        event = replace(
            event,
            client_id=event.client_id[:CLIENT_ID_MAX],
            new_member_id=event.member_id or str(UUID(bytes=self._ids())),
        )
        return _of(ConsumerAnswer, self._ask(group_id, event))

    def commit(self, group_id: str, event: Commit) -> Coming[CommitAnswer]:
        """Store offsets."""
        return _of(CommitAnswer, self._ask(group_id, event))

    async def delete_offsets(
        self, group_id: str, partitions: Iterable[TopicIdPartition], names: Mapping[bytes, str]
    ) -> tuple[Code, tuple[Code, ...]]:
        """Forget offsets; return why none was, or what became of each."""
        event = DeleteOffsets(partitions=tuple(partitions), names=names)
        answer = await _of(DeleteOffsetsAnswer, self._ask(group_id, event))
        return answer.code, answer.codes

    def delete(self, group_id: str) -> Coming[Code]:
        """Delete a group that has no members."""
        return _of(Code, self._ask(group_id, Delete()))

    def _ask(self, group_id: str, request: Request) -> Awaitable[Answer]:
        shard = self._find(group_id)
        if isinstance(shard, Shard):
            return shard.ask(group_id, request)
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        if shard is Code.COORDINATOR_LOAD_IN_PROGRESS and isinstance(request, Heartbeat):
            answer.set_result(Code.NONE)
        elif shard is Code.COORDINATOR_LOAD_IN_PROGRESS and isinstance(request, Sync):
            answer.set_result(refusal(request, Code.REBALANCE_IN_PROGRESS))
        else:
            answer.set_result(refusal(request, shard))
        return answer

    def _find(self, group_id: str) -> Shard | Code:
        """Return the shard of a group, or why it cannot be asked."""
        size = len(group_id.encode(errors="surrogatepass"))
        if not 0 < size <= GROUP_ID_BYTES_MAX:
            return Code.INVALID_GROUP_ID
        if self._refuses is not None:
            return self._refuses
        shard = self._shards[shard_of(group_id, len(self._shards))]
        return shard if isinstance(shard, Code) else shard.refuses or shard

    # ------------------------------------------------------------------------ reading

    def offsets(self, group_id: str) -> Offsets | Code:
        """Return the offsets of a group that are stored, or why they are not known."""
        shard = self._find(group_id)
        return shard if isinstance(shard, Code) else shard.offsets(group_id)

    def stored_offsets(self) -> Iterator[tuple[str, Offsets]]:
        """Yield every group and its offsets that are stored, of the shards that are here.

        Groups may come and go while this is used.
        """
        for shard in list(self._shards) if self._refuses is None else ():
            if isinstance(shard, Shard) and shard.refuses is None:
                for group_id in list(shard.groups):
                    yield group_id, shard.offsets(group_id)

    def roster(self, group_id: str) -> Roster | None:
        """Return the generation of a classic group that is stored."""
        shard = self._find(group_id)
        stored = None if isinstance(shard, Code) else shard.ledger.stored.get(group_id)
        return stored.roster if isinstance(stored, Durable) else None

    def check_member(self, group_id: str, member_id: str | None, epoch: int) -> Code:
        """Say whether a client may be told offsets, if it says that it is a member.

        It does so in the newer protocol alone, and is measured by what is stored.
        """
        shard = self._find(group_id)
        if isinstance(shard, Code) or (member_id is None and epoch < 0):
            return shard if isinstance(shard, Code) else Code.NONE
        stored = shard.ledger.stored.get(group_id)
        if not isinstance(stored, ConsumerDurable):
            return Code.NONE
        return check_member(stored.roster, member_id, epoch)

    async def confirm(self, group_ids: Iterable[str]) -> dict[str, Code]:
        """Say whether this broker coordinates groups, after asking the store once for each shard.

        That something is not there is said only after this: a broker that has been replaced, and
        does not know it yet, would send consumers back to the beginning or on to the end.
        """
        found = {group_id: self._find(group_id) for group_id in group_ids}
        shards = list({one for one in found.values() if isinstance(one, Shard)})
        asked = await asyncio.gather(*(one.confirm() for one in shards))
        told = dict(zip(shards, asked, strict=True))
        return {key: one if isinstance(one, Code) else told[one] for key, one in found.items()}

    def describe(self, group_id: str) -> Description | Code:
        """Return what an operator may know of a classic group; one that is not there is Dead."""
        found = self._look(group_id)
        if isinstance(found, Code):
            return found
        return describe(found if isinstance(found, Group) else absent(group_id))

    def consumer_group(self, group_id: str) -> ConsumerGroup | Code:
        """Return a group of the newer protocol."""
        found = self._look(group_id)
        if isinstance(found, Code | ConsumerGroup):
            return found
        return Code.GROUP_ID_NOT_FOUND

    def subscriptions(self, group_id: str) -> tuple[frozenset[str], frozenset[str]]:
        """Return the topics and the expressions that a group of the newer protocol names."""
        found = self.consumer_group(group_id)
        return (frozenset(),) * 2 if isinstance(found, Code) else (found.names, found.patterns)

    def _look(self, group_id: str) -> AnyGroup | Code:
        shard = self._find(group_id)
        if isinstance(shard, Code):
            return shard
        return shard.groups.get(group_id) or absent(group_id)

    def list_groups(self) -> tuple[Code, list[Listing]]:
        """Return every group, and why some may be missing."""
        code, found = self._refuses or Code.NONE, []
        for shard in self._shards if self._refuses is None else ():
            if isinstance(shard, Code) or shard.refuses is not None:
                code = shard if isinstance(shard, Code) else shard.refuses or code
            else:
                found += [group.listing for group in shard.groups.values()]
        return code, sorted(found, key=lambda one: one.group_id)

    def shard_sizes(self) -> list[tuple[int, int]]:
        """Return the shards that are here, and a bound of what their groups take."""
        shards = enumerate(self._shards)
        return [(number, one.memory.used) for number, one in shards if isinstance(one, Shard)]

    # ------------------------------------------------------------------------ keeping

    async def forget_topics(self, topic_ids: Iterable[bytes]) -> None:
        """Drop the offsets of topics that were deleted."""
        await self._tell_all(TopicsGone(frozenset(topic_ids)))

    async def _sweep(self) -> None:
        await self._tell_all(Sweep())

    async def _tell_all(self, event: Sweep | TopicsGone) -> None:
        for shard in list(self._shards):
            if isinstance(shard, Shard):
                async for name in in_turns(list(shard.groups)):
                    shard.tell(name, event)

    # ------------------------------------------------------------------------ loading

    async def _load(self) -> None:
        try:
            await self._claims.beat()
            first = await self._claims.take(0, None)
        except LakelogError as error:
            self._refuses = self._told(error)
            raise
        self._shards = [Code.COORDINATOR_LOAD_IN_PROGRESS] * first.shards
        self._open(first)
        self._refuses = None
        others = (self._load_one(number, first.shards) for number in range(1, first.shards))
        failed = [error for error in await asyncio.gather(*others) if error is not None]
        for number in range(first.shards):
            self._kept.append(self._tasks.keep(f"shard {number}", partial(self._lead, number)))
        if failed:
            raise failed[0]

    async def _lead(self, number: int) -> None:
        """Have a shard again, with what is stored of it, when its writer has died, and when another
        broker had it and has gone.
        """
        while True:
            shard = self._shards[number]
            if isinstance(shard, Shard):
                try:
                    await shard.over()
                except Exception:
                    self._shards[number] = Code.COORDINATOR_NOT_AVAILABLE
                    raise
                self._shards[number] = shard.refuses or Code.COORDINATOR_NOT_AVAILABLE
            self._open(await self._claims.regain(number, len(self._shards)))

    async def _load_one(self, number: int, shards: int) -> LakelogError | None:
        try:
            self._open(await self._claims.take(number, shards))
        except LakelogError as error:
            self._shards[number] = self._told(error)
            return error
        return None

    def _told(self, error: LakelogError) -> Code:
        self._on_error(error)
        is_lost = isinstance(error, FencedError)
        return Code.NOT_COORDINATOR if is_lost else Code.COORDINATOR_NOT_AVAILABLE

    def _open(self, claimed: ClaimedShard) -> None:
        self._shards[claimed.shard] = Shard(
            claimed,
            self._store,
            self._perform,
            clock=self._clock,
            settings=self._settings,
            limits=self._limits,
            on_error=self._on_error,
            refused=self._refused,
            tasks=self._tasks,
        )


async def _of(kind: type[A], asked: Awaitable[Answer]) -> A:
    answer = await asked
    assert isinstance(answer, kind)
    return answer
