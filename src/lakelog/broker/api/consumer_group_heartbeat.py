"""ConsumerGroupHeartbeat (key 68, versions 0 to 1): groups whose coordinator assigns (KIP-848).

Behaviour
    A member joins with epoch 0, leaves with -1 or, if it is static, for a while with -2; in between
    it tells what has changed, and is told what it may use. Whatever it is told is stored first. A
    heartbeat that changes nothing stores nothing. Topics that a member names and that are not known
    are looked for once, when it names them; later ones come with the broker's next look.

Not done
    Groups with members of both protocols: a live group of the other one is refused. Racks are kept
    and shown, and are no reason for an assignment.

Versions
    1 adds expressions, which must be RE2's, and of which a group may have so many; and from it on a
    member makes its id itself.
"""

from collections.abc import Awaitable
from datetime import timedelta
from uuid import UUID

from kio.schema.consumer_group_heartbeat.v1.request import ConsumerGroupHeartbeatRequest
from kio.schema.errors import ErrorCode

from lakelog.broker.services import Call, Services, then
from lakelog.broker.turns import in_turns
from lakelog.errors import LakelogError
from lakelog.groups import (
    Code,
    ConsumerAnswer,
    ConsumerHeartbeat,
    TopicIdPartition,
    TopicShape,
    by_topic,
)
from lakelog.security import Operation
from lakelog.wire import Fields

__all__ = ["consumer_group_heartbeat"]

NEEDS_ID_FROM = 1


async def consumer_group_heartbeat(
    services: Services, call: Call, request: ConsumerGroupHeartbeatRequest
) -> Fields | Awaitable[Fields]:
    """Let a member join, live or leave."""
    if not call.may_group(Operation.READ, str(request.group_id)):
        return _refused(Code.GROUP_AUTHORIZATION_FAILED)
    names = None
    if request.subscribed_topic_names is not None:
        names = tuple(map(str, request.subscribed_topic_names))
        if not all(call.may_topic(Operation.DESCRIBE, name) for name in names):
            return _refused(Code.TOPIC_AUTHORIZATION_FAILED)
        await _look_for(services, names)
    owned = None
    if request.topic_partitions is not None:
        owned = frozenset(
            TopicIdPartition(topic.topic_id.bytes, partition)
            for topic in request.topic_partitions
            if topic.topic_id is not None
            for partition in topic.partitions
        )
    matches = await _matches(services, call, request)
    topics = _topics(services, request, names or (), matches)
    event = ConsumerHeartbeat(
        member_id=request.member_id,
        needs_id=call.version >= NEEDS_ID_FROM,
        epoch=request.member_epoch,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        client_id=call.client_id,
        client_host=f"/{call.client_host}",  # As Kafka and its tools show it.
        rebalance_timeout_ms=request.rebalance_timeout // timedelta(milliseconds=1),
        names=names,
        regex=request.subscribed_topic_regex,
        assignor=request.server_assignor,
        owned=owned,
        topics=topics,
        matches=matches,
    )
    asked = services.coordinator.consumer_heartbeat(str(request.group_id), event)
    return then(asked, _fields)


async def _look_for(services: Services, names: tuple[str, ...]) -> None:
    """Ask the store for topics that are not known. What it does not answer is not there yet."""
    async for name in in_turns(names):
        if services.catalog.known(name) is None:
            try:
                await services.catalog.topic(name)
            except LakelogError:
                return


async def _matches(
    services: Services, call: Call, request: ConsumerGroupHeartbeatRequest
) -> dict[str, frozenset[str] | None]:
    """Return what the expressions of a group and of a request mean: topics that the client may know
    of. So the members of a group should be allowed the same.
    """
    coordinator, found = services.coordinator, dict[str, frozenset[str] | None]()
    while True:
        _, patterns = coordinator.subscriptions(str(request.group_id))
        if request.subscribed_topic_regex:
            patterns |= {request.subscribed_topic_regex}
        new = patterns - found.keys()
        if not new:
            return found
        for pattern in new:  # Meanwhile another member may come with another one.
            names = await coordinator.patterns.match(pattern, services.catalog.names())
            if names is not None and call.rules is not None:
                may = call.quietly.may_topic
                names = frozenset(name for name in names if may(Operation.DESCRIBE, name))
            found[pattern] = names


def _topics(
    services: Services,
    request: ConsumerGroupHeartbeatRequest,
    names: tuple[str, ...],
    matches: dict[str, frozenset[str] | None],
) -> dict[str, TopicShape]:
    """Return the topics that a group and a request mean."""
    named, _ = services.coordinator.subscriptions(str(request.group_id))
    wanted = {*named, *names}
    for found in matches.values():
        wanted |= found or frozenset()
    shapes: dict[str, TopicShape] = {}
    for name in wanted:
        entry = services.catalog.known(name)
        if entry is not None:
            shapes[name] = TopicShape(entry.topic.id, entry.topic.partitions)
    return shapes


def _refused(code: Code, message: str = "") -> Fields:
    return {
        "error_code": ErrorCode(code),
        "error_message": message or None,
        "member_epoch": 0,
        "heartbeat_interval": 0,
    }


def _fields(answer: ConsumerAnswer) -> Fields:
    if answer.code is not Code.NONE:
        return _refused(answer.code, answer.message)
    found: Fields = {
        "member_id": answer.member_id,
        "member_epoch": answer.epoch,
        "heartbeat_interval": answer.heartbeat_interval_ms,
    }
    if answer.assignment is not None:
        found["assignment"] = {
            "topic_partitions": [
                {"topic_id": UUID(bytes=topic_id), "partitions": partitions}
                for topic_id, partitions in by_topic(answer.assignment).items()
            ]
        }
    return found
