"""OffsetForLeaderEpoch (key 23, versions 2 to 4).

Behaviour
    Consumers ask it after a change of leader, to find out whether the log was truncated behind
    them. Nothing is ever truncated here, so the answer is the end of the log, in the epoch that was
    asked for.
"""

from kio.schema.errors import ErrorCode
from kio.schema.offset_for_leader_epoch.v4.request import OffsetForLeaderEpochRequest

from lakelog.broker.allowance import is_spent
from lakelog.broker.codes import read_code
from lakelog.broker.services import Call, Services
from lakelog.broker.slices import Looks
from lakelog.broker.turns import in_turns
from lakelog.errors import LakelogError
from lakelog.wire import Fields

__all__ = ["offset_for_leader_epoch"]


async def offset_for_leader_epoch(
    services: Services,
    call: Call,
    request: OffsetForLeaderEpochRequest,
) -> Fields:
    """Say where epochs end."""
    looks = Looks()
    ends: dict[tuple[str, int], int | ErrorCode] = {}
    """Of each partition, however often it is named."""
    topics: list[Fields] = []
    async for topic in in_turns(request.topics):
        rows: list[Fields] = []
        async for one in in_turns(topic.partitions):
            place = str(topic.topic), int(one.partition)
            if place not in ends:
                ends[place] = await _end(services, looks, *place)
            rows.append(_row(one.partition, one.leader_epoch, ends[place]))
        topics.append({"topic": topic.topic, "partitions": rows})
    return {"topics": topics}


async def _end(services: Services, looks: Looks, name: str, index: int) -> int | ErrorCode:
    if is_spent():
        return ErrorCode.leader_not_available
    try:
        await services.catalog.topic(name)
        entry = services.catalog.known(name)
        partition = None if entry is None else entry.partition(index)
        if partition is None:
            return ErrorCode.unknown_topic_or_partition
        await looks.at(partition.lane)
        return await partition.latest(is_fresh=True)
    except LakelogError as error:
        return read_code(error)


def _row(index: int, epoch: int, end: int | ErrorCode) -> Fields:
    if isinstance(end, ErrorCode):
        return {"partition": index, "error_code": end, "leader_epoch": -1, "end_offset": -1}
    return {"partition": index, "leader_epoch": epoch, "end_offset": end}
