"""A log is kept on Spark while it is written and read, by pipelines that die at any instant.

    maintenance   seal, merge, compact and retain without a pause, on SeaweedFS
    killed        `lakelog pipeline run` again and again, kill -9 each time; once only a worker
    two           two of them at once, on one namespace
    claim         while it stands, the keeper of a broker stands back

Whatever was done: a plain topic is what its producers were told, record by record; a compacted one
has of each key the newest, at its offset; a consumer and Spark see the same; and in the end nothing
lies in the bucket that nobody names. ``LAKELOG_UPKEEP_SECONDS`` says how long the first story
takes, ``LAKELOG_UPKEEP_KILLS`` how often pipelines are killed. Verbs that are killed inside of
their work are in ``test_upkeep_kills.py``.
"""

import os
import statistics
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random  # noqa: TID251 (seeded)
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import SparkSession

from lakelog.catalog import claim_pipeline
from lakelog.host import new_id
from lakelog.log import store_now
from lakelog.store import StoreSpec, run
from tests.e2e.broker.readings import metric
from tests.e2e.broker.traffic import Watcher
from tests.e2e.live.endless import Endless
from tests.e2e.live.engines import Engine, SparkHere
from tests.e2e.live.pipelines import Pipeline, run_to_the_end
from tests.e2e.live.repeating import Repeating
from tests.e2e.live.story import PARTITIONS, PLAIN, RATE, RULES, Story
from tests.e2e.live.twins import create_topic, running_namespace
from tests.e2e.live.views import Bucket
from tests.parts.lakelog import Lakelog
from tests.patience import in_time

if TYPE_CHECKING:
    from tests.parts.seaweedfs import SeaweedFS

pytestmark = pytest.mark.spark

SECONDS = float(os.environ.get("LAKELOG_UPKEEP_SECONDS", "20"))  # noqa: TID251
KILLS = int(os.environ.get("LAKELOG_UPKEEP_KILLS", "2"))  # noqa: TID251
RANGES_MIN = max(5, round(SECONDS / 6))
"""Comparisons, however long they take."""
PASSES_MIN = 4
"""Likewise, of passes."""

