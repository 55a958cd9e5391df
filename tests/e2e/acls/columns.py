"""Who is allowed what: a column of the matrix is a set of ACLs for one address on loopback.

Clients are told apart by their addresses, and all of them are User:ANONYMOUS: so it needs no login
on either side. Each column has topics and groups of its own.
"""

from typing import NamedTuple

from lakelog.security import (
    CLUSTER_NAME,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)

__all__ = ["ADMIN", "COLUMNS", "Column", "Grant", "Names", "admin_acls"]

ADMIN = "127.0.0.1"
"""The address of who may do everything."""

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
TRANSACTION, TOKEN = ResourceType.TRANSACTIONAL_ID, ResourceType.DELEGATION_TOKEN
USER = ResourceType.USER
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED


class Grant(NamedTuple):
    """One operation on the resources of a type."""

    kind: ResourceType
    operation: Operation
    permission: Permission = Permission.ALLOW
    pattern: str = "literal"

    def __str__(self) -> str:
        words = "".join(one.capitalize() for one in self.operation.name.split("_"))
        where = "".join(one.capitalize() for one in self.kind.name.split("_"))
        how = {"literal": "", "prefixed": " by a prefix", "all": " on *"}[self.pattern]
        what = f"{words} {where}{how}"
        return f"not {what}" if self.permission is Permission.DENY else what


class Names(NamedTuple):
    """What is there in a column, and what is not."""

    topic: str
    doomed: str
    """A topic that is there, and may be deleted."""
    missing: str
    group: str
    doomed_group: str
    missing_group: str
    absent_group: str
    """Another one, which nobody tries to join."""
    made: str
    """A topic that a client may make by asking for it."""
    members: str
    """A group of the newer protocol that has a member, which is assigned the topic."""
    transaction: str

    @classmethod
    def of(cls, number: int) -> "Names":
        """Return the names of a column."""
        start = f"c{number:03}-"
        return cls(*(f"{start}{name}" for name in cls._fields))


class Column(NamedTuple):
    """A client, and its ACLs."""

    number: int
    grants: tuple[Grant, ...]

    def __str__(self) -> str:
        return " and ".join(map(str, self.grants)) or "nothing"

    @property
    def host(self) -> str:
        return f"127.0.1.{self.number}"

    @property
    def names(self) -> Names:
        return Names.of(self.number)

    def acls(self) -> list[Acl]:
        """Return its ACLs."""
        names, start = self.names, f"c{self.number:03}-"
        known = {
            TOPIC: (names.topic, names.doomed, names.missing, names.made),
            GROUP: (
                names.group,
                names.doomed_group,
                names.missing_group,
                names.absent_group,
                names.members,
            ),
            CLUSTER: (CLUSTER_NAME,),
            TRANSACTION: (names.transaction,),
            TOKEN: ("token",),
            USER: ("User:ANONYMOUS",),
        }
        found: list[Acl] = []
        for kind, operation, permission, pattern in self.grants:
            patterns = {
                "literal": [(LITERAL, name) for name in known[kind]],
                "prefixed": [(PREFIXED, start)],
                "all": [(LITERAL, "*")],
            }[pattern]
            found += [
                Acl(kind, how, name, "User:ANONYMOUS", self.host, operation, permission)
                for how, name in patterns
            ]
        return found


def admin_acls() -> list[Acl]:
    """Let one address do everything."""
    return [
        Acl(
            kind,
            LITERAL,
            CLUSTER_NAME if kind is CLUSTER else "*",
            "User:*",
            ADMIN,
            Operation.ALL,
            Permission.ALLOW,
        )
        for kind in (TOPIC, GROUP, CLUSTER, TRANSACTION)
    ]


_O = Operation
_SINGLE = {
    TOPIC: (
        _O.READ, _O.WRITE, _O.CREATE, _O.DELETE, _O.ALTER, _O.DESCRIBE, _O.DESCRIBE_CONFIGS,
        _O.ALTER_CONFIGS, _O.ALL,
    ),
    GROUP: (_O.READ, _O.DELETE, _O.DESCRIBE, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS, _O.ALL),
    CLUSTER: (
        _O.CREATE, _O.ALTER, _O.DESCRIBE, _O.CLUSTER_ACTION, _O.DESCRIBE_CONFIGS,
        _O.ALTER_CONFIGS, _O.IDEMPOTENT_WRITE, _O.ALL,
    ),
    TRANSACTION: (_O.ALL,), TOKEN: (_O.ALL,), USER: (_O.ALL,),
}  # fmt: skip


def _columns() -> list[Column]:
    def deny(kind: ResourceType, operation: Operation, pattern: str = "literal") -> Grant:
        return Grant(kind, operation, Permission.DENY, pattern)

    everything = tuple(Grant(kind, _O.ALL) for kind in (TOPIC, GROUP, CLUSTER))
    sets: list[tuple[Grant, ...]] = [()]
    sets += [(Grant(kind, one),) for kind, some in _SINGLE.items() for one in some]
    sets += [
        (Grant(GROUP, _O.READ), Grant(TOPIC, _O.READ)),
        (Grant(GROUP, _O.READ), Grant(TOPIC, _O.DESCRIBE)),
        (Grant(GROUP, _O.DESCRIBE), Grant(TOPIC, _O.DESCRIBE)),
        (Grant(GROUP, _O.DELETE), Grant(TOPIC, _O.READ)),
        (Grant(TOPIC, _O.CREATE), Grant(TOPIC, _O.DESCRIBE)),
        (Grant(TOPIC, _O.CREATE), Grant(TOPIC, _O.DESCRIBE_CONFIGS)),
        (Grant(CLUSTER, _O.CREATE), Grant(TOPIC, _O.DESCRIBE)),
        everything,
        (*everything, deny(TOPIC, _O.READ)),
        (*everything, deny(TOPIC, _O.DESCRIBE)),
        (*everything, deny(GROUP, _O.ALL, "prefixed")),
        (*everything, deny(CLUSTER, _O.DESCRIBE)),
        (Grant(TOPIC, _O.ALL, pattern="prefixed"), Grant(GROUP, _O.ALL, pattern="prefixed")),
        (Grant(TOPIC, _O.ALL, pattern="all"), Grant(GROUP, _O.ALL, pattern="all")),
        (Grant(TOPIC, _O.ALL, pattern="all"), deny(TOPIC, _O.WRITE, "all")),
    ]
    return [Column(number, grants) for number, grants in enumerate(sets, 10)]


COLUMNS = _columns()
