"""Running steps: what a Spark task and this process do alike.

``run_task`` does the units of one task, one after another, and meters each. Stores are opened once
a task, where the task runs. ``run_planned`` is what the driver does, wave by wave, whoever runs the
steps. ``run_here`` is the whole run without Spark: for small work, and for tests of the steps.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from time import monotonic
from typing import Any

import pyarrow as pa

from lakelog.pipeline.frame import BAD, Committing, Job, Plan, Result, StoreRequest, Task, pack
from lakelog.pipeline.kafka_reader import KafkaReader
from lakelog.pipeline.results import Report, results_to_arrow
from lakelog.store import Meter, StoreSpec, Usage, metered, retrying, run, working_by_threads

__all__ = [
    "Connections",
    "RunUnits",
    "plan_job",
    "run_here",
    "run_planned",
    "run_task",
]

Perform = Callable[[Any], Any]

RunUnits = Callable[[Job, Sequence[Any]], pa.Table]
"""Runs units, and returns their results."""

WAVE_BYTES = 4 << 30


class Connections:
    """The stores of a job, each opened when it is first asked for, metered and patient."""

    def __init__(self, stores: Mapping[str, StoreSpec], meter: Meter | None = None) -> None:
        self._stores = stores
        self._meter = meter or Meter()
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

    def grant(self, wish: StoreRequest) -> Any:
        """Return the answer to a wish."""
        return self.connect(wish.store)(wish.op)


def plan_job(job: Job) -> tuple[Plan, Usage]:
    """Return the plan of a job, and what it took to make it."""
    connections = Connections(job.stores)
    plan = job.plan(connections.connect)
    return plan, connections.usage


def run_task(job: Job, task: Task, connections: Connections | None = None) -> Iterator[Result]:
    """Yield the result of each unit of a task."""
    at = connections or Connections(job.stores)
    for unit in task.units:
        before = at.usage
        result = run(job.step(unit), at.grant)
        yield replace(result, usage=at.usage - before)


def run_planned(
    job: Job, planned: tuple[Plan, Usage], run_units: RunUnits, *, wave_bytes: int = WAVE_BYTES
) -> Report:
    """Run what was planned, in waves if the job commits, and report."""
    began = monotonic()
    plan, usage = planned
    tables = [_table(plan.results)]
    if isinstance(job, Committing):
        connections = Connections(job.stores)
        committer = job.begin(plan, connections.connect)
        for wave in pack(plan.units, 1 << 62 if job.one_wave else wave_bytes):
            tables.append(_sorted(run_units(committer.job, wave.units)))
            tables.append(_table(committer.commit(tables[-1])))
        outcomes = {outcome for table in tables for outcome in table.column("outcome").to_pylist()}
        if job.ends_anyway or not BAD & outcomes:
            tables.append(_table(committer.end()))
        usage += connections.usage
    elif plan.units:
        tables.append(run_units(job, plan.units))
    table = _sorted(pa.concat_tables(tables))
    return Report(verb=job.verb, table=table, planning=usage, seconds=monotonic() - began)


def _table(results: Iterable[Result]) -> pa.Table:
    return pa.Table.from_batches([results_to_arrow(results)])


def _sorted(table: pa.Table) -> pa.Table:
    order = [(name, "ascending") for name in ("topic", "partition", "base_offset")]
    return table.sort_by(order)


def run_here(job: Job, *, wave_bytes: int = WAVE_BYTES) -> Report:
    """Plan a job, and run it in this process."""

    def run_units(job: Job, units: Sequence[Any]) -> pa.Table:
        task = Task(units=tuple(units), size=sum(unit.size for unit in units))
        return _table(run_task(job, task))

    return run_planned(job, plan_job(job), run_units, wave_bytes=wave_bytes)
