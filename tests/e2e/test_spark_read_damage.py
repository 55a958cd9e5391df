"""Damage through Spark: the end of a query, or a row that tells of it."""

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from lakelog.formats import FORMATS
from lakelog.model import Record
from lakelog.records import NewBatch, encode_batch
from tests.plain_encoders import encode_kafka_log

pytestmark = pytest.mark.spark

BATCH_RECORDS = 20
BATCHES = 50


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A partition of two segments; batches 7 and 30 of the first are damaged, and its index is."""
    root = tmp_path_factory.mktemp("damaged")
    place = root / "orders-0"
    place.mkdir()
    for start in (0, BATCHES):
        run = [
            encode_batch(NewBatch(records=records(number)))
            for number in range(start, start + BATCHES)
        ]
        files = encode_kafka_log(b"".join(run))
        if start == 0:
            log = bytearray(files[".log"])
            for number in (7, 30):
                log[len(b"".join(run[:number])) + 100] ^= 1
            files[".log"] = bytes(log)
            files[".index"] = files[".index"] + files[".index"][:8]
        for suffix, data in files.items():
            stem = FORMATS["kafkalog"].file_stem(start * BATCH_RECORDS)
            (place / f"{stem}{suffix}").write_bytes(data)
    return root


def records(number: int) -> list[Record]:
    first = number * BATCH_RECORDS
    return [
        Record(offset=i, timestamp=1_700_000_000_000 + i, key=b"k%d" % i, value=b"v" * 40)
        for i in range(first, first + BATCH_RECORDS)
    ]


def read(spark: SparkSession, folder: Path, **options: str) -> DataFrame:
    reader = spark.read.format("lakelog").option("path", str(folder)).option("layout", "kafka")
    return reader.option("splitBytes", 9000).options(**options).load()


def test_damage_ends_a_query_and_is_named(spark: SparkSession, folder: Path) -> None:
    with pytest.raises(PySparkException, match=r"orders-0/0{20}\.index at byte"):
        read(spark, folder).collect()


def test_a_permissive_read_gives_every_other_record_and_tells_each_damage_once(
    spark: SparkSession, folder: Path
) -> None:
    frame = read(spark, folder, mode="PERMISSIVE", includeHeaders="true")
    assert frame.columns[-1] == "_corrupt"
    assert frame.rdd.getNumPartitions() > 10
    rows = frame.collect()
    lost = {n * BATCH_RECORDS + i for n in (7, 30) for i in range(BATCH_RECORDS)}
    assert sorted(row.offset for row in rows if row._corrupt is None) == [
        offset for offset in range(2 * BATCHES * BATCH_RECORDS) if offset not in lost
    ]
    told = [row for row in rows if row._corrupt is not None]
    assert {(row.topic, row.partition, row.offset, row.value) for row in told} == {
        ("orders", 0, None, None)
    }
    in_log = [row._corrupt for row in told if ".log at byte" in row._corrupt]
    assert len(in_log) == 2
    assert all(text.endswith(" bytes skipped") for text in in_log)
    assert len(told) == 3


def test_the_table_of_batches_shows_the_same(spark: SparkSession, folder: Path) -> None:
    frame = read(spark, folder, table="batches")
    assert frame.where("error IS NULL").selectExpr("sum(records)").first()[0] == (
        (2 * BATCHES - 2) * BATCH_RECORDS
    )
    damaged = frame.where("error IS NOT NULL AND object LIKE '%.log'")
    assert [row.records for row in damaged.collect()] == [None, None]
    assert frame.rdd.getNumPartitions() == 2


def test_the_table_of_segments_reads_no_segment(spark: SparkSession, folder: Path) -> None:
    frame = read(spark, folder, table="segments")
    rows = sorted(frame.collect(), key=lambda row: row.base_offset)
    assert [(row.base_offset, row.next_offset, row.active) for row in rows] == [
        (0, BATCHES * BATCH_RECORDS, False),
        (BATCHES * BATCH_RECORDS, None, True),
    ]
    for row in rows:
        assert row.bytes == (folder / row.object).stat().st_size
    assert frame.rdd.getNumPartitions() == 1
