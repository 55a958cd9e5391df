"""Seal: what was in the journal is in segments, byte for byte, whoever dies or races."""

import re
from typing import Any

import pytest

from lakelog.catalog import Topic, delete_topic, list_topics, read_topic
from lakelog.errors import CorruptError, UnavailableError
from lakelog.formats import FORMATS, kafkalog, kafs
from lakelog.journal import append, new_append
from lakelog.maintenance import (
    Sealed,
    SealSettings,
    catalog_of,
    plan_seal,
    read_backlog,
    seal_batch,
)
from lakelog.manifests import PartitionPath, change_manifest, changes
from lakelog.names import manifest_key, segment_stem
from lakelog.records import Codec, decode_header
from lakelog.store import Delete, Get, GetRange, Op, PutIfAbsent, PutIfMatch
from tests.segments import Store, walk_files
from tests.unit.log.site import (
    EPOCH_MS,
    GRACE_MS,
    Site,
    counting,
    cut,
    first,
    get_key,
    killed_at_every_step,
    lose_answer,
    packed,
    seal,
    spans,
    then,
    trim_lane,
    unplaced,
)

SMALL = SealSettings(group_bytes=700, segment_bytes=300)


@pytest.fixture
def site() -> Site:
    return Site()


@pytest.fixture
def where(site: Site) -> PartitionPath:
    return site.topic().path_of(0)


def only_history(site: Site) -> None:
    """Take the journal away, so that reading shows what was sealed."""
    site.trim(idle=True)
    site.pass_ms(GRACE_MS)
    site.reap()


def busy(site: Site) -> tuple[list[PartitionPath], dict[PartitionPath, list[bytes]]]:
    """Two topics, seven partitions, every codec, idempotent and plain, large and small."""
    topics = [site.topic("a", partitions=4), site.topic("b", partitions=3)]
    wheres = [topic.path_of(at) for topic in topics for at in range(topic.partitions)]
    sent: dict[PartitionPath, list[bytes]] = {where: [] for where in wheres}
    for turn in range(9):
        lane = site.lane()
        requests = []
        for at, where in enumerate(wheres):
            if (turn + at) % 3 == 2:
                continue
            some = [packed(Codec((turn + at) % 5), 10 * turn + at, values=1 + at)]
            if at == 1:
                some = [site.batch(2, producer=(77, 0, 2 * len(sent[where])))]
            if at == 2:
                some += [site.batch(1), site.batch(3)]
            sent[where] += some
            requests += [new_append(*where.topic_partition, one) for one in some]
        site.run(append(lane, requests))
    return wheres, sent


# ---------------------------------------------------------------------------- bytes


@pytest.mark.parametrize("settings", [SealSettings(), SMALL], ids=["large", "small"])
def test_what_comes_out_is_what_went_in(site: Site, settings: SealSettings) -> None:
    wheres, sent = busy(site)
    before = {where: site.log(where) for where in wheres}
    done = site.seal(settings)
    only_history(site)
    assert not [key for key in site.objects("_lakelog/lanes/0000/") if key.endswith("0.bundle")]
    for where in wheres:
        log = site.log(where)
        assert log == before[where]
        assert unplaced(log) == unplaced(sent[where])
        assert site.manifest(where).sealed_end == spans(log)[-1][1]
    rows = [row for where in wheres for row in site.manifest(where).segments]
    assert done.segments == len(rows)
    assert done.size_bytes == sum(row.length for row in rows)
    counts = [decode_header(batch).count for where in wheres for batch in before[where]]
    assert done.records == sum(counts)
    if settings is SMALL:
        assert max(len(site.manifest(where).segments) for where in wheres) > 2