PAUSE_S = 1.0
"""From the beginning of a pass to the next, if it does not take longer."""
COMPARE_EVERY_S = 3.0
"""Likewise, of comparisons: most of the time is for the verbs."""
FOR_EVER = ("--every", "1s", "--now")
PASSES_AT_ONCE = max(2, KILLS // 2)
"""That each of two pipelines makes beside the other."""
KEEPER = ("--flush-interval-ms", "100", "--keep-every", "1")
NO_KEEPER = ("--flush-interval-ms", "100", "--no-keep")
CALM = ("--flush-interval-ms", "250", "--no-keep")


@pytest.fixture
def story() -> Iterator[Story]:
    with running_namespace(NO_KEEPER, RULES) as namespace:
        yield Story(namespace)


@pytest.fixture
def story_on_s3(seaweedfs: "SeaweedFS") -> Iterator[Story]:
    place = StoreSpec(f"s3://{seaweedfs.bucket('upkeep')}/{new_id().hex()}", seaweedfs.options)
    with running_namespace(CALM, RULES, place) as namespace:
        yield Story(namespace)


# ---------------------------------------------------------------------------- maintenance


class Maintenance(Repeating):
    """One pass after the other while its context lasts."""

    def __init__(self, story: Story, engine: Engine) -> None:
        super().__init__("maintenance", PAUSE_S)
        self.done: Counter[str] = Counter()
        self._story, self._engine = story, engine

    def one_pass(self) -> None:
        """Run all verbs."""
        self._story.keep(self._engine, self.done)

    def pause(self, began: float) -> float:
        """Return what is left of the pause: it counts from the beginning of a pass."""
        return began + self.pause_s - time.monotonic()


@pytest.mark.seaweedfs
@pytest.mark.timeout(SECONDS * 4 + 660)
def test_one_log_under_maintenance(spark: SparkSession, story_on_s3: Story) -> None:
    story, engine, chance = story_on_s3, SparkHere(spark, story_on_s3.place), Random(9)
    story.keep(engine, Counter())  # The first time, Spark starts its Pythons.
    ranges = records = 0
    watcher = Watcher(story.bootstrap, PLAIN, "watchers")
    try:
        with story.writing(), Maintenance(story, engine) as maintenance:
            end = time.monotonic() + SECONDS
            while (
                time.monotonic() < end
                or ranges < RANGES_MIN
                or len(maintenance.seconds) < PASSES_MIN
            ):
                maintenance.check()
                began = time.monotonic()
                records += len(story.compare(engine, PLAIN, story.some_range(chance)))
                ranges += 1
                left = began + COMPARE_EVERY_S - time.monotonic()
                time.sleep(max(left, 0))  # noqa: TID251 (others have their turn)
        watcher.wait_for(len(story.acked()), within_s=60)
    finally:
        watcher.stop()
    done = maintenance.done + Counter(ranges=ranges, compared=records)
    done["ms from pass to pass"] = round(1000 * statistics.median(maintenance.seconds))
    story.finish(engine, done)
    assert not watcher.errors, watcher.errors
    assert watcher.count == len(story.acked())
    in_time(done["merge: merged"] > 0, done)
    in_time(done["compact: compacted"] > 1, done)
    in_time(done["retain: swept"] > 0, done)
    in_time(story.bucket.deleted_bundles() > 0, done)


# ---------------------------------------------------------------------------- killed


def live_and_die(pipeline: Pipeline, bucket: Bucket, chance: Random) -> None:
    """Kill it at a random instant of its first passes; before each it claims the namespace."""
    before = bucket.claim()
    pipeline.wait_until(lambda: bucket.claim() != before)
    time.sleep(chance.uniform(0, 8))  # noqa: TID251 (a life)
    pipeline.kill()


@pytest.mark.long
@pytest.mark.timeout(KILLS * 120 + 600)
def test_killed_anywhere_nothing_is_lost_and_nothing_is_there_twice(
    spark: SparkSession, story: Story, tmp_path: Path
) -> None:
    done: Counter[str] = Counter()
    engine, chance = SparkHere(spark, story.place), Random(81)
    with story.writing():
        for _ in range(KILLS):
            with Pipeline(tmp_path, story.place, *FOR_EVER) as pipeline:
                live_and_die(pipeline, story.bucket, chance)
            done += pipeline.counts() + Counter(kills=1)
            assert all(told["good"] for told in pipeline.passes), pipeline.passes
        story.compare(engine, PLAIN, story.some_range(chance))
    done += run_to_the_end(tmp_path, story.place, "--now").counts()
    in_time(done["seal: sealed"] > 0, done)
    story.finish(engine, done)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_run_goes_on_when_one_of_its_workers_is_killed(
    spark: SparkSession, story: Story, tmp_path: Path
) -> None:
    with story.writing(), Pipeline(tmp_path, story.place, *FOR_EVER) as pipeline:
        pipeline.kill_worker(Random(5))
        told = len(pipeline.passes)
        # On one machine Spark tries no task twice: the pass may say that a verb failed.
        pipeline.wait_for_passes(told + 2)
    done = pipeline.counts()
    assert done["failures"] <= 1, pipeline.passes
    assert all(one["good"] for one in pipeline.passes[told + 1 :]), pipeline.passes
    story.finish(SparkHere(spark, story.place), done)


@pytest.mark.long
@pytest.mark.timeout(PASSES_AT_ONCE * 60 + 600)
def test_two_pipelines_at_once_do_no_harm(
    spark: SparkSession, story: Story, tmp_path: Path
) -> None:
    engine = SparkHere(spark, story.place)
    with (
        story.writing(),
        Pipeline(tmp_path, story.place, *FOR_EVER) as one,
        Pipeline(tmp_path, story.place, *FOR_EVER) as two,
    ):
        for count in range(1, PASSES_AT_ONCE + 1):
            one.wait_for_passes(count)
            two.wait_for_passes(count)
        story.compare(engine, PLAIN, story.some_range(Random(3)))
    done = one.counts() + two.counts()
    for told in (*one.passes, *two.passes):
        assert told["good"], told
    story.finish(engine, done)


# ---------------------------------------------------------------------------- claims


@pytest.mark.timeout(900)
def test_a_keeper_stands_back_while_a_pipeline_claims_the_namespace(tmp_path: Path) -> None:
    with running_namespace(KEEPER, RULES) as namespace:
        bucket, broker = Bucket(namespace.place), namespace.broker
        # Nothing is due for this one in the next ten minutes: it claims, and seals nothing.
        with Pipeline(tmp_path, namespace.place, "--every", "1h") as pipeline:
            pipeline.wait_for_passes(1)
            create_topic(broker.bootstrap, PLAIN, PARTITIONS)
            sender = Endless(0, broker.bootstrap, PLAIN, partitions=PARTITIONS, rate=RATE)
            with sender:
                wait_for_keeper(broker)
            assert bucket.sealed_ends(PLAIN) == [0] * PARTITIONS
        # It is dead, and its claim stands.
        wait_for_keeper(broker)
        assert bucket.sealed_ends(PLAIN) == [0] * PARTITIONS
        until_ms = run(store_now(new_id), bucket.perform) + 3_000
        run(claim_pipeline(new_id(), until_ms), bucket.perform)
        while sum(ends := bucket.sealed_ends(PLAIN)) == 0:
            time.sleep(0.05)  # noqa: TID251 (for the keeper)
        assert run(store_now(new_id), bucket.perform) >= until_ms
        wait_for_keeper(broker)
        assert sum(bucket.sealed_ends(PLAIN)) == len(sender.acked) > 0, ends
        assert metric(broker, "lakelog_keep_failures_total") == 0


def wait_for_keeper(broker: Lakelog) -> None:
    """Wait until the keeper has made some passes, the first of which began after this."""
    last = metric(broker, "lakelog_keep_passes_total") + 3
    while metric(broker, "lakelog_keep_passes_total") < last:
        time.sleep(0.05)  # noqa: TID251 (for the keeper)
