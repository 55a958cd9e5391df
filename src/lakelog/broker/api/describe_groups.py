"""DescribeGroups (key 15, versions 0 to 6).

Behaviour
    Metadata and assignments are shown while a group is stable. A group that is not there is Dead,
    and so is one of the newer protocol: ConsumerGroupDescribe shows those. A group that is named
    twice is shown once: its members may have said megabytes. It is shown after asking the store
    whether this broker still has the group.

Versions
    6 says GROUP_ID_NOT_FOUND of a group that is Dead.
"""

from functools import partial

from kio.schema.describe_groups.v6.request import DescribeGroupsRequest
from kio.schema.errors import ErrorCode

from lakelog.broker.request_items import describe_each
from lakelog.broker.services import Call, Services
from lakelog.groups import Code, ConsumerGroup, State
from lakelog.wire import Fields

__all__ = ["describe_groups"]

SAYS_MISSING_FROM = 6


async def describe_groups(services: Services, call: Call, request: DescribeGroupsRequest) -> Fields:
    """Return what operators may know of some groups."""
    with_operations = request.include_authorized_operations
    describe = partial(_one, services, call)
    rows = await describe_each(
        services, call, request.groups, describe, with_operations=with_operations
    )
    return {"groups": rows}


def _one(services: Services, call: Call, group_id: str, code: Code) -> Fields:
    found = services.coordinator.describe(group_id) if code is Code.NONE else code
    if isinstance(found, Code):
        nothing = {"group_state": "", "protocol_type": "", "protocol_data": "", "members": []}
        return {"error_code": ErrorCode(found), "group_id": group_id, **nothing}
    missing: Fields = {}
    if found.state is State.DEAD and call.version >= SAYS_MISSING_FROM:
        is_other = isinstance(services.coordinator.consumer_group(group_id), ConsumerGroup)
        what = "is not a classic group" if is_other else "not found"
        missing = {
            "error_code": ErrorCode.group_id_not_found,
            "error_message": f"Group {group_id} {what}.",
        }
    return {
        **missing,
        "group_id": group_id,
        "group_state": found.state.value,
        "protocol_type": found.protocol_type,
        "protocol_data": found.protocol,
        "members": [
            {
                "member_id": one.member_id,
                "group_instance_id": one.instance_id,
                "client_id": one.client_id,
                "client_host": one.client_host,
                "member_metadata": one.metadata,
                "member_assignment": one.assignment,
            }
            for one in found.members
        ],
    }
