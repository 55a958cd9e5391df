"""Trim and reap: a floor rises over what is sealed and nothing else; what is below goes later."""

from dataclasses import replace
from typing import Any

import pytest

from lakelog.catalog import list_topics, read_topic
from lakelog.errors import CorruptError, UnavailableError
from lakelog.formats.lanes import Checkpoint, Slice, decode_checkpoint, encode_checkpoint
from lakelog.journal import (
    DeleteTopic,
    Head,
    append,
    decode_head,
    encode_head,
    new_append,
    probe,
    write_checkpoint,
)
from lakelog.log import Bounds
from lakelog.maintenance import Trimmed, catalog_of, read_backlog, trim
from lakelog.manifests import PartitionPath
from lakelog.names import bundle_key, checkpoint_key, head_key, seq_of
from lakelog.store import Delete, Get, ListPage, Op, PutIfAbsent, PutIfMatch
from tests.unit.log.site import (
    GRACE_MS,
    Site,
    first,
    get_key,
    killed_at_every_step,
    lose_answer,
    reap_lane,
    spans,
    then,
    trim_lane,
)


@pytest.fixture
def site() -> Site:
    return Site()


@pytest.fixture
def where(site: Site) -> PartitionPath:
    return site.topic().path_of(0)


def head(site: Site) -> Head:
    return decode_head(get_key(site, head_key(0)), 0)


def bundles(site: Site) -> list[int]:
    keys = [key for key in site.objects("_lakelog/lanes/0000/") if key.endswith(".bundle")]
    return [seq for seq in map(seq_of, keys) if seq is not None]


# ---------------------------------------------------------------------------- the floor


def test_the_floor_rises_over_what_is_sealed_up_to_a_checkpoint(
    site: Site, where: PartitionPath
) -> None:
    """Every fourth bundle has a checkpoint: 3 is one, 7 is the next."""
    log = site.fill(site.lane(), where, 10)
    site.seal()
    assert site.trim() == Trimmed(0, 7)
    assert (head(site).floor, head(site).checkpoint) == (7, 7)
    assert site.log(where) == log
    assert site.trim() == Trimmed(7, 7)


def test_the_floor_never_passes_what_is_not_sealed(site: Site) -> None:
    topic = site.topic(partitions=2)
    sealed, other = topic.path_of(0), topic.path_of(1)
    lane = site.lane()
    site.fill(lane, sealed, 5)
    site.seal()
    site.fill(lane, other, 1)
    site.fill(lane, sealed, 6)
    assert site.trim() == Trimmed(0, 5)
    assert site.trim(idle=True) == Trimmed(5, 5)
    assert len(site.log(other)) == 1


def test_without_a_checkpoint_the_floor_stays(site: Site, where: PartitionPath) -> None:
    site.fill(site.lane(), where, 3)
    site.seal()
    assert site.trim() == Trimmed(0, 0)


def test_where_nobody_appends_an_empty_bundle_lets_the_floor_pass_all(
    site: Site, where: PartitionPath
) -> None:
    log = site.fill(site.lane(), where, 2)
    site.seal()
    assert site.trim(idle=True) == Trimmed(0, 2)
    assert bundles(site) == [0, 1, 2]
    assert head(site) == Head(lane=0, floor=2, checkpoint=2, floors=head(site).floors)
    assert site.log(where) == log


@pytest.mark.parametrize("count", range(1, 10))
def test_an_idle_lane_does_not_grow(site: Site, where: PartitionPath, count: int) -> None:
    """Where the empty bundle is one after which a checkpoint is due, it takes a second pass."""
    site.fill(site.lane(), where, count)
    site.seal()
    site.trim(idle=True)
    site.trim(idle=True)
    assert head(site).floor >= count
    before = site.objects()
    for _ in range(5):
        site.pass_ms(10 * GRACE_MS)
        site.trim(idle=True)
    assert site.objects() == before


def test_a_topic_that_nobody_knows_holds_the_floor(site: Site, where: PartitionPath) -> None:
    lane = site.lane()
    site.fill(lane, where, 4)
    site.append(lane, PartitionPath(b"?" * 16, "?", 0), site.batch())
    site.fill(lane, where, 6)
    site.seal()
    assert site.trim() == Trimmed(0, 4)
    assert site.trim(idle=True) == Trimmed(4, 4)


def test_a_deleted_topic_does_not_hold_the_floor(site: Site, where: PartitionPath) -> None:
    lane = site.lane()
    stranger = PartitionPath(b"?" * 16, "?", 0)
    site.append(lane, stranger, site.batch(), site.batch())
    site.run(append(lane, [DeleteTopic(topic=stranger.topic)]))
    site.fill(lane, where, 2)
    site.seal()
    assert site.trim(idle=True) == Trimmed(0, 5)


