"""Kafka and lakelog read each other's files, and see the same records in them.

One Kafka lives through the whole story, see `oracle/story.py`. The tests ask what is true then.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from random import Random  # noqa: TID251 (seeded)

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition

from lakelog.formats.batches import BatchSegment, frames
from lakelog.formats.contract import Block, Files, run, walk_blocks
from lakelog.formats.kafkalog import (
    FORMAT,
    LEADER_EPOCHS_NAME,
    METADATA_NAME,
    EpochStart,
    ProducerState,
    decode_leader_epochs,
    decode_metadata,
    decode_snapshot,
    decode_txn_index,
    encode_indexes,
)
from lakelog.model import Record
from lakelog.records import BatchHeader, Codec, decode_batches
from tests.e2e.oracle.judge import draw_case, judge
from tests.e2e.oracle.reading import Partition, Row, difference, java_rows
from tests.e2e.oracle.story import RECORDS, SEED, WRITTEN, Story
from tests.e2e.oracle.workload import (
    COMPACTED,
    PARTITIONS,
    TRAFFIC,
    Traffic,
)
from tests.kafka_files import (
    encode_leader_epochs,
    encode_metadata,
    encode_txn_index,
    fold_producers,
)
from tests.parts.kafka import Kafka, read_all, tool
from tests.patience import in_time
from tests.plain_encoders import encode_kafka_log
from tests.segments import buffers

GOLDEN = Path(__file__).parents[1] / "golden" / "kafkalog" / "cars-0"

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300 + RECORDS // 1000)]

# ---------------------------------------------------------------------------- Kafka wrote


@pytest.mark.parametrize("traffic", [*TRAFFIC, COMPACTED], ids=lambda t: t.topic)
def test_lakelog_reads_what_the_java_consumer_reads(story: Story, traffic: Traffic) -> None:
    seen = java_rows(read_all(story.kafka, traffic.topic))
    if traffic is not COMPACTED:
        assert len(seen) == RECORDS // len(TRAFFIC)
    for copy in (story.running, story.stopped):
        partitions = story.partitions(copy, traffic)
        assert difference([row for p in partitions for row in p.rows()], seen) is None
        assert difference([row for p in partitions for row in p.compiled_rows()], seen) is None


def test_a_copy_taken_while_producers_write_is_a_beginning_of_the_log(story: Story) -> None:
    for traffic in TRAFFIC:
        whole = story.partitions(story.stopped, traffic)
        for part, all_of_it in zip(story.partitions(story.live, traffic), whole, strict=True):
            begun = part.rows()
            assert len(begun) > 0
            assert difference(begun, all_of_it.compiled_rows()[: len(begun)]) is None


def test_every_batch_is_stored_with_the_codec_of_its_producer(story: Story) -> None:
    for traffic in TRAFFIC:
        # librdkafka leaves a batch as it is when compression would make it larger.
        stored = [header for header in _headers(story, traffic) if header.count > 3]
        assert {header.codec for header in stored} == {traffic.codec}
        assert sum(header.count for header in stored) > 0.99 * RECORDS // len(TRAFFIC)
    rewritten = _headers(story, COMPACTED)
    assert {header.codec for header in rewritten} == set(Codec)
    assert any(0 < header.count <= header.last_offset_delta for header in rewritten)
    assert any(header.count == 0 for header in rewritten), "no batch was emptied"
    assert any(header.delete_horizon is not None for header in rewritten), "no tombstones"


def _headers(story: Story, traffic: Traffic) -> list[BatchHeader]:
    return [
        frame.header
        for partition in story.partitions(story.stopped, traffic)
        for files in partition.plan().segments
        for frame in partition.frames(files)
    ]


@pytest.mark.parametrize("traffic", [*TRAFFIC, COMPACTED], ids=lambda t: t.topic)
def test_indexes_made_by_lakelog_are_byte_for_byte_those_of_kafka(
    story: Story, traffic: Traffic
) -> None:
    compared = 0
    for copy in (story.running, story.stopped):
        for partition in story.partitions(copy, traffic):
            for files in partition.plan().segments:
                if files.active:
                    continue  # Its indexes are not done yet.
                indexes = encode_indexes(
                    partition.frames(files),
                    base_offset=files.base_offset,
                    interval_bytes=traffic.interval_bytes,
                )
                kafkas = [partition.data(files, suffix) for suffix in (".index", ".timeindex")]
                assert list(indexes) == kafkas, (copy.name, partition.folder.name, files)
                compared += 1
    assert compared >= 5 * PARTITIONS


@pytest.mark.parametrize("traffic", [*TRAFFIC, COMPACTED], ids=lambda t: t.topic)
def test_lakelog_remembers_of_producers_and_transactions_what_kafka_does(
    story: Story, traffic: Traffic
) -> None:
    for partition in story.partitions(story.stopped, traffic):
        plan = partition.plan()
        remembered = {number: _snapshot(partition, number) for number in plan.snapshots}
        states: dict[int, ProducerState] = {}
        for files in plan.segments:
            # Compaction takes batches away that earlier snapshots speak of.
            if files.base_offset in remembered and traffic is not COMPACTED:
                assert states == remembered[files.base_offset]
            states, aborted = fold_producers(partition.batches(files), states.values())
            has_index = ".txnindex" in files.sizes
            kafkas = partition.data(files, ".txnindex") if has_index else b""
            assert encode_txn_index(aborted) == kafkas
        end = partition.frames(plan.segments[-1])[-1].header.next_offset
        assert states == remembered[end]
        assert bool(states) == (traffic.idempotent or traffic.transactional)


def _snapshot(partition: Partition, next_offset: int) -> dict[int, ProducerState]:
    data = (partition.folder / f"{next_offset:020}.snapshot").read_bytes()
    return {s.producer_id: s for s in decode_snapshot(data, next_offset=next_offset)}


def test_without_what_the_transaction_index_lists_only_committed_records_are_left(
    story: Story,
) -> None:
    (traffic,) = (traffic for traffic in TRAFFIC if traffic.transactional)
    committed: list[Row] = []
    for partition in story.partitions(story.running, traffic):
        aborted = [
            (entry.producer_id, range(entry.first_offset, entry.last_offset))
            for files in partition.plan().segments
            if ".txnindex" in files.sizes
            for entry in decode_txn_index(
                partition.data(files, ".txnindex"), base_offset=files.base_offset
            )
        ]
        gone = {
            record.offset
            for files in partition.plan().segments
            for header, held in partition.blocks(files)
            if header.is_transactional
            and any(header.producer_id == p and header.base_offset in r for p, r in aborted)
            for record in held
        }
        assert gone
        committed += (row for row in partition.rows() if row[1] not in gone)
    seen = java_rows(read_all(story.kafka, traffic.topic, isolation="read_committed"))
    assert difference(committed, seen) is None


def test_leader_epochs_and_topic_ids_are_read_and_written_as_kafka_does(story: Story) -> None:
    for traffic in (*TRAFFIC, COMPACTED):
        topic_ids = set()
        for partition in story.partitions(story.stopped, traffic):
            epochs = (partition.folder / LEADER_EPOCHS_NAME).read_bytes()
            assert decode_leader_epochs(epochs) == (EpochStart(0, 0),)
            assert encode_leader_epochs([EpochStart(0, 0)]) == epochs
            metadata = (partition.folder / METADATA_NAME).read_bytes()
            topic_ids.add(decode_metadata(metadata))
            assert encode_metadata(decode_metadata(metadata)) == metadata
        assert len(topic_ids) == 1


@pytest.mark.parametrize("traffic", [*TRAFFIC, COMPACTED], ids=lambda t: t.topic)
def test_lookups_by_offset_and_time_find_what_a_filter_and_the_broker_find(
    story: Story, traffic: Traffic
) -> None:
    rng = Random(SEED)
    for partition in story.partitions(story.running, traffic):
        segments = [
            Looked(
                files, partition.open(files), [r for _, rs in partition.blocks(files) for r in rs]
            )
            for files in partition.plan().segments
        ]
        held = [record for segment in segments for record in segment.records]
        for segment in segments:
            for offset in (
                record.offset
                for record in rng.sample(segment.records, min(2, len(segment.records)))
            ):
                found = run(segment.opened.read_from(offset, 5), partition.give(segment.files))
                assert list(found) == [r for r in segment.records if r.offset >= offset][:5]
        times = [record.timestamp for record in rng.choices(held, k=12)]
        times += [time + 1 for time in times] + [1, max(r.timestamp for r in held) + 1]
        by_filter = [next((r.offset for r in held if r.timestamp >= t), None) for t in times]
        assert [_offset_at(partition, segments, time) for time in times] == by_filter
        # In place of the times of a segment that compaction has emptied, Kafka takes the time of
        # the file. It then looks for every later record in there, and finds none.
        if all(segment.records for segment in segments):
            kafkas = _broker_offsets(story.kafka, traffic.topic, partition.number, times)
            assert kafkas == by_filter


@dataclass(frozen=True, slots=True)
class Looked:
    """A segment as it is looked up in, and all that is in it."""

    files: Files
    opened: BatchSegment
    records: list[Record]


def _offset_at(partition: Partition, segments: list[Looked], timestamp: int) -> int | None:
    for segment in segments:
        found = run(segment.opened.offset_at(timestamp), partition.give(segment.files))
        if found is not None:
            return found
    return None


def _broker_offsets(kafka: Kafka, topic: str, partition: int, times: list[int]) -> list[int | None]:
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": "t", "log_level": 0})
    try:
        answers = [
            consumer.offsets_for_times([TopicPartition(topic, partition, t)], 30)[0] for t in times
        ]
    finally:
        consumer.close()
    return [None if answer.offset < 0 else answer.offset for answer in answers]


# ---------------------------------------------------------------------------- lakelog wrote


def test_kafka_serves_and_continues_what_lakelog_wrote(story: Story) -> None:
    # It took the files as they are: no repair, and producers from lakelog's own snapshot.
    said = [line for line in story.loading.splitlines() if WRITTEN in line]
    for replaced in story.replaced:
        newest = max(replaced.folder.glob("*.snapshot"))
        loaded = f"{replaced.folder.name}/{newest.name}"
        assert any("Loading producer state from" in line and loaded in line for line in said), said
    assert "ERROR" not in story.loading
    assert [line for line in said if re.search("WARN|orrupt|index file|ecovering", line)] == []

    # Both clients read all of it.
    expected = [row for replaced in story.replaced for row in replaced.rows]
    assert difference(java_rows(read_all(story.kafka, WRITTEN)), expected) is None
    assert difference(_librdkafka_rows(story.kafka, WRITTEN, partitions=2), expected) is None

    # A producer that was idempotent before goes on, and nobody has been forgotten.
    more = [f"{number:03}".encode() * 80 for number in range(400)]
    for value in more:
        story.continuing.produce(WRITTEN, value, partition=0)
    in_time(story.continuing.flush(60) == 0, "some are not acknowledged")
    partition = Partition(story.kafka.partition_dir(WRITTEN, 0), active=True)
    plan = partition.plan()
    end = story.replaced[0].rows[-1][1] + 1
    assert plan.segments[-1].base_offset > end, "Kafka has begun a segment, and made a snapshot"
    states: dict[int, ProducerState] = {}
    for files in plan.segments[:-1]:
        states, _ = fold_producers(partition.batches(files), states.values())
    assert len(states) == 4
    assert states == _snapshot(partition, plan.segments[-1].base_offset)
    behind = partition.rows()[len(story.replaced[0].rows) :]
    assert [row[5] for row in behind] == more


def _librdkafka_rows(kafka: Kafka, topic: str, partitions: int) -> list[Row]:
    settings = {
        "bootstrap.servers": kafka.bootstrap,
        "group.id": "oracle",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "check.crcs": True,
    }
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    rows: list[Row] = []
    ended = 0
    try:
        while ended < partitions:
            message = consumer.poll(30)
            assert message is not None, f"{len(rows)} records, then silence"
            if message.error() is None:
                kind, timestamp = message.timestamp()
                headers = tuple(message.headers() or ())
                place = (message.partition(), message.offset(), timestamp, kind - 1)
                rows.append((*place, message.key(), message.value(), headers))
            else:
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                ended += 1
    finally:
        consumer.close()
    return sorted(rows, key=lambda row: row[0])


def test_kafkas_own_tools_find_nothing_wrong_with_what_lakelog_wrote(story: Story) -> None:
    named = [
        replaced.folder / f"{base:020}" for replaced in story.replaced for base in replaced.bases
    ]
    logs = [path.with_suffix(".log") for path in named]
    indexes = [path.with_suffix(suffix) for path in named for suffix in (".index", ".timeindex")]
    snapshots = [path for r in story.replaced for path in sorted(r.folder.glob("*.snapshot"))]

    options = ("--deep-iteration", "--verify-index-only")
    found, odd = _dump(*options, files=[*logs, *indexes, *snapshots])
    batches = [line for line in found.splitlines() if line.startswith("baseOffset:")]
    written = [frame.header for path in logs for frame in frames(path.read_bytes())]
    assert len(batches) == len(written)
    assert all(line.endswith("isvalid: true") for line in batches)
    assert found.count("| offset: ") == sum(header.count for header in written)
    producers = re.findall(r"^producerId: (\d+) .* lastOffset: (\d+)", found, re.MULTILINE)
    assert producers == [pair for path in snapshots for pair in _producers(path)]

    # It mentions offsets that are missing, also before a file: just those, and nothing else.
    gap = re.compile(r" +(-?\d+) is followed by (\d+)")
    lines = [line for line in odd.splitlines() if not line.startswith("Non-consecutive offsets")]
    assert [line for line in lines if gap.fullmatch(line) is None] == []
    missed = [match.groups() for line in lines if (match := gap.fullmatch(line)) is not None]
    assert sorted(missed) == sorted(pair for path in logs for pair in _gaps(path))

    sane, _ = _dump("--index-sanity-check", files=indexes)
    judged = re.findall(r"([^ \n]+) (?:passed sanity check|is empty)", sane)
    assert judged == [str(path) for path in indexes]


def _producers(snapshot: Path) -> Iterator[tuple[str, str]]:
    for state in decode_snapshot(snapshot.read_bytes(), next_offset=int(snapshot.stem)):
        yield f"{state.producer_id}", f"{state.last_offset}"


def _gaps(log: Path) -> Iterator[tuple[str, str]]:
    offsets = [r.offset for batch in decode_batches(log.read_bytes()) for r in batch.records]
    for offset, following in pairwise([-1, *offsets]):
        if following != offset + 1:
            yield f"{offset}", f"{following}"


def _dump(*options: str, files: list[Path]) -> tuple[str, str]:
    """Return what Kafka's dump tool prints: what it found, and what it finds odd."""
    done = tool("kafka-dump-log", *options, "--files", ",".join(map(str, files)))
    assert done.rc == 0, done.stderr
    return done.stdout, done.stderr


