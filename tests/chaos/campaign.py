"""One run: a stage, clients, faults, the end of faults, and what is wrong afterwards."""

import contextlib
import time
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from lakelog.catalog import make_namespace
from lakelog.host import new_id
from lakelog.model import Rules
from lakelog.store import METADATA, StoreSpec, open_store, run, working
from tests.chaos.audit import audited
from tests.chaos.beside import module_of, working_beside
from tests.chaos.faults import faults_of
from tests.chaos.plan import Run, plan_kinds
from tests.chaos.stage import staged
from tests.chaos.workloads import WORKLOADS, Workload
from tests.cluster.checker import LIVENESS, Findings
from tests.cluster.faults import Span, Storm
from tests.cluster.history import DEFINITE, History
from tests.cluster.load import loaded
from tests.cluster.operations import write_operations
from tests.cluster.planted import environment
from tests.parts.seaweedfs import SeaweedFS
from tests.parts.walls import Walls

__all__ = ["Outcome", "chaos_run", "share_of"]

EXPIRED_S = 8.0
"""After the last record of a topic that is kept for two seconds: by then nothing of it is left."""


@dataclass(frozen=True)
class Outcome:
    """What a run has shown."""

    findings: Findings
    history: History
    fired: dict[str, int]
    exits: list[str]
    share: float
    """Of the operations that were begun while something befell a broker, those that succeeded."""
    operations: int
    phases: dict[str, float]
    """How many seconds each took: brokers, others, clients, faults, healing, the end."""
    passes: int
    """Of the pipeline on Spark."""

    def anomalies(self) -> dict[str, int]:
        """Return how often each rule was broken that says what must never happen."""
        counts = self.findings.counts()
        return {name: n for name, n in counts.items() if n and name not in LIVENESS}

    def late(self) -> dict[str, int]:
        """Return how often each rule was broken that says what happens in time."""
        counts = self.findings.counts()
        return {name: counts[name] for name in LIVENESS if counts[name]}


def chaos_run(seaweedfs: SeaweedFS, home: Path, asked: Run) -> Outcome:
    """Let faults of one set befall three brokers, while clients do what a workload says."""
    workload = WORKLOADS[asked.workload]
    url = f"s3://{seaweedfs.bucket('chaos')}/{new_id().hex()}"
    began = [time.monotonic()]
    walls = Walls(home) if asked.walls else None
    with contextlib.ExitStack() as stack:
        stage = stack.enter_context(
            staged(
                seaweedfs,
                url,
                home,
                seed=asked.seed,
                heartbeat_ms=asked.heartbeat_ms,
                arguments=workload.arguments,
                module=module_of(asked),
                env=environment([asked.bug]) if asked.bug else {},
                with_etcd=asked.members == "etcd",
                walls=walls,
                before=lambda options: _make_namespace(url, options, workload, walls),
            )
        )
        began.append(time.monotonic())
        beside = stack.enter_context(working_beside(stage, asked, home))
        beside.wait()
        began.append(time.monotonic())
        load = stack.enter_context(
            loaded(
                stage.cluster,
                home,
                kinds=workload.kinds,
                plan=workload.plan,
                configs=workload.configs,
                walls=walls,
            )
        )
        if "library" in load.workers:
            beside.freeze_writer(load.workers["library"])
        began.append(time.monotonic())
        more, kinds = faults_of(stage) | beside.told(), plan_kinds(asked)
        storm = Storm(
            stage.cluster, asked.faults, asked.seed, asked.heartbeat_ms / 1000, kinds, more
        )
        storm.rage(asked.seconds, load.tail)
        began.append(time.monotonic())
        stage.heal()
        healed = storm.heal()
        stage.cluster.wait_until_whole(workload.plan.topic)
        began.append(time.monotonic())
        place = StoreSpec(stage.cluster.storage, stage.cluster.options)

        def audit() -> list[str]:
            if workload.plan.expires:
                time.sleep(EXPIRED_S)  # noqa: TID251 (what was sent last expires as well)
            beside.stop()
            # Maintenance that has no bug would undo what one that has it did.
            return audited(place, is_kept=workload.keeps and not asked.bug)

        findings = load.finish(healed, asked.patience_s, audit)
        operations = write_operations(load.lines(), home / "history.jsonl")
        return Outcome(
            findings,
            load.history,
            dict(storm.done),
            storm.exits,
            share_of(load.history, storm.spans),
            operations,
            _phases([*began, time.monotonic()]),
            beside.passes,
        )


def _phases(times: list[float]) -> dict[str, float]:
    names = ("brokers", "others", "clients", "faults", "healing", "end")
    took = (after - before for before, after in pairwise(times))
    return {name: round(one, 1) for name, one in zip(names, took, strict=True)}


def _make_namespace(
    url: str, options: Mapping[str, str], workload: Workload, walls: Walls | None
) -> None:
    """Make a namespace: a broker that made it would try the store first, and at length."""
    rules = Rules() if workload.grace_ms is None else Rules(grace_ms=workload.grace_ms)
    store = open_store(url, options)
    etcd_for = url if METADATA in options else ""
    run(make_namespace(new_id(), rules, etcd_for=etcd_for), working(store.perform))
    if walls is not None:
        walls.build(working(store.perform))


def share_of(history: History, spans: list[Span]) -> float:
    """Return the share of operations that succeeded, of those begun while something was wrong.

    What is refused in any case, because it is too large, counts for neither.
    """
    good = [sent.at for value, sent in history.sent.items() if value in history.acked]
    good += [one.begun for one in history.commits]
    good += [one.begun for one in history.fetches]
    good += [one.begun for one in history.ends]
    bad = [
        sent.at
        for value, sent in history.sent.items()
        if value not in history.acked and history.refused.get(value) not in DEFINITE
    ]
    bad += [at for at, _, what in history.errors if ":" in what]
    counts = [_within(times, spans) for times in (good, bad)]
    return counts[0] / sum(counts) if sum(counts) else 1.0


def _within(times: list[float], spans: list[Span]) -> int:
    merged: list[tuple[float, float]] = []
    for begun, ended, _, _ in sorted(spans):
        if merged and begun <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], ended))
        else:
            merged.append((begun, ended))
    return sum(any(begun <= at <= ended for begun, ended in merged) for at in times)
