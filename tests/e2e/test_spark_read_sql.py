"""Segments in Spark's catalog: a table without options, and views that say where to read."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lakelog.formats import FORMATS
from lakelog.model import Record
from lakelog.records import Codec
from tests.plain_encoders import encode

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root, fmt = tmp_path_factory.mktemp("sql"), FORMATS["kafs"]
    for partition, count in ((0, 30), (1, 12)):
        place = root / f"ns/orders/{partition}"
        place.mkdir(parents=True)
        made = [Record(offset=i, timestamp=i, key=None, value=b"v") for i in range(count)]
        for suffix, data in encode(fmt, made, Codec.NONE).items():
            (place / (fmt.file_stem(0) + suffix)).write_bytes(data)
    return root


@pytest.fixture
def session(spark: SparkSession) -> Iterator[SparkSession]:
    spark.sql("CREATE DATABASE sql_reads")
    yield spark
    spark.sql("DROP DATABASE sql_reads CASCADE")


def counts(spark: SparkSession, relation: str) -> list[tuple[int, int]]:
    found = spark.sql(f"SELECT partition, count(*) AS n FROM {relation} GROUP BY partition")
    return sorted((row.partition, row.n) for row in found.collect())


def test_a_view_of_the_catalog_says_where_to_read(session: SparkSession, folder: Path) -> None:
    session.sql("CREATE TABLE sql_reads.lake USING lakelog")
    place = f"WITH (path = '{folder}', layout = 'kafs')"
    assert counts(session, f"sql_reads.lake {place}") == [(0, 30), (1, 12)]
    session.sql(f"CREATE VIEW sql_reads.orders AS SELECT * FROM sql_reads.lake {place}")
    assert counts(session, "sql_reads.orders") == [(0, 30), (1, 12)]
    assert session.table("sql_reads.orders").columns[0] == "key"


def test_other_columns_are_declared_with_the_table(session: SparkSession, folder: Path) -> None:
    session.sql("CREATE TABLE sql_reads.few (partition int, offset bigint) USING lakelog")
    place = f"WITH (path = '{folder}', layout = 'kafs', assign = '{{\"orders\": [1]}}')"
    assert counts(session, f"sql_reads.few {place}") == [(1, 12)]


def test_a_table_of_the_catalog_alone_says_what_to_do(session: SparkSession) -> None:
    session.sql("CREATE TABLE sql_reads.lake USING lakelog")
    with pytest.raises(PySparkException, match=r"SELECT \* FROM t WITH \(path"):
        session.sql("SELECT * FROM sql_reads.lake").collect()


@pytest.mark.parametrize("lost", ["OPTIONS (layout 'kafs')", "LOCATION '{folder}'"])
def test_options_that_spark_would_lose_are_refused(
    session: SparkSession, folder: Path, lost: str
) -> None:
    """The day this fails, Spark hands a table's options to its reader: then take them."""
    with pytest.raises(PySparkException, match=r"Spark would keep .* to itself"):
        session.sql(f"CREATE TABLE sql_reads.lost USING lakelog {lost.format(folder=folder)}")
    with pytest.raises(PySparkException, match=r"Spark would keep .* to itself"):
        session.catalog.createTable("sql_reads.lost", path=str(folder), source="lakelog")
    kept = f"CREATE TABLE sql_reads.kept (offset bigint) USING lakelog OPTIONS (path '{folder}')"
    session.sql(kept)
    with pytest.raises(PySparkException, match="Spark passed no options"):
        session.sql("SELECT * FROM sql_reads.kept").collect()
