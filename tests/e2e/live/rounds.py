"""One round of all verbs in a driver of Spark, at once, so that somebody can break into it.

    prepare    in the driver itself, until every verb has something to do
    verbs      a thread each, which begins when it is told to; they meet in the same manifests
      begun      a file appears; the run of the verb begins
      over       another appears; it has ended, well or not
    answer     of each verb: how it ended, when its tasks ran, and how many of them Spark has lost

A kill that comes before a verb has begun, or when it is over, does not count for it. Who kills can
choose when each verb begins, so that one kill comes at another instant of every one of them.

Spark gives its slots to the verbs in turn: else the tasks of one would take them all while the
others wait, and a kill would hit that one alone. And a kill of all Pythons costs little, because
they are made by a daemon that has lakelog loaded: this file, run as a program. Elsewhere than on
this machine nobody finds it, and every Python loads lakelog by itself.
"""

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

__all__ = ["BEGUN", "IN_TURN", "LOADED", "OVER", "get_ready", "one_round"]

BEGUN, OVER = "begun", "over"

IN_TURN = {"spark.scheduler.mode": "FAIR"}
LOADED = {"spark.python.daemon.module": "tests.e2e.live.rounds"}
"""What a driver must be told."""

_PATIENCE_S = 60.0


def get_ready(spark: SparkSession) -> None:
    """Start what the first round would have to wait for."""
    slots = spark.sparkContext.defaultParallelism
    spark.range(slots).repartition(slots).mapInArrow(_same, "id bigint").toArrow()


def _same(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
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
    began_ms: int = 0
    seconds: float = 0

    @property
    def group(self) -> str:
        """What Spark knows its tasks by."""
        return f"{self.verb} {self.marks}"

    def run(self, spark: SparkSession, place: StoreSpec, after_s: float) -> None:
        spark.sparkContext.setLocalProperty("spark.scheduler.pool", self.verb)
        spark.sparkContext.setJobGroup(self.group, self.group)
        time.sleep(after_s)  # noqa: TID251 (as it was told)
        self.began_ms, began = time.time_ns() // 1_000_000, time.monotonic()
        (self.marks / f"{self.verb}.{BEGUN}").touch()
        try:
            report = run_job(spark, job_of(self.verb, place), planned=self.planned)
            self.outcomes = dict(report.outcomes)
            if not report.is_good:
                self.fault = f"{report.outcomes}: {report.findings(5)}"
        except Exception as error:  # noqa: BLE001 (the test raises it)
            self.failure = failure_of(error) or ""
            self.fault = "" if self.failure else traceback.format_exc()
        (self.marks / f"{self.verb}.{OVER}").touch()
        self.seconds = time.monotonic() - began

    def told(self, spark: SparkSession) -> dict[str, Any]:
        return {
            "outcomes": self.outcomes,
            "failure": self.failure,
            "fault": self.fault,
            "lost": _lost_tasks(spark, self.group),
            "tasks": [(at - self.began_ms) / 1000 for at in _times_ms(spark, self.group)],
            "seconds": self.seconds,
        }


def one_round(
    spark: SparkSession, place: dict[str, Any], marks: str, after_s: dict[str, float]
) -> dict[str, Any]:
    """Run all verbs, each of which has something to do; say how they went.

    ``marks`` is the folder where the files appear. Whatever goes wrong is told as well: an error
    would look as if the driver were at fault.
    """
    at, home = StoreSpec(**place), Path(marks)
    try:
        plans = _prepared(at)
    except LateError as late:
        return {"late": str(late)}
    except Exception:  # noqa: BLE001 (the test raises it)
        return {"fault": traceback.format_exc()}
    runs = [_Run(verb, plans[verb], home) for verb in VERBS]
    threads = [
        InheritableThread(one.run, args=(spark, at, after_s.get(one.verb, 0)), session=spark)
        for one in runs
    ]
    for thread in threads:
        thread.start()
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


def _stages(spark: SparkSession, group: str) -> Iterator[Any]:
    tracker = spark.sparkContext.statusTracker()
    for number in tracker.getJobIdsForGroup(group):
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


def _times_ms(spark: SparkSession, group: str) -> list[int]:
    """When the tasks began that do the work, and when they were over; empty, if they never did.

    They are the last stage; before it, Spark shares the tasks out.
    """
    last = max((info.stageId for info in _stages(spark, group)), default=None)
    if last is None:
        return []
    stage = spark.sparkContext._jsc.sc().statusStore().lastStageAttempt(last)
    ends = (stage.firstTaskLaunchedTime(), stage.completionTime())
    return [end.get().getTime() for end in ends if end.isDefined()]


if __name__ == "__main__":
    manager()
