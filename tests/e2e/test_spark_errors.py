"""What a user of Spark is told: a sentence, and not how our code came to it."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.unit.pipeline.home import Home

pytestmark = pytest.mark.spark

Reads = Callable[[SparkSession, str], object]
WRONG: dict[str, tuple[Reads, str]] = {
    "no path": (
        lambda spark, _: spark.read.format("lakelog").option("subscribe", "t").load(),
        "path",
    ),
    "no namespace": (
        lambda spark, url: (
            spark.read.format("lakelog").option("subscribe", "t").load(f"{url}-other").count()
        ),
        "there is no namespace",
    ),
    "no topic": (
        lambda spark, url: spark.read.format("lakelog").option("subscribe", "t").load(url).count(),
        "there is no topic t",
    ),
    "no such option": (
        lambda spark, url: spark.read.format("lakelog").option("topic", "t").load(url),
        "no option 'topic'",
    ),
    "no topic to write to": (
        lambda spark, url: (
            spark.sql("SELECT 'v' AS value")
            .write.format("lakelog")
            .option("topic", "t")
            .mode("append")
            .save(url)
        ),
        "there is no topic 't'",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_with_a_query_is_told_in_a_sentence(
    spark: SparkSession, tmp_path: Path, case: str
) -> None:
    home = Home(tmp_path / "log")
    read, expected = WRONG[case]
    with pytest.raises(PySparkException) as caught:
        read(spark, home.url)
    told = str(caught.value)
    assert expected in told
    assert "Traceback" not in told
    assert "File " not in told
    assert len(told.strip().splitlines()) <= 2, told
