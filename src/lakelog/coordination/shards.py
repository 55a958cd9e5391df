"""Where groups are kept: shards, each under a claim.

    shard     crc32c(group id) % shards; how many there are is fixed when the first is made
    claim     the broker that may write a shard, and an epoch that rises with every new owner

To take a shard over is to raise its epoch. Whoever had it before learns of it with its next write:
that write does not happen, and ``FencedError`` says so. A broker that was asleep can therefore
change nothing, and so answers nothing that would not be true.

Whoever has lost a shard may have it again when its new owner has gone. So each broker gives signs
of life, its pulse; one that stays the same for long is of a broker that has died. Nothing depends
on that being right: it is the claim alone that says who may write.

A shard is a cell of the namespace, changed only by compare-and-swap. It has one value for each
group:

    {"format":1,"shard":3,"shards":8,"broker":"…","epoch":4,"writes":17,"groups":[…]}

    claim   read -> broker = me, epoch + 1, writes = 0 -> put if it is still the one that was read
    save    writes + 1 -> put if it is still the one that I wrote last
              replaced    stored
              changed     mine, with this number of writes: an earlier try was stored and its answer
                          lost. Another's claim, or no cell at all: fenced, for good
              no answer   the same again; what is stored in the end is one of the two above
    look    is it still the one that I wrote last, or another one of mine?
    pulse   {"format":1,"broker":"…","where":"host:9092","since_ms":…,"beats":17}, a cell for each
            broker that runs, written again and again; it is deleted by who leaves in peace, and by
            who takes over from one that did not

The owner never reads before it writes: it knows what it wrote last, and the etag of it. So a save
is one request, and no second owner can slip in between, because taking the claim changes the cell.
A put of a former owner that is still on its way cannot land any more: what it wants to replace is
gone, and never comes back, because no two cells of a shard have the same epoch and writes.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from crc32c import crc32c

from lakelog.coordination.values import build_group, encode_group
from lakelog.errors import CorruptError, FencedError, InvalidInputError, NotFoundError
from lakelog.formats import decode_fields, decoding, number
from lakelog.names import group_shard_key, pulse_key
from lakelog.store import Replaced, Work, change_cell, delete, head, put_if_match, read_cell

__all__ = [
    "RELEASED",
    "SHARDS",
    "SHARDS_MAX",
    "SHARD_BYTES_MAX",
    "BucketGroups",
    "Claim",
    "ClaimedShard",
    "Groups",
    "Pulse",
    "claim_of",
    "decode_shard",
    "shard_of",
    "taken_over",
]

FORMAT = 1
_SHARD_FIELDS = frozenset({"shard", "shards", "broker", "epoch", "writes", "groups"})

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


class Pulse(NamedTuple):
    """The last sign of life of a broker."""

    sign: str
    """Another one each time."""
    where: str
    """Where clients find it."""
    since_ms: int
    """When it began, by its own clock."""
    modified_ms: int
    """When it was given, by the store's clock."""


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


