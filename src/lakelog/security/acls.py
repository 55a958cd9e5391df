"""ACLs as values, by Kafka's names and numbers: who may or may not do what with which resources.

    User:alice  from *          ALLOW  READ   of TOPIC  LITERAL   orders
    User:*      from 10.0.0.7   DENY   ALL    of GROUP  PREFIXED  team-
    User:bob    from *          ALLOW  WRITE  of TOPIC  LITERAL   *         (every topic)

A filter is what DescribeAcls and DeleteAcls select by. ANY as a pattern is either of the two;
MATCH is every pattern that speaks of a resource of this name.
"""

from enum import IntEnum
from typing import NamedTuple

from lakelog.errors import InvalidInputError

__all__ = [
    "ACLS_MAX",
    "CLUSTER_NAME",
    "SUPPORTED_OPERATIONS",
    "Acl",
    "AclFilter",
    "Operation",
    "PatternType",
    "Permission",
    "ResourceType",
    "check_acl",
]

CLUSTER_NAME = "kafka-cluster"
"""The one name that a cluster has, in ACLs."""

WILDCARD = "*"
ACLS_MAX = 20_000
NAME_CHARS_MAX = 1_024
PRINCIPAL_CHARS_MAX = 1_024
HOST_CHARS_MAX = 64


class ResourceType(IntEnum):
    """What an ACL is about."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """How an ACL names what it is about; ANY and MATCH are for filters."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(IntEnum):
    """What may be done."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission(IntEnum):
    """Whether it may."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


_O = Operation
SUPPORTED_OPERATIONS = {
    ResourceType.TOPIC: (
        _O.READ, _O.WRITE, _O.CREATE, _O.DESCRIBE, _O.DELETE, _O.ALTER, _O.DESCRIBE_CONFIGS,
        _O.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        _O.READ, _O.DESCRIBE, _O.DELETE, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        _O.CREATE, _O.CLUSTER_ACTION, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS, _O.IDEMPOTENT_WRITE,
        _O.ALTER, _O.DESCRIBE,
    ),
}  # fmt: skip
"""What a client may be told that it may do."""


class Acl(NamedTuple):
    """One rule."""

    resource_type: ResourceType
    pattern_type: PatternType
    name: str
    principal: str
    host: str
    operation: Operation
    permission: Permission


class AclFilter(NamedTuple):
    """Which rules are meant; None: whatever stands there."""

    resource_type: ResourceType = ResourceType.ANY
    pattern_type: PatternType = PatternType.ANY
    name: str | None = None
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY

    @property
    def is_unknown(self) -> bool:
        """Whether it says something that this version does not know."""
        return 0 in (self.resource_type, self.pattern_type, self.operation, self.permission)

    def matches(self, acl: Acl) -> bool:
        """Say whether a rule is meant."""
        return (
            self.resource_type in (ResourceType.ANY, acl.resource_type)
            and self._names(acl)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (Operation.ANY, acl.operation)
            and self.permission in (Permission.ANY, acl.permission)
        )

    def _names(self, acl: Acl) -> bool:
        wanted = self.pattern_type
        if wanted not in (PatternType.ANY, PatternType.MATCH, acl.pattern_type):
            return False
        if self.name is None:
            return True
        if wanted is not PatternType.MATCH:
            return self.name == acl.name
        if acl.pattern_type is PatternType.PREFIXED:
            return self.name.startswith(acl.name)
        return acl.name in (self.name, WILDCARD)


def check_acl(acl: Acl) -> None:
    """See that a rule can be one, as Kafka sees it, and is not too long.

    Raises:
        InvalidInputError: it cannot.
    """
    kind, pattern, operation, permission = (
        acl.resource_type, acl.pattern_type, acl.operation, acl.permission,
    )  # fmt: skip
    if kind is ResourceType.CLUSTER and acl.name != CLUSTER_NAME:
        raise InvalidInputError(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not acl.name:
        raise InvalidInputError("Invalid empty resource name")
    if kind in (ResourceType.UNKNOWN, ResourceType.ANY):
        raise InvalidInputError(f"Invalid resourceType {kind.name}")
    if pattern not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise InvalidInputError(f"Invalid patternType {pattern.name}")
    if operation in (Operation.UNKNOWN, Operation.ANY):
        raise InvalidInputError(f"Invalid operation {operation.name}")
    if permission not in (Permission.DENY, Permission.ALLOW):
        raise InvalidInputError(f"Invalid permissionType {permission.name}")
    if ":" not in acl.principal:
        raise InvalidInputError(
            f"Could not parse principal from `{acl.principal[:64]}` (no colon is present separating"
            " the principal type from the principal name)"
        )
    for what, text, most in (
        ("resource name", acl.name, NAME_CHARS_MAX),
        ("principal", acl.principal, PRINCIPAL_CHARS_MAX),
        ("host", acl.host, HOST_CHARS_MAX),
    ):
        if len(text) > most:
            raise InvalidInputError(f"a {what} of {len(text)} characters: use {most} at most")
