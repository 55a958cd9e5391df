"""ListGroups (key 16, versions 0 to 5).

Behaviour
    Groups that this broker coordinates, of the types "classic" and "consumer", after asking the
    store whether it still does: clients ask every broker. Filters take no notice of case.

Versions
    4 adds states, 5 types.
"""

from kio.schema.errors import ErrorCode
from kio.schema.list_groups.v5.request import ListGroupsRequest

from lakelog.broker.services import Call, Services
from lakelog.groups import Code
from lakelog.security import Operation, ResourceType
from lakelog.wire import Fields

__all__ = ["list_groups"]


async def list_groups(services: Services, call: Call, request: ListGroupsRequest) -> Fields:
    """Return the groups in some states."""
    states = {state.strip().lower() for state in request.states_filter}
    types = {kind.strip().lower() for kind in request.types_filter}
    call = call.quietly
    if not call.may_cluster(Operation.DESCRIBE) and not call.may_know_any(ResourceType.GROUP):
        return {"groups": []}
    unconfirmed = await services.coordinator.confirm_held()
    code, groups = services.coordinator.list_groups()
    may_all = call.may_cluster(Operation.DESCRIBE)
    code = unconfirmed if code is Code.NONE else code
    return {
        "error_code": ErrorCode(code),
        "groups": [
            {
                "group_id": group.group_id,
                "protocol_type": group.protocol_type,
                "group_state": group.state.value,
                "group_type": group.kind.value,
            }
            for group in groups
            if (may_all or call.may_group(Operation.DESCRIBE, group.group_id))
            and (not states or group.state.value.lower() in states)
            and (not types or group.kind.value in types)
        ],
    }