class Groups(ABC):
    """Where one broker keeps groups: in the bucket, or in etcd (``keyed_groups``).

    What is so of both is here: a cell for each shard says who may write it.
    """

    rewrites: bool
    """Whether a save writes the whole shard."""
    group_bytes_max: int
    """Of one group: no larger one can be saved."""

    def __init__(self, broker: bytes, shards: int = SHARDS) -> None:
        if len(broker) != 16 or not 1 <= shards <= SHARDS_MAX:
            what = f"broker {broker.hex()}, {shards} shards"
            raise InvalidInputError(f"{what}: use an id of 16 bytes, 1 to {SHARDS_MAX} shards")
        self._broker = broker
        self.shards = shards
        """How many a namespace gets that has none yet."""

    @abstractmethod
    def _key(self, shard: int) -> str:
        """Return the key of the cell that says whose a shard is."""

    @abstractmethod
    def _encode(self, held: ClaimedShard) -> bytes:
        """Return that cell."""

    @abstractmethod
    def _decode(self, data: bytes, shard: int) -> ClaimedShard:
        """Return what that cell says."""

    @abstractmethod
    def read(self, shard: int) -> Work[ClaimedShard | None]:
        """Return a shard as it is stored, whoever has it; None: it was never claimed."""

    @abstractmethod
    def save(self, held: ClaimedShard, changed: Mapping[str, bytes | None]) -> Work[ClaimedShard]:
        """Store the groups that have changed, None for one that is gone.

        Raises:
            FencedError: another broker has the claim; stop.
            UnavailableError: no answer; it may be stored. Save the same again, and nothing else.
            InvalidInputError: it would be too large to be read again; nothing was stored.
        """

    def claim(
        self, shard: int, shards: int | None = None, former: bytes | None = None
    ) -> Work[ClaimedShard]:
        """Take a shard over, or make it, and return what is in it.

        Shard 0 is asked for first, without a number of shards: it tells how many there are. With
        a ``former`` owner it is taken from nobody else.

        Raises:
            FencedError: another took it over at the same time, and was later; or it is not the
                former owner who has it.
            UnavailableError: no answer; claim it again.
            CorruptError, UnsupportedError: it cannot be read; nothing was changed.
        """
        key = self._key(shard)
        dead: list[bytes] = []

        def taken(body: bytes | None) -> bytes | None:
            if body is None:
                first = Claim(self._broker, 1)
                made = ClaimedShard(shard=shard, shards=shards or self.shards, claim=first)
                return self._encode(made)
            now = self._decode(body, shard)
            if now.claim.broker == self._broker:
                return None
            if former not in (None, now.claim.broker):
                raise taken_over(key)
            dead[:] = [now.claim.broker]
            claim = Claim(self._broker, now.claim.epoch + 1)
            return self._encode(replace(now, claim=claim, writes=0))

        def is_mine(body: bytes) -> bool:
            return self._decode(body, shard).claim.broker == self._broker

        yield from change_cell(key, taken, is_mine)
        held = yield from self.read(shard)
        if held is None or held.claim.broker != self._broker:
            raise FencedError(f"{key}: another broker took it over just now: start this one again")
        if shard == 0 and dead:
            yield from self._tidy_up(dead[0])
        if shards not in (None, held.shards):
            what = f"it is one of {held.shards} shards, and not of {shards}"
            raise CorruptError(what, at=0, where=key)
        return held

    def release(self, held: ClaimedShard) -> Work[None]:
        """Give a shard up, so that whoever should own it may take it at once.

        Raises:
            FencedError: another broker has the claim already.
            UnavailableError: no answer; it may be released. Release it again.
        """
        key = self._key(held.shard)
        given_up = replace(held.changed({}), claim=Claim(RELEASED, held.claim.epoch))
        body = self._encode(given_up)
        if isinstance((yield from put_if_match(key, body, held.etag)), Replaced):
            return
        found = yield from read_cell(key)
        if found is None or found.body != body:
            raise taken_over(key)

    def holder(self, shard: int) -> Work[ClaimedShard | None]:
        """Return whose a shard is, as its cell says; None: it was never claimed."""
        found = yield from read_cell(self._key(shard))
        if found is None:
            return None
        return replace(self._decode(found.body, shard), etag=found.info.etag)

    def read_again(self, known: ClaimedShard) -> Work[ClaimedShard | None]:
        """Return a shard as it is stored, which costs little if it is the one that is known."""
        try:
            info = yield from head(self._key(known.shard))
        except NotFoundError:
            return None
        return known if info.etag == known.etag else (yield from self.read(known.shard))

    def look(self, held: ClaimedShard) -> Work[None]:
        """See whether the cell is still the one that was written last, or one of this claim.

        Raises:
            FencedError: another broker has the claim; stop.
        """
        key = self._key(held.shard)
        try:
            info = yield from head(key)
        except NotFoundError as error:
            raise taken_over(key) from error
        if info.etag == held.etag:
            return
        # A save of this owner may have landed meanwhile: whose it is stands in the cell.
        found = yield from self.holder(held.shard)
        if found is None or found.claim != held.claim:
            raise taken_over(key)

    # ------------------------------------------------------------------------ signs of life

    def beat(self, where: str, since_ms: int) -> Work[None]:
        """Give a sign of life, if anybody looks for one."""
        del where, since_ms
        yield from ()

    def leave(self) -> Work[None]:
        """Say that this broker has gone: nobody needs to wait until that is clear."""
        yield from ()

    def pulse(self, broker: bytes) -> Work[Pulse | None]:
        """Return the last sign of life of a broker; None: it has gone."""
        del broker
        yield from ()
        return None

    def _tidy_up(self, dead: bytes) -> Work[None]:
        """Take away what a former owner has left behind."""
        del dead
        yield from ()


