"""Who lives in the simulated world: producers, brokers, readers, keepers and an admin.

Brokers, readers and keepers are processes that run the real flows. Producers are clients: they send
a batch to some broker, and send the very same batch to another when there is no answer in time, if
they are idempotent; a plain one gives up on it. The admin deletes records, deletes topics and makes
them anew. ``rewriting`` and ``bulk`` have the others.
"""

import struct
from collections import deque
from dataclasses import dataclass, field
from random import Random  # noqa: TID251 (seeded)

from crc32c import crc32c

from lakelog.errors import LakelogError, NotFoundError
from lakelog.history.manifests import change_manifest, changes
from lakelog.journal import (
    Append,
    DeleteTopic,
    Lane,
    Outcome,
    Refusal,
    Refused,
    Stored,
    flush,
    new_append,
    write_checkpoint,
)
from lakelog.keep import (
    Kept,
    SealSettings,
    keep_lane,
    keep_topic,
    keep_writes,
)
from lakelog.log import (
    Bounds,
    Known,
    Topic,
    create_topic,
    delete_topic,
    list_topics,
    read,
    read_topic,
    store_now,
)
from lakelog.model import Rules
from lakelog.store import Wait, Work
from lakelog.testing.keyed import KEYS, make_keyed_batch
from lakelog.testing.truth import Anomaly, Truth
from lakelog.testing.world import Process, RefusedError, World

PLAIN = (-1, -1, -1)
"""No producer: a batch may be stored twice, and nobody would know."""
SEALS = SealSettings(group_bytes=1000, segment_bytes=600)
FAVOURED = 0.8
HANGS_UP = 0.7
"""How often clients notice that a broker died."""

__all__ = [
    "SEALS",
    "Broker",
    "Producer",
    "Town",
    "admin",
    "expected",
    "is_compacted",
    "keeper",
    "make_batch",
    "reader",
]


def make_batch(number: int, count: int, producer: tuple[int, int, int], now_ms: int) -> bytes:
    """Return a batch of ``count`` records whose bytes nobody else has."""
    records = b"".join(
        bytes((28, 0, 0, 2 * at, 1, 16)) + number.to_bytes(8, "big") + b"\0" for at in range(count)
    )
    signed = struct.pack(
        ">hiqqqhii", 0, count - 1, now_ms, now_ms, producer[0], producer[1], producer[2], count
    )
    body = signed + records
    return struct.pack(">qiibI", 0, 9 + len(body), 0, 2, crc32c(body)) + body


@dataclass(slots=True)
class Town:
    """Everybody, and what they share."""

    world: World
    truth: Truth
    rules: Rules
    topics: dict[str, Topic] = field(default_factory=dict)
    brokers: list["Broker"] = field(default_factory=list)
    producers: list["Producer"] = field(default_factory=list)
    batches: int = 0
    acks: int = 0
    reads: int = 0
    unknown: int = 0
    notes: dict[str, int] = field(default_factory=dict)
    favourite: str = ""

    @property
    def random(self) -> Random:
        return self.world.random

    def lane(self, process: Process) -> Lane:
        """Return a lane of which a process knows nothing yet."""
        return Lane(
            number=0,
            rules=self.rules,
            clock=process,
            ids=self.world.ids,
            writer=self.world.ids(),
        )

    def note(self, lane: Lane) -> None:
        """Count which ways were taken."""
        for name, count in lane.notes.items():
            self.count(name, count)
        lane.notes.clear()

    def count(self, what: str, times: int = 1) -> None:
        """Count something that happened."""
        self.notes[what] = self.notes.get(what, 0) + times

    def batch(self, topic: Topic, partition: int, producer: tuple[int, int, int] = PLAIN) -> Append:
        """Return a batch that nobody has sent yet."""
        self.batches += 1
        count, now_ms = self.world.some(1, 4), self.world.store_ms()
        if not is_compacted(topic):
            body = make_batch(self.batches, count, producer, now_ms)
            return new_append(topic.id, partition, body)
        drawn = [(self.world.some(0, KEYS), self.random.random()) for _ in range(count)]
        body = make_keyed_batch(self.batches, drawn, producer, now_ms)
        append = new_append(topic.id, partition, body)
        self.truth.keyed.send(append.rows[0].crc, body)
        return append

    def some_place(self) -> tuple[Topic, int]:
        """Draw a partition; in some towns most of what happens, happens to one topic."""
        favoured = self.favourite and self.random.random() < FAVOURED
        topic = self.topics[self.favourite if favoured else self.random.choice(sorted(self.topics))]
        return topic, self.random.randrange(topic.partitions)


