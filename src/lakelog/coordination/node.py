"""One broker of a cluster: its state, its view of the others, and what it announces.

    join      take a node id; announced as starting
    beats     every interval, for ever: FencedError when another run has the node id
    lists     a view every interval, for ever; one that fails is made again after a quarter second
    look      a view now, for whoever is about to say no: four a second, shared, some at once
    announce  store what is true of this broker, one write at a time

These are flows: the broker runs them on its loop, the simulator on a virtual clock. Flows of one
node run side by side, and what they share is changed between two requests only.

A negative answer (this broker does not lead, nobody knows the leader) is given by a view that was
begun after the request: ``look`` with the time of the request.
"""

from collections.abc import Callable
from dataclasses import replace

from lakelog.coordination.leadership import Leadership, Told
from lakelog.coordination.members import Member, State
from lakelog.coordination.membership import Membership, View
from lakelog.coordination.placement import owners_of
from lakelog.errors import LakelogError, UnavailableError
from lakelog.ports import Clock
from lakelog.store import Wait, Work

__all__ = ["Node"]

LOOKS_MS = 250
"""Between two lists, whoever asks for them, on the average; and after one that failed."""

LOOKS_AT_ONCE = 4
"""Lists that may follow each other without a pause, when there were none for a second. Requests of
one client are told one after the other that a lane has moved: the later ones wait for a list of
their own, and a batch that comes so much behind its successors is out of order."""

_STEP_MS = 10
"""How often a flow sees whether another has done what it waits for."""


