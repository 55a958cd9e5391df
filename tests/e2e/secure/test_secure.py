"""Seven clients of others log in, and do not: by certificates, passwords and tokens."""

import asyncio
import json
import re
import ssl
import subprocess
import sys
import time
import urllib.request
from contextlib import suppress
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from lakelog.security import ScramMechanism, prove
from tests.certificates import Authority
from tests.e2e.secure.programs import PROGRAMS, call
from tests.e2e.secure.secured import PASSWORD, Secured
from tests.parts.jars import classpath
from tests.parts.jvm import java
from tests.parts.process import LOOPBACK
from tests.patience import in_time
from tests.unit.broker.site import Client

THEIRS = Authority("theirs")
MODES = ("tls", "mtls", "SCRAM-SHA-512", "PLAIN", "OAUTHBEARER")
NOT_THERE = {
    ("kcat", "OAUTHBEARER"): "librdkafka of Debian 12 was built without OIDC",
    ("kcat", "SCRAM-SHA-512"): "librdkafka before 2.6.1 sends a nonce that Kafka 4 refuses, too",
}
BAD_LOGINS, ATTACKERS = 10_000, 100


def rows(modes: tuple[str, ...] = MODES) -> list[tuple[str, str]]:
    return [
        (client, mode) for client in PROGRAMS for mode in modes if (client, mode) not in NOT_THERE
    ]


@pytest.mark.sample(6)
@pytest.mark.parametrize(("client", "mode"), rows())
def test_a_client_that_is_somebody_is_served(secured: Secured, client: str, mode: str) -> None:
    is_ok, said = call(client, secured.plan(mode))
    assert is_ok, said


@pytest.mark.sample(3)
@pytest.mark.parametrize(("client", "mode"), rows())
def test_a_client_that_is_not_who_it_says_is_not_served(
    secured: Secured, client: str, mode: str
) -> None:
    wrong: dict[str, Any] = {
        "tls": lambda: {"ca": str(THEIRS.write_certificate(secured.home / "their_ca.pem"))},
        "mtls": lambda: {"cert": str(THEIRS.sign("CN=alice").write(secured.home / "theirs.pem"))},
        "PLAIN": lambda: {"password": "hunter2"},
        "SCRAM-SHA-512": lambda: {"password": "hunter2"},
        "OAUTHBEARER": lambda: {"user": "for-others"},
    }[mode]()
    try:
        is_ok, said = call(client, secured.plan(mode, within_s=5, **wrong), 25)
    except subprocess.TimeoutExpired:
        return  # Some try for ever.
    assert not is_ok, said


@pytest.mark.sample(2)
@pytest.mark.parametrize(("client", "mode"), rows(("SCRAM-SHA-512", "OAUTHBEARER")))
def test_a_client_logs_in_again_while_it_works(secured: Secured, client: str, mode: str) -> None:
    """Those that know KIP-368 do it on their connections; others are cut off, and connect again."""
    if client == "kcat":
        return  # It ends before its session does.
    is_ok, said = call(client, secured.plan(mode, count=20, pause_s=0.3))
    assert is_ok, said


# ---------------------------------------------------------------------------- tools


@pytest.mark.parametrize("whose", ["apache", "ours"])
def test_kafka_configs_makes_and_deletes_users(secured: Secured, whose: str) -> None:
    tool = {
        "apache": [java(), "-Xmx256m", "-cp", classpath(), "kafka.admin.ConfigCommand"],
        "ours": [sys.executable, "-m", "lakelog", "kafka-configs"],
    }[whose]
    admin = secured.command_config("alice")
    address = secured.sasl.replace(LOOPBACK, "localhost")

    def configs(*more: str) -> None:
        of_user = ("--entity-type", "users", "--entity-name", f"bob-{whose}")
        words = [*tool, "--bootstrap-server", address, "--command-config", str(admin)]
        found = subprocess.run([*words, *of_user, *more], capture_output=True, text=True)
        assert found.returncode == 0, found.stdout + found.stderr

    configs("--alter", "--add-config", "SCRAM-SHA-512=[iterations=8192,password=hunter2]")
    rows = map(json.loads, secured.lakelog("user", "list", "--json").splitlines())
    found = {row["user"]: row["iterations"] for row in rows}
    assert found[f"bob-{whose}"] == 8192
    plan = secured.plan("SCRAM-SHA-512", user=f"bob-{whose}", password="hunter2")
    is_ok, said = call("confluent", plan)
    assert is_ok, said
    configs("--alter", "--delete-config", "SCRAM-SHA-512")
    is_ok, said = call("confluent", {**plan, "within_s": 5}, 25)
    assert not is_ok, said


# ---------------------------------------------------------------------------- hostile


def asked_for_users(secured: Secured) -> float:
    """Return how often the broker has asked the store for users."""
    with urllib.request.urlopen(f"http://{secured.http}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    found = re.findall(r'^lakelog_store_asked_total\{.*what="users".*\} (.+)$', text, re.MULTILINE)
    return sum(map(float, found))


@pytest.mark.long
def test_ten_thousand_bad_logins_lock_nobody_out_and_cost_the_store_nothing(
    secured: Secured,
) -> None:
    """All of one address, while a client of another one logs in again and again."""
    context = ssl.create_default_context(cafile=str(secured.ca))
    host, port = secured.sasl.rsplit(":", 1)
    mechanism = ScramMechanism.SHA_512
    late: list[float] = []

    async def log_in(user: str, password: str, source: str) -> bool:
        reader, writer = await asyncio.open_connection(
            host, int(port), ssl=context, server_hostname="localhost", local_addr=(source, 0)
        )
        client = Client(reader, writer)
        try:
            await client.ask(17, 1, mechanism=str(mechanism))
            steps = prove(mechanism, user, password, "NONCE")
            first = await client.ask(36, 2, auth_bytes=next(steps))
            # A guess need not be hashed: whoever guesses has a list.
            final = b"c=biws,r=" + first.auth_bytes[2:].split(b",")[0] + b",p=" + b"A" * 86 + b"=="
            proof = steps.send(first.auth_bytes) if password else final
            last = await client.ask(36, 2, auth_bytes=proof)
            return last.error_code is ErrorCode.none
        finally:
            writer.transport.abort()

    async def attack(number: int) -> int:
        failed = 0
        for at in range(BAD_LOGINS // ATTACKERS):
            with suppress(OSError, EOFError):
                failed += not await log_in(f"user{number}-{at % 7}", "", "127.0.0.9")
        return failed

    async def honest(done: asyncio.Event) -> None:
        while not done.is_set():
            begun_s = time.monotonic()
            assert await log_in("alice", PASSWORD, "127.0.0.2")
            late.append(time.monotonic() - begun_s)
            await asyncio.sleep(0.5)

    async def story() -> int:
        done = asyncio.Event()
        beside = asyncio.create_task(honest(done))
        failed = sum(await asyncio.gather(*map(attack, range(ATTACKERS))))
        done.set()
        await beside
        return failed

    before, begun_s = asked_for_users(secured), time.monotonic()
    failed = asyncio.run(story())
    took_s = time.monotonic() - begun_s
    asked = asked_for_users(secured) - before
    sys.stdout.write(
        f"{failed} failed in {took_s:.0f} s; users were read {asked:.0f} times; the slowest of"
        f" {len(late)} honest logins took {max(late):.2f} s\n"
    )
    assert failed > BAD_LOGINS * 0.9
    assert asked <= took_s / 10 + 2  # As often as ever.
    in_time(max(late) < 5, late)
