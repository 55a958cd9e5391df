"""Producers, and the brokers that they send to.

A broker is a process of two flows, on one lane: one flushes what has come, the other lets consumers
read by what the first knows. Producers are clients: they send a batch to some broker, and send the
very same batch to another when there is no answer in time, if they are idempotent; a plain one
gives up on it. A stranger sends each batch as another producer, and never again.
"""

from collections import deque

from lakelog.catalog import Topic
from lakelog.errors import LakelogError, UnavailableError
from lakelog.journal import (
    Append,
    Lane,
    Outcome,
    Refusal,
    Refused,
    Stored,
    Unknown,
    flush,
    probe,
    write_checkpoint,
)
from lakelog.log import Bounds, Known, read
from lakelog.store import Wait, Work
from lakelog.testing.process import Process
from lakelog.testing.town import PLAIN, Town, expected
from lakelog.testing.truth import Anomaly

__all__ = ["Broker", "Producer", "Stranger"]

DELIVERY_MS = 9_000
WAITS_MS = 2_000
"""In a forgetful town: how long a client tries, and how long a broker lets a request wait. Both
together are less than half of what a lane remembers."""
HANGS_UP = 0.7
"""How often clients notice that a broker died."""


class Producer:
    """A client that sends one batch at a time."""

    pause_ms_max = 6_000

    def __init__(self, town: Town, number: int, *, idempotent: bool) -> None:
        self.town = town
        self.number = number
        self.idempotent = idempotent
        self.id = number
        self.sequences: dict[tuple[bytes, int], int] = {}
        self.sent: Append | None = None
        self.since = 0
        """When it sent the batch for the first time."""
        self.try_ = 0
        self.done = False

    def next_batch(self) -> None:
        """Make a batch and send it."""
        town = self.town
        topic, partition = town.some_partition()
        topic_partition = topic.id, partition
        producer = PLAIN
        if self.idempotent:
            producer = (self.id, 0, self.sequences.get(topic_partition, 0))
        self.sent = town.batch(topic, partition, producer)
        self.since = town.world.now
        self.send()

    def send(self) -> None:
        """Send the batch to some broker, and wait for the answer, though not for ever."""
        town, request = self.town, self.sent
        if request is None:
            return
        self.try_ += 1
        now = self.try_
        broker = town.random.choice(town.brokers)
        town.world.at(town.world.some(1, 30), lambda: broker.take(self, now, request))
        patience_ms = (1_000, 4_000) if town.is_forgetful else (8_000, 40_000)
        town.world.at(town.world.some(*patience_ms), lambda: self.give_up(now))

    def give_up(self, try_: int) -> None:
        """Nobody answered in time."""
        if try_ == self.try_:
            self.again()

    def again(self) -> None:
        """Send the batch again; a plain one is given up, and so is one that is too old."""
        late = self.town.is_forgetful and self.town.world.now - self.since > DELIVERY_MS
        if self.idempotent and not late:
            self.send()
            return
        self.try_ += 1
        if self.idempotent:
            # Nobody knows which of its batches are stored: it begins anew, under another id.
            self.town.count("producer gave up")
            self.id += 1000
            self.sequences = {}
        self.pause()

    def pause(self) -> None:
        self.sent = None
        delay_ms = self.town.world.some(50, self.pause_ms_max)
        self.town.world.at(delay_ms, lambda: None if self.done else self.next_batch())

    def answer(self, try_: int, request: Append, outcome: Outcome) -> None:
        """Take an answer; one that comes too late is judged all the same, and not believed."""
        town = self.town
        late = try_ != self.try_
        if not (late and isinstance(outcome, Refused)):
            town.truth.judge_answer(request, outcome)
        if late:
            return
        self.try_ += 1
        match outcome:
            case Stored():
                town.acks += 1
                if self.idempotent:
                    row = request.rows[0]
                    last = (row.base_sequence + row.last_offset_delta) & 0x7FFFFFFF
                    self.sequences[request.topic_partition] = last + 1
                self.pause()
            case Refused(Refusal.TOPIC_DELETED):
                self.pause()
            case Refused(Refusal.TOO_LARGE) if town.world.bundle_bytes_max < 1 << 62:
                town.count("request too large")
                self.pause()
            case Refused():
                raise Anomaly(f"producer {self.number} refused: {outcome.why}")
            case _:
                town.unknown += 1
                self.again()


