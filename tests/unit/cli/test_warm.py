"""`lakelog warm`, and what is said when something is compiled."""

import os
import subprocess
import sys
from pathlib import Path

from lakelog.cli.warm import kernel_modules
from lakelog.records.kernels import COMPILING

SRC = Path(__file__).parents[3] / "src"

SMALLEST = "lakelog.records.kernels.partition"


def test_every_module_that_compiles_something_is_warmed() -> None:
    compiling = {
        ".".join(path.relative_to(SRC).with_suffix("").parts)
        for path in SRC.rglob("*.py")
        if "import njit" in path.read_text()
    }
    assert SMALLEST in compiling
    assert compiling <= set(kernel_modules())


def test_whoever_waits_for_a_kernel_is_told_once_and_never_again_on_that_machine(
    tmp_path: Path,
) -> None:
    def said() -> str:
        argv = [sys.executable, "-c", f"import {SMALLEST}"]
        env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}  # noqa: TID251 (a child inherits)
        done = subprocess.run(argv, env=env, capture_output=True, text=True, check=True)
        return done.stderr

    assert said() == COMPILING
    assert said() == ""
