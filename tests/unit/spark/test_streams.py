"""A stream of a namespace: what it costs, where it stops, and what it says of losses."""

from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows

from lakelog.catalog import Topic, create_topic, delete_topic
from lakelog.errors import InvalidInputError, NotFoundError
from lakelog.journal import DeleteTopic, append
from lakelog.spark.live import ReadPartition
from lakelog.spark.options import parse_options
from lakelog.spark.streams import LiveStreamReader
from tests.unit.log.site import GRACE_MS, Site, counting
from tests.unit.log.test_located import rows_of

ALL = ReadAllAvailable()


class Clock:
    """Time that a test moves."""

    def __init__(self) -> None:
        self.ms = 0

    def now_ms(self) -> int:
        return self.ms

    def boot_ms(self) -> int:
        return self.ms


@pytest.fixture
def site() -> Site:
    return Site()


@pytest.fixture
def topic(site: Site) -> Topic:
    return site.topic(partitions=2)


def stream(
    site: Site, perform: Any = None, clock: Clock | None = None, **options: str
) -> LiveStreamReader:
    given = {"path": "memory:", "startingOffsets": "earliest", **options}
    if not {"subscribePattern", "assign"} & set(options):
        given.setdefault("subscribe", "orders")
    parsed = parse_options(given, query="stream")
    return LiveStreamReader(
        parsed, ("partition", "offset"), clock=clock, perform=perform or site.perform
    )


def offsets_of(site: Site, reader: LiveStreamReader, start: Any, end: Any) -> list[tuple[int, int]]:
    shares = [p.task for p in reader.partitions(start, end) if isinstance(p, ReadPartition)]
    return sorted((row[0], row[1]) for row in rows_of(site, shares))


def created_again(site: Site, old: Topic, partitions: int = 2) -> Topic:
    site.run(append(site.lane(), [DeleteTopic(topic=old.id)]))
    site.run(delete_topic(old.name, old.id, site.id(), now_ms=site.now_ms))
    return site.run(
        create_topic(
            old.name, topic_id=site.id(), partitions=partitions, lanes=1, now_ms=site.now_ms
        )
    )


# ---------------------------------------------------------------------------- triggers


def test_every_record_comes_once_over_triggers(site: Site, topic: Topic) -> None:
    lane, reader = site.lane(), stream(site)
    start = reader.initialOffset()
    assert start == {"orders": {"0": 0, "1": 0}}
    seen: list[tuple[int, int]] = []
    for step in range(5):
        site.fill(lane, topic.path_of(0), 2)
        site.fill(lane, topic.path_of(1), 1, count=3)
        if step == 2:
            site.seal()
        end = reader.latestOffset(start, ALL)
        seen += offsets_of(site, reader, start, end)
        start = end
    assert start == {"orders": {"0": 20, "1": 15}}
    assert sorted(seen) == [(0, at) for at in range(20)] + [(1, at) for at in range(15)]


def test_a_trigger_with_nothing_new_takes_two_requests_for_a_lane(site: Site, topic: Topic) -> None:
    site.fill(site.lane(), topic.path_of(0), 9)
    seen, perform = counting(site)
    reader = stream(site, perform)
    start = reader.latestOffset(reader.initialOffset(), ALL)
    for _ in range(3):
        del seen[:]
        assert reader.latestOffset(start, ALL) is start, "the same text, so that Spark sees no news"
        assert reader.reportLatestOffset() == start
        assert len(seen) <= 2


def test_many_topics_take_one_listing(site: Site, topic: Topic) -> None:
    site.topic("others")
    seen, perform = counting(site)
    reader = stream(site, perform, subscribePattern="o.*")
    start = reader.initialOffset()
    assert sorted(start) == ["orders", "others"]
    del seen[:]
    reader.latestOffset(start, ALL)
    assert len(seen) == 2


def test_a_stream_begins_at_the_end_unless_told_otherwise(site: Site, topic: Topic) -> None:
    site.fill(site.lane(), topic.path_of(0), 3)
    assert stream(site, startingOffsets="latest").initialOffset() == {"orders": {"0": 6, "1": 0}}
    named = '{"orders": {"0": 2, "1": -1}}'
    assert stream(site, startingOffsets=named).initialOffset() == {"orders": {"0": 2, "1": 0}}
    with pytest.raises(InvalidInputError, match="Assigned: orders-0, orders-1"):
        stream(site, startingOffsets='{"orders": {"0": 2}}').initialOffset()


