"""The backlog of a lane: its bundles from the floor on, read as one chain.

Nothing may be sealed or trimmed that was not read like this: without a hole, each bundle naming the
one before, up to one that a verified fold knows; and the head, looked at after the last of them was
read, still has the floor from which the walk began. Else one of them may be a key that was deleted
and made again by somebody who had slept.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from lakelog.catalog import Topic
from lakelog.journal import KnownBundle, Lane, Look, TopicIdPartition, look, read_bundles
from lakelog.log import refresh
from lakelog.manifests import PartitionPath
from lakelog.store import AT_ONCE, Work

__all__ = ["Backlog", "Catalog", "catalog_of", "path_of", "read_backlog"]


@dataclass(frozen=True, slots=True)
class Backlog:
    """Bundles from the floor on, and the look that they are good for."""

    look: Look
    bundles: tuple[KnownBundle, ...]
    complete: bool
    """Whether they reach the end of the lane; else there are more than were asked for."""

    @property
    def floor(self) -> int:
        return self.look.head.floor


def read_backlog(lane: Lane, bundles_max: int) -> Work[Backlog | None]:
    """Read the first bundles of a lane, at most so many; None: the lane moved, begin again."""
    yield from refresh(lane)
    first = yield from look(lane)
    floor, fold = first.head.floor, lane.known.fold
    end = min(fold.seq + 1, floor + bundles_max)
    found: list[KnownBundle] = []
    for seq in range(floor, end, AT_ONCE):
        some = yield from read_bundles(lane, range(seq, min(seq + AT_ONCE, end)))
        for held in some:
            if held is None or (found and held.bundle.previous != found[-1].bundle.nonce):
                lane.counters["backlog moved"] += 1
                return None
            found.append(held)
    complete = end == fold.seq + 1
    if complete and found and found[-1].bundle.nonce != fold.nonce:
        return None
    last = yield from look(lane)  # After everything else was read: the head-check rule.
    if last.head.floor != floor:
        lane.counters["backlog passed"] += 1
        return None
    return Backlog(last, tuple(found), complete)


Catalog = Mapping[bytes, Topic]
"""Topics by id, deleted ones that are remembered included."""


def catalog_of(topics: list[Topic]) -> dict[bytes, Topic]:
    """Return every incarnation of some topics by its id."""
    return {one.id: one for topic in topics for one in topic.incarnations()}


def path_of(catalog: Catalog, place: TopicIdPartition) -> PartitionPath | None:
    """Return where the history of a partition is; None: nobody knows its topic."""
    topic = catalog.get(place[0])
    return None if topic is None else topic.where(place[1])
