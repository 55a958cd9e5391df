"""The coordinator: finds the shard of a group, and puts requests to it.

While a shard is loaded the answer is COORDINATOR_LOAD_IN_PROGRESS, but a heartbeat is simply
answered, and a SyncGroup is told to join again: as Kafka does, so that a restart is no rebalance. A
commit waits for its shard (``waiting_commits``).
Which shards are here, and why not, is the business of ``held_shards``.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeVar
from uuid import UUID

from lakelog.broker.claims import Claims
from lakelog.broker.held_shards import LOADING, HeldShards
from lakelog.broker.limits import Limits
from lakelog.broker.mirror import Mirror
from lakelog.broker.patterns import Patterns
from lakelog.broker.settings import CoordinatorSettings
from lakelog.broker.shards import Refused, Shard
from lakelog.broker.supervision import Supervisor
from lakelog.broker.turns import in_turns
from lakelog.broker.waiting_commits import WaitingCommits
from lakelog.coordination import ClaimedShard, Groups, shard_of
from lakelog.errors import LakelogError
from lakelog.groups import (
    Answer,
    AnyDurable,
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
        store: Groups,
        perform: PerformAsync,
        *,
        claims: Claims,
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
        self._claims = claims
        self._shards = HeldShards(claims, self._open, self._tasks, on_error)
        self._waiting = WaitingCommits(self._shards, self._ask, self._tasks)
        self._kept: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> "Coordinator":
        self._shards.begin()
        pulse_s = self._settings.pulse_ms / 1000
        self._kept.append(self._tasks.every("pulse", pulse_s, self._claims.beat))
        sweep_s = self._settings.sweep_interval_ms / 1000
        self._kept.append(self._tasks.every("groups sweep", sweep_s, self._sweep))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def load(self) -> None:
        """Claim and load the shards that should be here, as far as they may be had now.

        Raises:
            LakelogError: the store does not say how many there are, and waiting does not help.
        """
        await self.__aenter__()
        await self.loaded()

    async def loaded(self) -> None:
        """Wait until every shard is here, or is known not to be for now.

        Raises:
            LakelogError: the store does not say how many there are, and waiting does not help.
        """
        await self._shards.loaded()

    def trouble(self) -> str:
        """Say what keeps groups from being coordinated; nothing if all is well."""
        return self._shards.trouble()

    @property
    def shards(self) -> int:
        """How many shards there are, here and elsewhere; 0: it is not known yet."""
        return len(self._shards.shards)

    @property
    def claims_lost(self) -> int:
        """How often another broker has taken a shard from this one."""
        return self._claims.lost

    def held(self) -> list[int]:
        """Return the shards that are here."""
        return [number for number, _ in self._shards.here()]

    async def release(self) -> None:
        """Give every shard up: this broker is about to leave."""
        await self._shards.release()

    def mirror(self, move: int) -> Mirror:
        """Return what writes the groups that are here to the bucket as well."""
        return Mirror(self._shards, self._perform, self._clock, move)

    async def close(self, *, release: bool = True) -> None:
        """Take nothing more, store what was taken, and answer all requests."""
        for task in self._kept:
            task.cancel()
        await asyncio.gather(*self._kept, return_exceptions=True)
        await self._shards.close(release=release)

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
        """Store offsets; of a group that comes here in a moment, when it has."""
        found = self._find(group_id)
        shard = shard_of(group_id, self.shards) if self.shards else -1
        if shard >= 0 and self._waiting.takes(shard, found, event):
            return _of(CommitAnswer, self._waiting.wait(shard, group_id, event))
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

    def _ask(self, group_id: str, request: Request) -> "asyncio.Future[Answer]":
        shard = self._find(group_id)
        if isinstance(shard, Shard):
            return shard.ask(group_id, request)
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        if shard is LOADING and isinstance(request, Heartbeat):
            answer.set_result(Code.NONE)
        elif shard is LOADING and isinstance(request, Sync):
            answer.set_result(refusal(request, Code.REBALANCE_IN_PROGRESS))
        else:
            answer.set_result(refusal(request, shard))
        return answer

    def _find(self, group_id: str) -> Shard | Code:
        """Return the shard of a group, or why it cannot be asked."""
        size = len(group_id.encode(errors="surrogatepass"))
        if not 0 < size <= GROUP_ID_BYTES_MAX:
            return Code.INVALID_GROUP_ID
        if self._shards.refuses is not None:
            return self._shards.refuses
        shard = self._shards.shards[shard_of(group_id, self.shards)]
        return shard if isinstance(shard, Code) else shard.refuses or shard

    # ------------------------------------------------------------------------ reading

    def offsets(self, group_id: str) -> Offsets | Code:
        """Return the offsets of a group that are stored, or why they are not known."""
        shard = self._find(group_id)
        return shard if isinstance(shard, Code) else shard.offsets(group_id)

    async def stored_groups(self) -> dict[str, AnyDurable]:
        """Return every group as it is stored, also those that other brokers coordinate.

        Raises:
            LakelogError: some cannot be read now.
        """
        return await self._shards.stored_groups()

    def stored_offsets(self) -> Iterator[tuple[str, Offsets]]:
        """Yield every group and its offsets that are stored, of the shards that are here.

        Groups may come and go while this is used.
        """
        for _, shard in list(self._shards.here()):
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

    async def find(self, group_id: str) -> int | Code:
        """Return the node id of the broker that coordinates a group, or why nobody is named.

        One that is not here is asked for in the store: its claim says who has it.
        """
        shard = self._find(group_id)
        if isinstance(shard, Shard) or (shard is LOADING and self.shards):
            return self._claims.node_id
        if shard is not Code.NOT_COORDINATOR:
            return shard
        try:
            found = await self._claims.find(shard_of(group_id, self.shards), self.shards)
        except LakelogError as error:
            self._on_error(error)
            return Code.COORDINATOR_NOT_AVAILABLE
        return Code.COORDINATOR_NOT_AVAILABLE if found is None else found

    async def confirm(self, group_ids: Iterable[str]) -> dict[str, Code]:
        """Say whether this broker coordinates groups, after asking the store once for each shard.

        What is stored is told only after this: a broker that has been replaced, and does not know
        it yet, would send consumers back to where they were.
        """
        found = {group_id: self._find(group_id) for group_id in group_ids}
        shards = list({one for one in found.values() if isinstance(one, Shard)})
        asked = await asyncio.gather(*(one.confirm() for one in shards))
        told = dict(zip(shards, asked, strict=True))
        return {key: one if isinstance(one, Code) else told[one] for key, one in found.items()}

    async def confirm_held(self) -> Code:
        """See whether this broker has the shards that are here, and say why that is not known."""
        codes = await asyncio.gather(*(one.confirm() for _, one in self._shards.here()))
        return max((one for one in codes if one is not Code.NOT_COORDINATOR), default=Code.NONE)

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
        """Return every group that is coordinated here, and why some of them may be missing.

        What is elsewhere is told there: clients ask every broker.
        """
        code, found = self._shards.refuses or Code.NONE, []
        for shard in self._shards.shards if self._shards.refuses is None else ():
            refuses = shard if isinstance(shard, Code) else shard.refuses
            if isinstance(shard, Shard) and refuses is None:
                found += [group.listing for group in shard.groups.values()]
            elif refuses is not Code.NOT_COORDINATOR:
                code = refuses or code
        return code, sorted(found, key=lambda one: one.group_id)

    def shard_sizes(self) -> list[tuple[int, int]]:
        """Return the shards that are here, and a bound of what their groups take."""
        return [(number, one.memory.used) for number, one in self._shards.here()]

    # ------------------------------------------------------------------------ keeping

    async def forget_topics(self, topic_ids: Iterable[bytes]) -> None:
        """Drop the offsets of topics that were deleted."""
        await self._tell_all(TopicsGone(frozenset(topic_ids)))

    async def _sweep(self) -> None:
        await self._tell_all(Sweep())

    async def _tell_all(self, event: Sweep | TopicsGone) -> None:
        for _, shard in list(self._shards.here()):
            async for name in in_turns(list(shard.groups)):
                shard.tell(name, event)

    def _open(self, claimed: ClaimedShard) -> Shard:
        return Shard(
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