def test_a_stream_begins_at_a_time_in_history_or_journal(site: Site, topic: Topic) -> None:
    lane, first_ms = site.lane(), site.now_ms
    for _ in range(2):
        for _ in range(4):
            site.pass_ms(1000)
            site.append(lane, topic.path_of(0), site.batch(2))
        site.seal()
    site.pass_ms(1000)
    site.append(lane, topic.path_of(0), site.batch(2))
    site.append(lane, topic.path_of(1), site.batch(2))
    for seconds, offset in ((0, 0), (3, 4), (8, 14), (9, 16)):
        reader = stream(site, startingTimestamp=str(first_ms + 1000 * seconds))
        assert reader.initialOffset() == {"orders": {"0": offset, "1": 0}}
    late = str(first_ms + 10_000)
    with pytest.raises(
        InvalidInputError, match="No offset matched from request of topic-partition"
    ):
        stream(site, startingTimestamp=late).initialOffset()
    going_on = stream(site, startingTimestamp=late, startingOffsetsByTimestampStrategy="latest")
    assert going_on.initialOffset() == {"orders": {"0": 18, "1": 2}}


def test_a_limit_is_shared_out_by_what_each_partition_has(site: Site, topic: Topic) -> None:
    lane = site.lane()
    site.fill(lane, topic.path_of(0), 30)
    site.fill(lane, topic.path_of(1), 1, count=1)
    reader = stream(site, maxOffsetsPerTrigger="10")
    limit = reader.getDefaultReadLimit()
    assert limit == ReadMaxRows(10)
    start = reader.initialOffset()
    end = reader.latestOffset(start, limit)
    assert end == {"orders": {"0": 9, "1": 1}}
    assert reader.latestOffset(start, ALL) == {"orders": {"0": 60, "1": 1}}, "a trigger of all"
    assert reader.reportLatestOffset() == {"orders": {"0": 60, "1": 1}}
    assert offsets_of(site, reader, start, end) == [(0, at) for at in range(9)] + [(1, 0)]


def test_a_trigger_waits_for_enough_but_not_for_ever(site: Site, topic: Topic) -> None:
    clock, lane = Clock(), site.lane()
    reader = stream(site, clock=clock, minOffsetsPerTrigger="10", maxTriggerDelay="1m")
    limit = reader.getDefaultReadLimit()
    assert limit == ReadMinRows(10)
    site.fill(lane, topic.path_of(0), 1)
    start = reader.latestOffset(reader.initialOffset(), limit)
    assert start == {"orders": {"0": 2, "1": 0}}, "the first one does not wait"
    site.fill(lane, topic.path_of(0), 3)
    assert reader.latestOffset(start, limit) is start
    site.fill(lane, topic.path_of(1), 2)
    enough = reader.latestOffset(start, limit)
    assert enough == {"orders": {"0": 8, "1": 4}}
    site.fill(lane, topic.path_of(1), 1)
    clock.ms += 59_999
    assert reader.latestOffset(enough, limit) is enough
    clock.ms += 1
    assert reader.latestOffset(enough, limit) == {"orders": {"0": 8, "1": 6}}


def test_available_now_ends_where_the_log_ended_when_it_began(site: Site, topic: Topic) -> None:
    lane = site.lane()
    site.fill(lane, topic.path_of(0), 4)
    reader = stream(site, maxOffsetsPerTrigger="3", minOffsetsPerTrigger="2")
    reader.prepareForTriggerAvailableNow()
    start = reader.initialOffset()
    site.fill(lane, topic.path_of(0), 4)
    ends = []
    while (end := reader.latestOffset(start, reader.getDefaultReadLimit())) != start:
        ends.append(end["orders"]["0"])
        start = end
    assert ends == [3, 6, 8], "the last one has less than it should wait for"


def test_partitions_of_new_topics_are_read_from_their_beginning(site: Site, topic: Topic) -> None:
    reader = stream(site, subscribePattern="o.*", maxOffsetsPerTrigger="100")
    start = reader.initialOffset()
    other = site.topic("others")
    site.fill(site.lane(), other.path_of(0), 3)
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    assert end == {"orders": {"0": 0, "1": 0}, "others": {"0": 6}}
    assert offsets_of(site, reader, start, end) == [(0, at) for at in range(6)]


def test_a_checkpoint_of_kafka_is_gone_on_with(site: Site, topic: Topic) -> None:
    lane = site.lane()
    site.fill(lane, topic.path_of(0), 5)
    site.fill(lane, topic.path_of(1), 5)
    start = {"orders": {"1": 3, "0": 4}}
    reader = stream(site)
    assert offsets_of(site, reader, start, {"orders": {"1": 4, "0": 6}}) == [(0, 4), (0, 5), (1, 3)]
    end = stream(site).latestOffset(start, ALL)
    assert end == {"orders": {"0": 10, "1": 10}}


