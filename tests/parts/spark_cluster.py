"""A real standalone Spark cluster: one master, two workers with an executor each, on loopback.

A local session runs everything in one JVM, and so hides what breaks between machines: a data
source that only the driver can import, state that was never pickled, a worker that is lost.

A process has at most one Spark driver, and that of the tests is taken by the local session.
So jobs on the cluster are driven by a Python of their own: `SparkCluster.job` takes a function of a
module, has it called there with a session of the cluster, and hands back what it returned, as JSON.

Every daemon leads a session of the operating system, and whatever it starts stays in there:
executors, and the Pythons of those. Spark's Pythons leave the process group but not the session,
so the session is what is ended, and `os.getsid(0)` in a task is the worker that runs it.
"""

import contextlib
import http.client
import importlib
import json
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.parts.jars import cache
from tests.parts.jvm import java
from tests.parts.process import (
    LOOPBACK,
    START_S,
    FailedPartError,
    MissingPartError,
    Process,
    accepts,
    free_ports,
)
from tests.parts.spark import running_spark
from tests.patience import LateError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WORKERS = 2
CORES = 2
"""Of a worker. Drivers use one of them, unless they set more: tasks may then run beside others."""
_WORKER_MEMORY = "700m"
_EXECUTOR_MEMORY = "600m"  # Spark refuses less than 450 MB.
_DAEMON_MEMORY = "256m"
_ROOT = Path(__file__).parents[2]
_LOGGING = """\
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
"""


class RunningJob:
    """A function that the driver's process was asked to call."""

    def __init__(self, driver: Process, answer: Path):
        self._driver = driver
        self._answer = answer

    @property
    def is_over(self) -> bool:
        """Whether there is an answer."""
        return self._answer.exists()

    def wait_until(self, ready: Callable[[], bool], within_s: float) -> None:
        """Poll `ready` until it holds; a driver that ends or is late is quoted.

        A function that has failed will not make it hold any more, so that counts as well.
        """
        self._driver.wait_until(lambda: self._answer.exists() or ready(), within_s)
        if not ready():
            raise FailedPartError(f"the job is over: {self._answer.read_text()}")

    def result(self, within_s: float = 60) -> Any:
        """What the function returned; where it raised an exception, the error quotes that."""
        self._driver.wait_until(self._answer.exists, within_s)
        answer = json.loads(self._answer.read_text())
        if "error" in answer:
            raise FailedPartError(answer["error"])
        return answer["result"]


class SparkDriver:
    """A Python with a session of the cluster, which calls functions one after the other."""

    def __init__(self, home: Path, settings: Mapping[str, str], jvm: Sequence[str]):
        self._home = home
        self._jobs = 0
        requests = home / "requests"
        os.mkfifo(requests)
        # Linux opens a pipe for both at once without waiting for the other end.
        self._requests = os.open(requests, os.O_RDWR)
        argv = [sys.executable, "-m", "tests.parts.spark_cluster", str(requests)]
        env = {**_bytecode(), "PYTHONPATH": str(_ROOT), "TMPDIR": str(home)}
        # It waits for the executors itself, and imports the first function meanwhile.
        at_once = {**settings, "spark.scheduler.minRegisteredResourcesRatio": "0"}
        how = [json.dumps(at_once), json.dumps(tuple(jvm))]
        self._process = Process([*argv, *how], home / "driver.log", env)

    def call(self, function: Callable[..., object], workers: int, arguments: object) -> RunningJob:
        self._jobs += 1
        answer = self._home / f"answer-{self._jobs}.json"
        what = (function.__module__, function.__qualname__, arguments, workers, str(answer))
        os.write(self._requests, json.dumps(what).encode() + b"\n")
        return RunningJob(self._process, answer)

    @property
    def pid(self) -> int:
        """Its process id, which is also its session's."""
        return self._process.pid

    def kill(self) -> None:
        """Kill it with -9, and its JVM; what else it has started must notice, and is waited for."""
        self._process.stop(grace_s=0)
        wait_for_the_end(self.pid)

    def stop(self) -> None:
        _end(self._process)
        os.close(self._requests)


