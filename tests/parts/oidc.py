"""An issuer of tokens by OpenID Connect that somebody else has written: mock-oauth2-server.

Whoever asks for a token by client credentials gets one, and what it says depends on the name of the
client: of `alice` it is good, of the others something is wrong with it. A key is made for each
start, so that to start it again is to rotate it; it has the same id.
"""

import json
import threading
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, Protocol

from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from tests.parts.jars import oidc_classpath
from tests.parts.jvm import QUICK, java
from tests.parts.process import LOOPBACK, START_S, Process, accepts, free_ports

__all__ = [
    "AUDIENCE", "LASTS_S", "Issuer", "TokenIssuer", "fetch_token", "handing_out", "running_issuer",
]  # fmt: skip

AUDIENCE = "kafka"
LASTS_S = 600
_MAIN = "no.nav.security.mock.oauth2.StandaloneMockOAuth2ServerKt"
_GOOD = {"sub": "alice", "aud": [AUDIENCE]}
_CLIENTS: Mapping[str, Mapping[str, Any]] = {
    "alice": _GOOD,
    "expired": {**_GOOD, "exp": 1_700_000_000},
    "for-others": {**_GOOD, "aud": ["others"]},
    "of-others": {**_GOOD, "iss": "http://others.example.com"},
    "nobody": {"aud": [AUDIENCE], "sub": ""},
}


def fetch_token(url: str, client: str, secret: str = "secret") -> str:
    """Return a token by client credentials, of whichever issuer."""
    asked = {"grant_type": "client_credentials", "client_id": client, "client_secret": secret}
    body = urllib.parse.urlencode(asked).encode()
    with urllib.request.urlopen(url, body, timeout=30) as answer:
        token: str = json.load(answer)["access_token"]
    return token


class TokenIssuer(Protocol):
    """Whoever issues tokens."""

    name: str
    token_url: str
    jwks_url: str

    def rotate(self) -> None:
        """Sign with another key from now on."""
        ...

    def token(self, client: str = "alice") -> str:
        """Return a token by client credentials."""
        ...


class Issuer:
    """The issuer, as a process."""

    def __init__(self, home: Path) -> None:
        self._log = home / "issuer.log"
        (self._port,) = free_ports(1)
        self.name = f"http://{LOOPBACK}:{self._port}/ours"
        self.token_url, self.jwks_url = f"{self.name}/token", f"{self.name}/jwks"
        self._process: Process | None = None

    def start(self) -> None:
        """Start it, with a key of its own."""
        mappings = [
            {"requestParam": "client_id", "match": client, "claims": claims}
            for client, claims in _CLIENTS.items()
        ]
        callback = {"issuerId": "ours", "tokenExpiry": LASTS_S, "requestMappings": mappings}
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        row = {**RSAAlgorithm.to_jwk(key, as_dict=True), "kid": "any", "use": "sig"}
        config = {
            "httpServer": "NettyWrapper",
            "tokenCallbacks": [callback],
            "tokenProvider": {
                "keyProvider": {"initialKeys": json.dumps(row), "algorithm": "RS256"}
            },
        }
        argv = [java(), *QUICK, "-Xmx128m", "-cp", oidc_classpath(), _MAIN]
        env = {"SERVER_HOSTNAME": LOOPBACK, "SERVER_PORT": str(self._port)}
        self._process = Process(argv, self._log, {**env, "JSON_CONFIG": json.dumps(config)})
        self._process.wait_until(lambda: accepts(self._port), START_S)

    def stop(self) -> None:
        """Stop it; its key is gone."""
        if self._process is not None:
            self._process.stop()

    def rotate(self) -> None:
        """Sign with another key from now on."""
        self.stop()
        self.start()

    def token(self, client: str = "alice") -> str:
        """Return a token by client credentials."""
        return fetch_token(self.token_url, client)


@contextmanager
def running_issuer(home: Path) -> Iterator[Issuer]:
    """Run an issuer."""
    issuer = Issuer(home)
    try:
        issuer.start()
        yield issuer
    finally:
        issuer.stop()


@contextmanager
def handing_out(token: str) -> Iterator[str]:
    """Run an issuer that hands out one token, good or forged; yield its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.dumps({"access_token": token, "expires_in": 600}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    with HTTPServer((LOOPBACK, 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://{LOOPBACK}:{server.server_port}/token"
        finally:
            server.shutdown()
            thread.join()