# ---------------------------------------------------------------------------- the rest


def test_the_batches_of_an_old_printed_dump_are_printed_just_so() -> None:
    printed, odd = _dump("--deep-iteration", files=[GOLDEN / f"{0:020}.log"])
    assert odd == ""
    batches = [line for line in printed.splitlines() if line.startswith("baseOffset:")]
    assert len(batches) == 5
    assert all("size: 173" in line and line.endswith("isvalid: true") for line in batches)
    assert "crc: 386807681 " in batches[0]
    assert "crc: 3347769538 " in batches[-1]


def test_kafkas_storage_classes_write_and_repair_segments_as_lakelog_does(tmp_path: Path) -> None:
    cases = [draw_case(Random(SEED + n), transactions=n % 2 == 1) for n in range(40)]
    for number, (case, folder) in enumerate(zip(cases, judge(cases, tmp_path), strict=True)):
        stem = f"{case.base_offset:020}"
        interval = {"base_offset": case.base_offset, "interval_bytes": case.interval_bytes}
        for made, data in (("appended", case.run), ("recovered", case.whole)):
            for suffix, ours in encode_kafka_log(data, **interval).items():
                kafkas = (folder / made / f"{stem}{suffix}").read_bytes()
                assert ours == kafkas, f"seed {SEED + number}: {made} {suffix}"

        # A batch that is cut ends the log, for Kafka as for lakelog.
        torn = {".log": case.run[: case.cut]}
        files = Files(base_offset=case.base_offset, sizes={".log": case.cut}, active=True)
        found = list(walk_blocks(FORMAT.walk(files), buffers(torn)))
        assert all(isinstance(block, Block) for block in found)
        assert sum(block.size for block in found) == len(case.whole)

        states, aborted = fold_producers(decode_batches(case.whole))
        end = [*frames(case.whole)][-1].header.next_offset
        snapshot = Partition(folder / "recovered", active=False)
        assert _snapshot(snapshot, end) == states, f"seed {SEED + number}"
        index = folder / "recovered" / f"{stem}.txnindex"
        assert (index.read_bytes() if index.exists() else b"") == encode_txn_index(aborted)
