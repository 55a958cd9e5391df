"""Which run is next: it follows from which there were.

    bucket, etcd, bucket, etcd, ...    by turns: a run is of those of which there were fewer

The number of a run, among those with the same members, is its seed, and says which workload meets
which set of faults. Sixty runs have every workload and every kind of fault often enough
(``tests/unit/cluster/test_plan.py``). One in six has beats as they come, and the others have faster
ones, so that more happens.
"""

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tests.chaos.faults import ETCD, SETS, kinds_of
from tests.chaos.workloads import WORKLOADS
from tests.cluster.checker import SEEN_S

__all__ = ["BEATS_MS", "DEFAULT_BEATS_MS", "MEMBERS", "Run", "following", "plan_kinds", "planned"]

MEMBERS = ("bucket", "etcd")
BEATS_MS: Mapping[str, int] = {"bucket": 500, "etcd": 300}
DEFAULT_BEATS_MS: Mapping[str, int] = {"bucket": 3_000, "etcd": 500}
"""As they are if nobody says otherwise."""
DEFAULT_BEATS_EVERY = 6

_TWICE = "maintenance"
"""Spark takes so long to start that what befalls it comes less often than anything else."""
_WORKLOADS: Mapping[str, tuple[str, ...]] = {
    "bucket": (*WORKLOADS, _TWICE),
    # The last release does not open a namespace that has its members in etcd.
    "etcd": (*(name for name, one in WORKLOADS.items() if not one.versions), _TWICE),
}
_SETS: Mapping[str, tuple[str, ...]] = {
    "bucket": tuple(name for name in SETS if kinds_of(name, "bucket")),
    "etcd": (
        "kill", "etcd", "leave", "cuts", "mixed", "freeze", "one-way", "etcd", "clock", "store",
    ),
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Run:
    """What is going to happen."""

    seed: int
    workload: str
    faults: str
    seconds: float
    heartbeat_ms: int
    members: str = "bucket"
    """Where brokers see each other, and groups are."""
    walls: bool = False
    """Whether clients come by TLS, log in by SCRAM, and may do what ACLs say."""
    bug: str = ""
    """That was put into the brokers, and is to be found."""
    patience_s: float = SEEN_S
    """How long records may take to be seen; what a bug has lost never is."""


def planned(number: int, seconds: float, members: str) -> Run:
    """Return the run of a number, from 0, of those with these members."""
    workloads, sets = _WORKLOADS[members], _SETS[members]
    is_default = number % DEFAULT_BEATS_EVERY == DEFAULT_BEATS_EVERY - 1
    return Run(
        seed=number + 1,
        workload=workloads[number % len(workloads)],
        # A cycle of the ones is no multiple of half a cycle of the others: so all pairs come.
        faults=sets[(number + number // 40) % len(sets)],
        seconds=seconds,
        heartbeat_ms=(DEFAULT_BEATS_MS if is_default else BEATS_MS)[members],
        members=members,
    )


def following(
    done: Iterable[tuple[str, int]],
    count: int,
    seconds: float,
    only: str | None = None,
    workload: str | None = None,
) -> list[Run]:
    """Return the runs that come next when some are done, by members and seed; ``only`` of one kind
    of members, or only of a workload. What is missing in between comes first.
    """
    able = [one for one in MEMBERS if workload in (None, *_WORKLOADS[one]) and only in (None, one)]
    if not able:
        raise ValueError(f"the plan has no runs of {workload} with members {only}")
    made, found = set(done), list[Run]()
    for _ in range(count):
        counts = Counter(members for members, _ in made)
        members = min(able, key=lambda one: counts[one])
        run = next(
            run
            for run in (planned(number, seconds, members) for number in itertools.count())
            if (members, run.seed) not in made and workload in (None, run.workload)
        )
        found.append(run)
        made.add((members, run.seed))
    return found


def plan_kinds(asked: Run) -> list[str]:
    """Return the kinds of faults of a run, each as often as it is likely."""
    kinds = kinds_of(asked.faults, asked.members)
    if not kinds and set(SETS[asked.faults]) & set(ETCD):
        raise ValueError(f"there is no etcd in a run with members {asked.members}")
    # What only this workload has is a third of it at least, however many kinds the set has.
    own = WORKLOADS[asked.workload].faults
    times = max(1, len(kinds) // (2 * len(own))) if own else 0
    return [*kinds, *own * times] if kinds else []
