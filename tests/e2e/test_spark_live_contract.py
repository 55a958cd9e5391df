"""A drop-in for Spark's Kafka source: for the same options the same rows, or the same refusal.

The judge is ``spark-sql-kafka-0-10`` on a real Kafka. Both logs hold the same records; of ours the
older part is sealed and the newer is in the journal. The options are in ``live/sets.py``.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as everybody writes it)

from tests.e2e.live.sets import EQUAL, REFUSED, time_of
from tests.e2e.live.twins import Sent, Twins, rows_of, running_namespace
from tests.parts.kafka import Kafka

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

TWO = ThreadPoolExecutor(2)
EVERY = {"orders": 3, "orders-eu": 1}
LATE = 60
COUNT = {"orders": 240, "orders-eu": 60, "cut": 100, "late": LATE}


def records(topic: str, first: int, count: int) -> list[Sent]:
    partitions = EVERY.get(topic, 1)
    return [
        Sent(
            partition=i % partitions,
            key=None if i % 7 == 0 else b"key-%d" % (i % 11),
            value=None if i % 13 == 0 else b"%s %d " % (topic.encode(), i) * 5,
            timestamp=time_of(i if topic != "late" else i * 37 % LATE),
            headers=[("n", b"%d" % i), ("n", None), ("", b"")] if i % 3 == 1 else None,
        )
        for i in range(first, first + count)
    ]


@pytest.fixture(scope="module")
def twins(kafka: Kafka) -> Iterator[Twins]:
    with running_namespace() as namespace:
        both = Twins(kafka, namespace)
        for topic in COUNT:
            both.create_topic(topic, EVERY.get(topic, 1))
        both.create_topic("nothing", 2)
        for topic, total in COUNT.items():
            both.produce(topic, records(topic, 0, total // 2), "lz4")
        assert namespace.keep(segment_bytes=300).sealed.segments >= 5
        for topic, total in COUNT.items():
            both.produce(topic, records(topic, total // 2, total - total // 2))
        both.delete_records("cut", 30)
        yield both


@pytest.mark.sample(24)
@pytest.mark.parametrize("case", EQUAL)
def test_rows_are_those_of_spark_s_kafka_source(
    spark: SparkSession, twins: Twins, case: str
) -> None:
    theirs, ours = (twins.read(spark, name, EQUAL[case]) for name in ("kafka", "lakelog"))
    assert ours.schema == theirs.schema
    # Side by side: a reader of Kafka mostly waits.
    expected, found = TWO.map(rows_of, (theirs, ours))
    assert found == expected
    if case.endswith((": all", "defaults", "headers", "tasks")):
        assert len(expected) > 50, "there is something to compare"


QUERIES: dict[str, Callable[[DataFrame], DataFrame]] = {
    "a count": lambda frame: frame.groupBy().count(),
    "no column": lambda frame: frame.selectExpr("1 AS one"),
    "a filter": lambda frame: frame.where("offset % 3 = 0 AND partition > 0").select("value"),
    "a time": lambda frame: frame.where(f"timestamp > timestamp_millis({time_of(90)})"),
    "headers one by one": lambda frame: frame.selectExpr("offset", "inline(headers)"),
    "a summary": lambda frame: frame.groupBy("topic", "partition").agg(
        F.min("timestamp"), F.max("offset"), F.count("key"), F.sum(F.length("value"))
    ),
    "the first seven": lambda frame: frame.orderBy("timestamp", "topic").limit(7),
    "twice in one query": lambda frame: frame.where("offset < 9").union(
        frame.where("partition = 1")
    ),
}


@pytest.mark.parametrize("query", QUERIES)
def test_queries_of_both_give_the_same(spark: SparkSession, twins: Twins, query: str) -> None:
    options = {"subscribe": "orders,orders-eu", "includeHeaders": "true"}

    def answer(source: str) -> list[str]:
        frame = QUERIES[query](twins.read(spark, source, options))
        return sorted(str(row) for row in frame.toArrow().to_pylist())

    expected, found = TWO.map(answer, ("kafka", "lakelog"))
    assert found == expected
    assert expected


@pytest.mark.sample(10)
@pytest.mark.parametrize("case", REFUSED)
def test_what_spark_s_kafka_source_refuses_is_refused(
    spark: SparkSession, twins: Twins, case: str
) -> None:
    def refuse(source: str) -> None:
        with pytest.raises(Exception, match=r".+"):
            twins.read(spark, source, REFUSED[case]).collect()

    list(TWO.map(refuse, ("kafka", "lakelog")))


DIFFERENT: dict[str, tuple[dict[str, str], int]] = {
    "some columns": ({"subscribe": "orders", "columns": "offset,topic,partition"}, 240),
    "a typing error": ({"subscribe": "orders", "startingOffset": "earliest"}, -1),
}


@pytest.mark.parametrize("case", DIFFERENT)
def test_where_it_differs_it_says_so(spark: SparkSession, twins: Twins, case: str) -> None:
    """docs/how-to/read-the-live-log.md lists these."""
    options, count = DIFFERENT[case]
    assert len(rows_of(twins.read(spark, "kafka", options))) == 240, (
        "what it does not know is nothing"
    )
    if count < 0:
        with pytest.raises(Exception, match="no option"):
            twins.read(spark, "lakelog", options).collect()
    else:
        ours = twins.read(spark, "lakelog", options)
        assert ours.columns == ["offset", "topic", "partition"]
        assert len(rows_of(ours)) == count
