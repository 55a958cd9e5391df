"""What clients do while faults befall the brokers.

    queue         producers that are not idempotent, and readers that are in no group; some records
                  are too large, and refused
    group         groups of two members that commit, and observers of their offsets
    idempotent    producers that are, at twice the rate; readers in no group; bounds are asked for
    upgrade       brokers are started as the last release was, and then as this version again
    multi-writer  besides producers, lakelog as a library appends to the same lanes
    maintenance   groups, while keepers and the pipeline on Spark seal, merge, trim and sweep every
                  few seconds, and are killed; Spark reads all of it again and again
    admin         topics are deleted and made anew, and partitions added, besides producers
    all-expired   retention deletes whatever is older than two seconds, while it is read

Each has workers of librdkafka and of Java, on one topic with three partitions in each lane.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.cluster.workers import Plan

__all__ = ["WORKLOADS", "Workload"]

_BOTH = ("rdkafka", "java")
_KEEPING = ("--keep", "--keep-every", "2")


@dataclass(frozen=True, kw_only=True)
class Workload:
    """What is started, and with which settings."""

    plan: Plan
    kinds: tuple[str, ...] = _BOTH
    """Of workers."""
    configs: Mapping[str, str] = field(default_factory=dict)
    """Of the topic."""
    arguments: tuple[str, ...] = ("--no-keep",)
    """Of brokers."""
    keeps: bool = False
    """Whether somebody else keeps the namespace as well."""
    pipeline: bool = False
    """Whether the pipeline on Spark does so, too."""
    grace_ms: int | None = None
    """How long deleters wait; None: as long as they do by themselves."""
    versions: bool = False
    """Whether brokers may be of the last release."""
    faults: tuple[str, ...] = ()
    """Kinds that only this one has, besides those of the run."""


WORKLOADS: Mapping[str, Workload] = {
    "queue": Workload(
        plan=Plan(assign=True, members=1, idempotent=False, bounds=True, large_every=200),
        configs={"max.message.bytes": "60000"},
    ),
    "group": Workload(plan=Plan()),
    "idempotent": Workload(plan=Plan(assign=True, members=1, rate=200, bounds=True)),
    "upgrade": Workload(plan=Plan(), versions=True, faults=("last-release",) * 5),
    "multi-writer": Workload(
        plan=Plan(assign=True, members=1, rate=60, bounds=True),
        kinds=(*_BOTH, "library"),
        faults=("freeze-writer",),
    ),
    "maintenance": Workload(
        plan=Plan(bounds=True, rate=50),
        kinds=(*_BOTH, "spark"),
        arguments=_KEEPING,
        keeps=True,
        pipeline=True,
        grace_ms=6_000,
        faults=("kill-keeper", "kill-pipeline", *("freeze-pipeline",) * 3) * 2,
    ),
    "admin": Workload(plan=Plan(rate=50), kinds=(*_BOTH, "admin")),
    "all-expired": Workload(
        plan=Plan(assign=True, members=1, bounds=True, expires=True),
        configs={"retention.ms": "2000"},
        arguments=("--keep", "--keep-every", "1"),
        keeps=True,
        grace_ms=6_000,
        faults=("kill-keeper",),
    ),
}
"""By name, in the order in which a campaign takes them."""
