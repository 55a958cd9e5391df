"""Producers that send until they are told to stop, and what they were told.

    plain    value = producer, number, filler      partition = number % partitions
    keyed    key = one of a few, drawn; the partition follows from the key; some values are None

They are idempotent and never give up, so in the end each record that was sent was acknowledged, and
``acked`` is the log: nothing else is in it, and no offset is there that nobody was told.
"""

import threading
import time
from collections import Counter
from random import Random  # noqa: TID251 (seeded)
from types import TracebackType

from confluent_kafka import KafkaError, Message, Producer

from tests.e2e.broker.traffic import encode_value

__all__ = ["Endless", "Place", "Told"]

Place = tuple[int, int]
"""Partition and offset."""
Told = dict[Place, tuple[bytes | None, bytes | None]]
"""Key and value of what stands at a place."""

_MOMENT_S = 0.01
_TOMBSTONE_EVERY = 10


class Endless:
    """Sends ``rate`` records a second while its context lasts, and waits for all answers."""

    def __init__(
        self,
        number: int,
        bootstrap: str,
        topic: str,
        *,
        partitions: int,
        rate: float,
        keys: int = 0,
        size: int = 100,
    ) -> None:
        self.acked: Told = {}
        self.sent = 0
        self.errors: Counter[str] = Counter()
        self._number, self._topic, self._partitions = number, topic, partitions
        self._rate, self._keys, self._size = rate, keys, size
        self._chance = Random(number)
        self._over, self._given_up = threading.Event(), threading.Event()
        self._settings: dict[str, object] = {
            "bootstrap.servers": bootstrap,
            "log_level": 0,
            "enable.idempotence": True,
            "linger.ms": 20,
            "message.timeout.ms": 600_000,
        }
        self._thread = threading.Thread(target=self._run, name=f"endless-{number}")

    def __enter__(self) -> "Endless":
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is not None:
            self._given_up.set()
        self._over.set()
        self._thread.join()
        if error is None:
            assert not self.errors, self.errors
            assert len(self.acked) == self.sent, "some were told the same, or nothing"

    def newest(self) -> dict[bytes, bytes | None]:
        """The value of each key that was written last."""
        return {key: value for _, (key, value) in sorted(self.acked.items()) if key is not None}

    def _run(self) -> None:
        producer = Producer(self._settings)
        began = time.monotonic()
        while not self._over.is_set():
            while self.sent < (time.monotonic() - began) * self._rate:
                self._send(producer)
            producer.poll(_MOMENT_S)
        while len(producer) and not self._given_up.is_set():
            producer.flush(0.5)
        producer.purge()

    def _send(self, producer: Producer) -> None:
        value: bytes | None = encode_value(self._number, self.sent, self._size)
        key, partition = None, self.sent % self._partitions
        if self._keys:
            drawn = self._chance.randrange(self._keys)
            key, partition = b"key %d" % drawn, drawn % self._partitions
            if self._chance.randrange(_TOMBSTONE_EVERY) == 0:
                value = None
        producer.produce(self._topic, value, key, partition=partition, on_delivery=self._delivered)
        self.sent += 1

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.errors[error.name()] += 1
            return
        partition, offset = message.partition(), message.offset()
        assert partition is not None
        assert offset is not None
        if (partition, offset) in self.acked:
            self.errors["told the same"] += 1
        self.acked[partition, offset] = message.key(), message.value()
