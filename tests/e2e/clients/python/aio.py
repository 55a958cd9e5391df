"""The stories, told by aiokafka.

Its consumers work in the background of an event loop, which runs only while somebody polls. That
is often enough: the members take turns of a few milliseconds.
"""

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from tests.e2e.clients.plan import PARTITIONS, Plan, told_plan
from tests.e2e.clients.python.stories import Client, Member, Place, Sending, Sight, tell

__all__ = ["Aiokafka"]

T = TypeVar("T")
_MOMENT_MS = 20


class Aiokafka(Client):
    def __init__(self, plan: Plan, runner: asyncio.Runner) -> None:
        super().__init__(plan)
        self._runner = runner

    def create(self, topics: Sequence[str]) -> None:
        self._runner.run(self._create(topics))

    async def _create(self, topics: Sequence[str]) -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=self.plan.bootstrap)
        await admin.start()
        done = await admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in topics])
        errors = [error for error in done.topic_errors if error[1]]
        assert not errors, errors
        await admin.close()

    def partitions(self) -> dict[str, int]:
        return self._runner.run(self._partitions())

    async def _partitions(self) -> dict[str, int]:
        admin = AIOKafkaAdminClient(bootstrap_servers=self.plan.bootstrap)
        await admin.start()
        found = await admin.describe_topics()
        await admin.close()
        return {one["topic"]: len(one["partitions"]) for one in found}

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
        return self._runner.run(self._send(topic, records, settings))

    async def _send(
        self, topic: str, records: Sequence[Sending], settings: dict[str, object]
    ) -> list[Place]:
        producer = AIOKafkaProducer(bootstrap_servers=self.plan.bootstrap, **settings)
        await producer.start()
        sent = [
            await producer.send(
                topic,
                value=record.value.encode(),
                key=record.key.encode() if record.key is not None else None,
                partition=record.partition,
                timestamp_ms=record.timestamp,
            )
            for record in records
        ]
        acked = await asyncio.wait_for(asyncio.gather(*sent), self.plan.patience_s)
        await producer.stop()
        return [(one.partition, one.offset) for one in acked]

    def join(
        self,
        group: str,
        topic: str,
        count: int | None = None,  # noqa: ARG002
    ) -> Member:
        return self._runner.run(self._join(group, topic))

    async def _join(self, group: str, topic: str) -> Member:
        consumer = self._consumer(group)
        consumer.subscribe([topic])
        member = _Member(self._runner, consumer, topic)
        # It starts with its first assignment, for which the others must be polled meanwhile.
        member.starting = asyncio.create_task(consumer.start())
        return member

    def offsets_at(self, topic: str, time_ms: int) -> dict[int, int | None]:
        return self._runner.run(self._offsets_at(topic, time_ms))

    async def _offsets_at(self, topic: str, time_ms: int) -> dict[int, int | None]:
        consumer = self._consumer(None)
        await consumer.start()
        where = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
        answer = await consumer.offsets_for_times(dict.fromkeys(where, time_ms))
        await consumer.stop()
        return {at.partition: found and found.offset for at, found in answer.items()}

    def read_from(self, topic: str, starts: Mapping[int, int]) -> Member:
        return self._runner.run(self._read_from(topic, starts))

    async def _read_from(self, topic: str, starts: Mapping[int, int]) -> Member:
        consumer = self._consumer(None)
        await consumer.start()
        consumer.assign([TopicPartition(topic, partition) for partition in starts])
        for partition, offset in starts.items():
            consumer.seek(TopicPartition(topic, partition), offset)
        return _Member(self._runner, consumer, topic)

    def _consumer(self, group: str | None) -> AIOKafkaConsumer:
        return AIOKafkaConsumer(
            bootstrap_servers=self.plan.bootstrap,
            group_id=group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        )


class _Member(Member):
    def __init__(self, runner: asyncio.Runner, consumer: AIOKafkaConsumer, topic: str) -> None:
        self._runner = runner
        self._consumer = consumer
        self._topic = topic
        self.starting: asyncio.Task[None] | None = None

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)

    def poll(self, most: int = 100) -> list[Sight]:
        return self._run(self._poll(most))

    async def _poll(self, most: int) -> list[Sight]:
        if self.starting is not None:
            await asyncio.wait([self.starting], timeout=_MOMENT_MS / 1000)
            if not self.starting.done():
                return []
            self.starting.result()
            self.starting = None
        found = await self._consumer.getmany(timeout_ms=_MOMENT_MS, max_records=most)
        return [
            Sight(one.partition, one.offset, one.value.decode(), one.timestamp)
            for some in found.values()
            for one in some
        ]

    def owned(self) -> list[int]:
        return [one.partition for one in self._consumer.assignment()]

    def commit(self, next_offsets: Mapping[int, int] | None = None) -> None:
        places = next_offsets and {
            TopicPartition(self._topic, partition): offset
            for partition, offset in next_offsets.items()
        }
        self._run(self._consumer.commit(places))

    def close(self) -> None:
        self._run(self._consumer.stop())


if __name__ == "__main__":
    with asyncio.Runner() as runner:
        tell(Aiokafka(told_plan(), runner))
