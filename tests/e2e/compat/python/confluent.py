"""The worker of confluent-kafka."""

import importlib.metadata
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
    libversion,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from tests.e2e.compat.python.answering import NAMES, absent, answer_all, new_name

__all__ = ["Confluent"]

_WAIT_S = 60
_SETTINGS = {
    "acks": "acks", "codec": "compression.type", "idempotent": "enable.idempotence",
    "in_flight": "max.in.flight.requests.per.connection", "batch_bytes": "batch.size",
    "max_bytes": "message.max.bytes", "refresh_ms": "topic.metadata.refresh.interval.ms",
    "reset": "auto.offset.reset", "isolation": "isolation.level", "instance": "group.instance.id",
    "protocol": "group.protocol",
}  # fmt: skip


class _Member:
    def __init__(self, consumer: Consumer) -> None:
        self.consumer = consumer
        self.changes: list[tuple[str, list[tuple[str, int]]]] = []

    def noting(self, kind: str) -> Callable[[Consumer, Iterable[TopicPartition]], None]:
        def note(_: Consumer, places: Iterable[TopicPartition]) -> None:
            self.changes.append((kind, [(one.topic, one.partition) for one in places]))

        return note


class Confluent:
    """The client at an address."""

    def __init__(self, bootstrap: str) -> None:
        self._base = {"bootstrap.servers": bootstrap, "log_level": 2}
        self._admin = AdminClient(self._base)
        self._producers: dict[str, Producer] = {}
        self._members: dict[str, _Member] = {}
        # One that nobody holds any more would close itself, and wait for that.
        self._gone: list[Consumer] = []

    # ---------------------------------------------------------------- producing

    def version(self) -> str:
        return f"{importlib.metadata.version('confluent-kafka')} (librdkafka {libversion()[0]})"

    def produce(
        self,
        topic: str,
        records: list[dict[str, Any]],
        settings: Mapping[str, object],
        keep: str | None,
    ) -> list[tuple[int, int] | None]:
        producer = self._producers.get(keep or "") or self._producer(settings)
        if keep:
            self._producers[keep] = producer
        told: dict[int, tuple[int, int] | None] = {}
        errors: list[KafkaError] = []

        def noting(number: int) -> Callable[[KafkaError | None, Message], None]:
            def note(error: KafkaError | None, message: Message) -> None:
                if error is not None:
                    errors.append(error)
                offset = message.offset()
                told[number] = (
                    None if offset is None or offset < 0 else (message.partition(), offset)
                )

            return note

        for number, one in enumerate(records):
            given = {
                name: one[name] for name in ("partition", "timestamp") if one[name] is not None
            }
            headers = [(name, value.encode()) for name, value in one["headers"]]
            producer.produce(
                topic,
                one["value"],
                one["key"],
                headers=headers,
                on_delivery=noting(number),
                **given,
            )
        if producer.flush(_WAIT_S):
            raise TimeoutError("not all records were sent")
        if errors:
            raise KafkaException(errors[0])
        return [told[number] for number in range(len(records))]

    def _producer(self, settings: Mapping[str, object]) -> Producer:
        # Its own choice is CRC-32, unless it is told to choose as Java does.
        return Producer({**self._base, "partitioner": "murmur2_random", **_named(settings)})

    def transact(self, name: str, topic: str, values: list[str], end: str) -> None:
        producer = Producer({**self._base, "transactional.id": name})
        producer.init_transactions(_WAIT_S)
        producer.begin_transaction()
        for value in values:
            producer.produce(topic, value)
        producer.flush(_WAIT_S)
        if end == "commit":
            producer.commit_transaction(_WAIT_S)
        else:
            producer.abort_transaction(_WAIT_S)

    # ---------------------------------------------------------------- topics

    def topics(self) -> dict[str, int]:
        found = self._admin.list_topics(timeout=_WAIT_S).topics
        return {name: len(about.partitions) for name, about in found.items()}

    def create_topic(self, topic: str, partitions: int, configs: dict[str, str]) -> None:
        _done(self._admin.create_topics([NewTopic(topic, partitions, 1, config=configs)]))

    def delete_topic(self, topic: str) -> None:
        _done(self._admin.delete_topics([topic]))

    def create_partitions(self, topic: str, count: int) -> None:
        _done(self._admin.create_partitions([NewPartitions(topic, count)]))

    def describe_configs(self, topic: str) -> dict[str, str]:
        (found,) = _done(self._admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]))
        return {name: one.value for name, one in found.items()}

    def alter_configs(self, topic: str, set: dict[str, str], delete: list[str]) -> None:
        entries = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
            for name, value in set.items()
        ] + [
            ConfigEntry(name, None, incremental_operation=AlterConfigOpType.DELETE)
            for name in delete
        ]
        what = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
        _done(self._admin.incremental_alter_configs([what]))

    def alter_configs_older(self, topic: str, configs: dict[str, str]) -> None:
        _done(self._admin.alter_configs([ConfigResource(ResourceType.TOPIC, topic, configs)]))

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        _done(self._admin.delete_records([TopicPartition(topic, partition, before)]))

    def describe_cluster(self) -> dict[str, object]:
        found = self._admin.describe_cluster().result(_WAIT_S)
        brokers = [(one.id, one.host, one.port) for one in found.nodes]
        return {"brokers": brokers, "controller": found.controller.id, "cluster": found.cluster_id}

    def offsets(self, topic: str, partition: int, at: str | int) -> int | None:
        spec = {"earliest": OffsetSpec.earliest(), "latest": OffsetSpec.latest()}.get(str(at))
        wanted = {TopicPartition(topic, partition): spec or OffsetSpec.for_timestamp(int(at))}
        (found,) = _done(self._admin.list_offsets(wanted))
        return found.offset if found.offset >= 0 else None

    # ---------------------------------------------------------------- consuming

    def open(
        self,
        group: str | None,
        topics: list[str],
        pattern: str | None,
        assign: list[tuple[str, int]],
        settings: Mapping[str, object],
    ) -> str:
        name = new_name()
        more = {"partition.assignment.strategy": "cooperative-sticky"}
        consumer = Consumer(
            {
                **self._base,
                "group.id": group or name,
                "enable.auto.commit": False,
                "topic.metadata.refresh.interval.ms": 5_000,
                **(more if settings.get("assignor") == "cooperative" else {}),
                **_named(settings),
            }
        )
        member = self._members[name] = _Member(consumer)
        if assign:
            consumer.assign([TopicPartition(topic, partition) for topic, partition in assign])
        else:
            consumer.subscribe(
                [pattern] if pattern else topics,
                on_assign=member.noting("assigned"),
                on_revoke=member.noting("revoked"),
                on_lost=member.noting("revoked"),
            )
        return name

    def poll(self, consumer: str, ms: int, most: int) -> list[dict[str, object]]:
        found = self._members[consumer].consumer.consume(most, ms / 1_000)
        for one in found:
            if one.error() is not None:
                raise KafkaException(one.error())
        return [
            {
                "topic": one.topic(), "partition": one.partition(), "offset": one.offset(),
                "key": _text(one.key()), "value": _text(one.value()),
                "headers": [(name, _text(value)) for name, value in one.headers() or ()],
                "timestamp": one.timestamp()[1],
            }
            for one in found
        ]  # fmt: skip

    def assigned(self, consumer: str) -> list[tuple[str, int]]:
        found = self._members[consumer].consumer.assignment()
        return [(one.topic, one.partition) for one in found]

    def changes(self, consumer: str) -> list[tuple[str, list[tuple[str, int]]]]:
        return self._members[consumer].changes

    def seek(self, consumer: str, topic: str, partition: int, offset: int) -> None:
        self._members[consumer].consumer.seek(TopicPartition(topic, partition, offset))

    def pause(self, consumer: str, topic: str, partition: int) -> None:
        self._members[consumer].consumer.pause([TopicPartition(topic, partition)])

    def resume(self, consumer: str, topic: str, partition: int) -> None:
        self._members[consumer].consumer.resume([TopicPartition(topic, partition)])

    def commit(self, consumer: str, topic: str, partition: int, offset: int, metadata: str) -> None:
        place = TopicPartition(topic, partition, offset, metadata)
        (done,) = self._members[consumer].consumer.commit(offsets=[place], asynchronous=False)
        _check(done.error)

    def committed(self, consumer: str, topic: str, partition: int) -> tuple[int, str] | None:
        asked = [TopicPartition(topic, partition)]
        (found,) = self._members[consumer].consumer.committed(asked, _WAIT_S)
        _check(found.error)
        return (found.offset, found.metadata) if found.offset >= 0 else None

    def close(self, consumer: str) -> None:
        member = self._members.pop(consumer)
        member.consumer.close()
        self._gone.append(member.consumer)

    # ---------------------------------------------------------------- groups

    def group_offset(self, group: str, topic: str, partition: int) -> int | None:
        asked = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, partition)])
        (found,) = _done(self._admin.list_consumer_group_offsets([asked]))
        (place,) = found.topic_partitions
        _check(place.error)
        return place.offset if place.offset >= 0 else None

    def list_groups(self) -> list[str]:
        found = self._admin.list_consumer_groups().result(_WAIT_S)
        for error in found.errors:
            raise error
        return [one.group_id for one in found.valid]

    def describe_group(self, group: str) -> dict[str, object]:
        (found,) = _done(self._admin.describe_consumer_groups([group]))
        places = [one.assignment.topic_partitions for one in found.members]
        members = [[(at.topic, at.partition) for at in some] for some in places]
        return {"state": found.state.name, "members": members}

    def delete_group(self, group: str) -> None:
        _done(self._admin.delete_consumer_groups([group]))


def _named(settings: Mapping[str, object]) -> dict[str, object]:
    return {_SETTINGS[name]: value for name, value in settings.items() if name in _SETTINGS}


def _done(promised: Mapping[Any, Any]) -> list[Any]:
    return [one.result(_WAIT_S) for one in promised.values()]


def _check(error: KafkaError | None) -> None:
    if error is not None:
        raise KafkaException(error)


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


def _name_of(error: Exception) -> str:
    if isinstance(error, KafkaException):
        code = error.args[0].code()
        return NAMES.get(code) or str(error.args[0].name())
    return type(error).__name__


def main() -> None:
    client = Confluent(sys.argv[1])
    own = {name: getattr(client, name) for name in vars(Confluent) if not name.startswith("_")}
    missing = {
        "describe_log_dirs": absent("its admin client cannot describe log directories"),
        "delete_offset": absent("its admin client cannot delete offsets of a group"),
    }
    answer_all({**own, **missing}, _name_of)


if __name__ == "__main__":
    main()