@pytest.mark.parametrize("settings", [SealSettings(), SMALL], ids=["large", "small"])
def test_every_segment_is_sound_and_its_row_says_what_it_is(
    site: Site, settings: SealSettings
) -> None:
    wheres, _ = busy(site)
    logs = {where: site.log(where) for where in wheres}
    site.seal(settings)
    for where in wheres:
        for row in site.manifest(where).segments:
            stem = where.prefix + row.name
            suffixes = (".kfs", ".index", ".timeindex")
            files = {suffix: get_key(site, stem + suffix) for suffix in suffixes}
            kafs_files = {suffix: files[suffix] for suffix in (".kfs", ".index")}
            walked = walk_files(FORMATS["kafs"], Store(kafs_files), base_offset=row.base_offset)
            assert not walked.damages
            inside = [
                batch
                for batch in logs[where]
                if row.base_offset <= decode_header(batch).base_offset < row.next_offset
            ]
            headers = [decode_header(batch) for batch in inside]
            assert b"".join(inside) == files[".kfs"][kafs.HEADER_BYTES : -kafs.FOOTER_BYTES]
            assert (row.position, row.length) == (0, len(files[".kfs"]))
            assert row.records == sum(header.count for header in headers)
            assert row.min_timestamp == min(header.base_timestamp for header in headers)
            assert row.max_timestamp == max(header.max_timestamp for header in headers)
            assert row.codecs == sum({1 << header.codec for header in headers})
            assert row.appended_ms == EPOCH_MS
            assert row.generation == 0


def test_the_indexes_find_what_is_there(site: Site, where: PartitionPath) -> None:
    lane = site.lane()
    for _ in range(60):
        site.pass_ms(1000)
        site.append(lane, where, site.batch(10))
    log = site.log(where)
    site.seal()
    (row,) = site.manifest(where).segments
    stem = where.prefix + row.name
    body = get_key(site, stem + ".kfs")
    index = kafs.decode_index(get_key(site, stem + ".index"))
    assert len(index) == 6
    for offset in range(600):
        header = decode_header(body, index.position(offset))
        assert offset - 100 < header.base_offset <= offset
    times = kafkalog.decode_time_index(get_key(site, stem + ".timeindex"), base_offset=0)
    assert len(times) > 0
    for header in map(decode_header, log):
        before = times.offset(header.max_timestamp)
        assert before <= header.base_offset
    entries = {entry.timestamp: entry.offset for entry in times}
    for header in map(decode_header, log):
        if header.max_timestamp in entries:
            assert entries[header.max_timestamp] == header.next_offset - 1


def test_a_second_run_does_nothing(site: Site) -> None:
    busy(site)
    site.seal(SMALL)
    before = site.objects()
    assert site.seal(SMALL) == Sealed()
    assert site.objects() == before


def test_what_comes_later_goes_behind(site: Site, where: PartitionPath) -> None:
    lane = site.lane()
    for _ in range(3):
        site.fill(lane, where, 2)
        assert site.seal().segments == 1
    rows = site.manifest(where).segments
    assert [(row.base_offset, row.next_offset) for row in rows] == [(0, 4), (4, 8), (8, 12)]
    assert [row.name for row in rows] == [segment_stem(base) for base in (0, 4, 8)]
    assert len(site.log(where)) == 6


# ---------------------------------------------------------------------------- races


def same_history(site: Site, where: PartitionPath, log: list[bytes]) -> None:
    """The manifest tiles the log, and history alone gives it back."""
    manifest = site.manifest(where)
    end = manifest.log_start
    for row in manifest.segments:
        assert row.base_offset == end
        end = row.next_offset
    assert end == manifest.sealed_end == spans(log)[-1][1]
    assert not manifest.intents
    only_history(site)
    assert site.log(where) == log


STEPS = [
    (Get, "manifest", 1), (PutIfMatch, "manifest", 1), (PutIfAbsent, "manifest", 1),
    (GetRange, ".bundle", 1), (Get, "head", 3), (PutIfAbsent, ".kfs", 1), (Get, ".kfs", 1),
    (PutIfAbsent, ".index", 1), (PutIfAbsent, ".timeindex", 1), (Get, "/manifest", 3),
]  # fmt: skip


