"""Node, and the packages of a script, in a cache outside the checkout.

The packages are those of a lock file that holds their hashes and no addresses, so they come from
whatever registry the machine is set up for. None of them may bring a script that runs when it is
installed.
"""

import functools
import re
import shutil
import subprocess
from pathlib import Path

from tests.parts.jars import entry, run_tool
from tests.parts.process import MissingPartError

OLDEST = 18
_REMEDY = f"install Node {OLDEST} or later with npm (Debian: apt-get install nodejs npm)"


@functools.cache
def node() -> str:
    """The path of a `node` that is new enough."""
    command = _tool("node")
    banner = subprocess.run([command, "--version"], capture_output=True, text=True).stdout
    version = re.match(r"v(\d+)", banner)
    if version is None or int(version[1]) < OLDEST:
        raise MissingPartError(f"{command} is {banner.strip()!r}: {_REMEDY}")
    return command


def node_modules(project: Path) -> Path:
    """The folder of packages that a project's lock file names, for `NODE_PATH`."""
    files = [project / "package.json", project / "package-lock.json"]

    def install(into: Path) -> None:
        node()
        for file in files:
            shutil.copy(file, into)
        run_tool([_tool("npm"), "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=into)

    made = entry("node", b"".join(file.read_bytes() for file in files), install)
    return made / "node_modules"


def _tool(name: str) -> str:
    command = shutil.which(name)
    if command is None:
        raise MissingPartError(f"`{name}` is missing: {_REMEDY}")
    return command
