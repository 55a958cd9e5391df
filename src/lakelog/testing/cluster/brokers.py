"""A broker of a simulated cluster: the real flows of members, lanes and groups, and thin glue.

The glue is what the broker's asyncio side does: it queues what lanes are asked for, flushes one
lane at a time, and answers clients. All that decides is the shipped code.
"""

from collections import deque
from collections.abc import Callable, Iterator

from lakelog.coordination import (
    BucketMembership,
    LastWriter,
    Leading,
    Member,
    Node,
    State,
    Told,
)
from lakelog.errors import ConflictError, FencedError, LakelogError, UnavailableError
from lakelog.journal import Append, Lane, Outcome, Request, Stored, Touch, Unknown, flush, probe
from lakelog.store import Wait, Work
from lakelog.testing.cluster.city import (
    INTERVAL_MS,
    LANES,
    SHARDS,
    City,
    ClusterProcess,
    Reply,
)
from lakelog.testing.cluster.groups import ClusterGroups

__all__ = ["DRAIN_MS", "ClusterBroker"]

DRAIN_MS = 10_000
RETRY_MS = 100

_Asked = tuple[Request | None, Callable[[Outcome | None], None]]
"""A request to a lane, or None for a look at it, and who is told: of a look, None or Unknown."""


class ClusterBroker:
    """One run after the other of a broker with one node id."""

    def __init__(self, city: City, id_: int) -> None:
        self.city, self.id = city, id_
        self.run = b""
        self.process = ClusterProcess(city, self, f"broker {id_}")
        self.node: Node
        self.is_up = False
        """Whether it takes connections."""
        self.is_draining = False

    # ------------------------------------------------------------------------ a life

    def live(self, process: object) -> Work[None]:
        """Begin without any memory."""
        del process
        self.run = self.city.world.ids()
        self.node = Node(
            BucketMembership(self.run, INTERVAL_MS),
            clock=self.process,
            interval_ms=INTERVAL_MS,
            lanes=LANES,
            on_view=self._on_view,
        )
        self.is_up, self.is_draining = False, False
        self._dead: set[int] = set()
        self.seen_alive: dict[int, int] = {}
        """Since when each member is alive in every view."""
        self._lanes: dict[int, Lane] = {}
        self._queues: dict[int, deque[_Asked]] = {n: deque() for n in range(LANES)}
        self._busy: set[int] = set()
        self.leading = Leading(self.node, self, self.process, self.spawn)
        self.groups = ClusterGroups(self)
        yield from self._living(self._start())

    def _living(self, flow: Work[None]) -> Work[None]:
        """Run a flow of this run; the run ends when another has its node id."""
        try:
            yield from flow
        except FencedError:
            self.city.count("replaced")
            self.city.world.at(0, self.stop)

    def spawn(self, flow: Work[None]) -> None:
        self.process.spawn(self._living(flow))

    def stop(self) -> None:
        """End, at once."""
        self.is_up = self.is_draining = False
        self.process.stop()

    def start(self) -> None:
        """Begin, unless it runs, or another process has its place."""
        if not self.process.is_alive and self.city.brokers[self.id] is self:
            self.process.thaw()
            self.process.start()

    def _start(self) -> Work[None]:
        node = self.node
        while True:
            try:
                yield from node.join(self.id, Member(node=self.id, run=self.run))
                break
            except (UnavailableError, ConflictError):
                yield Wait(RETRY_MS)
        self.is_up = True
        self.spawn(node.beats())
        yield from self.leading.prepare()
        yield from self.leading.begin()
        self.spawn(node.lists())
        self.spawn(self.groups.claim_all())
        self.spawn(self.leading.probes())

    def drain(self) -> None:
        """SIGTERM."""
        if self.process.is_alive and self.node.state is State.SERVING and not self.is_draining:
            self.is_draining = True
            self.spawn(self._drain())

    def _drain(self) -> Work[None]:
        node = self.node
        yield from node.change(State.DRAINING)
        yield from self.leading.hand_over(DRAIN_MS)
        while self._busy or any(self._queues.values()):
            yield Wait(20)
        for shard in list(self.groups.held):
            self.spawn(self.groups.release(shard))
        while self.groups.releasing:
            yield Wait(20)
        yield from node.change(State.LEFT)
        self.city.world.at(0, self.stop)

    def listed(self, beats: dict[int, str]) -> None:
        """A list has shown these beats."""
        self.city.laws.listed(self.run, self.node.list_begun_ms, beats)

    def _on_view(self) -> None:
        node, laws = self.node, self.city.laws
        for dead in node.view.dead.keys() - self._dead:
            laws.died(self.run, dead)
            self.city.count("found dead")
        self._dead = set(node.view.dead)
        now = self.city.world.now
        self.seen_alive = {one: self.seen_alive.get(one, now) for one in node.view.living}
        if not self.is_up:
            return
        self.leading.saw_view()
        for shard in list(self.groups.held):
            if node.serves and node.shard_owner(shard, SHARDS) not in (self.id, None):
                self.spawn(self.groups.release(shard))

    # ------------------------------------------------------------------------ lanes

    def touch(self, lane: int, done: Callable[[int | None], None]) -> None:
        """Store an empty bundle."""
        self.city.count("lane taken")
        self._enqueue(
            lane, Touch(), lambda one: done(one.epoch if isinstance(one, Stored) else None)
        )

    def probe(self, lane: int, done: Callable[[], None]) -> None:
        """Look where a lane ends."""
        self._enqueue(lane, None, lambda _: done())

    def last_writer(self, lane: int) -> LastWriter | None:
        """Return who wrote to a lane last."""
        known = self._lanes.get(lane)
        fold = None if known is None else known.fold
        return None if fold is None else LastWriter(fold.leader, fold.epoch)

    def _enqueue(
        self, lane: int, request: Request | None, done: Callable[[Outcome | None], None]
    ) -> None:
        self._queues[lane].append((request, done))
        if lane not in self._busy:
            self._busy.add(lane)
            self.spawn(self._flush(lane))

    def _flush(self, number: int) -> Work[None]:
        """Do what a lane was asked for, until nothing waits."""
        queue, process = self._queues[number], self.process
        lane = self._lanes.get(number)
        if lane is None:
            lane = self._lanes[number] = self.city.lane(process, number, self.run)
        yield Wait(self.city.world.some(20, 200))
        while queue:
            taken = list(queue)
            queue.clear()
            requests = [request for request, _ in taken if request is not None]
            outcomes: Iterator[Outcome] = iter(())
            if requests:
                flushed = yield from flush(lane, requests)
                outcomes = iter(flushed.outcomes)
            looked: Outcome | None = None
            if len(requests) < len(taken):
                try:
                    yield from probe(lane)
                except LakelogError:
                    looked = Unknown()
            for request, done in taken:
                done(next(outcomes) if request is not None else looked)
            self.leading.flushed(number)
        self._busy.discard(number)

    # ------------------------------------------------------------------------ requests

    def ask(self, flow: Callable[["ClusterBroker"], Work[None]]) -> bool:
        """Have a request of a client served; False: nobody takes connections."""
        if not self.is_up or not self.process.is_alive:
            return False
        self.spawn(flow(self))
        return True

    def metadata(self, reply: Reply) -> Work[None]:
        """Say who leads each lane, and who there is."""
        yield from ()
        told = {lane: self._told(lane) for lane in range(LANES)}
        reply("ok", {lane: one for lane, one in told.items() if one is not None})

    def _told(self, lane: int) -> Told | None:
        told = self.node.told(lane)
        self.city.laws.leader(self.run, lane, told)
        return told

    def produce(self, lane: int, request: Append, reply: Reply) -> Work[None]:
        """Store a batch, or say who leads."""
        if not (yield from self._leads(lane, reply)):
            return
        self._enqueue(lane, request, lambda outcome: self._produced(outcome, reply))

    def _produced(self, outcome: Outcome | None, reply: Reply) -> None:
        if isinstance(outcome, Stored):
            reply("ok", outcome)
        else:
            reply("retry", outcome if outcome is not None else Unknown())

    def end(self, lane: int, reply: Reply) -> Work[None]:
        """Say where a partition ends."""
        if not (yield from self._leads(lane, reply)):
            return
        self._enqueue(lane, None, lambda looked: self._ended(lane, looked, reply))

    def _ended(self, lane: int, looked: Outcome | None, reply: Reply) -> None:
        fold = self._lanes[lane].fold
        if fold is None or looked is not None:
            reply("retry", None)
        else:
            reply("ok", fold.end((self.city.topic.id, self.city.partitions[lane])))

    def _leads(self, lane: int, reply: Reply) -> Work[bool]:
        """Whether this broker leads a lane; if not, the client is told who does."""
        if self.node.leads(lane):
            return True
        asked_ms = self.process.boot_ms()
        seen = yield from self._look(asked_ms)
        if self.node.leads(lane):
            return True
        if not seen:
            reply("retry", None)
            return False
        told = self._told(lane)
        if told is None or told.node == self.id:
            reply("retry", None)
        else:
            self.city.laws.redirect(asked_ms, self.node.view.begun_ms)
            self.city.count("redirect")
            reply("not leader", told)
        return False

    def _look(self, asked_ms: int) -> Work[bool]:
        """Have a view that is newer than a request."""
        return (yield from self.node.look(asked_ms))
