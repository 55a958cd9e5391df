"""Who is killed in the exactly-once story, and what each micro-batch was at when it happened.

    between     no micro-batch is under way, or nothing of it is staged
    staged      tasks have staged something, and no attempt was decided for
    decided     an attempt counts, and not every lane has it
    finished    every lane has it, and Spark does not know
    left        one of the three; but a driver that is dead has left it, and nobody has gone on

The moment is read from files: those of a query's checkpoint say which micro-batch is under way,
its cell and what is staged say the rest. After the death of a driver nothing moves any more, so
what is read then is what it left.

**Speculation needs two hosts.** A local Spark never makes copies of tasks, and a cluster none where
the task runs already. So the second worker of the cluster has another address of loopback. Each
has some cores, because copies are made when there is nothing else to do.
"""

import contextlib
import json
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random  # noqa: TID251 (seeded)
from uuid import UUID

from lakelog.names import STAGED_PREFIX, commit_key
from tests.parts.archives import quick_spark
from tests.parts.process import LOOPBACK, Process
from tests.parts.spark_cluster import (
    RunningJob,
    SparkCluster,
    SparkDriver,
    executors_in,
    python_workers,
    running_cluster,
)

__all__ = ["Drivers", "Moments", "kill_some", "speculations", "two_hosts"]

_HOSTS = (LOOPBACK, "127.0.0.2")
_CORES = 3
_MOMENT_S, _WINDOW_S = 0.05, 0.002
"""Between looks: while nothing is about to be decided, and when something is."""

_HERE = {
    "spark.master": "local[4,2]",  # A task may be tried so often; else never twice.
    "spark.driver.memory": "512m",
}
_EVENTS = {
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
    "spark.eventLog.rolling.enabled": "false",
}
_SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "20ms",
    "spark.speculation.minTaskRuntime": "20ms",
    "spark.speculation.multiplier": "0.5",
    "spark.speculation.quantile": "0.3",
    "spark.task.maxFailures": "8",
}


class _TwoHosts(SparkCluster):
    """A cluster whose workers are on different machines, as far as Spark can tell."""

    def __init__(self, home: Path, jvm: Sequence[str]) -> None:
        self._host_of: dict[int, str] = {}
        super().__init__(home, jvm)

    @property
    def settings(self) -> dict[str, str]:
        cores = {"spark.cores.max": _CORES * len(self.workers), "spark.executor.cores": _CORES}
        return super().settings | {name: str(count) for name, count in cores.items()}

    def _daemon(self, name: str, args: Sequence[str]) -> Process:
        if name != "worker.Worker":
            return super()._daemon(name, args)
        taken = {self._host_of[pid] for pid in self.workers}
        host = next(host for host in _HOSTS if host not in taken)
        given = list(args)
        given[given.index("--host") + 1] = host
        given[given.index("--cores") + 1] = str(_CORES)
        made = super()._daemon(name, given)
        self._host_of[made.pid] = host
        return made


def two_hosts() -> contextlib.AbstractContextManager[SparkCluster]:
    """A cluster that is ready, gone afterwards."""
    return running_cluster(quick_spark(), _TwoHosts)


class Drivers:
    """A driver, and after a kill the one that takes its place; with a cluster, or without one."""

    def __init__(self, home: Path, cluster: SparkCluster | None = None) -> None:
        self._home, self._cluster, self.started = home, cluster, 0
        self.events = home / "events"
        self.events.mkdir()
        self._driver = self._start()

    def _start(self) -> SparkDriver:
        self.started += 1
        home = self._home / f"driver-{self.started}"
        home.mkdir()
        settings = _HERE if self._cluster is None else {**self._cluster.settings, **_SPECULATION}
        events = {"spark.eventLog.dir": self.events.as_uri()}
        return SparkDriver(home, {**settings, **_EVENTS, **events}, quick_spark())

    def call(self, function: Callable[..., object], **arguments: object) -> RunningJob:
        """Have a function called by the driver, with a session and these arguments."""
        workers = 0 if self._cluster is None else len(self._cluster.workers)
        return self._driver.call(function, workers, arguments)

    def kill(self) -> None:
        """Kill the driver with -9, and its JVM. Its Pythons are left to notice.

        One that commits does not: it goes on to the end, as if it had come late.
        """
        self._driver.kill()

    def replace(self) -> None:
        """Start another."""
        self._driver.stop()
        self._driver = self._start()

    def stop(self) -> None:
        self._driver.stop()

    def pythons(self) -> list[int]:
        """The Pythons that run tasks, or the commit, or wait for one: Spark takes them again."""
        return [pid for session in self._sessions() for pid in python_workers(session)]

    def executors(self) -> list[int]:
        return [pid for session in self._sessions() for pid in executors_in(session)]

    def lose_worker(self, chance: Random) -> None:
        """Kill a worker of the cluster with -9, and all it runs."""
        assert self._cluster is not None, "there is no cluster"
        self._cluster.lose(chance.choice(self._cluster.workers))

    def heal(self) -> None:
        """Let others take the places of workers that were killed."""
        if self._cluster is not None:
            self._cluster.heal()

    def _sessions(self) -> tuple[int, ...]:
        return (self._driver.pid, *(() if self._cluster is None else self._cluster.workers))


