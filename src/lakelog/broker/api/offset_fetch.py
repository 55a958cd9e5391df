"""OffsetFetch (key 9, versions 1 to 9).

Behaviour
    Answers what is stored, after asking the store whether this broker still has the group: one that
    was replaced would send consumers back to where they were. -1 where nothing is stored. A topic
    that is not there has no offsets, which is no error. Without topics, all that have offsets are
    answered. A group that is named twice is answered once, as it was named last.

Not done
    ``require_stable`` waits for transactions, of which there are none. Version 10, in which topics
    come by id.

Versions
    8 asks for many groups at once; older ones come as one. 9 adds who asks: a member of a group of
    the newer protocol must be in the epoch that it says.
"""

from collections.abc import Iterable

from kio.schema.errors import ErrorCode
from kio.schema.offset_fetch.v9.request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)

from lakelog.broker.api.offset_commit import find_topic
from lakelog.broker.services import Call, Services
from lakelog.broker.turns import in_turns
from lakelog.groups import Code, Offsets, TopicIdPartition, by_topic
from lakelog.security import Operation
from lakelog.wire import Fields

__all__ = ["offset_fetch"]


async def offset_fetch(services: Services, call: Call, request: OffsetFetchRequest) -> Fields:
    """Say how far groups have come."""
    groups = {given.group_id: given for given in request.groups}
    known = [str(one) for one in groups if call.may_group(Operation.DESCRIBE, one)]
    codes = dict.fromkeys(map(str, groups), Code.GROUP_AUTHORIZATION_FAILED)
    codes |= await services.coordinator.confirm(known)
    found = (_group(services, call, one, codes[one.group_id]) for one in groups.values())
    return {"groups": [await one async for one in in_turns(found)]}


async def _group(
    services: Services, call: Call, given: OffsetFetchRequestGroup, code: Code
) -> Fields:
    if code is not Code.NONE:
        return _no_group(given, code)
    offsets = services.coordinator.offsets(given.group_id)
    if isinstance(offsets, Code):
        return _no_group(given, offsets)
    member_id, epoch = given.member_id, given.member_epoch
    code = services.coordinator.check_member(given.group_id, member_id, epoch)
    if code is not Code.NONE:
        return _no_group(given, code)
    if given.topics is None:
        topics = _all(services, call, offsets)
    else:
        given_topics = in_turns(given.topics)
        topics = [await _topic(services, call, offsets, one) async for one in given_topics]
    return {"group_id": given.group_id, "topics": topics}


def _no_group(given: OffsetFetchRequestGroup, code: Code) -> Fields:
    """Return an answer that says no, in the group and in every partition: versions differ."""
    error = ErrorCode(code)
    topics = [
        {"name": one.name, "partitions": _refused(one.partition_indexes, error)}
        for one in given.topics or ()
    ]
    return {"group_id": given.group_id, "error_code": error, "topics": topics}


def _all(services: Services, call: Call, offsets: Offsets) -> list[Fields]:
    """Return every topic that is still there, and that the client may know of."""
    topics: list[Fields] = []
    quietly = call.quietly
    for topic_id, partitions in by_topic(offsets.rows).items():
        topic = services.catalog.by_id(topic_id)
        if topic is not None and quietly.may_topic(Operation.DESCRIBE, topic.name):
            rows = _rows(offsets, topic_id, partitions)
            topics.append({"name": topic.name, "partitions": rows})
    return topics


async def _topic(
    services: Services, call: Call, offsets: Offsets, given: OffsetFetchRequestTopics
) -> Fields:
    found = await find_topic(services, call, Operation.DESCRIBE, given.name)
    if found is ErrorCode.unknown_topic_or_partition:
        rows = _refused(given.partition_indexes, ErrorCode.none)
    elif isinstance(found, ErrorCode):
        rows = _refused(given.partition_indexes, found)
    else:
        rows = _rows(offsets, found.id, given.partition_indexes)
    return {"name": given.name, "partitions": rows}


def _rows(offsets: Offsets, topic_id: bytes, partitions: Iterable[int]) -> list[Fields]:
    rows: list[Fields] = []
    for partition in partitions:
        row = offsets.get(TopicIdPartition(topic_id, partition))
        if row is None:
            rows += _refused((partition,), ErrorCode.none)
        else:
            rows.append(
                {
                    "partition_index": partition,
                    "committed_offset": row.offset,
                    "committed_leader_epoch": row.leader_epoch,
                    "metadata": row.metadata,
                }
            )
    return rows


def _refused(partitions: Iterable[int], code: ErrorCode) -> list[Fields]:
    return [
        {
            "partition_index": partition,
            "committed_offset": -1,
            "committed_leader_epoch": -1,
            "metadata": "",
            "error_code": code,
        }
        for partition in partitions
    ]
