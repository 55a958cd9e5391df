"""Where groups are kept: shards, each under a claim.

    shard     crc32c(group id) % shards; how many there are is fixed when the first is made
    claim     the broker that may write a shard, and an epoch that rises with every new owner

To take a shard over is to raise its epoch. Whoever had it before learns of it with its next write:
that write does not happen, and ``FencedError`` says so. A broker that was asleep can therefore
change nothing, and so answers nothing that would not be true.

Whoever has lost a shard may have it again when its new owner has gone. So each broker gives signs
of life, its pulse; one that stays the same for long is of a broker that has died. Nothing depends
on that being right: it is the claim alone that says who may write.

A store keeps one value for each group and does not look into it. ``save`` names the groups that
have changed; a bucket writes the whole shard all the same, another store need not.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

from crc32c import crc32c

from lakelog.store import Work

__all__ = [
    "SHARDS",
    "SHARDS_MAX",
    "SHARD_BYTES_MAX",
    "Claim",
    "ClaimedShard",
    "GroupStore",
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
left up to the limit of a cell is for whoever claims a full one: his name takes some bytes, too."""


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


class GroupStore(Protocol):
    """Keeps groups."""

    def claim(
        self, shard: int, shards: int | None = None, former: bytes | None = None
    ) -> Work[ClaimedShard]:
        """Take a shard over, or make it, and return what is in it.

        Shard 0 is asked for first, without a number of shards: it tells how many there are. With
        a ``former`` owner it is taken from nobody else.

        Raises:
            FencedError: somebody else than the former owner has it.
            UnavailableError: no answer; claim it again.
            CorruptError, UnsupportedError: it cannot be read.
        """
        ...

    def save(self, held: ClaimedShard, changed: Mapping[str, bytes | None]) -> Work[ClaimedShard]:
        """Store the groups that have changed, None for one that is gone.

        Raises:
            FencedError: another broker has the claim; stop.
            UnavailableError: no answer; it may be stored. Save the same again, and nothing else.
        """
        ...

    def look(self, held: ClaimedShard) -> Work[None]:
        """See whether a shard is still held, without writing.

        Raises:
            FencedError: another broker has the claim; stop.
        """
        ...

    def owner(self, shard: int) -> Work[bytes | None]:
        """Return the other broker that has the claim; None: nobody, or this one."""
        ...

    def beat(self, where: str, since_ms: int) -> Work[None]:
        """Give a sign of life."""
        ...

    def leave(self) -> Work[None]:
        """Say that this broker has gone: nobody needs to wait until that is clear."""
        ...

    def pulse(self, broker: bytes) -> Work[Pulse | None]:
        """Return the last sign of life of a broker; None: it has gone."""
        ...


def shard_of(group_id: str, shards: int) -> int:
    """Return the shard of a group."""
    return crc32c(group_id.encode(errors="surrogatepass")) % shards
