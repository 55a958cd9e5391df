"""The worker of kafka-python."""

import importlib.metadata
import sys
from collections.abc import Iterable, Mapping
from typing import Any

import kafka.errors
from kafka import (
    ConsumerRebalanceListener,
    KafkaAdminClient,
    KafkaConsumer,
    KafkaProducer,
    TopicPartition,
)
from kafka.admin import (
    AlterConfigOp,
    ConfigResource,
    ConfigResourceType,
    OffsetSpec,
)
from kafka.coordinator.assignors.cooperative_sticky import (
    CooperativeStickyAssignor,
)
from kafka.structs import OffsetAndMetadata

from tests.e2e.compat.python.answering import (
    NAMES,
    AbsentError,
    absent,
    answer_all,
    new_name,
)

__all__ = ["KafkaPython"]

_WAIT_S = 60
_JOIN_MS = 1_000
_PRODUCER = {
    "idempotent": "enable_idempotence", "in_flight": "max_in_flight_requests_per_connection",
    "batch_bytes": "batch_size", "max_bytes": "max_request_size",
    "refresh_ms": "metadata_max_age_ms",
}  # fmt: skip
_CONSUMER = {
    "reset": "auto_offset_reset", "isolation": "isolation_level", "instance": "group_instance_id",
    "refresh_ms": "metadata_max_age_ms",
}  # fmt: skip


class _Member(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, consumer: KafkaConsumer) -> None:
        self.consumer = consumer
        self.changes: list[tuple[str, list[tuple[str, int]]]] = []

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        self.changes.append(("assigned", [(one.topic, one.partition) for one in assigned]))

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        self.changes.append(("revoked", [(one.topic, one.partition) for one in revoked]))


