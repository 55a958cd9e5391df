"""ConsumerGroupDescribe (key 69, versions 0 to 1).

Behaviour
    Groups of the newer protocol: epochs, and of each member what it has and what it is to have. A
    group that is not there, or is a classic one, is GROUP_ID_NOT_FOUND. Partitions of topics that
    are gone are left out. A group that is named twice is shown once. One with a topic that the
    client may not know of is TOPIC_AUTHORIZATION_FAILED.

Versions
    1 tells which protocol a member speaks; here all of a group speak the same.
"""

from functools import partial
from uuid import UUID

from kio.schema.consumer_group_describe.v1.request import ConsumerGroupDescribeRequest
from kio.schema.errors import ErrorCode

from lakelog.broker.request_items import describe_each
from lakelog.broker.services import Call, Services
from lakelog.groups import (
    Code,
    ConsumerGroup,
    ConsumerMember,
    TopicIdPartition,
    by_topic,
    preferred_assignor,
)
from lakelog.security import Operation
from lakelog.wire import Fields

__all__ = ["consumer_group_describe"]

CONSUMER_MEMBER = 1


async def consumer_group_describe(
    services: Services, call: Call, request: ConsumerGroupDescribeRequest
) -> Fields:
    """Return what operators may know of some groups."""
    with_operations = request.include_authorized_operations
    describe = partial(_one, services, call)
    rows = await describe_each(
        services, call, request.group_ids, describe, with_operations=with_operations
    )
    return {"groups": rows}


def _one(services: Services, call: Call, group_id: str, code: Code) -> Fields:
    found = services.coordinator.consumer_group(group_id) if code is Code.NONE else code
    message = None
    if isinstance(found, ConsumerGroup):
        row = _described(services, found)
        if all(call.may_topic(Operation.DESCRIBE, name) for name in _topics(row)):
            return row
        found = Code.TOPIC_AUTHORIZATION_FAILED
        message = "The group has described topic(s) that the client is not authorized to describe."
    if found is Code.GROUP_ID_NOT_FOUND:
        is_there = services.coordinator.roster(group_id) is not None
        message = f"Group {group_id} {'is not a consumer group' if is_there else 'not found'}."
    return {
        "error_code": ErrorCode(found),
        "error_message": message,
        "group_id": group_id,
        "group_state": "",
        "group_epoch": 0,
        "assignment_epoch": 0,
        "assignor_name": "",
        "members": [],
    }


def _topics(row: Fields) -> set[str]:
    """Return the topics that a group has, or is to have."""
    return {
        topic["topic_name"]
        for member in row["members"]
        for assigned in (member["assignment"], member["target_assignment"])
        for topic in assigned["topic_partitions"]
    }


def _described(services: Services, group: ConsumerGroup) -> Fields:
    roster = group.roster
    return {
        "group_id": group.id,
        "group_state": group.state.value,
        "group_epoch": roster.epoch,
        "assignment_epoch": roster.target_epoch,
        "assignor_name": preferred_assignor(roster),
        "members": [_member(services, one) for one in roster.members.values()],
    }


def _member(services: Services, member: ConsumerMember) -> Fields:
    return {
        "member_id": member.id,
        "instance_id": member.instance_id,
        "rack_id": member.rack_id,
        "member_epoch": member.epoch,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "subscribed_topic_names": list(member.names),
        "subscribed_topic_regex": member.regex,
        "assignment": _assignment(services, member.assigned),
        "target_assignment": _assignment(services, member.target),
        "member_type": CONSUMER_MEMBER,
    }


def _assignment(services: Services, partitions: frozenset[TopicIdPartition]) -> Fields:
    rows = []
    for topic_id, indexes in by_topic(partitions).items():
        topic = services.catalog.by_id(topic_id)
        if topic is not None:
            key = UUID(bytes=topic_id)
            rows.append({"topic_id": key, "partitions": indexes, "topic_name": topic.name})
    return {"topic_partitions": rows}