# ---------------------------------------------------------------------------- losses


def test_records_that_expired_before_they_were_read_are_named(site: Site, topic: Topic) -> None:
    site.fill(site.lane(), topic.path_of(0), 5)
    site.delete_records(topic.path_of(0), 6)
    start = {"orders": {"0": 2, "1": 0}}
    reader = stream(site)
    end = reader.latestOffset(start, ALL)
    with pytest.raises(
        NotFoundError, match=r"\[2, 6\) of orders-0 have expired: its log begins at 6"
    ):
        reader.partitions(start, end)
    going_on = stream(site, failOnDataLoss="false")
    assert offsets_of(site, going_on, start, end) == [(0, at) for at in range(6, 10)]


def test_a_topic_that_was_created_again_is_known_by_its_id(site: Site, topic: Topic) -> None:
    site.fill(site.lane(), topic.path_of(0), 2)
    strict, going_on = stream(site), stream(site, failOnDataLoss="false")
    start = strict.latestOffset(strict.initialOffset(), ALL)
    assert going_on.latestOffset(going_on.initialOffset(), ALL) == start
    new = created_again(site, topic)
    site.fill(site.lane(), new.path_of(0), 5)
    told = f"created again: its id was {topic.id.hex()} and is {new.id.hex()}"
    with pytest.raises(NotFoundError, match=told):
        strict.latestOffset(start, ALL)
    end = going_on.latestOffset(start, ALL)
    assert end == {"orders": {"0": 10, "1": 0}}, (
        "longer than the old one: offsets alone say nothing"
    )
    assert offsets_of(site, going_on, start, end) == [(0, at) for at in range(10)]


def test_a_query_that_comes_back_sees_that_offsets_went_down(site: Site, topic: Topic) -> None:
    site.fill(site.lane(), topic.path_of(0), 5)
    start = {"orders": {"0": 10, "1": 0}}
    new = created_again(site, topic)
    site.fill(site.lane(), new.path_of(0), 2)
    with pytest.raises(
        NotFoundError, match=r"orders-0 offset was changed from 10 to 4.*created again"
    ):
        stream(site).latestOffset(start, ALL)
    going_on = stream(site, failOnDataLoss="false")
    end = going_on.latestOffset(start, ALL)
    assert offsets_of(site, going_on, start, end) == [(0, at) for at in range(4)]


def test_topic_ids_refuse_another_incarnation(site: Site, topic: Topic) -> None:
    ids = f'{{"orders": "{topic.id.hex()}"}}'
    assert stream(site, topicIds=ids).initialOffset()
    new = created_again(site, topic)
    with pytest.raises(InvalidInputError, match=f"has the id {new.id.hex()}, not {topic.id.hex()}"):
        stream(site, topicIds=ids).latestOffset({"orders": {"0": 0, "1": 0}}, ALL)


def test_a_topic_that_was_deleted_fails_the_query_or_is_left_out(site: Site, topic: Topic) -> None:
    other = site.topic("others")
    strict, going_on = (
        stream(site, subscribe="orders,others", failOnDataLoss=said) for said in ("true", "false")
    )
    start = strict.initialOffset()
    assert going_on.initialOffset() == start
    site.run(append(site.lane(), [DeleteTopic(topic=other.id)]))
    with pytest.raises(NotFoundError, match=r"others-0: the topic with id .* was deleted"):
        strict.latestOffset(start, ALL)
    site.run(delete_topic(other.name, other.id, site.id(), now_ms=site.now_ms))
    with pytest.raises(NotFoundError, match="there is no topic others"):
        strict.latestOffset(start, ALL)
    end = going_on.latestOffset(start, ALL)
    assert end == {"orders": {"0": 0, "1": 0}}
    assert offsets_of(site, going_on, start, end) == []


def test_a_batch_that_was_planned_before_a_restart_is_read_as_it_was(
    site: Site, topic: Topic
) -> None:
    site.fill(site.lane(), topic.path_of(0), 6)
    start, end = {"orders": {"0": 1, "1": 0}}, {"orders": {"0": 7, "1": 0}}
    site.seal()
    site.trim(idle=True)
    site.pass_ms(GRACE_MS)
    site.reap()
    site.fill(site.lane(), topic.path_of(0), 6)
    assert offsets_of(site, stream(site), start, end) == [(0, at) for at in range(1, 7)]
