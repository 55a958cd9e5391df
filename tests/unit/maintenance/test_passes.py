"""The keeper: a whole namespace in one process; and topics that are deleted and made anew."""

import pytest

from lakelog.catalog import Topic, delete_topic, read_topic
from lakelog.errors import NotFoundError
from lakelog.journal import (
    DeleteTopic,
    Outcome,
    Refusal,
    Refused,
    Stored,
    append,
    decode_head,
    new_append,
)
from lakelog.log import Bounds
from lakelog.maintenance import MaintenanceReport, Sealed, SealSettings, maintain, passes
from lakelog.manifests import PartitionPath
from lakelog.names import head_key
from lakelog.store import PutIfAbsent, PutIfMatch
from tests.unit.log.site import (
    GRACE_MS,
    Dying,
    Killed,
    Paused,
    Site,
    get_key,
    killed_at_every_step,
    seal,
    spans,
    unplaced,
)

SETTINGS = SealSettings(group_bytes=700, segment_bytes=300)


@pytest.fixture
def site() -> Site:
    return Site()


def pass_over(site: Site, *, idle: bool = True) -> MaintenanceReport:
    """One pass of a keeper that has just started."""
    return site.run(maintain({0: site.lane()}, SETTINGS, idle=idle))


def delete(site: Site, topic: Topic, *, tell: bool = True) -> Topic:
    gone = site.run(delete_topic(topic.name, topic.id, site.id(), now_ms=site.now_ms))
    if tell:
        site.run(append(site.lane(), [DeleteTopic(topic=topic.id)]))
    return gone


# ---------------------------------------------------------------------------- keeping


def test_passes_move_the_log_into_history_and_leave_it_as_it_is(site: Site) -> None:
    topics = [site.topic("a", partitions=2), site.topic("b")]
    wheres = [topic.path_of(at) for topic in topics for at in range(topic.partitions)]
    for _ in range(6):
        for where in wheres:
            site.append(site.lane(), where, site.batch(3))
    logs = {where: site.log(where) for where in wheres}
    done = pass_over(site)
    assert (done.sealed.records, done.trimmed, done.reaped) == (54, 18, 0)
    site.pass_ms(GRACE_MS)
    assert pass_over(site).reaped >= 18
    for where in wheres:
        assert site.log(where) == logs[where]
        assert site.manifest(where).sealed_end == 18
    before = site.objects()
    assert pass_over(site) == MaintenanceReport(sealed=Sealed())
    assert site.objects() == before


def test_a_lane_that_is_led_elsewhere_is_left_alone_with_its_topics(site: Site) -> None:
    where = site.topic(retention_ms="1").path_of(0)
    for _ in range(6):
        site.append(site.lane(), where, site.batch(3))
    before = site.objects()
    report = site.run(maintain({0: site.lane()}, SETTINGS, led=()))
    assert report == MaintenanceReport(sealed=Sealed())
    assert site.objects() == before
    assert site.run(maintain({0: site.lane()}, SETTINGS, led=(0,))).sealed.records == 18


