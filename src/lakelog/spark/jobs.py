"""Jobs of the pipeline on Spark: one task a partition, results home as Arrow.

    verify_job(url, layout=...)           a job, out of plain words
    verify(spark, url, layout=...)        the same, run; returns a Report
    run_job(spark, job)                   any job

Tasks are rows of a DataFrame, and ``mapInArrow`` runs them. That is faster than going through a
data source, because Spark does not turn what comes back into rows and copy it twice; and it works
on every kind of cluster, over Spark Connect as well. A task that is lost is run again; what a step
writes is there once, however often it runs.

Progress comes through accumulators, which arrive with each finished task. Spark Connect has none:
there, progress stays silent.
"""

import pickle
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakelog.history import Selection
from lakelog.pipeline import (
    RESULT_SCHEMA,
    Compare,
    Convert,
    Job,
    Plan,
    Reindex,
    Report,
    Task,
    Verify,
    pack,
    parse_losses,
    plan_job,
    results_to_arrow,
    run_task,
)
from lakelog.records import Codec
from lakelog.spark.worker import settle
from lakelog.store import StoreSpec, Usage, open_store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = [
    "TASK_BYTES",
    "Progress",
    "compare",
    "compare_job",
    "convert",
    "convert_job",
    "reindex",
    "reindex_job",
    "report_table",
    "run_job",
    "verify",
    "verify_job",
]

TASK_BYTES = 512 * 1024 * 1024
"""The most that a task reads, unless a unit has more. Spark spends a tenth of a second on each."""

TASKS_PER_SLOT = 4
"""How many tasks there are for each that can run at a time, where there is enough to do."""

_FINDING_DDL = "array<struct<object:string,position:bigint,size:bigint,what:string>>"
_DDL_TYPES = {"string": "string", "int32": "int", "int64": "bigint"}
_RESULT_DDL = ", ".join(
    f"{field.name} {_DDL_TYPES.get(str(field.type), _FINDING_DDL)}" for field in RESULT_SCHEMA
)
_POLL_S = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a run is."""

    bytes_done: int
    bytes_total: int
    records: int
    tasks_done: int
    tasks_total: int


Watch = Callable[[Progress], None]


def run_job(
    spark: "SparkSession",
    job: Job,
    *,
    task_bytes: int | None = None,
    watch: Watch | None = None,
    planned: tuple[Plan, Usage] | None = None,
) -> Report:
    """Plan a job, or take the plan at hand, run it on a cluster, and report."""
    began = monotonic()
    plan, planning = planned or plan_job(job)
    # Large tasks first: whoever is done early takes small ones.
    size = task_bytes or _task_bytes(spark, plan)
    tasks = sorted(pack(plan.units, size), key=lambda task: -task.size)
    known = pa.Table.from_batches([results_to_arrow(plan.results)])
    found = _run_tasks(spark, job, tasks, watch) if tasks else known.slice(0, 0)
    table = pa.concat_tables([known, found.cast(RESULT_SCHEMA)]).sort_by(
        [("topic", "ascending"), ("partition", "ascending"), ("base_offset", "ascending")]
    )
    return Report(verb=job.verb, table=table, planning=planning, seconds=monotonic() - began)


def _task_bytes(spark: "SparkSession", plan: Plan) -> int:
    """Return how much a task should read, so that none is too small and no slot idles."""
    try:
        slots = int(spark.sparkContext.defaultParallelism)
    except Exception:  # noqa: BLE001 (Spark Connect has none, and says so in its own way)
        slots = 1
    total: int = sum(unit.size for unit in plan.units)
    return max(1, min(TASK_BYTES, total // (TASKS_PER_SLOT * slots)))


def _run_tasks(spark: "SparkSession", job: Job, tasks: list[Task], watch: Watch | None) -> pa.Table:
    rows = pa.table(
        {
            "number": pa.array(range(len(tasks)), pa.int32()),
            "task": pa.array((pickle.dumps(task) for task in tasks), pa.binary()),
        }
    )
    counters = _Counters.of(spark) if watch is not None else None
    frame = _spread(spark.createDataFrame(rows), len(tasks))
    frame = frame.mapInArrow(partial(_perform, job, counters), _RESULT_DDL)
    if watch is None or counters is None:
        return frame.toArrow()
    with _Watching(counters, tasks, watch):
        return frame.toArrow()


def _spread(frame: "DataFrame", count: int) -> "DataFrame":
    """Return the frame with a row a partition."""
    if hasattr(frame, "repartitionById"):  # Since Spark 4.1.
        return frame.repartitionById(count, "number")
    return frame.repartitionByRange(count, "number")


def _perform(
    job: Job, counters: "_Counters | None", batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Do the tasks of a partition. Runs in a worker."""
    settle()
    for batch in batches:
        for data in batch.column("task").to_pylist():
            task: Task = pickle.loads(data)  # noqa: S301 (this job's own driver made it)
            results = list(run_task(job, task))
            if counters is not None:
                counters.add(task.size, sum(result.records for result in results))
            yield results_to_arrow(results)


