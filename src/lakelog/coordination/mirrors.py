"""The mirror: groups that are in etcd, written to the bucket as well, now and then.

    _lakelog/mirror/{move}/{shard:02}    a shard, in the format of shards of the bucket

Its holder writes it. A mirror is replaced by a later one only: by the epoch of the claim, then by
the number of writes under it. If etcd is lost for good, groups and offsets are as they were when
they were mirrored last.
"""

from typing import NamedTuple

from lakelog.coordination.shards import ClaimedShard, decode_shard, encode_shard
from lakelog.errors import CorruptError
from lakelog.names import MIRROR_PREFIX, mirror_key
from lakelog.store import CELL_BYTES_MAX, Get, Work, change_cell, delete, fetch_many, list_objects

__all__ = ["MIRROR_INTERVAL_MS", "Mirrored", "drop_mirrors", "mirror_shard", "read_mirror"]

MIRROR_INTERVAL_MS = 30_000
"""From one look at what has changed to the next. With the time that a put takes, what is not in the
mirror is less than a minute old."""


class Mirrored(NamedTuple):
    """A shard as it was."""

    shard: ClaimedShard
    at_ms: int
    """When it was written, by the store's clock."""


def mirror_shard(held: ClaimedShard, move: int) -> Work[None]:
    """Write a shard to the bucket, unless a later one stands there.

    Raises:
        InvalidInputError: it is too large.
        UnsupportedError: a later version wrote what stands there.
        UnavailableError: no answer; it may be written.
    """
    key, body = mirror_key(held.shard, move), encode_shard(held)

    def later(now: bytes | None) -> bytes | None:
        try:
            is_late = now is not None and _age(decode_shard(now, held.shard, key)) >= _age(held)
        except CorruptError:
            is_late = False  # What cannot be read is of no use to anybody.
        return None if is_late else body

    yield from change_cell(key, later, lambda now: now == body)


def _age(held: ClaimedShard) -> tuple[int, int]:
    return held.claim.epoch, held.writes


def read_mirror(move: int) -> Work[dict[int, Mirrored]]:
    """Return every shard that was mirrored since a move.

    Raises:
        CorruptError, UnsupportedError: one cannot be read.
    """
    prefix = f"{MIRROR_PREFIX}{move}/"
    keys = [one.key for one in (yield from list_objects(prefix))]
    found = yield from fetch_many([Get(key, CELL_BYTES_MAX) for key in keys])
    shards: dict[int, Mirrored] = {}
    for key, one in zip(keys, found, strict=True):
        number = key.removeprefix(prefix)
        if one is not None and number.isdecimal():
            shard = decode_shard(one.body, int(number), key)
            shards[shard.shard] = Mirrored(shard, one.info.modified_ms)
    return shards


def drop_mirrors(before: int) -> Work[None]:
    """Delete what was mirrored before a move: it is of no use any more."""
    for one in (yield from list_objects(MIRROR_PREFIX)):
        move, _, _ = one.key.removeprefix(MIRROR_PREFIX).partition("/")
        if move.isdecimal() and int(move) < before:
            yield from delete(one.key)
