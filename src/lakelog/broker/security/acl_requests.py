"""What requests about ACLs have in common: rules and filters, as they stand in them."""

from enum import IntEnum
from typing import Any, TypeVar

from kio.schema.errors import ErrorCode

from lakelog.broker.security.authorizer import Authorizer
from lakelog.broker.services import Call, Services
from lakelog.errors import CorruptError
from lakelog.security import Acl, AclFilter, Operation, PatternType, Permission, ResourceType
from lakelog.wire import Fields

__all__ = ["acl_of", "filter_of", "permitted", "row_of"]

K = TypeVar("K", bound=IntEnum)


def permitted(
    services: Services, call: Call, operation: Operation
) -> Authorizer | tuple[ErrorCode, str]:
    """Return the authorizer, or why the client cannot ask it for this."""
    if not call.may_cluster(operation):
        return ErrorCode.cluster_authorization_failed, "Cluster authorization failed."
    if services.authorizer is None:
        return ErrorCode.security_disabled, "No Authorizer is configured."
    return services.authorizer


def _known(kind: type[K], number: int) -> K:
    """Return what a number stands for.

    Raises:
        CorruptError: nothing that is known here; Kafka ends the connection as well.
    """
    found = {int(one): one for one in kind}.get(number)
    if not found:
        raise CorruptError(f"{kind.__name__} {number} is not known", at=0)
    return found


def acl_of(one: Any) -> Acl:
    """Return a rule that is to be made.

    Raises:
        CorruptError: it says something that is not known.
    """
    return Acl(
        _known(ResourceType, one.resource_type),
        _known(PatternType, one.resource_pattern_type),
        str(one.resource_name),
        str(one.principal),
        str(one.host),
        _known(Operation, one.operation),
        _known(Permission, one.permission_type),
    )


def filter_of(one: Any) -> AclFilter:
    """Return a filter.

    Raises:
        CorruptError: it says something that is not known.
    """
    return AclFilter(
        _known(ResourceType, one.resource_type_filter),
        _known(PatternType, one.pattern_type_filter),
        one.resource_name_filter,
        one.principal_filter,
        one.host_filter,
        _known(Operation, one.operation),
        _known(Permission, one.permission_type),
    )


def row_of(acl: Acl) -> Fields:
    """Return who may do what, as it stands in an answer."""
    return {
        "principal": acl.principal,
        "host": acl.host,
        "operation": int(acl.operation),
        "permission_type": int(acl.permission),
    }
