"""The lines in which topics and partitions are described, and which of them are asked for."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from lakelog_kafka_tools.admin import Entry, Moving, Partition, Topic
from lakelog_kafka_tools.java import id_text, null_text

__all__ = ["Reports", "partition_text", "topic_text"]

_NO_ID = bytes(16)
_LEAST = "min.insync.replicas"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reports:
    """What of topics is shown: all of it, or what is wrong with them."""

    under_replicated: bool = False
    unavailable: bool = False
    under_min_isr: bool = False
    at_min_isr: bool = False
    overridden: bool = False
    alive: Collection[int] = ()

    @property
    def _is_everything(self) -> bool:
        wrong = (self.under_replicated, self.unavailable, self.under_min_isr, self.at_min_isr)
        return not any(wrong)

    def shows_topic(self, entries: Iterable[Entry]) -> bool:
        """Say whether the line of a topic is shown."""
        changed = any(not entry.is_default for entry in entries)
        return self._is_everything and (not self.overridden or changed)

    def shows_partition(
        self, partition: Partition, entries: Iterable[Entry], moving: Moving | None
    ) -> bool:
        """Say whether the line of a partition is shown."""
        if self.overridden:
            return False
        if self._is_everything:
            return True
        in_sync, leader = len(partition.isr), partition.leader
        if self.under_replicated and _replication(partition, moving) > in_sync:
            return True
        if self.unavailable and (leader is None or leader not in self.alive):
            return True
        least = int(next((one.value or "1" for one in entries if one.name == _LEAST), "1"))
        if self.under_min_isr and (leader is None or in_sync < least):
            return True
        return self.at_min_isr and in_sync == least


def _replication(partition: Partition, moving: Moving | None) -> int:
    if moving is not None and {*moving.adding, *moving.removing} & set(partition.replicas):
        return len(moving.replicas) - len(moving.adding)
    return len(partition.replicas)


def topic_text(topic: Topic, entries: Iterable[Entry], moving: Moving | None) -> str:
    """Return the line of a topic."""
    changed = ",".join(
        f"{one.name}={null_text(one.value)}" for one in entries if not one.is_default
    )
    shown_id = f"\tTopicId: {id_text(topic.topic_id)}" if topic.topic_id != _NO_ID else ""
    return (
        f"Topic: {topic.name}{shown_id}\tPartitionCount: {len(topic.partitions)}"
        f"\tReplicationFactor: {_replication(topic.partitions[0], moving)}\tConfigs: {changed}"
    )


def partition_text(topic: str, partition: Partition, moving: Moving | None) -> str:
    """Return the line of a partition."""
    leader = "none" if partition.leader is None else partition.leader
    line = (
        f"\tTopic: {topic}\tPartition: {partition.number}\tLeader: {leader}"
        f"\tReplicas: {_ids(partition.replicas)}\tIsr: {_ids(partition.isr)}"
    )
    if moving is not None:
        adding, removing = _ids(moving.adding), _ids(moving.removing)
        line += f"\tAdding Replicas: {adding}\tRemoving Replicas: {removing}"
    return f"{line}\tElr: {_maybe(partition.elr)}\tLastKnownElr: {_maybe(partition.last_elr)}"


def _ids(brokers: Sequence[int]) -> str:
    return ",".join(map(str, brokers))


def _maybe(brokers: Sequence[int] | None) -> str:
    return "N/A" if brokers is None else _ids(brokers)
