"""Seven clients of others log in, and do not: by certificates, passwords and tokens."""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

from tests.certificates import Authority
from tests.e2e.secure.programs import PROGRAMS, call
from tests.parts.process import LOOPBACK, Process, free_ports
from tests.patience import in_time

OURS, THEIRS = Authority("ours"), Authority("theirs")
MODES = ("tls", "mtls", "SCRAM-SHA-512", "PLAIN", "OAUTHBEARER")
NOT_THERE = {
    ("kcat", "OAUTHBEARER"): "kcat has no way to be given a token but an HTTP server",
    ("kcat", "SCRAM-SHA-512"): "librdkafka before 2.6.1 sends a nonce that Kafka 4 refuses, too",
}
PASSWORD = "wonder,=land"
SESSION_MS = 4_000
"""Short, so that clients log in again while they work."""


class Secured:
    """A broker with a listener for certificates and one for logins, and what clients need."""

    def __init__(self, home: Path) -> None:
        self.home, self.storage = home, f"file://{home}/log"
        self.tls, self.mtls, self.sasl = (f"{LOOPBACK}:{port}" for port in free_ports(3))
        self.keys = OURS.sign("CN=broker").write(home / "broker.pem")
        self.ca = OURS.write_certificate(home / "ca.pem")
        self.issuer = ec.generate_private_key(ec.SECP256R1())
        public = ECAlgorithm.to_jwk(self.issuer.public_key(), as_dict=True)
        row = {**public, "kid": "k", "alg": "ES256", "use": "sig"}
        (home / "keys.json").write_text(json.dumps({"keys": [row]}))
        properties = {
            "listeners": f"TLS://{self.tls},MTLS://{self.mtls},SASL://{self.sasl}",
            "listener.security.protocol.map": "TLS:SSL,MTLS:SSL,SASL:SASL_SSL",
            "inter.broker.listener.name": "MTLS",
            "ssl.keystore.location": self.keys,
            "ssl.truststore.location": self.ca,
            "listener.name.mtls.ssl.client.auth": "required",
            "sasl.enabled.mechanisms": "SCRAM-SHA-512,PLAIN,OAUTHBEARER",
            "connections.max.reauth.ms": SESSION_MS,
            "sasl.oauthbearer.jwks.endpoint.url": f"file://{home}/keys.json",
            "sasl.oauthbearer.expected.issuer": "us",
            "sasl.oauthbearer.expected.audience": "kafka",
            "group.initial.rebalance.delay.ms": 0,
        }
        file = home / "server.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        (home / "password").write_text(PASSWORD)
        self._lakelog("init", self.storage)
        secret = ("--password-file", str(home / "password"))
        self._lakelog("user", "add", "alice", "--storage", self.storage, *secret)
        (status,) = free_ports(1)
        argv = [sys.executable, "-m", "lakelog", "serve", "--storage", self.storage]
        argv += ["--kafka-config", str(file), "--http", f"{LOOPBACK}:{status}", "--no-keep"]
        self.log = home / "lakelog.log"
        self.process = Process(argv, self.log)

    def _lakelog(self, *args: str) -> None:
        subprocess.run([sys.executable, "-m", "lakelog", *args], check=True, capture_output=True)

    def plan(self, mode: str, **more: Any) -> dict[str, Any]:
        """Return what a client is to do: good credentials, unless something is said."""
        is_tls = mode in ("tls", "mtls")
        address = {"tls": self.tls, "mtls": self.mtls}.get(mode, self.sasl)
        client = OURS.sign("CN=alice").write(self.home / "client.pem") if mode == "mtls" else ""
        named = mode in ("PLAIN", "SCRAM-SHA-512")
        plan = {
            "bootstrap": address.replace(LOOPBACK, "localhost"),
            "protocol": "SSL" if is_tls else "SASL_SSL",
            "mechanism": "" if is_tls else mode,
            "ca": str(self.ca),
            "cert": str(client),
            "user": "alice" if named else "",
            "password": PASSWORD if named else "",
            "token": self.token() if mode == "OAUTHBEARER" else "",
            "topic": f"t{time.monotonic_ns()}",
            "value": "x",
            "count": 3,
            "pause_s": 0,
            "within_s": 60,
        }
        return {**plan, **more}

    def token(self, **claims: Any) -> str:
        now_s = int(time.time())  # noqa: TID251 (the broker looks at the system's clock)
        told = {"iss": "us", "aud": "kafka", "sub": "alice", "exp": now_s + 600, **claims}
        return jwt.encode(told, self.issuer, "ES256", headers={"kid": "k"})


