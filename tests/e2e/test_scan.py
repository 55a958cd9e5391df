"""``lakelog.scan`` and Spark read the same rows of a namespace: every column, sealed or not."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import lakelog
from lakelog.pipeline import run_here
from tests.unit.pipeline.home import Home

pytestmark = pytest.mark.spark


def test_scan_gives_the_rows_that_spark_reads(spark: SparkSession, tmp_path: Path) -> None:
    home = Home(tmp_path / "log")
    topic = home.topic()
    home.fill(topic, 30)
    run_here(home.seal())
    home.fill(topic, 12)
    options = {"path": home.url, "subscribe": "orders", "includeHeaders": "true"}
    theirs = spark.read.format("lakelog").options(**options).load().toArrow()
    ours = lakelog.scan(home.url, columns=theirs.schema.names).read_all()
    order = [("partition", "ascending"), ("offset", "ascending")]
    assert ours.num_rows == 3 * 42
    assert ours.cast(theirs.schema).sort_by(order).equals(theirs.sort_by(order))
