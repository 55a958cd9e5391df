"""A producer that never tries twice: what it is not told of may be in the log, or not.

    acked     told where it is: there, once
    unknown   sent, and no answer or an error: there once, or not at all

It is not idempotent. A record is sent in one request, once, so it cannot be there twice either.
"""

import threading
import time

from confluent_kafka import KafkaError, Message, Producer

__all__ = ["Reckless"]

_MOMENT_S = 0.01


class Reckless:
    """Sends for some seconds, ``rate`` records in each."""

    def __init__(
        self, bootstrap: str, topic: str, *, partitions: int, seconds: float, rate: float
    ) -> None:
        self.acked: dict[tuple[int, int], bytes] = {}
        """By partition and offset."""
        self.unknown: set[bytes] = set()
        self._topic, self._partitions = topic, partitions
        self._seconds, self._rate = seconds, rate
        self._settings: dict[str, str | int | float | bool] = {
            "bootstrap.servers": bootstrap,
            "log_level": 0,
            "enable.idempotence": False,
            "acks": "all",
            "retries": 0,
            "linger.ms": 5,
            "message.timeout.ms": 3_000,
            "request.timeout.ms": 2_000,
            "reconnect.backoff.max.ms": 500,
        }
        self._thread = threading.Thread(target=self._run, name="reckless")

    def start(self) -> None:
        self._thread.start()

    def join(self) -> None:
        """Wait until it is through, and knows of each record what it can know."""
        self._thread.join()

    def _run(self) -> None:
        producer = Producer(self._settings)
        began, sent = time.monotonic(), 0
        while (passed := time.monotonic() - began) < self._seconds:
            while sent < passed * self._rate:
                value = b"reckless %d" % sent
                self.unknown.add(value)
                producer.produce(
                    self._topic,
                    value,
                    partition=sent % self._partitions,
                    on_delivery=self._delivered,
                )
                sent += 1
            producer.poll(_MOMENT_S)
        producer.flush(30)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        value, partition, offset = message.value(), message.partition(), message.offset()
        if error is None:
            assert value is not None
            assert partition is not None
            assert offset is not None
            self.unknown.remove(value)
            self.acked[partition, offset] = value