@pytest.mark.parametrize("acts", [first, then])
@pytest.mark.parametrize(("kind", "end", "nth"), STEPS)
def test_two_sealers_at_once_give_one_history(
    site: Site, where: PartitionPath, kind: type, end: str, nth: int, acts: type
) -> None:
    """One does all of it between two steps of the other."""
    log = site.fill(site.lane(), where, 7)
    others: list[Sealed] = []
    perform = acts(site, kind, end, lambda: others.append(site.seal(SMALL)), nth=nth)
    mine = site.seal(SMALL, perform)
    assert len(others) == 1
    assert (mine.records, others[0].records) in ((14, 0), (0, 14))
    # Whoever lost has left an intent, or none; the sweep takes it.
    site.pass_ms(2 * GRACE_MS)
    site.sweep(where)
    same_history(site, where, log)


def test_a_sealer_that_knew_less_does_not_cut_history_short(
    site: Site, where: PartitionPath
) -> None:
    """It planned before more came, and commits after somebody has sealed that too."""
    lane = site.lane()
    site.fill(lane, where, 3)

    def more() -> None:
        site.fill(lane, where, 3)
        assert site.seal().records == 12

    assert site.seal(perform=first(site, PutIfAbsent, ".kfs", more)) == Sealed(abandoned=1)
    assert site.manifest(where).sealed_end == 12
    assert len(site.log(where)) == 6


def test_when_the_floor_rose_meanwhile_nothing_is_committed(site: Site) -> None:
    """What was read may be a key that was deleted and made again: the head-check rule."""
    topic = site.topic(partitions=2)
    a, b = topic.path_of(0), topic.path_of(1)
    lane = site.lane()
    for where in (a, b):
        site.fill(lane, where, 3)

    def moved() -> None:
        site.seal()
        only_history(site)

    before = site.log(a)
    mine = site.seal(perform=then(site, GetRange, ".bundle", moved))
    assert mine == Sealed(abandoned=2)
    assert site.manifest(a).sealed_end == 6
    assert site.log(a) == before


def test_a_bundle_that_went_meanwhile_is_no_error(site: Site, where: PartitionPath) -> None:
    log = site.fill(site.lane(), where, 3)

    def moved() -> None:
        site.seal()
        only_history(site)

    assert site.seal(perform=first(site, GetRange, ".bundle", moved)) == Sealed(abandoned=1)
    assert site.log(where) == log


# ---------------------------------------------------------------------------- killed


def small_town() -> Site:
    site = Site()
    topic = site.topic(partitions=2)
    lane = site.lane()
    for turn in range(4):
        site.append(lane, topic.path_of(turn % 2), site.batch(1 + turn))
    return site


def the_topic(site: Site) -> Topic:
    return site.run(read_topic("orders"))


def test_killed_anywhere_nothing_is_lost_and_the_next_run_finishes() -> None:
    clean = small_town()
    wheres = [the_topic(clean).path_of(at) for at in range(2)]
    logs = {where: clean.log(where) for where in wheres}
    tried = 0
    for site in killed_at_every_step(small_town, lambda site: seal(site.lane(), SMALL)):
        tried += 1
        for where in wheres:
            assert site.log(where) == logs[where]
        site.seal(SMALL)
        for where in wheres:
            assert site.log(where) == logs[where]
        site.pass_ms(2 * GRACE_MS)
        for where in wheres:
            site.sweep(where)
            assert site.log(where) == logs[where]
        for where in wheres:
            same_history(site, where, logs[where])
            named = site.manifest(where).names()
            assert {name.partition(".")[0] for name in site.names(where)} == named
            assert len(site.names(where)) == 3 * len(named)
    assert tried > 25


LOST = [
    (PutIfAbsent, "manifest"), (PutIfMatch, "manifest"), (PutIfAbsent, ".kfs"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "end"), LOST)
def test_a_lost_answer_is_not_a_second_history(
    site: Site, where: PartitionPath, kind: type, end: str
) -> None:
    log = site.fill(site.lane(), where, 5)
    done = site.seal(SMALL, lose_answer(site, kind, end))
    assert (done.records, done.abandoned) == (10, 0)
    same_history(site, where, log)


