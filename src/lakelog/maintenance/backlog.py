"""The backlog of a lane: its bundles from the floor on, read as one chain.

Nothing may be sealed or trimmed that was not read like this: without a hole, each bundle naming the
one before, up to one that a verified fold knows; and the head, looked at after the last of them was
read, still has the floor from which the walk began. Else one of them may be a key that was deleted
and made again by somebody who had slept.

What is sealed together are neighbouring partitions, by bytes (``plan_seal``):

    backlog of a lane    a0 a1 | b0 b1 b2 b3 ... | c0 (first part) | c0 (second) | c1 d0 ...
                         each about ``group_bytes``; a partition that has more is cut

Neighbours in a directory are neighbours in the payload, so a batch is one range of every bundle.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from lakelog.catalog import Topic
from lakelog.errors import LakelogError
from lakelog.journal import (
    KnownBundle,
    Lane,
    Look,
    TopicIdPartition,
    look,
    read_bundles,
    slices_of,
)
from lakelog.log import refresh
from lakelog.manifests import Manifest, PartitionPath, try_manifests
from lakelog.store import AT_ONCE, Work

__all__ = [
    "BUNDLES_MAX",
    "Backlog",
    "Catalog",
    "SealBatch",
    "SealSettings",
    "catalog_of",
    "path_of",
    "plan_seal",
    "read_backlog",
    "try_histories",
]

BUNDLES_MAX = 4096
"""Of a lane, in one pass or run."""


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


def path_of(catalog: Catalog, topic_partition: TopicIdPartition) -> PartitionPath | None:
    """Return where the history of a partition is; None: nobody knows its topic."""
    topic = catalog.get(topic_partition[0])
    return None if topic is None else topic.path_of(topic_partition[1])


def try_histories(
    topic_partitions: Iterable[TopicIdPartition], catalog: Catalog
) -> Work[dict[PartitionPath, Manifest | LakelogError]]:
    """Return the manifest of each partition whose topic is known, or why it cannot be read."""
    wheres = [
        where
        for topic_partition in topic_partitions
        if (where := path_of(catalog, topic_partition)) is not None
    ]
    return dict(zip(wheres, (yield from try_manifests(wheres)), strict=True))


# ---------------------------------------------------------------------------- sharing it out


@dataclass(frozen=True, slots=True, kw_only=True)
class SealSettings:
    """How large what is written becomes."""

    group_bytes: int = 256 << 20
    """What one step reads and holds in memory."""
    segment_bytes: int = 128 << 20
    """A segment ends when it has so much."""


@dataclass(frozen=True, slots=True)
class SealBatch:
    """Neighbouring partitions of a lane, and the bundles that hold something of them."""

    wheres: tuple[PartitionPath, ...]
    bundles: tuple[KnownBundle, ...]
    size_bytes: int
    follows: bool = False
    """Whether it is a later part of a large partition, whose turn comes behind the earlier ones."""


def plan_seal(backlog: Backlog, catalog: Catalog, settings: SealSettings) -> list[SealBatch]:
    """Cut a backlog into batches of neighbouring partitions of about the same size."""
    sizes: dict[TopicIdPartition, int] = {}
    for held in backlog.bundles:
        for slice_ in held.bundle.slices:
            sizes[slice_.topic_partition] = sizes.get(slice_.topic_partition, 0) + slice_.length
    batches: list[SealBatch] = []
    wheres: list[PartitionPath] = []
    size = 0
    for topic_partition in sorted(sizes):
        where = path_of(catalog, topic_partition)
        if where is None or catalog[topic_partition[0]].deleted:
            continue
        if wheres and size + sizes[topic_partition] > settings.group_bytes:
            batches.append(SealBatch(tuple(wheres), backlog.bundles, size))
            wheres, size = [], 0
        if sizes[topic_partition] > settings.group_bytes:
            batches += _parts(where, backlog.bundles, settings.group_bytes)
            continue
        wheres.append(where)
        size += sizes[topic_partition]
    if wheres:
        batches.append(SealBatch(tuple(wheres), backlog.bundles, size))
    return batches


def _parts(
    where: PartitionPath, bundles: Sequence[KnownBundle], group_bytes: int
) -> Iterator[SealBatch]:
    """Cut one large partition into batches that are sealed one after the other."""
    some: list[KnownBundle] = []
    size, follows = 0, False
    for held in bundles:
        length = sum(one.length for one in slices_of(held, where.topic_partition))
        if some and size + length > group_bytes:
            yield SealBatch((where,), tuple(some), size, follows)
            some, size, follows = [], 0, True
        some.append(held)
        size += length
    if size:
        yield SealBatch((where,), tuple(some), size, follows)
