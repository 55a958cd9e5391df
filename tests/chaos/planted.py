"""By which run each planted bug is found, and by which rule."""

from collections.abc import Mapping
from typing import NamedTuple

from tests.chaos.plan import Run

__all__ = ["FOUND", "Found", "run_of"]

SECONDS, HEALTHY_SECONDS = 20.0, 8.0
"""Of a run with faults, and of one without."""
BEATS_MS = 300


class Found(NamedTuple):
    """What shows a bug."""

    workload: str
    faults: str
    rules: tuple[str, ...]
    """By any of which it is found."""
    seed: int = 1


FOUND: Mapping[str, Found] = {
    "ack-unstored": Found("queue", "none", ("lost-write",)),
    "stored-twice": Found("idempotent", "none", ("duplicate",)),
    "sequences-ignored": Found("idempotent", "leave", ("duplicate", "int-nonmonotonic-send")),
    "ack-failed": Found("idempotent", "clock", ("lost-write",)),
    "commit-forgotten": Found("group", "none", ("commit-regress",)),
    "takeover-empty": Found("group", "kill", ("commit-regress",)),
    "save-guessed": Found("group", "freeze", ("commit-regress",)),
    "end-lost": Found("all-expired", "none", ("start-regress", "end-regress", "unreadable")),
}
"""By bug."""


def run_of(bug: str) -> Run:
    """Return the run that finds a bug."""
    found = FOUND[bug]
    return Run(
        seed=found.seed,
        workload=found.workload,
        faults=found.faults,
        seconds=HEALTHY_SECONDS if found.faults == "none" else SECONDS,
        heartbeat_ms=BEATS_MS,
        bug=bug,
        patience_s=3.0,
    )
