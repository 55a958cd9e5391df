"""CreateAcls (key 30, versions 1 to 3).

Behaviour
    Those that can be ACLs are added, all or none; the others are told why not. One that is there
    already is no error. What was added counts here when it is answered, and at other brokers
    seconds later.
"""

from kio.schema.create_acls.v3.request import CreateAclsRequest
from kio.schema.errors import ErrorCode

from lakelog.broker.codes import Codes, read_code
from lakelog.broker.security.acl_requests import acl_of, permitted
from lakelog.broker.services import Call, Services
from lakelog.errors import InvalidInputError, LakelogError, UnavailableError
from lakelog.security import Operation, check_acl
from lakelog.wire import Fields

__all__ = ["STORING", "create_acls"]

STORING: Codes = (
    (InvalidInputError, ErrorCode.policy_violation),
    (UnavailableError, ErrorCode.request_timed_out),
)


async def create_acls(services: Services, call: Call, request: CreateAclsRequest) -> Fields:
    """Let principals do more, or less."""
    authorizer = permitted(services, call, Operation.ALTER)
    if isinstance(authorizer, tuple):
        return {"results": [_row(*authorizer) for _ in request.creations]}
    rows: list[Fields] = []
    good: list[int] = []
    acls = [acl_of(one) for one in request.creations]
    for at, acl in enumerate(acls):
        try:
            check_acl(acl)
            good.append(at)
            rows.append(_row())
        except InvalidInputError as error:
            rows.append(_row(ErrorCode.invalid_request, str(error)))
    try:
        if good:
            await authorizer.add([acls[at] for at in good])
    except LakelogError as error:
        for at in good:
            rows[at] = _row(read_code(error, STORING), str(error)[:512])
    return {"results": rows}


def _row(code: ErrorCode = ErrorCode.none, message: str = "") -> Fields:
    return {"error_code": code, "error_message": message or None}
