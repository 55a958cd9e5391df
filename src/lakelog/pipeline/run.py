"""Running steps: what a Spark task and this process do alike.

``run_task`` does the units of one task, one after another, and meters each. Stores are opened once
a task, where the task runs. ``run_here`` is the whole run without Spark: for small work, and for
tests of the steps.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from time import monotonic
from typing import Any

import pyarrow as pa

from lakelog.pipeline.frame import Job, Plan, Result, Task, Wish
from lakelog.pipeline.live import LiveKafka
from lakelog.pipeline.results import Report, results_to_arrow
from lakelog.store import Meter, StoreSpec, Usage, metered, retrying, run

__all__ = ["Connections", "plan_job", "run_here", "run_task"]

Perform = Callable[[Any], Any]


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
            return LiveKafka(spec.url, spec.options).perform
        return retrying(metered(spec.open().perform, self._meter))

    def grant(self, wish: Wish) -> Any:
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


def run_here(job: Job) -> Report:
    """Plan a job, and run it in this process."""
    began = monotonic()
    plan, planning = plan_job(job)
    task = Task(units=tuple(plan.units), size=sum(unit.size for unit in plan.units))
    results = [*plan.results, *run_task(job, task)]
    table = pa.Table.from_batches([results_to_arrow(results)])
    return Report(verb=job.verb, table=table, planning=planning, seconds=monotonic() - began)
