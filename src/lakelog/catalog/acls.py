"""ACLs: one cell, with a version that each change raises.

    {"format": 1, "version": 3, "writers": ["…"],
     "acls": [["TOPIC", "LITERAL", "orders", "User:alice", "*", "READ", "ALLOW"]]}

A namespace without the cell has no ACLs. What is there already is not added again, and what is not
there is not removed: neither is an error, and neither changes the version. ``writers`` are the ids
of the last writes, by which a write whose answer was lost is found again.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lakelog.errors import CorruptError, InvalidInputError
from lakelog.formats import Bytes, decode_fields, decoding, number
from lakelog.names import ACLS_KEY
from lakelog.security import (
    ACLS_MAX,
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    check_acl,
)
from lakelog.store import Work, change_cell, read_cell

__all__ = ["AclCell", "add_acls", "decode_acls", "encode_acls", "read_acls", "remove_acls"]

FORMAT = 1
WRITERS_MAX = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class AclCell:
    """All ACLs of a namespace."""

    version: int = 0
    acls: tuple[Acl, ...] = ()
    writers: tuple[str, ...] = ()


def encode_acls(cell: AclCell) -> bytes:
    """Return the bytes of the cell."""
    rows = [
        [
            one.resource_type.name,
            one.pattern_type.name,
            one.name,
            one.principal,
            one.host,
            one.operation.name,
            one.permission.name,
        ]
        for one in cell.acls
    ]
    fields = {"format": FORMAT, "version": cell.version, "writers": cell.writers, "acls": rows}
    return json.dumps(fields).encode()


def decode_acls(data: Bytes) -> AclCell:
    """Return the ACLs in a cell.

    Raises:
        CorruptError: it is none.
        UnsupportedError: a later version made it.
    """
    with decoding("ACLs", ACLS_KEY):
        known = ("version", "writers", "acls")
        fields = decode_fields(data, format_=FORMAT, where=ACLS_KEY, known=known)
        acls = tuple(_acl(*row) for row in fields["acls"])
        writers = tuple(map(str, fields["writers"]))
        cell = AclCell(version=number(fields["version"]), acls=acls, writers=writers)
    if len(acls) > ACLS_MAX:
        raise CorruptError(f"{len(acls)} ACLs, of {ACLS_MAX} at most", at=0, where=ACLS_KEY)
    return cell


def _acl(
    kind: str, pattern: str, name: str, principal: str, host: str, operation: str, permission: str
) -> Acl:
    acl = Acl(
        ResourceType[kind],
        PatternType[pattern],
        str(name),
        str(principal),
        str(host),
        Operation[operation],
        Permission[permission],
    )
    try:
        check_acl(acl)
    except InvalidInputError as error:
        raise ValueError(str(error)) from error
    return acl


def read_acls() -> Work[AclCell]:
    """Return the ACLs; without the cell there are none.

    Raises:
        CorruptError: the cell is damaged.
        UnsupportedError: a later version made it.
    """
    found = yield from read_cell(ACLS_KEY)
    return AclCell() if found is None else decode_acls(found.body)


def add_acls(acls: Sequence[Acl], write: bytes) -> Work[AclCell]:
    """Add ACLs that have been checked, and return all that there are then.

    Raises:
        InvalidInputError: there would be too many; none was added.
    """

    def added(now: tuple[Acl, ...]) -> tuple[Acl, ...]:
        all_ = tuple(dict.fromkeys((*now, *acls)))
        if len(all_) > ACLS_MAX:
            raise InvalidInputError(
                f"there would be {len(all_)} ACLs, and there may be {ACLS_MAX}: remove some, or "
                "use prefixed ones"
            )
        return all_

    cell, _ = yield from _changed(added, write)
    return cell


def remove_acls(
    filters: Sequence[AclFilter], write: bytes
) -> Work[tuple[AclCell, list[tuple[Acl, ...]]]]:
    """Remove the ACLs that filters mean; return those that are left, and for each filter what it
    found.
    """

    def left(now: tuple[Acl, ...]) -> tuple[Acl, ...]:
        return tuple(acl for acl in now if not any(one.matches(acl) for one in filters))

    cell, before = yield from _changed(left, write)
    found = [tuple(acl for acl in before if one.matches(acl)) for one in filters]
    return cell, found


def _changed(
    alter: Callable[[tuple[Acl, ...]], tuple[Acl, ...]], write: bytes
) -> Work[tuple[AclCell, tuple[Acl, ...]]]:
    """Change the ACLs; return the cell, and which there were before the change."""
    mine = write.hex()
    before: tuple[Acl, ...] = ()

    def altered(body: bytes | None) -> bytes | None:
        nonlocal before
        now = AclCell() if body is None else decode_acls(body)
        if mine in now.writers:
            return None
        before, acls = now.acls, alter(now.acls)
        if acls == now.acls:
            return None
        writers = (*now.writers, mine)[-WRITERS_MAX:]
        return encode_acls(AclCell(version=now.version + 1, acls=acls, writers=writers))

    def is_mine(body: bytes) -> bool:
        return mine in decode_acls(body).writers

    body = yield from change_cell(ACLS_KEY, altered, is_mine)
    return AclCell() if body is None else decode_acls(body), before