def is_compacted(topic: Topic) -> bool:
    """Say whether records may go when newer ones of their keys are there."""
    return topic.configs.get("cleanup.policy") == "compact"


class Producer:
    """A client that sends one batch at a time."""

    def __init__(self, town: Town, number: int, *, idempotent: bool) -> None:
        self.town = town
        self.number = number
        self.idempotent = idempotent
        self.sequences: dict[tuple[bytes, int], int] = {}
        self.sent: Append | None = None
        self.try_ = 0
        self.done = False

    def next_batch(self) -> None:
        """Make a batch and send it."""
        town = self.town
        topic, partition = town.some_place()
        place = topic.id, partition
        producer = PLAIN
        if self.idempotent:
            producer = (self.number, 0, self.sequences.get(place, 0))
        self.sent = town.batch(topic, partition, producer)
        self.send()

    def send(self) -> None:
        """Send the batch to some broker, and wait for the answer, though not for ever."""
        town, request = self.town, self.sent
        if request is None:
            return
        self.try_ += 1
        now = self.try_
        broker = town.random.choice(town.brokers)
        town.world.at(town.world.some(1, 30), lambda: broker.inbox.append((self, now, request)))
        town.world.at(town.world.some(8_000, 40_000), lambda: self.give_up(now))

    def give_up(self, try_: int) -> None:
        """Nobody answered in time."""
        if try_ == self.try_:
            self.again()

    def again(self) -> None:
        if self.idempotent:
            self.send()
        else:
            self.try_ += 1
            self.pause()

    def pause(self) -> None:
        self.sent = None
        delay_ms = self.town.world.some(50, 6_000)
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
                    self.sequences[request.place] = last + 1
                self.pause()
            case Refused(Refusal.TOPIC_DELETED):
                self.pause()
            case Refused():
                raise Anomaly(f"producer {self.number} refused: {outcome.why}")
            case _:
                town.unknown += 1
                self.again()


class Broker:
    """A process that takes batches, and flushes them."""

    def __init__(self, town: Town, number: int) -> None:
        self.town = town
        self.inbox: deque[tuple[Producer, int, Append]] = deque()
        self.taken: list[tuple[Producer, int, Append]] = []
        """What is being flushed."""
        self.process = Process(town.world, f"broker {number}", self.live)
        self.process.ended = self.hang_up

    def hang_up(self) -> None:
        """It died. Mostly its connections break, and clients do not wait for an answer."""
        if self.town.random.random() < HANGS_UP:
            for producer, try_, _ in (*self.taken, *self.inbox):
                delay_ms = self.town.world.some(1, 500)
                self.town.world.at(delay_ms, lambda p=producer, t=try_: p.give_up(t))  # type: ignore[misc]
        self.taken = []

    def live(self, process: Process) -> Work[None]:
        town = self.town
        lane = town.lane(process)
        self.inbox.clear()
        while True:
            yield Wait(town.world.some(20, 3_000))
            if not self.inbox:
                continue
            self.taken = taken = list(self.inbox)
            self.inbox.clear()
            done = yield from flush(lane, [request for _, _, request in taken])
            self.taken = []
            town.note(lane)
            for (producer, try_, request), outcome in zip(taken, done.outcomes, strict=True):
                delay = town.world.some(1, 30)
                town.world.at(
                    delay,
                    lambda p=producer, t=try_, r=request, o=outcome: p.answer(t, r, o),  # type: ignore[misc]
                )
            if lane.snapshot and lane.snapshot.due and town.random.random() < 0.8:
                try:
                    yield from write_checkpoint(lane)
                except LakelogError:
                    town.count("checkpoint failed")


