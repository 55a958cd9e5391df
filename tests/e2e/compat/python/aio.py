"""The worker of aiokafka, whose event loop is in a thread of its own."""

import asyncio
import importlib.metadata
import sys
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from aiokafka import (
    AIOKafkaConsumer,
    AIOKafkaProducer,
    ConsumerRebalanceListener,
    OffsetAndMetadata,
    TopicPartition,
)
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import for_code

from tests.e2e.compat.python.answering import (
    NAMES,
    AbsentError,
    Operation,
    absent,
    answer_all,
    new_name,
)

__all__ = ["Aiokafka"]

_PRODUCER = {
    "idempotent": "enable_idempotence", "batch_bytes": "max_batch_size",
    "max_bytes": "max_request_size", "refresh_ms": "metadata_max_age_ms",
}  # fmt: skip
_CONSUMER = {
    "reset": "auto_offset_reset", "isolation": "isolation_level", "instance": "group_instance_id",
    "refresh_ms": "metadata_max_age_ms",
}  # fmt: skip


class _Member(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, consumer: AIOKafkaConsumer) -> None:
        self.consumer = consumer
        self.changes: list[tuple[str, list[tuple[str, int]]]] = []
        self.starting: asyncio.Task[None] | None = None

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        self.changes.append(("assigned", [(one.topic, one.partition) for one in assigned]))

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        self.changes.append(("revoked", [(one.topic, one.partition) for one in revoked]))


