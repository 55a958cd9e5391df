"""Retain: the log begins later, whole segments at a time, and never ends earlier."""

import pytest

from lakelog.catalog import Topic
from lakelog.errors import InvalidInputError
from lakelog.journal import Stored
from lakelog.log import Bounds
from lakelog.maintenance import (
    Retention,
    SealSettings,
    plan_retain,
    retain_partition,
    retention_of,
)
from lakelog.manifests import Manifest, PageRow, PartitionPath, SegmentRow
from lakelog.store import PutIfMatch
from tests.unit.log.site import (
    GRACE_MS,
    Site,
    killed_at_every_step,
    lose_answer,
    spans,
)

NOW = 1_000_000
EACH = SealSettings(segment_bytes=1)


def row(base: int, next_: int, *, time: int, appended: int = NOW, length: int = 100) -> SegmentRow:
    name = f"segment-{base:020}"
    return SegmentRow(name, base, next_, 0, length, next_ - base, time, time, appended, 0, 1, 0)


def manifest(*rows: SegmentRow, pages: tuple[PageRow, ...] = (), log_start: int = 0) -> Manifest:
    end = rows[-1].next_offset if rows else 0
    return Manifest(
        topic=bytes(16), partition=0, sealed_end=end, segments=rows, pages=pages,
        log_start=log_start,
    )  # fmt: skip


def start(held: Manifest, *, age_ms: int = -1, size_bytes: int = -1, now_ms: int = NOW) -> int:
    return plan_retain(held, Retention(age_ms=age_ms, size_bytes=size_bytes), now_ms)


THREE = manifest(
    row(0, 10, time=NOW - 300), row(10, 20, time=NOW - 200), row(20, 30, time=NOW - 100)
)


# ---------------------------------------------------------------------------- plans


@pytest.mark.parametrize(
    ("age_ms", "begins"),
    [(-1, 0), (300, 0), (299, 10), (200, 10), (199, 20), (100, 20), (99, 30), (0, 30)],
)
def test_what_is_older_than_the_age_goes(age_ms: int, begins: int) -> None:
    assert start(THREE, age_ms=age_ms) == begins


@pytest.mark.parametrize(
    ("size_bytes", "begins"),
    [(-1, 0), (1000, 0), (201, 0), (200, 10), (101, 10), (100, 20), (1, 20), (0, 30)],
)
def test_what_is_more_than_the_size_goes(size_bytes: int, begins: int) -> None:
    """So much at least is left, as in Kafka: a segment goes if enough is left without it."""
    assert start(THREE, size_bytes=size_bytes) == begins


def test_either_limit_takes_a_segment() -> None:
    assert start(THREE, age_ms=250, size_bytes=1000) == 10
    assert start(THREE, age_ms=1000, size_bytes=150) == 10
    assert start(THREE, age_ms=250, size_bytes=100) == 20


def test_what_comes_behind_a_segment_that_stays_stays() -> None:
    held = manifest(row(0, 10, time=NOW), row(10, 20, time=0), row(20, 30, time=0))
    assert start(held, age_ms=100) == 0


def test_a_time_in_the_future_keeps_nothing_for_ever() -> None:
    held = manifest(row(0, 10, time=NOW * 100, appended=NOW - 300))
    assert start(held, age_ms=299) == 10
    assert start(held, age_ms=300) == 0


def test_an_old_time_counts_also_when_it_was_appended_just_now() -> None:
    """As in Kafka: who loads old records with a short retention does not keep them."""
    assert start(manifest(row(0, 10, time=5, appended=NOW)), age_ms=1000) == 10


def test_without_a_time_the_append_counts() -> None:
    """As in Kafka: -1 says that there is no time, and not that it was in 1969."""
    held = manifest(row(0, 10, time=-1, appended=NOW - 300))
    assert start(held, age_ms=300) == 0
    assert start(held, age_ms=299) == 10


def test_a_start_that_is_further_stays() -> None:
    held = manifest(*THREE.segments, log_start=25)
    assert start(held, age_ms=-1) == 25
    assert start(held, age_ms=250) == 25
    assert start(held, age_ms=0) == 30


def test_a_page_goes_as_a_whole() -> None:
    page = PageRow("page-x", 0, 50, 5, 500, NOW - 900, NOW - 300, NOW)
    held = Manifest(
        topic=bytes(16), partition=0, sealed_end=60, pages=(page,),
        segments=(row(50, 60, time=NOW - 100),),
    )  # fmt: skip
    assert start(held, age_ms=300) == 0
    assert start(held, age_ms=299) == 50
    assert start(held, age_ms=99) == 60
    assert start(held, size_bytes=100) == 50
    assert start(held, size_bytes=101) == 0


def test_configs_are_kafkas() -> None:
    week = 7 * 24 * 3600 * 1000
    assert retention_of({}) == Retention(age_ms=week, size_bytes=-1)
    configs = {"retention.ms": "5", "retention.bytes": "-1", "cleanup.policy": "delete"}
    assert retention_of(configs) == Retention(age_ms=5, size_bytes=-1)
    assert retention_of({"retention.ms": "-1", "retention.bytes": "7"}) == Retention(
        age_ms=-1, size_bytes=7
    )


def test_a_topic_that_is_only_compacted_keeps_what_is_left() -> None:
    configs = {"retention.ms": "5", "cleanup.policy": "compact"}
    assert retention_of(configs) == Retention(age_ms=-1, size_bytes=-1)
    assert retention_of({**configs, "cleanup.policy": "compact,delete"}).age_ms == 5


@pytest.mark.parametrize("configs", [{"retention.ms": "a week"}, {"retention.bytes": "1e9"}])
def test_what_is_no_number_is_refused(configs: dict[str, str]) -> None:
    with pytest.raises(InvalidInputError, match="whole numbers"):
        retention_of(configs)


