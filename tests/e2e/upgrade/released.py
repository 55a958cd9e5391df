"""A version that was released, beside this one: its wheel, built from its commit and unpacked.

    PYTHONPATH=.../release-<commit>  python -m lakelog serve ...     the version that was released
                                     python -m lakelog serve ...     this one

Both run in this environment, with the packages of this version: what differs is lakelog alone.
"""

import tempfile
import zipfile
from pathlib import Path

from release.build import build
from release.versions import released, unpack_commit
from tests.parts.jars import entry

__all__ = ["environment_of"]


def environment_of(version: str) -> dict[str, str]:
    """Return the variables by which a Python imports a released version."""
    commit = released()[version]

    def make(into: Path) -> None:
        with tempfile.TemporaryDirectory() as place:
            unpack_commit(commit, Path(place, "sources"))
            built = build(Path(place, "sources"), Path(place, "dist"))
            with zipfile.ZipFile(built.wheel) as wheel:
                wheel.extractall(into)

    return {"PYTHONPATH": str(entry("release", commit.encode(), make))}
