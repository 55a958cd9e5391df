"""Many consumer groups without consumers: members that join, beat and commit, by requests.

A group has one connection, on which its members' requests follow each other. It comes from an
address of its own, as the groups of many machines do: a broker has room for so many of each.

    crowd = await Crowd.open(brokers, groups=1000, members=5, topic="t")
    await crowd.join()       every group is balanced: its leader has given each member a partition
    await crowd.beat()       a heartbeat of every member, and a commit of each group
    await crowd.check()      the offsets that coordinators tell are those that were acknowledged
"""

import asyncio
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress

from kio.schema.errors import ErrorCode

from tests.patience import LateError
from tests.unit.broker.site import Client

__all__ = ["Crowd"]

OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR, JOIN_GROUP, HEARTBEAT, SYNC_GROUP = (
    8, 9, 10, 11, 12, 14,
)  # fmt: skip
SESSION_MS = 45_000
WAIT_S = 0.25
"""Before a group looks for its coordinator again."""
_AGAIN = {
    ErrorCode.not_coordinator,
    ErrorCode.coordinator_not_available,
    ErrorCode.coordinator_load_in_progress,
    ErrorCode.request_timed_out,
}


class _AgainError(Exception):
    """The coordinator is another one, or not there yet."""


class Group:
    """One group, and the connection to its coordinator."""

    def __init__(self, number: int, members: int, topic: str) -> None:
        self.name, self._topic = f"crowd-{number}", topic
        self._source = f"127.{64 + number // 62_500}.{number // 250 % 250}.{number % 250 + 2}"
        self._ids = [""] * members
        self._generation = -1
        self._client: Client | None = None
        self.committed = self._next = 0
        self.wrong = ""

    async def connect(self, brokers: Mapping[int, tuple[str, int]]) -> None:
        """Find the coordinator, whoever of the brokers tells it, and connect."""
        self.close()
        for address in brokers.values():
            with suppress(OSError, EOFError):
                asked = await self._open(address)
                keys = [self.name]
                found = await asked.ask(FIND_COORDINATOR, 4, key_type=0, coordinator_keys=keys)
                asked.writer.close()
                (row,) = found.coordinators
                if row.error_code is ErrorCode.none and row.node_id in brokers:
                    self._client = await self._open(brokers[row.node_id])
                    return
        raise _AgainError

    @property
    def is_connected(self) -> bool:
        return self._client is not None

    async def _open(self, address: tuple[str, int]) -> Client:
        return Client(*await asyncio.open_connection(*address, local_addr=(self._source, 0)))

    def close(self) -> None:
        if self._client is not None:
            self._client.writer.close()
            self._client = None

    async def _ask(self, key: int, version: int, each: Sequence[dict[str, object]]) -> list[object]:
        """Ask something once for each member, and return the answers."""
        client = self._client
        if client is None:
            raise _AgainError
        try:
            for fields in each:
                client.send(key, version, group_id=self.name, **fields)
            return [(await client.answer())[1] for _ in each]
        except (OSError, EOFError) as error:
            raise _AgainError from error

    async def join(self) -> None:
        """Let all members join, and the leader give each of them a partition."""
        protocols = [{"name": "range", "metadata": b"\0\1" + bytes(8)}]
        joined = await self._ask(
            JOIN_GROUP,
            3,
            [
                {
                    "session_timeout": SESSION_MS,
                    "rebalance_timeout": SESSION_MS,
                    "member_id": id_,
                    "protocol_type": "consumer",
                    "protocols": protocols,
                }
                for id_ in self._ids
            ],
        )
        _judge(joined)
        self._ids = [one.member_id for one in joined]  # type: ignore[attr-defined]
        self._generation = joined[0].generation_id  # type: ignore[attr-defined]
        leader = joined[0].leader  # type: ignore[attr-defined]
        plan = [{"member_id": id_, "assignment": id_.encode()} for id_ in self._ids]
        synced = await self._ask(
            SYNC_GROUP,
            3,
            [{**self._me(id_), "assignments": plan if id_ == leader else []} for id_ in self._ids],
        )
        _judge(synced)
        given = [one.assignment for one in synced]  # type: ignore[attr-defined]
        assert given == [id_.encode() for id_ in self._ids]

    def _me(self, id_: str) -> dict[str, object]:
        return {"generation_id": self._generation, "member_id": id_}

    async def beat(self) -> None:
        """Let all members beat, and the first one commit."""
        _judge(await self._ask(HEARTBEAT, 3, [self._me(id_) for id_ in self._ids]))
        self._next += 1
        rows = [{"partition_index": 0, "committed_offset": self._next, "committed_metadata": ""}]
        mine = {
            "generation_id_or_member_epoch": self._generation,
            "member_id": self._ids[0],
            "topics": [{"name": self._topic, "partitions": rows}],
        }
        (done,) = await self._ask(OFFSET_COMMIT, 7, [mine])
        ((row,),) = ([*one.partitions] for one in done.topics)  # type: ignore[attr-defined]
        _judge([row])
        self.committed = self._next

    async def check(self) -> None:
        """Note what is wrong with the offset that the coordinator tells."""
        wanted = [{"name": self._topic, "partition_indexes": [0]}]
        (found,) = await self._ask(OFFSET_FETCH, 5, [{"topics": wanted}])
        _judge([found])
        ((row,),) = ([*one.partitions] for one in found.topics)  # type: ignore[attr-defined]
        if not self.committed <= row.committed_offset <= self._next:
            self.wrong = f"{self.name}: {row.committed_offset} for {self.committed}"


def _judge(answers: Sequence[object]) -> None:
    errors = {one.error_code for one in answers} - {ErrorCode.none}  # type: ignore[attr-defined]
    if errors & _AGAIN:
        raise _AgainError
    assert not errors, errors


class Crowd:
    """All groups."""

    def __init__(
        self, brokers: Mapping[int, tuple[str, int]], *, groups: int, members: int, topic: str
    ) -> None:
        self.brokers = dict(brokers)
        self._groups = [Group(number, members, topic) for number in range(groups)]

    async def join(self, within_s: float) -> float:
        """Return the seconds until every group is balanced."""
        return max(await self._all("join", within_s))

    async def beat(self, within_s: float) -> list[float]:
        """Return how long each group waited until its members were served."""
        return await self._all("beat", within_s)

    async def check(self, within_s: float) -> list[str]:
        """Return which offsets are wrong."""
        await self._all("check", within_s)
        return [one.wrong for one in self._groups if one.wrong]

    async def _all(self, what: str, within_s: float) -> list[float]:
        return await asyncio.gather(*(self._one(one, what, within_s) for one in self._groups))

    async def _one(self, group: Group, what: str, within_s: float) -> float:
        begun, why = time.monotonic(), Counter[str]()
        while True:
            try:
                if not group.is_connected:
                    await group.connect(self.brokers)
                await getattr(group, what)()
                return time.monotonic() - begun
            except _AgainError as error:
                why[repr(error.__cause__)] += 1
                group.close()
                if time.monotonic() - begun > within_s:
                    raise LateError(f"{group.name} did not {what}: {dict(why)}") from None
                await asyncio.sleep(WAIT_S)

    def close(self) -> None:
        """End all connections."""
        for group in self._groups:
            group.close()
