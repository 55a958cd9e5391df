"""A broker with listeners for certificates and for logins, and what clients of it need."""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from tests.certificates import Authority
from tests.parts.oidc import AUDIENCE, TokenIssuer, running_issuer
from tests.parts.process import LOOPBACK, Process, free_ports

__all__ = ["OURS", "PASSWORD", "Secured", "running_secured"]

OURS = Authority("ours")
PASSWORD = "wonder,=land"
USERS = ("alice", "reader", "admin")
"""With the same password."""

SESSION_MS = 4_000
"""Short, so that clients log in again while they work."""


class Secured:
    """A broker with a listener for certificates and one for logins, and what clients need."""

    def __init__(self, home: Path, issuer: TokenIssuer, configs: dict[str, Any]) -> None:
        self.issuer = issuer
        self.home, self.storage = home, f"file://{home}/log"
        self.tls, self.mtls, self.sasl = (f"{LOOPBACK}:{port}" for port in free_ports(3))
        self.keys = OURS.sign("CN=broker").write(home / "broker.pem")
        self.ca = OURS.write_certificate(home / "ca.pem")
        properties = {
            "listeners": f"TLS://{self.tls},MTLS://{self.mtls},SASL://{self.sasl}",
            "listener.security.protocol.map": "TLS:SSL,MTLS:SSL,SASL:SASL_SSL",
            "inter.broker.listener.name": "MTLS",
            "ssl.keystore.location": self.keys,
            "ssl.truststore.location": self.ca,
            "listener.name.mtls.ssl.client.auth": "required",
            "sasl.enabled.mechanisms": "SCRAM-SHA-512,PLAIN,OAUTHBEARER",
            "connections.max.reauth.ms": SESSION_MS,
            "sasl.oauthbearer.jwks.endpoint.url": issuer.jwks_url,
            "sasl.oauthbearer.jwks.endpoint.refresh.ms": 10_000,
            "sasl.oauthbearer.expected.issuer": issuer.name,
            "sasl.oauthbearer.expected.audience": AUDIENCE,
            "group.initial.rebalance.delay.ms": 0,
            **configs,
        }
        file = home / "server.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        (home / "password").write_text(PASSWORD)
        making = [sys.executable, "-m", "lakelog", "init", self.storage]
        subprocess.run(making, check=True, capture_output=True)
        for user in USERS:
            self.lakelog("user", "add", user, "--password-file", str(home / "password"))
        (status,) = free_ports(1)
        self.http = f"{LOOPBACK}:{status}"
        argv = [sys.executable, "-m", "lakelog", "serve", "--storage", self.storage]
        argv += ["--kafka-config", str(file), "--http", self.http, "--no-keep"]
        self.log = home / "lakelog.log"
        self.process = Process(argv, self.log)

    def lakelog(self, *args: str) -> str:
        """Run a command on the storage."""
        words = [sys.executable, "-m", "lakelog", *args, "--storage", self.storage]
        return subprocess.run(words, check=True, capture_output=True, text=True).stdout

    def command_config(self, user: str) -> Path:
        """Write what Kafka's tools take with --command-config."""
        module = "org.apache.kafka.common.security.scram.ScramLoginModule required"
        lines = {
            "security.protocol": "SASL_SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.ca,
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": f'{module} username="{user}" password="{PASSWORD}";',
        }
        path = self.home / f"{user}.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
        return path

    def plan(self, mode: str, **more: Any) -> dict[str, Any]:
        """Return what a client is to do: good credentials, unless something is said."""
        is_tls = mode in ("tls", "mtls")
        address = {"tls": self.tls, "mtls": self.mtls}.get(mode, self.sasl)
        client = OURS.sign("CN=alice").write(self.home / "client.pem") if mode == "mtls" else ""
        topic = f"t{time.monotonic_ns()}"
        plan = {
            "bootstrap": address.replace(LOOPBACK, "localhost"),
            "protocol": "SSL" if is_tls else "SASL_SSL",
            "mechanism": "" if is_tls else mode,
            "ca": str(self.ca),
            "cert": str(client),
            "user": "" if is_tls else "alice",
            "password": "" if is_tls else PASSWORD,
            "token_url": self.issuer.token_url if mode == "OAUTHBEARER" else "",
            "wants": "records",
            "topic": topic,
            "group": topic,
            "value": "x",
            "count": 3,
            "pause_s": 0,
            "within_s": 60,
        }
        return {**plan, **more}


@contextmanager
def running_secured(
    configs: dict[str, Any] | None = None,
    issuing: Callable[[Path], AbstractContextManager[TokenIssuer]] = running_issuer,
) -> Iterator[Secured]:
    """Run such a broker, with more configs; no secret may stand in its log."""
    with (
        tempfile.TemporaryDirectory(prefix="lakelog-secure-") as home,
        issuing(Path(home)) as issuer,
    ):
        made = Secured(Path(home), issuer, configs or {})
        try:
            made.process.wait_until(lambda: " ready" in made.log.read_text(), 60)
            yield made
        finally:
            made.process.stop()
        log = made.log.read_text(errors="replace")
        for secret in (PASSWORD, "PRIVATE KEY", "eyJ"):
            assert secret not in log
        assert "a bug" not in log
