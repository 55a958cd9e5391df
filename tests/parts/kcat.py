"""Finds kcat, which is a package of the system and nothing else."""

import shutil

from tests.parts.process import MissingPartError


def kcat() -> str:
    """The path of `kcat`."""
    command = shutil.which("kcat")
    if command is None:
        raise MissingPartError("`kcat` is missing: install it (Debian: apt-get install kcat)")
    return command
