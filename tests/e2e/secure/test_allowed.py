"""Seven clients with passwords, TLS and ACLs: what they may do, and what they call the rest.

What each of them calls it stands in docs/how-to/who-may-do-what.md, and is read from there.
"""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lakelog.broker.settings import STANDARD_AUTHORIZER
from tests.e2e.secure.programs import PROGRAMS, call
from tests.e2e.secure.secured import Secured, running_secured

ACLS = (
    ("--producer", "--topic", "open-", "--allow-principal", "User:alice"),
    ("--consumer", "--topic", "open-", "--group", "open-", "--allow-principal", "User:alice"),
    ("--producer", "--topic", "written-", "--allow-principal", "User:alice"),
    ("--operation", "Describe", "--topic", "open-", "--allow-principal", "User:reader"),
)
"""Of `kafka-acls --add`, all of them with names that begin so."""

PAGE = Path("docs/how-to/who-may-do-what.md")

DENIED: dict[str, dict[str, Any]] = {
    "topic": {"topic": "closed-{at}", "group": "open-{at}"},
    "topic read": {"topic": "written-{at}", "group": "open-{at}"},
    "group": {"topic": "open-{at}", "group": "closed-{at}"},
    "cluster": {"topic": "open-there", "group": "open-{at}", "wants": "cluster", "user": "reader"},
}


@pytest.fixture(scope="module")
def guarded() -> Iterator[Secured]:
    """A broker that does what ACLs allow."""
    configs = {
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:admin;User:CN=broker",
    }
    with running_secured(configs) as made:
        admin = str(made.command_config("admin"))
        to = ("--bootstrap-server", made.sasl, "--command-config", admin)
        create = ("--create", "--topic", "open-there")
        tool = [sys.executable, "-m", "lakelog", "kafka-topics", *to, *create]
        subprocess.run(tool, check=True, capture_output=True)
        for words in ACLS:
            more = ("--add", "--resource-pattern-type", "prefixed", *words)
            tool = [sys.executable, "-m", "lakelog", "kafka-acls", *to, *more]
            done = subprocess.run(tool, capture_output=True, text=True)
            assert done.returncode == 0, done.stdout + done.stderr
        yield made


def plan(guarded: Secured, client: str, **more: Any) -> dict[str, Any]:
    """Return what a client is to do, with names of its own; kcat's SCRAM is too old."""
    mode = "PLAIN" if client == "kcat" else "SCRAM-SHA-512"
    at = time.monotonic_ns()
    named = {name: value.format(at=at) for name, value in more.items()}
    return guarded.plan(mode, within_s=20, **named)


def words(client: str) -> dict[str, str]:
    """Return what a client calls what it may not, as the page says."""
    rows = [line.split("|")[1:-1] for line in PAGE.read_text().splitlines() if "|" in line]
    (found,) = ([cell.strip().strip("`") for cell in row] for row in rows if client in row[0])
    return dict(zip(("client", "topic", "group", "cluster"), found, strict=True))


@pytest.mark.sample(2)
@pytest.mark.parametrize("client", PROGRAMS)
def test_a_client_does_what_it_may(guarded: Secured, client: str) -> None:
    is_ok, said = call(client, plan(guarded, client, topic="open-{at}", group="open-{at}"))
    assert is_ok, said


@pytest.mark.sample(7)
@pytest.mark.parametrize("what", DENIED)
@pytest.mark.parametrize("client", PROGRAMS)
def test_a_client_is_told_by_its_own_error_what_it_may_not(
    guarded: Secured, client: str, what: str
) -> None:
    is_ok, said = call(client, plan(guarded, client, **DENIED[what]))
    assert not is_ok, said
    assert words(client)[what.removesuffix(" read")] in said, said
