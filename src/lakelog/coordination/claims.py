"""Claiming shards: one try at a time, by the rules of ``claiming``.

claim        a shard that this broker should own and may take: it is taken. None: not yet
release      one that is here, and should not be
doubt        a claim or a release without an answer may have been stored: the shard is looked at
             until that is clear, and given up if it should not be here. Nobody else would do it:
             its holder lives
fenced       another run has taken one from this broker: remember which
coordinator  whom to send clients of a shard to: its holder if that lives; who should own it, if
             nobody holds it or that is this broker; else nobody yet

Brokers of version 0.1.0 are no members. They give signs of life of their own (``shards``), and take
from whoever gives none. So a claim of a run that is no member is taken when its signs have stopped;
and whoever has seen such a sign gives its own, until it is started again (``sees_pulses``).
"""

from typing import TypeVar

from lakelog.coordination.claiming import Claiming, Verdict
from lakelog.coordination.node import Node
from lakelog.coordination.shards import RELEASED, UNCLAIMED, ClaimedShard
from lakelog.coordination.stored_groups import Groups
from lakelog.errors import FencedError, LakelogError
from lakelog.ports import Clock
from lakelog.store import Work

__all__ = ["ShardClaims"]

T = TypeVar("T")

UNSURE_MS = 60_000
"""A put that was not seen by then is not stored any more."""

SILENT_MS = 30_000
"""A broker of version 0.1.0 gives a sign every ten seconds."""


class ShardClaims:
    """The claims of one run of a broker."""

    def __init__(self, store: Groups, node: Node, clock: Clock, interval_ms: int) -> None:
        self._store, self._node, self._clock = store, node, clock
        self._claiming = Claiming(interval_ms)
        self._pulses: dict[bytes, tuple[str, int]] = {}
        """The last sign of each run that is no member, and when it was seen first."""
        self._unsure: dict[int, int] = {}
        """Shards that this broker may have claimed, and since when it does not know."""
        self._elsewhere: set[int] = set()
        """Shards that others hold which live, when they were looked at last."""

    @property
    def sees_pulses(self) -> bool:
        """Whether a broker of version 0.1.0 was seen."""
        return bool(self._pulses)

    def is_mine(self, shard: int, shards: int) -> bool:
        """Whether this broker should own a shard."""
        node = self._node
        return node.serves and node.shard_owner(shard, shards) == node.member.node

    def is_due(self, shard: int, shards: int) -> bool:
        """Whether a shard that is not here is to be claimed, or looked at."""
        return shard in self._unsure or self.is_mine(shard, shards)

    def claim(self, shard: int, shards: int) -> Work[ClaimedShard | None]:
        """Take a shard if this broker should own it, and may; None: not now.

        Raises:
            FencedError: another broker took it at the same time.
            UnavailableError: no answer; try again.
            CorruptError, UnsupportedError: it cannot be read; nothing was changed.
        """
        looked_ms = self._clock.boot_ms()
        found = yield from self._store.holder(shard)
        if not self.is_mine(shard, shards):
            yield from self._settle(found, shard, looked_ms)
            return None
        claim = UNCLAIMED if found is None else found.claim
        former = claim.broker
        self._elsewhere.discard(shard)
        if found is not None and former != self._node.member.run:
            verdict = self._judge(found, looked_ms)
            if verdict is Verdict.LIST:
                yield from self._node.look(looked_ms)
                verdict = self._judge(found, looked_ms)
            if verdict is not Verdict.TAKE:
                self._note_holder(shard, former)
                return None
            is_member = former == RELEASED or self._node.view.run_of(former) is not None
            if not is_member and not (yield from self._is_gone(former)):
                self._elsewhere.add(shard)
                return None
        if not self.is_mine(shard, shards):
            return None
        held = yield from self._surely(shard, self._store.claim(shard, shards, claim))
        self._claiming.took(shard)
        return held

    def is_elsewhere(self, shard: int, shards: int) -> bool:
        """Whether another broker coordinates a shard, as far as was seen; if not, it comes here."""
        return shard in self._elsewhere or not self.is_mine(shard, shards)

    def _note_holder(self, shard: int, run: bytes) -> None:
        holder = self._node.view.run_of(run)
        if holder is not None and holder.node in self._node.view.living:
            self._elsewhere.add(shard)

    def release(self, held: ClaimedShard) -> Work[None]:
        """Give a shard up.

        Raises:
            FencedError: another broker has the claim already.
            UnavailableError: no answer; it is looked at until it is released.
        """
        yield from self._surely(held.shard, self._store.release(held))

    def doubt(self, shard: int) -> None:
        """Note that this broker may have the claim to a shard which it does not use any more."""
        self._unsure[shard] = self._clock.boot_ms()

    def _surely(self, shard: int, flow: Work[T]) -> Work[T]:
        """Run a flow that changes a claim; without an answer it is not known whose that is."""
        self.doubt(shard)
        try:
            done = yield from flow
        except FencedError:
            del self._unsure[shard]
            raise
        del self._unsure[shard]
        return done

    def _settle(self, found: ClaimedShard | None, shard: int, looked_ms: int) -> Work[None]:
        """Give a shard up that this broker has the claim to, and should not have."""
        if found is not None and found.claim.broker == self._node.member.run:
            yield from self._store.release(found)
            self._unsure.pop(shard, None)
        elif looked_ms - self._unsure.get(shard, looked_ms) >= UNSURE_MS:
            del self._unsure[shard]

    def _is_gone(self, run: bytes) -> Work[bool]:
        """Whether a run that is no member has stopped giving signs of life."""
        pulse = yield from self._store.pulse(run)
        if pulse is None or self._clock.now_ms() - pulse.modified_ms >= 2 * SILENT_MS:
            return True
        now_ms = self._clock.boot_ms()
        sign, seen_ms = self._pulses.get(run, ("", 0))
        if sign != pulse.sign:
            self._pulses[run] = (pulse.sign, now_ms)
            return False
        return now_ms - seen_ms >= SILENT_MS

    def _judge(self, found: ClaimedShard, looked_ms: int) -> Verdict:
        now_ms = self._clock.boot_ms()
        return self._claiming.judge(found, self._node.view, looked_ms=looked_ms, now_ms=now_ms)

    def fenced(self, shard: int) -> Work[None]:
        """Remember who has taken a shard from this broker, if the store tells."""
        try:
            found = yield from self._store.holder(shard)
        except LakelogError:
            return
        if found is None:
            return
        if found.claim.broker == self._node.member.run:
            self.doubt(shard)  # It is this broker's after all, and nobody else would give it up.
        else:
            self._claiming.fenced(shard, found.claim.broker, self._clock.boot_ms())

    def coordinator(self, shard: int, shards: int) -> Work[int | None]:
        """Return the node id that coordinates a shard which is not here; None: nobody does.

        Raises:
            UnavailableError: no answer.
        """
        node, asked_ms = self._node, self._clock.boot_ms()
        found = yield from self._store.holder(shard)
        holder = None if found is None else node.view.run_of(found.claim.broker)
        if holder is None or holder.node == node.member.node:
            # Nobody has it: whoever should own it knows that by now, and so must this broker.
            yield from node.look(asked_ms)
            return node.shard_owner(shard, shards)
        if holder.node in node.view.living:
            return holder.node
        # It seems dead. Of another broker it is not known whether it has seen that, and will take
        # the shard: it is named when it has.
        if node.shard_owner(shard, shards) != node.member.node:
            return None
        is_left = self._claiming.is_left_to(shard, holder.run, asked_ms)
        return holder.node if is_left else node.member.node
