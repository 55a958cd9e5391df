"""The disaster drill: a bucket that was copied under load is used in another place."""

from pathlib import Path

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from lakelog.host import THIS_HOST
from lakelog.pipeline import Job, run_here
from lakelog.pipeline.jobs import compare_job, verify_job
from tests.cluster.drill import LEFT_OUT, PASSES, copy_bucket, passes_of
from tests.cluster.history import Diary
from tests.cluster.load import PARTITIONS, TOPIC, loaded, read_log
from tests.cluster.story import new_namespace
from tests.parts.cluster import running_cluster
from tests.parts.lakelog import running_lakelog
from tests.parts.seaweedfs import SeaweedFS

HEARTBEAT_MS = 300
PAGE = Path("docs/how-to/back-up-a-bucket.md")
GROUP = "rdkafka-group"


def test_the_page_tells_the_passes_that_are_tried_here() -> None:
    assert passes_of(PAGE) == PASSES
    assert f"`{LEFT_OUT}`" in PAGE.read_text()


def test_a_copy_that_was_made_under_load_is_whole_and_says_what_it_lacks(
    seaweedfs: SeaweedFS, tmp_path: Path
) -> None:
    source, target = new_namespace(seaweedfs), new_namespace(seaweedfs)
    (tmp_path / "one").mkdir()
    with (
        running_cluster(
            source,
            seaweedfs.options,
            heartbeat_ms=HEARTBEAT_MS,
            home=tmp_path / "one",
            arguments=("--keep-every", "1"),
        ) as cluster,
        loaded(cluster, tmp_path, kinds=["rdkafka"]) as load,
    ):
        load.wait_until(lambda: len(load.history.acked) > 800, 60)
        began = Diary.now()
        assert copy_bucket(source, target, seaweedfs.options) > 100
        load.wait_until(lambda: False, 2)
        found = load.finish(Diary.now())
        assert not found, found.shown()

    (whole, _, _), (copied, _, unreadable) = (
        read_log(url, seaweedfs.options) for url in (source, target)
    )
    assert not unreadable
    for partition, rows in copied.items():
        assert whole[partition][: len(rows)] == rows, "nothing is lost in the middle"
    lacks = {partition: len(whole[partition]) - len(rows) for partition, rows in copied.items()}
    assert any(lacks.values()), "it was written to meanwhile"
    values = {value for rows in copied.values() for _, value in rows}
    acked = {value for value, one in load.history.acked.items() if one.at < began}
    assert acked <= values, "what was acknowledged before the copy began is in it"

    options = seaweedfs.options
    audit = verify_job(
        target, host=THIS_HOST, layout="lakelog", records=True, store_options=options
    )
    assert not {"damaged", "missing"} & set().union(*outcomes(audit).values())
    compare = compare_job(
        target,
        host=THIS_HOST,
        layout="lakelog",
        against=source,
        against_layout="lakelog",
        topics=[TOPIC],
        store_options=options,
        against_store_options=options,
    )
    told = outcomes(compare)
    assert {one for one in told if "different" in told[one]} == {one for one in lacks if lacks[one]}

    committed = {one.partition: one.offset for one in load.history.commits if one.at < began}
    with running_lakelog(target, seaweedfs.options, ("--no-keep",)) as broker:
        offsets = committed_offsets(broker.bootstrap)
        for partition, offset in committed.items():
            assert offset <= offsets[partition] <= len(copied[partition])
        unread = sum(len(copied[one]) - offsets[one] for one in copied)
        assert len(read_on(broker.bootstrap, unread)) == unread, "the group goes on where it was"


def outcomes(job: Job) -> dict[int, set[str]]:
    """Run a job of the pipeline here, and return what it found by partition; -1: of all else."""
    found: dict[int, set[str]] = {}
    for row in run_here(job).table.to_pylist():
        found.setdefault(row["partition"], set()).add(row["outcome"])
    return found


def committed_offsets(bootstrap: str) -> dict[int, int]:
    asked = ConsumerGroupTopicPartitions(GROUP)
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    (told,) = admin.list_consumer_group_offsets([asked]).values()
    return {one.partition: one.offset for one in told.result(timeout=30).topic_partitions}


def read_on(bootstrap: str, count: int) -> list[str]:
    """Read what the group has not read yet."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP, "log_level": 0})
    consumer.assign(
        consumer.committed([TopicPartition(TOPIC, one) for one in range(PARTITIONS)], timeout=30)
    )
    found: list[str] = []
    while len(found) < count and (batch := consumer.consume(500, timeout=15)):
        found += [one.value().decode() for one in batch if one.error() is None]
    consumer.close()
    return found
