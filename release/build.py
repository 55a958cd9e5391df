"""A wheel and an sdist, the same bytes whoever builds them, when and where.

    sources --hatchling--> lakelog-0.1.0.tar.gz
            --hatchling--> lakelog-0.1.0-py3-none-any.whl

Hatchling gives every file one date and plain rights, and sorts them. The backend is the one of the
locked requirements, in this environment: an isolated build would take whatever is newest.
"""

import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

__all__ = ["Built", "build"]


class Built(NamedTuple):
    """The files of a release."""

    wheel: Path
    sdist: Path


def build(sources: Path, into: Path) -> Built:
    """Build the sources of a version into an empty folder."""
    into.mkdir(parents=True, exist_ok=True)
    argv = [sys.executable, "-m", "hatchling", "build", "--directory", str(into.resolve())]
    done = subprocess.run(argv, cwd=sources, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{sources} cannot be built:\n{done.stdout}{done.stderr}")
    (wheel,), (sdist,) = into.glob("*.whl"), into.glob("*.tar.gz")
    return Built(wheel, sdist)
