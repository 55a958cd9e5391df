"""OffsetDelete (key 47, version 0).

Behaviour
    What a group has committed for partitions is forgotten, unless a member of it subscribes to the
    topic. That nothing was committed for one is no error.
"""

from kio.schema.errors import ErrorCode
from kio.schema.offset_delete.v0.request import OffsetDeleteRequest

from lakelog.broker.codes import read_code
from lakelog.broker.services import Call, Services
from lakelog.broker.turns import in_turns
from lakelog.errors import LakelogError
from lakelog.groups import Code, TopicIdPartition
from lakelog.security import Operation
from lakelog.wire import Fields

__all__ = ["offset_delete"]


async def offset_delete(services: Services, call: Call, request: OffsetDeleteRequest) -> Fields:
    """Forget how far a group has come in some partitions."""
    if not call.may_group(Operation.DELETE, str(request.group_id)):
        return {"error_code": ErrorCode.group_authorization_failed, "topics": []}
    partitions: dict[tuple[str, int], TopicIdPartition] = {}
    codes: dict[tuple[str, int], ErrorCode] = {}
    names: dict[bytes, str] = {}
    async for topic in in_turns(request.topics):
        name = str(topic.name)
        found, code = None, ErrorCode.topic_authorization_failed
        try:
            if call.may_topic(Operation.READ, name):
                found = await services.catalog.topic(name)
                code = ErrorCode.unknown_topic_or_partition
        except LakelogError as error:
            found, code = None, read_code(error)
        for one in topic.partitions:
            key = name, int(one.partition_index)
            if found is None or not 0 <= key[1] < found.partitions:
                codes[key] = code
            else:
                names[found.id] = name
                partitions[key] = TopicIdPartition(found.id, key[1])
    whole, told = await services.coordinator.delete_offsets(
        str(request.group_id), list(partitions.values()), names
    )
    if whole is not Code.NONE:
        return {"error_code": ErrorCode(whole), "topics": []}
    codes |= {key: ErrorCode(code) for key, code in zip(partitions, told, strict=True)}
    return {
        "topics": [
            {
                "name": topic.name,
                "partitions": [
                    {
                        "partition_index": one.partition_index,
                        "error_code": codes[str(topic.name), int(one.partition_index)],
                    }
                    for one in topic.partitions
                ],
            }
            for topic in request.topics
        ]
    }