def test_what_nobody_may_read_does_not_hold_the_floor(site: Site, where: PartitionPath) -> None:
    site.fill(site.lane(), where, 9)
    site.delete_records(where, 14)
    assert site.trim() == Trimmed(0, 7)
    assert site.manifest(where).sealed_end == 0
    assert len(site.log(where)) == 2


def test_a_slice_of_which_one_record_may_be_read_holds_the_floor(
    site: Site, where: PartitionPath
) -> None:
    site.fill(site.lane(), where, 9)
    site.delete_records(where, 7)
    assert site.trim() == Trimmed(0, 3)


def test_bundles_that_appear_while_it_is_trimmed_stay(site: Site, where: PartitionPath) -> None:
    lane = site.lane()
    site.fill(lane, where, 5)
    site.seal()
    more = first(site, PutIfMatch, "head", lambda: site.fill(lane, where, 3))
    assert site.trim(perform=more) == Trimmed(0, 3)
    assert len(site.log(where)) == 8


# ---------------------------------------------------------------------------- checkpoints


def planted(site: Site, seq: int, wrong: Checkpoint) -> None:
    site.replace(checkpoint_key(0, seq), encode_checkpoint(wrong))


def test_a_checkpoint_that_is_wrong_is_not_stood_upon(site: Site, where: PartitionPath) -> None:
    other = site.topic("other").path_of(0)
    lane = site.lane()
    site.append(lane, other, site.batch())
    site.fill(lane, where, 6)
    site.append(lane, where, site.batch(2, producer=(5, 0, 0)))
    site.fill(lane, where, 2)
    site.seal()
    right = decode_checkpoint(get_key(site, checkpoint_key(0, 7)))
    assert right.producers
    low = right.ends[0]._replace(offset=right.ends[0].offset - 1)
    for wrong in (
        replace(right, ends=(low, *right.ends[1:])),
        replace(right, ends=right.ends[1:]),
        replace(right, epoch=right.epoch + 1),
        replace(right, nonce=bytes(15) + b"\1"),
        replace(right, producers=()),
        replace(right, created_ms=right.created_ms + 1),
        replace(right, leader=bytes(16)),
    ):
        site.perform(Delete(checkpoint_key(0, 3)))
        planted(site, 7, wrong)
        site.perform(Delete("_lakelog/lanes/0000/tail"))
        # A keeper that holds a fold of its own, learned before this was planted.
        assert site.run(trim_lane(lane)) == Trimmed(0, 0)
    planted(site, 7, right)
    assert site.run(trim_lane(lane)) == Trimmed(0, 7)


class Compared(Slice):
    """A slice that counts how often it is compared."""

    times = 0
    __hash__ = Slice.__hash__

    def __eq__(self, other: object) -> bool:
        Compared.times += 1
        return tuple(self) == other

    def __ne__(self, other: object) -> bool:
        return not self == other


def test_a_roll_of_many_slices_is_compared_slice_by_slice(site: Site) -> None:
    topic, lane = site.topic(partitions=200), site.lane()
    for _ in range(8):
        requests = [
            new_append(*topic.path_of(p).topic_partition, site.batch(1)) for p in range(200)
        ]
        site.run(append(lane, requests))
        site.run(write_checkpoint(lane))
    site.seal()
    lane = site.lane()
    backlog = site.run(read_backlog(lane, 4096))
    assert backlog is not None
    counted = tuple(
        replace(
            held,
            bundle=replace(held.bundle, slices=tuple(Compared(*one) for one in held.bundle.slices)),
        )
        for held in backlog.bundles
    )
    Compared.times = 0
    catalog = catalog_of(site.run(list_topics()))
    assert site.run(trim(lane, replace(backlog, bundles=counted), catalog)).floor > 0
    assert 200 <= Compared.times <= 10 * 8 * 200


def test_a_checkpoint_that_is_no_checkpoint_is_not_stood_upon(
    site: Site, where: PartitionPath
) -> None:
    lane = site.lane()
    site.fill(lane, where, 9)
    site.seal()
    site.replace(checkpoint_key(0, 7), b"noise")
    with pytest.raises(CorruptError, match="checkpoint"):
        site.run(trim_lane(lane))
    assert head(site).floor == 0


def test_an_older_checkpoint_will_do(site: Site, where: PartitionPath) -> None:
    lane = site.lane()
    site.fill(lane, where, 10)
    site.seal()
    site.perform(Delete(checkpoint_key(0, 7)))
    lane.stands(7)
    assert site.run(trim_lane(lane)) == Trimmed(0, 3)


