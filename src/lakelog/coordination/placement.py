"""Who should own what: rendezvous hashing with bounded loads.

Each lane (and each shard of groups) goes to the member with the highest score for it; a member
that has 1.25 times the mean of them already, or the mean where that is less than one more, is
passed over. Every member computes the same from the node ids that serve, and nothing is stored: a
broker that comes back under its node id gets its own lanes back. While there are as many lanes as
members, none is without one.

Scores are of node ids and not of runs: a restart moves nothing.
"""

import hashlib
import math
from collections.abc import Collection, Mapping
from functools import lru_cache
from types import MappingProxyType

__all__ = ["LOAD_MAX", "owners_of"]

LOAD_MAX = 1.25
"""Times the mean."""


def owners_of(nodes: Collection[int], count: int, kind: str) -> Mapping[int, int]:
    """Return the node id that should own each of ``count`` lanes, or shards, of a kind."""
    return _owners(tuple(sorted(nodes)), count, kind)


@lru_cache(maxsize=8)
def _owners(ordered: tuple[int, ...], count: int, kind: str) -> Mapping[int, int]:
    """The same, which is asked for again and again while members are the same."""
    if not ordered:
        return MappingProxyType({})
    mean = count / len(ordered)
    most = max(math.floor(LOAD_MAX * mean), math.ceil(mean))
    loads = [0] * len(ordered)
    owners: list[int] = []
    for row in zip(*(_scores(node, count, kind) for node in ordered), strict=True):
        best = row.index(max(row))
        if loads[best] >= most:
            open_ = (at for at in range(len(ordered)) if loads[at] < most)
            best = max(open_, key=row.__getitem__)
        loads[best] += 1
        owners.append(best)
    if count >= len(ordered):
        _give_to_the_idle(ordered, owners, loads, kind)
    return MappingProxyType({number: ordered[owner] for number, owner in enumerate(owners)})


def _give_to_the_idle(
    nodes: tuple[int, ...], owners: list[int], loads: list[int], kind: str
) -> None:
    """Give each member without a lane the one that it has the highest score for."""
    for idle in (at for at, load in enumerate(loads) if not load):
        scores = _scores(nodes[idle], len(owners), kind)
        spare = (number for number, owner in enumerate(owners) if loads[owner] > 1)
        number = max(spare, key=scores.__getitem__)
        loads[owners[number]] -= 1
        loads[idle] += 1
        owners[number] = idle


@lru_cache(maxsize=2048)
def _scores(node: int, count: int, kind: str) -> tuple[int, ...]:
    return tuple(
        int.from_bytes(hashlib.blake2b(f"{kind}/{number}/{node}".encode(), digest_size=8).digest())
        for number in range(count)
    )
