"""DeleteTopics (key 20, versions 1 to 6).

Behaviour
    By name, and from version 6 on by id. The cell says it first, so that brokers stop; then a row
    in each lane, behind which no batch of it can come. Its objects go when the log is kept.
"""

from functools import partial
from uuid import UUID

from kio.schema.delete_topics.v6.request import DeleteTopicsRequest, DeleteTopicState
from kio.schema.errors import ErrorCode

from lakelog.broker.request_items import change_each
from lakelog.broker.services import Call, Services
from lakelog.wire import Fields

__all__ = ["delete_topics"]


async def delete_topics(services: Services, call: Call, request: DeleteTopicsRequest) -> Fields:
    """Delete topics."""
    delete = partial(_delete, services)
    rows = await change_each(request.topics, lambda one: one.name, delete, _refused)
    return {"responses": rows}


async def _delete(services: Services, one: DeleteTopicState) -> Fields:
    topic_id = b""
    if one.name is None:
        topic_id = one.topic_id.bytes if one.topic_id is not None else bytes(16)
    entry = await services.catalog.find_entry(str(one.name or ""), topic_id)
    if entry is None:
        is_named = bool(one.name)
        unknown = ErrorCode.unknown_topic_or_partition if is_named else ErrorCode.unknown_topic_id
        return _refused(one, unknown)
    topic = entry.topic
    await services.catalog.delete(topic)
    await services.coordinator.forget_topics([topic.id])
    return {"name": topic.name, "topic_id": UUID(bytes=topic.id), "error_message": None}


def _refused(one: DeleteTopicState, code: ErrorCode, message: str = "") -> Fields:
    return {
        "name": one.name,
        "topic_id": one.topic_id,
        "error_code": code,
        "error_message": message or None,
    }
