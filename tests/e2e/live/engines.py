"""Who runs the verbs of a pipeline and reads topics: Spark in this process, or in another.

    SparkHere     a session of this process
    SparkThere    a driver of its own, which is told what to do and answers in JSON

The functions that take a session run in that driver, see `tests.parts.spark_cluster`.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from pyspark.sql import SparkSession

from lakelog.host import THIS_HOST
from lakelog.pipeline import Job
from lakelog.pipeline.jobs import (
    compact_job,
    merge_job,
    retain_job,
    seal_job,
    verify_job,
)
from lakelog.spark.jobs import run_job
from lakelog.store import StoreSpec
from tests.e2e.live.endless import Told
from tests.e2e.live.views import Bucket, Range
from tests.parts.spark_cluster import RunningJob

__all__ = ["VERBS", "Call", "Engine", "SparkHere", "SparkThere", "job_of"]

VERBS = ("seal", "merge", "compact", "retain")

SEALED_BYTES, CLEANED_BYTES, MERGED_BYTES = 8_000, 20_000, 100_000
"""So small that there is always something to merge."""

Outcomes = Mapping[str, int]
Call = Callable[[Callable[..., object], dict[str, Any]], RunningJob]
"""Has a function called by a driver, with a session and these arguments."""


def job_of(verb: str, place: StoreSpec, *, idle: bool = False) -> Job:
    """A verb that finds something to do as soon as there is anything."""
    url, options = place.url, place.options
    match verb:
        case "seal":
            return seal_job(
                url,
                host=THIS_HOST,
                segment_bytes=SEALED_BYTES,
                backlog_ms=0,
                idle=idle,
                store_options=options,
            )
        case "merge":
            return merge_job(
                url, host=THIS_HOST, segment_bytes=MERGED_BYTES, rows_min=2, store_options=options
            )
        case "compact":
            return compact_job(
                url, host=THIS_HOST, segment_bytes=CLEANED_BYTES, always=True, store_options=options
            )
        case "retain":
            return retain_job(url, host=THIS_HOST, store_options=options)
        case _:
            assert verb == "verify", verb
            return verify_job(
                url, host=THIS_HOST, layout="lakelog", records=True, store_options=options
            )


class Engine(Protocol):
    """Whoever runs verbs and reads topics."""

    def run(self, verb: str, *, idle: bool = False) -> Outcomes:
        """Run a verb, which must be good; return how many units ended how."""
        ...

    def read(self, topic: str, wanted: Range) -> Told:
        """The records of a range."""
        ...


class SparkHere:
    """Spark in this process."""

    def __init__(self, spark: SparkSession, place: StoreSpec) -> None:
        self._spark, self._bucket = spark, Bucket(place)

    def run(self, verb: str, *, idle: bool = False) -> Outcomes:
        return run_once(self._spark, verb, self._bucket.place, idle=idle)

    def read(self, topic: str, wanted: Range) -> Told:
        return self._bucket.by_spark(self._spark, topic, wanted)


class SparkThere:
    """A driver, which calls functions."""

    def __init__(self, call: Call, place: StoreSpec, within_s: float = 120) -> None:
        self._call, self._within_s = call, within_s
        self._place = {"url": place.url, "options": dict(place.options)}

    def run(self, verb: str, *, idle: bool = False) -> Outcomes:
        arguments = {"verb": verb, "place": self._place, "idle": idle}
        found: Outcomes = self._call(run_there, arguments).result(self._within_s)
        return found

    def read(self, topic: str, wanted: Range) -> Told:
        ranges = [[number, *ends] for number, ends in wanted.items()]
        arguments = {"place": self._place, "topic": topic, "wanted": ranges}
        rows = self._call(read_there, arguments).result(self._within_s)
        return {(number, at): (_bytes(key), _bytes(value)) for number, at, key, value in rows}


def run_once(spark: SparkSession, verb: str, place: StoreSpec, *, idle: bool) -> Outcomes:
    report = run_job(spark, job_of(verb, place, idle=idle))
    assert report.is_good, (verb, report.outcomes, report.findings(5))
    return report.outcomes


def run_there(spark: SparkSession, verb: str, place: dict[str, Any], idle: bool) -> Outcomes:
    return dict(run_once(spark, verb, StoreSpec(**place), idle=idle))


def read_there(
    spark: SparkSession, place: dict[str, Any], topic: str, wanted: list[tuple[int, int, int]]
) -> list[list[Any]]:
    ranges = {number: (first, end) for number, first, end in wanted}
    found = Bucket(StoreSpec(**place)).by_spark(spark, topic, ranges)
    return [[*at, key and key.hex(), value and value.hex()] for at, (key, value) in found.items()]


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)