@pytest.fixture(scope="module")
def secured() -> Iterator[Secured]:
    with tempfile.TemporaryDirectory(prefix="lakelog-secure-") as home:
        made = Secured(Path(home))
        try:
            made.process.wait_until(lambda: " ready" in made.log.read_text(), 60)
            yield made
        finally:
            made.process.stop()
        log = made.log.read_text(errors="replace")
        for secret in (PASSWORD, "PRIVATE KEY", "eyJ"):
            assert secret not in log
        assert "a bug" not in log


def rows(modes: tuple[str, ...] = MODES) -> list[tuple[str, str]]:
    return [
        (client, mode) for client in PROGRAMS for mode in modes if (client, mode) not in NOT_THERE
    ]


@pytest.mark.parametrize(("client", "mode"), rows())
def test_a_client_that_is_somebody_is_served(secured: Secured, client: str, mode: str) -> None:
    is_ok, said = call(client, secured.plan(mode))
    assert is_ok, said


@pytest.mark.parametrize(("client", "mode"), rows())
def test_a_client_that_is_not_who_it_says_is_not_served(
    secured: Secured, client: str, mode: str
) -> None:
    wrong: dict[str, Any] = {
        "tls": lambda: {"ca": str(THEIRS.write_certificate(secured.home / "their_ca.pem"))},
        "mtls": lambda: {"cert": str(THEIRS.sign("CN=alice").write(secured.home / "theirs.pem"))},
        "PLAIN": lambda: {"password": "hunter2"},
        "SCRAM-SHA-512": lambda: {"password": "hunter2"},
        "OAUTHBEARER": lambda: {"token": secured.token(aud="somebody else")},
    }[mode]()
    try:
        is_ok, said = call(client, secured.plan(mode, within_s=5, **wrong), 25)
    except subprocess.TimeoutExpired:
        return  # Some try for ever.
    assert not is_ok, said


@pytest.mark.parametrize(("client", "mode"), rows(("SCRAM-SHA-512", "OAUTHBEARER")))
def test_a_client_logs_in_again_while_it_works(secured: Secured, client: str, mode: str) -> None:
    """Those that know KIP-368 do it on their connections; others are cut off, and connect again."""
    if client == "kcat":
        return  # It ends before its session does.
    is_ok, said = call(client, secured.plan(mode, count=20, pause_s=0.3))
    assert is_ok, said


@pytest.mark.parametrize("client", ["java", "confluent", "kafkajs"])
def test_a_new_certificate_is_seen_by_the_next_client(secured: Secured, client: str) -> None:
    old, new = secured.keys.read_text(), Authority("new")
    try:
        new.sign("CN=broker").write(secured.keys)
        ca = new.write_certificate(secured.home / "new_ca.pem")
        began = time.monotonic()
        while True:
            is_ok, said = call(client, secured.plan("tls", ca=str(ca), within_s=5))
            if is_ok:
                break
            in_time(time.monotonic() - began < 60, said)
    finally:
        secured.keys.write_text(old)
        time.sleep(11)  # noqa: TID251 (the old one is taken again)


def test_a_client_whose_certificate_has_expired_is_not_served(secured: Secured) -> None:
    expired = OURS.sign("CN=alice", lasts=timedelta(hours=-1))
    cert = expired.write(secured.home / "expired.pem")
    is_ok, said = call("confluent", secured.plan("mtls", cert=str(cert), within_s=5))
    assert not is_ok, said