class SparkCluster:
    """A master with its workers, which may be killed and replaced one by one."""

    def __init__(self, home: Path, jvm: Sequence[str]):
        self._home = home
        self._jvm = tuple(jvm)
        self._names = iter(range(sys.maxsize))
        self._workers: list[Process] = []
        self._driver: SparkDriver | None = None
        (home / "log4j2.properties").write_text(_LOGGING)
        port, self._status_port = free_ports(2)
        self.master_url = f"spark://{LOOPBACK}:{port}"
        where = ["--host", LOOPBACK, "--port", str(port), "--webui-port", str(self._status_port)]
        self._master = self._daemon("master.Master", where)

    @property
    def workers(self) -> tuple[int, ...]:
        """The process ids of the workers that run, each of which is also a session id."""
        return tuple(worker.pid for worker in self._workers)

    @property
    def settings(self) -> dict[str, str]:
        """What a driver must set to work with this cluster, and to wait for all of it."""
        return {
            "spark.master": self.master_url,
            "spark.cores.max": str(len(self._workers)),
            "spark.driver.memory": "512m",
            "spark.executor.cores": "1",
            "spark.executor.memory": _EXECUTOR_MEMORY,
            "spark.executor.defaultJavaOptions": " ".join(self._jvm),
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
            "spark.scheduler.maxRegisteredResourcesWaitingTime": f"{START_S:g}s",
            # Workers on different machines could not look into each other's folders.
            "spark.shuffle.readHostLocalDisk": "false",
        }

    def wait_for_master(self) -> None:
        """Wait for the master: a worker that comes too early tries again only after seconds."""
        url_port = int(self.master_url.rpartition(":")[2])
        self._master.wait_until(
            lambda: accepts(url_port) and self._alive_ports() is not None, START_S
        )

    def heal(self) -> None:
        """Start workers until there are as many as at first, and wait for the master to agree."""
        ports = set(free_ports(WORKERS - len(self._workers)))
        started = [self._start_worker(port) for port in ports]
        for worker in started:
            worker.wait_until(lambda: ports <= (self._alive_ports() or set()), START_S)

    def lose(self, pid: int) -> None:
        """Kill a worker and all it runs with -9, as when its machine loses power."""
        (worker,) = (worker for worker in self._workers if worker.pid == pid)
        self._workers.remove(worker)
        _end(worker)

    def job(self, function: Callable[..., object], **arguments: object) -> RunningJob:
        """Have a function of a module called as `function(session, **arguments)` by a driver.

        The arguments and what it returns must be JSON. Executors are given the functions of its
        module by value, so they need no path to the tests: they import what is installed.

        The driver is started by the first job and kept, for it takes longer than most jobs. It
        waits for as many executors as there are workers before it calls the first function. After
        a loss that is no promise: a job that needs all workers must hold the others itself.
        """
        if self._driver is None:
            self._driver = SparkDriver(self._new_home("driver"), self.settings, self._jvm)
        return self._driver.call(function, len(self._workers), arguments)

    def stop_driver(self) -> None:
        """End the driver, so that its executors make room for those of another."""
        if self._driver is not None:
            self._driver.stop()
            self._driver = None

    def stop(self) -> None:
        """End every process of the cluster. There is nothing in it that could be lost."""
        self.stop_driver()
        for daemon in (*self._workers, self._master):
            _end(daemon)
        self._workers.clear()

    def _start_worker(self, port: int) -> Process:
        work = self._new_home("work")
        where = ["--host", LOOPBACK, "--port", str(port), "--webui-port", "0"]
        size = ["--cores", str(CORES), "--memory", _WORKER_MEMORY, "--work-dir", str(work)]
        worker = self._daemon("worker.Worker", [*where, *size, self.master_url])
        self._workers.append(worker)
        return worker

    def _daemon(self, name: str, args: Sequence[str]) -> Process:
        spark, home = _spark_home(), self._new_home(name)
        env = {
            **_bytecode(),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_CONF_DIR": str(self._home),
            "SPARK_DAEMON_JAVA_OPTS": " ".join([*self._jvm, f"-Djava.io.tmpdir={home}"]),
            "SPARK_DAEMON_MEMORY": _DAEMON_MEMORY,
            "SPARK_HOME": str(spark),
            "SPARK_LOCAL_DIRS": str(home),
            "SPARK_LOCAL_IP": LOOPBACK,  # The web interface listens there, too.
        }
        argv = [str(spark / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *args]
        return Process(argv, home / "daemon.log", env)

    def _new_home(self, name: str) -> Path:
        home = self._home / f"{next(self._names)}-{name}"
        home.mkdir()
        return home

    def _alive_ports(self) -> set[int] | None:
        """The ports of the workers that the master can use; None while it does not answer."""
        connection = http.client.HTTPConnection(LOOPBACK, self._status_port, timeout=5)
        try:
            connection.request("GET", "/json/")
            answer = connection.getresponse()
            status = json.loads(answer.read()) if answer.status == http.HTTPStatus.OK else None
        except (OSError, http.client.HTTPException, json.JSONDecodeError):
            return None  # It may answer with a page before it knows what to say.
        finally:
            connection.close()
        if status is None or status["status"] != "ALIVE":
            return None
        return {worker["port"] for worker in status["workers"] if worker["state"] == "ALIVE"}


@contextlib.contextmanager
def running_cluster(
    jvm: Sequence[str] = (), kind: type[SparkCluster] = SparkCluster
) -> Iterator[SparkCluster]:
    """A cluster whose workers have all been accepted by its master, gone afterwards."""
    java()
    with tempfile.TemporaryDirectory(prefix="lakelog-cluster-") as home:
        cluster = kind(Path(home), jvm)
        try:
            cluster.wait_for_master()
            cluster.heal()
            yield cluster
        finally:
            cluster.stop()


def _spark_home() -> Path:
    try:
        import pyspark
    except ModuleNotFoundError as missing:
        raise MissingPartError("install the Python package pyspark (make setup)") from missing
    return Path(pyspark.__file__).parent


def _bytecode() -> dict[str, str]:
    """Let Pythons share their bytecode, even where the environment tells them not to write any.

    A job starts a dozen of them, and each would compile pandas, Numba and Spark for seconds.
    """
    return {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(cache() / "bytecode")}


def processes_of(session: int) -> list[int]:
    """The process ids in a session of the operating system, without those that have ended."""
    return [*_parents_in(session)]


def python_workers(session: int) -> list[int]:
    """The Pythons of a session that run tasks, or wait for one: daemons whose parents are."""
    daemons = {
        pid: parent
        for pid, parent in _parents_in(session).items()
        if b"pyspark.daemon" in _command(pid)
    }
    return [pid for pid, parent in daemons.items() if parent in daemons]


def executors_in(session: int) -> list[int]:
    """The JVMs that run the tasks of drivers, in the session of a worker of a cluster."""
    return [pid for pid in processes_of(session) if b"ExecutorBackend" in _command(pid)]


def wait_for_the_end(session: int, within_s: float = 120) -> None:
    """Wait until nothing of a session is left; nobody is helped to it."""
    last = time.monotonic() + within_s
    while left := processes_of(session):
        if time.monotonic() > last:
            raise LateError(f"processes {left} outlive the leader of session {session}")
        time.sleep(0.05)  # noqa: TID251 (for processes that are nobody's children)


def _parents_in(session: int) -> dict[int, int]:
    """The processes of a session that have not ended, each with its parent."""
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            # The name in parentheses may hold anything; state, parent, group, session follow it.
            state, parent, _, its_session = stat.read_text().rpartition(")")[2].split()[:4]
            if int(its_session) == session and state not in "ZX":
                found[int(stat.parent.name)] = int(parent)
    return found


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _end(leader: Process) -> None:
    """End a process and all its descendants: nobody else waits for these once it is gone."""
    leader.stop(grace_s=0)
    deadline = time.monotonic() + 10
    while left := processes_of(leader.pid):
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            raise LateError(f"processes {left} of session {leader.pid} do not end")
        time.sleep(0.01)  # noqa: TID251 (they are not our children, so there is no wait)


def _drive(requests: str, settings: str, jvm: str) -> None:
    """What the process of a driver does: it answers each line, until it is ended."""
    with (
        running_spark(json.loads(settings), jvm=json.loads(jvm)) as spark,
        Path(requests).open() as lines,
    ):
        for line in lines:
            module, name, arguments, workers, answer = json.loads(line)
            try:
                function = _function(module, name)
                _wait_for_executors(spark, workers)
                done = {"result": function(spark, **arguments)}
            except Exception:  # noqa: BLE001 (whoever asked is told, and may ask again)
                done = {"error": traceback.format_exc()}
            # A file appears whole when it is renamed, so nobody reads half an answer.
            draft = Path(answer + ".draft")
            draft.write_text(json.dumps(done))
            draft.rename(answer)


def _function(module: str, name: str) -> Callable[..., Any]:
    from pyspark import cloudpickle

    home = importlib.import_module(module)
    cloudpickle.register_pickle_by_value(home)
    function: Callable[..., Any] = getattr(home, name)
    return function


def _wait_for_executors(spark: "SparkSession", count: int) -> None:
    tracker = spark.sparkContext._jsc.sc().statusTracker()
    deadline = time.monotonic() + START_S
    # The driver counts itself, too.
    while len(tracker.getExecutorInfos()) < 1 + count:
        if time.monotonic() > deadline:
            raise LateError(f"there were no {count} executors within {START_S:g} s")
        time.sleep(0.02)  # noqa: TID251 (nothing to wait on but the other process)


if __name__ == "__main__":
    _drive(*sys.argv[1:])
