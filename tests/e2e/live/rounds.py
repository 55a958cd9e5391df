"""One round of all verbs in a driver of Spark, at once, so that somebody can break into it.

    prepare    Pythons that have lakelog loaded, and something to do for every verb
    verbs      a thread each, all at once; they meet in the same manifests
      begun      a file appears; the run of the verb begins
      busy       another appears; it has tasks that do the work
      over       a third; it has ended, well or not
    answer     of each verb: how it ended, when its tasks ran, and how many of them Spark has lost

A kill that comes before a verb has begun, or when it is over, does not count for it.

Spark gives its slots to the verbs in turn: else the tasks of one would take them all while the
others wait, and a kill would hit that one alone. And Pythons have lakelog loaded before a round:
one that had to load it first would do little else when it is killed. On this machine a daemon makes
them, which has loaded it: this file, run as a program. Elsewhere nobody finds that, and every
Python loads lakelog by itself.
"""

import importlib
import time
import traceback
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import InheritableThread
from pyspark.daemon import manager
from pyspark.sql import SparkSession

from lakelog.cli.runs import failure_of
from lakelog.pipeline import Plan, plan_job, run_here
from lakelog.spark.jobs import run_job
from lakelog.store import StoreSpec, Usage
from tests.e2e.live.engines import VERBS, job_of
from tests.patience import LateError, in_time

__all__ = ["BEGUN", "BUSY", "IN_TURN", "LOADED", "OVER", "get_ready", "one_round"]

BEGUN, BUSY, OVER = "begun", "busy", "over"

IN_TURN = {"spark.scheduler.mode": "FAIR"}
LOADED = {"spark.python.daemon.module": "tests.e2e.live.rounds"}
"""What a driver must be told."""

_PATIENCE_S = 60.0


def get_ready(spark: SparkSession) -> None:
    """Start what a round would have to wait for."""
    slots = spark.sparkContext.defaultParallelism
    spark.range(slots).repartition(slots).mapInArrow(_load, "id bigint").toArrow()


def _load(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
    importlib.import_module("lakelog.spark.jobs")
    return batches


@dataclass
class _Run:
    """One verb of a round."""

    verb: str
    planned: tuple[Plan, Usage]
    marks: Path
    outcomes: dict[str, int] = field(default_factory=dict)
    failure: str = ""
    """Why it has failed, as `pipeline run` tells it: the next run tries again."""
    fault: str = ""
    """What should never be."""
    seconds: float = 0

    @property
    def group(self) -> str:
        """What Spark knows its tasks by."""
        return f"{self.verb} {self.marks}"

    def mark(self, what: str) -> Path:
        return self.marks / f"{self.verb}.{what}"

    def run(self, spark: SparkSession, place: StoreSpec) -> None:
        spark.sparkContext.setLocalProperty("spark.scheduler.pool", self.verb)
        spark.sparkContext.setJobGroup(self.group, self.group)
        began = time.monotonic()
        self.mark(BEGUN).touch()
        try:
            report = run_job(spark, job_of(self.verb, place), planned=self.planned)
            self.outcomes = dict(report.outcomes)
            if not report.is_good:
                self.fault = f"{report.outcomes}: {report.findings(5)}"
        except Exception as error:  # noqa: BLE001 (the test raises it)
            self.failure = failure_of(error) or ""
            self.fault = "" if self.failure else traceback.format_exc()
        self.mark(OVER).touch()
        self.seconds = time.monotonic() - began

    def told(self, spark: SparkSession) -> dict[str, Any]:
        return {
            "outcomes": self.outcomes,
            "failure": self.failure,
            "fault": self.fault,
            "lost": _lost_tasks(spark, self.group),
            "busy_s": _busy_ms(spark, self.group) / 1000,
            "seconds": self.seconds,
        }


def one_round(spark: SparkSession, place: dict[str, Any], marks: str) -> dict[str, Any]:
    """Run all verbs, each of which has something to do; say how they went.

    ``marks`` is the folder where the files appear. Whatever goes wrong is told as well: an error
    would look as if the driver were at fault.
    """
    at, home = StoreSpec(**place), Path(marks)
    try:
        get_ready(spark)
        plans = _prepared(at)
    except LateError as late:
        return {"late": str(late)}
    except Exception:  # noqa: BLE001 (the test raises it)
        return {"fault": traceback.format_exc()}
    runs = [_Run(verb, plans[verb], home) for verb in VERBS]
    threads = [InheritableThread(one.run, args=(spark, at), session=spark) for one in runs]
    for thread in threads:
        thread.start()
    _watch(spark, runs)
    for thread in threads:
        thread.join()
    # What became of tasks is known when everybody was told.
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    return {"verbs": {one.verb: one.told(spark) for one in runs}}


def _prepared(place: StoreSpec) -> Mapping[str, tuple[Plan, Usage]]:
    """Return plans with something in each; somebody writes meanwhile."""
    last = time.monotonic() + _PATIENCE_S
    while True:
        # What was sealed is there to be merged, compacted and expired. More is written at once.
        assert run_here(job_of("seal", place)).is_good
        plans = {verb: plan_job(job_of(verb, place)) for verb in reversed(VERBS)}
        idle = [verb for verb, planned in plans.items() if not planned[0].units]
        if not idle:
            return plans
        in_time(time.monotonic() < last, f"there is nothing to do for {idle}")
        time.sleep(0.1)  # noqa: TID251 (for those who write)


# ---------------------------------------------------------------------------- what Spark knows


def _watch(spark: SparkSession, runs: list[_Run]) -> None:
    """Let the files of the busy appear, until all are, or are over."""
    waiting = runs
    while waiting:
        for one in waiting:
            if any(info.numActiveTasks for info in _stages(spark, one.group, working=True)):
                one.mark(BUSY).touch()
        waiting = [one for one in waiting if not one.mark(BUSY).exists()]
        waiting = [one for one in waiting if not one.mark(OVER).exists()]
        time.sleep(0.01)  # noqa: TID251 (nothing to wait on but Spark)


def _stages(spark: SparkSession, group: str, *, working: bool = False) -> Iterator[Any]:
    """Yield the stages of a verb, or those that do the work: before, Spark shares the tasks out."""
    tracker = spark.sparkContext.statusTracker()
    for number in sorted(tracker.getJobIdsForGroup(group))[1 if working else 0 :]:
        job = tracker.getJobInfo(number)
        for stage in job.stageIds if job else ():
            if (info := tracker.getStageInfo(stage)) is not None:
                yield info


def _lost_tasks(spark: SparkSession, group: str) -> int:
    """How many tasks have failed, or were lost with who ran them.

    Spark counts those of the last attempt at a stage. That there was one before it says that a task
    or its result was lost, too.
    """
    return sum(info.numFailedTasks + info.currentAttemptId for info in _stages(spark, group))


def _busy_ms(spark: SparkSession, group: str) -> int:
    """How long the last tasks ran that did the work; nothing, if they never came to an end."""
    last = max((info.stageId for info in _stages(spark, group)), default=None)
    if last is None:
        return 0
    stage = spark.sparkContext._jsc.sc().statusStore().lastStageAttempt(last)
    ends = stage.firstTaskLaunchedTime(), stage.completionTime()
    first, end = (at.get().getTime() if at.isDefined() else 0 for at in ends)
    return max(0, end - first) if first else 0


if __name__ == "__main__":
    manager()
