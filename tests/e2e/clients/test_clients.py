"""What seven Kafka clients saw is what is stored, and what Kafka would have shown them."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition

from lakelog.model import Record
from lakelog.records import Batch
from tests.e2e.clients.clusters import Cluster
from tests.e2e.clients.plan import PARTITIONS, WHEN
from tests.e2e.clients.programs import CODECS, PROGRAMS
from tests.e2e.clients.telling import Told

EVERY = list(range(PARTITIONS))


def text(record: Record) -> str:
    assert record.value is not None
    return bytes(record.value).decode()


def label(record: Record) -> str:
    return text(record).split(" ", 1)[0]


def records(log: list[list[Batch]]) -> Iterator[tuple[int, Batch, Record]]:
    for partition, batches in enumerate(log):
        for batch in batches:
            for record in batch.records:
                yield partition, batch, record


def places(log: list[list[Batch]]) -> dict[tuple[int, int], str]:
    return {(partition, record.offset): text(record) for partition, _, record in records(log)}


def committed(cluster: Cluster, group: str, topic: str) -> list[int]:
    """The offsets of a group, as somebody else is told who is no member of it."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})
    try:
        where = [TopicPartition(topic, partition) for partition in EVERY]
        return [found.offset for found in consumer.committed(where, timeout=30)]
    finally:
        consumer.close()


def test_a_client_comes_to_the_end_of_its_stories(told: Told) -> None:
    assert told.end == ""
    assert told.one("done")


def test_topics_have_the_partitions_they_were_created_with(told: Told) -> None:
    names = [told.plan.topic(name) for name in ("codecs", "group", "times")]
    assert told.one("created")["topics"] == dict.fromkeys(names, PARTITIONS)


@pytest.mark.parametrize("codec", CODECS)
def test_batches_are_stored_in_the_codec_they_were_produced_with(
    cluster: Cluster, told: Told, codec: str
) -> None:
    told.one("produced", label=codec)
    log = cluster.stored(told.plan.topic("codecs"))
    found = [(batch, record) for _, batch, record in records(log) if label(record) == codec]
    assert {batch.header.codec.name.lower() for batch, _ in found} == {codec}
    expected = [told.plan.value(codec, number) for number in range(told.plan.records)]
    assert sorted(text(record) for _, record in found) == sorted(expected)


def test_acknowledged_records_are_where_the_client_was_told(cluster: Cluster, told: Told) -> None:
    stored = places(cluster.stored(told.plan.topic("codecs")))
    assert len(stored) == told.plan.all_records
    for name in told.plan.labels:
        for number, partition, offset in told.one("produced", label=name)["acked"] or []:
            assert stored[partition, offset] == told.plan.value(name, number)


def test_offsets_have_no_gaps(cluster: Cluster, told: Told) -> None:
    told.one("times")
    for name in ("codecs", "group", "times"):
        for batches in cluster.stored(told.plan.topic(name)):
            assert batches
            offsets = [record.offset for batch in batches for record in batch.records]
            assert offsets == list(range(len(offsets)))


def test_idempotent_batches_carry_a_producer_and_sequences_without_gaps(
    cluster: Cluster, told: Told, client: str
) -> None:
    told.one("produced", label="idempotent")
    program = PROGRAMS[client]
    producers: set[int] = set()
    for batches in cluster.stored(told.plan.topic("codecs")):
        sequence = 0
        for batch in batches:
            if label(batch.records[0]) == "idempotent":
                assert batch.header.codec.name.lower() == program.default_codec
                assert batch.header.producer_epoch == 0
                assert batch.header.base_sequence == sequence
                sequence += len(batch.records)
                producers.add(batch.header.producer_id)
            elif not program.always_idempotent:
                assert batch.header.producer_id == -1
    (producer,) = producers
    assert producer >= 0


@pytest.mark.parametrize("when", WHEN)
def test_every_partition_has_one_owner_and_every_member_a_partition(told: Told, when: str) -> None:
    owned = told.one("owned", when=when)["owned"]
    members = {WHEN[0]: ["a", "b", "c"], WHEN[1]: ["a", "b"], WHEN[2]: ["a", "b", "d"]}
    assert sorted(owned) == members[when]
    assert all(owned.values())
    assert sorted(partition for some in owned.values() for partition in some) == EVERY


def test_a_group_sees_every_record_once_though_a_member_leaves_and_another_joins(
    cluster: Cluster, told: Told
) -> None:
    plan = told.plan
    seen = told.one("seen")["records"]
    stored = places(cluster.stored(plan.topic("group")))
    assert len(stored) == len(WHEN) * PARTITIONS * plan.wave
    assert sorted((partition, offset, value) for _, partition, offset, value in seen) == sorted(
        (*place, value) for place, value in stored.items()
    )
    for name in "abcd":
        mine: dict[int, list[int]] = {partition: [] for partition in EVERY}
        for member, partition, offset, _ in seen:
            if member == name:
                mine[partition].append(offset)
        assert all(offsets == sorted(offsets) for offsets in mine.values()), "out of order"


def test_a_wave_is_seen_by_those_who_own_its_partitions(told: Told) -> None:
    for number, when in enumerate(WHEN):
        owned = told.one("owned", when=when)["owned"]
        owner = {partition: name for name, some in owned.items() for partition in some}
        for member, partition, _, value in told.one("seen")["records"]:
            if value.startswith(f"wave{number} "):
                assert member == owner[partition]


def test_what_a_group_committed_is_told_to_others(cluster: Cluster, told: Told) -> None:
    told.one("seen")
    topic = told.plan.topic("group")
    assert committed(cluster, topic, topic) == [len(WHEN) * told.plan.wave] * PARTITIONS


def test_a_new_consumer_goes_on_behind_the_commit(
    cluster: Cluster, told: Told, client: str
) -> None:
    line = told.one("resumed")
    stored = places(cluster.stored(told.plan.topic("codecs")))
    both = [(partition, offset, value) for partition, offset, value in line["first"] + line["then"]]
    assert len(line["first"]) == told.plan.all_records // 2
    assert sorted(both) == sorted((*place, value) for place, value in stored.items())

    read = both if PROGRAMS[client].commits_all else both[: len(line["first"])]
    ends = {partition: offset + 1 for partition, offset, _ in sorted(read)}
    nothing = -1001
    assert committed(cluster, told.plan.topic("resume"), told.plan.topic("codecs")) == [
        ends.get(partition, nothing) for partition in EVERY
    ]


def test_a_time_leads_to_the_first_record_that_is_not_older(
    cluster: Cluster, told: Told, client: str
) -> None:
    line, target = told.one("times"), told.plan.target_ms
    expected: dict[str, int | None] = {}
    read: dict[str, list[int]] = {}
    for partition, batches in enumerate(cluster.stored(told.plan.topic("times"))):
        all_of_it = [record for batch in batches for record in batch.records]
        young = [record for record in all_of_it if record.timestamp >= target]
        none = len(all_of_it) if PROGRAMS[client].end_for_none else None
        expected[str(partition)] = young[0].offset if young else none
        if young:
            read[str(partition)] = [young[0].offset, young[0].timestamp]
    assert list(read) == ["0", "1"], "the story is told wrong"
    assert line["offsets"] == expected
    assert line["read"] == read


def test_records_keep_the_timestamps_they_were_sent_with(cluster: Cluster, told: Told) -> None:
    told.one("times")
    log = cluster.stored(told.plan.topic("times"))
    sent = [[time for at, time in told.plan.times if at == partition] for partition in EVERY]
    assert [
        [record.timestamp for batch in batches for record in batch.records] for batches in log
    ] == sent
