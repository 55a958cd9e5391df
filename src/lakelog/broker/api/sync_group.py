"""SyncGroup (key 14, versions 0 to 5).

Behaviour
    All members wait for what the leader decides, and get their part of it when it is stored. The
    bytes are the clients' own: the broker does not look into them.

Versions
    3 adds static members. 5 says which protocol is meant, and is refused if it is another one.
"""

from collections.abc import Awaitable

from kio.schema.errors import ErrorCode
from kio.schema.sync_group.v5.request import SyncGroupRequest

from lakelog.broker.services import Call, Services, then
from lakelog.groups import Code, Sync, SyncAnswer
from lakelog.security import Operation
from lakelog.wire import Fields

__all__ = ["sync_group"]


async def sync_group(
    services: Services, call: Call, request: SyncGroupRequest
) -> Fields | Awaitable[Fields]:
    """Wait for an assignment."""
    if not call.may_group(Operation.READ, request.group_id):
        return _fields(SyncAnswer(code=Code.GROUP_AUTHORIZATION_FAILED))
    event = Sync(
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation=request.generation_id,
        protocol_type=request.protocol_type,
        protocol=request.protocol_name,
        assignments=tuple((one.member_id, one.assignment) for one in request.assignments),
    )
    return then(services.coordinator.sync(request.group_id, event), _fields)


def _fields(answer: SyncAnswer) -> Fields:
    return {
        "error_code": ErrorCode(answer.code),
        "protocol_type": answer.protocol_type,
        "protocol_name": answer.protocol,
        "assignment": answer.assignment,
    }