def reader(town: Town, process: Process) -> Work[None]:
    """Read at random offsets, and follow one partition."""
    lane = town.lane(process)
    random = town.random
    seen: dict[tuple[bytes, int], Bounds] = {}
    memory: dict[tuple[bytes, int], Known] = {}
    while True:
        yield Wait(town.world.some(1_000, 15_000))
        topic, partition = town.some_place()
        where = topic.where(partition)
        truth, place = town.truth, where.place
        asked = Bounds(truth.starts.get(place, 0), truth.end(place))
        low, high = asked.log_start, asked.end
        offset = random.choice((low, high, high + 1, random.randint(min(low, high), high)))
        try:
            size = random.choice((1, 300, 100_000))
            known = memory.setdefault(place, Known()) if random.random() < 0.5 else None
            found = yield from read(lane, where, offset, size, known)
        except NotFoundError:
            if not (topic.id in truth.deleted or topic.deleted or _is_gone(truth, place)):
                raise Anomaly(f"J6: {place} unknown") from None
            continue
        except LakelogError as error:
            expected(error)
            continue
        finally:
            town.note(lane)
        truth.judge_read(place, offset, found, asked=asked)
        last = seen.get(place, Bounds(0, 0))
        if found.bounds.end < last.end or found.bounds.log_start < last.log_start:
            raise Anomaly(f"J5: {found.bounds} after {last}")
        seen[place] = found.bounds
        town.reads += 1


def _is_gone(truth: Truth, place: tuple[bytes, int]) -> bool:
    return any(
        manifest.deleted
        for manifest in truth.manifests.values()
        if (manifest.topic, manifest.partition) == place
    )


def expected(error: LakelogError) -> None:
    """See that an error is one of those that go away."""
    if not error.retryable and not isinstance(error, RefusedError):
        raise Anomaly(f"an error that nothing explains: {error}") from error


def keeper(town: Town, process: Process) -> Work[None]:
    """Seal, trim, reap, retain and sweep, again and again."""
    lane = town.lane(process)
    while True:
        yield Wait(town.world.some(1_000, 12_000))
        try:
            topics = yield from list_topics()
            idle = town.random.random() < 0.2
            kept = Kept()
            yield from keep_lane(lane, topics, SEALS, kept, idle=idle)
            if town.random.random() < 0.4:
                grace_ms = town.rules.grace_ms
                for topic in topics:
                    yield from keep_topic(topic, town.world.ids, kept, grace_ms=grace_ms)
                now_ms = yield from store_now(town.world.ids)
                writes = yield from keep_writes({0: lane}, now_ms=now_ms, grace_ms=grace_ms)
                for error in writes.failures.values():
                    expected(error)
                kept.swept += writes.swept
                town.count("bulk finished", writes.finished)
            town.count("swept", kept.swept)
        except LakelogError as error:
            expected(error)
            town.count("keeper failed")
        town.note(lane)


def admin(town: Town, process: Process) -> Work[None]:
    """Delete records, delete topics, and make them anew; finish what an earlier life began."""
    lane = town.lane(process)
    random = town.random
    while True:
        yield Wait(town.world.some(5_000, 60_000))
        name = random.choice(sorted(town.topics))
        try:
            topic = yield from read_topic(name)
            if not topic.deleted and random.random() < 0.6:
                yield from _delete_records(town, topic)
            else:
                yield from _make_anew(town, lane, topic)
        except LakelogError as error:
            expected(error)
        town.note(lane)


def _delete_records(town: Town, topic: Topic) -> Work[None]:
    where = topic.where(town.random.randrange(topic.partitions))
    end = town.truth.end(where.place)
    if end:
        start, write = town.random.randrange(end + 1), town.world.ids().hex()
        yield from change_manifest(where, write, lambda now: changes.start(now, write, start))


def _make_anew(town: Town, lane: Lane, topic: Topic) -> Work[None]:
    now_ms = town.world.store_ms()
    yield from delete_topic(topic.name, topic.id, town.world.ids(), now_ms=now_ms)
    done = yield from flush(lane, [DeleteTopic(topic=topic.id)])
    if done.error is not None:
        raise done.error
    town.topics[topic.name] = yield from create_topic(
        topic.name,
        topic_id=town.world.ids(),
        partitions=topic.partitions,
        lanes=1,
        now_ms=town.world.store_ms(),
        configs=topic.configs,
    )
    town.count("topic made anew")
