"""What must hold in a cluster, whatever happens. Each law is computed from what was seen alone.

nothing lost         an acknowledged record is there once, at the offset that was told
no commit goes back  neither in a shard's cell, nor in what a client is told
one leader           one epoch of a lane names one leader, whoever tells it
epochs never fall    what one run tells of a lane, and what one client believes
fresh                a redirect is told by a view that was begun after the request
dead by lists        nobody is dead by less than three lists, each an interval after the last
claims               no shard is claimed from a holder that the claimer sees alive
home                 in the end each lane and each shard is where the hash says
"""

from dataclasses import dataclass, field
from itertools import pairwise

from lakelog.coordination import DEAD_AFTER, RELEASED, ClaimedShard, Told, decode_group
from lakelog.testing.truth import Anomaly

__all__ = ["Laws"]


BEGUN_MAX = 200


@dataclass(slots=True)
class Laws:
    """Everything that was seen."""

    interval_ms: int
    acked: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Where each acknowledged batch is: lane, offset."""
    ends: dict[int, int] = field(default_factory=dict)
    """The end of each lane's partition, as far as it was acknowledged."""
    committed: dict[str, int] = field(default_factory=dict)
    leaders: dict[tuple[int, int], int] = field(default_factory=dict)
    told: dict[tuple[bytes, int], int] = field(default_factory=dict)
    """The highest epoch of a lane that each run has told."""
    cells: dict[int, ClaimedShard] = field(default_factory=dict)
    lists: dict[tuple[bytes, int], list[tuple[int, str]]] = field(default_factory=dict)
    """By observer and member: the lists that counted, with the beat that each showed."""
    begun: dict[bytes, list[int]] = field(default_factory=dict)
    """When each run has listed the members, lately."""

    def stored(self, number: int, lane: int, offset: int) -> None:
        """A producer was told that its batch stands there."""
        before = self.acked.setdefault(number, (lane, offset))
        if before != (lane, offset):
            raise Anomaly(f"moved: batch {number} was at {before}, and now at {(lane, offset)}")
        self.ends[lane] = max(self.ends.get(lane, 0), offset + 1)

    def leader(self, run: bytes, lane: int, told: Told | None) -> None:
        """A broker told a client who leads a lane."""
        if told is None:
            return
        first = self.leaders.setdefault((lane, told.epoch), told.node)
        if first != told.node:
            both = f"{first}'s and {told.node}'s"
            raise Anomaly(f"one leader: epoch {told.epoch} of lane {lane} is {both}")
        before = self.told.get((run, lane), -1)
        if told.epoch < before:
            raise Anomaly(f"epochs: lane {lane} was told {before}, and then {told.epoch}")
        self.told[run, lane] = told.epoch

    def redirect(self, asked_ms: int, begun_ms: int) -> None:
        """A broker sent a client elsewhere."""
        if begun_ms < asked_ms:
            raise Anomaly(f"fresh: a redirect of {begun_ms} for a request of {asked_ms}")

    def listed(self, run: bytes, begun_ms: int, beats: dict[int, str]) -> None:
        """A broker has listed the members."""
        begun = self.begun.setdefault(run, [])
        begun.append(begun_ms)
        del begun[:-BEGUN_MAX]
        for node, beat in beats.items():
            seen = self.lists.setdefault((run, node), [])
            if seen and seen[-1][1] == beat and begun_ms - seen[-1][0] < self.interval_ms - 50:
                continue
            seen.append((begun_ms, beat))
            del seen[: -DEAD_AFTER - 1]

    def died(self, run: bytes, node: int) -> None:
        """A broker thinks that another one is dead."""
        seen = self.lists.get((run, node), [])
        few = len(seen) <= DEAD_AFTER or len({beat for _, beat in seen}) > 1
        # Between two lists that count there may be one that was made for another reason.
        since = [one for one in self.begun.get(run, []) if seen and one >= seen[0][0]]
        gaps = [later - first for first, later in pairwise(since)]
        # Lists are late when the store is; a pause of two intervals means that one must count anew.
        if few or any(gap > 2 * self.interval_ms + 1_000 for gap in gaps):
            raise Anomaly(f"dead by lists: {node} is dead to {run.hex()[-4:]} by {seen}")

    def shard(self, now: ClaimedShard, holder_lives: bool) -> None:
        """A shard was written."""
        before = self.cells.get(now.shard)
        self.cells[now.shard] = now
        if before is None:
            return
        runs = {before.claim.broker, now.claim.broker}
        if len(runs) > 1 and RELEASED not in runs and holder_lives:
            raise Anomaly(f"claims: shard {now.shard} was taken from a living holder")
        old, new = _offsets(before), _offsets(now)
        for group, offset in old.items():
            if new.get(group, -1) < offset:
                what = f"{group} was at {offset}, and is at {new.get(group)}"
                raise Anomaly(f"commit went back: shard {now.shard}: {what}")

    def committed_is(self, group: str, asked: int, found: int) -> None:
        """A client was told a committed offset; it had been ``asked`` or more when it asked."""
        if found < asked:
            raise Anomaly(f"commit went back: {group} is told {found}, {asked} was acknowledged")

    def end_is(self, lane: int, asked: int, found: int) -> None:
        """A client was told the end of a partition."""
        if found < asked:
            raise Anomaly(f"old view: lane {lane} ends at {found}, {asked} was acknowledged")


def _offsets(shard: ClaimedShard) -> dict[str, int]:
    found: dict[str, int] = {}
    for name, body in shard.groups.items():
        rows = decode_group(body, name).offsets.rows.values()
        found[name] = max((row.offset for row in rows), default=-1)
    return found