class Node:
    """What one run of a broker knows and says of its cluster."""

    def __init__(
        self,
        membership: Membership,
        *,
        clock: Clock,
        interval_ms: int,
        lanes: int,
        on_view: Callable[[], None] = lambda: None,
        on_stored: Callable[[], None] = lambda: None,
        on_error: Callable[[LakelogError], None] = lambda _: None,
    ) -> None:
        self._membership, self._clock = membership, clock
        self._interval_ms, self._lanes = interval_ms, lanes
        self._on_view, self._on_stored, self._on_error = on_view, on_stored, on_error
        self.view = View()
        self.member = Member(node=-1, run=b"")
        """What is stored of this broker, or is just being stored."""
        self.state = State.STARTING
        self.leadership = Leadership(-1, lanes, {})
        self.stored = self.member
        """What is known to be stored of this broker."""
        self._looking = self._announcing = False
        self.list_begun_ms = -LOOKS_MS
        """When the last list was begun, whether it was answered or not."""
        self._paced_ms = -LOOKS_AT_ONCE * LOOKS_MS
        """When it would have been, had all lists come as seldom as they should."""
        self.beat_ms = 0
        """When the last beat was begun that the store has taken."""
        self._is_announced = True

    # ------------------------------------------------------------------------ myself

    @property
    def serves(self) -> bool:
        """Whether this broker takes lanes and shards."""
        return self.state is State.SERVING

    def join(self, node: int | None, member: Member) -> Work[None]:
        """Take a node id, and announce this broker as one that starts.

        Raises:
            FencedError: another run took the node id from this one.
            ConflictError, UnavailableError: try again.
        """
        self.beat_ms = self._clock.boot_ms()
        former = yield from self._membership.take(node, self._clock.now_ms(), member.listeners)
        self.member = replace(member, node=former.node, run=former.run, past=former.past)
        self.leadership = Leadership(former.node, self._lanes, former.past)
        yield from self.announce()
        yield from self.look(self._clock.boot_ms())

    def announce(self) -> Work[None]:
        """Store what is true of this broker; if that is being done already, have it done again.

        Raises:
            FencedError: another run has the node id; stop.
        """
        self._is_announced = False
        if self._announcing:
            return
        self._announcing = True
        try:
            while not self._is_announced:
                self._is_announced = True
                yield from self._announced(self._true())
        finally:
            self._announcing = False

    def _announced(self, member: Member) -> Work[None]:
        while True:
            try:
                member = yield from self._membership.announce(member)
            except UnavailableError as error:
                self._on_error(error)
                yield Wait(LOOKS_MS)
                continue
            self.stored = member
            self.leadership.heard(member.past)
            self._show(replace(self.view, living={**self.view.living, member.node: member}))
            self._on_stored()
            return

    def _true(self) -> Member:
        """Return what is true of this broker now."""
        leads = self.leadership
        self.member = replace(
            self.member, state=self.state, epochs=dict(leads.epochs), past=dict(leads.past)
        )
        return self.member

    def change(self, state: State) -> Work[None]:
        """Announce another state of this broker."""
        self.state = state
        if state is State.LEFT:
            self.leadership.dropped_all()
        yield from self.announce()

    def hint(self, token: str) -> Work[None]:
        """Announce that this broker has changed a topic or a config."""
        self.member = replace(self.member, hint=token)
        yield from self.announce()

    def beats(self) -> Work[None]:
        """Beat, for ever.

        Raises:
            FencedError: another run has the node id; stop.
        """
        while True:
            yield Wait(self._interval_ms)
            begun_ms = self._clock.boot_ms()
            try:
                yield from self._membership.beat()
                self.beat_ms = begun_ms
            except UnavailableError as error:
                self._on_error(error)

    # ------------------------------------------------------------------------ the others

    def lists(self) -> Work[None]:
        """Look at the members once every interval, for ever, at fixed times."""
        due_ms = self._clock.boot_ms() + self._interval_ms
        while True:
            yield Wait(max(due_ms - self._clock.boot_ms(), _STEP_MS))
            while not (yield from self.look(due_ms)):
                yield Wait(LOOKS_MS)
            due_ms += self._interval_ms
            if due_ms < self._clock.boot_ms():
                due_ms = self._clock.boot_ms() + self._interval_ms

    def look(self, asked_ms: int) -> Work[bool]:
        """Have a view that was begun at this time or later; False: the store did not answer.

        Whoever asks while a list is on its way waits for it, and lists again only if that one was
        begun too early.
        """
        while self.view.begun_ms < asked_ms:
            if self._looking:
                yield Wait(_STEP_MS)
                continue
            began_ms = yield from self._list()
            if began_ms >= asked_ms and self.view.begun_ms < began_ms:
                return False
        return True

    def _list(self) -> Work[int]:
        """List the members once, and return when that was begun."""
        self._looking = True
        try:
            now_ms = self._clock.boot_ms()
            earliest_ms = now_ms - (LOOKS_AT_ONCE - 1) * LOOKS_MS
            self._paced_ms = max(self._paced_ms + LOOKS_MS, earliest_ms)
            if self._paced_ms > now_ms:
                yield Wait(self._paced_ms - now_ms)
            began_ms = self.list_begun_ms = self._clock.boot_ms()
            try:
                self._show((yield from self._membership.look(began_ms)))
            except LakelogError as error:
                self._on_error(error)
            return began_ms
        finally:
            self._looking = False

    def _show(self, view: View) -> None:
        self.view = view
        self.leadership.saw(view)
        self._on_view()

    # ------------------------------------------------------------------------ who does what

    def told(self, lane: int) -> Told | None:
        """Return the leader of a lane, as clients are told."""
        return self.leadership.told(lane, self.view)

    def have_lanes(self, lanes: int) -> None:
        """Note how many lanes the namespace has now, and act on it."""
        self._lanes = self.leadership.lanes = lanes
        self._on_view()

    def leads(self, lane: int) -> bool:
        """Whether this broker serves a lane."""
        return lane in self.leadership.epochs

    def others(self) -> set[int]:
        """Return the other brokers that serve."""
        return self.leadership.takers(self.view, serves=False)

    def lane_owner(self, lane: int) -> int | None:
        """Return who should lead a lane."""
        return self.leadership.owners(self.view, serves=self.serves).get(lane)

    def shard_owner(self, shard: int, shards: int) -> int | None:
        """Return who should coordinate a shard of groups."""
        takers = self.leadership.takers(self.view, serves=self.serves)
        return owners_of(takers, shards, "shard").get(shard)
