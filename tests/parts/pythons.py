"""The Pythons that lakelog supports, as they are installed on this machine, and empty environments.

uv makes and fills an environment in a second or two from its cache, where pip takes half a minute.
"""

import shutil
import subprocess
import sys
from pathlib import Path

from tests.parts.jars import run_tool
from tests.parts.process import MissingPartError

__all__ = ["SUPPORTED", "Environment", "find_python"]

SUPPORTED = ("3.11", "3.12", "3.13")
_UV = str(Path(sys.executable).with_name("uv"))


def find_python(version: str) -> Path:
    """Return an interpreter of this minor version."""
    on_path = shutil.which(f"python{version}")
    places = sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python"))
    for place in ([Path(on_path)] if on_path else []) + places[::-1]:
        # A shim of pyenv is on the path also of versions that are not chosen, and fails.
        asked = subprocess.run([place, "--version"], capture_output=True, text=True)
        if asked.returncode == 0 and asked.stdout.startswith(f"Python {version}."):
            return place
    raise MissingPartError(f"there is no Python {version}: install it, by pyenv for one")


class Environment:
    """An environment of its own, empty at first."""

    def __init__(self, python: Path, place: Path) -> None:
        self.place = place
        run_tool([_UV, "venv", "--quiet", "--python", str(python), str(place)])
        self.bin = place / "bin"

    def install(self, *what: str) -> None:
        python = str(self.bin / "python")
        run_tool([_UV, "pip", "install", "--quiet", "--python", python, *what])

    def check(self) -> None:
        """Raise FailedPartError, if packages do not fit together."""
        run_tool([_UV, "pip", "check", "--quiet", "--python", str(self.bin / "python")])

    def size_bytes(self) -> int:
        return sum(path.stat().st_size for path in self.place.rglob("*") if path.is_file())
