"""Members in memory: a second maker of the contract, so that its suite is not about the bucket."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakelog.coordination import Member, State, View
from lakelog.coordination.liveness import Liveness
from lakelog.errors import FencedError
from lakelog.store import Work

NOWHERE: Mapping[str, str] = {}


@dataclass
class Board:
    """What all members of a cluster share."""

    beats: dict[int, tuple[bytes, int]] = field(default_factory=dict)
    members: dict[int, Member] = field(default_factory=dict)


class MemoryMembership:
    """One run of a broker."""

    def __init__(self, board: Board, run: bytes, interval_ms: int) -> None:
        self._board, self._run = board, run
        self._liveness = Liveness(interval_ms)
        self._node = -1
        self._view = View()

    def take(
        self, node: int | None, now_ms: int, listeners: Mapping[str, str] = NOWHERE
    ) -> Work[Member]:
        del now_ms
        yield from ()
        board = self._board
        if node is None and listeners:
            same = [one.node for one in board.members.values() if one.listeners == listeners]
            node = min(same, default=None)
        if node is None:
            node = 1
            while node in board.beats and not self._has_left(node):
                node += 1
        self._node = node
        board.beats[node] = (self._run, 0)
        former = board.members.get(node)
        if former is None:
            return Member(node=node, run=self._run)
        past = {lane: former.highest(lane) for lane in (*former.epochs, *former.past)}
        return Member(node=node, run=self._run, past=past)

    def _has_left(self, node: int) -> bool:
        member = self._board.members.get(node)
        return member is not None and member.state is State.LEFT

    def _check(self) -> int:
        run, beats = self._board.beats.get(self._node, (self._run, 0))
        if run != self._run:
            raise FencedError(f"another broker was started with node id {self._node}")
        return beats

    def announce(self, member: Member) -> Work[Member]:
        yield from ()
        self._check()
        self._board.members[self._node] = member
        return member

    def beat(self) -> Work[None]:
        yield from ()
        self._board.beats[self._node] = (self._run, self._check() + 1)

    def look(self, begun_ms: int) -> Work[View]:
        yield from ()
        members = dict(self._board.members)
        dead = self._liveness.listed(
            begun_ms, {node: repr(self._board.beats.get(node)) for node in members}
        ) - {self._node}
        known = {node: one for node, one in members.items() if one.state is not State.LEFT}
        living = {node: one for node, one in known.items() if node not in dead}
        gone = {node: one for node, one in known.items() if node in dead}
        changed = (living, gone) != (self._view.living, self._view.dead)
        number = self._view.number + changed
        self._view = View(number=number, begun_ms=begun_ms, living=living, dead=gone)
        return self._view
