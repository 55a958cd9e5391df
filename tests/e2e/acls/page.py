"""docs/reference/acls.md: what each request needs, out of what a real Kafka answered."""

import json
from collections.abc import Mapping
from pathlib import Path

from lakelog.security import IMPLYING_DESCRIBE, Operation, Permission
from tests.e2e.acls.columns import COLUMNS, Grant
from tests.e2e.acls.matrix import Matrix
from tests.e2e.acls.probes import PROBES, Probe

__all__ = ["PAGE", "RESULTS", "differences", "page", "read_results", "write_results"]

RESULTS = Path(__file__).with_name("results.json")
PAGE = Path(__file__).parents[3] / "docs/reference/acls.md"
FAILED = "AUTHORIZATION_FAILED"
_NOTHING = "nothing"
_EVERYTHING = "All Topic and All Group and All Cluster"


def read_results() -> Matrix:
    """Return what Kafka answered when all of it was run."""
    found: Matrix = json.loads(RESULTS.read_text())
    return found


def write_results(kafka: Matrix) -> None:
    """Keep what Kafka answered."""
    RESULTS.write_text(json.dumps(kafka, indent=1) + "\n")


def differences(kafka: Matrix, ours: Matrix) -> list[str]:
    """Return the cells in which the two are not the same, and should be."""
    found: list[str] = []
    for column, answers in kafka.items():
        for probe in PROBES:
            theirs, mine = answers[str(probe)], ours[column][str(probe)]
            is_known = bool(probe.difference) and FAILED not in theirs
            if theirs != mine and not is_known:
                found.append(f"{probe}, allowed {column}: Kafka {theirs!r}, lakelog {mine!r}")
    return found


def page() -> str:
    """Return the page."""
    results = read_results()
    cells = sum(map(len, results.values()))
    lines = [
        "# What each request needs",
        "",
        "<!-- Made by python -m tests.e2e.acls: change tests/e2e/acls instead. -->",
        "",
        "[Who may do what](../how-to/who-may-do-what.md) says how ACLs are given. This is what",
        "each request needs of them, and what it is answered. It is made of the answers of a real",
        "Apache Kafka 4.3.1 with its own authorizer.",
        "",
        f"Asked were {len(PROBES)} requests under {len(results)} sets of ACLs. lakelog gives the",
        f"same answer in all {cells} cells, but for requests about transactions that are allowed:",
        "[there are none here](not-supported.md). `make acls` compares all of them, and every run",
        "of the tests compares some.",
        "",
        "A request needs one of the ACLs in its row; ALL includes every operation. Read, Write,",
        "Delete and Alter include Describe, and AlterConfigs includes DescribeConfigs. An answer",
        "that lists things leaves out what the client may not describe.",
        "",
        "| request | needs one of | without it | with it |",
        "|---|---|---|---|",
        *(_row(probe, results) for probe in PROBES),
        "",
    ]
    return "\n".join(lines)


def _row(probe: Probe, results: Matrix) -> str:
    answers = {column: row[str(probe)] for column, row in results.items()}
    without, with_ = _codes(answers[_NOTHING]), _codes(answers[_EVERYTHING])
    if probe.difference:
        with_ = probe.difference
    return f"| {probe} | {_needs(answers, bool(probe.difference))} | {without} | {with_} |"


def _needs(answers: Mapping[str, str], is_different: bool) -> str:
    """Return the smallest sets of ACLs with which a request is not refused."""
    if FAILED not in answers[_NOTHING]:
        return "nothing"
    enough = [
        column.grants
        for column in COLUMNS
        if FAILED not in answers[str(column)]
        and all(one.permission is Permission.ALLOW for one in column.grants)
        and not any(one.operation is Operation.ALL for one in column.grants)
    ]
    least = [
        one for one in enough if not any(_includes(one, other) for other in enough if other != one)
    ]
    if not least and is_different:
        return "Write or Describe TransactionalId"
    return ", or ".join(" and ".join(map(str, grants)) for grants in least)


def _includes(grants: tuple[Grant, ...], others: tuple[Grant, ...]) -> bool:
    """Say whether whoever has some ACLs is allowed all that others allow."""
    return all(any(_implies(one, other) for one in grants) for other in others)


def _implies(one: Grant, other: Grant) -> bool:
    is_implied = (
        other.operation is one.operation
        or (other.operation is Operation.DESCRIBE and one.operation in IMPLYING_DESCRIBE)
        or (one.operation, other.operation) == (Operation.ALTER_CONFIGS, Operation.DESCRIBE_CONFIGS)
    )
    return one.kind is other.kind and is_implied


def _codes(answer: str) -> str:
    codes = [one for one in answer.split() if "=" not in one]
    codes = [one for one in codes if one != "NONE"] or codes
    return ", ".join(codes) or "NONE"
