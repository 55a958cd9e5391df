"""DescribeTopicPartitions (key 75, version 0): topics, page by page.

Behaviour
    Topics in the order of their names, from the cursor on; without names all of them. A page has
    as many partitions as are asked for, 2,000 at most, and says where the next one begins.
"""

from collections.abc import Sequence
from uuid import UUID

from kio.schema.describe_topic_partitions.v0.request import DescribeTopicPartitionsRequest
from kio.schema.errors import ErrorCode

from lakelog.broker.request_items import find_topic
from lakelog.broker.services import Call, Services
from lakelog.broker.turns import in_turns
from lakelog.catalog import Topic
from lakelog.security import Operation, ResourceType
from lakelog.wire import Fields, MetadataPartition

__all__ = ["describe_topic_partitions"]

PARTITIONS_MAX = 2_000
"""Kafka's ``max.request.partition.size.limit``."""


async def describe_topic_partitions(
    services: Services, call: Call, request: DescribeTopicPartitionsRequest
) -> Fields:
    """Describe topics and their partitions."""
    cursor = request.cursor
    first = "" if cursor is None else str(cursor.topic_name)
    named = {str(topic.name) for topic in request.topics}
    names = sorted(named) if named else services.catalog.names()
    left = max(1, min(int(request.response_partition_limit), PARTITIONS_MAX))
    rows: list[Fields] = []
    async for name in in_turns(names):
        if name < first:
            continue
        if not left:
            return {"topics": rows, "next_cursor": {"topic_name": name, "partition_index": 0}}
        if not call.may_topic(Operation.DESCRIBE, name):
            if named:
                denied = ErrorCode.topic_authorization_failed
                rows.append({"error_code": denied, **_nothing(name)})
            continue
        begin = int(cursor.partition_index) if cursor is not None and name == first else 0
        found = await find_topic(services, call, name)
        allowed = call.operations(ResourceType.TOPIC, name)
        if isinstance(found, ErrorCode):
            if named:
                rows.append({"error_code": found, **_nothing(name)})
                rows[-1]["topic_authorized_operations"] = allowed
            continue
        topic = found.topic
        end = min(topic.partitions, max(begin, 0) + left)
        leaders = found.leaders(await services.cluster.known_lane_leaders())
        rows.append(_row(topic, leaders, range(max(begin, 0), end)))
        rows[-1]["topic_authorized_operations"] = allowed
        left -= len(rows[-1]["partitions"])
        if end < topic.partitions:
            return {"topics": rows, "next_cursor": {"topic_name": name, "partition_index": end}}
    return {"topics": rows, "next_cursor": None}


def _nothing(name: str) -> Fields:
    return {"name": name, "topic_id": None, "partitions": []}


def _row(topic: Topic, leaders: Sequence[MetadataPartition], indexes: range) -> Fields:
    partitions: list[Fields] = []
    for index in indexes:
        leader, epoch, replicas = leaders[index]
        is_led = leader >= 0
        partitions.append(
            {
                "error_code": ErrorCode.none if is_led else ErrorCode.leader_not_available,
                "partition_index": index,
                "leader_id": leader,
                "leader_epoch": epoch,
                "replica_nodes": list(replicas),
                "isr_nodes": list(replicas),
                "eligible_leader_replicas": [],
                "last_known_elr": [],
                "offline_replicas": [],
            }
        )
    return {"name": topic.name, "topic_id": UUID(bytes=topic.id), "partitions": partitions}
