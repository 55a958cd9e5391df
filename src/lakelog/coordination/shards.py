"""Shards of consumer groups: what is stored of each, and who may write it.

    shard     crc32c(group id) % shards; how many there are is fixed when the first is made
    claim     the broker that may write a shard, and an epoch that rises with every new owner

To take a shard over is to raise its epoch. Whoever had it before learns of it with its next write:
that write does not happen, and ``FencedError`` says so. A broker that was asleep can therefore
change nothing, and so answers nothing that would not be true.

In the bucket a shard is a cell, with one value for each group:

    {"format":1,"shard":3,"shards":8,"broker":"…","epoch":4,"writes":17,"groups":[…]}

All shards can be moved: to etcd, back, or to another number of them (``catalog.moves``). From the
first move on they have other names. A shard that was moved away says so for ever (``"moved":1``),
and nobody may have it any more.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from crc32c import crc32c

from lakelog.coordination.values import build_group, encode_group
from lakelog.errors import CorruptError, FencedError, UnavailableError
from lakelog.formats import decode_fields, decoding, number
from lakelog.names import group_shard_key

__all__ = [
    "RELEASED",
    "SHARDS",
    "SHARDS_MAX",
    "SHARD_BYTES_MAX",
    "UNCLAIMED",
    "Claim",
    "ClaimedShard",
    "claim_of",
    "decode_shard",
    "encode_shard",
    "moved_away",
    "shard_of",
    "taken_over",
]

FORMAT = 1
_SHARD_FIELDS = frozenset({"shard", "shards", "broker", "epoch", "writes", "moved", "groups"})

SHARDS = 8
"""Of a namespace that has none yet. More shards carry more groups and more commits."""

SHARDS_MAX = 100
"""The name of a shard has two digits."""

SHARD_BYTES_MAX = 12 << 20
"""Of the groups of one shard, as they are stored. Whoever fills a shard refuses what would make it
larger: a shard that cannot be read would lose everything, a refused commit loses nothing. What is
left up to the limit of a cell is for the claim: the id of another broker takes some bytes, too."""


RELEASED = bytes(16)
"""The run in a claim that its holder has given up."""


class Claim(NamedTuple):
    """Who may write a shard."""

    broker: bytes
    """Sixteen bytes that name one run of one broker."""
    epoch: int


UNCLAIMED = Claim(RELEASED, 0)
"""Of a shard that is not there yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedShard:
    """A shard that is claimed, as its owner knows it."""

    shard: int
    shards: int
    claim: Claim
    writes: int = 0
    """Under this claim."""
    moved: int = 0
    """The number of the move that took its groups elsewhere; 0: they are here."""
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


def taken_over(key: str) -> FencedError:
    """Return what a broker is told that has lost a shard."""
    return FencedError(f"{key}: another broker has taken it over")


def moved_away(key: str) -> UnavailableError:
    """Return what is told of a shard that was moved."""
    return UnavailableError(f"{key}: all consumer groups are being moved, or have been: retry soon")


def encode_shard(held: ClaimedShard) -> bytes:
    """Return a shard of groups, as it is stored."""
    broker, epoch = held.claim
    moved = f'"moved":{held.moved},' if held.moved else ""
    start = (
        f'{{"format":{FORMAT},"shard":{held.shard},"shards":{held.shards},'
        f'"broker":"{broker.hex()}","epoch":{epoch},"writes":{held.writes},{moved}"groups":['
    )
    return b"".join((start.encode(), b",\n".join(held.groups.values()), b"]}"))


def claim_of(fields: Mapping[str, Any], shard: int, where: str) -> ClaimedShard:
    """Return whose a shard is, by the fields of its cell.

    Raises:
        CorruptError: it is the cell of another shard, or of nobody.
    """
    broker = bytes.fromhex(fields["broker"])
    held = ClaimedShard(
        shard=number(fields["shard"]),
        shards=number(fields["shards"]),
        claim=Claim(broker, number(fields["epoch"])),
        writes=number(fields["writes"]),
        moved=number(fields.get("moved", 0)),
    )
    if held.shard != shard or not shard < held.shards <= SHARDS_MAX or len(broker) != 16:
        what = f"it is shard {held.shard} of {held.shards}, of {broker.hex()!r}"
        raise CorruptError(what, at=0, where=where)
    return held


def decode_shard(data: bytes, shard: int, where: str = "") -> ClaimedShard:
    """Return a shard of groups; its etag is not in it.

    Raises:
        CorruptError: it is none, or another one.
        UnsupportedError: a later version made it.
    """
    where = where or group_shard_key(shard)
    with decoding("shard", where):
        fields = decode_fields(data, format_=FORMAT, where=where, known=_SHARD_FIELDS)
        held = claim_of(fields, shard, where)
        groups = [build_group(one, where) for one in fields["groups"]]
    names = {group.id for group in groups}
    if len(names) != len(groups) or any(shard_of(name, held.shards) != shard for name in names):
        what = "it has a group twice, or one of another shard"
        raise CorruptError(what, at=0, where=where)
    return replace(held, groups={group.id: encode_group(group) for group in groups})
