"""Which member is to have which partitions: ``uniform``, the default, and ``range``.

    uniform   as many for each as for the others, as far as subscriptions allow; a member that has
              a partition keeps it, unless it has too many
    range     of each topic a run of partitions, so that equal topics are read by equal members

Both are functions of what they are given and of nothing else: members in the order of their ids,
topics in the order of their names.

Uniform works on classes: topics with the same subscribers. In a class a partition may be with any
of them, so the one with the fewest takes what no member has, and the one with most gives to the
one with the fewest until they differ by one at most. A group in which all want the same is one
class. Where classes share members a move in one may unsettle another; each move makes the loads
more equal, so it comes to rest, and a limit keeps it from taking long.
"""

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from lakelog.groups.events import TopicShape
from lakelog.groups.offsets import TopicIdPartition

__all__ = ["ASSIGNORS", "Subscriber", "assign_range", "assign_uniform"]

ROUNDS_MAX = 8
"""Over all classes, to balance members that they share."""


class Subscriber(NamedTuple):
    """A member, as an assignor sees it."""

    id: str
    instance_id: str | None
    topics: frozenset[str]
    """Of those that are there."""
    before: frozenset[TopicIdPartition]
    """What it was to have until now."""


Assignor = Callable[
    [Sequence[Subscriber], Mapping[str, TopicShape]], dict[str, frozenset[TopicIdPartition]]
]


def assign_range(
    members: Sequence[Subscriber], topics: Mapping[str, TopicShape]
) -> dict[str, frozenset[TopicIdPartition]]:
    """Give each a run of partitions of each topic; static members come first, by their names."""
    found: dict[str, list[TopicIdPartition]] = {one.id: [] for one in members}
    ordered = sorted(
        members, key=lambda one: (one.instance_id is None, one.instance_id or one.id, one.id)
    )
    for name, (topic_id, partitions) in topics.items():
        takers = [one.id for one in ordered if name in one.topics]
        if not takers:
            continue
        least, more = divmod(partitions, len(takers))
        at = 0
        for number, taker in enumerate(takers):
            end = at + least + (number < more)
            found[taker] += [TopicIdPartition(topic_id, partition) for partition in range(at, end)]
            at = end
    return {key: frozenset(partitions) for key, partitions in found.items()}


def assign_uniform(
    members: Sequence[Subscriber], topics: Mapping[str, TopicShape]
) -> dict[str, frozenset[TopicIdPartition]]:
    """Give each about the same number, and move no partition that need not move."""
    classes: dict[tuple[str, ...], list[str]] = {}
    ordered = sorted(members)
    for name in sorted(topics):
        takers = tuple(one.id for one in ordered if name in one.topics)
        if takers:
            classes.setdefault(takers, []).append(name)
    holders = {partition: one.id for one in ordered for partition in one.before}
    pools = [_Pool(takers, names, topics, holders) for takers, names in classes.items()]
    loads = dict.fromkeys((one.id for one in ordered), 0)
    for pool in pools:
        for member_id, partitions in pool.owned.items():
            loads[member_id] += len(partitions)
    for pool in pools:
        pool.fill(loads)
    for _ in range(ROUNDS_MAX):
        moved = [pool.balance(loads) for pool in pools]
        if not any(moved):
            break
    found: dict[str, list[TopicIdPartition]] = {one.id: [] for one in ordered}
    for pool in pools:
        for member_id, partitions in pool.owned.items():
            found[member_id] += partitions
    return {key: frozenset(partitions) for key, partitions in found.items()}


class _Pool:
    """The partitions of one class, and which members own them so far."""

    def __init__(
        self,
        takers: tuple[str, ...],
        names: Iterable[str],
        topics: Mapping[str, TopicShape],
        holders: Mapping[TopicIdPartition, str],
    ) -> None:
        self.owned: dict[str, list[TopicIdPartition]] = {taker: [] for taker in takers}
        self.free: list[TopicIdPartition] = []
        for name in names:
            topic_id, count = topics[name]
            for index in range(count):
                one = TopicIdPartition(topic_id, index)
                self.owned.get(holders.get(one, ""), self.free).append(one)

    def fill(self, loads: dict[str, int]) -> None:
        """Give away what no member owns."""
        heap = [(loads[taker], taker) for taker in self.owned]
        heapq.heapify(heap)
        for partition in self.free:
            load, taker = heap[0]
            self.owned[taker].append(partition)
            loads[taker] = load + 1
            heapq.heapreplace(heap, (load + 1, taker))
        self.free = []

    def balance(self, loads: dict[str, int]) -> bool:
        """Move partitions from members with most to members with fewest; say if one moved."""
        poor = [(loads[taker], taker) for taker in self.owned]
        rich = [(-loads[taker], taker) for taker, partitions in self.owned.items() if partitions]
        heapq.heapify(poor)
        heapq.heapify(rich)
        moved = False
        while rich:
            most, giver = rich[0]
            least, taker = poor[0]
            if -most != loads[giver]:
                heapq.heapreplace(rich, (-loads[giver], giver))
            elif least != loads[taker]:
                heapq.heapreplace(poor, (loads[taker], taker))
            elif not self.owned[giver]:
                heapq.heappop(rich)
            elif -most - least <= 1:
                break
            else:
                self.owned[taker].append(self.owned[giver].pop())
                loads[giver] -= 1
                loads[taker] += 1
                moved = True
        return moved


ASSIGNORS: Mapping[str, Assignor] = {"range": assign_range, "uniform": assign_uniform}
