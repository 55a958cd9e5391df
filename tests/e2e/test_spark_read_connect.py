"""Spark Connect: the client sends a plan, and the server finds the format by its name.

Jobs of the pipeline run there, too.
"""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakelog.formats import FORMATS
from lakelog.model import Record
from lakelog.records import Codec
from lakelog.spark import jobs
from tests.parts.archives import quick_spark
from tests.parts.spark_connect import connect_job
from tests.plain_encoders import encode

pytestmark = pytest.mark.spark

RECORDS = [
    Record(offset=i, timestamp=1_700_000_000_000 + i, key=None, value=b"%d" % i * 20)
    for i in range(500)
]


def read(spark: SparkSession, folder: str) -> dict[str, object]:
    """What a client does; it runs in a process of its own."""
    reader = spark.read.format("lakelog").option("path", folder).option("layout", "kafs")
    frame = reader.option("splitBytes", 5000).load()
    few = spark.read.format("lakelog").schema("offset bigint").option("layout", "kafs")
    (counted,) = reader.option("table", "segments").load().selectExpr("sum(bytes)").collect()
    return {
        "session": type(spark).__module__,
        "columns": frame.columns,
        "rows": [(row.offset, row.value.decode()) for row in frame.orderBy("offset").collect()],
        "late": few.load(folder).where("offset >= 490").count(),
        "bytes": counted[0],
        "verified": jobs.verify(spark, folder, layout="kafs").summary(),
    }


def test_a_client_reads_what_a_session_reads(tmp_path: Path) -> None:
    fmt, place = FORMATS["kafs"], tmp_path / "ns/orders/0"
    place.mkdir(parents=True)
    for suffix, data in encode(fmt, RECORDS, Codec.LZ4).items():
        (place / (fmt.file_stem(0) + suffix)).write_bytes(data)
    found = connect_job(read, quick_spark(), folder=str(tmp_path))
    assert found["session"] == "pyspark.sql.connect.session"
    assert found["columns"][:2] == ["key", "value"]
    assert found["rows"] == [[r.offset, (r.value or b"").decode()] for r in RECORDS]
    assert found["late"] == 10
    assert (found["verified"]["good"], found["verified"]["records"]) == (True, 500)
    assert found["bytes"] == (place / (fmt.file_stem(0) + fmt.suffix)).stat().st_size
