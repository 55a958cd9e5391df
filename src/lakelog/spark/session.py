"""The Spark session of a run from the command line.

Without a master it is Spark in this process, or what spark-submit was told. Workers run the Python
that runs this, unless PYSPARK_PYTHON says otherwise: the `python3` that happens to be first on the
path may not have lakelog.

Spark's JVM is a child of this process. It ignores Ctrl-C, and ends when it finds its input closed;
but one that was still starting stays for ever. So whoever interrupts a run ends the JVM as well, by
its process id.
"""

import logging
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING

from lakelog.errors import InvalidInputError, NotFoundError, UnavailableError
from lakelog.host import EXIT_INTERRUPTED, install_command

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["spark_session"]

_QUIET = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
}

_CLEAR = b"\r\x1b[2K\x1b[?25h"
"""Takes away what a bar of progress has drawn in its line, and shows the cursor that it hid."""


@contextmanager
def spark_session(
    master: str | None = None, settings: Mapping[str, str] | None = None
) -> Iterator["SparkSession"]:
    """Give a session: the one that is there, or one that ends with the block.

    Raises:
        InvalidInputError: PySpark is not installed.
        NotFoundError: there is no Java that could run Spark.
        UnavailableError: Spark's JVM does not start.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise InvalidInputError(
            f"the pipeline runs on Spark: {install_command('spark')}, and Java 17"
        ) from error
    there = SparkSession.getActiveSession()
    if there is not None:
        yield there
        return
    # Spark takes these two from the environment alone.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # noqa: TID251
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)  # noqa: TID251
    if master is not None and master.startswith("sc:"):
        session = SparkSession.builder.remote(master).config(map=dict(settings or {})).getOrCreate()
        try:
            yield session
        finally:
            session.stop()
        return
    with as_file(files("lakelog.spark") / "log4j2.properties") as logs, _own_jvm():
        quiet = {"spark.driver.defaultJavaOptions": f"-Dlog4j2.configurationFile={logs}"}
        given = {**_QUIET, **quiet, "spark.app.name": "lakelog", **(settings or {})}
        if master is not None:
            given["spark.master"] = master
        session = _started(given)
        try:
            yield session
        finally:
            session.stop()


# ---------------------------------------------------------------------------- its JVM


def _started(settings: Mapping[str, str]) -> "SparkSession":
    """Start Spark in this process, or join what spark-submit has started.

    Raises:
        NotFoundError, UnavailableError: it does not start.
    """
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    if not _is_submitted():
        _check_java()
    handler = signal.getsignal(signal.SIGINT)
    try:
        SparkContext.getOrCreate(SparkConf().setAll(list(settings.items())))
    except PySparkRuntimeError as error:
        if error.getCondition() != "JAVA_GATEWAY_EXITED":
            raise
        _check_java(run=True)
        raise UnavailableError(
            "Spark's JVM ended before it was ready: lakelog doctor spark looks for the reason"
        ) from error
    if _is_main_thread():
        # Spark's own handler speaks to the JVM, over a connection that may be in use.
        signal.signal(signal.SIGINT, handler)
    return SparkSession.builder.config(map=dict(settings)).getOrCreate()


@contextmanager
def _own_jvm() -> Iterator[None]:
    """Let Ctrl-C end this process and what the block has started.

    An exception would not do: whatever waits for the JVM at this moment catches it, asks the JVM
    that is gone, and tells of that instead. A verb may be killed at any instant, so nothing is
    owed to anybody.
    """
    if not _is_main_thread():
        yield
        return
    before = _children()

    def interrupt(*_: object) -> None:
        logging.disable(logging.CRITICAL)  # Other threads find that the JVM is gone.
        _end(_children() - before)
        if sys.stderr.isatty():
            os.write(2, _CLEAR)
        os.write(2, b"Interrupted.\n")
        os._exit(EXIT_INTERRUPTED)

    handler = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _is_submitted() -> bool:
    """Say whether spark-submit has started this process, and the JVM is there already."""
    return "PYSPARK_GATEWAY_PORT" in os.environ  # noqa: TID251 (Spark's own setting)


def _check_java(*, run: bool = False) -> None:
    """Refuse a machine without Java; ``run`` it to find out whether it is too old."""
    from lakelog.spark.doctor import check_java

    home = os.environ.get("JAVA_HOME")  # noqa: TID251 (Java's own setting)
    if not run and shutil.which(f"{home}/bin/java" if home else "java"):
        return
    java = check_java(home)
    if not java.good:
        raise NotFoundError(f"no Java for Spark here ({java.found}): {java.remedy}")


def _children() -> set[int]:
    """Return the processes that this one has started, where the kernel tells of them."""
    lists = Path("/proc/self/task").glob("*/children")
    return {int(pid) for one in lists for pid in one.read_text().split()}


def _end(pids: set[int], patience_s: float = 5.0) -> None:
    """End processes: they are asked, have a moment to tidy up, and are killed."""
    deadline = time.monotonic() + patience_s
    for pid in pids:
        with suppress(ProcessLookupError, ChildProcessError):
            os.kill(pid, signal.SIGTERM)
            while os.waitpid(pid, os.WNOHANG) == (0, 0):
                if time.monotonic() > deadline:
                    os.kill(pid, signal.SIGKILL)
                time.sleep(0.02)  # noqa: TID251 (for another process)
