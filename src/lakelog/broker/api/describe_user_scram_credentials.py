"""DescribeUserScramCredentials (key 50, version 0): who has which mechanisms; no keys.

Behaviour
    Without names, all users. A user that is not there is RESOURCE_NOT_FOUND, one that is named
    twice DUPLICATE_RESOURCE.
"""

from collections import Counter

from kio.schema.describe_user_scram_credentials.v0.request import (
    DescribeUserScramCredentialsRequest,
)
from kio.schema.errors import ErrorCode

from lakelog.broker.codes import read_code
from lakelog.broker.services import Call, Services
from lakelog.errors import LakelogError
from lakelog.security import Operation, Users
from lakelog.wire import Fields

__all__ = ["describe_user_scram_credentials"]

DENIED = "Cluster authorization failed."


async def describe_user_scram_credentials(
    services: Services, call: Call, request: DescribeUserScramCredentialsRequest
) -> Fields:
    """Say who the users are."""
    if not call.may_cluster(Operation.DESCRIBE):
        code = ErrorCode.cluster_authorization_failed
        return {"error_code": code, "error_message": DENIED, "results": []}
    try:
        await services.users.load()
    except LakelogError as error:
        return {"error_code": read_code(error), "error_message": str(error), "results": []}
    users = services.users.current
    named = Counter(str(one.name) for one in request.users or ()) or Counter([*users.keys])
    return {
        "error_code": ErrorCode.none,
        "error_message": None,
        "results": [_row(users, name, count) for name, count in named.items()],
    }


def _row(users: Users, name: str, count: int) -> Fields:
    code, message = ErrorCode.none, None
    own = users.keys.get(name)
    if count > 1:
        code = ErrorCode.duplicate_resource
        message = (
            f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
        )
    elif own is None:
        code = ErrorCode.resource_not_found
        message = f"Attempt to describe a user credential that does not exist: {name}"
    infos = [] if own is None or count > 1 else sorted(own.items())
    return {
        "user": name,
        "error_code": code,
        "error_message": message,
        "credential_infos": [
            {"mechanism": mechanism.number, "iterations": keys.iterations}
            for mechanism, keys in infos
        ],
    }
