"""DeleteTopics (key 20, versions 1 to 6).

Behaviour
    By name, and from version 6 on by id. Who may describe a topic and not delete it is told that it
    is not there, if it is not; who may not describe it is told nothing of it. Who may delete the
    cluster may delete every topic, as in Kafka. The cell says it first, so that brokers stop; then
    a row in each lane, behind which no batch of it can come. Its objects go when the log is kept.
"""

from functools import partial
from uuid import UUID

from kio.schema.delete_topics.v6.request import DeleteTopicsRequest, DeleteTopicState
from kio.schema.errors import ErrorCode

from lakelog.broker.meters import QUOTA_EXCEEDED, take_mutations
from lakelog.broker.request_items import change_each, find_entry
from lakelog.broker.services import Call, Services
from lakelog.security import Operation
from lakelog.wire import Fields

__all__ = ["delete_topics"]

STRICT_FROM = 5
"""From this version on clients know THROTTLING_QUOTA_EXCEEDED (KIP-599)."""


async def delete_topics(services: Services, call: Call, request: DeleteTopicsRequest) -> Fields:
    """Delete topics."""
    delete = partial(_delete, services, call)
    rows = await change_each(request.topics, lambda one: one.name, delete, _refused)
    return {"responses": rows}


async def _delete(services: Services, call: Call, one: DeleteTopicState) -> Fields:
    topic_id = b""
    if one.name is None:
        topic_id = one.topic_id.bytes if one.topic_id is not None else bytes(16)
    elif not _may(call, Operation.DESCRIBE, str(one.name)):
        return _refused(one, ErrorCode.topic_authorization_failed)
    entry = await find_entry(services, call, str(one.name or ""), topic_id)
    if entry is None:
        is_named = bool(one.name)
        unknown = ErrorCode.unknown_topic_or_partition if is_named else ErrorCode.unknown_topic_id
        return _refused(one, unknown)
    topic = entry.topic
    if not _may(call, Operation.DELETE, topic.name):
        may_know = _may(call.quietly, Operation.DESCRIBE, topic.name)
        row = _refused(one, ErrorCode.topic_authorization_failed)
        return {**row, "name": topic.name, "topic_id": UUID(bytes=topic.id)} if may_know else row
    if not take_mutations(topic.partitions, is_strict=call.version >= STRICT_FROM):
        return _refused(one, ErrorCode.throttling_quota_exceeded, QUOTA_EXCEEDED)
    await services.catalog.delete(topic)
    await services.coordinator.forget_topics([topic.id])
    return {"name": topic.name, "topic_id": UUID(bytes=topic.id), "error_message": None}


def _may(call: Call, operation: Operation, name: str) -> bool:
    return call.quietly.may_cluster(Operation.DELETE) or call.may_topic(operation, name)


def _refused(one: DeleteTopicState, code: ErrorCode, message: str = "") -> Fields:
    return {
        "name": one.name,
        "topic_id": one.topic_id,
        "error_code": code,
        "error_message": message or None,
    }
