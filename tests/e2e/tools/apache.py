"""Apache's tools, by the names of their scripts, all in one JVM."""

import base64
import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.parts.archives import quick_kafka
from tests.parts.jars import compiled
from tests.parts.jvm import java
from tests.parts.kafka import TOOL_CLASSES
from tests.parts.process import Finished, mortal

__all__ = ["Apache", "running_apache"]

_SOURCE = Path(__file__).with_name("Tools.java")
_NO_LOGS = "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"


class Apache:
    """A JVM that runs one tool after the other."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process

    def run(self, tool: str, *arguments: str, stdin: str = "") -> Finished:
        """Run a tool."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        fields = [TOOL_CLASSES[tool], stdin, *arguments]
        line = b" ".join(base64.b64encode(field.encode()) for field in fields)
        self._process.stdin.write(line + b"\n")
        self._process.stdin.flush()
        code, out, err = map(int, self._process.stdout.readline().split())
        said = self._process.stdout.read(out), self._process.stdout.read(err)
        return Finished(code, *(one.decode() for one in said))


@contextlib.contextmanager
def running_apache() -> Iterator[Apache]:
    """A JVM with Apache's tools, gone afterwards."""
    argv = mortal([java(), *quick_kafka(), _NO_LOGS, "-cp", compiled("tools", _SOURCE), "Tools"])
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            yield Apache(process)
        finally:
            process.kill()
