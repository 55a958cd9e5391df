"""Spark reads segments on a cluster: by name, in other processes, and with a worker lost.

The functions that take a session run in the driver's own process, see `tests.parts.spark_cluster`.
What they hand to Spark runs on the workers, and knows by its session which worker that is.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from lakelog.formats import FORMATS
from lakelog.model import Record
from lakelog.records import Codec
from tests.parts.spark_cluster import RunningJob, SparkCluster, processes_of
from tests.plain_encoders import encode

pytestmark = pytest.mark.spark

PARTITIONS = 2
SEGMENTS = 2
SEGMENT_RECORDS = 200
SPLIT_BYTES = 5000
TASKS_BEFORE_THE_STOP = 3
COLUMNS = "topic,partition,offset,key,value"
SCHEMA = "topic string, partition int, offset bigint, key binary, value binary, worker bigint"
Row = list[object]


def records_of(partition: int) -> list[Record]:
    return [
        Record(
            offset=i,
            timestamp=1_700_000_000_000 + 10 * i,
            key=b"key-%d" % (i % 7) if i % 5 else None,
            value=b"%d/%d " % (partition, i) * 9,
        )
        for i in range(SEGMENTS * SEGMENT_RECORDS)
    ]


def write_topic(root: Path, format_name: str, place: str) -> None:
    """Write one topic of several partitions, several segments each."""
    fmt = FORMATS[format_name]
    for partition in range(PARTITIONS):
        folder = root / place.format(partition=partition)
        folder.mkdir(parents=True)
        records = records_of(partition)
        for start in range(0, len(records), SEGMENT_RECORDS):
            segment = records[start : start + SEGMENT_RECORDS]
            for suffix, data in encode(fmt, segment, Codec.NONE).items():
                (folder / (fmt.file_stem(start) + suffix)).write_bytes(data)


def expected_rows() -> list[Row]:
    return [
        ["orders", p, r.offset, r.key and r.key.hex(), r.value and r.value.hex()]
        for p in range(PARTITIONS)
        for r in records_of(p)
    ]


def with_worker(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Say of each record which worker has read it."""
    for batch in batches:
        worker = pa.array([os.getsid(0)] * batch.num_rows, pa.int64())
        yield pa.RecordBatch.from_arrays([*batch.columns, worker], [*batch.schema.names, "worker"])


def with_worker_in_step(batches: Iterator[pa.RecordBatch], steps: Path) -> Iterator[pa.RecordBatch]:
    """Do the same, but stop in the middle of the job until somebody writes the file `go`.

    A worker has one core, so one that is held has ended all the tasks it began before.
    """
    me = str(os.getsid(0))
    begun = len(list(steps.glob(f"{me}-*")))
    (steps / f"{me}-{begun}").touch()
    deadline = time.monotonic() + 60
    while begun >= TASKS_BEFORE_THE_STOP and not (steps / "go").exists():
        if time.monotonic() > deadline:
            raise TimeoutError("nobody wrote the file `go`")
        time.sleep(0.02)  # noqa: TID251 (nothing to wait on but the other process)
    yield from with_worker(batches)


def load(spark: SparkSession, folder: str, layout: str) -> DataFrame:
    reader = spark.read.format("lakelog").option("path", folder).option("layout", layout)
    return reader.option("splitBytes", SPLIT_BYTES).option("columns", COLUMNS).load()


def rows_of(frame: DataFrame) -> list[Row]:
    return [
        [r.topic, r.partition, r.offset, r.key and r.key.hex(), r.value.hex(), r.worker]
        for r in sorted(frame.collect(), key=lambda r: (r.partition, r.offset))
    ]


def read_in_step(spark: SparkSession, folder: str, layout: str, steps: str) -> list[Row]:
    frame = load(spark, folder, layout)

    def tagged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return with_worker_in_step(batches, Path(steps))

    tagging = frame.mapInArrow(tagged, SCHEMA)
    # Results wait for the end of the job on the workers that made them, where they can be lost.
    return rows_of(tagging.repartition(2, "partition"))


def start(cluster: SparkCluster, folder: Path, layout: str, steps: Path) -> RunningJob:
    """Start a job and wait until every worker is held in the middle of it."""
    steps.mkdir()
    job = cluster.job(read_in_step, folder=str(folder), layout=layout, steps=str(steps))
    held = [steps / f"{worker}-{TASKS_BEFORE_THE_STOP}" for worker in cluster.workers]
    job.wait_until(lambda: all(mark.exists() for mark in held), within_s=120)
    return job


def test_both_workers_find_the_format_by_name_and_read_every_record_once(
    spark_cluster: SparkCluster, tmp_path: Path
) -> None:
    store, steps = tmp_path / "store", tmp_path / "steps"
    write_topic(store, "kafs", "ns/orders/{partition}")
    job = start(spark_cluster, store, "kafs", steps)
    (steps / "go").touch()
    rows = job.result()
    assert [row[:-1] for row in rows] == expected_rows()
    assert {row[-1] for row in rows} == set(spark_cluster.workers)


def test_a_job_that_loses_a_worker_still_reads_every_record_once(
    spark_cluster: SparkCluster, tmp_path: Path
) -> None:
    store, steps = tmp_path / "store", tmp_path / "steps"
    write_topic(store, "kafkalog", "orders-{partition}")
    job = start(spark_cluster, store, "kafka", steps)
    lost, kept = spark_cluster.workers
    spark_cluster.lose(lost)
    assert not processes_of(lost)
    (steps / "go").touch()
    rows = job.result()
    assert [row[:-1] for row in rows] == expected_rows()
    # What the lost worker had done was lost with it, and has been done again.
    assert {row[-1] for row in rows} == {kept}
