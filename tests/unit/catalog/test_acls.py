"""The cell of ACLs: added to, taken from, and read by everybody."""

import json

import pytest

from lakelog.catalog import add_acls, read_acls, remove_acls
from lakelog.errors import CorruptError, InvalidInputError, UnsupportedError
from lakelog.names import ACLS_KEY
from lakelog.security import (
    ACLS_MAX,
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from lakelog.store import PutIfAbsent, PutIfMatch
from tests.unit.log.site import Site, lose_answer


def acl(name: str, principal: str = "User:alice") -> Acl:
    return Acl(
        ResourceType.TOPIC,
        PatternType.LITERAL,
        name,
        principal,
        "*",
        Operation.READ,
        Permission.ALLOW,
    )


def write(number: int) -> bytes:
    return number.to_bytes(16, "big")


@pytest.fixture
def site() -> Site:
    return Site()


def test_a_namespace_without_the_cell_has_no_acls(site: Site) -> None:
    cell = site.run(read_acls())
    assert (cell.version, cell.acls) == (0, ())


def test_what_is_added_is_there_once_and_raises_the_version(site: Site) -> None:
    assert site.run(add_acls([acl("a"), acl("b"), acl("a")], write(1))).version == 1
    assert site.run(add_acls([acl("b")], write(2))).version == 1
    assert site.run(add_acls([acl("ü")], write(3))).version == 2
    cell = site.run(read_acls())
    assert cell.acls == (acl("a"), acl("b"), acl("ü"))


def test_what_filters_mean_is_removed_and_told_by_filter(site: Site) -> None:
    site.run(add_acls([acl("a"), acl("b"), acl("a", "User:bob")], write(1)))
    by_name, by_principal = AclFilter(name="a"), AclFilter(principal="User:bob")
    cell, found = site.run(remove_acls([by_name, by_principal, AclFilter(name="c")], write(2)))
    assert (cell.version, cell.acls) == (2, (acl("b"),))
    assert found == [(acl("a"), acl("a", "User:bob")), (acl("a", "User:bob"),), ()]
    cell, found = site.run(remove_acls([by_name], write(3)))
    assert (cell.version, found) == (2, [()])


@pytest.mark.parametrize("kind", [PutIfAbsent, PutIfMatch])
def test_a_lost_answer_does_no_harm(site: Site, kind: type) -> None:
    if kind is PutIfMatch:
        site.run(add_acls([acl("a")], write(1)))
        perform = lose_answer(site, kind, ACLS_KEY)
        cell, found = site.run(remove_acls([AclFilter(name="a")], write(2)), perform)
        assert (cell.version, cell.acls, found) == (2, (), [(acl("a"),)])
    else:
        cell = site.run(add_acls([acl("a")], write(1)), lose_answer(site, kind, ACLS_KEY))
        assert (cell.version, cell.acls) == (1, (acl("a"),))


def test_there_are_not_more_than_a_broker_can_hold(site: Site) -> None:
    many = [acl(f"t{number}") for number in range(ACLS_MAX)]
    site.run(add_acls(many, write(1)))
    with pytest.raises(InvalidInputError, match="prefixed"):
        site.run(add_acls([acl("one more")], write(2)))
    assert len(site.run(read_acls()).acls) == ACLS_MAX


GOOD = {"format": 1, "version": 1, "writers": [], "acls": []}
ROW = ["TOPIC", "LITERAL", "a", "User:alice", "*", "READ", "ALLOW"]


@pytest.mark.parametrize(
    "acls",
    [
        [ROW[:-1]],
        [["TOPICS", *ROW[1:]]],
        [["ANY", *ROW[1:]]],
        [["TOPIC", "MATCH", *ROW[2:]]],
        [[*ROW[:2], "", *ROW[3:]]],
        [[*ROW[:3], "alice", *ROW[4:]]],
        [["CLUSTER", *ROW[1:]]],
        [[*ROW[:5], "ANY", "ALLOW"]],
        [[*ROW[:6], "MAYBE"]],
        [[*ROW[:2], "x" * 2000, *ROW[3:]]],
        [[*ROW[:3], "User:" + "x" * 2000, *ROW[4:]]],
        [[*ROW[:4], "x" * 65, *ROW[5:]]],
        [ROW] * (ACLS_MAX + 1),
        7,
    ],
)
def test_what_is_no_cell_is_not_taken_for_one(site: Site, acls: object) -> None:
    site.replace(ACLS_KEY, json.dumps(GOOD | {"acls": [ROW]}).encode())
    assert site.run(read_acls()).acls == (acl("a"),)
    site.replace(ACLS_KEY, json.dumps(GOOD | {"acls": acls}).encode())
    with pytest.raises(CorruptError):
        site.run(read_acls())


@pytest.mark.parametrize("more", [{"format": 2}, {"conditions": []}])
def test_the_cell_of_a_later_version_is_refused(site: Site, more: dict[str, object]) -> None:
    site.replace(ACLS_KEY, json.dumps(GOOD | more).encode())
    with pytest.raises(UnsupportedError):
        site.run(read_acls())
