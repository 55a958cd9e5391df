"""Groups in memory: for tests, and for a broker that may forget.

Several of these may share their shards, and then fence each other as brokers on a bucket do.
"""

from collections.abc import Mapping
from dataclasses import replace

from lakelog.coordination.contract import SHARDS, Claim, ClaimedShard, Pulse
from lakelog.errors import FencedError
from lakelog.store import Work

__all__ = ["MemoryGroups"]


class MemoryGroups:
    """The groups of one process."""

    def __init__(
        self,
        broker: bytes,
        shared: dict[int, ClaimedShard] | None = None,
        pulses: dict[bytes, Pulse] | None = None,
    ) -> None:
        self._broker = broker
        self._held = {} if shared is None else shared
        self._pulses = {} if pulses is None else pulses
        self._beats = 0

    def claim(
        self, shard: int, shards: int | None = None, former: bytes | None = None
    ) -> Work[ClaimedShard]:
        """Take a shard over.

        Raises:
            FencedError: somebody else than the former owner has it.
        """
        yield from ()
        before = self._held.get(shard)
        if None not in (before, former) and (yield from self.owner(shard)) not in (None, former):
            raise FencedError(f"shard {shard} of groups has another owner than before")
        claim = Claim(self._broker, 1 if before is None else before.claim.epoch + 1)
        if before is None:
            held = ClaimedShard(shard=shard, shards=shards or SHARDS, claim=claim)
        else:
            held = replace(before, claim=claim, writes=0)
        self._held[shard] = held
        return held

    def save(self, held: ClaimedShard, changed: Mapping[str, bytes | None]) -> Work[ClaimedShard]:
        """Store what has changed.

        Raises:
            FencedError: another has taken the shard over.
        """
        yield from self.look(held)
        self._held[held.shard] = held.changed(changed)
        return self._held[held.shard]

    def look(self, held: ClaimedShard) -> Work[None]:
        """See whether a shard is still held.

        Raises:
            FencedError: another has taken it over.
        """
        yield from ()
        if self._held[held.shard].claim != held.claim:
            raise FencedError(f"shard {held.shard} of groups has another owner: stop")

    def owner(self, shard: int) -> Work[bytes | None]:
        """Return the other broker that has a shard."""
        yield from ()
        broker = self._held[shard].claim.broker
        return None if broker == self._broker else broker

    def beat(self, where: str, since_ms: int) -> Work[None]:
        """Give a sign of life."""
        yield from ()
        self._beats += 1
        self._pulses[self._broker] = Pulse(str(self._beats), where, since_ms)

    def leave(self) -> Work[None]:
        """Say that this broker has gone."""
        yield from ()
        self._pulses.pop(self._broker, None)

    def pulse(self, broker: bytes) -> Work[Pulse | None]:
        """Return the last sign of life of a broker."""
        yield from ()
        return self._pulses.get(broker)
