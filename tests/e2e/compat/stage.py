"""What a behaviour has at hand: the client, topics and groups of its own, and checks.

Topics that are not what a behaviour is about are made by a steward, with confluent-kafka: a client
without a call for that can read and write all the same.
"""

import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic, OffsetSpec

__all__ = [
    "AbsentError", "Asked", "Consumer", "Record", "RefusedError", "Stage", "Steward", "WrongError",
    "check", "elapsed", "same", "until",
]  # fmt: skip

_POLL_MS = 200
_STEWARD_S = 60


class AbsentError(Exception):
    """The client has no such call."""


class RefusedError(Exception):
    """The client said no, by the name of one of Kafka's errors."""

    def __init__(self, name: str, words: str) -> None:
        super().__init__(f"{name}: {words}")
        self.name = name


class WrongError(AssertionError):
    """What came is not what should have come."""


class Asked(Protocol):
    """A worker."""

    async def ask(self, op: str, **fields: object) -> Any:
        """Have it done, or raise one of the errors above."""


@dataclass(frozen=True, kw_only=True)
class Record:
    """One record, to be sent or as it was read."""

    value: str | None
    key: str | None = None
    headers: Sequence[tuple[str, str]] = ()
    partition: int | None = None
    timestamp: int | None = None
    topic: str = ""
    offset: int = -1

    def to_send(self) -> dict[str, object]:
        sent = ("value", "key", "headers", "partition", "timestamp")
        return {name: getattr(self, name) for name in sent}


class Steward:
    """Makes topics and sends records, by a client that is not judged."""

    def __init__(self, bootstrap: str) -> None:
        self._settings = {"bootstrap.servers": bootstrap, "log_level": 2}
        self._admin = AdminClient(self._settings)

    async def create(self, topic: str, partitions: int, configs: Mapping[str, str]) -> None:
        made = NewTopic(topic, partitions, 1, config=dict(configs))
        await self._done(self._admin.create_topics([made]))
        await self._see(topic, partitions)

    async def grow(self, topic: str, partitions: int) -> None:
        await self._done(self._admin.create_partitions([NewPartitions(topic, partitions)]))
        await self._see(topic, partitions)

    async def send(self, topic: str, records: Sequence[Record]) -> None:
        await asyncio.to_thread(self._send, topic, records)

    def _send(self, topic: str, records: Sequence[Record]) -> None:
        producer = Producer(self._settings)
        for one in records:
            given = {"partition": one.partition, "timestamp": one.timestamp}
            named = {name: value for name, value in given.items() if value is not None}
            producer.produce(topic, one.value, one.key, **named)
        assert producer.flush(_STEWARD_S) == 0, f"{topic}: not all was sent"

    async def kind(self, group: str) -> str:
        """The protocol of a group: CLASSIC or CONSUMER."""
        found = await asyncio.to_thread(self._admin.list_consumer_groups().result, _STEWARD_S)
        return next((one.type.name for one in found.valid if one.group_id == group), "none")

    async def wake(self, topic: str) -> None:
        """Commit an offset. The first who does so waits until a new Kafka has a topic for that."""
        await asyncio.to_thread(self._wake, topic)

    def _wake(self, topic: str) -> None:
        consumer = ConfluentConsumer({**self._settings, "group.id": f"{topic}-first"})
        deadline = time.monotonic() + _STEWARD_S
        while True:
            try:
                consumer.commit(offsets=[TopicPartition(topic, 0, 0)], asynchronous=False)
                break
            except KafkaException:
                if time.monotonic() > deadline:
                    raise
        consumer.close()

    async def _done(self, promised: Mapping[Any, Any]) -> None:
        for one in promised.values():
            await asyncio.to_thread(one.result, _STEWARD_S)

    async def _see(self, topic: str, partitions: int) -> None:
        """Wait. Kafka says that a topic was created a little before its brokers know it, and tells
        of its partitions a little before they lead them. Some clients make a meal of that."""
        while not await self._is_led(topic, partitions):
            await asyncio.sleep(0.02)

    async def _is_led(self, topic: str, partitions: int) -> bool:
        found = await asyncio.to_thread(self._admin.list_topics, timeout=_STEWARD_S)
        if topic not in found.topics or len(found.topics[topic].partitions) < partitions:
            return False
        places = [TopicPartition(topic, partition) for partition in range(partitions)]
        told = self._admin.list_offsets(dict.fromkeys(places, OffsetSpec.latest()))
        try:
            await self._done(told)
        except KafkaException:
            return False
        return True


