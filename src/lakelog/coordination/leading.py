"""Leading lanes: taking those that this broker should lead, giving up those that another leads.

    take       store an empty bundle, and announce the leader epoch that it got
    give up    another member announces a higher epoch: take the lane out of what is announced
    race       a bundle of this broker got a higher epoch than it announced, because another one
               wrote in between: announce that, at most once a second
    probe      every 30 s: a lane that another run has written to last is taken again
    hand over  when this broker drains: go on until others lead what it led

``leadership`` says what is to be done, by views; here it is done. What is done to a lane is asked
of ``Lanes``, which is the broker's, or the simulator's.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from lakelog.coordination.members import State
from lakelog.coordination.node import LOOKS_MS, Node
from lakelog.ports import Clock
from lakelog.store import Wait, Work

__all__ = ["PROBE_MS", "Lanes", "LastWriter", "Leading"]

PROBE_MS = 30_000
TAKE_MS = 1_000
"""Between two takes of a lane: a member of a bucket that was restored may announce an epoch that no
bundle has got, and which this broker does not reach by taking the lane again and again."""

RACE_MS = 1_000
"""Between two announcements of races."""

_STEP_MS = 10


class LastWriter(NamedTuple):
    """Who wrote to a lane last, as far as is known."""

    run: bytes
    epoch: int


class Lanes(Protocol):
    """The lanes of a broker, as far as leading them goes."""

    def touch(self, lane: int, done: Callable[[int | None], None]) -> None:
        """Store an empty bundle, and call with the epoch that it got; None: it is not known."""
        ...

    def probe(self, lane: int, done: Callable[[], None]) -> None:
        """Look where a lane ends, and call when that is known, or cannot be."""
        ...

    def last_writer(self, lane: int) -> LastWriter | None:
        """Return who wrote to a lane last, as far as is known."""
        ...


class Leading:
    """Leads the lanes of one run of a broker."""

    def __init__(
        self, node: Node, lanes: Lanes, clock: Clock, spawn: Callable[[Work[None]], None]
    ) -> None:
        self._node, self._lanes, self._clock, self._spawn = node, lanes, clock, spawn
        self._taking: set[int] = set()
        self._taken_ms: dict[int, int] = {}
        """When each lane was taken last."""
        self._is_begun = False
        """Whether the first lanes were taken: these are announced together, later ones at once."""
        self._racing: set[int] = set()
        self._raced_ms = -RACE_MS
        self.taken = self.given_up = 0
        """How often a lane was."""
        self.races = 0
        """How often another process had written to a lane in between, so that its epoch rose."""

    def prepare(self) -> Work[None]:
        """Take the lanes that this broker should lead when it serves; nobody is told yet."""
        node = self._node
        for lane in node.leadership.to_take(node.view, serves=True):
            self._take(lane)
        while self._taking:
            yield Wait(_STEP_MS)

    def begin(self) -> Work[None]:
        """Announce that this broker serves, with all lanes that it has taken."""
        self._node.state = State.SERVING
        self._is_begun = True
        yield from self._node.announce()

    def saw_view(self) -> None:
        """Do what a new view asks for."""
        node = self._node
        if node.state is State.STARTING:
            return
        dropped = node.leadership.to_drop(node.view, serves=node.serves)
        for lane in dropped:
            node.leadership.dropped(lane)
            self.given_up += 1
        if dropped:
            self._spawn(node.announce())
        for lane in node.leadership.to_take(node.view, serves=node.serves):
            self._take(lane)

    def _take(self, lane: int) -> None:
        now_ms = self._clock.boot_ms()
        if lane in self._taking or now_ms < self._taken_ms.get(lane, now_ms - TAKE_MS) + TAKE_MS:
            return  # The next view asks for it again.
        self._taking.add(lane)

        def touched(epoch: int | None) -> None:
            self._taking.discard(lane)
            self._taken_ms[lane] = self._clock.boot_ms()
            if epoch is not None:  # Else it is taken with the next view.
                self.taken += 1
                self._node.leadership.took(lane, epoch)
                if self._is_begun:
                    self._spawn(self._node.announce())

        self._lanes.touch(lane, touched)

    def flushed(self, lane: int) -> None:
        """A bundle was stored: its epoch may be higher than what is announced."""
        if self._raced_epoch(lane) is not None and lane not in self._racing:
            self._racing.add(lane)
            self._spawn(self._announce_race(lane))

    def _announce_race(self, lane: int) -> Work[None]:
        wait_ms = self._raced_ms + RACE_MS - self._clock.boot_ms()
        if wait_ms > 0:
            yield Wait(wait_ms)
        self._racing.discard(lane)
        epoch = self._raced_epoch(lane)
        if epoch is not None:
            self.races += 1
            self._raced_ms = self._clock.boot_ms()
            self._node.leadership.took(lane, epoch)
            yield from self._node.announce()

    def _raced_epoch(self, lane: int) -> int | None:
        """Return the epoch of this run's last bundle, if it is higher than the announced one."""
        node, last = self._node, self._lanes.last_writer(lane)
        if last is None or last.run != node.member.run:
            return None
        announced = node.leadership.epochs.get(lane, last.epoch)
        return last.epoch if last.epoch > announced and self._is_mine(lane) else None

    def _is_mine(self, lane: int) -> bool:
        """Whether this broker leads a lane, and should."""
        node = self._node
        return node.serves and node.leads(lane) and node.lane_owner(lane) == node.member.node

    def probes(self) -> Work[None]:
        """Look at what this broker leads, for ever: another one may have written to it last."""
        while True:
            yield Wait(PROBE_MS)
            for lane in list(self._node.leadership.epochs):
                self._lanes.probe(lane, lambda lane=lane: self._probed(lane))  # type: ignore[misc]

    def _probed(self, lane: int) -> None:
        last = self._lanes.last_writer(lane)
        if last is not None and last.run != self._node.member.run and self._is_mine(lane):
            self._take(lane)

    def hand_over(self, within_ms: int) -> Work[None]:
        """Wait until others lead what this broker led, which has announced that it leaves.

        It ends when there is nobody else, and in time.
        """
        node = self._node
        end_ms = self._clock.boot_ms() + within_ms
        while node.leadership.epochs and self._clock.boot_ms() < end_ms:
            seen = yield from node.look(self._clock.boot_ms())
            if seen and not node.others():
                return
            yield Wait(LOOKS_MS)
