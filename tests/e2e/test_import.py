"""import: the disk of a real Kafka becomes topics of lakelog, and nobody who read them can tell.

One Kafka makes topics of every kind, is stopped, and its directory is imported by the command line:
a dry run, a run that is killed in the middle, and the run that completes it, while a broker serves
the namespace. What consumers were given by Kafka is the measure of what they are given here.
"""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from lakelog.catalog import make_namespace
from lakelog.host import THIS_HOST, new_id
from lakelog.model import Rules
from lakelog.pipeline import Report, run_here
from lakelog.pipeline.jobs import compare_job, import_job
from lakelog.store import open_store, retrying, run, working
from tests.e2e.live.leaving import (
    CODECS,
    COME_TO,
    PARTITIONS,
    TOPICS,
    UNABORTED,
    Left,
    bounds_of,
    commit,
    consume,
    copy_of,
    fill,
    group_of,
    leaving_kafka,
    offsets_by_time,
    send_numbers,
)
from tests.e2e.oracle.reading import Row, difference, java_rows
from tests.parts.archives import quick_environment
from tests.parts.kafka import read_all
from tests.parts.lakelog import Lakelog, running_lakelog
from tests.parts.process import Finished, Process
from tests.patience import in_time

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(900)]

HALF, ALL = 150, 301
MARKED = b"key 500"
"""In one record of ``cut``, which is not compressed."""


def lakelog(*args: object) -> Finished:
    command = [sys.executable, "-m", "lakelog", *map(str, args)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=600, env=quick_environment()
    )
    return Finished(done.returncode, done.stdout, done.stderr)


# ---------------------------------------------------------------------------- what there is


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    made = tmp_path_factory.mktemp("import")
    yield made
    shutil.rmtree(made)


@dataclass(frozen=True)
class Past:
    """A Kafka that is gone, and how far those had come who read it."""

    left: Left
    java: list[Row]
    """``txn``, as the Java consumer was given it."""
    query: Path
    """A query's rows and checkpoint: it has read the first half of ``streamed``."""
    early: Path
    """A namespace with all but the second half, brought while Kafka ran."""


@pytest.fixture(scope="module")
def past(spark: SparkSession, home: Path) -> Past:
    folder, query, early = home / "kafka", home / "query", make(home / "early")
    folder.mkdir()
    with leaving_kafka() as kafka:
        fill(kafka)
        send_numbers(kafka.bootstrap, "streamed", 0, HALF)
        options = {"kafka.bootstrap.servers": kafka.bootstrap, "kafka.fetch.max.wait.ms": "5"}
        run_query(spark, "kafka", options, query)
        job = import_job(
            [str(kafka.data_dir)], host=THIS_HOST, storage=str(early), stay_closed=True
        )
        assert run_here(job).is_good
        send_numbers(kafka.bootstrap, "streamed", HALF, ALL - HALF)
        commit(kafka.bootstrap)
        seen, bounds = consume(kafka.bootstrap), bounds_of(kafka.bootstrap)
        times = offsets_by_time(kafka.bootstrap)
        java = java_rows(read_all(kafka, "txn", "read_committed"))
        kafka.stop()
        copy_of(kafka, folder)
    return Past(Left(folder, seen, bounds, times), java, query, early)


def make(store: Path) -> Path:
    """Make a namespace, without a word of the command line."""
    run(make_namespace(new_id(), Rules()), working(retrying(open_store(str(store)).perform)))
    return store


def run_query(spark: SparkSession, source: str, options: dict[str, str], home: Path) -> None:
    """Let a query read on, from where its checkpoint says, to the end of the log."""
    reader = spark.readStream.format(source).options(**options)
    reader = reader.option("subscribe", "streamed").option("startingOffsets", "earliest")
    rows = reader.load().selectExpr("partition", "offset", "CAST(value AS STRING) AS value")
    writer = rows.writeStream.format("json").option("checkpointLocation", str(home / "checkpoint"))
    assert writer.trigger(availableNow=True).start(str(home / "rows")).awaitTermination(120)


@dataclass(frozen=True)
class Moved:
    """A namespace after the import, and what was seen on the way."""

    broker: Lakelog
    store: Path
    copy: Path
    """The store, as the import left it."""
    dry: Finished
    listed_dry: str
    """The topics, after the dry run."""
    half: list[str]
    """The segments that were there when the import was killed."""
    closed: list[dict[str, Any]]
    """The topics, when the import had been killed."""
    shown: set[str]
    """What the broker showed then."""
    refused: KafkaError | None
    """What a producer was told then."""
    done: Finished
    opened: list[dict[str, Any]]
    """The topics, when the import had ended."""
    shown_then: set[str]


