"""DescribeTopicPartitions (key 75, version 0): topics, page by page.

Behaviour
    Topics in the order of their names, from the cursor on; without names all of them. A page has
    as many partitions as are asked for, 2,000 at most, and says where the next one begins.
"""

from uuid import UUID

from kio.schema.describe_topic_partitions.v0.request import DescribeTopicPartitionsRequest
from kio.schema.errors import ErrorCode

from lakelog.broker.codes import read_code
from lakelog.broker.services import Call, Services
from lakelog.broker.turns import in_turns
from lakelog.catalog import Topic
from lakelog.errors import LakelogError
from lakelog.names import is_topic_name
from lakelog.wire import Fields

__all__ = ["describe_topic_partitions"]

PARTITIONS_MAX = 2_000
"""Kafka's ``max.request.partition.size.limit``."""


async def describe_topic_partitions(
    services: Services, call: Call, request: DescribeTopicPartitionsRequest
) -> Fields:
    """Describe topics and their partitions."""
    cursor = request.cursor
    first = "" if cursor is None else str(cursor.topic_name)
    if request.topics:
        names = sorted({str(topic.name) for topic in request.topics})
    else:
        names = [topic.name for topic in services.catalog.topics()]
    left = max(1, min(int(request.response_partition_limit), PARTITIONS_MAX))
    rows: list[Fields] = []
    async for name in in_turns(names):
        if name < first:
            continue
        if not left:
            return {"topics": rows, "next_cursor": {"topic_name": name, "partition_index": 0}}
        begin = int(cursor.partition_index) if cursor is not None and name == first else 0
        topic, code = await _find(services, name)
        if topic is None:
            if request.topics:
                rows.append({"error_code": code, "name": name, "topic_id": None, "partitions": []})
            continue
        end = min(topic.partitions, max(begin, 0) + left)
        rows.append(_row(services, topic, range(max(begin, 0), end)))
        left -= len(rows[-1]["partitions"])
        if end < topic.partitions:
            return {"topics": rows, "next_cursor": {"topic_name": name, "partition_index": end}}
    return {"topics": rows, "next_cursor": None}


async def _find(services: Services, name: str) -> tuple[Topic | None, ErrorCode]:
    if not is_topic_name(name):
        return None, ErrorCode.invalid_topic_exception
    try:
        topic = await services.catalog.topic(name)
    except LakelogError as error:
        return None, read_code(error)
    return topic, ErrorCode.unknown_topic_or_partition


def _row(services: Services, topic: Topic, indexes: range) -> Fields:
    epochs = services.catalog.epochs()
    partitions: list[Fields] = []
    for index in indexes:
        leader = services.catalog.leader(topic.lane(index))
        partitions.append(
            {
                "partition_index": index,
                "leader_id": leader,
                "leader_epoch": epochs[topic.lane(index)],
                "replica_nodes": [leader],
                "isr_nodes": [leader],
                "eligible_leader_replicas": [],
                "last_known_elr": [],
                "offline_replicas": [],
            }
        )
    return {"name": topic.name, "topic_id": UUID(bytes=topic.id), "partitions": partitions}