class Stranger(Producer):
    """A client that is another producer with each batch, in a topic of its own.

    It harms itself: a broker that judges a batch of it twice may find its producer forgotten
    between, and store the batch twice.
    """

    pause_ms_max = 300

    def __init__(self, town: Town, topic: Topic) -> None:
        super().__init__(town, 1_000_000, idempotent=True)
        self.topic = topic
        town.truth.strange.add(topic.id)

    def next_batch(self) -> None:
        """Make a batch and send it, once."""
        self.id += 1
        self.sent = self.town.batch(self.topic, 0, (self.id, 0, 0))
        self.send()
        self.try_ += 1
        self.pause()

    def answer(self, try_: int, request: Append, outcome: Outcome) -> None:
        """Take no notice."""


class Broker:
    """A process that takes batches, and flushes them."""

    def __init__(self, town: Town, number: int) -> None:
        self.town = town
        self.inbox: deque[tuple[int, Producer, int, Append]] = deque()
        """Requests, each with the time it came at."""
        self.taken: list[tuple[Producer, int, Append]] = []
        """What is being flushed."""
        self.asked = self.looked = 0
        """How often a reader wanted the lane to be looked at, and how much of that is done."""
        self.process = Process(town.world, f"broker {number}", self.live)
        self.process.ended = self.hang_up

    def hang_up(self) -> None:
        """It died. Mostly its connections break, and clients do not wait for an answer."""
        if self.town.random.random() < HANGS_UP:
            waiting = [one[1:] for one in self.inbox]
            for producer, try_, _ in (*self.taken, *waiting):
                delay_ms = self.town.world.some(1, 500)
                self.town.world.at(delay_ms, lambda p=producer, t=try_: p.give_up(t))  # type: ignore[misc]
        self.taken = []

    def take(self, producer: Producer, try_: int, request: Append) -> None:
        """Let a request wait for the next flush."""
        self.inbox.append((self.process.boot_ms(), producer, try_, request))

    def live(self, process: Process) -> Work[None]:
        """Flush what has come, again and again; and let consumers read meanwhile."""
        town = self.town
        lane = town.lane(process)
        self.inbox.clear()
        process.spawn(self.serve(lane))
        while True:
            yield Wait(town.world.some(20, 3_000))
            if self.asked > self.looked:
                asked = self.asked
                try:
                    yield from probe(lane)
                    self.looked = asked
                except LakelogError as error:
                    expected(error)
            if not self.inbox:
                continue
            self.taken = taken = self.not_late()
            done = yield from flush(lane, [request for _, _, request in taken])
            self.taken = []
            town.count_ways(lane)
            for (producer, try_, request), outcome in zip(taken, done.outcomes, strict=True):
                self.answer(producer, try_, request, outcome)
            if lane.snapshot and lane.snapshot.due and town.random.random() < 0.8:
                try:
                    yield from write_checkpoint(lane)
                except LakelogError:
                    town.count("checkpoint failed")

    def not_late(self) -> list[tuple[Producer, int, Append]]:
        """Take what waits. Where lanes forget soon, what has waited for long is not flushed."""
        taken = []
        for since, producer, try_, request in self.inbox:
            if self.town.is_forgetful and self.process.boot_ms() - since > WAITS_MS:
                self.answer(producer, try_, request, Unknown())
            else:
                taken.append((producer, try_, request))
        self.inbox.clear()
        return taken

    def answer(self, producer: Producer, try_: int, request: Append, outcome: Outcome) -> None:
        """Send an answer."""
        delay_ms = self.town.world.some(1, 30)
        self.town.world.at(delay_ms, lambda: producer.answer(try_, request, outcome))

    def serve(self, lane: Lane) -> Work[None]:
        """Let consumers read by the lane that the flow beside this one owns and changes."""
        town, known = self.town, dict[tuple[bytes, int], Known]()
        while True:
            yield Wait(town.world.some(5_000, 30_000))
            topic, partition = town.some_partition()
            topic_partition = topic.id, partition
            asked = Bounds(
                town.truth.starts.get(topic_partition, 0), town.truth.end(topic_partition)
            )
            self.asked += 1
            mine = self.asked
            while self.looked < mine:
                yield Wait(100)
            # Who reads on asks for nothing: what was told is there, whatever the lane goes through.
            for _ in range(town.world.some(1, 6)):
                offset = town.some_offset(asked)
                memory = known.setdefault(topic_partition, Known())
                flow = read(lane, topic.path_of(partition), offset, 300, memory, _as_it_is)
                found = yield from town.judged(flow, topic, topic_partition, offset, asked)
                town.count("read beside")
                if found is None:
                    break
                yield Wait(town.world.some(50, 1_500))


def _as_it_is(lane: Lane) -> Work[None]:
    """What a broker's readers have instead of ``refresh``: the lane has been looked at already."""
    yield from ()
    if lane.snapshot is None:
        raise UnavailableError(f"lane {lane.number} is being learned: retry")