# ---------------------------------------------------------------------------- races


def test_a_swap_whose_answer_was_lost_has_happened(site: Site, where: PartitionPath) -> None:
    log = site.fill(site.lane(), where, 9)
    site.seal()
    assert site.trim(perform=lose_answer(site, PutIfMatch, "head", times=3)) == Trimmed(0, 7)
    assert head(site).floor == 7
    assert [floor for floor, _ in head(site).floors] == [0]
    assert site.log(where) == log


def test_a_swap_that_never_arrived_is_repeated(site: Site, where: PartitionPath) -> None:
    site.fill(site.lane(), where, 9)
    site.seal()
    asked = [0]

    def perform(op: object) -> object:
        if isinstance(op, PutIfMatch) and op.key.endswith("head"):
            asked[0] += 1
            if asked[0] < 3:
                raise UnavailableError("no answer: retry")
        return site.perform(op)  # type: ignore[arg-type]

    assert site.trim(perform=perform) == Trimmed(0, 7)
    assert asked == [3]


def test_a_store_that_does_not_take_the_swap_ends_the_trim(
    site: Site, where: PartitionPath
) -> None:
    site.fill(site.lane(), where, 9)
    site.seal()
    swaps: list[Op] = []

    def perform(op: Op) -> Any:
        if isinstance(op, PutIfMatch) and op.key.endswith("/head"):
            swaps.append(op)
            assert len(swaps) < 100, "it goes on for ever"
            raise UnavailableError("503 Slow Down")
        return site.perform(op)

    with pytest.raises(UnavailableError, match="503"):
        site.trim(perform=perform)
    assert site.trim().floor > 0


def test_of_two_trimmers_one_swaps_and_both_are_right(site: Site, where: PartitionPath) -> None:
    lane = site.lane()
    log = site.fill(lane, where, 9)
    site.seal()
    done: list[Trimmed] = []
    both = first(site, PutIfMatch, "head", lambda: done.append(site.trim()))
    assert site.trim(perform=both) == Trimmed(0, 7)
    assert done == [Trimmed(0, 7)]
    assert len(head(site).floors) == 1
    assert site.log(where) == log


def test_a_trimmer_that_slept_does_not_lower_the_floor(site: Site, where: PartitionPath) -> None:
    lane = site.lane()
    site.fill(lane, where, 5)
    site.seal()

    def others() -> None:
        site.fill(lane, where, 8)
        site.seal()
        assert site.trim() == Trimmed(0, 11)

    assert site.trim(perform=first(site, PutIfMatch, "head", others)).floor == 3
    assert head(site).floor == 11


def test_a_trimmer_that_slept_behind_a_lower_floor_changes_nothing() -> None:
    """Somebody else's floor is lower than ours would be: it is left, and the next pass goes on."""
    site = Site(every=2)
    place = site.topic().path_of(0)
    lane = site.lane()
    site.fill(lane, place, 4)
    site.seal()
    assert site.trim() == Trimmed(0, 3)
    site.fill(lane, place, 6)
    site.seal()

    def others() -> None:
        # One who knew only a part.
        was = head(site)
        info = site.perform(Get(head_key(0))).info
        body = encode_head(was.raised(5, 5, info.modified_ms))
        site.perform(PutIfMatch(head_key(0), body, info.etag))

    assert site.trim(perform=first(site, PutIfMatch, "head", others)) == Trimmed(3, 3)
    assert head(site).floor == 5
    assert site.trim() == Trimmed(5, 9)


# ---------------------------------------------------------------------------- deleting


def sealed_and_trimmed(site: Site, where: PartitionPath) -> list[bytes]:
    log = site.fill(site.lane(), where, 10)
    site.seal()
    assert site.trim() == Trimmed(0, 7)
    return log


def test_nothing_is_deleted_before_the_grace(site: Site, where: PartitionPath) -> None:
    log = sealed_and_trimmed(site, where)
    before = site.objects()
    site.pass_ms(GRACE_MS - 1)
    assert site.reap() == 0
    assert site.objects() == before
    site.pass_ms(1)
    assert site.reap() == 7 + 1
    assert bundles(site) == [7, 8, 9]
    assert checkpoint_key(0, 7) in site.objects()
    assert site.log(where) == log
    assert site.reap() == 0


