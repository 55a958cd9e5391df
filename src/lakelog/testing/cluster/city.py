"""A city: brokers, clients, what they share, and what the store and the network do to them.

out_all    no request of anybody gets through
out_list   lists are not answered
blind      what one broker's lists show of another is an old picture: each may think that the
           other one is dead, for as long as one likes
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random  # noqa: TID251 (seeded)
from typing import TYPE_CHECKING, Any

from lakelog.catalog import Topic
from lakelog.coordination import decode_shard, shard_of
from lakelog.errors import UnavailableError
from lakelog.journal import Lane, StoreTime, new_lane
from lakelog.model import Rules
from lakelog.names import BROKERS_PREFIX, GROUPS_PREFIX, lane_of, node_of
from lakelog.store import (
    Created,
    ListPage,
    ObjectInfo,
    Op,
    Page,
    PutIfAbsent,
    PutIfMatch,
    Replaced,
    join_body,
)
from lakelog.testing.cluster.laws import Laws
from lakelog.testing.process import Process
from lakelog.testing.world import World

if TYPE_CHECKING:
    from lakelog.testing.cluster.brokers import ClusterBroker

__all__ = ["INTERVAL_MS", "LANES", "SHARDS", "City", "ClusterProcess", "Reply"]

LANES, SHARDS = 5, 3
INTERVAL_MS = 3_000
NAP_MS = 500
ON_ITS_WAY_MS = 5_000
"""How long a claim may take from its decision to its write."""
OUTAGE_MS = 1_000
"""How long a request waits that is not answered."""

Reply = Callable[[str, object], None]
"""How a client is answered: what happened, and more of it."""


@dataclass(slots=True)
class City:
    """Everybody, and what they share."""

    world: World
    rules: Rules
    topic: Topic
    laws: Laws
    brokers: list["ClusterBroker"] = field(default_factory=list)
    former: list["ClusterBroker"] = field(default_factory=list)
    """Runs whose node id another one has taken while they lived."""
    out_all: bool = False
    out_list: bool = False
    blind: set[tuple[int, int]] = field(default_factory=set)
    partitions: dict[int, int] = field(default_factory=dict)
    """A partition for each lane."""
    counts: dict[str, int] = field(default_factory=dict)
    batches: int = 0
    is_over: bool = False

    def __post_init__(self) -> None:
        for partition in range(self.topic.partitions):
            self.partitions.setdefault(lane_of(self.topic.id, partition, LANES), partition)

    @property
    def random(self) -> Random:
        return self.world.random

    def group_of(self, shard: int) -> str:
        """Return a group of a shard."""
        return next(name for name in map(str, range(999)) if shard_of(name, SHARDS) == shard)

    def count(self, what: str) -> None:
        """Count something that happened."""
        self.counts[what] = self.counts.get(what, 0) + 1

    def lane(self, process: Process, number: int, writer: bytes) -> Lane:
        """Return a lane of which a broker knows nothing yet."""
        ids = self.world.ids
        return new_lane(number, self.rules, process, ids, time=StoreTime(), writer=writer)

    def watch(self, op: Op, answer: Any) -> None:
        """See every operation when it has been performed."""
        if not isinstance(op, PutIfAbsent | PutIfMatch) or not op.key.startswith(GROUPS_PREFIX):
            return
        if isinstance(answer, Created | Replaced):
            number = int(op.key.removeprefix(GROUPS_PREFIX))
            now = decode_shard(join_body(op.body), number)
            self.laws.shard(now, self._sees_holder(number, now.claim.broker))

    def _sees_holder(self, shard: int, claimer: bytes) -> bool:
        """Whether whoever claims a shard sees its holder alive, and that does live.

        It has done so for a while: what was decided by the view before may still be on its way.
        """
        before = self.laws.cells.get(shard)
        if before is None:
            return False
        everybody = [*self.brokers, *self.former]
        holder = next((one for one in everybody if one.run == before.claim.broker), None)
        taker = next((one for one in everybody if one.run == claimer), None)
        if holder is None or taker is None or not holder.is_up:
            return False
        seen = taker.node.view.living.get(holder.id)
        since = taker.seen_alive.get(holder.id, self.world.now)
        is_long = self.world.now - since >= ON_ITS_WAY_MS
        return is_long and seen is not None and seen.run == holder.run


class ClusterProcess(Process):
    """A process of a broker."""

    def __init__(self, city: City, broker: "ClusterBroker", name: str) -> None:
        super().__init__(city.world, name, broker.live)
        self._city, self._broker = city, broker
        self._pictures: dict[str, ObjectInfo] = {}

    def freeze(self, ms: int) -> None:
        """Sleep, from now on."""
        self._awake_at = max(self._awake_at, self.world.now + ms)

    @property
    def is_frozen(self) -> bool:
        return self.world.now < self._awake_at

    def thaw(self) -> None:
        """Wake up."""
        self._awake_at = 0

    def _step(self, mine: Any, answer: Any) -> None:
        left_ms = self._awake_at - self.world.now
        if mine[0] == self.lives and left_ms > 0:
            # In small steps, because it may be woken earlier.
            self.world.at(min(left_ms, NAP_MS), lambda: self._step(mine, answer))
        else:
            super()._step(mine, answer)

    def _ask(self, op: Op, mine: Any, done: Callable[[Any], None], tries: int = 0) -> None:
        city = self._city
        if city.out_all or (city.out_list and isinstance(op, ListPage)):
            lost = UnavailableError(f"no answer to {type(op).__name__}: retry")
            self.world.at(OUTAGE_MS, lambda: done(lost))
            return
        super()._ask(op, mine, lambda answer: done(self._seen(op, answer)), tries)

    def _arrive(self, op: Op, back_ms: int, tell: Callable[[Any], None]) -> None:
        """Answer. Who is told that a key exists does not fall asleep here: see ``freeze``."""
        answer = self.world.perform(op)
        self.world.at(back_ms, lambda: tell(answer))

    def _seen(self, op: Op, answer: Any) -> Any:
        if not isinstance(op, ListPage) or op.prefix != BROKERS_PREFIX:
            return answer
        if not isinstance(answer, Page):
            return answer
        shown = tuple(self._picture(info) for info in answer.objects)
        page = replace(answer, objects=shown)
        beats = {
            of[0]: f"{info.etag}/{info.modified_ms}"
            for info in shown
            if (of := node_of(info.key)) is not None and of[1] == "beat"
        }
        self._broker.listed(beats)
        return page

    def _picture(self, info: ObjectInfo) -> ObjectInfo:
        """Return what this broker sees of an object; an old picture, if it is blind."""
        of = node_of(info.key)
        if of is not None and (self._broker.id, of[0]) in self._city.blind:
            return self._pictures.get(info.key, info)
        self._pictures[info.key] = info
        return info
