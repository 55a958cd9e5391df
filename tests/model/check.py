"""``python -m tests.model.check [--long] [NAME ...]``: run the rows of the models through Spin.

A row is one search: its definitions and its model become a C program, which visits every state that
the cast can reach. A row that must hold has to end its search: one that ran out of depth, memory
or time has shown nothing, and fails. A row with a mistake has to be caught by the law it names.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.model.rows import LONG_ROWS, ROWS, Row

__all__ = ["JOBS", "MODELS", "Outcome", "main", "missing_tools", "run", "run_all"]

MODELS = {name: Path(__file__).with_name(f"{name}.pml") for name in ("lane", "history")}
JOBS = min(2, os.cpu_count() or 1)
DEPTH_MAX = 100_000
MEMORY_MB_MAX = 4_000
SECONDS_MAX = 900

COMPILE = ("gcc", "-w", "-DSAFETY", "-DVECTORSZ=1024", f"-DMEMLIM={MEMORY_MB_MAX}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a search came to."""

    row: Row
    result: str
    """``holds``, the name of the law that is broken, or ``unfinished: ...``"""
    states: int
    seconds: float
    log: str

    @property
    def expected(self) -> bool:
        if self.row.breaks is None:
            return self.result == "holds"
        return self.result.startswith(self.row.breaks)

    def line(self) -> str:
        verdict = "" if self.expected else f"  EXPECTED {self.row.breaks or 'to hold'}"
        return (
            f"{self.row.name:<47}{self.states:>12,}{self.seconds:>7.1f}  {self.result}{verdict}\n"
        )


def missing_tools() -> str | None:
    """Say what is not installed, and how to get it."""
    missing = [tool for tool in ("spin", "gcc") if shutil.which(tool) is None]
    if not missing:
        return None
    return (
        f"the model needs {' and '.join(missing)}: "
        "apt-get install -y --no-install-recommends spin gcc libc6-dev"
    )


def run(row: Row) -> Outcome:
    """Search all that ``row`` can reach."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="lakelog-model-") as scratch:
        text = row.prelude() + MODELS[row.model].read_text()
        Path(scratch, "model.pml").write_text(text)
        # Most searches take less time than optimising the program that does them, and need little
        # memory. The long ones pack their states, and get a larger table to find them in.
        is_long = row in LONG_ROWS
        optimise = ("-O2", "-DCOLLAPSE") if is_long else ("-O0",)
        steps = (
            ("spin", "-a", "model.pml"),
            (*COMPILE, *optimise, "-o", "pan", "pan.c"),
            ("./pan", f"-m{DEPTH_MAX}", "-w25" if is_long else "-w22"),
        )
        log = ""
        for step in steps:
            try:
                done = subprocess.run(
                    step, cwd=scratch, capture_output=True, text=True, timeout=SECONDS_MAX
                )
            except subprocess.TimeoutExpired:
                log += f"\nunfinished after {SECONDS_MAX} s\n"
                break
            log += done.stdout + done.stderr
            if done.returncode != 0:
                break
    states = re.search(r"^ *([0-9.e+]+) states, stored", log, re.MULTILINE)
    return Outcome(
        row=row,
        result=_result(log),
        states=int(float(states[1])) if states else 0,
        seconds=time.monotonic() - began,
        log=log,
    )


def _result(log: str) -> str:
    broken = re.search(r"assertion violated \(*([JH][0-9]\w+)\|\|", log)
    if broken:
        return broken[1].replace("_", " ")
    # Spin says "Search not completed" of a search that was cut short, but not of a stack too small.
    cut = "Search not completed" in log or "max search depth too small" in log
    if "errors: 0" in log and not cut:
        return "holds"
    reason = re.search(r"^(pan:.*|.*[Ee]rror.*|unfinished.*)$", log, re.MULTILINE)
    return f"unfinished: {reason[1] if reason else 'no result'}"


def run_all(rows: Iterable[Row]) -> Iterator[Outcome]:
    """Run ``rows``, some at a time, and yield their outcomes in order."""
    with ThreadPoolExecutor(JOBS) as pool:
        yield from pool.map(run, rows)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.model.check", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="rows whose name contains this")
    parser.add_argument("--long", action="store_true", help="also the large casts: five minutes")
    arguments = parser.parse_args()
    if (missing := missing_tools()) is not None:
        parser.error(missing)
    known = (*ROWS, *LONG_ROWS) if arguments.long else ROWS
    names: list[str] = arguments.names
    rows = [row for row in known if not names or any(name in row.name for name in names)]
    if not rows:
        parser.error(f"no row is called so; there are: {', '.join(row.name for row in known)}")
    began = time.monotonic()
    failed = 0
    sys.stdout.write(f"{'row':<47}{'states':>12}{'s':>7}  result\n")
    for outcome in run_all(rows):
        sys.stdout.write(outcome.line())
        sys.stdout.flush()
        if not outcome.expected:
            failed += 1
    sys.stdout.write(
        f"{time.monotonic() - began:.0f} s, {len(rows) - failed} as expected, {failed} not\n"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
