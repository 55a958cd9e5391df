"""Jobs of the pipeline on Spark: one task a partition, results home as Arrow.

    verify(spark, url, layout=...)        a job out of addresses and names, run; returns a Report
    run_job(spark, job)                   any job; ``lakelog.pipeline.jobs`` makes them

Tasks are rows of a DataFrame, and ``mapInArrow`` runs them. That is faster than going through a
data source, because Spark does not turn what comes back into rows and copy it twice; and it works
on every kind of cluster, over Spark Connect as well. A task that is lost is run again; what a step
writes is there once, however often it runs.

Progress comes through accumulators, which arrive with each finished task. Spark Connect has none:
there, progress stays silent.
"""

import pickle
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakelog.host import THIS_HOST
from lakelog.pipeline import (
    RESULT_SCHEMA,
    Compact,
    CompactUnit,
    Job,
    Plan,
    Report,
    Result,
    Task,
    compact_shuffled,
    pack,
    plan_job,
    results_to_arrow,
    results_to_table,
    run_planned,
    run_task,
)
from lakelog.pipeline.jobs import (
    compare_job,
    convert_job,
    import_job,
    reindex_job,
    verify_job,
)
from lakelog.spark.shuffled_compaction import clean_all
from lakelog.spark.tasks import TASK_BYTES, TASKS_PER_SLOT, slots, task_bytes_of
from lakelog.spark.worker import disable_collector
from lakelog.store import Usage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = [
    "Progress",
    "SparkRunner",
    "compare",
    "convert",
    "import_kafka",
    "reindex",
    "report_table",
    "run_job",
    "verify",
]

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
    planned = planned or plan_job(job)
    counters = _Counters.of(spark) if watch is not None else None
    clock = THIS_HOST.clock
    since_ms = clock.boot_ms()
    with _watching(counters, planned[0], watch):
        report = run_planned(job, planned, SparkRunner(spark, task_bytes, counters))
    return replace(report, seconds=(clock.boot_ms() - since_ms) / 1000)


@dataclass(frozen=True, slots=True)
class SparkRunner:
    """Runs the units of a job on a cluster; see ``pipeline.Runner``."""

    spark: "SparkSession"
    task_bytes: int | None
    counters: "_Counters | None"

    @property
    def wave_bytes(self) -> int:
        return TASKS_PER_SLOT * slots(self.spark) * (self.task_bytes or TASK_BYTES)

    def run_units(self, job: Job, units: Sequence[Any]) -> pa.Table:
        # Large tasks first: whoever is done early takes small ones.
        size = self.task_bytes or task_bytes_of(self.spark, units)
        tasks = sorted(pack(units, size), key=lambda task: -task.size)
        if not isinstance(job, Compact):
            return self._run_tasks(job, tasks)
        return self._compact_crowded(job, units, self._run_tasks(replace(job, whole=True), tasks))

    def _run_tasks(self, job: Job, tasks: list[Task]) -> pa.Table:
        rows = pa.table(
            {
                "number": pa.array(range(len(tasks)), pa.int32()),
                "task": pa.array((pickle.dumps(task) for task in tasks), pa.binary()),
            }
        )
        frame = _spread(self.spark.createDataFrame(rows), len(tasks))
        made = frame.mapInArrow(partial(_perform, job, self.counters), _RESULT_DDL)
        return made.toArrow().cast(RESULT_SCHEMA)

    def _compact_crowded(
        self, job: Compact, units: Sequence[CompactUnit], told: pa.Table
    ) -> pa.Table:
        """Return results of compaction in which no partition was left because of its many keys."""
        is_crowded = pc.equal(told["outcome"], "crowded")
        crowded = told.filter(is_crowded)
        left = set(zip(crowded["topic"].to_pylist(), crowded["partition"].to_pylist(), strict=True))
        results: list[Result] = []
        for unit in units:
            if (unit.topic.name, unit.partition) in left:
                done = compact_shuffled(job, unit, partial(clean_all, self.spark))
                # With transactions, as much as a map has room for; the next run goes on.
                results += [done] if done else run_task(job, Task(units=(unit,), size=unit.size))
        return pa.concat_tables([told.filter(pc.invert(is_crowded)), results_to_table(results)])


def _spread(frame: "DataFrame", count: int) -> "DataFrame":
    """Return the frame with a row a partition."""
    if hasattr(frame, "repartitionById"):  # Since Spark 4.1.
        return frame.repartitionById(count, "number")
    return frame.repartitionByRange(count, "number")


def _perform(
    job: Job, counters: "_Counters | None", batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Do the tasks of a partition. Runs in a worker."""
    disable_collector()
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


@contextmanager
def _watching(counters: _Counters | None, plan: Plan, watch: Watch | None) -> Iterator[None]:
    """Tell how far a run is, now and then, from a thread of its own."""
    if watch is None or counters is None:
        yield
        return
    total, done = sum(unit.size for unit in plan.units), threading.Event()

    def tell() -> None:
        watch(
            Progress(
                bytes_done=counters.bytes_done.value,
                bytes_total=total,
                records=counters.records.value,
                tasks_done=counters.tasks_done.value,
            )
        )

    def run() -> None:
        while not done.wait(_POLL_S):
            tell()

    thread = threading.Thread(target=run, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        tell()


def report_table(spark: "SparkSession", report: Report) -> "DataFrame":
    """Return a report as a DataFrame, a row for each unit."""
    return spark.createDataFrame(report.table, schema=_RESULT_DDL)


# ---------------------------------------------------------------------------- jobs by name


def import_kafka(
    spark: "SparkSession",
    folders: Sequence[str],
    *,
    task_bytes: int | None = None,
    watch: Watch | None = None,
    **words: Any,
) -> Report:
    """Make topics out of the log directories of Kafka brokers; words are those of import_job."""
    return run_job(
        spark, import_job(folders, host=THIS_HOST, **words), task_bytes=task_bytes, watch=watch
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
    return run_job(
        spark, verify_job(url, host=THIS_HOST, **words), task_bytes=task_bytes, watch=watch
    )


def compare(
    spark: "SparkSession",
    url: str,
    *,
    task_bytes: int | None = None,
    watch: Watch | None = None,
    **words: Any,
) -> Report:
    """Compare what two places hold, record by record; words are those of compare_job."""
    return run_job(
        spark, compare_job(url, host=THIS_HOST, **words), task_bytes=task_bytes, watch=watch
    )


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
    return run_job(
        spark, convert_job(url, host=THIS_HOST, **words), task_bytes=task_bytes, watch=watch
    )
