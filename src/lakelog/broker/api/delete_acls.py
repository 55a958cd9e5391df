"""DeleteAcls (key 31, versions 1 to 3).

Behaviour
    All ACLs that some filter means go at once; for each filter it is told which those were. That
    there are none is no error.
"""

from kio.schema.delete_acls.v3.request import DeleteAclsRequest
from kio.schema.errors import ErrorCode

from lakelog.broker.api.create_acls import STORING
from lakelog.broker.codes import read_code
from lakelog.broker.security.acl_requests import filter_of, permitted, row_of
from lakelog.broker.services import Call, Services
from lakelog.errors import LakelogError
from lakelog.security import Acl, Operation
from lakelog.wire import Fields

__all__ = ["delete_acls"]


async def delete_acls(services: Services, call: Call, request: DeleteAclsRequest) -> Fields:
    """Remove ACLs."""
    authorizer = permitted(services, call, Operation.ALTER)
    if isinstance(authorizer, tuple):
        return {"filter_results": [_refused(*authorizer) for _ in request.filters]}
    filters = [filter_of(one) for one in request.filters]
    try:
        found = await authorizer.remove(filters)
    except LakelogError as error:
        code, message = read_code(error, STORING), str(error)[:512]
        return {"filter_results": [_refused(code, message) for _ in filters]}
    rows = [{"error_message": None, "matching_acls": [_row(one) for one in acls]} for acls in found]
    return {"filter_results": rows}


def _row(acl: Acl) -> Fields:
    return {
        "error_message": None,
        "resource_type": int(acl.resource_type),
        "resource_name": acl.name,
        "pattern_type": int(acl.pattern_type),
        **row_of(acl),
    }


def _refused(code: ErrorCode, message: str) -> Fields:
    return {"error_code": code, "error_message": message, "matching_acls": []}
