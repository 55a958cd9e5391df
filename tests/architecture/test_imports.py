"""Who may import whom, as far as import-linter does not say it, and what importing costs."""

import subprocess
import sys

import pytest

from tests.architecture.house import MODULES, PACKAGES, ROOT, Module
from tests.patience import in_time

SIDE_DOORS = {
    "lakelog.records.columns": "brings NumPy, Numba and Arrow, so it is asked for by name",
    "lakelog.records.cleaning": "likewise",
    "lakelog.records.dirtiness": "it goes with cleaning, and nobody else needs it",
    "lakelog.records.cleaning_rules": "likewise",
    "lakelog.records.offset_map": "likewise",
    "lakelog.records.repacking": "likewise",
    "lakelog.records.scattering": "likewise",
    "lakelog.records.schema": "brings Arrow",
    "lakelog.records.encoder": "likewise",
    "lakelog.records.kernels.envelope": "compiled into the kernels of the formats",
    "lakelog.records.kernels.fields": "compiled into the kernels of the formats",
    "lakelog.records.kernels.primitives": "likewise",
    "lakelog.records.kernels.source": "likewise",
    "lakelog.formats.columns": "brings NumPy, Numba and Arrow",
    "lakelog.formats.kernels_spool": "likewise",
    "lakelog.formats.writing": "likewise",
    "lakelog.segments.mend": "likewise",
    "lakelog.segments.placed": "brings Arrow",
    "lakelog.segments.read": "brings NumPy, Numba and Arrow",
    "lakelog.segments.scan": "likewise",
    "lakelog.log.packing": "brings NumPy and Arrow",
    "lakelog.log.rows": "likewise",
    "lakelog.log.scan": "likewise",
    "lakelog.log.tables": "brings Arrow",
    "lakelog.spool.cells": "the simulator ships, too, and plants bugs in the rest",
    "lakelog.spool.disk": "likewise",
    "lakelog.spool.partition": "likewise",
    "lakelog.spool.recovery": "likewise",
    "lakelog.spool.writing": "likewise",
    "lakelog.spark.doctor": "starts Spark, so it is asked for by name",
    "lakelog.spark.jobs": "likewise",
    "lakelog.spark.session": "likewise",
    "lakelog.pipeline.jobs": "brings the whole pipeline, so it is asked for by name",
    "lakelog.segments.tables": "likewise",
}

HEAVY = ("llvmlite", "numba", "numpy", "pandas", "pyarrow", "pyspark")
IMPORT_SECONDS_MAX = 3.0
"""Of the processor's time. It takes a quarter of a second; numpy alone would not break this, a
compiler would."""


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


@pytest.mark.parametrize(
    ("name", "heavy"),
    [
        ("lakelog", HEAVY),
        ("lakelog.records", HEAVY),
        ("lakelog.formats", HEAVY),
        ("lakelog.cli", HEAVY),
        # `lakelog serve --help` prints words, and needs no broker for it.
        ("lakelog.cli.serve", (*HEAVY, "kio", "lakelog.journal", "lakelog.store", "structlog")),
        # Every run of pytest imports it where lakelog is installed.
        ("pytest_lakelog", (*HEAVY, "kio", "lakelog", "structlog")),
        # Spark starts a Python for each plan of a read, and for each commit of a micro-batch.
        ("lakelog.spark", ("llvmlite", "numba", "pandas")),
    ],
)
def test_importing_it_is_cheap(name: str, heavy: tuple[str, ...]) -> None:
    """An executor image or a laptop should not need LLVM to look at a segment."""
    code = (
        "import sys, time; began = time.process_time(); "
        f"import {name}; took = time.process_time() - began; "
        f"print(took, *(one for one in {heavy} if one in sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    took, *loaded = done.stdout.split()
    assert loaded == []
    in_time(float(took) < IMPORT_SECONDS_MAX, took)
