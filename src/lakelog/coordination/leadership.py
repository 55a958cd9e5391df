"""Which lanes this broker leads, and what it tells clients of the others.

    should lead   the hash says so (``placement``), of the members that serve
    leads         it has stored an empty bundle, so that the lane's count of writers rose: that
                  count is the leader epoch
    is told       the living member that *announces* the highest epoch of a lane. Nobody is, while a
                  higher one has been seen of anybody: whoever announced it led last, and no client
                  must be told a lower epoch than it has seen

A leader goes on until it sees a higher epoch announced, whatever the hash says: until then there
is nobody else to send clients to. One that should lead and sees another's epoch at or above its own
takes the lane again. What a broker tells of itself is what its stored object says, and never what
it is about to say: clients of another broker may be told otherwise meanwhile.

All of it is a function of views; who acts on it is the broker's ``cluster``, and the simulator.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from lakelog.coordination.members import Member
from lakelog.coordination.membership import View
from lakelog.coordination.placement import owners_of

__all__ = ["Leadership", "Told"]


class Told(NamedTuple):
    """The leader of a lane, as clients are told."""

    node: int
    epoch: int


class Leadership:
    """What one broker leads and tells."""

    def __init__(self, node: int, lanes: int, past: Mapping[int, int]) -> None:
        self.node, self.lanes = node, lanes
        self.epochs: dict[int, int] = {}
        """The lanes that this broker leads."""
        self.past: dict[int, int] = dict(past)
        """The highest epochs that this node id announced for lanes that it does not lead now."""
        self._highest: dict[int, int] = {}
        """The highest epoch of each lane that anybody was seen to announce."""

    def owners(self, view: View, *, serves: bool) -> Mapping[int, int]:
        """Return who should lead each lane; ``serves``: whether this broker takes part in it."""
        return owners_of(self.takers(view, serves=serves), self.lanes, "lane")

    def takers(self, view: View, *, serves: bool) -> set[int]:
        """Return the brokers to which lanes and shards are given. Whether this one is among them it
        knows before its view does.
        """
        others = {node for node in view.serving if node != self.node}
        return others | {self.node} if serves else others

    def saw(self, view: View) -> None:
        """Remember the epochs that a view shows."""
        for member in (*view.living.values(), *view.dead.values()):
            for epochs in (member.epochs, member.past):
                for lane, epoch in epochs.items():
                    if epoch > self._highest.get(lane, -1):
                        self._highest[lane] = epoch

    def told(self, lane: int, view: View) -> Told | None:
        """Return the leader to tell of a lane; None: it is not known who leads it now."""
        epochs = ((one.epochs.get(lane, -1), node) for node, one in view.living.items())
        epoch, node = max(epochs, default=(-1, -1))
        if epoch < 0 or epoch < self._highest.get(lane, -1):
            return None
        return Told(node, epoch)

    def to_take(self, view: View, *, serves: bool) -> list[int]:
        """Return the lanes that this broker should lead and does not lead by the highest epoch."""
        if not serves:
            return []
        owners = self.owners(view, serves=True)
        return [
            lane
            for lane in range(self.lanes)
            if owners[lane] == self.node
            and self._highest_of_others(lane, view) >= self.epochs.get(lane, -1)
        ]

    def to_drop(self, view: View, *, serves: bool) -> list[int]:
        """Return the lanes that this broker leads, should not, and that another leads by now."""
        owners = self.owners(view, serves=serves)
        return [
            lane
            for lane, epoch in self.epochs.items()
            if owners.get(lane) != self.node and self._highest_of_others(lane, view) > epoch
        ]

    def took(self, lane: int, epoch: int) -> None:
        """Note that this broker leads a lane, by an epoch that its own bundle got."""
        self.epochs[lane] = max(epoch, self.epochs.get(lane, -1))

    def heard(self, past: Mapping[int, int]) -> None:
        """Note epochs that earlier runs of this broker have announced."""
        for lane, epoch in past.items():
            self.past[lane] = max(epoch, self.past.get(lane, -1))

    def dropped(self, lane: int) -> None:
        """Note that this broker does not lead a lane any more."""
        epoch = self.epochs.pop(lane)
        self.past[lane] = max(epoch, self.past.get(lane, -1))

    def dropped_all(self) -> None:
        """Note that this broker leads nothing any more."""
        for lane in list(self.epochs):
            self.dropped(lane)

    def _highest_of_others(self, lane: int, view: View) -> int:
        """Return the highest epoch that somebody else, or an earlier run, has announced."""
        found = [one.highest(lane) for one in self._others(view)]
        return max([*found, self.past.get(lane, -1)])

    def _others(self, view: View) -> Iterable[Member]:
        known = (*view.living.items(), *view.dead.items())
        return (member for node, member in known if node != self.node)
