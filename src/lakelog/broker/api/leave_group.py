"""LeaveGroup (key 13, versions 0 to 5).

Behaviour
    Members leave by id, static ones also by their instance alone: so operators remove them.

Versions
    3 lets many leave at once; older ones come as one, and its code is the whole answer's.
"""

from collections.abc import Awaitable

from kio.schema.errors import ErrorCode
from kio.schema.leave_group.v5.request import LeaveGroupRequest

from lakelog.broker.services import Call, Services, then
from lakelog.groups import Code, Identity, Leave, LeaveAnswer
from lakelog.security import Operation
from lakelog.wire import Fields

__all__ = ["leave_group"]


async def leave_group(
    services: Services, call: Call, request: LeaveGroupRequest
) -> Fields | Awaitable[Fields]:
    """Let members go."""
    if not call.may_group(Operation.READ, request.group_id):
        return _fields(LeaveAnswer(code=Code.GROUP_AUTHORIZATION_FAILED))
    members = tuple(Identity(one.member_id, one.group_instance_id) for one in request.members)
    return then(services.coordinator.leave(request.group_id, Leave(members=members)), _fields)


def _fields(answer: LeaveAnswer) -> Fields:
    return {
        "error_code": ErrorCode(answer.code),
        "members": [
            {
                "member_id": one.member_id,
                "group_instance_id": one.instance_id,
                "error_code": ErrorCode(code),
            }
            for one, code in answer.members
        ],
    }
