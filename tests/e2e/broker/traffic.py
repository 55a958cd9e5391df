"""Clients whose every record can be told apart, and what each of them was told.

    value = producer, number, filler        partition = number % partitions

A sender is one producer of confluent-kafka, idempotent or not, with a thread of its own. It never
gives up on a record: an error that it is told is a wrong one, because everything that goes wrong in
these stories is over some time. A watcher reads as a group does, all the while.
"""

import struct
import threading
import time
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.patience import in_time

__all__ = [
    "UNTOLD",
    "Acked",
    "Sender",
    "Watcher",
    "create_topic",
    "decode_value",
    "read_assigned",
    "sending",
]

UNTOLD = -2
"""A batch that librdkafka would send again counts as acknowledged when one behind it is: that one
would not have been stored without it. Where it stands nobody has told."""

_VALUE = struct.Struct(">Hq")
_MOMENT_S = 0.01
_QUIET = {"log_level": 0, "reconnect.backoff.ms": 50, "reconnect.backoff.max.ms": 500}
"""Brokers come and go here: that is no news, and nobody waits long before asking again."""
_PATIENCE_S = 60.0


def encode_value(producer: int, number: int, size: int) -> bytes:
    return _VALUE.pack(producer, number) + bytes(max(size - _VALUE.size, 0))


def decode_value(value: bytes) -> tuple[int, int]:
    """Return which producer sent it, and its number there."""
    producer, number = _VALUE.unpack_from(value)
    return producer, number


