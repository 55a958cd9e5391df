"""Sweep: what no manifest names goes; what somebody has announced, or may still read, stays."""

from typing import Any

import pytest

from lakelog.maintenance import Sealed, SealSettings
from lakelog.manifests import Intent, PartitionPath, change_manifest, changes
from lakelog.names import segment_stem
from lakelog.store import Delete, Get, ListPage, Op, PutIfAbsent
from tests.unit.log.site import (
    GRACE_MS,
    Dying,
    Killed,
    Paused,
    Site,
    first,
    get_key,
    killed_at_every_step,
    seal,
    sweep,
    then,
)

OLD = "segment-" + "0" * 20


@pytest.fixture
def site() -> Site:
    return Site()


@pytest.fixture
def where(site: Site) -> PartitionPath:
    return site.topic().path_of(0)


def orphan(site: Site, where: PartitionPath, stem: str = OLD) -> set[str]:
    names = {stem + suffix for suffix in (".kfs", ".index", ".timeindex")}
    for name in names:
        site.perform(PutIfAbsent(where.prefix + name, b"left over"))
    return names


def announce(site: Site, where: PartitionPath, base: int = 0, next_: int = 10) -> str:
    write = site.id().hex()
    intent = Intent(write, "seal", base, next_, site.now_ms)
    site.run(change_manifest(where, write + ":begin", lambda now: changes.begin(now, intent)))
    return write


# ---------------------------------------------------------------------------- orphans


def test_what_nobody_names_goes_after_the_grace(site: Site, where: PartitionPath) -> None:
    orphan(site, where)
    orphan(site, where, f"{OLD}-{'a' * 32}")
    site.perform(PutIfAbsent(f"{where.prefix}page-{'b' * 32}.json", b"{}"))
    site.pass_ms(GRACE_MS - 1)
    assert site.sweep(where) == 0
    site.pass_ms(1)
    assert site.sweep(where) == 7
    assert site.names(where) == set()


def test_what_the_manifest_names_stays_for_ever(site: Site, where: PartitionPath) -> None:
    log = site.fill(site.lane(), where, 5)
    site.seal()
    before = site.names(where)
    site.pass_ms(1000 * GRACE_MS)
    assert site.sweep(where) == 0
    assert site.names(where) == before
    assert site.log(where) == log


def test_what_is_not_ours_is_left_alone(site: Site, where: PartitionPath) -> None:
    foreign = {
        "readme.txt", "segment-7.kfs", "segment-x.kfs", "00000000000000000000.log", "page-1.json",
        f"segment-{0:020}", f"segment-{0:020}.kfs.tmp", f"segment-{0:020}-abc.kfs",
        f"segment-{0:020}-{'A' * 32}.kfs", "manifest.bak", "deeper/" + OLD + ".kfs",
        OLD + ".parquet", f"page-{'a' * 32}.html",
    }  # fmt: skip
    for name in foreign:
        site.perform(PutIfAbsent(where.prefix + name, b"?"))
    site.pass_ms(1000 * GRACE_MS)
    assert site.sweep(where) == 0
    assert site.names(where) == foreign


def test_another_partition_is_another_folder(site: Site) -> None:
    topic = site.topic(partitions=11)
    for partition in (1, 10):
        orphan(site, topic.path_of(partition))
    site.pass_ms(GRACE_MS)
    assert site.sweep(topic.path_of(1)) == 3
    assert len(site.names(topic.path_of(10))) == 3


def test_of_a_segment_the_indexes_go_first(site: Site, where: PartitionPath) -> None:
    """While the segment is there its name is taken."""
    orphan(site, where)
    site.pass_ms(GRACE_MS)
    deleted: list[str] = []

    def perform(op: Op) -> Any:
        if isinstance(op, Delete):
            deleted.append(op.key)
        return site.perform(op)

    site.sweep(where, perform)
    assert [key.rpartition(".")[2] for key in deleted] == ["index", "timeindex", "kfs"]


# ---------------------------------------------------------------------------- intents


def test_what_is_announced_stays(site: Site, where: PartitionPath) -> None:
    orphan(site, where)
    site.pass_ms(10 * GRACE_MS)
    announce(site, where)
    assert site.sweep(where) == 0
    assert len(site.names(where)) == 3


