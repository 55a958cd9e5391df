"""The cells of ACLs and of quotas: what is read out of them, and what it allows.

An ACL that is read is one that could be made. By what a cell says nobody is allowed what no line of
it is about, and each line counts for whom it names, unless it is denied.
"""

from lakelog.catalog.acls import decode_acls, encode_acls
from lakelog.catalog.quotas import decode_quotas, encode_quotas
from lakelog.errors import CorruptError, UnsupportedError
from lakelog.security import (
    ACLS_MAX,
    ENTITIES_MAX,
    AclFilter,
    AclRules,
    Operation,
    Permission,
    Principal,
    ResourceType,
    check_acl,
)
from tests.fuzz.targets import Target

__all__ = ["TARGETS"]

STRANGER = Principal.user("\0nobody is called so")


def _acls(data: bytes) -> bool:
    try:
        cell = decode_acls(data)
    except (CorruptError, UnsupportedError):
        return False
    assert len(cell.acls) <= ACLS_MAX
    assert decode_acls(encode_acls(cell)) == cell
    rules = AclRules(cell.acls)
    is_public = any(acl.principal == "User:*" for acl in cell.acls)
    for acl in cell.acls:
        check_acl(acl)
        assert acl in rules.select(AclFilter(name=acl.name))
        question = acl.operation, acl.resource_type, acl.name
        is_asked = acl.operation is not Operation.ALL and acl.host != "*"
        kind, _, name = acl.principal.partition(":")
        who = Principal(kind, name)
        if is_asked and acl.permission is Permission.DENY:
            assert not rules.allows(who, acl.host, *question)
        elif is_asked and all(one.permission is Permission.ALLOW for one in cell.acls):
            assert rules.allows(who, acl.host, *question)
        assert is_public or not rules.allows(STRANGER, acl.host, *question)
    assert is_public or not rules.allows_any(STRANGER, "h", Operation.READ, ResourceType.TOPIC)
    return True


def _quotas(data: bytes) -> bool:
    try:
        quotas = decode_quotas(data)
    except (CorruptError, UnsupportedError):
        return False
    assert len(quotas.rows) <= ENTITIES_MAX
    again = decode_quotas(encode_quotas(quotas))
    assert (again.rows, again.version) == (quotas.rows, quotas.version)
    assert all(value > 0 for row in quotas.rows.values() for value in row.values())
    return True


TARGETS: dict[str, Target] = {"acls-cell": _acls, "quotas-cell": _quotas}
