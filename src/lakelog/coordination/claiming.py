"""When a broker may claim a shard of groups that it should own.

    released                             at once
    held by nobody that is a member      at once: another run has its node id, or it has left
    held by a living member              no
    held by a dead member                when two looks, half a second apart, show the same cell;
                                         if it changed, its holder lives: not for three intervals
    held by a run that has fenced me     not for 60 s, then 240 s, then 600 s, unless it is released

The claim alone says who may write a shard, so none of this is needed for safety. It keeps two
brokers that each believe the other dead from taking the same shard from each other for ever:
clients of its groups would be sent to and fro and commit nothing.
"""

from enum import Enum, auto
from typing import NamedTuple

from lakelog.coordination.membership import View
from lakelog.coordination.shards import RELEASED, ClaimedShard

__all__ = ["LOOK_MS", "Claiming", "Verdict"]

LOOK_MS = 500
"""Between two looks at a shard that should be mine."""

BACK_OFFS_MS = (60_000, 240_000, 600_000)
_SILENT_INTERVALS = 3


class Verdict(Enum):
    """What to do about a shard that somebody holds."""

    TAKE = auto()
    WAIT = auto()
    LIST = auto()
    """Its holder is not known: look at the members, and ask again."""


class _Fenced(NamedTuple):
    """Who fenced this broker from a shard, and how often in a row."""

    run: bytes
    times: int
    until_ms: int


class _Sign(NamedTuple):
    """A look at a cell whose holder seems to be dead."""

    run: bytes
    epoch: int
    writes: int
    at_ms: int


class Claiming:
    """What one broker remembers of the shards that it may claim."""

    def __init__(self, interval_ms: int) -> None:
        self._interval_ms = interval_ms
        self._fenced: dict[int, _Fenced] = {}
        self._signs: dict[int, _Sign] = {}
        self._silent_from: dict[int, tuple[bytes, int]] = {}

    def judge(self, shard: ClaimedShard, view: View, *, looked_ms: int, now_ms: int) -> Verdict:
        """Say whether a shard may be taken that was looked at then, by a view of any time."""
        number, run = shard.shard, shard.claim.broker
        if run == RELEASED:
            return Verdict.TAKE
        holder = view.run_of(run)
        if holder is None:
            # Only a list that was begun after the look shows that there is no such member.
            return Verdict.TAKE if view.begun_ms >= looked_ms else Verdict.LIST
        if holder.node in view.living:
            self._signs.pop(number, None)
            return Verdict.WAIT
        return self._judge_dead(shard, looked_ms=looked_ms, now_ms=now_ms)

    def _judge_dead(self, shard: ClaimedShard, *, looked_ms: int, now_ms: int) -> Verdict:
        number, (run, epoch) = shard.shard, shard.claim
        last = self._signs.get(number)
        if last is None or last[:3] != (run, epoch, shard.writes):
            self._signs[number] = _Sign(run, epoch, shard.writes, looked_ms)
            if last is not None:
                # It was written since the last look: a sign of life.
                until_ms = now_ms + _SILENT_INTERVALS * self._interval_ms
                self._silent_from[number] = (run, until_ms)
            return Verdict.WAIT
        if self.is_left_to(number, run, now_ms) or looked_ms - last.at_ms < LOOK_MS:
            return Verdict.WAIT
        return Verdict.TAKE

    def is_left_to(self, shard: int, run: bytes, now_ms: int) -> bool:
        """Whether a run that seems dead has given a sign of life, and keeps a shard for now."""
        by, until_ms = self._silent_from.get(shard, (b"", 0))
        fenced = self._fenced.get(shard)
        return (by == run and now_ms < until_ms) or (
            fenced is not None and fenced.run == run and now_ms < fenced.until_ms
        )

    def fenced(self, shard: int, by: bytes, now_ms: int) -> None:
        """Note that another run has taken a shard from this broker."""
        before = self._fenced.get(shard)
        times = before.times + 1 if before is not None and before.run == by else 0
        delay_ms = BACK_OFFS_MS[min(times, len(BACK_OFFS_MS) - 1)]
        self._fenced[shard] = _Fenced(by, times, now_ms + delay_ms)

    def took(self, shard: int) -> None:
        """Note that this broker has a shard."""
        self._signs.pop(shard, None)
