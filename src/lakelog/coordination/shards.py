"""Where groups are kept: shards, each under a claim.

    shard     crc32c(group id) % shards; how many there are is fixed when the first is made
    claim     the broker that may write a shard, and an epoch that rises with every new owner

To take a shard over is to raise its epoch. Whoever had it before learns of it with its next write:
that write does not happen, and ``FencedError`` says so. A broker that was asleep can therefore
change nothing, and so answers nothing that would not be true.

Whoever has lost a shard may have it again when its new owner has gone. So each broker gives signs
of life, its pulse; one that stays the same for long is of a broker that has died. Nothing depends
on that being right: it is the claim alone that says who may write.

A shard has one value for each group, which is not looked into here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from crc32c import crc32c

__all__ = [
    "SHARDS",
    "SHARDS_MAX",
    "SHARD_BYTES_MAX",
    "Claim",
    "ClaimedShard",
    "Pulse",
    "shard_of",
]

SHARDS = 8
"""Of a namespace that has none yet. More shards carry more groups and more commits."""

SHARDS_MAX = 100
"""The name of a shard has two digits."""

SHARD_BYTES_MAX = 12 << 20
"""Of the groups of one shard, as they are stored. Whoever fills a shard refuses what would make it
larger: a shard that cannot be read would lose everything, a refused commit loses nothing. What is
left up to the limit of a cell is for the claim: the id of another broker takes some bytes, too."""


class Claim(NamedTuple):
    """Who may write a shard."""

    broker: bytes
    """Sixteen bytes that name one run of one broker."""
    epoch: int


class Pulse(NamedTuple):
    """The last sign of life of a broker."""

    sign: str
    """Another one each time."""
    where: str
    """Where clients find it."""
    since_ms: int
    """When it began, by its own clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedShard:
    """A shard that is claimed, as its owner knows it."""

    shard: int
    shards: int
    claim: Claim
    writes: int = 0
    """Under this claim."""
    etag: str = ""
    groups: Mapping[str, bytes] = field(default_factory=dict, repr=False)

    def changed(self, groups: Mapping[str, bytes | None]) -> "ClaimedShard":
        """Return the shard after one more write, its etag aside."""
        left = {key: one for key, one in self.groups.items() if key not in groups}
        new = {key: one for key, one in groups.items() if one is not None}
        return replace(self, writes=self.writes + 1, groups={**left, **new})


def shard_of(group_id: str, shards: int) -> int:
    """Return the shard of a group."""
    return crc32c(group_id.encode(errors="surrogatepass")) % shards
