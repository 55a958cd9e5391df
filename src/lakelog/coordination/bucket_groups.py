"""Groups in the bucket: a shard is one cell, changed only by compare-and-swap.

Whoever has lost a shard may have it again when its new owner has gone. Brokers of version 0.1.0
give signs of life for that, their pulse; one that stays the same for long is of a broker that has
died. Nothing depends on that being right: it is the claim alone that says who may write.

    pulse   {"format":1,"broker":"…","where":"host:9092","since_ms":…,"beats":17}, a cell for each
            broker that runs, written again and again; it is deleted by who leaves in peace, and by
            who takes over from one that did not
"""

import json
from collections.abc import Mapping
from dataclasses import replace

from lakelog.coordination.shards import (
    FORMAT,
    SHARD_BYTES_MAX,
    ClaimedShard,
    decode_shard,
    encode_shard,
    taken_over,
)
from lakelog.coordination.stored_groups import Groups, Pulse
from lakelog.errors import InvalidInputError
from lakelog.formats import decode_fields, decoding, number
from lakelog.names import group_shard_key, pulse_key
from lakelog.store import Replaced, Work, change_cell, delete, put_if_match, read_cell

__all__ = ["BucketGroups"]


class BucketGroups(Groups):
    """The groups of a namespace, for one broker."""

    rewrites = True
    group_bytes_max = SHARD_BYTES_MAX
    _beats = 0

    def _key(self, shard: int) -> str:
        return group_shard_key(shard, self.move)

    def _encode(self, held: ClaimedShard) -> bytes:
        return encode_shard(held)

    def _decode(self, data: bytes, shard: int) -> ClaimedShard:
        return decode_shard(data, shard, self._key(shard))

    def read_moved(self, shard: int) -> Work[ClaimedShard | None]:
        """Return a shard as it is stored, also if it was moved: its cell says all of it."""
        return self._find(shard)

    def save(self, held: ClaimedShard, changed: Mapping[str, bytes | None]) -> Work[ClaimedShard]:
        """Store the groups that have changed, with one put.

        Raises:
            FencedError: another broker has the claim; stop.
            InvalidInputError: it would be too large to be read again; nothing was stored.
        """
        key = self._key(held.shard)
        after = held.changed(changed)
        body = encode_shard(after)
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
