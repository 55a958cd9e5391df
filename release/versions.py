"""The releases there have been, and how to get the sources of one.

``versions.toml`` names the commit of each: a tag may be missing where a checkout came from. A
release is never changed, so its wheel can be built again from there at any time, byte for byte.
"""

import subprocess
import tarfile
import tomllib
from io import BytesIO
from pathlib import Path

import lakelog

__all__ = ["ROOT", "previous", "released", "unpack_commit"]

ROOT = Path(__file__).parents[1]
_TABLE = Path(__file__).with_name("versions.toml")


def released() -> dict[str, str]:
    """Return the commit of each release, the oldest first."""
    table: dict[str, str] = tomllib.loads(_TABLE.read_text())["releases"]
    return dict(sorted(table.items(), key=lambda row: _key(row[0])))


def previous() -> str | None:
    """Return the last release before this version; None if this is going to be the first one."""
    mine = _key(lakelog.__version__.partition(".dev")[0])
    before = [version for version in released() if _key(version) < mine]
    return before[-1] if before else None


def unpack_commit(commit: str, into: Path) -> None:
    """Put the files of a commit into a folder."""
    argv = ["git", "archive", "--format=tar", commit]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True)
    if done.returncode:
        raise RuntimeError(
            f"this checkout does not have {commit}, fetch the whole history: "
            f"git fetch --unshallow\n{done.stderr.decode()}"
        )
    with tarfile.open(fileobj=BytesIO(done.stdout)) as tar:
        tar.extractall(into, filter="data")


def _key(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
