"""``python -m tests.fuzz [TARGET ...] [--seconds N]``, or ``python -m tests.fuzz TARGET FILE``."""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from tests.fuzz.targets import CORPUS, TARGETS, load

ROOT = Path(__file__).parents[2]
JOBS = min(4, max(2, os.cpu_count() or 1))
START_SECONDS = {
    "side": 2.5, "lanes": 2.5, "batches": 2.5, "wire": 3, "logins": 3, "formats": 3, "columns": 5.0,
    "rights": 3,
}  # fmt: skip
"""What a process takes besides its share of the time, by module, until it is known better."""

WEIGHTS = {
    "side": 1, "rights": 1, "lanes": 2, "batches": 2, "wire": 2, "logins": 2, "columns": 4,
    "formats": 4,
}  # fmt: skip
"""Shares of the time, by module: a header is soon exhausted, a segment never is."""

LIMITS = ("-max_len=2048", "-rss_limit_mb=1024", "-timeout=10", "-print_final_stats=1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """How one target did."""

    target: str
    runs: int
    seconds: float
    crash: Path | None
    failed: bool
    log: str

    def line(self) -> str:
        verdict = "failed" if self.failed else "passed"
        speed = self.runs / max(self.seconds, 0.1)
        return f"{self.target:<22}{self.runs:>10,}{speed:>10,.0f}  {verdict}\n"


class Plan:
    """Divides the time that is left among the targets that are left."""

    def __init__(self, targets: list[str], seconds: float, seed: int) -> None:
        self.seed = seed
        self._deadline = time.monotonic() + seconds
        self._left = list(targets)
        self._start_seconds = dict(START_SECONDS)
        self._lock = Lock()

    def take(self, target: str) -> int:
        """Return how long ``target`` may run if it starts now; a second at the very least."""
        with self._lock:
            modules = [TARGETS[name] for name in self._left]
            left = max(0.0, self._deadline - time.monotonic()) * min(JOBS, len(modules))
            left -= sum(self._start_seconds[module] for module in modules)
            share = left * WEIGHTS[TARGETS[target]] / sum(WEIGHTS[module] for module in modules)
            self._left.remove(target)
        return max(1, int(share))

    def took(self, target: str, start_seconds: float) -> None:
        """Learn how long it takes to start a target on this machine, as busy as it is."""
        with self._lock:
            known = self._start_seconds[TARGETS[target]]
            self._start_seconds[TARGETS[target]] = (known + start_seconds) / 2


def fuzz(target: str, plan: Plan) -> Result:
    """Run one target in a process of its own; keep the input that breaks it."""
    kept = CORPUS / target
    seconds, began = plan.take(target), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="lakelog-fuzz-") as scratch:
        # What is found new goes into the first directory, and away with it.
        found, crashes = Path(scratch, "found"), Path(scratch, "crashes")
        found.mkdir()
        crashes.mkdir()
        command = [sys.executable, "-m", "tests.fuzz.worker", target, *LIMITS]
        command += [f"-max_total_time={seconds}", f"-artifact_prefix={crashes}/"]
        command += [f"-seed={plan.seed}"]
        done = subprocess.run(
            [*command, str(found), str(kept)], cwd=ROOT, capture_output=True, check=False
        )
        plan.took(target, time.monotonic() - began - seconds)
        log = (done.stdout + done.stderr).decode(errors="replace")
        crash = None
        for artifact in sorted(crashes.iterdir()):
            crash = kept / f"crash-{artifact.name.rpartition('-')[2][:12]}"
            crash.write_bytes(artifact.read_bytes())
    runs = re.search(r"number_of_executed_units: *([0-9]+)", log)
    took = re.search(r"Done [0-9]+ runs in ([0-9]+) second", log)
    return Result(
        target=target,
        runs=int(runs[1]) if runs else 0,
        seconds=float(took[1]) if took else seconds,
        crash=crash,
        # A target that never ran is no target that passed.
        failed=done.returncode != 0 or not runs or int(runs[1]) < 10,
        log=log if crash is None else _replayed(target, crash),
    )


def _replayed(target: str, crash: Path) -> str:
    """What a crash says without atheris; a crash that is only slow or large says nothing."""
    command = [sys.executable, "-m", "tests.fuzz", target, str(crash)]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, check=False, timeout=60)
    except subprocess.TimeoutExpired:
        return "takes longer than a minute\n"
    return (done.stdout + done.stderr).decode(errors="replace")


def replay(target: str, file: Path) -> None:
    """Run one input without atheris, so that its traceback is a plain one."""
    accepted = load(target)(file.read_bytes())
    sys.stdout.write(f"{target}: {'accepted' if accepted else 'refused'}, as it should be\n")


def run_all(targets: list[str], seconds: float, seed: int) -> int:
    began = time.monotonic()
    sys.stdout.write(f"{'target':<22}{'runs':>10}{'runs/s':>10}  result\n")
    plan = Plan(targets, seconds, seed)
    failed = 0
    with ThreadPoolExecutor(JOBS) as pool:
        for result in pool.map(lambda name: fuzz(name, plan), targets):
            sys.stdout.write(result.line())
            sys.stdout.flush()
            if result.failed:
                failed += 1
                sys.stdout.write("".join(result.log.splitlines(keepends=True)[-40:]))
                if result.crash is not None:
                    path = result.crash.relative_to(ROOT)
                    sys.stdout.write(f"again: python -m tests.fuzz {result.target} {path}\n")
    sys.stdout.write(f"{time.monotonic() - began:.0f} s\n")
    sys.stdout.write(f"{len(targets) - failed} passed, {failed} failed\n")
    return 1 if failed else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("what", nargs="*", help=f"targets, or one and a file: {', '.join(TARGETS)}")
    parser.add_argument("--seconds", type=float, default=60, help="for all of them together")
    parser.add_argument("--seed", type=int, default=0, help="the same inputs again; 0 is any")
    arguments = parser.parse_args()
    what: list[str] = arguments.what
    if len(what) == 2 and what[0] in TARGETS and what[1] not in TARGETS:
        replay(what[0], Path(what[1]))
        return 0
    unknown = [name for name in what if name not in TARGETS]
    if unknown:
        parser.error(f"no target {', '.join(unknown)}; there are {', '.join(TARGETS)}")
    return run_all(what or list(TARGETS), arguments.seconds, arguments.seed)


if __name__ == "__main__":
    sys.exit(main())
