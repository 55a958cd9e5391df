"""A compacted topic with more keys than a map holds: Spark shuffles hashes, and cleans it at once.

The judge is a dictionary of what was written, and a consumer reads what is left.
"""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from lakelog.host import THIS_HOST
from lakelog.model import Rules
from lakelog.pipeline.jobs import compact_job, seal_job, verify_job
from lakelog.spark import write
from lakelog.spark.jobs import run_job
from tests.e2e.live.twins import Namespace, create_topic, running_namespace
from tests.e2e.live.views import View

pytestmark = pytest.mark.spark

TOPIC, PARTITIONS, RECORDS, KEYS, ROUNDS = "orders", 2, 60_000, 25_000, 2
MAP_BYTES = 64 << 10
"""Room for two thousand keys."""
NO_KEEPER = ("--flush-interval-ms", "100", "--no-keep")


@pytest.fixture
def namespace() -> Iterator[Namespace]:
    with running_namespace(NO_KEEPER, Rules(lanes=2)) as running:
        yield running


def test_more_keys_than_a_map_holds_are_compacted_in_one_run(
    spark: SparkSession, namespace: Namespace
) -> None:
    url = str(namespace.folder)
    create_topic(namespace.broker.bootstrap, TOPIC, PARTITIONS, **{"cleanup.policy": "compact"})
    numbers = spark.range(0, RECORDS, 1, 4)
    key = f"cast(cast(pmod(hash(id, {{}}), {KEYS}) as string) as binary) as key"
    value = "if(id % 7 = 0, null, cast(concat(id, '-', {}) as binary)) as value"
    newest: dict[tuple[int, bytes], tuple[int, bytes | None]] = {}
    with View(namespace.broker.bootstrap, TOPIC) as view:
        end = dict.fromkeys(range(PARTITIONS), 0)
        for number in range(ROUNDS):
            write(numbers.selectExpr(key.format(number), value.format(number)), url, topic=TOPIC)
            bounds = view.bounds(PARTITIONS)
            new = {at: (end[at], bounds[at][1]) for at in end}
            for (partition, offset), (name, said) in sorted(view.read(new).items()):
                assert name is not None
                newest[partition, name] = offset, said
            end = {at: bounds[at][1] for at in end}
            assert run_job(
                spark, seal_job(url, host=THIS_HOST, segment_bytes=300_000, backlog_ms=0)
            ).is_good
            report = run_job(
                spark,
                compact_job(
                    url, host=THIS_HOST, map_bytes=MAP_BYTES, segment_bytes=300_000, always=True
                ),
            )
            assert report.outcomes == {"compacted": PARTITIONS}
            assert report.records == len(newest) > 10 * MAP_BYTES // 32
            left = view.read(view.bounds(PARTITIONS))
            assert left == {
                (partition, offset): (name, said)
                for (partition, name), (offset, said) in newest.items()
            }
    assert sum(end.values()) == ROUNDS * RECORDS
    assert run_job(spark, compact_job(url, host=THIS_HOST, always=True)).outcomes == {}
    checked = run_job(spark, verify_job(url, host=THIS_HOST, layout="lakelog", records=True))
    assert set(checked.outcomes) <= {"good", "unclaimed"}