def test_indexes_that_the_store_does_not_take_hold_up_no_partition_of_the_group(site: Site) -> None:
    topic = site.topic(partitions=16)
    logs = {where: site.fill(site.lane(), where, 2) for where in map(topic.path_of, range(16))}

    def perform(op: Op) -> Any:
        if isinstance(op, PutIfAbsent) and op.key.endswith(("0.index", ".timeindex")):
            raise UnavailableError("503 Slow Down")
        return site.perform(op)

    done = site.seal(perform=perform)
    assert (done.segments, done.abandoned) == (16, 0)
    for where, log in logs.items():
        assert site.names(where) == {segment_stem(0) + ".kfs"}
        assert site.log(where) == log


# ---------------------------------------------------------------------------- names

OWN = re.compile(r"segment-\d{20}-[0-9a-f]{32}")


def test_a_name_that_is_taken_is_not_adopted(site: Site, where: PartitionPath) -> None:
    log = site.fill(site.lane(), where, 3)
    key = f"{where.prefix}{segment_stem(0)}.kfs"
    site.perform(PutIfAbsent(key, b"somebody else's"))
    site.seal()
    (row,) = site.manifest(where).segments
    assert OWN.fullmatch(row.name)
    assert get_key(site, key) == b"somebody else's"
    same_history(site, where, log)


def test_a_name_whose_answer_was_lost_is_not_adopted(site: Site, where: PartitionPath) -> None:
    """It may be ours, and may be on its way still; another name is as good."""
    log = site.fill(site.lane(), where, 3)
    site.seal(perform=lose_answer(site, PutIfAbsent, ".kfs"))
    (row,) = site.manifest(where).segments
    assert OWN.fullmatch(row.name)
    same_history(site, where, log)


def test_where_plain_names_are_burnt_none_is_used(site: Site, where: PartitionPath) -> None:
    log = site.fill(site.lane(), where, 3)
    write = site.id().hex()
    site.run(change_manifest(where, write, lambda now: changes.burn(now, write)))
    site.seal()
    (row,) = site.manifest(where).segments
    assert OWN.fullmatch(row.name)
    assert not any(segment_stem(0) + "." in name for name in site.names(where))
    same_history(site, where, log)


def test_a_segment_that_reads_back_otherwise_is_not_named(site: Site, where: PartitionPath) -> None:
    log = site.fill(site.lane(), where, 3)
    key = f"{where.prefix}{segment_stem(0)}.kfs"

    def rot() -> None:
        body = bytearray(get_key(site, key))
        body[100] ^= 1
        site.replace(key, bytes(body))

    with pytest.raises(CorruptError, match="reads back"):
        site.seal(perform=then(site, PutIfAbsent, ".kfs", rot))
    assert site.manifest(where).sealed_end == 0
    assert site.log(where) == log


# ---------------------------------------------------------------------------- start ahead of it


def test_what_nobody_may_read_is_passed_over_without_bytes(
    site: Site, where: PartitionPath
) -> None:
    lane = site.lane()
    log = site.fill(lane, where, 5)
    site.delete_records(where, 6)
    site.seal()
    manifest = site.manifest(where)
    assert [row.base_offset for row in manifest.segments] == [6]
    assert manifest.sealed_end == 10
    same_history(site, where, log[3:])


def test_when_nobody_may_read_any_of_it_history_ends_there_without_rows(
    site: Site, where: PartitionPath
) -> None:
    site.fill(site.lane(), where, 5)
    site.delete_records(where, 10)
    assert site.seal() == Sealed()
    manifest = site.manifest(where)
    assert (manifest.sealed_end, manifest.segments) == (10, ())
    assert site.names(where) == set()
    only_history(site)
    assert site.fill(site.lane(), where, 1) == site.log(where)
    assert spans(site.log(where)) == [(10, 12)]
    assert site.seal().records == 2


def test_a_slice_that_straddles_the_start_is_written_whole(
    site: Site, where: PartitionPath
) -> None:
    log = site.fill(site.lane(), where, 5, count=4)
    site.delete_records(where, 6)
    site.seal()
    manifest = site.manifest(where)
    assert [(row.base_offset, row.next_offset) for row in manifest.segments] == [(4, 20)]
    only_history(site)
    assert site.log(where) == log[1:]
    assert cut(site.read(where, 6, 1).body) == [log[1]]


