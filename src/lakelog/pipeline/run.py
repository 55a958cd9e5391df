"""Running a job: plan, units, commits, report.

    run_planned        what the driver does, wave by wave, whoever runs the steps
      Runner           runs units somewhere: a LocalRunner here, Spark's on a cluster
        run_task       the units of one task, one after another, each metered; wherever it runs

Stores are opened once a task, where the task runs. ``run_here`` is the whole run in this process:
for plans without units, for small work, and for tests of the steps.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import pyarrow as pa

from lakelog.pipeline.frame import BAD, Committing, Job, Plan, Result, StoreRequest, Task, pack
from lakelog.pipeline.kafka_reader import KafkaReader
from lakelog.pipeline.results import Report, results_to_arrow
from lakelog.store import Meter, StoreSpec, Usage, metered, retrying, run, working_by_threads

__all__ = [
    "Connections",
    "LocalRunner",
    "Runner",
    "plan_job",
    "results_to_table",
    "run_here",
    "run_planned",
    "run_task",
]

Perform = Callable[[Any], Any]

WAVE_BYTES = 4 << 30


class Connections:
    """The stores of a job, each opened when it is first asked for."""

    def __init__(self, stores: Mapping[str, StoreSpec]) -> None:
        self._stores, self._meter = stores, Meter()
        self._opened: dict[str, Perform] = {}

    @property
    def usage(self) -> Usage:
        """All requests so far."""
        return self._meter.usage

    def connect(self, name: str) -> Perform:
        """Return what performs operations on a store."""
        if name not in self._opened:
            self._opened[name] = self._open(self._stores[name])
        return self._opened[name]

    def _open(self, spec: StoreSpec) -> Perform:
        if spec.url.startswith("kafka:"):
            return KafkaReader(spec.url, spec.options).perform
        return working_by_threads(retrying(metered(spec.open().perform, self._meter)))

    def perform(self, request: StoreRequest) -> Any:
        """Return the answer to what a step asks for."""
        return self.connect(request.store)(request.op)


class Runner(Protocol):
    """Where the steps of a job run."""

    @property
    def wave_bytes(self) -> int:
        """How much is done before it is committed, about."""
        ...

    def run_units(self, job: Job, units: Sequence[Any]) -> pa.Table:
        """Run units, and return their results."""
        ...


@dataclass(frozen=True, slots=True)
class LocalRunner:
    """Runs steps in this process."""

    wave_bytes: int = WAVE_BYTES

    def run_units(self, job: Job, units: Sequence[Any]) -> pa.Table:
        task = Task(units=tuple(units), size=sum(unit.size for unit in units))
        return results_to_table(run_task(job, task))


def plan_job(job: Job) -> tuple[Plan, Usage]:
    """Return the plan of a job, and what it took to make it."""
    connections = Connections(job.stores)
    plan = job.plan(connections.connect)
    return plan, connections.usage


def run_task(job: Job, task: Task) -> Iterator[Result]:
    """Yield the result of each unit of a task."""
    connections = Connections(job.stores)
    for unit in task.units:
        before = connections.usage
        result = run(job.step(unit), connections.perform)
        yield replace(result, usage=connections.usage - before)


def run_planned(job: Job, planned: tuple[Plan, Usage], runner: Runner) -> Report:
    """Run what was planned, in waves if the job commits, and report."""
    plan, usage = planned
    tables = [results_to_table(plan.results)]
    if isinstance(job, Committing):
        connections = Connections(job.stores)
        committer = job.begin(plan, connections.connect)
        for wave in pack(plan.units, 1 << 62 if job.one_wave else runner.wave_bytes):
            tables.append(_sorted(runner.run_units(committer.job, wave.units)))
            tables.append(results_to_table(committer.commit(tables[-1])))
        outcomes = {outcome for table in tables for outcome in table.column("outcome").to_pylist()}
        if job.ends_anyway or not BAD & outcomes:
            tables.append(results_to_table(committer.end()))
        usage += connections.usage
    elif plan.units:
        tables.append(runner.run_units(job, plan.units))
    return Report(verb=job.verb, table=_sorted(pa.concat_tables(tables)), planning=usage)


def run_here(
    job: Job, planned: tuple[Plan, Usage] | None = None, *, wave_bytes: int = WAVE_BYTES
) -> Report:
    """Plan a job, or take the plan at hand, and run it in this process."""
    return run_planned(job, planned or plan_job(job), LocalRunner(wave_bytes))


def results_to_table(results: Iterable[Result]) -> pa.Table:
    """Return results as a table."""
    return pa.Table.from_batches([results_to_arrow(results)])


def _sorted(table: pa.Table) -> pa.Table:
    order = [(name, "ascending") for name in ("topic", "partition", "base_offset")]
    return table.sort_by(order)