def test_a_floor_grows_old_also_while_others_are_set(site: Site, where: PartitionPath) -> None:
    """Each floor has its own age: one that is raised every minute would never be old."""
    lane = site.lane()
    for _ in range(6):
        site.fill(lane, where, 4)
        site.seal()
        site.trim()
        site.pass_ms(GRACE_MS // 4)
        site.reap()
    # Set at 0, 15, 30, 45, 60, 75 s: 3, 7, 11, 15, 19, 23. The age is 60 s for those up to 30 s.
    assert head(site).floor == 23
    assert bundles(site)[0] == 11
    assert site.bounds(where) == Bounds(0, 48)


def test_what_comes_late_below_the_floor_goes_too(site: Site, where: PartitionPath) -> None:
    log = sealed_and_trimmed(site, where)
    old = site.objects()[bundle_key(0, 2)]
    site.pass_ms(GRACE_MS)
    site.reap()
    site.perform(PutIfAbsent(bundle_key(0, 2), old))
    assert site.log(where) == log
    assert site.reap() == 1
    assert bundles(site) == [7, 8, 9]


def test_what_is_not_ours_stays_and_holds_up_nothing(site: Site, where: PartitionPath) -> None:
    sealed_and_trimmed(site, where)
    foreign = {"_lakelog/lanes/0000/" + name for name in ("!", "0000.bundle", "x")}
    foreign.add(bundle_key(0, 1) + ".copy")
    for key in foreign:
        site.perform(PutIfAbsent(key, b"?"))
    site.pass_ms(GRACE_MS)
    assert site.reap() == 8
    assert foreign <= set(site.objects())


def test_more_than_one_page_of_keys_is_deleted() -> None:
    site = Site(every=64)
    place = site.topic().path_of(0)
    site.fill(site.lane(), place, 1100, count=1)
    site.seal()
    site.trim(idle=True)
    site.pass_ms(GRACE_MS)
    assert site.reap() > 1100
    assert bundles(site) == [1100]
    assert site.bounds(place) == Bounds(0, 1100)


def test_the_grace_is_judged_by_the_time_asked_for_before(site: Site, where: PartitionPath) -> None:
    """A reaper that slept after asking for the time deletes less, not more."""
    sealed_and_trimmed(site, where)
    late = first(site, Get, "head", lambda: site.pass_ms(10 * GRACE_MS))
    assert site.reap(late) == 0


# ---------------------------------------------------------------------------- killed


def one_town() -> Site:
    site = Site()
    where = site.topic().path_of(0)
    site.fill(site.lane(), where, 9)
    site.seal()
    return site


def the_where(site: Site) -> PartitionPath:
    return site.run(read_topic("orders")).path_of(0)


@pytest.mark.parametrize("idle", [False, True])
def test_a_trimmer_killed_anywhere_loses_nothing(idle: bool) -> None:
    clean = one_town()
    where = the_where(clean)
    log = clean.log(where)
    for site in killed_at_every_step(one_town, lambda site: trim_lane(site.lane(), idle=idle)):
        assert site.log(where) == log
        site.trim(idle=True)
        assert head(site).floor >= 9
        site.pass_ms(GRACE_MS)
        site.reap()
        assert site.log(where) == log
        assert spans(site.fill(site.lane(), where, 1))[-1] == (18, 20)


def trimmed_town() -> Site:
    site = one_town()
    site.trim(idle=True)
    site.pass_ms(GRACE_MS)
    return site


def test_a_reaper_killed_anywhere_loses_nothing() -> None:
    clean = one_town()
    where = the_where(clean)
    log = clean.log(where)
    for site in killed_at_every_step(trimmed_town, lambda site: reap_lane(site.lane())):
        assert site.log(where) == log
        site.reap()
        assert bundles(site) == [9]
        assert site.log(where) == log
        assert spans(site.fill(site.lane(), where, 1))[-1] == (18, 20)


def test_a_reaper_whose_list_is_old_deletes_nothing_that_counts(
    site: Site, where: PartitionPath
) -> None:
    lane = site.lane()
    log = sealed_and_trimmed(site, where)
    site.pass_ms(GRACE_MS)
    more = then(site, ListPage, "lanes/0000/", lambda: site.fill(lane, where, 2))
    site.reap(more)
    assert site.log(where)[:10] == log
    assert len(site.log(where)) == 12


def test_the_floor_rises_however_much_others_append_meanwhile() -> None:
    """A seal on Spark takes a while: its lane knows more by then than its backlog."""
    site = Site()
    where = site.topic().path_of(0)
    site.fill(site.lane(), where, 10)
    site.seal()
    lane = site.lane()
    backlog = site.run(read_backlog(lane, 4096))
    assert backlog is not None
    site.fill(site.lane(), where, 12)
    site.run(probe(lane))
    catalog = catalog_of(site.run(list_topics()))
    assert site.run(trim(lane, backlog, catalog)) == Trimmed(0, 7)
