"""The mirror: groups that are in etcd are written to the bucket as well, by who holds them.

What has changed since the last time is looked for every half minute; a shard that has not costs no
request. If etcd is lost for good, ``lakelog meta restore`` finds them there.
"""

from lakelog.broker.held_shards import HeldShards
from lakelog.coordination import MIRROR_INTERVAL_MS, mirror_shard
from lakelog.errors import LakelogError
from lakelog.ports import Clock
from lakelog.store import PerformAsync, run_async, working_async

__all__ = ["MIRROR_S", "Mirror"]

MIRROR_S = MIRROR_INTERVAL_MS / 1000


class Mirror:
    """What one broker has mirrored."""

    def __init__(self, shards: HeldShards, perform: PerformAsync, clock: Clock, move: int) -> None:
        self._shards, self._clock, self._move = shards, clock, move
        self._perform = working_async(perform)
        self._done: dict[int, tuple[int, int]] = {}
        """The last write of each shard that is mirrored: its epoch and its number."""
        self._since_ms: dict[int, int] = {}
        """When each shard was last seen to be mirrored, of those that are here."""

    async def look(self) -> None:
        """Mirror the shards that have changed.

        Raises:
            LakelogError: some were not; those are tried again.
        """
        failed: LakelogError | None = None
        here = dict(self._shards.here())
        self._since_ms = {number: self._since_ms.get(number, self._now_ms()) for number in here}
        for number, shard in here.items():
            held, now_ms = shard.ledger.claimed, self._now_ms()
            try:
                if self._done.get(number) != (held.claim.epoch, held.writes):
                    await run_async(mirror_shard(held, self._move), self._perform)
            except LakelogError as error:
                failed = error
                continue
            self._done[number] = held.claim.epoch, held.writes
            self._since_ms[number] = now_ms
        if failed is not None:
            raise failed

    def age_ms(self) -> int:
        """Return how long ago the shard was mirrored that has waited longest."""
        now_ms = self._now_ms()
        return max((now_ms - since_ms for since_ms in self._since_ms.values()), default=0)

    def _now_ms(self) -> int:
        return self._clock.boot_ms()