class _Counters:
    """Sums that grow on executors and are read by the driver."""

    def __init__(self, bytes_done: Any, records: Any, tasks_done: Any) -> None:
        self.bytes_done, self.records, self.tasks_done = bytes_done, records, tasks_done

    @classmethod
    def of(cls, spark: "SparkSession") -> "_Counters | None":
        """Return new counters, or None where Spark has none."""
        try:
            context = spark.sparkContext
        except Exception:  # noqa: BLE001 (Spark Connect raises errors of its own kind)
            return None
        return cls(*(context.accumulator(0) for _ in range(3)))

    def add(self, size: int, records: int) -> None:
        self.bytes_done.add(size)
        self.records.add(records)
        self.tasks_done.add(1)


class _Watching:
    """Tells how far a run is, now and then, from a thread of its own."""

    def __init__(self, counters: _Counters, tasks: list[Task], watch: Watch) -> None:
        self._counters, self._watch = counters, watch
        self._bytes, self._count = sum(task.size for task in tasks), len(tasks)
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="progress", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        self._tell()

    def _run(self) -> None:
        while not self._done.wait(_POLL_S):
            self._tell()

    def _tell(self) -> None:
        self._watch(
            Progress(
                bytes_done=self._counters.bytes_done.value,
                bytes_total=self._bytes,
                records=self._counters.records.value,
                tasks_done=self._counters.tasks_done.value,
                tasks_total=self._count,
            )
        )


def report_table(spark: "SparkSession", report: Report) -> "DataFrame":
    """Return a report as a DataFrame, a row for each unit."""
    return spark.createDataFrame(report.table, schema=_RESULT_DDL)


# ---------------------------------------------------------------------------- jobs by name


def verify_job(
    url: str,
    *,
    layout: str,
    topics: Iterable[str] | None = None,
    records: bool = False,
    closed: bool = False,
    options: Mapping[str, str] | None = None,
) -> Verify:
    """Check every byte of the segments below ``url``."""
    return Verify(
        source=_store_spec(url, options),
        layout=layout,
        selection=_selection(topics),
        records=records,
        closed=closed,
    )


def compare_job(
    url: str,
    *,
    layout: str,
    against: str,
    against_layout: str,
    topics: Iterable[str] | None = None,
    options: Mapping[str, str] | None = None,
    against_options: Mapping[str, str] | None = None,
) -> Compare:
    """Compare what two places hold, record by record."""
    return Compare(
        source=_store_spec(url, options),
        layout=layout,
        against=_store_spec(against, against_options),
        against_layout=against_layout,
        selection=_selection(topics),
    )


def reindex_job(
    url: str,
    *,
    layout: str,
    topics: Iterable[str] | None = None,
    closed: bool = False,
    options: Mapping[str, str] | None = None,
) -> Reindex:
    """Make indexes again where they are missing or wrong."""
    return Reindex(
        source=_store_spec(url, options), layout=layout, selection=_selection(topics), closed=closed
    )


def convert_job(
    url: str,
    *,
    layout: str,
    target: str,
    target_layout: str,
    topics: Iterable[str] | None = None,
    codec: str | None = None,
    level: int | None = None,
    block_bytes: int | None = None,
    segment_bytes: int | None = None,
    lose: Iterable[str] = (),
    options: Mapping[str, str] | None = None,
    target_options: Mapping[str, str] | None = None,
) -> Convert:
    """Convert the segments below ``url`` into another layout."""
    return Convert(
        source=_store_spec(url, options),
        layout=layout,
        target=_store_spec(target, target_options),
        target_layout=target_layout,
        selection=_selection(topics),
        codec=None if codec is None else Codec[codec.upper()],
        level=level,
        block_bytes=block_bytes,
        segment_bytes=segment_bytes,
        lose=parse_losses(lose),
    )


def verify(
    spark: "SparkSession",
    url: str,
    *,
    task_bytes: int | None = None,
    watch: Watch | None = None,
    **words: Any,
) -> Report:
    """Check every byte of the segments below ``url``; words are those of verify_job."""
    return run_job(spark, verify_job(url, **words), task_bytes=task_bytes, watch=watch)


def compare(
    spark: "SparkSession",
    url: str,
    *,
    task_bytes: int | None = None,
    watch: Watch | None = None,
    **words: Any,
) -> Report:
    """Compare what two places hold, record by record; words are those of compare_job."""
    return run_job(spark, compare_job(url, **words), task_bytes=task_bytes, watch=watch)


def reindex(
    spark: "SparkSession",
    url: str,
    *,
    task_bytes: int | None = None,
    watch: Watch | None = None,
    **words: Any,
) -> Report:
    """Make indexes again where they are missing or wrong; words are those of reindex_job."""
    return run_job(spark, reindex_job(url, **words), task_bytes=task_bytes, watch=watch)


def convert(
    spark: "SparkSession",
    url: str,
    *,
    task_bytes: int | None = None,
    watch: Watch | None = None,
    **words: Any,
) -> Report:
    """Convert segments into another layout; words are those of convert_job."""
    return run_job(spark, convert_job(url, **words), task_bytes=task_bytes, watch=watch)


def _store_spec(url: str, options: Mapping[str, str] | None) -> StoreSpec:
    """Return an address that means the same on every executor."""
    if url.startswith("kafka:"):
        return StoreSpec(url, dict(options or {}))
    # A path means here what it means in this folder; an executor runs in another.
    return StoreSpec(open_store(url, options).url, dict(options or {}))


def _selection(topics: Iterable[str] | None) -> Selection:
    return Selection(topics=None if topics is None else frozenset(topics))
