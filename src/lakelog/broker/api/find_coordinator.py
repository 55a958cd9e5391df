"""FindCoordinator (key 10, versions 0 to 6).

Behaviour
    A group is sent to the broker that has the claim to its shard, if that lives; else to the one
    that should have it. It is named by its address on the listener of the question.

Not done
    Transactions: their coordinator is refused with TRANSACTIONAL_ID_AUTHORIZATION_FAILED, on which
    every client gives up; librdkafka would ask again after any other error until its time is up.
    Share groups are refused with INVALID_REQUEST.

Versions
    4 asks for many keys at once; older ones come as one.
"""

from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest

from lakelog.broker.services import Call, Services
from lakelog.broker.turns import in_turns
from lakelog.groups import Code
from lakelog.security import Operation
from lakelog.wire import Fields

__all__ = ["find_coordinator"]

GROUP, TRANSACTION = 0, 1


async def find_coordinator(
    services: Services, call: Call, request: FindCoordinatorRequest
) -> Fields:
    """Return the coordinators of groups."""
    keys = in_turns(request.coordinator_keys)
    return {"coordinators": [await _one(services, call, request, key) async for key in keys]}


async def _one(services: Services, call: Call, request: FindCoordinatorRequest, key: str) -> Fields:
    if request.key_type == TRANSACTION:
        message = "there are no transactions here: leave out transactional.id"
        return _refused(key, ErrorCode.transactional_id_authorization_failed, message)
    if request.key_type != GROUP:
        message = "there are no share groups here: use consumer groups"
        return _refused(key, ErrorCode.invalid_request, message)
    if not call.may_group(Operation.DESCRIBE, key):
        return _refused(key, ErrorCode.group_authorization_failed, "Group authorization failed.")
    found = await services.coordinator.find(key)
    if found is Code.INVALID_GROUP_ID:
        return _refused(key, ErrorCode.invalid_group_id, "a group id has 1 to 1,024 bytes")
    broker = None if isinstance(found, Code) else services.cluster.address(found, call.listener)
    if broker is not None:
        return {"key": key, "node_id": broker.node_id, "host": broker.host, "port": broker.port}
    return _refused(key, ErrorCode.coordinator_not_available, "its broker is not there: try again")


def _refused(key: str, code: ErrorCode, message: str) -> Fields:
    return {
        "key": key,
        "node_id": -1,
        "host": "",
        "port": -1,
        "error_code": code,
        "error_message": message,
    }
