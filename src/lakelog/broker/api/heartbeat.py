"""Heartbeat (key 12, versions 0 to 4).

Behaviour
    REBALANCE_IN_PROGRESS asks a member to join again. While groups are being loaded every heartbeat
    is simply answered, so that the restart of a broker is no rebalance.

Versions
    3 adds static members.
"""

from collections.abc import Awaitable

from kio.schema.errors import ErrorCode
from kio.schema.heartbeat.v4.request import HeartbeatRequest

from lakelog.broker.services import Call, Services, then
from lakelog.groups import Code, Heartbeat
from lakelog.security import Operation
from lakelog.wire import Fields

__all__ = ["heartbeat"]


async def heartbeat(
    services: Services, call: Call, request: HeartbeatRequest
) -> Fields | Awaitable[Fields]:
    """Take note that a member lives."""
    if not call.may_group(Operation.READ, request.group_id):
        return _fields(Code.GROUP_AUTHORIZATION_FAILED)
    event = Heartbeat(
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation=request.generation_id,
    )
    return then(services.coordinator.heartbeat(request.group_id, event), _fields)


def _fields(code: Code) -> Fields:
    return {"error_code": ErrorCode(code)}
