"""DescribeAcls (key 29, versions 1 to 3).

Behaviour
    The ACLs that a filter means, as this broker knows them: a change through another broker is here
    seconds later. SECURITY_DISABLED without an authorizer: tools then hide what they have for it.
"""

from kio.schema.describe_acls.v3.request import DescribeAclsRequest

from lakelog.broker.security.acl_requests import filter_of, permitted, row_of
from lakelog.broker.services import Call, Services
from lakelog.security import Acl, Operation
from lakelog.wire import Fields

__all__ = ["describe_acls"]


async def describe_acls(services: Services, call: Call, request: DescribeAclsRequest) -> Fields:
    """Return some ACLs, by resource."""
    authorizer = permitted(services, call, Operation.DESCRIBE)
    if isinstance(authorizer, tuple):
        code, message = authorizer
        return {"error_code": code, "error_message": message, "resources": []}
    found: dict[tuple[int, str, int], list[Acl]] = {}
    for acl in authorizer.rules.select(filter_of(request)):
        key = int(acl.resource_type), acl.name, int(acl.pattern_type)
        found.setdefault(key, []).append(acl)
    return {
        "error_message": None,
        "resources": [
            {
                "resource_type": kind,
                "resource_name": name,
                "pattern_type": pattern,
                "acls": [row_of(one) for one in acls],
            }
            for (kind, name, pattern), acls in found.items()
        ],
    }