def segments_in(store: Path) -> list[str]:
    return sorted(str(path.relative_to(store)) for path in store.rglob("*.kfs"))


def topics_in(url: str) -> list[dict[str, Any]]:
    listed = lakelog("topic", "list", "--json", "--storage", url)
    assert listed.rc == 0, listed.stderr
    return [json.loads(line) for line in listed.stdout.splitlines()]


def shown_by(bootstrap: str) -> set[str]:
    """Return which of the topics a broker knows: by its list, or when it is asked for one."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    listed = set(admin.list_topics(timeout=30).topics) & set(TOPICS)
    asked = (admin.list_topics(topic, timeout=30).topics[topic] for topic in TOPICS)
    return listed | {told.topic for told in asked if told.error is None}


def refusal(bootstrap: str, topic: str) -> KafkaError | None:
    """Produce to a topic, which is made if it is not there, and return what came of it."""
    told: list[KafkaError | None] = []
    patience: dict[str, str | int | float | bool] = {"message.timeout.ms": 3_000, "log_level": 0}
    producer = Producer({"bootstrap.servers": bootstrap, **patience})
    producer.produce(topic, b"too early", on_delivery=lambda error, _: told.append(error))
    in_time(producer.flush(30) == 0, "some are not acknowledged")
    return told[0]


@pytest.fixture(scope="module")
def moved(past: Past, home: Path) -> Iterator[Moved]:
    store, copy = home / "store", home / "copy"
    url = f"file://{store}"
    arguments = ["import", "kafka", past.left.folder, "--storage", url]
    assert lakelog("init", url).rc == 0
    with running_lakelog(url) as broker:
        dry = lakelog(*arguments, "--dry-run")
        listed_dry = lakelog("topic", "list", "--json", "--storage", url).stdout
        # Tasks of one segment each, and few in a wave: so that there is a middle.
        command = [sys.executable, "-m", "lakelog", *map(str, arguments), "--task-bytes", "1"]
        killed = Process(command, home / "killed.log", quick_environment())
        killed.wait_until(lambda: len(segments_in(store)) > 2, within_s=300)
        killed.stop(grace_s=0)
        half, closed = segments_in(store), topics_in(url)
        shown, refused = shown_by(broker.bootstrap), refusal(broker.bootstrap, "mixed")
        done = lakelog(*arguments)
        opened = topics_in(url)
        shown_then = shown_by(broker.bootstrap)
        broker.stop()
        shutil.copytree(store, copy)
        broker.start()
        yield Moved(
            broker,
            store,
            copy,
            dry,
            listed_dry,
            half,
            closed,
            shown,
            refused,
            done,
            opened,
            shown_then,
        )


# ---------------------------------------------------------------------------- the import itself


def test_a_dry_run_tells_what_it_takes_and_makes_nothing(moved: Moved) -> None:
    assert moved.dry.rc == 0, moved.dry.stderr
    assert "a dry run" in moved.dry.stdout
    assert moved.listed_dry == ""


def test_a_run_that_was_killed_is_completed_by_the_next(moved: Moved) -> None:
    assert moved.done.rc == 0, moved.done.stdout + moved.done.stderr
    assert 2 < len(moved.half) < len(segments_in(moved.copy))
    assert set(moved.half) <= set(segments_in(moved.copy))
    assert [one["topic"] for one in moved.opened] == sorted(TOPICS)
    assert not any(one["closed"] for one in moved.opened)


def test_nobody_sees_a_topic_or_makes_another_of_its_name_before_its_import_has_ended(
    moved: Moved,
) -> None:
    assert [one["topic"] for one in moved.closed] == sorted(TOPICS)
    assert all(one["closed"] for one in moved.closed)
    assert moved.shown == set()
    assert moved.refused is not None
    ids = [(one["topic"], one["id"]) for one in moved.closed]
    assert [(one["topic"], one["id"]) for one in moved.opened] == ids
    assert moved.shown_then == set(TOPICS)


# ---------------------------------------------------------------------------- consumers, producers


@pytest.mark.parametrize("topic", TOPICS)
def test_consumers_are_given_what_kafka_gave_them(moved: Moved, past: Past, topic: str) -> None:
    (found,) = consume(moved.broker.bootstrap, [topic]).values()
    there = bounds_of(moved.broker.bootstrap, [topic])
    # Another test goes on where Kafka ended; what lies before must not change.
    ends = {partition: past.left.bounds[topic, partition][1] for _, partition in there}
    found = [row for row in found if row[1] < ends[row[0]]]
    assert difference(found, past.left.seen[topic]) is None
    assert {place: low for place, (low, _) in there.items()} == {
        place: past.left.bounds[place][0] for place in there
    }


def test_the_topics_are_what_they_were_made_to_be(past: Past) -> None:
    seen, bounds = past.left.seen, past.left.bounds
    values = [row[5] or b"" for row in seen["mixed"]]
    assert all(any(value.startswith(codec.encode()) for value in values) for codec in CODECS)
    assert {row[3] for row in seen["mixed"]} == {0, 1}
    assert {None, b""} < {row[4] for row in seen["mixed"]}
    assert {None, b""} < {row[5] for row in seen["mixed"]}
    assert len(seen["compacted"]) < bounds["compacted", 0][1] / 2
    assert bounds["cut", 0] == (333, 900)
    assert bounds["emptied", 0] == (900, 900)
    assert 0 < bounds["expired", 0][0] < 900
    assert {bounds["nothing", 0], bounds["nothing", 1]} == {(0, 0)}
    folder = past.left.folder / "txn-0"
    assert len(list(folder.glob("*.txnindex"))) > 1
    assert {row[0] for row in seen["txn"]} == {0, 1}


def test_kafkas_own_consumer_is_given_what_was_committed(moved: Moved, past: Past) -> None:
    for isolation in ("read_committed", "read_uncommitted"):
        found = java_rows(read_all(moved.broker, "txn", isolation))
        # Another test goes on where Kafka ended.
        found = [row for row in found if row[1] < past.left.bounds["txn", row[0]][1]]
        assert difference(found, past.java) is None


def test_times_are_found_where_kafka_found_them(moved: Moved, past: Past) -> None:
    found = offsets_by_time(moved.broker.bootstrap)
    # Where Kafka has nothing, another test may have produced.
    assert (
        found | {at: -1 for at, offset in past.left.times.items() if offset < 0} == past.left.times
    )


def test_a_group_goes_on_where_it_was(moved: Moved, past: Past) -> None:
    bootstrap = moved.broker.bootstrap
    commit(bootstrap)
    consumer, first = group_of(bootstrap), dict[int, int]()
    consumer.subscribe(["mixed"])
    deadline = time.monotonic() + 60
    while len(first) < PARTITIONS["mixed"]:
        in_time(time.monotonic() < deadline, f"the group has {first}")
        for message in consumer.consume(500, timeout=0.2):
            assert message.error() is None
            first.setdefault(message.partition() or 0, message.offset() or 0)
    consumer.close()
    assert first == {partition: offset for (_, partition), offset in COME_TO.items()}


@pytest.mark.parametrize("topic", ["cut", "emptied", "expired", "nothing", "txn"])
def test_producing_goes_on_at_the_end(moved: Moved, past: Past, topic: str) -> None:
    told: dict[int, int] = {}
    producer = Producer({"bootstrap.servers": moved.broker.bootstrap, "log_level": 0})
    for partition in range(PARTITIONS[topic]):
        producer.produce(
            topic,
            b"the next one",
            partition=partition,
            on_delivery=lambda error, message: told.update(
                {message.partition(): -1 if error else message.offset()}
            ),
        )
    in_time(producer.flush(30) == 0, "some are not acknowledged")
    assert told == {
        partition: past.left.bounds[topic, partition][1] for partition in range(PARTITIONS[topic])
    }


def test_a_query_of_kafka_goes_on_with_its_checkpoint(
    moved: Moved, past: Past, spark: SparkSession
) -> None:
    run_query(spark, "lakelog", {"path": str(moved.store)}, past.query)
    schema = "partition int, offset bigint, value string"
    found = spark.read.schema(schema).json(str(past.query / "rows")).collect()
    rows = sorted((row.partition, row.offset, row.value) for row in found)
    assert rows == sorted((i % 2, i // 2, str(i)) for i in range(ALL))


# ---------------------------------------------------------------------------- the proof


def compared(folder: Path, store: Path, *topics: str) -> Report:
    job = compare_job(
        str(folder),
        host=THIS_HOST,
        layout="kafka",
        against=str(store),
        against_layout="lakelog",
        topics=topics,
    )
    return run_here(job)


def test_verify_finds_every_record_and_a_byte_that_is_wrong(moved: Moved, past: Past) -> None:
    arguments = ["pipeline", "verify", past.left.folder, "--layout", "kafka", "--against",
                 f"file://{moved.copy}", "--against-layout", "lakelog", "--json"]  # fmt: skip
    good = lakelog(*arguments, *(word for topic in UNABORTED for word in ("--topic", topic)))
    assert good.rc == 0, good.stdout + good.stderr
    assert json.loads(good.stdout)["records"] == sum(
        len(past.left.seen[topic]) for topic in UNABORTED
    )
    segments = [path for path in moved.copy.rglob("*.kfs") if "cut" in path.parts]
    (path,) = [path for path in segments if MARKED in path.read_bytes()]
    whole = path.read_bytes()
    at = whole.index(MARKED)
    path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    bad = lakelog(*arguments, "--topic", "cut")
    path.write_bytes(whole)
    assert bad.rc == 1, bad.stdout + bad.stderr
    assert compared(past.left.folder, moved.copy, "cut").is_good


def test_what_was_aborted_is_all_that_is_not_there(moved: Moved, past: Past) -> None:
    report = compared(past.left.folder, moved.copy, "txn")
    found = report.findings(10_000)
    assert found
    assert all(one.what.endswith("missing there") for one in found)
    assert report.records <= len(past.left.seen["txn"])


def test_what_was_brought_while_kafka_ran_is_completed_when_it_has_stopped(past: Past) -> None:
    assert all(one["closed"] for one in topics_in(f"file://{past.early}"))
    rest = run_here(import_job([str(past.left.folder)], host=THIS_HOST, storage=str(past.early)))
    assert rest.is_good, rest.findings(5)
    assert rest.records == ALL - HALF
    compare = compared(past.left.folder, past.early, *UNABORTED)
    assert compare.is_good, compare.findings(5)


# ---------------------------------------------------------------------------- several brokers


@pytest.fixture
def brokers(past: Past, tmp_path: Path) -> tuple[Path, Path]:
    """The directories of two brokers, each with some partitions of ``mixed``, and both with one."""
    folders = tmp_path / "broker-1", tmp_path / "broker-2"
    for folder, partitions in zip(folders, ((0, 2), (1, 2)), strict=True):
        for number in partitions:
            name = f"mixed-{number}"
            shutil.copytree(past.left.folder / name, folder / name)
    return folders


def bounds_in(spark: SparkSession, store: Path, topic: str) -> list[tuple[int, int, int]]:
    reader = spark.read.format("lakelog").option("path", str(store)).option("subscribe", topic)
    rows = reader.option("table", "partitions").load().collect()
    return sorted((row.partition, row.log_start_offset, row.end_offset) for row in rows)


def test_the_directories_of_several_brokers_are_one_log(
    past: Past, brokers: tuple[Path, Path], tmp_path: Path
) -> None:
    store = make(tmp_path / "store")
    report = run_here(import_job([str(one) for one in brokers], host=THIS_HOST, storage=str(store)))
    assert report.is_good, report.findings(5)
    compare = compared(past.left.folder, store, "mixed")
    assert compare.is_good, compare.findings(5)
    assert compare.records == len(past.left.seen["mixed"])


def test_partitions_that_are_missing_are_refused_or_empty(
    past: Past, brokers: tuple[Path, Path], tmp_path: Path, spark: SparkSession
) -> None:
    store = make(tmp_path / "store")
    arguments = ["import", "kafka", brokers[0], "--storage", f"file://{store}"]
    refused = lakelog(*arguments)
    assert refused.rc == 2
    assert "mixed has no directory for 1 of its 3 partitions (1)" in refused.stderr
    assert topics_in(f"file://{store}") == []
    job = import_job([str(brokers[0])], host=THIS_HOST, storage=str(store), partial=True)
    assert run_here(job).is_good
    ends = [past.left.bounds["mixed", number][1] for number in (0, 2)]
    assert bounds_in(spark, store, "mixed") == [(0, 0, ends[0]), (1, 0, 0), (2, 0, ends[1])]