def test_an_intent_covers_its_own_offsets_and_names(site: Site, where: PartitionPath) -> None:
    write = announce(site, where, 10, 20)
    inside = orphan(site, where, segment_stem(10)) | orphan(site, where, segment_stem(19))
    inside |= orphan(site, where, f"{segment_stem(500)}-{write}")
    orphan(site, where, segment_stem(9))
    orphan(site, where, segment_stem(20))
    orphan(site, where, f"{segment_stem(10)}-{'c' * 32}")
    site.pass_ms(GRACE_MS)
    later = site.id().hex()
    renewed = Intent(write, "seal", 10, 20, site.now_ms)
    site.run(
        change_manifest(
            where,
            later,
            lambda now: now.next(later, intents=(renewed,)),
        )
    )
    assert site.sweep(where) == 9
    assert site.names(where) == inside


def test_an_old_intent_is_cancelled_and_its_writer_cannot_commit(
    site: Site, where: PartitionPath
) -> None:
    """A sealer sleeps for longer than the grace, just before it commits."""
    log = site.fill(site.lane(), where, 3)

    def long_sleep() -> None:
        site.pass_ms(GRACE_MS)
        assert site.sweep(where) == 3
        assert site.manifest(where).intents == ()

    # The third time that it reads the manifest is for the commit.
    asleep = first(site, Get, "/manifest", long_sleep, nth=3)
    assert site.seal(perform=asleep) == Sealed(abandoned=1)
    assert site.manifest(where).segments == ()
    assert site.names(where) == set()
    assert site.log(where) == log
    assert site.seal().records == 6
    assert site.log(where) == log


def test_a_sealer_that_slept_before_it_wrote_leaves_an_orphan_and_no_row(
    site: Site, where: PartitionPath
) -> None:
    log = site.fill(site.lane(), where, 3)

    def long_sleep() -> None:
        site.pass_ms(GRACE_MS)
        site.sweep(where)
        assert site.manifest(where).intents == ()
        assert site.seal().records == 6

    asleep = first(site, PutIfAbsent, ".kfs", long_sleep)
    assert site.seal(perform=asleep).records == 0
    assert len(site.manifest(where).segments) == 1
    site.pass_ms(GRACE_MS)
    assert site.sweep(where) == 3
    assert site.log(where) == log


def test_an_intent_that_has_written_nothing_is_cancelled_too(
    site: Site, where: PartitionPath
) -> None:
    """Else each sealer that dies early leaves one more, for ever."""
    for _ in range(3):
        announce(site, where)
    site.pass_ms(GRACE_MS)
    site.sweep(where)
    assert site.manifest(where).intents == ()


def test_a_young_intent_is_not_cancelled(site: Site, where: PartitionPath) -> None:
    announce(site, where)
    site.pass_ms(GRACE_MS - 1)
    orphan(site, where, segment_stem(99))
    site.sweep(where)
    assert len(site.manifest(where).intents) == 1


# ---------------------------------------------------------------------------- plain names


def test_before_a_plain_name_goes_such_names_are_burnt(site: Site, where: PartitionPath) -> None:
    orphan(site, where)
    site.pass_ms(GRACE_MS)
    seen: list[bool] = []
    check = first(site, Delete, ".index", lambda: seen.append(site.manifest(where).burnt))
    site.sweep(where, check)
    assert seen == [True]


def test_names_of_their_own_and_pages_burn_nothing(site: Site, where: PartitionPath) -> None:
    orphan(site, where, f"{OLD}-{'a' * 32}")
    site.perform(PutIfAbsent(f"{where.prefix}page-{'b' * 32}.json", b"{}"))
    site.pass_ms(GRACE_MS)
    assert site.sweep(where) == 4
    assert not site.manifest(where).burnt


def test_segments_that_were_dropped_burn_nothing(site: Site, where: PartitionPath) -> None:
    """History has passed them: nobody can commit a new one at their offsets."""
    site.fill(site.lane(), where, 2)
    site.seal()
    drop(site, where, 4)
    assert site.sweep(where) == 0
    site.pass_ms(GRACE_MS)
    assert site.sweep(where) == 3
    assert not site.manifest(where).burnt


@pytest.mark.parametrize("kind", [Get, Delete], ids=["before it was burnt", "before it went"])
def test_a_late_delete_of_a_plain_name_cannot_hurt(
    site: Site, where: PartitionPath, kind: type
) -> None:
    """The sweeper's request arrives when somebody else has sealed in between."""
    log = site.fill(site.lane(), where, 3)
    with pytest.raises(Killed):
        site.seal(perform=_die_behind(site, ".timeindex"))
    site.pass_ms(GRACE_MS)
    site.sweep(where)  # Cancels the intent; what it announced is as old as that, and goes.
    orphan(site, where)
    site.pass_ms(GRACE_MS)
    end = "/manifest" if kind is Get else ".index"

    def others() -> None:
        assert site.seal().records == 6

    late: list[Op] = []

    def perform(op: Op) -> Any:
        if isinstance(op, Delete):
            late.append(op)
        return between(op)

    between = first(site, kind, end, others)
    site.sweep(where, perform)
    for op in late:  # Each of them arrives once more, much later.
        site.perform(op)
    assert site.log(where) == log
    only = {row.name for row in site.manifest(where).segments}
    assert {name.partition(".")[0] for name in site.names(where)} >= only
    for name in only:
        assert get_key(site, f"{where.prefix}{name}.kfs")


