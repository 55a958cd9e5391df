"""JoinGroup (key 11, versions 0 to 9).

Behaviour
    The answer comes when the generation begins: when all members have rejoined, or the rebalance
    timeout has passed. A generation is stored before anybody is told of it.

Versions
    0 has one timeout for both. From 4 on a dynamic member without id gets one and must come again.
    5 adds static members. 9 tells a leader that returns that there is nothing to assign.
"""

from collections.abc import Awaitable
from datetime import timedelta

from kio.schema.errors import ErrorCode
from kio.schema.join_group.v9.request import JoinGroupRequest

from lakelog.broker.services import Call, Services, then
from lakelog.groups import Code, Join, JoinAnswer, Offer
from lakelog.security import Operation
from lakelog.wire import Fields

__all__ = ["join_group"]

NEEDS_ID_FROM = 4
MAY_SKIP_FROM = 9


async def join_group(
    services: Services, call: Call, request: JoinGroupRequest
) -> Fields | Awaitable[Fields]:
    """Wait for the next generation of a group."""
    if not call.may_group(Operation.READ, request.group_id):
        code = Code.GROUP_AUTHORIZATION_FAILED
        return _fields(JoinAnswer(code=code, member_id=request.member_id))
    event = Join(
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        client_id=call.client_id,
        client_host=f"/{call.client_host}",  # As Kafka and its tools show it.
        session_timeout_ms=request.session_timeout // timedelta(milliseconds=1),
        rebalance_timeout_ms=request.rebalance_timeout // timedelta(milliseconds=1),
        protocol_type=request.protocol_type,
        offers=tuple(Offer(one.name, one.metadata) for one in request.protocols),
        needs_id=call.version >= NEEDS_ID_FROM,
        may_skip=call.version >= MAY_SKIP_FROM,
    )
    return then(services.coordinator.join(request.group_id, event), _fields)


def _fields(answer: JoinAnswer) -> Fields:
    return {
        "error_code": ErrorCode(answer.code),
        "generation_id": answer.generation,
        "protocol_type": answer.protocol_type,
        "protocol_name": answer.protocol,
        "leader": answer.leader,
        "skip_assignment": answer.skip_assignment,
        "member_id": answer.member_id,
        "members": [
            {
                "member_id": one.member_id,
                "group_instance_id": one.instance_id,
                "metadata": one.metadata,
            }
            for one in answer.members
        ],
    }
