"""A copy of a topic has the same records at the same offsets, whatever the source looks like.

The source is sealed in part, its log begins late, batches lie across the ranges of tasks. A copy
that was killed is finished by the next run.
"""

from pathlib import Path

import pytest

from lakelog.catalog import Topic, read_topic
from lakelog.errors import ConflictError, NotFoundError
from lakelog.host import THIS_HOST, new_id
from lakelog.journal import append, new_run
from lakelog.log import Bounds, bounds
from lakelog.maintenance import SealSettings
from lakelog.manifests import change_manifest, changes
from lakelog.model import Record
from lakelog.pipeline import Copy, plan_job, run_here
from lakelog.pipeline.adopting import SegmentTaker
from lakelog.pipeline.frame import Step
from lakelog.records import Codec, NewBatch, decode_batches, encode_batch
from lakelog.store import StoreSpec
from tests.unit.pipeline.home import Home

Row = tuple[int, int, bytes | None, bytes | None]
START_MS = 1_700_000_000_000


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "one")


@pytest.fixture
def away(tmp_path: Path) -> Home:
    return Home(tmp_path / "two")


def job(home: Home, away: Home, *, at_ms: int | None = None, segment_bytes: int = 600) -> Copy:
    return Copy(
        host=THIS_HOST,
        source=StoreSpec(home.url),
        topic="orders",
        target=StoreSpec(away.url),
        name="copied",
        at_ms=at_ms,
        segment_bytes=segment_bytes,
    )


def copied(home: Home, away: Home, *, at_ms: int | None = None) -> Topic:
    report = run_here(job(home, away, at_ms=at_ms))
    assert report.is_good, report.findings(5)
    made: Topic = away.run(read_topic("copied"))
    assert made.is_open
    return made


def write(home: Home, topic: Topic, partition: int, first: int, count: int, **how: int) -> None:
    """A batch whose records have their own times."""
    records = [
        Record(offset=at, timestamp=START_MS + first + at, key=b"k", value=b"%d" % (first + at))
        for at in range(count)
    ]
    body = encode_batch(
        NewBatch(
            records=records,
            codec=Codec.ZSTD,
            producer_id=how.get("producer", -1),
            producer_epoch=0 if "producer" in how else -1,
            base_sequence=how.get("sequence", -1),
        )
    )
    home.run(append(home.lanes[topic.lane(partition)], [new_run(topic.id, partition, body)]))


def rows(home: Home, topic: Topic, partition: int) -> list[Row]:
    found = home.run(bounds(home.lanes[topic.lane(partition)], topic.path_of(partition)))
    return [
        (one.offset, one.timestamp, one.key, one.value)
        for batch in decode_batches(home.log(topic, partition))
        for one in batch.records
        if one.offset >= found.log_start
    ]


def bounds_of(home: Home, topic: Topic, partition: int) -> Bounds:
    found: Bounds = home.run(bounds(home.lanes[topic.lane(partition)], topic.path_of(partition)))
    return found


def lived_in(home: Home) -> Topic:
    """Sealed in part, begun late in one partition, and one partition is empty."""
    topic = home.topic(partitions=4, retention_ms="-1")
    for number in range(30):
        write(home, topic, number % 3, number * 10, 10)
        if number == 20:
            assert run_here(home.seal(settings=SealSettings(segment_bytes=300))).is_good
    write_id = new_id().hex()
    flow = change_manifest(topic.path_of(1), write_id, lambda now: changes.start(now, write_id, 25))
    home.run(flow)
    return topic


def test_a_copy_has_the_same_records_at_the_same_offsets(home: Home, away: Home) -> None:
    topic = lived_in(home)
    made = copied(home, away)
    assert (made.partitions, made.configs) == (topic.partitions, topic.configs)
    for partition in range(4):
        assert rows(away, made, partition) == rows(home, topic, partition)
        assert bounds_of(away, made, partition) == bounds_of(home, topic, partition)
    assert len(rows(away, made, 1)) == 75
    assert len(rows(away, made, 3)) == 0


def test_who_appends_to_a_copy_goes_on_where_it_ends(home: Home, away: Home) -> None:
    lived_in(home)
    made = copied(home, away)
    for partition in range(4):
        before = rows(away, made, partition)
        end = bounds_of(away, made, partition).end
        write(away, made, partition, 1000, 2)
        assert rows(away, made, partition)[len(before) :][0][0] == end


def test_within_one_namespace(home: Home) -> None:
    topic = lived_in(home)
    made = copied(home, home)
    assert [rows(home, made, at) for at in range(4)] == [rows(home, topic, at) for at in range(4)]


@pytest.mark.parametrize("later_ms", [-1, 0, 1, 45, 105, 123, 299, 300])
def test_a_topic_as_it_was_at_a_moment(home: Home, away: Home, later_ms: int) -> None:
    """What lies before the first record of that time, also if that is inside of a batch."""
    topic = lived_in(home)
    moment = START_MS + later_ms
    made = copied(home, away, at_ms=moment)
    for partition in range(4):
        every = rows(home, topic, partition)
        wanted = [row for row in every if row[1] < moment]
        assert rows(away, made, partition) == wanted


def test_a_batch_that_is_cut_goes_on_in_its_sequence(home: Home, away: Home) -> None:
    topic = home.topic(partitions=1)
    write(home, topic, 0, 0, 10, producer=7, sequence=0)
    write(home, topic, 0, 10, 10, producer=7, sequence=10)
    made = copied(home, away, at_ms=START_MS + 14)
    last = list(decode_batches(away.log(made, 0)))[-1].header
    assert (last.base_sequence, last.last_sequence, last.next_offset) == (10, 13, 14)


class KilledError(Exception):
    """The process is gone."""


def test_killed_behind_any_segment_the_next_run_finishes(
    home: Home, away: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = lived_in(home)
    units = len(plan_job(job(home, away))[0].units)
    assert units > 4
    real, left = SegmentTaker.close, [0]

    def close(taken: SegmentTaker) -> Step[None]:
        if left[0] == 0:
            raise KilledError
        left[0] -= 1
        return real(taken)

    with monkeypatch.context() as patch:
        patch.setattr(SegmentTaker, "close", close)
        for count in range(units):
            left[0] = count
            with pytest.raises(KilledError):
                run_here(job(home, away))
            assert not away.run(read_topic("copied")).is_open
    made = copied(home, away)
    assert [rows(away, made, at) for at in range(4)] == [rows(home, topic, at) for at in range(4)]


def test_what_is_there_is_not_overwritten(home: Home, away: Home) -> None:
    lived_in(home)
    copied(home, away)
    with pytest.raises(ConflictError, match="--as"):
        run_here(job(home, away))


def test_a_topic_that_is_not_there_is_named(home: Home, away: Home) -> None:
    with pytest.raises(NotFoundError, match="orders"):
        run_here(job(home, away))


def test_the_plan_says_what_it_takes(home: Home, away: Home) -> None:
    lived_in(home)
    plan, _ = plan_job(job(home, away))
    assert plan.expected.bytes_read > 1_000
    assert sum(unit.next_offset - unit.base_offset for unit in plan.units) == 275
