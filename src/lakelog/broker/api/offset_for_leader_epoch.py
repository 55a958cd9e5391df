"""OffsetForLeaderEpoch (key 23, versions 2 to 4).

Behaviour
    Consumers ask it after a change of leader, to find out whether the log was truncated behind
    them. Nothing is ever truncated here, so the answer is the end of the log, in the epoch that was
    asked for.
"""

from kio.schema.errors import ErrorCode
from kio.schema.offset_for_leader_epoch.v4.request import OffsetForLeaderEpochRequest

from lakelog.broker.codes import read_code
from lakelog.broker.services import Call, Services
from lakelog.errors import LakelogError
from lakelog.wire import Fields

__all__ = ["offset_for_leader_epoch"]


async def offset_for_leader_epoch(
    services: Services,
    call: Call,
    request: OffsetForLeaderEpochRequest,
) -> Fields:
    """Say where epochs end."""
    topics: list[Fields] = []
    for topic in request.topics:
        rows = [
            await _end(services, str(topic.topic), one.partition, one.leader_epoch)
            for one in topic.partitions
        ]
        topics.append({"topic": topic.topic, "partitions": rows})
    return {"topics": topics}


async def _end(services: Services, name: str, index: int, epoch: int) -> Fields:
    try:
        await services.catalog.topic(name)
        entry = services.catalog.known(name)
        partition = None if entry is None else entry.partition(index)
        if partition is None:
            code = ErrorCode.unknown_topic_or_partition
            return {"partition": index, "error_code": code, "leader_epoch": -1, "end_offset": -1}
        end = await partition.latest()
    except LakelogError as error:
        code = read_code(error)
        return {"partition": index, "error_code": code, "leader_epoch": -1, "end_offset": -1}
    return {"partition": index, "leader_epoch": epoch, "end_offset": end}
