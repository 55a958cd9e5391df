"""DeleteTopics (key 20, versions 1 to 6).

Behaviour
    By name, and from version 6 on by id. The cell says it first, so that brokers stop; then a row
    in each lane, behind which no batch of it can come. Its objects go when the log is kept.
"""

from uuid import UUID

from kio.schema.delete_topics.v6.request import DeleteTopicsRequest, DeleteTopicState
from kio.schema.errors import ErrorCode

from lakelog.broker.allowance import SPENT, is_spent
from lakelog.broker.codes import read_code
from lakelog.broker.services import Call, Services
from lakelog.broker.turns import in_turns
from lakelog.catalog import Topic
from lakelog.errors import LakelogError
from lakelog.wire import Fields

__all__ = ["delete_topics"]


async def delete_topics(services: Services, call: Call, request: DeleteTopicsRequest) -> Fields:
    """Delete topics."""
    return {"responses": [await _delete(services, one) async for one in in_turns(request.topics)]}


async def _delete(services: Services, one: DeleteTopicState) -> Fields:
    name = None if one.name is None else str(one.name)
    row: Fields = {"name": name, "topic_id": one.topic_id, "error_message": None}
    catalog = services.catalog
    if is_spent():
        return {**row, "error_code": ErrorCode.policy_violation, "error_message": SPENT}
    try:
        topic: Topic | None
        if name is not None:
            topic = await catalog.topic(name)
        else:
            id_ = one.topic_id.bytes if one.topic_id is not None else bytes(16)
            entry = await catalog.entry_by_id(id_)
            topic = None if entry is None else entry.topic
        if topic is None:
            unknown = ErrorCode.unknown_topic_or_partition if name else ErrorCode.unknown_topic_id
            return {**row, "error_code": unknown}
        await catalog.delete(topic)
    except LakelogError as error:
        return {**row, "error_code": read_code(error), "error_message": str(error)[:512]}
    await services.coordinator.forget_topics([topic.id])
    return {**row, "name": topic.name, "topic_id": UUID(bytes=topic.id)}