class KafkaPython:
    """The client at an address."""

    def __init__(self, bootstrap: str) -> None:
        self._base = {"bootstrap_servers": bootstrap}
        self._admin = KafkaAdminClient(**self._base)
        self._producers: dict[str, KafkaProducer] = {}
        self._members: dict[str, _Member] = {}

    # ---------------------------------------------------------------- producing

    def version(self) -> str:
        return importlib.metadata.version("kafka-python")

    def produce(
        self,
        topic: str,
        records: list[dict[str, Any]],
        settings: Mapping[str, Any],
        keep: str | None,
    ) -> list[tuple[int, int] | None]:
        producer = self._producers.get(keep or "") or self._producer(settings)
        if keep:
            self._producers[keep] = producer
        sent = [
            producer.send(
                topic,
                value=_bytes(one["value"]),
                key=_bytes(one["key"]),
                headers=[(name, value.encode()) for name, value in one["headers"]],
                partition=one["partition"],
                timestamp_ms=one["timestamp"],
            )
            for one in records
        ]
        places = [one.get(timeout=_WAIT_S) for one in sent]
        if not keep:
            producer.close()
        return [None if one.offset < 0 else (one.partition, one.offset) for one in places]

    def _producer(self, settings: Mapping[str, Any]) -> KafkaProducer:
        more = {_PRODUCER[name]: value for name, value in settings.items() if name in _PRODUCER}
        if acks := settings.get("acks"):
            more["acks"] = acks if acks == "all" else int(acks)
            # Otherwise it is idempotent, and wants all acknowledgements.
            more.setdefault("enable_idempotence", False)
        if codec := settings.get("codec"):
            more["compression_type"] = None if codec == "none" else codec
        return KafkaProducer(**self._base, **more)

    def transact(self, name: str, topic: str, values: list[str], end: str) -> None:
        producer = KafkaProducer(**self._base, transactional_id=name)
        producer.init_transactions()
        producer.begin_transaction()
        for value in values:
            producer.send(topic, value.encode()).get(timeout=_WAIT_S)
        if end == "commit":
            producer.commit_transaction()
        else:
            producer.abort_transaction()
        producer.close()

    # ---------------------------------------------------------------- topics

    def topics(self) -> dict[str, int]:
        found = self._admin.describe_topics()
        return {one["name"]: len(one["partitions"]) for one in found if not one["error_code"]}

    def create_topic(self, topic: str, partitions: int, configs: dict[str, str]) -> None:
        how = {"num_partitions": partitions, "replication_factor": 1, "configs": configs}
        self._admin.create_topics({topic: how})

    def delete_topic(self, topic: str) -> None:
        self._admin.delete_topics([topic])

    def create_partitions(self, topic: str, count: int) -> None:
        self._admin.create_partitions({topic: count})

    def describe_configs(self, topic: str) -> dict[str, str]:
        found = self._admin.describe_configs([_config(topic)], config_filter="all")
        return {name: about["value"] for name, about in found["topic"][topic].items()}

    def alter_configs(self, topic: str, set: dict[str, str], delete: list[str]) -> None:
        changes: dict[str, tuple[object, str | None]] = dict.fromkeys(
            delete, (AlterConfigOp.DELETE, None)
        )
        changes |= {name: (AlterConfigOp.SET, value) for name, value in set.items()}
        self._admin.alter_configs([_config(topic, changes)], incremental=True)

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        self._admin.delete_records({TopicPartition(topic, partition): before})

    def describe_cluster(self) -> dict[str, object]:
        found = self._admin.describe_cluster()
        brokers = [(one["broker_id"], one["host"], one["port"]) for one in found["brokers"]]
        controller = found["controller_id"]
        return {"brokers": brokers, "controller": controller, "cluster": found["cluster_id"]}

    def describe_log_dirs(self, topic: str) -> int:
        return sum(
            place["partition_size"]
            for broker in self._admin.describe_log_dirs([topic])
            for folder in broker["log_dirs"]
            for one in folder["topics"]
            for place in one["partitions"]
            if one["name"] == topic
        )

    def offsets(self, topic: str, partition: int, at: str | int) -> int | None:
        spec = {"earliest": OffsetSpec.EARLIEST, "latest": OffsetSpec.LATEST}.get(str(at), at)
        where = TopicPartition(topic, partition)
        offset: int = self._admin.list_partition_offsets({where: spec})[where].offset
        return offset if offset >= 0 else None

    # ---------------------------------------------------------------- consuming

    def open(
        self,
        group: str | None,
        topics: list[str],
        pattern: str | None,
        assign: list[tuple[str, int]],
        settings: Mapping[str, Any],
    ) -> str:
        if settings.get("protocol"):
            raise AbsentError("it has the classic protocol only")
        more = {_CONSUMER[name]: value for name, value in settings.items() if name in _CONSUMER}
        if settings.get("assignor") == "cooperative":
            more["partition_assignment_strategy"] = [CooperativeStickyAssignor]
        consumer = KafkaConsumer(**self._base, group_id=group, enable_auto_commit=False, **more)
        name = new_name()
        member = self._members[name] = _Member(consumer)
        if assign:
            consumer.assign([TopicPartition(*one) for one in assign])
        elif pattern:
            consumer.subscribe(pattern=pattern, listener=member)
        else:
            consumer.subscribe(topics, listener=member)
        return name

    def poll(self, consumer: str, ms: int, most: int) -> list[dict[str, object]]:
        member = self._members[consumer]
        # It joins its group while it polls, and what comes between two short polls may be lost.
        wait_ms = max(ms, _JOIN_MS) if member.consumer.config["group_id"] else ms
        found = member.consumer.poll(timeout_ms=wait_ms, max_records=most)
        return [
            {
                "topic": one.topic, "partition": one.partition, "offset": one.offset,
                "key": _text(one.key), "value": _text(one.value), "timestamp": one.timestamp,
                "headers": [(name, _text(value)) for name, value in one.headers],
            }
            for some in found.values()
            for one in some
        ]  # fmt: skip

    def assigned(self, consumer: str) -> list[tuple[str, int]]:
        found = self._members[consumer].consumer.assignment()
        return [(one.topic, one.partition) for one in found]

    def changes(self, consumer: str) -> list[tuple[str, list[tuple[str, int]]]]:
        return self._members[consumer].changes

    def seek(self, consumer: str, topic: str, partition: int, offset: int) -> None:
        self._members[consumer].consumer.seek(TopicPartition(topic, partition), offset)

    def pause(self, consumer: str, topic: str, partition: int) -> None:
        self._members[consumer].consumer.pause(TopicPartition(topic, partition))

    def resume(self, consumer: str, topic: str, partition: int) -> None:
        self._members[consumer].consumer.resume(TopicPartition(topic, partition))

    def commit(self, consumer: str, topic: str, partition: int, offset: int, metadata: str) -> None:
        place = {TopicPartition(topic, partition): OffsetAndMetadata(offset, metadata, -1)}
        self._members[consumer].consumer.commit(place)

    def committed(self, consumer: str, topic: str, partition: int) -> tuple[int, str] | None:
        where = TopicPartition(topic, partition)
        found = self._members[consumer].consumer.committed(where, metadata=True)
        return None if found is None else (found.offset, found.metadata)

    def close(self, consumer: str) -> None:
        self._members.pop(consumer).consumer.close()

    # ---------------------------------------------------------------- groups

    def group_offset(self, group: str, topic: str, partition: int) -> int | None:
        where = TopicPartition(topic, partition)
        found = self._admin.list_group_offsets({group: [where]})[group].get(where)
        return None if found is None or found.offset < 0 else found.offset

    def list_groups(self) -> list[str]:
        return [one["group_id"] for one in self._admin.list_groups()]

    def describe_group(self, group: str) -> dict[str, object]:
        found = self._admin.describe_groups([group])[group]
        places = [one["member_assignment"] for one in found["members"]]
        members = [
            [
                (at["topic"], partition)
                for at in some["assigned_partitions"]
                for partition in at["partitions"]
            ]
            for some in places
        ]
        return {"state": found["group_state"].upper(), "members": members}

    def delete_group(self, group: str) -> None:
        _check(self._admin.delete_groups([group])[group])

    def delete_offset(self, group: str, topic: str, partition: int) -> None:
        where = TopicPartition(topic, partition)
        _check(self._admin.delete_group_offsets(group, [where])[where])


def _config(topic: str, configs: Mapping[str, object] | None = None) -> ConfigResource:
    return ConfigResource(ConfigResourceType.TOPIC, topic, configs)


def _check(result: Any) -> None:
    """Raise what was only told: an error, or the name of one."""
    error = getattr(kafka.errors, result, None) if isinstance(result, str) else result
    if isinstance(error, type) and getattr(error, "errno", None):
        raise error


def _bytes(value: str | None) -> bytes | None:
    return None if value is None else value.encode()


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


def _name_of(error: Exception) -> str:
    code = getattr(error, "errno", None)
    return NAMES.get(code, type(error).__name__) if code else type(error).__name__


def main() -> None:
    client = KafkaPython(sys.argv[1])
    own = {name: getattr(client, name) for name in vars(KafkaPython) if not name.startswith("_")}
    missing = {
        "alter_configs_older": absent("it sends along whatever was set before"),
    }
    answer_all({**own, **missing}, _name_of)


if __name__ == "__main__":
    main()
