"""Shipping to Kafka, by a transactional producer: records and the spool's position, together.

A transaction holds a range of a partition, and the offset behind it as what the group of the spool
has committed of that partition. So Kafka knows how far it has come, and a range is there with its
position or not at all. The transactional id is the spool's: a shipper that comes back fences the
one before, whose transaction ends then, one way or the other, before the position is asked for.

Brokers without transactions get records by an idempotent producer, and the position is confirmed
here alone: a range whose confirmation was lost is there twice. That is at least once, and is done
only if it is asked for.
"""

from typing import Any

import pyarrow as pa

from lakelog.errors import InvalidInputError, UnavailableError
from lakelog.spool.cells import ShippedRange
from lakelog.spool.shipping import check_partition

__all__ = ["KafkaTarget"]

TRANSACTION_S = 60.0
IN_FLIGHT = 50_000
"""Records that the producer holds before it is waited for."""


class KafkaTarget:
    """A cluster that a spool is shipped to."""

    def __init__(
        self, servers: str, spool_id: bytes, *, at_least_once: bool = False, client: Any = None
    ) -> None:
        """``client`` is the module ``confluent_kafka``.

        Raises:
            UnavailableError: the brokers do not answer, or have no transactions.
        """
        self.name = f"kafka://{servers}"
        self._client, self._once = client, not at_least_once
        self._known: dict[str, int] = {}
        group = f"lakelog-spool-{spool_id.hex()}"
        base = {"bootstrap.servers": servers}
        settings = {**base, "enable.idempotence": True, "linger.ms": 5, "compression.type": "lz4"}
        if self._once:
            settings["transactional.id"] = group
        self._errors: list[Any] = []
        self._producer = client.Producer(settings)
        reading = {"group.id": group, "isolation.level": "read_committed"}
        self._consumer = client.Consumer({**base, **reading, "enable.auto.commit": False})
        if self._once:
            self._tried(lambda: self._producer.init_transactions(TRANSACTION_S))

    def position(self, topic: str, partition: int) -> int | None:
        """Return what the spool's group has committed: nobody else commits there."""
        if not self._once:
            return None
        wanted = [self._client.TopicPartition(topic, partition)]
        (found,) = self._tried(lambda: self._consumer.committed(wanted, TRANSACTION_S))
        if found.error is not None:
            raise UnavailableError(f"{self.name}: {found.error}: ship again")
        return int(found.offset) if found.offset >= 0 else None

    def deliver(
        self, topic: str, partition: int, range_: ShippedRange, rows: pa.RecordBatchReader
    ) -> bool:
        """Send a range, and where it ends.

        Raises:
            InvalidInputError: there is no such topic, or partition.
            UnavailableError: it is not known whether Kafka has it; the next shipment asks.
        """
        check_partition(topic, partition, self._partitions(topic))
        self._errors.clear()
        if self._once:
            self._tried(self._producer.begin_transaction)
        for batch in rows:
            for row in batch.to_pylist():
                self._send(topic, partition, row)
        self._tried(lambda: self._producer.flush(TRANSACTION_S))
        self._check()
        if self._once:
            group = self._consumer.consumer_group_metadata()
            place = [self._client.TopicPartition(topic, partition, range_.end)]
            self._tried(
                lambda: self._producer.send_offsets_to_transaction(place, group, TRANSACTION_S)
            )
            self._tried(lambda: self._producer.commit_transaction(TRANSACTION_S))
        return False

    def _send(self, topic: str, partition: int, row: dict[str, Any]) -> None:
        headers = [(one["key"], one["value"]) for one in row["headers"] or ()]
        time_ms = int(row["timestamp"].timestamp() * 1000)
        while len(self._producer) >= IN_FLIGHT:
            self._producer.poll(0.1)
        self._producer.produce(
            topic, row["value"], row["key"], partition=partition, timestamp=time_ms,
            headers=headers, on_delivery=self._delivered,
        )  # fmt: skip
        self._producer.poll(0)

    def _delivered(self, error: Any, _: Any) -> None:
        if error is not None:
            self._errors.append(error)

    def _check(self) -> None:
        if self._errors:
            raise UnavailableError(f"{self.name}: {self._errors[0]}: ship again")

    def _partitions(self, topic: str) -> int:
        if topic not in self._known:
            found = self._tried(lambda: self._producer.list_topics(topic, TRANSACTION_S))
            about = found.topics[topic]
            if about.error is not None:
                raise InvalidInputError(
                    f"{self.name}: {about.error}: create topic {topic}, with kafka-topics --create"
                )
            self._known[topic] = len(about.partitions)
        return self._known[topic]

    def _tried(self, call: Any) -> Any:
        try:
            return call()
        except self._client.KafkaException as error:
            hint = (
                "; brokers without transactions take a spool at least once: --at-least-once"
                if self._once
                else ""
            )
            raise UnavailableError(f"{self.name}: {error}: ship again{hint}") from error

    def close(self) -> None:
        """Let go of the connections."""
        self._consumer.close()
