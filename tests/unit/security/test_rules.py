"""Verdicts by ACLs. Random ones are compared with Kafka's own authorizer in the end-to-end tests;
here are the rules, one by one, and that a verdict stays cheap.
"""

from collections.abc import Iterable
from typing import Any

import pytest

from lakelog.errors import InvalidInputError
from lakelog.security import (
    CLUSTER_NAME,
    Acl,
    AclFilter,
    AclRules,
    Operation,
    PatternType,
    Permission,
    Principal,
    ResourceType,
    check_acl,
    rules,
)

ALICE, BOB = Principal.user("alice"), Principal.user("bob")
HERE, THERE = "10.0.0.1", "10.0.0.2"
TOPIC, LITERAL, PREFIXED = ResourceType.TOPIC, PatternType.LITERAL, PatternType.PREFIXED
READ, WRITE, DESCRIBE, ALL = Operation.READ, Operation.WRITE, Operation.DESCRIBE, Operation.ALL
ALLOW, DENY = Permission.ALLOW, Permission.DENY


def acl(
    name: str,
    operation: Operation = READ,
    permission: Permission = ALLOW,
    *,
    principal: str = "User:alice",
    host: str = "*",
    pattern: PatternType = LITERAL,
    kind: ResourceType = TOPIC,
) -> Acl:
    return Acl(kind, pattern, name, principal, host, operation, permission)


def may(found: Iterable[Acl], operation: Operation = READ, name: str = "orders") -> bool:
    return AclRules(found).allows(ALICE, HERE, operation, TOPIC, name)


def test_nothing_is_allowed_that_nobody_allowed() -> None:
    assert not may([])
    assert may([acl("orders")])
    assert not may([acl("orders")], WRITE)
    assert not may([acl("orders", principal="User:bob")])
    assert not may([acl("orders", kind=ResourceType.GROUP)])


def test_who_may_read_may_describe_and_who_may_not_read_may_still_describe() -> None:
    assert may([acl("orders", READ)], DESCRIBE)
    assert may([acl("orders", Operation.ALTER_CONFIGS)], Operation.DESCRIBE_CONFIGS)
    assert not may([acl("orders", Operation.ALTER_CONFIGS)], DESCRIBE)
    both = [acl("orders", DESCRIBE), acl("orders", READ, DENY)]
    assert may(both, DESCRIBE)
    assert not may(both, READ)


def test_a_denial_counts_before_all_that_is_allowed() -> None:
    allowed = acl("*", ALL)
    assert may([allowed])
    assert not may([allowed, acl("orders", READ, DENY)])
    assert not may([allowed, acl("or", ALL, DENY, pattern=PREFIXED, principal="User:*")])
    assert may([allowed, acl("or", ALL, DENY, pattern=PREFIXED, host=THERE)])


def test_a_prefix_is_the_beginning_of_a_name_and_an_asterisk_is_every_name() -> None:
    prefixed = [acl("or", pattern=PREFIXED), acl("order-x", pattern=PREFIXED)]
    assert may(prefixed, name="or")
    assert may(prefixed, name="orders")
    assert not may(prefixed, name="o")
    assert may([acl("*")], name="anything")
    assert not may([acl("*", pattern=PREFIXED)], name="anything")


@pytest.mark.parametrize(
    ("given", "client"),
    [
        ("0:0:0:0:0:0:0:1", "::1"),
        ("2001:DB8::7", "2001:db8:0:0:0:0:0:7"),
        ("fe80::7", "fe80::7%eth0"),
        ("10.0.0.7", "::ffff:10.0.0.7"),
    ],
)
def test_an_address_is_the_same_however_it_is_written(given: str, client: str) -> None:
    found = AclRules([acl("orders", WRITE, host=given)])
    assert found.allows(ALICE, client, WRITE, TOPIC, "orders")
    assert found.allows_any(ALICE, client, WRITE, TOPIC)
    assert not found.allows(ALICE, "10.0.0.8", WRITE, TOPIC, "orders")
    assert not found.allows_any(ALICE, "10.0.0.8", WRITE, TOPIC)


