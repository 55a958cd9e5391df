"""Ctrl-C in a command that runs on Spark: one line, the exit code that shells know, nothing left.

A terminal sends SIGINT to all processes of the command. Spark's JVM ignores it, so that a session
in a notebook survives a cell that is stopped.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.parts.archives import quick_spark
from tests.patience import LateError
from tests.unit.pipeline.home import Home

pytestmark = pytest.mark.spark


def commands(group: int) -> list[str]:
    """Return the command lines of a group of processes."""
    found = []
    for one in Path("/proc").glob("[0-9]*"):
        try:
            fields = (one / "stat").read_text().rpartition(")")[2].split()
            if int(fields[2]) == group and fields[0] != "Z":
                found.append((one / "cmdline").read_text().replace("\0", " "))
        except (OSError, IndexError):  # It has ended meanwhile.
            continue
    return found


def wait_for(group: int, what: str, *, there: bool, within_s: float) -> None:
    """Wait until a process with such a command line is there, or none is any more."""
    deadline = time.monotonic() + within_s
    while any(what in one for one in commands(group)) != there:
        if time.monotonic() > deadline:
            raise LateError(f"{what!r} after {within_s} s: {commands(group)}")
        time.sleep(0.05)  # noqa: TID251 (nothing to wait on but other processes)


@contextmanager
def running(*words: str) -> Iterator[subprocess.Popen[str]]:
    """Run a command of ours as a terminal does, in a group of its own."""
    # Whoever runs the tests in the background of a shell ignores SIGINT, and so would the command.
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
        f"from lakelog.cli import main; main({list(words)!r})"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            if commands(process.pid):
                os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.sample(1)
@pytest.mark.parametrize("busy", ["org.apache.spark.deploy.SparkSubmit", "pyspark.daemon"])
def test_an_interrupted_run_says_so_and_leaves_no_process_behind(tmp_path: Path, busy: str) -> None:
    home = Home(tmp_path / "log")
    home.fill(home.topic(), 20)
    here = ("--master", "local[1]", "--conf", "spark.driver.bindAddress=127.0.0.1",
            "--conf", "spark.driver.host=127.0.0.1",
            "--conf", f"spark.driver.extraJavaOptions={' '.join(quick_spark())}")  # fmt: skip
    with running("pipeline", "run", home.url, "--now", "--every", "1s", *here) as process:
        wait_for(process.pid, busy, there=True, within_s=300)
        os.killpg(process.pid, signal.SIGINT)
        stdout, stderr = process.communicate(timeout=60)
        wait_for(process.pid, "", there=False, within_s=20)
    assert process.returncode == 130
    said = [line for line in stderr.splitlines() if not line.startswith("WARNING: Using incubator")]
    assert said == ["Interrupted."], stdout
