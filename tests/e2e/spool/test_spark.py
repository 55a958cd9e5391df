"""Spark reads a spool that is being written, with the reader of every RustLog log.

``LAKELOG_SPOOL_READS`` says how often; ``make spool`` compares a hundred times.
"""

import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.e2e.spool.children import writer

READS = int(os.environ.get("LAKELOG_SPOOL_READS", "4"))  # noqa: TID251

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300 + 10 * READS)]


def test_what_spark_reads_is_what_was_written_so_far(spark: SparkSession, tmp_path: Path) -> None:
    child = writer(tmp_path, "ms=5", batch=20)
    told: list[int] = []
    while not told:
        told += child.told(0.2)
    for turn in range(READS):
        least = max([*told, *child.told(0.05)])
        told = [least]
        frame = spark.read.format("lakelog").option("layout", "rustlog").load(str(tmp_path))
        rows = frame.select("offset", "value", "topic", "partition").collect()
        found = sorted((row.offset, int(row.value)) for row in rows)
        assert found == [(number, number) for number in range(len(found))], turn
        assert len(found) >= least, turn
    child.kill()
