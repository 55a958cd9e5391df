"""The stories, told by kafka-python."""

import contextlib
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future

from kafka import (
    KafkaAdminClient,
    KafkaConsumer,
    KafkaProducer,
    TopicPartition,
)
from kafka.structs import OffsetAndMetadata

from tests.e2e.clients.plan import PARTITIONS, told_plan
from tests.e2e.clients.python.stories import Client, Member, Place, Sending, Sight, tell

__all__ = ["KafkaPython"]

_POLL_MS = 300
_MOMENT_S = 0.02
_PATIENCE_S = 60


class KafkaPython(Client):
    def create(self, topics: Sequence[str]) -> None:
        admin = KafkaAdminClient(bootstrap_servers=self.plan.bootstrap)
        how = {"num_partitions": PARTITIONS, "replication_factor": 1}
        admin.create_topics(dict.fromkeys(topics, how))
        admin.close()

    def partitions(self) -> dict[str, int]:
        admin = KafkaAdminClient(bootstrap_servers=self.plan.bootstrap)
        found = admin.describe_topics()
        admin.close()
        return {one["name"]: len(one["partitions"]) for one in found}

    def send(
        self,
        topic: str,
        records: Sequence[Sending],
        *,
        codec: str | None = None,
        idempotent: bool = False,
    ) -> list[Place]:
        settings: dict[str, object] = {}
        if codec:
            settings["compression_type"] = None if codec == "none" else codec
        if idempotent:
            settings["enable_idempotence"] = True
        producer = KafkaProducer(bootstrap_servers=self.plan.bootstrap, **settings)
        sent = [
            producer.send(
                topic,
                value=record.value.encode(),
                key=record.key.encode() if record.key is not None else None,
                partition=record.partition,
                timestamp_ms=record.timestamp,
            )
            for record in records
        ]
        acked = [one.get(timeout=self.plan.patience_s) for one in sent]
        producer.close()
        return [(one.partition, one.offset) for one in acked]

    def join(
        self,
        group: str,
        topic: str,
        count: int | None = None,  # noqa: ARG002
    ) -> Member:
        consumer = self._consumer(group)
        consumer.subscribe([topic])
        return _Member(consumer, topic)

    def offsets_at(self, topic: str, time_ms: int) -> dict[int, int | None]:
        consumer = self._consumer(None)
        where = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
        answer = consumer.offsets_for_times(dict.fromkeys(where, time_ms))
        consumer.close()
        return {at.partition: found and found.offset for at, found in answer.items()}

    def read_from(self, topic: str, starts: Mapping[int, int]) -> Member:
        consumer = self._consumer(None)
        consumer.assign([TopicPartition(topic, partition) for partition in starts])
        for partition, offset in starts.items():
            consumer.seek(TopicPartition(topic, partition), offset)
        return _Member(consumer, topic)

    def _consumer(self, group: str | None) -> KafkaConsumer:
        return KafkaConsumer(
            bootstrap_servers=self.plan.bootstrap,
            group_id=group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        )


class _Member(Member):
    """A consumer in a thread of its own, as it is meant to be used: it waits while it joins.

    It is not made for several threads, so whatever is asked of it is done between two polls.
    """

    def __init__(self, consumer: KafkaConsumer, topic: str) -> None:
        self._consumer = consumer
        self._topic = topic
        self._sights: queue.Queue[Sight] = queue.Queue()
        self._asked: queue.Queue[tuple[Callable[[], object], Future[object]]] = queue.Queue()
        self._runs = True
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def _work(self) -> None:
        while self._runs:
            for some in self._consumer.poll(timeout_ms=_POLL_MS).values():
                for one in some:
                    value = one.value.decode()
                    self._sights.put(Sight(one.partition, one.offset, value, one.timestamp))
            while not self._asked.empty():
                work, done = self._asked.get()
                try:
                    done.set_result(work())
                except Exception as error:  # noqa: BLE001 (whoever asked is told)
                    done.set_exception(error)

    def _ask(self, work: Callable[[], object]) -> None:
        done: Future[object] = Future()
        self._asked.put((work, done))
        done.result(_PATIENCE_S)

    def poll(self, most: int = 100) -> list[Sight]:
        found: list[Sight] = []
        with contextlib.suppress(queue.Empty):
            while len(found) < most:
                found.append(self._sights.get(timeout=0 if found else _MOMENT_S))
        return found

    def owned(self) -> list[int]:
        return [one.partition for one in self._consumer.assignment()]

    def commit(self, next_offsets: Mapping[int, int] | None = None) -> None:
        if next_offsets is None:
            self._ask(self._consumer.commit)
        else:
            places = {
                TopicPartition(self._topic, partition): OffsetAndMetadata(offset)
                for partition, offset in next_offsets.items()
            }
            self._ask(lambda: self._consumer.commit(places))

    def close(self) -> None:
        def close() -> None:
            self._runs = False
            self._consumer.close()

        self._ask(close)
        self._thread.join()


if __name__ == "__main__":
    tell(KafkaPython(told_plan()))