def test_super_users_may_do_everything_and_nobody_else_becomes_one() -> None:
    found = AclRules([acl("*", ALL, DENY, principal="User:*")], super_users=frozenset({ALICE}))
    assert found.allows(ALICE, HERE, WRITE, TOPIC, "orders")
    assert not found.allows(BOB, HERE, WRITE, TOPIC, "orders")
    assert not found.allows(Principal("Group", "alice"), HERE, WRITE, TOPIC, "orders")


def test_everyone_may_where_no_acl_speaks_of_it_if_that_was_said() -> None:
    found = AclRules([acl("orders", principal="User:bob")], allow_everyone=True)
    assert found.allows(ALICE, HERE, WRITE, TOPIC, "others")
    assert not found.allows(ALICE, HERE, WRITE, TOPIC, "orders")


def test_whether_there_may_be_a_topic_to_write_to() -> None:
    def any_(*found: Acl) -> bool:
        return AclRules(found).allows_any(ALICE, HERE, WRITE, TOPIC)

    assert not any_(acl("orders", READ))
    assert any_(acl("orders", WRITE))
    assert not any_(acl("orders", WRITE), acl("orders", WRITE, DENY))
    assert not any_(acl("orders", WRITE), acl("ord", ALL, DENY, pattern=PREFIXED))
    assert any_(acl("orders", WRITE), acl("orders-", ALL, DENY, pattern=PREFIXED))
    assert not any_(acl("orders", WRITE), acl("*", WRITE, DENY))
    assert any_(acl("ord", WRITE, pattern=PREFIXED), acl("ord", WRITE, DENY))


def test_what_may_be_done_with_a_resource_is_told() -> None:
    found = AclRules([acl("orders", READ), acl("orders", WRITE)])
    assert found.operations(ALICE, HERE, TOPIC, "orders") == [READ, WRITE, DESCRIBE]


def test_a_filter_by_match_finds_all_that_speak_of_a_name() -> None:
    found = [acl("*"), acl("or", pattern=PREFIXED), acl("orders"), acl("orders-2")]
    by_match = AclFilter(name="orders", pattern_type=PatternType.MATCH)
    assert AclRules(found).select(by_match) == found[:3]
    assert AclRules(found).select(AclFilter(name="orders")) == [found[2]]
    assert AclRules(found).select(AclFilter(pattern_type=PREFIXED)) == [found[1]]
    assert AclRules(found).select(AclFilter()) == found
    assert AclFilter(operation=Operation.UNKNOWN).is_unknown
    assert not AclFilter().is_unknown


def test_verdicts_are_kept_and_not_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    found = AclRules([acl("or", pattern=PREFIXED)])
    judged: list[str] = []
    judge = found._judge

    def noted(*question: Any) -> bool:
        judged.append(question[-1])
        return judge(*question)

    monkeypatch.setattr(rules, "VERDICTS_MAX", 10)
    monkeypatch.setattr(found, "_judge", noted)
    for _ in range(3):
        assert found.allows(ALICE, HERE, READ, TOPIC, "orders")
    assert judged == ["orders"]
    for number in range(100):
        assert found.allows(ALICE, HERE, READ, TOPIC, f"or{number}")
        assert len(found._verdicts) <= 10
    long = "or" + "x" * 2_000
    assert found.allows(ALICE, HERE, READ, TOPIC, long)
    assert not any(question[-1] == long for question in found._verdicts)


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (acl("x", kind=ResourceType.CLUSTER), CLUSTER_NAME),
        (acl(""), "empty"),
        (acl("x", kind=ResourceType.ANY), "resourceType ANY"),
        (acl("x", pattern=PatternType.MATCH), "patternType MATCH"),
        (acl("x", Operation.ANY), "operation ANY"),
        (acl("x", permission=Permission.ANY), "permissionType ANY"),
        (acl("x", principal="alice"), "no colon"),
        (acl("x" * 1025), "1024 at most"),
        (acl("x", principal="User:" + "x" * 1024), "1024 at most"),
        (acl("x", host="x" * 65), "64 at most"),
    ],
)
def test_what_cannot_be_a_rule_is_refused(wrong: Acl, why: str) -> None:
    with pytest.raises(InvalidInputError, match=why):
        check_acl(wrong)
    check_acl(acl("x"))