class BucketGroups(Groups):
    """The groups of a namespace, for one broker."""

    rewrites = True
    group_bytes_max = SHARD_BYTES_MAX
    _beats = 0

    def _key(self, shard: int) -> str:
        return group_shard_key(shard)

    def _encode(self, held: ClaimedShard) -> bytes:
        return _encode(held)

    def _decode(self, data: bytes, shard: int) -> ClaimedShard:
        return decode_shard(data, shard)

    def read(self, shard: int) -> Work[ClaimedShard | None]:
        """Return a shard as it is stored: its cell says all of it."""
        return self.holder(shard)

    def save(self, held: ClaimedShard, changed: Mapping[str, bytes | None]) -> Work[ClaimedShard]:
        """Store the groups that have changed, with one put.

        Raises:
            FencedError: another broker has the claim; stop.
            InvalidInputError: it would be too large to be read again; nothing was stored.
        """
        key = group_shard_key(held.shard)
        after = held.changed(changed)
        body = _encode(after)
        if len(body) > SHARD_BYTES_MAX:
            what = f"{key} would have {len(body)} bytes"
            raise InvalidInputError(f"{what}: keep it below {SHARD_BYTES_MAX}, delete old groups")
        answer = yield from put_if_match(key, body, held.etag)
        if isinstance(answer, Replaced):
            return replace(after, etag=answer.etag)
        found = yield from read_cell(key)
        if found is None or found.body != body:
            raise taken_over(key)
        return replace(after, etag=found.info.etag)

    def beat(self, where: str, since_ms: int) -> Work[None]:
        """Give a sign of life."""
        self._beats += 1
        fields = {
            "format": FORMAT,
            "broker": self._broker.hex(),
            "where": where,
            "since_ms": since_ms,
            "beats": self._beats,
        }
        body = json.dumps(fields, separators=(",", ":")).encode()
        yield from change_cell(pulse_key(self._broker), lambda _: body, lambda now: now == body)

    def leave(self) -> Work[None]:
        """Say that this broker has gone: nobody needs to wait until that is clear."""
        yield from delete(pulse_key(self._broker))

    def pulse(self, broker: bytes) -> Work[Pulse | None]:
        """Return the last sign of life of a broker; None: it has gone.

        Raises:
            CorruptError: it is none.
        """
        key = pulse_key(broker)
        found = yield from read_cell(key)
        if found is None:
            return None
        with decoding("pulse", key):
            fields = decode_fields(found.body, format_=FORMAT, where=key, known=None)
            since_ms = number(fields["since_ms"])
            return Pulse(found.info.etag, str(fields["where"]), since_ms, found.info.modified_ms)

    def _tidy_up(self, dead: bytes) -> Work[None]:
        # If it lives it gives another sign of it soon; if not, nobody else would tidy up.
        yield from delete(pulse_key(dead))


def taken_over(key: str) -> FencedError:
    """Return what a broker is told that has lost a shard."""
    return FencedError(f"{key}: another broker has taken it over")


def _encode(held: ClaimedShard) -> bytes:
    broker, epoch = held.claim
    start = (
        f'{{"format":{FORMAT},"shard":{held.shard},"shards":{held.shards},'
        f'"broker":"{broker.hex()}","epoch":{epoch},"writes":{held.writes},"groups":['
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
    )
    if held.shard != shard or not shard < held.shards <= SHARDS_MAX or len(broker) != 16:
        what = f"it is shard {held.shard} of {held.shards}, of {broker.hex()!r}"
        raise CorruptError(what, at=0, where=where)
    return held


def decode_shard(data: bytes, shard: int) -> ClaimedShard:
    """Return a shard of groups; its etag is not in it.

    Raises:
        CorruptError: it is none, or another one.
        UnsupportedError: a later version made it.
    """
    where = group_shard_key(shard)
    with decoding("shard", where):
        fields = decode_fields(data, format_=FORMAT, where=where, known=_SHARD_FIELDS)
        held = claim_of(fields, shard, where)
        groups = [build_group(one, where) for one in fields["groups"]]
    names = {group.id for group in groups}
    if len(names) != len(groups) or any(shard_of(name, held.shards) != shard for name in names):
        what = "it has a group twice, or one of another shard"
        raise CorruptError(what, at=0, where=where)
    return replace(held, groups={group.id: encode_group(group) for group in groups})
