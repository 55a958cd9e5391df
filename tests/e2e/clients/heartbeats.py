"""Heartbeats without a client: a script of requests, told to any cluster, and what it answered.

What may differ between clusters is left out: ids of topics, messages, and which partitions a member
has; how many it has is told. Epochs are counted from the first that anybody gets, which is 1 here:
Kafka begins with 2.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID

from kio.schema.consumer_group_heartbeat.v0.request import TopicPartitions as OwnedV0
from kio.schema.consumer_group_heartbeat.v1.request import TopicPartitions as OwnedV1
from kio.schema.errors import ErrorCode
from kio.schema.join_group.v9.request import JoinGroupRequestProtocol
from kio.schema.leave_group.v5.request import MemberIdentity
from kio.schema.offset_commit.v9.request import (
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kio.schema.offset_fetch.v9.request import OffsetFetchRequestGroup, OffsetFetchRequestTopics

from tests.parts.wire import Wire

__all__ = ["NO_TIMEOUT", "Teller"]

OFFSET_COMMIT, OFFSET_FETCH, JOIN_GROUP, DESCRIBE_GROUPS, LIST_GROUPS = 8, 9, 11, 15, 16
CLASSIC_HEARTBEAT, LEAVE_GROUP, DELETE_GROUPS, HEARTBEAT, DESCRIBE = 12, 13, 42, 68, 69

NO_TIMEOUT = timedelta(milliseconds=-1)
_OWNED: Mapping[int, Any] = {0: OwnedV0, 1: OwnedV1}
_TYPES: tuple[tuple[str, ...], ...] = ((), ("consumer",), ("classic",))


class Teller:
    """One group of one cluster, and all that was told of it."""

    def __init__(self, wire: Wire, topic: str, group: str) -> None:
        self._wire, self._topic, self._group = wire, topic, group
        self._topic_id: UUID | None = None
        self._shift: int | None = None
        """What is added to the epochs of a script."""
        self.told: list[str] = []
        self.has: dict[str, list[int]] = {}
        """What each member was last told that it has."""

    def beat(
        self,
        label: str,
        member: str,
        epoch: int,
        version: int = 1,
        owned: list[int] | None = None,
        **given: Any,
    ) -> None:
        """Send a heartbeat; one that joins says all of itself, another what is given."""
        joins = epoch == 0
        fields: dict[str, Any] = {
            "group_id": self._group,
            "member_id": member,
            "member_epoch": self._theirs(epoch),
            "rebalance_timeout": timedelta(minutes=1) if joins else NO_TIMEOUT,
            "subscribed_topic_names": (self._topic,) if joins else None,
            "topic_partitions": () if joins else None,
        }
        if owned:
            row = _OWNED[version](topic_id=self._topic_id or UUID(int=1), partitions=tuple(owned))
            fields["topic_partitions"] = (row,)
        answer = self._wire.ask(HEARTBEAT, version, **{**fields, **given})
        said = f"{label}: {answer.error_code.name}"
        if answer.error_code is ErrorCode.none:
            if self._shift is None:
                self._shift = answer.member_epoch - 1
            said += f" epoch={self._ours(answer.member_epoch)}"
            if answer.assignment is not None:
                rows = answer.assignment.topic_partitions
                self.has[member] = sorted(n for row in rows for n in row.partitions)
                self._topic_id = rows[0].topic_id if rows else self._topic_id
                said += f" has={len(self.has[member])}"
        self.told.append(said)

    def _theirs(self, epoch: int) -> int:
        return epoch + (self._shift or 0) if epoch > 0 else epoch

    def _ours(self, epoch: int) -> int:
        return epoch - (self._shift or 0) if epoch > 0 else epoch

    def commit(self, label: str, member: str, epoch: int) -> None:
        """Commit an offset for the first partition."""
        partition = OffsetCommitRequestPartition(
            partition_index=0,  # type: ignore[arg-type]
            committed_offset=7,  # type: ignore[arg-type]
            committed_metadata="",
        )
        topic = OffsetCommitRequestTopic(name=self._topic, partitions=(partition,))  # type: ignore[arg-type]
        answer = self._wire.ask(
            OFFSET_COMMIT,
            9,
            group_id=self._group,
            generation_id_or_member_epoch=self._theirs(epoch),
            member_id=member,
            topics=(topic,),
        )
        self.told.append(f"{label}: {answer.topics[0].partitions[0].error_code.name}")

    def fetch(self, label: str, member: str | None, epoch: int) -> None:
        """Fetch the offset of the first partition."""
        topic = OffsetFetchRequestTopics(name=self._topic, partition_indexes=(0,))  # type: ignore[arg-type]
        group = OffsetFetchRequestGroup(
            group_id=self._group,  # type: ignore[arg-type]
            member_id=member,
            member_epoch=self._theirs(epoch),  # type: ignore[arg-type]
            topics=(topic,),
        )
        found = self._wire.ask(OFFSET_FETCH, 9, groups=(group,), require_stable=False).groups[0]
        offsets = [one.committed_offset for row in found.topics for one in row.partitions]
        # Kafka names no partitions beside an error.
        said = offsets if found.error_code is ErrorCode.none else ""
        self.told.append(f"{label}: {found.error_code.name} {said}")

    def join_classic(self, label: str, member: str = "") -> str:
        """Join by the older protocol, as no consumer: nobody tries to migrate it."""
        answer = self._wire.ask(
            JOIN_GROUP,
            9,
            group_id=self._group,
            session_timeout=timedelta(seconds=30),
            rebalance_timeout=timedelta(seconds=30),
            member_id=member,
            protocol_type="connect",
            protocols=(JoinGroupRequestProtocol(name="range", metadata=b""),),
        )
        self.told.append(f"{label}: {answer.error_code.name}")
        return str(answer.member_id)

    def leave_classic(self, label: str, member: str) -> None:
        """Leave by the older protocol."""
        who = MemberIdentity(member_id=member)
        answer = self._wire.ask(LEAVE_GROUP, 5, group_id=self._group, members=(who,))
        codes = [one.error_code.name for one in answer.members]
        self.told.append(f"{label}: {answer.error_code.name} {codes}")

    def beat_classic(self, label: str, member: str, generation: int) -> None:
        """Send a heartbeat of the older protocol."""
        answer = self._wire.ask(
            CLASSIC_HEARTBEAT, 4, group_id=self._group, generation_id=generation, member_id=member
        )
        self.told.append(f"{label}: {answer.error_code.name}")

    def delete(self, label: str) -> None:
        """Delete the group."""
        answer = self._wire.ask(DELETE_GROUPS, 2, groups_names=(self._group,))
        self.told.append(f"{label}: {answer.results[0].error_code.name}")

    def look(self, label: str) -> None:
        """Describe and list the group, in every way."""
        group = self._wire.ask(
            DESCRIBE, 1, group_ids=(self._group,), include_authorized_operations=False
        ).groups[0]
        members = sorted(
            (
                one.member_id, one.instance_id or "", one.rack_id or "",
                self._ours(one.member_epoch), one.client_id, one.member_type,
                len(one.subscribed_topic_names), one.subscribed_topic_regex or "",
                sum(len(row.partitions) for row in one.assignment.topic_partitions),
                sum(len(row.partitions) for row in one.target_assignment.topic_partitions),
            )
            for one in group.members
        )  # fmt: skip
        self.told.append(
            f"{label}: {group.error_code.name} {group.group_state} "
            f"{self._ours(group.group_epoch)} {self._ours(group.assignment_epoch)} "
            f"{group.assignor_name} {members}"
        )
        for version in (5, 6):
            old = self._wire.ask(
                DESCRIBE_GROUPS, version, groups=(self._group,), include_authorized_operations=False
            ).groups[0]
            said = f"{old.error_code.name} {old.group_state} {len(old.members)}"
            self.told.append(f"{label}, by DescribeGroups {version}: {said}")
        for types in _TYPES:
            listed = self._wire.ask(LIST_GROUPS, 5, states_filter=(), types_filter=types).groups
            rows = [
                (one.protocol_type, one.group_state, one.group_type)
                for one in listed
                if one.group_id == self._group
            ]
            self.told.append(f"{label}, by ListGroups {types}: {rows}")
