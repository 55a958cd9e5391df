"""`lakelog topic copy` and `restore` on Spark, judged by a consumer and by Spark itself.

The copy is another namespace, which a broker of its own serves: whoever consumed the source goes on
there at the same offsets.
"""

import json
import subprocess
import sys
import time

import pytest
from pyspark.sql import SparkSession

from tests.e2e.live.twins import Sent, create_topic, produce, running_namespace
from tests.e2e.live.views import View
from tests.parts.archives import quick_environment
from tests.parts.process import mortal

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

PARTITIONS = 3


def lakelog(*words: str) -> dict[str, object]:
    argv = [sys.executable, "-m", "lakelog", *words, "--json", "--master", "local[2]"]
    ended = subprocess.run(
        mortal(argv), capture_output=True, text=True, timeout=300, check=False,
        env=quick_environment(),
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr[-4000:] + ended.stdout[-2000:]
    told: dict[str, object] = json.loads(ended.stdout.splitlines()[-1])
    return told


def some(first: int, count: int) -> list[Sent]:
    now_ms = time.time_ns() // 1_000_000
    return [
        Sent(
            partition=at % PARTITIONS,
            key=b"k%d" % (at % 7),
            value=b"value %d" % at,
            timestamp=now_ms,
            headers=[("h", b"%d" % at)],
        )
        for at in range(first, first + count)
    ]


@pytest.mark.timeout(600)
def test_a_topic_is_copied_and_restored_with_its_offsets(spark: SparkSession) -> None:
    with running_namespace() as one, running_namespace() as two:
        create_topic(one.broker.bootstrap, "orders", PARTITIONS, **{"retention.ms": "-1"})
        produce(one.broker.bootstrap, "orders", some(0, 300), "zstd")
        one.keep()
        one.delete_records("orders", 20, partition=1)
        time.sleep(0.1)  # noqa: TID251 (times of records differ)
        moment_ms = time.time_ns() // 1_000_000
        produce(one.broker.bootstrap, "orders", some(300, 300))
        source, target = one.broker.storage, two.broker.storage
        lakelog("topic", "copy", "orders", "--storage", source, "--to", target)
        lakelog(
            "topic", "restore", "orders", "--at", str(moment_ms), "--as", "before",
            "--storage", source,
        )  # fmt: skip
        with View(one.broker.bootstrap, "orders") as view:
            bounds = view.bounds(PARTITIONS)
            wanted = view.read(bounds)
        with View(two.broker.bootstrap, "orders") as view:
            assert view.bounds(PARTITIONS) == bounds
            assert view.read(bounds) == wanted
        with View(one.broker.bootstrap, "before") as view:
            then = view.bounds(PARTITIONS)
            assert then == {at: (bounds[at][0], 100) for at in range(PARTITIONS)}
            assert view.read(then) == {
                place: record for place, record in wanted.items() if place[1] < 100
            }
        frame = spark.read.format("lakelog").options(path=target, subscribe="orders").load()
        assert frame.count() == len(wanted)
        # The copy is a topic like any other.
        produce(two.broker.bootstrap, "orders", some(600, 3))
        with View(two.broker.bootstrap, "orders") as view:
            assert [end for _, end in view.bounds(PARTITIONS).values()] == [
                end + 1 for _, end in bounds.values()
            ]
