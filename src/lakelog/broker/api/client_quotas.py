"""DescribeClientQuotas (key 48, versions 0 to 1) and AlterClientQuotas (key 49, versions 0 to 1).

Behaviour
    Kafka's entities, keys, filters and codes, and one key more, ``store_request_rate``. Addresses
    are addresses: hosts would have to be looked up by every broker, and are refused. What this
    broker is told holds here at once, and on others when they look, within ten seconds.
"""

from kio.schema.alter_client_quotas.v1.request import AlterClientQuotasRequest
from kio.schema.describe_client_quotas.v1.request import DescribeClientQuotasRequest
from kio.schema.errors import ErrorCode

from lakelog.broker.codes import read_code
from lakelog.broker.services import Call, Services
from lakelog.errors import InvalidInputError, LakelogError, UnsupportedError
from lakelog.security import Alteration, Component, Entity, Operation, describe_quotas, entity_of
from lakelog.wire import Fields

__all__ = ["alter_client_quotas", "describe_client_quotas"]

MESSAGE_CHARS_MAX = 512
DENIED = "Cluster authorization failed."


async def describe_client_quotas(
    services: Services, call: Call, request: DescribeClientQuotasRequest
) -> Fields:
    """Return the quotas that a filter matches."""
    if not call.may_cluster(Operation.DESCRIBE_CONFIGS):
        return _refused(ErrorCode.cluster_authorization_failed, DENIED)
    wanted = [
        Component(str(one.entity_type), int(one.match_type), one.match)
        for one in request.components
    ]
    try:
        found = describe_quotas(services.quotas.now, wanted, strict=request.strict)
    except InvalidInputError as error:
        return _refused(ErrorCode.invalid_request, str(error))
    except UnsupportedError as error:
        return _refused(ErrorCode.unsupported_version, error.what)
    entries = [
        {
            "entity": _entity(entity),
            "values": [{"key": key, "value": value} for key, value in sorted(values.items())],
        }
        for entity, values in found
    ]
    return {"error_message": "", "entries": entries}


async def alter_client_quotas(
    services: Services, call: Call, request: AlterClientQuotasRequest
) -> Fields:
    """Change quotas."""
    alterations = [
        Alteration(
            [(str(part.entity_type), part.entity_name) for part in one.entity],
            [(str(op.key), None if op.remove else float(op.value)) for op in one.ops],
        )
        for one in request.entries
    ]
    if not call.may_cluster(Operation.ALTER_CONFIGS):
        code = ErrorCode.cluster_authorization_failed
        return {"entries": [_row(entity_of(one.entity), code, DENIED) for one in alterations]}
    try:
        flaws = await services.quotas.alter(alterations, validate_only=request.validate_only)
    except LakelogError as error:
        code, what = read_code(error), str(error)
        rows = [_row(entity_of(one.entity), code, what) for one in alterations]
        return {"entries": rows}
    code = ErrorCode.invalid_request
    rows = [_row(entity, code if what else ErrorCode.none, what) for entity, what in flaws.items()]
    return {"entries": rows}


def _entity(entity: Entity) -> list[Fields]:
    return [{"entity_type": kind, "entity_name": name} for kind, name in entity]


def _row(entity: Entity, code: ErrorCode, message: str) -> Fields:
    return {
        "error_code": code,
        "error_message": message[:MESSAGE_CHARS_MAX] or None,
        "entity": _entity(entity),
    }


def _refused(code: ErrorCode, message: str) -> Fields:
    return {"error_code": code, "error_message": message[:MESSAGE_CHARS_MAX], "entries": None}
