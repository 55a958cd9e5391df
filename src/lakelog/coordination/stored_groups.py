"""Where groups are kept: each shard has a cell that says who may write it.

    claim   read -> broker = me, epoch + 1, writes = 0 -> put if it is still the one that was read
    save    writes + 1 -> put if it is still the one that I wrote last
              replaced    stored
              changed     mine, with this number of writes: an earlier try was stored and its answer
                          lost. Another's claim, or no cell at all: fenced, for good
              no answer   the same again; what is stored in the end is one of the two above
    look    is it still the one that I wrote last, or another one of mine?
    fence   moved = the number of a move -> nobody writes it any more; what is in it stays so
    fill    the same groups elsewhere, under a claim of whoever moves them, which is then released

The owner never reads before it writes: it knows what it wrote last, and the etag of it. So a save
is one request, and no second owner can slip in between, because taking the claim changes the cell.
A put of a former owner that is still on its way cannot land any more: what it wants to replace is
gone, and never comes back, because no two cells of a shard have the same epoch and writes.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from lakelog.coordination.shards import (
    RELEASED,
    SHARDS,
    SHARDS_MAX,
    UNCLAIMED,
    Claim,
    ClaimedShard,
    decode_shard,
    encode_shard,
    moved_away,
    taken_over,
)
from lakelog.errors import CorruptError, FencedError, InvalidInputError, NotFoundError
from lakelog.names import GROUPS_PREFIX, shard_named
from lakelog.store import (
    Replaced,
    Work,
    change_cell,
    delete,
    head,
    list_objects,
    put_if_match,
    read_cell,
)

__all__ = ["Groups", "Pulse", "drop_moved"]


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


class Groups(ABC):
    """Where one broker keeps groups: in the bucket, or in etcd (``keyed_groups``).

    What is so of both is here: a cell for each shard says who may write it.
    """

    rewrites: bool
    """Whether a save writes the whole shard."""
    group_bytes_max: int
    """Of one group: no larger one can be saved."""

    def __init__(self, broker: bytes, shards: int = SHARDS, move: int = 0) -> None:
        if len(broker) != 16 or not 1 <= shards <= SHARDS_MAX:
            what = f"broker {broker.hex()}, {shards} shards"
            raise InvalidInputError(f"{what}: use an id of 16 bytes, 1 to {SHARDS_MAX} shards")
        self._broker = broker
        self.shards = shards
        """How many a namespace gets that has none yet."""
        self.move = move
        """How often the groups of the namespace have been moved."""

    @abstractmethod
    def _key(self, shard: int) -> str:
        """Return the key of the cell that says whose a shard is."""

    @abstractmethod
    def _encode(self, held: ClaimedShard) -> bytes:
        """Return that cell."""

    @abstractmethod
    def _decode(self, data: bytes, shard: int) -> ClaimedShard:
        """Return what that cell says."""

    def read(self, shard: int) -> Work[ClaimedShard | None]:
        """Return a shard as it is stored, whoever has it; None: it was never claimed.

        Raises:
            UnavailableError: no answer; or it was moved.
        """
        found = yield from self.read_moved(shard)
        if found is not None and found.moved:
            raise moved_away(self._key(shard))
        return found

    def count(self) -> Work[int]:
        """Return how many shards there are. Each of them says so: one may be damaged.

        Raises:
            CorruptError: the first is damaged, and none of the others says it.
            UnavailableError: no answer; or they were moved.
        """
        try:
            first = yield from self.read(0)
        except CorruptError:
            for number in range(1, SHARDS):
                with suppress(CorruptError):
                    other = yield from self.read(number)
                    if other is not None:
                        return other.shards
            raise
        return self.shards if first is None else first.shards

    @abstractmethod
    def save(self, held: ClaimedShard, changed: Mapping[str, bytes | None]) -> Work[ClaimedShard]:
        """Store the groups that have changed, None for one that is gone.

        Raises:
            FencedError: another broker has the claim; stop.
            UnavailableError: no answer; it may be stored. Save the same again, and nothing else.
            InvalidInputError: it would be too large to be read again; nothing was stored.
        """

    def claim(
        self, shard: int, shards: int | None = None, former: Claim | None = None
    ) -> Work[ClaimedShard]:
        """Take a shard over, or make it, and return what is in it.

        Shard 0 is asked for first, without a number of shards: it tells how many there are. With
        a ``former`` claim it is taken from that alone. Who it was does not say enough: if the
        answer to a put is lost, its owner may have taken the shard back before it is looked at.

        Raises:
            FencedError: another took it over at the same time, and was later; or it is not the
                former claim that it has.
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
            if now.moved:
                raise moved_away(key)
            if now.claim.broker == self._broker:
                return None
            if former not in (None, now.claim):
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
        """Return whose a shard is, as its cell says; None: it was never claimed.

        Raises:
            UnavailableError: no answer; or it was moved, and so it is nobody's.
        """
        found = yield from self._find(shard)
        if found is not None and found.moved:
            raise moved_away(self._key(shard))
        return found

    def _find(self, shard: int) -> Work[ClaimedShard | None]:
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
        found = yield from self._find(held.shard)
        if found is None or found.claim != held.claim:
            raise taken_over(key)

    # ------------------------------------------------------------------------ moving all of them

    def fence(self, shard: int, shards: int, move: int) -> Work[ClaimedShard]:
        """Let nobody have a shard any more, and return what was in it last.

        One that was never claimed is made for it: a broker that is late must not make it.
        """

        def fenced(body: bytes | None) -> bytes | None:
            if body is None:
                gone = ClaimedShard(shard=shard, shards=shards, claim=Claim(RELEASED, 0))
            else:
                gone = self._decode(body, shard)
            if gone.moved:
                return None
            claim = Claim(RELEASED, gone.claim.epoch + 1)
            return self._encode(replace(gone, claim=claim, writes=0, moved=move))

        def is_fenced(body: bytes) -> bool:
            return self._decode(body, shard).moved > 0

        yield from change_cell(self._key(shard), fenced, is_fenced)
        found = yield from self.read_moved(shard)
        if found is None:
            raise NotFoundError(f"{self._key(shard)} was there a moment ago: restore it")
        return found

    def fill(self, shard: int, shards: int, groups: Mapping[str, bytes]) -> Work[None]:
        """Store a shard of groups that are moved here, unless an earlier run has done so.

        Whoever does this has the same id each time. It gives the shard up when all is there.
        """
        try:
            held = yield from self.claim(shard, shards, former=UNCLAIMED)
        except FencedError:
            return
        gone = {name: None for name in held.groups if name not in groups}
        new = {name: one for name, one in groups.items() if held.groups.get(name) != one}
        if gone or new:
            held = yield from self.save(held, {**gone, **new})
        yield from self.release(held)

    @abstractmethod
    def read_moved(self, shard: int) -> Work[ClaimedShard | None]:
        """Return a shard as it is stored, also if it was moved."""

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


def drop_moved(before: int) -> Work[None]:
    """Drop the groups of shards that were moved; the shards stay, as a fence."""
    for one in (yield from list_objects(GROUPS_PREFIX)):
        move, shard, rest = shard_named(one.key) or (before, 0, "")
        if move >= before:
            continue
        if rest:
            if rest != "claim":
                yield from delete(one.key)
            continue
        found = yield from read_cell(one.key)
        held = None if found is None else decode_shard(found.body, shard, one.key)
        if found is not None and held is not None and held.moved and held.groups:
            empty = encode_shard(replace(held, groups={}))
            yield from put_if_match(one.key, empty, found.info.etag)
