"""Verdicts on random ACLs are those of Apache Kafka's own StandardAuthorizer.

Names, principals and hosts are few and near to each other, so that patterns, denials and wildcards
meet: of each kind of question a good part is allowed, and a good part is not.
"""

import subprocess
from pathlib import Path
from random import Random  # noqa: TID251 (seeded)

import pytest

from lakelog.security import (
    SUPPORTED_OPERATIONS,
    Acl,
    AclFilter,
    AclRules,
    Operation,
    PatternType,
    Permission,
    Principal,
    ResourceType,
)
from tests.parts.archives import quick_kafka
from tests.parts.jars import compiled
from tests.parts.jvm import java
from tests.parts.process import mortal

pytestmark = pytest.mark.kafka

SOURCE = Path(__file__).parent / "oracle" / "Authorizer.java"
SEED, CASES, QUESTIONS = 24, 400, 60
NAMES = ("a", "ab", "abc", "b", "hardcode", "hard", "*", "ä", "a*")
WHO = ("User:alice", "User:bob", "User:*", "Group:alice", "User:a:b", "User:")
HOSTS = ("127.0.0.1", "10.0.0.7", "*")
TYPES = tuple(one for one in ResourceType if one > ResourceType.ANY)
OPERATIONS = tuple(one for one in Operation if one > Operation.ANY)
PATTERNS = PatternType.LITERAL, PatternType.PREFIXED
NULL = "\\N"


def draw_acl(rng: Random) -> Acl:
    return Acl(
        rng.choice((ResourceType.TOPIC, ResourceType.TOPIC, *TYPES)),
        rng.choice(PATTERNS),
        rng.choice(NAMES),
        rng.choice(WHO),
        rng.choice(HOSTS),
        rng.choice((Operation.ALL, Operation.READ, Operation.WRITE, *OPERATIONS)),
        rng.choice((Permission.ALLOW, Permission.ALLOW, Permission.DENY)),
    )


def draw_filter(rng: Random) -> AclFilter:
    def maybe(*some: str) -> str | None:
        return rng.choice((None, *some))

    return AclFilter(
        rng.choice((ResourceType.ANY, ResourceType.TOPIC, *TYPES)),
        rng.choice(list(PatternType)[1:]),
        maybe(*NAMES, "abcd"),
        maybe(*WHO),
        maybe(*HOSTS),
        rng.choice((Operation.ANY, Operation.ANY, *OPERATIONS)),
        rng.choice(list(Permission)[1:]),
    )


def write(*words: object) -> str:
    return "\t".join(
        NULL if one is None else getattr(one, "name", None) or str(one) for one in words
    )


def draw(rng: Random) -> tuple[list[str], list[str]]:
    """Return a story for Kafka, and what we would say to each of its questions."""
    lines: list[str] = []
    ours: list[str] = []
    for _ in range(CASES):
        supers = rng.choice(("", "", "User:bob", "User:bob; Group:alice"))
        everyone = rng.random() < 0.3
        acls = list(dict.fromkeys(draw_acl(rng) for _ in range(rng.choice((0, 1, 3, 10, 40)))))
        rules = AclRules(
            acls,
            super_users=frozenset(
                Principal.parse(one.strip()) for one in supers.split(";") if one.strip()
            ),
            allow_everyone=everyone,
        )
        lines.append(f"rules\t{supers}\t{str(everyone).lower()}")
        lines += [write("acl", one[0], one[1], *one[2:]) for one in acls]
        for _ in range(QUESTIONS):
            who, host = rng.choice(("User:alice", "User:bob", "User:eve")), rng.choice(HOSTS[:2])
            type_ = rng.choice((ResourceType.TOPIC, *TYPES))
            operation = rng.choice(SUPPORTED_OPERATIONS[ResourceType.TOPIC] + OPERATIONS[1:])
            name = rng.choice((*NAMES, "abcd", "c"))
            kind = rng.choice(("ask", "ask", "any", "find"))
            principal = Principal.parse(who)
            if kind == "ask":
                lines.append(write("ask", who, host, operation, type_, name))
                verdict = rules.allows(principal, host, operation, type_, name)
                ours.append(str(verdict).lower())
            elif kind == "any":
                lines.append(write("any", who, host, operation, type_))
                ours.append(str(rules.allows_any(principal, host, operation, type_)).lower())
            else:
                wanted = draw_filter(rng)
                lines.append(write("find", *wanted))
                ours.append(str(sorted(acls.index(one) for one in rules.select(wanted))))
    return lines, ours


def test_verdicts_and_filters_are_those_of_kafkas_authorizer(tmp_path: Path) -> None:
    lines, ours = draw(Random(SEED))
    asked, told = tmp_path / "asked", tmp_path / "told"
    asked.write_text("".join(f"{line}\n" for line in lines))
    argv = [java(), *quick_kafka(), "-cp", compiled("authorizer", SOURCE), "Authorizer"]
    done = subprocess.run(
        mortal([*argv, str(asked), str(told)]), capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    questions = [line for line in lines if line.split("\t")[0] in ("ask", "any", "find")]
    theirs = told.read_text().splitlines()
    assert len(theirs) == len(questions) >= 20_000
    wrong = [row for row in zip(questions, theirs, ours, strict=True) if row[1] != row[2]]
    assert not wrong, wrong[:5]
    for kind in ("ask", "any"):
        said = [one for line, one in zip(questions, theirs, strict=True) if line.startswith(kind)]
        assert 0.1 < said.count("true") / len(said) < 0.9, kind
