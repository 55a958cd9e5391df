"""OffsetForLeaderEpoch (key 23, versions 2 to 4).

Behaviour
    Consumers ask it after a change of leader, to find out whether the log was truncated behind
    them. Nothing is ever truncated here, so the answer is an offset that no consumer has reached,
    in the epoch that was asked for.

    The end of the log would not do. While this is answered the former leader, or a fetch on the
    same connection, may hand out records that were stored since. A consumer that has them and is
    told an end below believes that they were truncated: librdkafka goes to that end, and drops what
    it has read and not given to the application.
"""

from kio.schema.errors import ErrorCode
from kio.schema.offset_for_leader_epoch.v4.request import OffsetForLeaderEpochRequest

from lakelog.broker.partitions import Partition
from lakelog.broker.request_items import ask_partitions
from lakelog.broker.services import Call, Services
from lakelog.broker.turns import in_turns
from lakelog.security import Operation
from lakelog.wire import Fields

__all__ = ["offset_for_leader_epoch"]

UNENDING = (1 << 63) - 1


async def offset_for_leader_epoch(
    services: Services,
    call: Call,
    request: OffsetForLeaderEpochRequest,
) -> Fields:
    """Say where epochs end."""
    wanted = (
        (str(topic.topic), [(int(one.partition), int(one.partition)) for one in topic.partitions])
        for topic in request.topics
    )
    found = await ask_partitions(
        services,
        call,
        Operation.DESCRIBE,
        wanted,
        _end,
        _refused,
        looks_at_lanes=False,
        may_all=call.quietly.may_cluster(Operation.CLUSTER_ACTION),  # As brokers may, in Kafka.
    )
    ends = {
        (topic["name"], row["partition"]): row for topic in found for row in topic["partitions"]
    }
    topics: list[Fields] = []
    for topic in request.topics:  # Of each partition, however often it is named.
        rows = [
            {"leader_epoch": one.leader_epoch, **ends[str(topic.topic), int(one.partition)]}
            async for one in in_turns(topic.partitions)
        ]
        topics.append({"topic": topic.topic, "partitions": rows})
    return {"topics": topics}


async def _end(partition: Partition, index: int) -> Fields:
    return {"partition": index, "end_offset": UNENDING}


def _refused(index: int, code: ErrorCode, _: str) -> Fields:
    return {"partition": index, "error_code": code, "leader_epoch": -1, "end_offset": -1}