class Aiokafka:
    """The client at an address."""

    def __init__(self, bootstrap: str) -> None:
        self._base = {"bootstrap_servers": bootstrap}
        self._admin: AIOKafkaAdminClient = None
        self._producers: dict[str, AIOKafkaProducer] = {}
        self._members: dict[str, _Member] = {}

    async def _start(self) -> None:
        self._admin = AIOKafkaAdminClient(**self._base)
        await self._admin.start()

    # ---------------------------------------------------------------- producing

    async def version(self) -> str:
        return importlib.metadata.version("aiokafka")

    async def produce(
        self,
        topic: str,
        records: list[dict[str, Any]],
        settings: Mapping[str, Any],
        keep: str | None,
    ) -> list[tuple[int, int] | None]:
        producer = self._producers.get(keep or "") or await self._producer(settings)
        if keep:
            self._producers[keep] = producer
        sent = [
            await producer.send(
                topic,
                value=_bytes(one["value"]),
                key=_bytes(one["key"]),
                headers=[(name, value.encode()) for name, value in one["headers"]],
                partition=one["partition"],
                timestamp_ms=one["timestamp"],
            )
            for one in records
        ]
        places = await asyncio.gather(*sent)
        if not keep:
            await producer.stop()
        return [(one.partition, one.offset) if one and one.offset >= 0 else None for one in places]

    async def _producer(self, settings: Mapping[str, Any]) -> AIOKafkaProducer:
        more = {_PRODUCER[name]: value for name, value in settings.items() if name in _PRODUCER}
        if acks := settings.get("acks"):
            more["acks"] = acks if acks == "all" else int(acks)
        if codec := settings.get("codec"):
            more["compression_type"] = None if codec == "none" else codec
        producer = AIOKafkaProducer(**self._base, **more)
        await producer.start()
        return producer

    async def transact(self, name: str, topic: str, values: list[str], end: str) -> None:
        producer = AIOKafkaProducer(**self._base, transactional_id=name)
        await producer.start()
        await producer.begin_transaction()
        for value in values:
            await producer.send_and_wait(topic, value.encode())
        if end == "commit":
            await producer.commit_transaction()
        else:
            await producer.abort_transaction()
        await producer.stop()

    # ---------------------------------------------------------------- topics

    async def topics(self) -> dict[str, int]:
        found = await self._admin.describe_topics()
        return {one["topic"]: len(one["partitions"]) for one in found if not one["error_code"]}

    async def create_topic(self, topic: str, partitions: int, configs: dict[str, str]) -> None:
        made = NewTopic(topic, partitions, 1, topic_configs=configs)
        done = await self._admin.create_topics([made])
        for _, code, *words in done.topic_errors:
            _check(code, words)

    async def delete_topic(self, topic: str) -> None:
        done = await self._admin.delete_topics([topic])
        for _, code, *words in done.topic_error_codes:
            _check(code, words)

    async def create_partitions(self, topic: str, count: int) -> None:
        await self._admin.create_partitions({topic: NewPartitions(count)})

    async def describe_configs(self, topic: str) -> dict[str, str]:
        asked = [ConfigResource(ConfigResourceType.TOPIC, topic)]
        (found,) = await self._admin.describe_configs(asked)
        ((code, words, _, _, entries),) = found.resources
        _check(code, words)
        return {name: value for name, value, *_ in entries}

    async def alter_configs_older(self, topic: str, configs: dict[str, str]) -> None:
        what = ConfigResource(ConfigResourceType.TOPIC, topic, configs)
        (done,) = await self._admin.alter_configs([what])
        for code, words, *_ in done.resources:
            _check(code, words)

    async def delete_records(self, topic: str, partition: int, before: int) -> None:
        where = TopicPartition(topic, partition)
        await self._admin.delete_records({where: RecordsToDelete(before)})

    async def describe_cluster(self) -> dict[str, object]:
        found = await self._admin.describe_cluster()
        brokers = [(one["node_id"], one["host"], one["port"]) for one in found["brokers"]]
        controller = found["controller_id"]
        return {"brokers": brokers, "controller": controller, "cluster": found["cluster_id"]}

    async def offsets(self, topic: str, partition: int, at: str | int) -> int | None:
        where = TopicPartition(topic, partition)
        consumer = AIOKafkaConsumer(**self._base)
        await consumer.start()
        try:
            if at == "earliest":
                first: int = (await consumer.beginning_offsets([where]))[where]
                return first
            if at == "latest":
                end: int = (await consumer.end_offsets([where]))[where]
                return end
            found = (await consumer.offsets_for_times({where: at}))[where]
            return None if found is None else found.offset
        finally:
            await consumer.stop()

    # ---------------------------------------------------------------- consuming

    async def open(
        self,
        group: str | None,
        topics: list[str],
        pattern: str | None,
        assign: list[tuple[str, int]],
        settings: Mapping[str, Any],
    ) -> str:
        if settings.get("protocol"):
            raise AbsentError("it has the classic protocol only")
        if settings.get("assignor") == "cooperative":
            raise AbsentError("it has no cooperative assignor")
        more = {_CONSUMER[name]: value for name, value in settings.items() if name in _CONSUMER}
        consumer = AIOKafkaConsumer(
            **self._base, group_id=group, enable_auto_commit=False, **more
        )  # fmt: skip
        name = new_name()
        member = self._members[name] = _Member(consumer)
        if assign:
            consumer.assign([TopicPartition(*one) for one in assign])
            await consumer.start()
            return name
        if pattern:
            consumer.subscribe(pattern=pattern, listener=member)
        else:
            consumer.subscribe(topics, listener=member)
        # It starts with its first assignment, for which others may have to be polled meanwhile.
        member.starting = asyncio.create_task(consumer.start())
        return name

    async def poll(self, consumer: str, ms: int, most: int) -> list[dict[str, object]]:
        member = self._members[consumer]
        if member.starting is not None:
            await asyncio.wait([member.starting], timeout=ms / 1_000)
            if not member.starting.done():
                return []
            member.starting.result()
            member.starting = None
        found = await member.consumer.getmany(timeout_ms=ms, max_records=most)
        return [
            {
                "topic": one.topic, "partition": one.partition, "offset": one.offset,
                "key": _text(one.key), "value": _text(one.value), "timestamp": one.timestamp,
                "headers": [(name, _text(value)) for name, value in one.headers],
            }
            for some in found.values()
            for one in some
        ]  # fmt: skip

    async def assigned(self, consumer: str) -> list[tuple[str, int]]:
        found = self._members[consumer].consumer.assignment()
        return [(one.topic, one.partition) for one in found]

    async def changes(self, consumer: str) -> list[tuple[str, list[tuple[str, int]]]]:
        return self._members[consumer].changes

    async def seek(self, consumer: str, topic: str, partition: int, offset: int) -> None:
        self._members[consumer].consumer.seek(TopicPartition(topic, partition), offset)

    async def pause(self, consumer: str, topic: str, partition: int) -> None:
        self._members[consumer].consumer.pause(TopicPartition(topic, partition))

    async def resume(self, consumer: str, topic: str, partition: int) -> None:
        self._members[consumer].consumer.resume(TopicPartition(topic, partition))

    async def commit(
        self, consumer: str, topic: str, partition: int, offset: int, metadata: str
    ) -> None:
        place = {TopicPartition(topic, partition): OffsetAndMetadata(offset, metadata)}
        await self._members[consumer].consumer.commit(place)

    async def committed(self, consumer: str, topic: str, partition: int) -> tuple[int, str] | None:
        where = TopicPartition(topic, partition)
        group = self._members[consumer].consumer._group_id
        # Its consumers tell the offset; the metadata only its admin client.
        offset = await self._members[consumer].consumer.committed(where)
        found = await self._admin.list_consumer_group_offsets(group, partitions=[where])
        return None if offset is None else (offset, found[where].metadata)

    async def close(self, consumer: str) -> None:
        await self._members.pop(consumer).consumer.stop()

    # ---------------------------------------------------------------- groups

    async def group_offset(self, group: str, topic: str, partition: int) -> int | None:
        where = TopicPartition(topic, partition)
        found = await self._admin.list_consumer_group_offsets(group, partitions=[where])
        return found[where].offset if found[where].offset >= 0 else None

    async def list_groups(self) -> list[str]:
        return [one[0] for one in await self._admin.list_consumer_groups()]

    async def describe_group(self, group: str) -> dict[str, object]:
        from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment

        (found,) = await self._admin.describe_consumer_groups([group])
        ((code, _, state, _, _, members, *_),) = found.groups
        _check(code, [])
        decoded = [ConsumerProtocolMemberAssignment.decode(one[-1]) for one in members]
        places = [
            [(topic, partition) for topic, some in one.assignment for partition in some]
            for one in decoded
        ]
        return {"state": state.upper(), "members": places}


def _check(code: int, words: object) -> None:
    if code:
        raise for_code(code)(words)


def _bytes(value: str | None) -> bytes | None:
    return None if value is None else value.encode()


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


def _name_of(error: Exception) -> str:
    code = getattr(error, "errno", None)
    return NAMES.get(code, type(error).__name__) if code else type(error).__name__


def main() -> None:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    client = Aiokafka(sys.argv[1])

    def waiting(work: Callable[..., Awaitable[object]]) -> Operation:
        async def do(**asked: object) -> object:
            return await work(**asked)

        return lambda **asked: asyncio.run_coroutine_threadsafe(do(**asked), loop).result()

    asyncio.run_coroutine_threadsafe(client._start(), loop).result()
    own = {
        name: waiting(getattr(client, name)) for name in vars(Aiokafka) if not name.startswith("_")
    }
    missing = {
        "alter_configs": absent("its admin client has only the older way"),
        "describe_log_dirs": absent("its admin client cannot describe log directories"),
        "delete_group": absent("its admin client cannot delete groups"),
        "delete_offset": absent("its admin client cannot delete offsets of a group"),
    }
    answer_all({**own, **missing}, _name_of)


if __name__ == "__main__":
    main()