def kill_some(pids: Sequence[int]) -> int:
    """Kill processes that may have ended with -9; return how many had not."""
    killed = 0
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            killed += 1
    return killed


class Moments:
    """What the micro-batches are at of all queries that have begun and are not over."""

    def __init__(self, folder: Path, home: Path, queries: int) -> None:
        self._folder, self._home = folder, home
        self._open = list(range(queries))
        self._id_of: dict[int, UUID] = {}
        self._of: dict[str, tuple[str, int]] = {}
        """Attempts that are known, and what they are of."""
        self._staged: set[str] = set()
        """Attempts that have staged something."""
        self._left: set[str] = set()
        """Attempts of drivers that are dead."""

    @property
    def open(self) -> int:
        """How many queries are not over."""
        self._open = [n for n in self._open if not (self._home / f"done-{n}").exists()]
        return len(self._open)

    def now(self) -> dict[int, str]:
        """The moment of each query, by its number."""
        found: dict[int, str] = {}
        if self.open:
            self._look()
        for number in self._open:
            if not self._has_begun(number):
                break  # They begin in this order.
            found[number] = self._moment(number)
        return found

    def wait(self, wanted: str, most_s: float) -> bool:
        """Wait for a moment of any query; False if it did not come."""
        last = time.monotonic() + most_s
        while wanted not in (found := set(self.now().values())):
            if not self._open or time.monotonic() > last:
                return False
            is_near = found & {"staged", "decided"}
            time.sleep(_WINDOW_S if is_near else _MOMENT_S)  # noqa: TID251 (these are but files)
        return True

    def bury(self) -> None:
        """Take all there is for what a dead driver has left."""
        self._look()
        self._left |= self._of.keys()

    def _has_begun(self, number: int) -> bool:
        if number not in self._id_of:
            with contextlib.suppress(FileNotFoundError, json.JSONDecodeError):
                told = json.loads((self._home / f"checkpoint-{number}" / "metadata").read_text())
                self._id_of[number] = UUID(told["id"])
        return number in self._id_of

    def _moment(self, number: int) -> str:
        query = self._id_of[number]
        batch = max(self._numbers(number, "offsets"), default=-1)
        if batch < 0 or batch in self._numbers(number, "commits"):
            return "between"
        with contextlib.suppress(FileNotFoundError, json.JSONDecodeError):
            cell = json.loads((self._folder / commit_key(query.bytes, batch)).read_bytes())
            if cell["write"]:
                if cell["write"] in self._left:
                    return "left"
                return "finished" if cell["records"] >= 0 else "decided"
        of = query.bytes.hex(), batch
        attempts = {one for one in self._staged if self._of[one] == of}
        if attempts - self._left:
            return "staged"
        return "left" if attempts else "between"

    def _numbers(self, number: int, part: str) -> list[int]:
        names = _names_in(self._home / f"checkpoint-{number}" / part)
        return [int(name) for name in names if name.isdigit()]

    def _look(self) -> None:
        """Look for attempts that are not known yet, or that had not staged anything."""
        for name in _names_in(self._folder / STAGED_PREFIX) - self._staged:
            attempt = self._folder / STAGED_PREFIX / name
            with contextlib.suppress(FileNotFoundError, json.JSONDecodeError):
                if name not in self._of:
                    told = json.loads((attempt / "identity").read_bytes())
                    self._of[name] = told["query"], told["number"]
                if any(attempt.glob("*/*")):
                    self._staged.add(name)


def _names_in(folder: Path) -> set[str]:
    with contextlib.suppress(FileNotFoundError):
        return {at.name for at in folder.iterdir()}
    return set()


def speculations(events: Path) -> Counter[str]:
    """How many copies of tasks were started, and how those ended of which it was heard."""
    found: Counter[str] = Counter()
    for log in events.iterdir():
        for line in log.read_text(errors="replace").splitlines():
            if '"Speculative":true' not in line:
                continue
            with contextlib.suppress(json.JSONDecodeError):
                event = json.loads(line)
                if event["Event"] == "SparkListenerTaskStart":
                    found["copies"] += 1
                elif event["Event"] == "SparkListenerTaskEnd":
                    found[f"copies: {event['Task End Reason']['Reason']}"] += 1
    return found