# ---------------------------------------------------------------------------- stories


@pytest.fixture
def site() -> Site:
    return Site()


def retain(site: Site, topic: Topic) -> Manifest:
    return site.run(retain_partition(topic, topic.path_of(0), site.id, now_ms=site.now_ms))


def test_what_has_expired_is_no_longer_read_and_stays_for_the_grace(site: Site) -> None:
    topic = site.topic(retention_ms="1000")
    where = topic.path_of(0)
    lane = site.lane()
    for _ in range(4):
        site.append(lane, where, site.batch())
        site.pass_ms(400)
    site.seal(EACH)
    after = retain(site, topic)
    assert (after.log_start, after.sealed_end) == (4, 8)
    assert [one.name for one in after.dropped] == [f"segment-{base:020}" for base in (0, 2)]
    assert spans(site.log(where)) == [(4, 6), (6, 8)]
    before = site.names(where)
    assert retain(site, topic) == after
    assert site.sweep(where) == 0
    site.pass_ms(GRACE_MS - 1)
    site.sweep(where)
    assert before == site.names(where)
    site.pass_ms(1)
    assert site.sweep(where) == 6
    assert site.manifest(where).dropped == ()


def test_by_size(site: Site) -> None:
    topic = site.topic(retention_bytes="400", retention_ms="-1")
    where = topic.path_of(0)
    site.fill(site.lane(), where, 6)
    site.seal(EACH)
    size = site.manifest(where).segments[0].length
    left = -(-400 // size)
    assert retain(site, topic).log_start == 2 * (6 - left)
    site.pass_ms(10**12)
    assert retain(site, topic).log_start == 2 * (6 - left)


def test_without_limits_nothing_goes(site: Site) -> None:
    topic = site.topic(retention_ms="-1", retention_bytes="-1")
    site.fill(site.lane(), topic.path_of(0), 3)
    site.seal(EACH)
    site.pass_ms(10**13)
    before = site.manifest(topic.path_of(0))
    assert retain(site, topic) == before
    assert before.generation == site.manifest(topic.path_of(0)).generation


def gone(site: Site, topic: Topic) -> None:
    """Let everything expire, and take away all that can be taken away."""
    where = topic.path_of(0)
    site.seal()
    site.pass_ms(5000)
    retain(site, topic)
    for _ in range(3):
        site.trim(idle=True)
        site.pass_ms(2 * GRACE_MS)
        site.reap()
        site.sweep(where)


def test_when_everything_has_expired_the_next_offset_goes_on(site: Site) -> None:
    """Every process is a new one, and neither a segment nor a bundle with a record is left."""
    topic = site.topic(retention_ms="1000")
    where = topic.path_of(0)
    site.fill(site.lane(), where, 5)
    for turn in range(3):
        end = 10 + 4 * turn
        gone(site, topic)
        assert site.names(where) == set()
        after = site.manifest(where)
        assert (after.log_start, after.sealed_end, after.segments) == (end, end, ())
        assert site.bounds(where) == Bounds(end, end)
        (stored,) = site.append(site.lane(), where, site.batch())
        assert isinstance(stored, Stored)
        assert stored.base_offset == end
        site.append(site.lane(), where, site.batch())
        assert spans(site.log(where)) == [(end, end + 2), (end + 2, end + 4)]


def test_a_producer_is_still_known_when_everything_has_expired(site: Site) -> None:
    topic = site.topic(retention_ms="1000")
    where = topic.path_of(0)
    site.append(site.lane(), where, site.batch(2, producer=(9, 0, 0)))
    last = site.batch(2, producer=(9, 0, 2))
    site.append(site.lane(), where, last)
    gone(site, topic)
    (again,) = site.append(site.lane(), where, last)
    assert isinstance(again, Stored)
    assert (again.duplicate, again.base_offset) == (True, 2)


def test_a_retainer_whose_answer_was_lost_drops_once(site: Site) -> None:
    topic = site.topic(retention_ms="1000")
    where = topic.path_of(0)
    site.fill(site.lane(), where, 3)
    site.seal(EACH)
    site.pass_ms(5000)
    flow = retain_partition(topic, where, site.id, now_ms=site.now_ms)
    after = site.run(flow, lose_answer(site, PutIfMatch, "manifest", times=2))
    assert len(after.dropped) == 3
    assert after == site.manifest(where)


def test_a_retainer_killed_anywhere_is_finished_by_the_next() -> None:
    made: list[Topic] = []

    def make() -> Site:
        site = Site()
        made[:] = [site.topic(retention_ms="1000")]
        site.fill(site.lane(), made[0].path_of(0), 2)
        site.seal(EACH)
        site.pass_ms(800)
        site.fill(site.lane(), made[0].path_of(0), 2)
        site.seal(EACH)
        site.pass_ms(800)
        return site

    flow = lambda site: retain_partition(  # noqa: E731
        made[0], made[0].path_of(0), site.id, now_ms=site.now_ms
    )
    for site in killed_at_every_step(make, flow):
        assert spans(site.log(made[0].path_of(0)))[-2:] == [(4, 6), (6, 8)]
        after = retain(site, made[0])
        assert (after.log_start, len(after.segments), len(after.dropped)) == (4, 2, 2)
        assert spans(site.log(made[0].path_of(0))) == [(4, 6), (6, 8)]


def test_records_in_the_journal_do_not_expire_before_they_are_sealed(site: Site) -> None:
    topic = site.topic(retention_ms="1000")
    where: PartitionPath = topic.path_of(0)
    site.fill(site.lane(), where, 3)
    site.pass_ms(10**9)
    assert retain(site, topic).log_start == 0
    assert len(site.log(where)) == 3
    site.seal()
    assert retain(site, topic).log_start == 6
