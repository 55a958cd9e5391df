"""Child processes that start for sure or say why not, and that never outlive their parent.

Every child is started through `setpriv --pdeathsig KILL`, because the kernel is the only one who
can clean up after a parent that was itself killed. (`preexec_fn` could set the same signal, but
Python warns about it once librdkafka has started its threads.) The signal follows the *thread*
that started the child: start parts on a thread that lives as long as they should.
"""

import itertools
import os
import secrets
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.patience import LateError

LOOPBACK = "127.0.0.1"
START_S = 180.0
"""A part that has not started by then will not; on a busy machine some take a minute."""
_LOG_LINES_SHOWN = 40
_PORTS = 20_000
_WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))  # noqa: TID251
_WORKERS = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))  # noqa: TID251
_next_port = itertools.count(secrets.randbelow(_PORTS // _WORKERS))


class MissingPartError(RuntimeError):
    """Something that must be installed is not; the message says what."""


class FailedPartError(RuntimeError):
    """A part did not start or did not do what it was asked; the message carries its last words."""


@dataclass(frozen=True, slots=True)
class Finished:
    """What a command that ran to its end left behind."""

    rc: int
    stdout: str
    stderr: str


def free_ports(count: int) -> list[int]:
    """Loopback ports nobody listens on, each given out once in the life of this process.

    They lie below the range from which the kernel takes the ports of outgoing connections.
    Otherwise a client that redials a stopped server could be handed the very port it dials,
    connect to itself, and keep the server from starting again. Test processes that run side by
    side have a share of them each.
    """
    share = _PORTS // _WORKERS
    ports: list[int] = []
    while len(ports) < count:
        port = 10_240 + _WORKER * share + next(_next_port) % share
        if not _is_taken(port):
            ports.append(port)
    return ports


def free_range(count: int) -> int:
    """The first of so many such ports that follow each other."""
    ports = free_ports(count)
    while ports[-1] - ports[0] != count - 1:
        ports = [*ports[1:], *free_ports(1)]
    return ports[0]


def _is_taken(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return True
    return False


def accepts(port: int, host: str = LOOPBACK) -> bool:
    """Whether somebody accepts connections on this port."""
    try:
        socket.create_connection((host, port), timeout=1).close()
    except OSError:
        return False
    return True


def mortal(argv: Sequence[str]) -> list[str]:
    """The same command line, dying with the thread that starts it."""
    return ["setpriv", "--pdeathsig", "KILL", "--", *argv]


class Process:
    """A running child in its own process group, with its output in a file."""

    def __init__(self, argv: Sequence[str], log: Path, env: Mapping[str, str] | None = None):
        self.log = log
        self._name = Path(argv[0]).name
        with log.open("ab") as output:
            self._child = subprocess.Popen(
                mortal(argv),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(env or {})},  # noqa: TID251 (a child inherits)
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def is_running(self) -> bool:
        return self._child.poll() is None

    @property
    def status(self) -> int | None:
        """The exit status, below 0 of one that a signal ended; None while it runs."""
        return self._child.poll()

    def wait_until(self, ready: Callable[[], bool], within_s: float) -> None:
        """Poll `ready` until it holds; a child that ends or is late is stopped and quoted."""
        deadline = time.monotonic() + within_s
        while not ready():
            if self._child.poll() is not None:
                raise FailedPartError(
                    self._last_words(f"ended with status {self._child.returncode}")
                )
            if time.monotonic() > deadline:
                self.stop(grace_s=0)
                raise LateError(self._last_words(f"was not ready within {within_s:g} s"))
            time.sleep(0.02)  # noqa: TID251 (nothing to wait on but the other process)

    def stop(self, grace_s: float = 10) -> None:
        """End the process group: politely first, by force when the grace is over."""
        if self._child.poll() is not None:
            return
        if grace_s > 0:
            os.killpg(self.pid, signal.SIGTERM)
            try:
                self._child.wait(grace_s)
                return
            except subprocess.TimeoutExpired:
                pass
        os.killpg(self.pid, signal.SIGKILL)
        self._child.wait()

    def join(self, within_s: float) -> None:
        """Wait for a process that ends by itself, in good order."""
        try:
            status = self._child.wait(within_s)
        except subprocess.TimeoutExpired:
            self.stop(grace_s=0)
            raise LateError(self._last_words(f"did not end within {within_s:g} s")) from None
        if status:
            raise FailedPartError(self._last_words(f"ended with status {status}"))

    def _last_words(self, what: str) -> str:
        lines = self.log.read_text(errors="replace").splitlines()[-_LOG_LINES_SHOWN:]
        return "\n".join([f"{self._name} {what}; the end of its log:", *lines])
