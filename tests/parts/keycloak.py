"""A real Keycloak on loopback, from its Maven coordinates, with a realm whose clients get tokens.

It takes two minutes to be built, once, and 600 MB of the cache; and half a minute to start.
"""

import json
import shutil
import tarfile
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.parts.jars import entry, run_tool
from tests.parts.oidc import AUDIENCE, LASTS_S, fetch_token
from tests.parts.process import LOOPBACK, START_S, MissingPartError, Process, free_ports

__all__ = ["SECRET", "Keycloak", "running_keycloak"]

COORDINATES = "org.keycloak:keycloak-quarkus-dist:26.7.3:tar.gz"
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"
BUILT = ("--db=dev-mem", "--cache=local")
"""Without a disk, and without a cluster that it would look for on the network."""

SECRET = "of-a-client"
_REALM = "kafka"
_ADMIN = "admin"


def _keycloak() -> Path:
    """Return its folder."""

    def make(into: Path) -> None:
        if shutil.which("mvn") is None:
            what = "`mvn` is missing: install Maven (Debian: apt-get install maven)"
            raise MissingPartError(what)
        to = [f"-Dartifact={COORDINATES}", f"-DoutputDirectory={into}"]
        run_tool(["mvn", "--batch-mode", "--quiet", "--strict-checksums", COPY, *to])
        (archive,) = into.glob("*.tar.gz")
        with tarfile.open(archive) as packed:
            packed.extractall(into, filter="data")
        archive.unlink()
        (home,) = into.iterdir()
        home.rename(into / "home")
        run_tool([str(into / "home" / "bin" / "kc.sh"), "build", *BUILT])

    return entry("keycloak", " ".join((COORDINATES, *BUILT)).encode(), make) / "home"


class Keycloak:
    """One that runs."""

    def __init__(self, home: Path) -> None:
        (self._port,) = free_ports(1)
        self._url = f"http://{LOOPBACK}:{self._port}"
        self.name = f"{self._url}/realms/{_REALM}"
        at = f"{self.name}/protocol/openid-connect"
        self.token_url, self.jwks_url = f"{at}/token", f"{at}/certs"
        argv = [str(_keycloak() / "bin" / "kc.sh"), "start", "--optimized", "--http-enabled=true"]
        argv += ["--hostname-strict=false", f"--http-host={LOOPBACK}", f"--http-port={self._port}"]
        env = {
            "KC_BOOTSTRAP_ADMIN_USERNAME": _ADMIN,
            "KC_BOOTSTRAP_ADMIN_PASSWORD": SECRET,
            "JAVA_OPTS_APPEND": "-Xmx512m",
        }
        self._process = Process(argv, home / "keycloak.log", env)

    def start(self) -> None:
        """Wait until it serves, and make the realm with a client."""
        self._process.wait_until(self._is_ready, START_S)
        self._post("", {"realm": _REALM, "enabled": True, "accessTokenLifespan": LASTS_S})
        audience = {
            "name": "audience",
            "protocol": "openid-connect",
            "protocolMapper": "oidc-audience-mapper",
            "config": {"included.custom.audience": AUDIENCE, "access.token.claim": "true"},
        }
        client = {
            "clientId": "alice",
            "secret": SECRET,
            "publicClient": False,
            "serviceAccountsEnabled": True,
            "standardFlowEnabled": False,
            "protocolMappers": [audience],
        }
        self._post(f"/{_REALM}/clients", client)

    def stop(self) -> None:
        """Stop it; nothing is left."""
        self._process.stop()

    def rotate(self) -> None:
        """Sign with another key, of another id, from now on; the old one stays good."""
        config = {"priority": ["200"], "algorithm": ["RS256"], "keySize": ["2048"]}
        key = {
            "name": "newer",
            "providerId": "rsa-generated",
            "providerType": "org.keycloak.keys.KeyProvider",
            "config": config,
        }
        self._post(f"/{_REALM}/components", key)

    def token(self, client: str = "alice") -> str:
        """Return a token by client credentials."""
        return fetch_token(self.token_url, client, SECRET)

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self._url}/realms/master", timeout=5):
                return True
        except OSError:
            return False

    def _post(self, path: str, body: dict[str, Any]) -> None:
        """Ask for something as the administrator."""
        asked = {"grant_type": "password", "client_id": "admin-cli"}
        asked |= {"username": _ADMIN, "password": SECRET}
        url = f"{self._url}/realms/master/protocol/openid-connect/token"
        with urllib.request.urlopen(url, urllib.parse.urlencode(asked).encode()) as answer:
            token = json.load(answer)["access_token"]
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        request = urllib.request.Request(
            f"{self._url}/admin/realms{path}", json.dumps(body).encode(), headers
        )
        urllib.request.urlopen(request, timeout=60).close()


@contextmanager
def running_keycloak(home: Path) -> Iterator[Keycloak]:
    """Run one."""
    keycloak = Keycloak(home)
    try:
        keycloak.start()
        yield keycloak
    finally:
        keycloak.stop()
