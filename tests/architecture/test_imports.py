"""Who may import whom, as far as import-linter does not say it, and what importing costs."""

import subprocess
import sys

import pytest

from tests.architecture.house import MODULES, PACKAGES, ROOT, Module

SIDE_DOORS = {
    "lakelog.records.columns": "brings NumPy, Numba and Arrow, so it is asked for by name",
    "lakelog.records.encoder": "likewise",
    "lakelog.records.kernels.fields": "compiled into the kernels of the formats",
    "lakelog.records.kernels.primitives": "likewise",
    "lakelog.records.kernels.source": "likewise",
    "lakelog.formats.columns": "brings NumPy, Numba and Arrow",
    "lakelog.formats.writing": "likewise",
    "lakelog.history.mend": "likewise",
    "lakelog.history.read": "likewise",
    "lakelog.history.scan": "likewise",
    "lakelog.spark.doctor": "starts Spark, so it is asked for by name",
    "lakelog.spark.jobs": "likewise",
    "lakelog.spark.session": "likewise",
    "lakelog.history.tables": "likewise",
}

HEAVY = ("llvmlite", "numba", "numpy", "pandas", "pyarrow", "pyspark")
IMPORT_SECONDS_MAX = 3.0
"""It takes a quarter of a second; numpy alone would not break this, a compiler would."""


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.name)
def test_other_packages_are_entered_by_their_front_door(module: Module) -> None:
    """``lakelog.x``, or a package inside it, but never a module behind its ``__init__``."""
    for name in module.imports():
        if name.startswith("lakelog.") and not name.startswith(f"{module.top}."):
            behind = name.count(".") > 1 and name not in PACKAGES
            assert not behind or name in SIDE_DOORS, f"{module.name} imports {name}"


def test_every_side_door_is_used() -> None:
    used = {name for module in MODULES for name in module.imports()}
    assert [name for name in SIDE_DOORS if name not in used | _planned()] == []


def _planned() -> set[str]:
    """Doors for floors above that are not built yet; tests and figures already go through them."""
    return {"lakelog.records.encoder", "lakelog.formats.columns"}


@pytest.mark.parametrize("name", ["lakelog", "lakelog.records", "lakelog.formats", "lakelog.cli"])
def test_importing_it_is_cheap(name: str) -> None:
    """An executor image or a laptop should not need LLVM to look at a segment."""
    code = (
        "import sys, time; began = time.perf_counter(); "
        f"import {name}; took = time.perf_counter() - began; "
        f"print(took, *(heavy for heavy in {HEAVY} if heavy in sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    took, *loaded = done.stdout.split()
    assert loaded == []
    assert float(took) < IMPORT_SECONDS_MAX