def test_a_pass_that_does_not_reach_the_end_of_a_lane_says_so(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = site.topic("a").path_of(0)
    site.append(site.lane(), where, *(site.batch(1) for _ in range(6)))
    monkeypatch.setattr(passes, "BUNDLES_MAX", 5)
    assert pass_over(site).is_behind
    monkeypatch.undo()
    assert not pass_over(site).is_behind


def test_two_keepers_in_turn_and_a_log_that_goes_on(site: Site) -> None:
    where = site.topic(retention_ms="-1").path_of(0)
    lane = site.lane()
    keepers = [site.lane(), site.lane()]
    for turn in range(12):
        site.fill(lane, where, 3)
        site.run(maintain({0: keepers[turn % 2]}, SETTINGS, idle=turn % 3 == 0))
        site.pass_ms(GRACE_MS // 2)
    log = site.log(where)
    assert spans(log) == [(2 * at, 2 * at + 2) for at in range(36)]
    assert site.manifest(where).sealed_end == 72


def one_town() -> Site:
    site = Site()
    a = site.topic("a", partitions=2, retention_ms="1000")
    b = site.topic("b")
    lane = site.lane()
    for turn in range(5):
        site.append(lane, (a.path_of(0), a.path_of(1), b.path_of(0))[turn % 3], site.batch(2))
    site.run(maintain({0: site.lane()}, SETTINGS, idle=True))
    site.pass_ms(GRACE_MS)
    for turn in range(5):
        site.append(lane, (a.path_of(0), a.path_of(1), b.path_of(0))[turn % 3], site.batch(2))
    delete(site, site.topic("c"), tell=False)
    return site


def test_a_keeper_killed_anywhere_loses_nothing_that_may_be_read() -> None:
    tried = 0
    wheres = [
        topic.path_of(at)
        for topic in map(one_town().run, map(read_topic, "ab"))
        for at in range(topic.partitions)
    ]
    ends: dict[PartitionPath, int] = {}
    for site in killed_at_every_step(one_town, lambda site: maintain({0: site.lane()}, SETTINGS)):
        tried += 1
        for round_ in range(2):
            for where in wheres:
                held = site.bounds(where)
                assert ends.setdefault(where, held.end) == held.end
                log = site.log(where)
                assert [span for span in spans(log) if span[1] == held.end] or not log
                assert sum(high - low for low, high in spans(log)) == held.end - held.log_start
            if not round_:
                pass_over(site)
        b = wheres[2]
        assert site.bounds(b).log_start == 0
    assert tried > 100


# ---------------------------------------------------------------------------- deleting


def test_a_deleted_topic_goes_and_its_lane_is_told(site: Site) -> None:
    """Also when whoever deleted it did not live to tell the lane."""
    topic = site.topic("orders", partitions=2)
    other = site.topic("other").path_of(0)
    lane = site.lane()
    for partition in (0, 1):
        site.fill(lane, topic.path_of(partition), 3)
    site.seal(SETTINGS)
    site.fill(lane, topic.path_of(0), 3)
    log = site.fill(lane, other, 2)
    delete(site, topic, tell=False)
    for _ in range(4):
        pass_over(site)
        site.pass_ms(GRACE_MS)
    for partition in (0, 1):
        assert site.names(topic.path_of(partition)) == set()
        assert site.manifest(topic.path_of(partition)).deleted
    (outcome,) = site.append(site.lane(), topic.path_of(0), site.batch())
    assert outcome == Refused(Refusal.TOPIC_DELETED)
    assert site.log(other) == log
    assert decode_head(get_key(site, head_key(0)), 0).floor > 10


def make_anew(site: Site, topic: Topic) -> Topic:
    """Delete it, and make one of the same name with some records of its own."""
    delete(site, topic)
    new = site.topic(topic.name, partitions=topic.partitions)
    assert new.path == topic.name + "~1"
    assert new.id != topic.id
    return new


def only(site: Site, topic: Topic, sent: list[bytes]) -> None:
    """The topic holds this and nothing else, now and after everything was kept and swept."""
    where = topic.path_of(0)
    for _ in range(5):
        assert unplaced(site.log(where)) == unplaced(sent)
        assert site.bounds(where) == Bounds(0, 2 * len(sent))
        pass_over(site)
        site.pass_ms(GRACE_MS)
    assert unplaced(site.log(where)) == unplaced(sent)


def test_nothing_of_a_paused_writer_appears_in_the_topic_made_anew(site: Site) -> None:
    old = site.topic("orders")
    site.fill(site.lane(), old.path_of(0), 3)
    paused: Paused[tuple[Outcome, ...]] = Paused(
        site, append(site.lane(), [new_append(*old.path_of(0).topic_partition, site.batch())]),
        PutIfAbsent, ".bundle",
    )  # fmt: skip
    new = make_anew(site, old)
    sent = [site.batch(), site.batch()]
    site.append(site.lane(), new.path_of(0), *sent)
    (outcome,) = paused.finish()
    assert outcome == Refused(Refusal.TOPIC_DELETED)
    only(site, new, sent)
    with pytest.raises(NotFoundError):
        site.read(old.path_of(0), 0)


def test_nothing_of_a_writer_that_slept_for_days_appears_in_the_topic_made_anew(
    site: Site,
) -> None:
    """The lane was trimmed meanwhile, and the keys below its floor are gone."""
    old = site.topic("orders")
    site.fill(site.lane(), old.path_of(0), 3)
    paused: Paused[tuple[Outcome, ...]] = Paused(
        site, append(site.lane(), [new_append(*old.path_of(0).topic_partition, site.batch())]),
        PutIfAbsent, ".bundle",
    )  # fmt: skip
    new = make_anew(site, old)
    sent = [site.batch(), site.batch()]
    site.append(site.lane(), new.path_of(0), *sent)
    only(site, new, sent)
    (outcome,) = paused.finish()
    assert not isinstance(outcome, Stored)
    only(site, new, sent)


SLEEPS = [
    (PutIfAbsent, "/manifest"), (PutIfAbsent, ".kfs"), (PutIfAbsent, ".index"),
    (PutIfMatch, "/manifest"),
]  # fmt: skip


@pytest.mark.parametrize("days", [False, True], ids=["for a moment", "for days"])
@pytest.mark.parametrize(("kind", "end"), SLEEPS)
def test_nothing_of_a_paused_sealer_appears_in_the_topic_made_anew(
    site: Site, kind: type, end: str, days: bool
) -> None:
    old = site.topic("orders")
    site.fill(site.lane(), old.path_of(0), 3)
    paused = Paused(site, seal(site.lane(), SETTINGS), kind, end)
    new = make_anew(site, old)
    sent = [site.batch(), site.batch()]
    site.append(site.lane(), new.path_of(0), *sent)
    if days:
        only(site, new, sent)
    paused.finish()
    only(site, new, sent)
    assert site.names(old.path_of(0)) == set()
    assert site.manifest(old.path_of(0)).deleted
    assert site.manifest(old.path_of(0)).segments == ()


def test_a_sealer_that_slept_through_it_all_does_not_bring_the_old_topic_back(site: Site) -> None:
    """Its first change would have made the manifest; there is one, and it says deleted."""
    old = site.topic("orders")
    site.fill(site.lane(), old.path_of(0), 3)
    paused = Paused(site, seal(site.lane(), SETTINGS), PutIfAbsent, "/manifest")
    delete(site, old)
    pass_over(site)
    assert paused.finish() == Sealed()
    assert site.manifest(old.path_of(0)).deleted


def test_a_deleted_topic_is_forgotten_when_nothing_is_left_and_it_was_long_ago(site: Site) -> None:
    old = site.topic("orders")
    site.fill(site.lane(), old.path_of(0), 3)
    site.seal()
    new = make_anew(site, old)
    for _ in range(23):
        pass_over(site)
        site.pass_ms(GRACE_MS)
        assert len(list(site.run(read_topic("orders")).incarnations())) == 2
    for _ in range(3):
        site.pass_ms(GRACE_MS)
        pass_over(site)
    assert [one.id for one in site.run(read_topic("orders")).incarnations()] == [new.id]
    assert site.names(old.path_of(0)) == set()


def test_a_keeper_killed_in_its_first_steps_has_changed_nothing(site: Site) -> None:
    site.fill(site.lane(), site.topic().path_of(0), 3)
    before = site.objects()
    with pytest.raises(Killed):
        site.run(maintain({0: site.lane()}, SETTINGS), Dying(site, 5))
    assert site.objects() == before