@dataclass
class Stage:
    """For one behaviour of one client."""

    client: Asked
    steward: Steward
    prefix: str
    bootstrap: str
    many: str = ""
    """A topic of a thousand partitions, with a record in each."""
    _numbers: Any = field(default_factory=itertools.count)

    def name(self, about: str = "") -> str:
        """A new name for a topic or a group."""
        return f"{self.prefix}-{about or next(self._numbers)}"

    async def topic(self, partitions: int = 1, **configs: object) -> str:
        """A new topic; `retention_ms=1` sets `retention.ms`."""
        name = self.name()
        dotted = {key.replace("_", "."): str(value) for key, value in configs.items()}
        await self.steward.create(name, partitions, dotted)
        return name

    async def ask(self, op: str, **fields: object) -> Any:
        return await self.client.ask(op, **fields)

    async def produce(
        self, topic: str, records: Sequence[Record], keep: str | None = None, **settings: object
    ) -> list[tuple[int, int] | None]:
        """Send records by the client: where each of them went, as far as the client tells."""
        lines = [one.to_send() for one in records]
        told = await self.ask(
            "produce", topic=topic, records=lines, settings=settings, keep=keep
        )  # fmt: skip
        check(len(told) == len(records), f"{len(told)} of {len(records)} records were answered for")
        return [None if one is None else (one[0], one[1]) for one in told]

    @contextlib.asynccontextmanager
    async def consumer(self, **how: Any) -> AsyncIterator["Consumer"]:
        """A consumer: `topics`, `pattern` or `assign`, `group`, and settings."""
        one = await self.open(**how)
        yield one
        # Where something was wrong, the consumer is left to the end of its worker.
        await one.close()

    async def open(
        self,
        *,
        group: str | None = None,
        topics: Sequence[str] = (),
        pattern: str | None = None,
        assign: Sequence[tuple[str, int]] = (),
        **settings: object,
    ) -> "Consumer":
        name = await self.ask(
            "open", group=group, topics=list(topics), pattern=pattern, assign=list(assign),
            settings={"reset": "earliest", **settings},
        )  # fmt: skip
        return Consumer(self.client, name)

    async def read(self, topic: str, count: int, partitions: int = 1) -> list[Record]:
        """Read so many records from the beginning, of each partition in order."""
        wanted = [(topic, partition) for partition in range(partitions)]
        async with self.consumer(assign=wanted) as one:
            return await one.take(count)

    async def refused(self, name: str, asked: Awaitable[object]) -> None:
        """Have something done that must be refused, by that name."""
        try:
            await asked
        except RefusedError as error:
            check(error.name == name, f"refused with {error}, and not with {name}")
            return
        raise WrongError(f"it was not refused with {name}")


@dataclass(frozen=True)
class Behaviour:
    """A row of the table."""

    sentence: str
    """What is true where it passes."""
    act: Callable[[Stage], Awaitable[None]]


@dataclass
class Consumer:
    """One consumer of the client."""

    client: Asked
    name: str

    async def _ask(self, op: str, **fields: object) -> Any:
        return await self.client.ask(op, consumer=self.name, **fields)

    async def poll(self, ms: int = _POLL_MS, most: int = 1_000) -> list[Record]:
        found = await self._ask("poll", ms=ms, most=most)
        return [
            Record(**{**one, "headers": [(key, value) for key, value in one["headers"]]})
            for one in found
        ]

    async def take(self, count: int) -> list[Record]:
        """Poll until so many records have come, and no more than that."""
        seen: list[Record] = []
        while len(seen) < count:
            seen += await self.poll()
        check(len(seen) == count, f"{len(seen)} records came, and not {count}")
        return sorted(seen, key=lambda one: (one.topic, one.partition or 0))

    async def assigned(self) -> list[tuple[str, int]]:
        return sorted((topic, partition) for topic, partition in await self._ask("assigned"))

    async def changes(self) -> list[tuple[str, list[tuple[str, int]]]]:
        """What was assigned and revoked, in order; what is empty is left out."""
        told = await self._ask("changes")
        return [(kind, sorted((t, p) for t, p in places)) for kind, places in told if places]

    async def seek(self, topic: str, partition: int, offset: int) -> None:
        await self._ask("seek", topic=topic, partition=partition, offset=offset)

    async def pause(self, topic: str, partition: int) -> None:
        await self._ask("pause", topic=topic, partition=partition)

    async def resume(self, topic: str, partition: int) -> None:
        await self._ask("resume", topic=topic, partition=partition)

    async def commit(self, topic: str, partition: int, offset: int, metadata: str = "") -> None:
        where = {"topic": topic, "partition": partition, "offset": offset}
        await self._ask("commit", **where, metadata=metadata)

    async def committed(self, topic: str, partition: int) -> tuple[int, str] | None:
        told = await self._ask("committed", topic=topic, partition=partition)
        return None if told is None else (told[0], told[1])

    async def close(self) -> None:
        await self._ask("close")


def check(is_so: bool, otherwise: object) -> None:
    """Say what is wrong, if it is."""
    if not is_so:
        raise WrongError(str(otherwise))


def same(found: object, wanted: object, what: str) -> None:
    """Say what is wrong, if two things that should be the same are not."""
    check(found == wanted, f"{what}: {_short(found)} came, and not {_short(wanted)}")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 160 else f"{text[:80]} … {text[-60:]}"


async def until(there: Callable[[], Awaitable[bool]]) -> None:
    """Wait for something that asks the client while it looks; the behaviour's limit ends it."""
    while not await there():
        await asyncio.sleep(0.01)


def elapsed(since: float) -> float:
    """Seconds since a time of the monotonic clock."""
    return time.monotonic() - since