def test_who_began_before_the_names_were_burnt_keeps_what_it_announced(
    site: Site, where: PartitionPath
) -> None:
    """It may use a plain name still; so the sweeper looks at the intents after burning."""
    log = site.fill(site.lane(), where, 3)
    orphan(site, where)
    site.pass_ms(GRACE_MS)
    sealer: list[Paused[Sealed]] = []

    def begin() -> None:
        sealer.append(Paused(site, seal(site.lane(), SealSettings()), PutIfAbsent, ".kfs"))

    late: list[Op] = []
    behind = then(site, Get, "/manifest", begin)

    def perform(op: Op) -> Any:
        if isinstance(op, Delete):
            late.append(op)
        return behind(op)

    site.sweep(where, perform)
    assert site.manifest(where).burnt
    assert sealer[0].finish().records == 6
    for op in late:
        site.perform(op)
    assert site.log(where) == log


def _die_behind(site: Site, end: str) -> Any:
    def perform(op: Op) -> Any:
        answer = site.perform(op)
        if isinstance(op, PutIfAbsent) and op.key.endswith(end):
            raise Killed
        return answer

    return perform


# ---------------------------------------------------------------------------- dropped


def drop(site: Site, where: PartitionPath, start: int) -> None:
    site.delete_records(where, start)
    write = site.id().hex()
    site.run(change_manifest(where, write, lambda now: changes.drop(now, write, {})))


def test_what_was_dropped_waits_for_the_grace(site: Site, where: PartitionPath) -> None:
    """From when that was noticed, however old it is: somebody may have read the row before."""
    site.fill(site.lane(), where, 4)
    site.seal(SealSettings(segment_bytes=1))
    site.pass_ms(100 * GRACE_MS)
    drop(site, where, 4)
    assert len(site.manifest(where).dropped) == 2
    site.pass_ms(100 * GRACE_MS)
    assert site.sweep(where) == 0
    site.pass_ms(GRACE_MS - 1)
    assert site.sweep(where) == 0
    site.pass_ms(1)
    assert site.sweep(where) == 6
    assert site.manifest(where).dropped == ()
    assert len(site.names(where)) == 6
    assert len(site.log(where)) == 2


def test_killed_anywhere_it_deletes_nothing_that_counts_and_the_next_finishes() -> None:
    wheres: list[PartitionPath] = []

    def make() -> Site:
        site = Site()
        wheres[:] = [site.topic().path_of(0)]
        where = wheres[0]
        site.fill(site.lane(), where, 4)
        site.seal(SealSettings(segment_bytes=1))
        drop(site, where, 4)
        site.sweep(where)
        orphan(site, where, segment_stem(77))
        announce(site, where)
        site.pass_ms(GRACE_MS)
        return site

    def flow(site: Site) -> Any:
        return sweep(wheres[0], site.id, now_ms=site.now_ms, grace_ms=GRACE_MS)

    for site in killed_at_every_step(make, flow):
        where = wheres[0]
        assert len(site.log(where)) == 2
        site.sweep(where)
        after = site.manifest(where)
        assert (after.dropped, after.intents, after.burnt) == ((), (), True)
        assert len(site.names(where)) == 6
        assert len(site.log(where)) == 2


def test_killed_before_it_wrote_down_what_is_gone_it_is_written_down_later(
    site: Site, where: PartitionPath
) -> None:
    """Also when nothing at all is left beside the manifest."""
    site.fill(site.lane(), where, 2)
    site.seal()
    drop(site, where, 4)
    site.sweep(where)
    site.pass_ms(GRACE_MS)
    with pytest.raises(Killed):
        site.sweep(where, Dying(site, 2 + 3))
    assert site.names(where) == set()
    assert len(site.manifest(where).dropped) == 1
    site.sweep(where)
    assert site.manifest(where).dropped == ()


def test_what_is_sealed_while_it_lists_is_not_touched(site: Site, where: PartitionPath) -> None:
    log = site.fill(site.lane(), where, 3)
    site.pass_ms(GRACE_MS)

    assert site.sweep(where, first(site, ListPage, "", site.seal)) == 0
    assert site.log(where) == log