def test_a_start_far_ahead_is_waited_for(site: Site, where: PartitionPath) -> None:
    """Kafka would refuse it; if it stands there, what comes is passed over until it is reached."""
    lane = site.lane()
    site.fill(lane, where, 2)
    site.delete_records(where, 6)
    site.seal()
    assert site.manifest(where).sealed_end == 4
    site.append(lane, where, site.batch(), site.batch(), site.batch())
    site.seal()
    manifest = site.manifest(where)
    assert [(row.base_offset, row.next_offset) for row in manifest.segments] == [(6, 10)]
    assert spans(site.log(where)) == [(6, 8), (8, 10)]


def test_what_was_trimmed_because_nobody_may_read_it_does_not_stop_the_sealer(
    site: Site, where: PartitionPath
) -> None:
    """The floor may pass what lies before the start before any sealer has seen it."""
    lane = site.lane()
    site.fill(lane, where, 5)
    site.delete_records(where, 10)
    site.run(trim_lane(site.lane(), idle=True))
    site.pass_ms(GRACE_MS)
    assert site.reap() > 0
    assert site.manifest(where).sealed_end == 0
    log = site.fill(lane, where, 3)
    assert spans(log) == [(10, 12), (12, 14), (14, 16)]
    assert site.seal().records == 6
    same_history(site, where, log)


def test_a_hole_before_what_may_be_read_stops_the_sealer(site: Site, where: PartitionPath) -> None:
    """Never skip: a floor that rose over what was not sealed is for people to look at."""
    lane = site.lane()
    site.fill(lane, where, 5)
    site.delete_records(where, 10)
    site.run(trim_lane(site.lane(), idle=True))
    key = manifest_key(where.path, where.partition)
    was = get_key(site, key).replace(b'"log_start":10', b'"log_start":9')
    site.replace(key, was)
    site.append(lane, where, site.batch())
    with pytest.raises(CorruptError, match="history ends at 0, the journal begins at 10"):
        site.seal()


# ---------------------------------------------------------------------------- plans


def test_a_group_is_one_range_of_every_bundle(site: Site) -> None:
    wheres, _ = busy(site)
    seen, perform = counting(site)
    site.seal(SealSettings(), perform)
    bundles = [key for key in site.objects("_lakelog/lanes/") if key.endswith(".bundle")]
    ranges = [op for op in seen if isinstance(op, GetRange) and op.key.endswith(".bundle")]
    assert sorted(op.key for op in ranges) == bundles
    assert all(site.manifest(where).sealed_end for where in wheres)


def test_a_deleted_topic_is_not_sealed(site: Site, where: PartitionPath) -> None:
    """Not even announced: it would be bytes written to be swept."""
    site.fill(site.lane(), where, 3)
    site.run(delete_topic("orders", where.topic, site.id(), now_ms=site.now_ms))
    assert site.seal() == Sealed()
    assert set(site.objects(where.prefix)) == set()


def test_a_topic_that_nobody_knows_is_left_in_the_journal(site: Site, where: PartitionPath) -> None:
    site.fill(site.lane(), where, 3)
    site.perform(Delete("_lakelog/topics/orders"))
    assert site.seal() == Sealed()
    assert site.names(where) == set()


def test_a_large_partition_is_sealed_in_parts_one_after_the_other(site: Site) -> None:
    where = site.topic().path_of(0)
    log = site.fill(site.lane(), where, 9)
    size = len(log[0])
    settings = SealSettings(group_bytes=3 * size, segment_bytes=1 << 20)
    backlog = site.run(read_backlog(site.lane(), 4096))
    assert backlog is not None
    groups = plan_seal(backlog, catalog_of(site.run(list_topics())), settings)
    assert [(len(group.bundles), group.follows) for group in groups] == [
        (3, False),
        (3, True),
        (3, True),
    ]
    lane = site.lane()
    flow = seal_batch(lane, groups[1], settings, floor=0, since_ms=site.now_ms)
    assert site.run(flow) == Sealed()  # It is not its turn.
    site.seal(settings)
    assert site.log(where) == log
    assert [row.base_offset for row in site.manifest(where).segments] == [0, 6, 12]
