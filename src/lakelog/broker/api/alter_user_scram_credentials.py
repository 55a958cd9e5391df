"""AlterUserScramCredentials (key 51, version 0): users come, change and go.

Behaviour
    A client sends a salted password, and never a password; of that the keys are kept. All changes
    of a request are made at once, but for those of a user that has one which is refused.
"""

from collections import Counter
from typing import NamedTuple

from kio.schema.alter_user_scram_credentials.v0.request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kio.schema.errors import ErrorCode

from lakelog.broker.codes import read_code
from lakelog.broker.services import Call, Services
from lakelog.catalog import UserChange
from lakelog.errors import InvalidInputError, LakelogError
from lakelog.security import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    Operation,
    ScramMechanism,
    Users,
    check_user_name,
    keys_of,
)
from lakelog.wire import Fields

__all__ = ["alter_user_scram_credentials"]

SALTED_BYTES_MAX = 1 << 10


_Asked = ScramCredentialDeletion | ScramCredentialUpsertion


class _Refusal(NamedTuple):
    code: ErrorCode
    message: str


async def alter_user_scram_credentials(
    services: Services, call: Call, request: AlterUserScramCredentialsRequest
) -> Fields:
    """Change users."""
    asked: list[_Asked] = [*request.deletions, *request.upsertions]
    refusals: dict[str, _Refusal] = {}
    if not call.may_cluster(Operation.ALTER):
        denied = _Refusal(ErrorCode.cluster_authorization_failed, "Cluster authorization failed.")
        return _answer(asked, {str(one.name): denied for one in asked})
    try:
        await services.users.load()
        users = services.users.current
        twice = Counter((str(one.name), int(one.mechanism)) for one in asked)
        changes: list[UserChange] = []
        for one in asked:
            found = _change(users, one, twice)
            if isinstance(found, UserChange):
                changes.append(found)
            else:
                refusals.setdefault(str(one.name), found)
        good = tuple(one for one in changes if one.user not in refusals)
        if good:
            await services.users.change(good)
    except LakelogError as error:
        is_input = isinstance(error, InvalidInputError)
        code = ErrorCode.unacceptable_credential if is_input else read_code(error)
        for one in asked:
            refusals.setdefault(str(one.name), _Refusal(code, str(error)))
    return _answer(asked, refusals)


def _answer(asked: list[_Asked], refusals: dict[str, _Refusal]) -> Fields:
    names = dict.fromkeys(str(one.name) for one in asked)
    rows = [(name, refusals.get(name, _Refusal(ErrorCode.none, ""))) for name in names]
    return {
        "results": [
            {"user": name, "error_code": row.code, "error_message": row.message or None}
            for name, row in rows
        ]
    }


def _change(users: Users, one: _Asked, twice: Counter[tuple[str, int]]) -> UserChange | _Refusal:
    name, number = str(one.name), int(one.mechanism)
    mechanism = ScramMechanism.of(number)
    if mechanism is None:
        return _Refusal(ErrorCode.unsupported_sasl_mechanism, "Unknown SCRAM mechanism")
    if twice[name, number] > 1:
        return _Refusal(
            ErrorCode.duplicate_resource,
            "A user credential cannot be altered twice in the same request",
        )
    if isinstance(one, ScramCredentialUpsertion):
        return _upsertion(name, mechanism, one)
    if mechanism not in users.keys.get(name, {}):
        return _Refusal(
            ErrorCode.resource_not_found,
            "Attempt to delete a user credential that does not exist",
        )
    return UserChange(name, mechanism, None)


def _upsertion(
    name: str, mechanism: ScramMechanism, one: ScramCredentialUpsertion
) -> UserChange | _Refusal:
    flaw = ""
    try:
        check_user_name(name)
    except InvalidInputError as error:
        flaw = str(error) if name else "Username must not be empty"
    if one.iterations < ITERATIONS_MIN:
        flaw = "Too few iterations"
    elif one.iterations > ITERATIONS_MAX:
        flaw = "Too many iterations"
    elif not one.salt or not 1 <= len(one.salted_password) <= SALTED_BYTES_MAX:
        flaw = "A salt and a salted password are needed"
    if flaw:
        return _Refusal(ErrorCode.unacceptable_credential, flaw)
    salted, salt = bytes(one.salted_password), bytes(one.salt)
    return UserChange(name, mechanism, keys_of(mechanism, salted, salt, int(one.iterations)))
