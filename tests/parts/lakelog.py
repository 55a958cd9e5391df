"""A real `lakelog serve`: one process on free ports, that can be killed and started again.

With ``workers`` it is a supervisor and so many brokers, of which each can be killed by its number.
It is started as its users start it, by its command line, and is ready when it says so itself.
What it keeps is in the store alone, so whoever comes after it on the same URL is the same broker.
"""

import contextlib
import http.client
import os
import re
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tests.parts.process import LOOPBACK, START_S, Process, free_ports, free_range
from tests.patience import HANGS_S

_STARTED = re.compile(r"started a worker process=(?P<process>\d+) worker=(?P<worker>\d+)")


class Lakelog:
    """One broker on a store. `kill` and `stop` end it; `restart` brings it back on its ports.

    On another ``host`` it is started by a command line that is put before its own (``hosts``).
    """

    def __init__(
        self,
        home: Path,
        storage: str,
        options: Mapping[str, str] | None = None,
        arguments: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        module: str = "lakelog",
        workers: int = 1,
        host: str = LOOPBACK,
        within: Sequence[str] = (),
        listens: bool = True,
    ):
        """With ``listens`` false its listeners are in its properties, and one is ``bootstrap``."""
        (self._status,) = free_ports(1)
        first = free_range(workers)
        addresses = [f"{host}:{first + worker}" for worker in range(workers)]
        self._process: Process | None = None
        self.env = env
        """Of the next start."""
        self.storage = storage
        self.options = dict(options or {})
        self.bootstrap = ",".join(addresses)
        self.http = f"{host}:{self._status}"
        self.log = home / "lakelog.log"
        self._argv = [*within, sys.executable, "-m", module, "serve", "--storage", storage]
        for name, value in self.options.items():
            self._argv += ["--store-option", f"{name}={value}"]
        self._argv += ["--listen", addresses[0]] if listens else []
        self._argv += ["--http", self.http, *arguments]
        if workers > 1:
            self._argv += ["--workers", str(workers)]
        if host != LOOPBACK:
            self._argv.append("--insecure")

    @property
    def pid(self) -> int:
        """The id of the process, which is also that of its group: whatever it starts is in it."""
        assert self._process is not None, "it does not run"
        return self._process.pid

    def worker_pids(self) -> dict[int, int]:
        """Return the ids of the processes of its workers, by their numbers."""
        found: dict[int, int] = {}
        for line in self.log.read_text(errors="replace").splitlines():
            if told := _STARTED.search(line):
                found[int(told["worker"])] = int(told["process"])
        return found

    @property
    def is_running(self) -> bool:
        """Whether it was started and has not ended by itself."""
        return self._process is not None and self._process.is_running

    def start(self) -> None:
        self.launch()
        self.wait()

    def launch(self) -> None:
        """Start, without waiting."""
        assert self._process is None, "it runs already"
        self._process = Process(self._argv, self.log, self.env)

    def wait(self) -> None:
        """Wait until it says that it is ready."""
        assert self._process is not None
        self._process.wait_until(self.is_ready, within_s=START_S)

    def leave(self) -> None:
        """Ask it to end in good order, without waiting."""
        self.signal(signal.SIGTERM)

    def ended(self) -> int | None:
        """Return its exit status if it has ended by now; it can be started again then."""
        status = None if self._process is None else self._process.status
        if status is not None:
            self._process = None
        return status

    def stop(self, grace_s: float = 30) -> None:
        """End it in good order, with SIGTERM; one that does not end in time is killed."""
        if self._process is not None:
            self._process.stop(grace_s)
            self._process = None

    def kill(self) -> None:
        """End it with SIGKILL, and whatever it started."""
        if self._process is not None:
            self._process.stop(grace_s=0)
            self._process = None

    def restart(self) -> None:
        """Start it again, on the same store and the same ports; one that runs is killed first."""
        self.kill()
        self.start()

    def signal(self, what: signal.Signals) -> None:
        """Send a signal to it and to whatever it started, as with SIGSTOP and SIGCONT."""
        os.killpg(self.pid, what)

    def get(self, path: str, timeout_s: float = HANGS_S) -> tuple[int, str]:
        """Ask its HTTP server for something: the status and the text."""
        link = http.client.HTTPConnection(self.http, timeout=timeout_s)
        with contextlib.closing(link):
            link.request("GET", path)
            answer = link.getresponse()
            return answer.status, answer.read().decode()

    def is_ready(self) -> bool:
        """Whether it says that clients should come."""
        try:
            return self.get("/readyz", timeout_s=5)[0] == http.HTTPStatus.OK
        except (OSError, http.client.HTTPException):
            return False


@contextlib.contextmanager
def running_lakelog(
    storage: str | None = None,
    options: Mapping[str, str] | None = None,
    arguments: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    workers: int = 1,
) -> Iterator[Lakelog]:
    """A broker that is ready, gone afterwards; without a URL, on a folder that goes with it."""
    with tempfile.TemporaryDirectory(prefix="lakelog-serve-") as home:
        broker = Lakelog(
            Path(home), storage or f"file://{home}/store", options, arguments, env, workers=workers
        )
        try:
            broker.start()
            yield broker
        finally:
            broker.stop()
