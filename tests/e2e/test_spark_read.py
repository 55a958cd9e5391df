"""Spark reads segments by the name of the format: every layout, every record, by bytes."""

from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession

from lakelog.formats import FORMATS
from lakelog.model import Header, Record
from lakelog.records import Codec
from tests.parts.kafka import Kafka, read_all
from tests.plain_encoders import encode

pytestmark = pytest.mark.spark

FOLDERS = {
    "kafka": "orders-{partition}",
    "kafs": "ns/orders/{partition}",
    "strm": "data/orders/{partition}",
    "rustlog": "topics/orders/partitions/{partition}",
}
FORMAT_OF = {"kafka": "kafkalog", "kafs": "kafs", "strm": "strm", "rustlog": "rustlog"}
SEGMENT_RECORDS = 400
PARTITIONS = 3


def records_of(layout: str, partition: int) -> list[Record]:
    carries = FORMATS[FORMAT_OF[layout]].carries
    return [
        Record(
            offset=i,
            timestamp=1_700_000_000_000 + 10 * i,
            key=b"key-%d" % (i % 7) if carries.keys and i % 5 else None,
            value=None if carries.null_values and i % 11 == 0 else b"%d/%d " % (partition, i) * 9,
            headers=(Header("n", b"%d" % i),) if carries.headers and i % 3 == 0 else (),
        )
        for i in range(3 * SEGMENT_RECORDS)
    ]


@pytest.fixture(scope="module", params=FOLDERS)
def layout(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def folder(layout: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of one topic, three partitions and three segments each."""
    root, fmt = tmp_path_factory.mktemp(layout), FORMATS[FORMAT_OF[layout]]
    codec = Codec.LZ4 if Codec.LZ4 in fmt.carries.codecs else Codec.NONE
    for partition in range(PARTITIONS):
        place = root / FOLDERS[layout].format(partition=partition)
        place.mkdir(parents=True)
        records = records_of(layout, partition)
        for start in range(0, len(records), SEGMENT_RECORDS):
            segment = records[start : start + SEGMENT_RECORDS]
            for suffix, data in encode(fmt, segment, codec).items():
                (place / (fmt.file_stem(segment[0].offset) + suffix)).write_bytes(data)
    return root


def read(spark: SparkSession, folder: Path, layout: str, **options: object) -> DataFrame:
    reader = spark.read.format("lakelog").option("path", str(folder)).option("layout", layout)
    for name, value in options.items():
        reader = reader.option(name, str(value))
    return reader.load()


def rows_of(frame: DataFrame) -> list[dict[str, object]]:
    table: pa.Table = frame.toArrow()
    return sorted(table.to_pylist(), key=lambda row: (row["partition"], row["offset"]))


def test_every_record_of_every_layout_comes_out_once(
    spark: SparkSession, folder: Path, layout: str
) -> None:
    frame = read(spark, folder, layout, includeHeaders="true", splitBytes=5000)
    assert frame.rdd.getNumPartitions() > 3 * PARTITIONS
    rows = rows_of(frame)
    expected = [(p, record) for p in range(PARTITIONS) for record in records_of(layout, p)]
    assert len(rows) == len(expected)
    for row, (partition, record) in zip(rows, expected, strict=True):
        headers = [{"key": k, "value": v} for k, v in record.headers] or None
        assert (row["topic"], row["partition"], row["offset"]) == (
            "orders",
            partition,
            record.offset,
        )
        assert (row["key"], row["value"], row["headers"]) == (record.key, record.value, headers)
        assert row["timestampType"] == 0
        assert row["timestamp"].timestamp() * 1000 == record.timestamp  # type: ignore[attr-defined]


def test_offsets_and_times_choose_records(spark: SparkSession, folder: Path, layout: str) -> None:
    frame = read(
        spark, folder, layout,
        assign='{"orders": [1]}', startingOffsets='{"orders": {"1": 390}}',
        endingTimestamp=1_700_000_000_000 + 10 * 410, columns="partition,offset",
    )  # fmt: skip
    assert [(row["partition"], row["offset"]) for row in rows_of(frame)] == [
        (1, offset) for offset in range(390, 410)
    ]


def test_only_the_columns_asked_for_are_declared(
    spark: SparkSession, folder: Path, layout: str
) -> None:
    assert read(spark, folder, layout, columns="offset, topic").columns == ["offset", "topic"]
    reader = spark.read.format("lakelog").schema("offset bigint, key binary")
    frame = reader.option("path", str(folder)).option("layout", layout).load()
    assert frame.count() == 3 * SEGMENT_RECORDS * PARTITIONS


def test_sql_reads_segments_as_a_view(spark: SparkSession, folder: Path, layout: str) -> None:
    options = f"(path '{folder}', layout '{layout}')"
    spark.sql(f"CREATE TEMPORARY VIEW orders_{layout} USING lakelog OPTIONS {options}")
    (found,) = spark.sql(
        f"SELECT count(*) AS n, max(offset) AS last FROM orders_{layout} WHERE partition = 2"
    ).collect()
    assert (found.n, found.last) == (3 * SEGMENT_RECORDS, 3 * SEGMENT_RECORDS - 1)
    spark.catalog.dropTempView(f"orders_{layout}")


def test_nothing_to_read_is_no_error(spark: SparkSession, folder: Path, layout: str) -> None:
    assert read(spark, folder, layout, subscribe="unknown").count() == 0


@pytest.mark.kafka
def test_a_broker_s_disk_reads_like_its_consumer(spark: SparkSession, kafka: Kafka) -> None:
    topic = "spark-reads"
    kafka.create_topic(topic, partitions=4, segment_bytes=1 << 20)
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        producer = Producer({"bootstrap.servers": kafka.bootstrap, "compression.type": codec})
        for i in range(2000):
            producer.produce(
                topic,
                partition=i % 4,
                key=None if i % 3 == 0 else b"k%d" % i,
                value=None if i % 17 == 0 else b"%s %d " % (codec.encode(), i) * 20,
                headers=[("codec", codec.encode()), ("n", None)] if i % 2 else None,
            )
            producer.poll(0)
        producer.flush()
    expected = [
        (r.partition, r.offset, r.timestamp, r.key, r.value, list(r.headers))
        for r in read_all(kafka, topic)
    ]
    frame = read(
        spark, kafka.data_dir, "kafka", subscribe=topic, includeHeaders="true", splitBytes=100_000
    )
    found = [
        (
            row["partition"], row["offset"],
            int(row["timestamp"].timestamp() * 1000),  # type: ignore[attr-defined]
            row["key"], row["value"],
            [(h["key"], h["value"]) for h in row["headers"] or []],  # type: ignore[attr-defined]
        )
        for row in rows_of(frame)
    ]  # fmt: skip
    assert len(found) == 10_000
    assert found == sorted(expected, key=lambda r: r[:2])
