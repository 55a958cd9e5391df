"""Clients of a simulated cluster, as Java's: they know who leads, and believe only newer epochs.

Producer    idempotent, one batch at a time, for one lane, sent again until it is acknowledged
Reader      asks where the lane ends: never before what had been acknowledged
Committer   commits offsets of a group, each larger than the last
Observer    asks what was committed, of the coordinator that it knows, until that sends it away
"""

from collections.abc import Callable

from lakelog.coordination import Told
from lakelog.journal import Stored, new_append
from lakelog.store import Work
from lakelog.testing.cluster.brokers import ClusterBroker
from lakelog.testing.cluster.city import City, Reply
from lakelog.testing.town import make_batch
from lakelog.testing.truth import Anomaly

__all__ = ["Client", "Committer", "Observer", "Producer", "Reader"]

PATIENCE_MS = 3_000
RETRY_MS = 100
REFUSED_MS = 20

Asking = Callable[[ClusterBroker, Reply], Work[None]]


class Client:
    """One client, with one request on its way."""

    def __init__(self, city: City, pace_ms: int) -> None:
        self.city, self._pace_ms = city, pace_ms
        self._try = 0
        self.progress_ms = 0
        """When it got on last."""
        self._asked_ms = 0
        city.world.at(city.world.some(1, 500), self.next)

    def next(self) -> None:
        """Do the next thing."""
        raise NotImplementedError

    def done(self) -> None:
        """It got on: go on after a while."""
        world = self.city.world
        self.progress_ms = world.now
        world.at(world.some(self._pace_ms // 2, self._pace_ms + 1), self.next)

    def again(self) -> None:
        self.city.world.at(RETRY_MS, self.next)

    def send(self, node: int | None, asking: Asking, answered: Reply) -> None:
        """Send a request to a broker, and wait, though not for ever."""
        city, world = self.city, self.city.world
        if city.is_over:
            return
        self._try += 1
        mine, self._asked_ms = self._try, world.now
        broker = city.brokers[node] if node is not None else city.random.choice(city.brokers)

        def reply(what: str, more: object) -> None:
            world.at(world.some(1, 10), lambda: tell(what, more))

        def tell(what: str, more: object) -> None:
            if mine == self._try:
                self._try += 1
                answered(what, more)

        def current(one: ClusterBroker) -> Work[None]:
            # Whoever has given up has closed its connection: what it sent is not looked at.
            yield from asking(one, reply) if mine == self._try else ()

        def arrive() -> None:
            if not broker.ask(current):
                world.at(REFUSED_MS, lambda: tell("refused", None))

        world.at(world.some(1, 10), arrive)
        world.at(PATIENCE_MS, lambda: tell("late", None))


class _LaneClient(Client):
    """A client that asks the leader of one lane."""

    def __init__(self, city: City, pace_ms: int, lane: int) -> None:
        super().__init__(city, pace_ms)
        self.lane = lane
        self.leader: Told | None = None
        self._circle: list[int] = []
        """To whom it was sent since it got on."""

    def ask_leader(self, asking: Asking, answered: Callable[[object], None]) -> None:
        """Ask the leader, or first who that is."""
        if self.leader is None:
            self.send(None, lambda broker, reply: broker.metadata(reply), self._learned)
            return

        def told(what: str, more: object) -> None:
            if what == "ok":
                self._circle = []
                answered(more)
            elif what == "not leader" and isinstance(more, Told):
                self._redirected(more)
                self.next()
            else:
                self.leader_unknown(what)

        self.send(self.leader.node, asking, told)

    def leader_unknown(self, what: str) -> None:
        """There was no answer that helps: look who leads, and try again."""
        if what in ("refused", "late"):
            self.city.count(f"client {what}")
        self.send(None, lambda broker, reply: broker.metadata(reply), self._learned)

    def _learned(self, what: str, more: object) -> None:
        if what == "ok" and isinstance(more, dict):
            told = more.get(self.lane)
            if told is not None and (self.leader is None or told.epoch >= self.leader.epoch):
                self.leader = told
        self.again()

    def _redirected(self, told: Told) -> None:
        """Java takes a redirect only if its epoch is newer than the one that it knows."""
        assert self.leader is not None
        if told.epoch <= self.leader.epoch:
            raise Anomaly(f"redirect ignored: lane {self.lane}: {told} after {self.leader}")
        self.leader = told
        self._circle.append(told.node)
        if len(self._circle) > 4 * len(self.city.brokers):
            raise Anomaly(f"circle: lane {self.lane} was sent to {self._circle}")


class Producer(_LaneClient):
    """An idempotent producer."""

    def __init__(self, city: City, pace_ms: int, lane: int) -> None:
        super().__init__(city, pace_ms, lane)
        self._sequence = 0
        self._batch = self._number = 0

    def next(self) -> None:
        """Send a batch: the next one, or the last one again."""
        city = self.city
        if not self._batch:
            city.batches += 1
            self._batch = city.batches
        producer = (1000 + self.lane, 0, self._sequence)
        body = make_batch(self._batch, 1, producer, 0)
        request = new_append(city.topic.id, city.partitions[self.lane], body)
        self.ask_leader(
            lambda broker, reply: broker.produce(self.lane, request, reply), self._stored
        )

    def _stored(self, more: object) -> None:
        assert isinstance(more, Stored)
        self.city.laws.stored(self._batch, self.lane, more.base_offset)
        self._sequence += 1
        self._batch = 0
        self.city.count("acked")
        self.done()


class Reader(_LaneClient):
    """Somebody who wants to know where a partition ends."""

    def next(self) -> None:
        """Ask for the end."""
        asked = self.city.laws.ends.get(self.lane, 0)

        def ended(more: object) -> None:
            assert isinstance(more, int)
            self.city.laws.end_is(self.lane, asked, more)
            self.city.count("end told")
            self.done()

        self.ask_leader(lambda broker, reply: broker.end(self.lane, reply), ended)


class _GroupClient(Client):
    """A client that asks the coordinator of a group."""

    LEAVES = frozenset({"not coordinator", "refused", "late"})
    """After what it looks for another coordinator."""

    def __init__(self, city: City, pace_ms: int, shard: int) -> None:
        super().__init__(city, pace_ms)
        self.shard = shard
        self.group = city.group_of(shard)
        self.coordinator: int | None = None

    def ask_coordinator(self, asking: Asking, answered: Callable[[object], None]) -> None:
        """Ask the coordinator, or first who that is."""
        if self.coordinator is None:
            self.send(
                None,
                lambda broker, reply: broker.groups.find_coordinator(self.shard, reply),
                self._found,
            )
            return

        def told(what: str, more: object) -> None:
            if what == "ok":
                answered(more)
                return
            if what in self.LEAVES:
                self.coordinator = None
            self.city.count(f"coordinator {what}")
            self.again()

        self.send(self.coordinator, asking, told)

    def _found(self, what: str, more: object) -> None:
        if what == "ok" and isinstance(more, int):
            self.coordinator = more
        self.again()


class Committer(_GroupClient):
    """A member of a group that commits."""

    def __init__(self, city: City, pace_ms: int, shard: int) -> None:
        super().__init__(city, pace_ms, shard)
        self._offset = 0

    def next(self) -> None:
        """Commit the next offset."""
        offset = self._offset

        def committed(_: object) -> None:
            laws = self.city.laws
            laws.committed[self.group] = max(laws.committed.get(self.group, -1), offset)
            self._offset += 1
            self.city.count("committed")
            self.done()

        self.ask_coordinator(
            lambda broker, reply: broker.groups.commit(self.shard, self.group, offset, reply),
            committed,
        )


class Observer(_GroupClient):
    """Another member, which keeps to the coordinator that it knows, however long that sleeps."""

    LEAVES = frozenset({"not coordinator", "refused"})

    def next(self) -> None:
        """Ask what was committed."""
        asked = self.city.laws.committed.get(self.group, -1)

        def told(more: object) -> None:
            assert isinstance(more, int)
            self.city.laws.committed_is(self.group, asked, more)
            self.city.count("offset told")
            self.done()

        self.ask_coordinator(
            lambda broker, reply: broker.groups.fetch_offset(self.shard, self.group, reply), told
        )
