"""The stories as the clients tell them that are driven from Python.

A client is what differs: how it creates, sends, polls and commits. The order of things is here.
Members of a group take turns in one thread, so nobody sees anything while another is looked at.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tests.e2e.clients.plan import PARTITIONS, WHEN, Plan, say

__all__ = ["Client", "Member", "Place", "Sending", "Sight", "tell"]

Place = tuple[int, int]
"""A partition and an offset."""


@dataclass(frozen=True, kw_only=True)
class Sending:
    """A record to be sent; without a partition, to the one that the client finds for its key."""

    value: str
    key: str | None = None
    partition: int | None = None
    timestamp: int | None = None


@dataclass(frozen=True)
class Sight:
    """A record as a consumer saw it."""

    partition: int
    offset: int
    value: str
    timestamp: int = -1


class Member(ABC):
    """A consumer."""

    @abstractmethod
    def poll(self, most: int = 100) -> list[Sight]:
        """What is there now, after a moment of waiting."""

    @abstractmethod
    def owned(self) -> list[int]:
        """The partitions it has."""

    @abstractmethod
    def commit(self, next_offsets: Mapping[int, int] | None = None) -> None:
        """Commit these offsets, or those of all it has polled, and wait for the answer."""

    @abstractmethod
    def close(self) -> None:
        """Leave in good order."""


class Client(ABC):
    """One of the Kafka clients; everything not said here is left to its defaults."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    @abstractmethod
    def create(self, topics: Sequence[str]) -> None:
        """Create topics of three partitions."""

    @abstractmethod
    def partitions(self) -> dict[str, int]:
        """The topics that are there, and how many partitions they have."""

    @abstractmethod
    def send(
        self,
        topic: str,
        records: Sequence[Sending],
        *,
        codec: str | None = None,
        idempotent: bool = False,
    ) -> list[Place] | None:
        """Send records with a new producer and return where they went, if the client tells."""

    @abstractmethod
    def join(self, group: str, topic: str, count: int | None = None) -> Member:
        """A new member that begins at the first record, where nothing was committed.

        With a count, it is polled for so many records and not for more.
        """

    @abstractmethod
    def offsets_at(self, topic: str, time_ms: int) -> dict[int, int | None]:
        """The first offset of each partition at or after a time."""

    @abstractmethod
    def read_from(self, topic: str, starts: Mapping[int, int]) -> Member:
        """A consumer without a group, of these partitions from these offsets."""


def tell(client: Client) -> None:
    """Tell all of it."""
    plan = client.plan
    _create(client)
    for label in plan.labels:
        _produce(client, label)
    _group(client)
    _resume(client)
    _times(client)
    say("done")


def _create(client: Client) -> None:
    topics = [client.plan.topic(name) for name in ("codecs", "group", "times")]
    client.create(topics)
    found: dict[str, int] = {}

    def have_all() -> bool:
        # Kafka says that a topic was created a little before its brokers know it.
        found.update(client.partitions())
        return found.keys() >= set(topics)

    _wait(client.plan, "new topics", have_all)
    say("created", topics={name: found[name] for name in topics})


def _produce(client: Client, label: str) -> None:
    plan, idempotent = client.plan, label == "idempotent"
    numbers = range(plan.records)
    records = [Sending(key=str(i), value=plan.value(label, i)) for i in numbers]
    codec = None if idempotent else label
    places = client.send(plan.topic("codecs"), records, codec=codec, idempotent=idempotent)
    acked = None
    if places is not None:
        acked = [(i, *place) for i, place in zip(numbers, places, strict=True)]
    say("produced", label=label, acked=acked)


class _Crew:
    """The members of the group, and all they have seen."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._members: dict[str, Member] = {}
        self.seen: list[tuple[str, int, int, str]] = []

    def join(self, name: str) -> None:
        plan = self._client.plan
        self._members[name] = self._client.join(plan.topic("group"), plan.topic("group"))

    def leave(self, name: str) -> None:
        self._members.pop(name).close()

    def leave_all(self) -> None:
        for name in list(self._members):
            self.leave(name)

    def wait_for_owners(self, when: str) -> None:
        owned: dict[str, list[int]] = {}

        def have_owners() -> bool:
            self._look()
            owned.clear()
            owned.update({name: sorted(one.owned()) for name, one in self._members.items()})
            every = sorted(partition for some in owned.values() for partition in some)
            return all(owned.values()) and every == list(range(PARTITIONS))

        _wait(self._client.plan, "owners", have_owners)
        say("owned", when=when, owned=owned)

    def wave(self, number: int) -> None:
        plan = self._client.plan
        records = [
            Sending(partition=partition, value=plan.value(f"wave{number}", i))
            for partition in range(PARTITIONS)
            for i in range(plan.wave)
        ]
        self._client.send(plan.topic("group"), records)

        def all_seen() -> bool:
            self._look()
            return len(self.seen) >= len(records) * (number + 1)

        _wait(plan, "records of a wave", all_seen)
        for member in self._members.values():
            member.commit()

    def _look(self) -> None:
        for name, member in self._members.items():
            self.seen += [(name, one.partition, one.offset, one.value) for one in member.poll()]


def _group(client: Client) -> None:
    crew = _Crew(client)
    for name in "abc":
        crew.join(name)
    crew.wait_for_owners(WHEN[0])
    crew.wave(0)
    crew.leave("c")
    crew.wait_for_owners(WHEN[1])
    crew.wave(1)
    crew.join("d")
    crew.wait_for_owners(WHEN[2])
    crew.wave(2)
    crew.leave_all()
    say("seen", records=crew.seen)


def _resume(client: Client) -> None:
    half = client.plan.all_records // 2
    first = _read(client, half, commit=True)
    then = _read(client, client.plan.all_records - half, commit=False)
    say("resumed", first=first, then=then)


def _read(client: Client, count: int, *, commit: bool) -> list[tuple[int, int, str]]:
    plan = client.plan
    seen: list[tuple[int, int, str]] = []
    member = client.join(plan.topic("resume"), plan.topic("codecs"), count)

    def enough() -> bool:
        found = member.poll(count - len(seen))
        seen.extend((one.partition, one.offset, one.value) for one in found)
        return len(seen) >= count

    _wait(plan, "records to resume", enough)
    assert len(seen) == count, f"{len(seen)} records, {count} were asked for"
    if commit:
        member.commit({partition: offset + 1 for partition, offset, _ in seen})
    member.close()
    return seen


def _times(client: Client) -> None:
    plan, topic = client.plan, client.plan.topic("times")
    records = [
        Sending(partition=partition, timestamp=time_ms, value=plan.value("times", i))
        for i, (partition, time_ms) in enumerate(plan.times)
    ]
    client.send(topic, records)
    offsets = client.offsets_at(topic, plan.target_ms)
    starts = {partition: offset for partition, offset in offsets.items() if offset is not None}
    read: dict[int, Place] = {}
    consumer = client.read_from(topic, starts)

    def one_each() -> bool:
        for one in consumer.poll():
            read.setdefault(one.partition, (one.offset, one.timestamp))
        return read.keys() == starts.keys()

    _wait(plan, "records of a time", one_each)
    consumer.close()
    say("times", offsets=offsets, read=read)


def _wait(plan: Plan, what: str, there: Callable[[], bool]) -> None:
    """Wait for something that polls while it looks, and so takes its own time."""
    deadline = time.monotonic() + plan.patience_s
    while not there():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited too long for {what}")
