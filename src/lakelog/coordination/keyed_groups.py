"""Groups with a key for each: for etcd, where a commit is a small transaction.

    _lakelog/groups/03/claim   {"format":1,"shard":3,"shards":8,"broker":"…","epoch":4,"writes":17}
    _lakelog/groups/03/9f86d…  a group, as it stands in a shard of the bucket

    claim   as in the bucket (``stored_groups``), but of the claim's cell alone; the groups are read
            then
    save    writes + 1, and the groups that have changed, all or nothing: put together with the
            claim, if that is still the one that I wrote last
    look    is the claim still the one that I wrote last, or another one of mine?

The owner changes the claim with every save, so that a save of its own whose answer was lost, and
which is still on its way, cannot land behind a later one.

etcd takes so many changes at once, and so many bytes. A save of more is several transactions, each
with the next number of writes. Its groups are independent, and none is acknowledged before all are
stored. Whoever saves the same again finds by the number how many of them are stored.

No broker of version 0.1.0 opens a namespace with etcd: nobody looks for signs of life here.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace

from lakelog.coordination.bucket_groups import BucketGroups
from lakelog.coordination.shards import (
    FORMAT,
    SHARDS,
    ClaimedShard,
    claim_of,
    shard_of,
    taken_over,
)
from lakelog.coordination.stored_groups import Groups
from lakelog.coordination.values import decode_group
from lakelog.errors import CorruptError, InvalidInputError
from lakelog.formats import decode_fields, decoding
from lakelog.names import claim_key, group_key, group_prefix
from lakelog.store import (
    ETCD_BYTES_MAX,
    ETCD_CHANGES_MAX,
    Get,
    Replaced,
    Work,
    fetch_many,
    list_objects,
    put_together,
)

__all__ = ["GROUP_BYTES_MAX", "KeyedGroups", "decode_claim", "encode_claim", "groups_in"]

GROUP_BYTES_MAX = ETCD_BYTES_MAX - 4096
"""Of one group: with its claim it is one request."""

_FIELDS = frozenset({"shard", "shards", "broker", "epoch", "writes", "moved"})

_Changes = tuple[tuple[str, bytes | None], ...]


class KeyedGroups(Groups):
    """The groups of a namespace, for one broker."""

    rewrites = False
    group_bytes_max = GROUP_BYTES_MAX

    def _key(self, shard: int) -> str:
        return claim_key(shard, self.move)

    def _encode(self, held: ClaimedShard) -> bytes:
        return encode_claim(held)

    def _decode(self, data: bytes, shard: int) -> ClaimedShard:
        return decode_claim(data, shard, self._key(shard))

    def save(self, held: ClaimedShard, changed: Mapping[str, bytes | None]) -> Work[ClaimedShard]:
        """Store the groups that have changed, None for one that is gone.

        Raises:
            FencedError: another broker has the claim; stop.
            UnavailableError: no answer; it may be stored. Save the same again, and nothing else.
            InvalidInputError: a group is too large; nothing was stored.
        """
        key, parts = self._key(held.shard), list(self._parts(held.shard, changed))
        now, done = held, 0
        while done < len(parts):
            after = replace(now, writes=now.writes + 1)
            answer = yield from put_together(key, encode_claim(after), now.etag, parts[done])
            if isinstance(answer, Replaced):
                now, done = replace(after, etag=answer.etag), done + 1
                continue
            # Another's, or one of this very save, whose answer was lost.
            found = yield from self._find(held.shard)
            if found is None or found.claim != held.claim:
                raise taken_over(key)
            done, before = found.writes - held.writes, done
            if not before < done <= len(parts):
                raise taken_over(key)
            now = replace(now, writes=found.writes, etag=found.etag)
        return replace(held.changed(changed), writes=now.writes, etag=now.etag)

    def read_moved(self, shard: int) -> Work[ClaimedShard | None]:
        """Return a shard as it is stored, whoever has it; None: it was never claimed.

        What changes while it is read is read as it was or as it is. The claim is read first: by its
        etag the next look finds out.
        """
        held = yield from self._find(shard)
        if held is None:
            return None
        listed = yield from list_objects(group_prefix(shard, self.move))
        keys = [one.key for one in listed if one.key != self._key(shard)]
        found = yield from fetch_many([Get(key, ETCD_BYTES_MAX) for key in keys])
        groups: dict[str, bytes] = {}
        for key, one in zip(keys, found, strict=True):
            if one is not None:
                name = decode_group(one.body, key).id
                if key != group_key(shard, name, self.move) or shard_of(name, held.shards) != shard:
                    raise CorruptError(f"it is the group {name!r}", at=0, where=key)
                groups[name] = one.body
        return replace(held, groups=groups)

    def _parts(self, shard: int, changed: Mapping[str, bytes | None]) -> Iterator[_Changes]:
        """Yield what is put together, the same for the same changes; once if there are none."""
        part: list[tuple[str, bytes | None]] = []
        size = 0
        named = sorted((group_key(shard, name, self.move), name) for name in changed)
        for key, name in named:
            body = changed[name]
            more = 0 if body is None else len(body)
            if more > GROUP_BYTES_MAX:
                raise InvalidInputError(
                    f"the group {name!r} would have {more} bytes, and etcd takes "
                    f"{GROUP_BYTES_MAX}: commit fewer partitions, or less metadata"
                )
            if part and (len(part) >= ETCD_CHANGES_MAX - 1 or size + more > GROUP_BYTES_MAX):
                yield tuple(part)
                part, size = [], 0
            part.append((key, body))
            size += more
        yield tuple(part)


def groups_in(metadata: str, broker: bytes, shards: int = SHARDS, move: int = 0) -> Groups:
    """Return where one broker keeps groups, by what a namespace says of its metadata."""
    kind = BucketGroups if metadata == "bucket" else KeyedGroups
    return kind(broker, shards, move)


def encode_claim(held: ClaimedShard) -> bytes:
    """Return who has a shard, as it is stored."""
    broker, epoch = held.claim
    fields = {
        "format": FORMAT,
        "shard": held.shard,
        "shards": held.shards,
        "broker": broker.hex(),
        "epoch": epoch,
        "writes": held.writes,
    }
    if held.moved:
        fields["moved"] = held.moved
    return json.dumps(fields, separators=(",", ":")).encode()


def decode_claim(data: bytes, shard: int, where: str) -> ClaimedShard:
    """Return who has a shard; its etag is not in it.

    Raises:
        CorruptError: it is no claim, or one of another shard.
        UnsupportedError: a later version made it.
    """
    with decoding("claim", where):
        fields = decode_fields(data, format_=FORMAT, where=where, known=_FIELDS)
        return claim_of(fields, shard, where)
