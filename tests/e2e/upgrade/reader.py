"""A Spark of a version of lakelog, in a process of its own, that reads a topic when it is asked."""

import json
import os
import signal
import subprocess
import sys
from base64 import b64decode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.e2e.broker.traffic import decode_value
from tests.e2e.broker.truth import Log
from tests.parts.archives import quick_environment
from tests.parts.process import LOOPBACK, mortal

__all__ = ["Reader", "reading"]

_PROGRAM = Path(__file__).with_name("reading.py")


class Reader:
    """Who reads all of a topic."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def read(self) -> tuple[str, Log]:
        """Return which version has read, and every record."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        said = json.loads(self._process.stdout.readline())
        log: Log = {}
        for partition, offset, value in sorted(said["rows"]):
            rows = log.setdefault(partition, [])
            assert offset == len(rows), "a gap, or a record that is there twice"
            rows.append(decode_value(b64decode(value)))
        return said["version"], log


@contextmanager
def reading(url: str, topic: str, env: Mapping[str, str]) -> Iterator[Reader]:
    """Start one, which gets ready meanwhile."""
    with subprocess.Popen(
        mortal([sys.executable, str(_PROGRAM), url, topic]),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={
            **quick_environment(),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": LOOPBACK,
            **env,
        },
        start_new_session=True,
    ) as process:
        try:
            yield Reader(process)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
