"""DeleteGroups (key 42, versions 0 to 2).

Behaviour
    A group without members goes, with its offsets. One that has some is NON_EMPTY_GROUP.
"""

from kio.schema.delete_groups.v2.request import DeleteGroupsRequest
from kio.schema.errors import ErrorCode

from lakelog.broker.services import Call, Services
from lakelog.broker.turns import in_turns
from lakelog.security import Operation
from lakelog.wire import Fields

__all__ = ["delete_groups"]


async def delete_groups(services: Services, call: Call, request: DeleteGroupsRequest) -> Fields:
    """Delete groups."""
    rows: list[Fields] = []
    async for group_id in in_turns(dict.fromkeys(request.groups_names)):
        code = ErrorCode.group_authorization_failed
        if call.may_group(Operation.DELETE, str(group_id)):
            code = ErrorCode(await services.coordinator.delete(str(group_id)))
        rows.append({"group_id": group_id, "error_code": code})
    return {"results": rows}
