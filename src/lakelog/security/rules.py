"""Verdicts: whether a principal may do something, by the ACLs of one version.

    super users may do everything
    a DENY that matches refuses, whatever else there is
    an ALLOW that matches allows
    without either it is refused; but where no ACL at all is about the resource, that is for
    ``allow.everyone.if.no.acl.found`` to say

An ALLOW of READ, WRITE, DELETE or ALTER is one of DESCRIBE, too, and one of ALTER_CONFIGS one of
DESCRIBE_CONFIGS. A DENY means what it says and no more.

A host is an address. One of IPv6 may be written in any of its ways: Java has another one than
Python.

ACLs are found by kind and name: literal ones in one look, and prefixed ones with one look for each
length that some prefix has. Of a resource those of the principal and of User:* are looked at. A
verdict is kept: the next one on the same question is a look into a table. The rules of another
version are another object, so nothing that is kept outlives its version.
"""

from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from typing import NamedTuple

from lakelog.security.acls import (
    NAME_CHARS_MAX,
    SUPPORTED_OPERATIONS,
    WILDCARD,
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from lakelog.security.principals import Principal

__all__ = ["IMPLYING_DESCRIBE", "AclRules"]

EVERYONE = "User:*"
VERDICTS_MAX = 20_000
"""That are kept; with more all are forgotten, and kept anew as they are asked for. Of names that no
ACL could have none is kept: a client can make them as long as a request."""

IMPLYING_DESCRIBE = (
    Operation.DESCRIBE,
    Operation.READ,
    Operation.WRITE,
    Operation.DELETE,
    Operation.ALTER,
)

_IMPLYING = {
    Operation.DESCRIBE: frozenset({*IMPLYING_DESCRIBE, Operation.ALL}),
    Operation.DESCRIBE_CONFIGS: frozenset(
        {Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS, Operation.ALL}
    ),
}


class _Entry(NamedTuple):
    host: str
    operation: Operation
    is_allowed: bool


_Entries = dict[str, list[_Entry]]
"""By principal, what is said of one pattern."""

_Question = tuple[Principal, str, Operation, ResourceType, str | None]


class AclRules:
    """The ACLs of one version."""

    def __init__(
        self,
        acls: Iterable[Acl] = (),
        *,
        version: int = 0,
        super_users: frozenset[Principal] = frozenset(),
        allow_everyone: bool = False,
    ) -> None:
        self.acls, self.version = tuple(acls), version
        self.mark = object()
        """What a verdict is kept with elsewhere: it says by which rules, and does not hold them."""
        self._super_users, self._allow_everyone = super_users, allow_everyone
        self._literal: dict[tuple[ResourceType, str], _Entries] = {}
        self._prefixed: dict[tuple[ResourceType, str], _Entries] = {}
        self._of: dict[tuple[ResourceType, str], list[tuple[PatternType, str, _Entry]]] = {}
        """What is said of a principal, by type."""
        for acl in self.acls:
            tables = self._literal if acl.pattern_type is PatternType.LITERAL else self._prefixed
            entries = tables.setdefault((acl.resource_type, acl.name), {})
            is_allowed = acl.permission is Permission.ALLOW
            entry = _Entry(_address(acl.host), acl.operation, is_allowed)
            entries.setdefault(acl.principal, []).append(entry)
            row = acl.pattern_type, acl.name, entry
            self._of.setdefault((acl.resource_type, acl.principal), []).append(row)
        lengths: dict[ResourceType, set[int]] = {}
        for kind, name in self._prefixed:
            lengths.setdefault(kind, set()).add(len(name))
        self._lengths = {kind: sorted(found) for kind, found in lengths.items()}
        self._verdicts: dict[_Question, bool] = {}

    def select(self, wanted: AclFilter) -> list[Acl]:
        """Return the rules that a filter means."""
        return [acl for acl in self.acls if wanted.matches(acl)]

    def allows(
        self,
        principal: Principal,
        host: str,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
    ) -> bool:
        """Say whether a principal may do something, from a host, with a resource."""
        question = principal, host, operation, resource_type, name
        found = self._verdicts.get(question)
        if found is None:
            found = self._keep(question, self._judge(*question))
        return found

    def allows_any(
        self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType
    ) -> bool:
        """Say whether there could be a resource of this type with which it may."""
        question = principal, host, operation, resource_type, None
        found = self._verdicts.get(question)
        if found is None:
            found = self._keep(question, self._judge_any(principal, host, operation, resource_type))
        return found

    def operations(
        self, principal: Principal, host: str, resource_type: ResourceType, name: str
    ) -> list[Operation]:
        """Return all that a principal may do with a resource."""
        return [
            one
            for one in SUPPORTED_OPERATIONS[resource_type]
            if self.allows(principal, host, one, resource_type, name)
        ]

    def _keep(self, question: _Question, verdict: bool) -> bool:
        if len(self._verdicts) >= VERDICTS_MAX:
            self._verdicts.clear()
        if len(question[-1] or "") <= NAME_CHARS_MAX:
            self._verdicts[question] = verdict
        return verdict

    def _judge(
        self,
        principal: Principal,
        host: str,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
    ) -> bool:
        if principal in self._super_users:
            return True
        implying = _IMPLYING.get(operation, frozenset((operation, Operation.ALL)))
        who, host = {str(principal), EVERYONE}, _address(host)
        is_named = is_allowed = False
        for entries in self._entries(resource_type, name):
            is_named = True
            for one in who:
                for entry in entries.get(one, ()):
                    if entry.host not in (WILDCARD, host):
                        continue
                    if entry.is_allowed:
                        is_allowed = is_allowed or entry.operation in implying
                    elif entry.operation in (operation, Operation.ALL):
                        return False
        return is_allowed or (self._allow_everyone and not is_named)

    def _entries(self, resource_type: ResourceType, name: str) -> Iterable[_Entries]:
        """Return what is said of a resource, pattern by pattern."""
        found = [self._literal.get((resource_type, one)) for one in {name, WILDCARD}]
        for length in self._lengths.get(resource_type, ()):
            if length > len(name):
                break
            found.append(self._prefixed.get((resource_type, name[:length])))
        return [one for one in found if one is not None]

    def _judge_any(
        self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType
    ) -> bool:
        """Judge as Kafka does: of the rules for just this operation, or for all of them."""
        if self.allows(principal, host, operation, resource_type, "hardcode"):
            return True
        host = _address(host)
        denied, allowed = set[tuple[PatternType, str]](), set[tuple[PatternType, str]]()
        for who in {str(principal), EVERYONE}:
            for pattern, name, entry in self._of.get((resource_type, who), ()):
                is_meant = entry.operation in (operation, Operation.ALL)
                if is_meant and entry.host in (WILDCARD, host):
                    (allowed if entry.is_allowed else denied).add((pattern, name))
        everything = PatternType.LITERAL, WILDCARD
        if everything in denied:
            return False
        prefixes = {name for kind, name in denied if kind is PatternType.PREFIXED}
        lengths = {len(name) for name in prefixes}
        return everything in allowed or any(
            (kind is PatternType.PREFIXED or (kind, name) not in denied)
            and not any(name[:length] in prefixes for length in lengths if length <= len(name))
            for kind, name in allowed
        )


@lru_cache(maxsize=4096)
def _address(host: str) -> str:
    """Return an address as it is compared: one of IPv4 also if IPv6 carries it."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return host
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(mapped or address)