def create_topic(bootstrap: str, name: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    made = admin.create_topics([NewTopic(name, partitions, 1, config={"retention.ms": "-1"})])
    for one in made.values():
        one.result(timeout=_PATIENCE_S)


class Acked(NamedTuple):
    """What a sender had been told at a moment."""

    number: int
    partitions: int
    offsets: Sequence[int]


class Sender:
    """Sends ``records`` records, ``rate`` in a second, and notes the offset of each."""

    def __init__(
        self,
        number: int,
        bootstrap: str,
        topic: str,
        *,
        partitions: int,
        records: int,
        rate: float,
        size: int = 100,
        request_timeout_ms: int = 5_000,
        idempotent: bool = True,
    ) -> None:
        self.number = number
        self.records = records
        self.partitions = partitions
        self.offsets = array("q", [-1]) * records
        """By number; -1 while it is not acknowledged, UNTOLD if it is and nobody said where."""
        self.acked = 0
        self.errors: Counter[str] = Counter()
        self._topic, self._rate, self._size = topic, rate, size
        self.idempotent = idempotent
        self._given_up = threading.Event()
        self._enough = threading.Event()
        self._settings = {
            **_QUIET,
            "bootstrap.servers": bootstrap,
            "client.id": f"sender-{number}",
            "enable.idempotence": idempotent,
            "acks": "all",
            "linger.ms": 20,
            "request.timeout.ms": request_timeout_ms,
            "message.timeout.ms": 600_000,
            "queue.buffering.max.messages": 1_000_000,
            "retry.backoff.max.ms": 500,
            "error_cb": self._complain,
        }
        self._thread = threading.Thread(target=self._run, name=f"sender-{number}")

    def start(self) -> None:
        self._thread.start()

    def so_far(self) -> Acked:
        return Acked(self.number, self.partitions, self.offsets[:])

    @property
    def is_through(self) -> bool:
        return not self._thread.is_alive()

    def finish(self) -> None:
        """Send no more, and wait for the answers that are due."""
        self._enough.set()
        self._thread.join()

    def give_up(self) -> None:
        """End without waiting for what is left: the story has failed."""
        self._given_up.set()
        self._thread.join()

    def _run(self) -> None:
        # Of this thread alone: it ends with it.
        producer = Producer(self._settings)
        began, sent = time.monotonic(), 0
        while sent < self.records and not self._given_up.is_set():
            due = min(self.records, int((time.monotonic() - began) * self._rate))
            while sent < due:
                value = encode_value(self.number, sent, self._size)
                try:
                    producer.produce(
                        self._topic,
                        value,
                        partition=sent % self.partitions,
                        on_delivery=self._delivered,
                    )
                except BufferError:
                    break
                sent += 1
            producer.poll(_MOMENT_S)
            if self._enough.is_set():
                self.records = sent
        while len(producer) and not self._given_up.is_set():
            producer.flush(0.5)
        if self._given_up.is_set():
            producer.purge()

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.errors[error.name()] += 1
            return
        value = message.value()
        assert value is not None
        _, number = decode_value(value)
        if self.offsets[number] != -1:
            self.errors["acknowledged twice"] += 1
        offset = message.offset()
        self.offsets[number] = UNTOLD if offset is None else offset
        self.acked += 1

    def _complain(self, error: KafkaError) -> None:
        if error.fatal():
            self.errors[f"fatal: {error.name()}"] += 1


@contextmanager
def sending(senders: Sequence[Sender]) -> Iterator[None]:
    """Let all of them send; none is left behind when a story fails."""
    for one in senders:
        one.start()
    try:
        yield
    except BaseException:
        for one in senders:
            one.give_up()
        raise


class Watcher:
    """A consumer in a group, that keeps what it sees and notices when something is skipped."""

    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        self.seen: dict[int, dict[int, tuple[int, int]]] = {}
        """By partition and offset: producer and number."""
        self.count = 0
        self.again = 0
        self.errors: Counter[str] = Counter()
        self._stopped = threading.Event()
        self._consumer = Consumer(
            {
                **_QUIET,
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "auto.commit.interval.ms": 500,
                "session.timeout.ms": 30_000,
                "fetch.wait.max.ms": 100,
            }
        )
        self._consumer.subscribe([topic])
        self._thread = threading.Thread(target=self._run, name="watcher")
        self._thread.start()

    def wait_for(self, count: int, within_s: float) -> None:
        """Wait until it has seen so many records."""
        end = time.monotonic() + within_s
        while self.count < count and time.monotonic() < end:
            time.sleep(0.05)  # noqa: TID251 (for another thread)

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.is_set():
            for message in self._consumer.consume(1000, 0.1):
                self._take(message)
        self._consumer.close()

    def _take(self, message: Message) -> None:
        error = message.error()
        if error is not None:
            self.errors[error.name()] += 1
            return
        value, partition, offset = message.value(), message.partition(), message.offset()
        assert value is not None
        assert partition is not None
        assert offset is not None
        seen = self.seen.setdefault(partition, {})
        sight = decode_value(value)
        if offset > len(seen):
            self.errors["skipped"] += 1
        if seen.setdefault(offset, sight) != sight:
            self.errors["changed"] += 1
        self.again += len(seen) > offset + 1
        self.count = sum(map(len, self.seen.values()))


def read_assigned(bootstrap: str, topic: str, partitions: int) -> dict[int, list[tuple[int, int]]]:
    """Return every record of every partition, as a consumer without a group reads them."""
    consumer = Consumer(
        {
            **_QUIET,
            "bootstrap.servers": bootstrap,
            "group.id": "nobody",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    found: dict[int, list[tuple[int, int]]] = {number: [] for number in range(partitions)}
    ended: set[int] = set()
    deadline = time.monotonic() + _PATIENCE_S
    while len(ended) < partitions:
        in_time(time.monotonic() < deadline, f"only {sorted(ended)} were read to their end")
        for message in consumer.consume(10_000, 0.1):
            partition, error = message.partition(), message.error()
            assert partition is not None
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                ended.add(partition)
                continue
            value = message.value()
            assert value is not None
            assert message.offset() == len(found[partition]), "a gap"
            found[partition].append(decode_value(value))
            deadline = time.monotonic() + _PATIENCE_S
    consumer.close()
    return found
