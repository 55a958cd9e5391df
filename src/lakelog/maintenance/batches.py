"""Which partitions are sealed together: neighbours, by bytes.

    backlog of a lane    a0 a1 | b0 b1 b2 b3 ... | c0 (first part) | c0 (second) | c1 d0 ...
                         each about ``group_bytes``; a partition that has more is cut

Neighbours in a directory are neighbours in the payload, so a group is one range of every bundle.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lakelog.journal import KnownBundle, TopicIdPartition, slices_of
from lakelog.maintenance.backlog import Backlog, Catalog, path_of
from lakelog.manifests import PartitionPath

__all__ = ["SealBatch", "SealSettings", "plan_seal"]


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
    """Cut a backlog into groups of neighbouring partitions of about the same size."""
    sizes: dict[TopicIdPartition, int] = {}
    for held in backlog.bundles:
        for slice_ in held.bundle.slices:
            sizes[slice_.place] = sizes.get(slice_.place, 0) + slice_.length
    groups: list[SealBatch] = []
    wheres: list[PartitionPath] = []
    size = 0
    for place in sorted(sizes):
        where = path_of(catalog, place)
        if where is None or catalog[place[0]].deleted:
            continue
        if wheres and size + sizes[place] > settings.group_bytes:
            groups.append(SealBatch(tuple(wheres), backlog.bundles, size))
            wheres, size = [], 0
        if sizes[place] > settings.group_bytes:
            groups += _parts(where, backlog.bundles, settings.group_bytes)
            continue
        wheres.append(where)
        size += sizes[place]
    if wheres:
        groups.append(SealBatch(tuple(wheres), backlog.bundles, size))
    return groups


def _parts(
    where: PartitionPath, bundles: Sequence[KnownBundle], group_bytes: int
) -> Iterator[SealBatch]:
    """Cut one large partition into groups that are sealed one after the other."""
    some: list[KnownBundle] = []
    size, follows = 0, False
    for held in bundles:
        length = sum(one.length for one in slices_of(held, where.place))
        if some and size + length > group_bytes:
            yield SealBatch((where,), tuple(some), size, follows)
            some, size, follows = [], 0, True
        some.append(held)
        size += length
    if size:
        yield SealBatch((where,), tuple(some), size, follows)
