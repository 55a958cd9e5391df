"""Whoever reads the log cannot tell where it lies: in bundles, in segments, or in both."""

from collections.abc import Callable

import pytest

from lakelog.catalog import delete_topic
from lakelog.errors import CorruptError, NotFoundError, UnavailableError, UnsupportedError
from lakelog.formats import batches, kafs
from lakelog.journal import DeleteTopic, append, new_append
from lakelog.log import Bounds, Chunk, OutOfRange, bounds, read
from lakelog.maintenance import SealSettings, retain_partition
from lakelog.manifests import PartitionPath
from lakelog.names import bundle_key
from lakelog.records import decode_header
from lakelog.store import Delete, Get, GetRange, GetSuffix, PutIfAbsent
from tests.unit.log.site import (
    GRACE_MS,
    Perform,
    Site,
    counting,
    cut,
    first,
    spans,
    then,
    unplaced,
)

SMALL = SealSettings(segment_bytes=300)


@pytest.fixture
def site() -> Site:
    return Site()


@pytest.fixture
def where(site: Site) -> PartitionPath:
    return site.topic().path_of(0)


def gone_from_the_journal(site: Site) -> None:
    """Seal all, raise the floor over it, and delete what lies below."""
    site.seal(SMALL)
    site.trim(idle=True)
    site.pass_ms(GRACE_MS)
    assert site.reap() > 0


def half_sealed(site: Site, where: PartitionPath) -> list[bytes]:
    lane = site.lane()
    site.fill(lane, where, 6)
    site.seal(SMALL)
    return site.fill(lane, where, 5)


MAKE: dict[str, Callable[[Site, PartitionPath], list[bytes]]] = {
    "journal": lambda site, where: site.fill(site.lane(), where, 11),
    "both": half_sealed,
}


def history(site: Site, where: PartitionPath) -> list[bytes]:
    log = site.fill(site.lane(), where, 11)
    gone_from_the_journal(site)
    return log


MAKE["history"] = history
everywhere = pytest.mark.parametrize("made", MAKE)


@everywhere
def test_every_offset_is_answered_by_the_batch_that_holds_it(
    site: Site, where: PartitionPath, made: str
) -> None:
    log = MAKE[made](site, where)
    assert [span[1] - span[0] for span in spans(log)] == [2] * 11
    for offset in range(22):
        chunk = site.read(where, offset)
        assert chunk.base_offset == offset - offset % 2
        assert cut(chunk.body) == log[offset // 2 :][: len(cut(chunk.body))]
        assert chunk.next_offset == spans(cut(chunk.body))[-1][1]
        assert chunk.bounds == Bounds(0, 22)


@everywhere
def test_with_little_room_one_batch_comes_and_then_the_next(
    site: Site, where: PartitionPath, made: str
) -> None:
    log = MAKE[made](site, where)
    assert site.log(where, most=1) == log
    for offset in range(22):
        assert cut(site.read(where, offset, 1).body) == [log[offset // 2]]


@everywhere
def test_no_more_comes_than_there_is_room_for(site: Site, where: PartitionPath, made: str) -> None:
    log = MAKE[made](site, where)
    size = len(log[0])
    for most in (size, 2 * size - 1, 2 * size, 5 * size + 3):
        assert len(site.read(where, 0, most).body) <= most
        assert site.log(where, most=most) == log


def test_a_large_batch_on_the_way_makes_no_larger_answer(site: Site, where: PartitionPath) -> None:
    lane = site.lane()
    site.append(lane, where, site.batch(60), *(site.batch(1) for _ in range(30)))
    site.seal()
    chunk = site.read(where, 60, 100)
    assert spans(cut(chunk.body)) == [(60, 61)]


@everywhere
def test_at_the_end_there_is_nothing_and_beyond_it_no_offset(
    site: Site, where: PartitionPath, made: str
) -> None:
    MAKE[made](site, where)
    chunk = site.read(where, 22)
    assert (chunk.base_offset, chunk.next_offset, chunk.body) == (22, 22, b"")
    for offset in (23, 1 << 62, -1):
        found = site.run(read(site.lane(), where, offset, 100))
        assert found == OutOfRange(Bounds(0, 22))


@everywhere
def test_before_the_start_there_is_no_offset(site: Site, where: PartitionPath, made: str) -> None:
    """Also when the bytes are still there."""
    log = MAKE[made](site, where)
    site.delete_records(where, 5)
    assert site.run(read(site.lane(), where, 4, 100)) == OutOfRange(Bounds(5, 22))
    assert cut(site.read(where, 5, 1).body) == [log[2]]
    assert site.log(where) == log[2:]


@everywhere
def test_a_start_ahead_of_the_end_waits_at_the_end(
    site: Site, where: PartitionPath, made: str
) -> None:
    MAKE[made](site, where)
    site.delete_records(where, 100)
    assert site.bounds(where) == Bounds(22, 22)
    assert site.read(where, 22).body == b""


@everywhere
def test_of_a_deleted_topic_nothing_is_read(site: Site, where: PartitionPath, made: str) -> None:
    MAKE[made](site, where)
    site.run(append(site.lane(), [DeleteTopic(topic=where.topic)]))
    for flow in (read(site.lane(), where, 0, 100), read(site.lane(), where, 99, 100)):
        with pytest.raises(NotFoundError, match="deleted"):
            site.run(flow)
    with pytest.raises(NotFoundError, match="deleted"):
        site.run(bounds(site.lane(), where))


def test_of_a_deleted_manifest_nothing_is_read_also_before_the_lane_is_told(
    site: Site, where: PartitionPath
) -> None:
    site.fill(site.lane(), where, 3)
    gone = site.run(delete_topic("orders", where.topic, site.id(), now_ms=site.now_ms))
    site.run(retain_partition(gone, where, site.id, now_ms=site.now_ms))
    with pytest.raises(NotFoundError, match="deleted"):
        site.read(where, 0)


def test_a_partition_that_nobody_has_written_to_is_empty(site: Site, where: PartitionPath) -> None:
    assert site.bounds(where) == Bounds(0, 0)
    assert site.read(where, 0).body == b""


def test_many_small_batches_come_in_one_answer(site: Site, where: PartitionPath) -> None:
    lane = site.lane()
    body = b"".join(site.batch(1) for _ in range(300))
    site.append(lane, where, body)
    log = cut(site.read(where, 0).body)
    assert spans(log) == [(at, at + 1) for at in range(300)]
    assert unplaced(log) == unplaced(cut(body))
    site.seal()
    assert cut(site.read(where, 0).body) == log
    for offset in (0, 99, 100, 101, 250, 299):
        assert cut(site.read(where, offset).body) == log[offset:]


# ---------------------------------------------------------------------------- equal bytes


def test_offset_and_epoch_are_the_same_from_a_bundle_and_from_a_segment(
    site: Site, where: PartitionPath
) -> None:
    """Three brokers in turn: the epoch goes up with each change."""
    for _ in range(3):
        site.fill(site.lane(), where, 3)
    before = site.log(where)
    epochs = [decode_header(batch).leader_epoch for batch in before]
    assert epochs == [0] * 3 + [1] * 3 + [2] * 3
    gone_from_the_journal(site)
    assert site.log(where) == before


# ---------------------------------------------------------------------------- the log moves


def test_a_bundle_that_goes_before_it_is_read_is_read_as_a_segment(
    site: Site, where: PartitionPath
) -> None:
    log = site.fill(site.lane(), where, 5)
    moved = first(site, GetRange, ".bundle", lambda: gone_from_the_journal(site))
    chunk = site.read(where, 3, 1, moved)
    assert cut(chunk.body) == [log[1]]
    assert bundle_key(0, 1) not in site.objects()


def test_bytes_below_a_floor_that_rose_meanwhile_are_not_served(
    site: Site, where: PartitionPath
) -> None:
    """Somebody slept, and made a deleted key anew with other bytes in it."""
    log = site.fill(site.lane(), where, 5)
    was = site.objects()[bundle_key(0, 1)]

    def moved() -> None:
        gone_from_the_journal(site)
        site.perform(
            PutIfAbsent(bundle_key(0, 1), was.replace(log[1][61:], bytes(len(log[1]) - 61)))
        )

    zombie = first(site, GetRange, ".bundle", moved)
    with pytest.raises(CorruptError):
        site.read(where, 3, 1, zombie)
    # The same with bytes that look sound: only the floor tells.
    other = Site()
    place = other.topic().path_of(0)
    log = other.fill(other.lane(), place, 5)
    was, fake = other.objects()[bundle_key(0, 1)], other.batch()

    def again() -> None:
        gone_from_the_journal(other)
        start = was.index(log[1][16:])
        forged = was[: start - 16] + fake + was[start - 16 + len(fake) :]
        other.perform(PutIfAbsent(bundle_key(0, 1), forged))

    chunk = other.read(place, 3, 1, first(other, GetRange, ".bundle", again))
    assert cut(chunk.body) == [log[1]]


def test_a_segment_that_goes_before_it_is_read_lets_the_reader_start_again(
    site: Site, where: PartitionPath
) -> None:
    """Its records have expired: the answer is that there is no such offset any more."""
    log = site.fill(site.lane(), where, 5)
    gone_from_the_journal(site)

    row = site.manifest(where).segments[0]
    end = row.next_offset

    def expire() -> None:
        site.delete_records(where, end)
        site.perform(Delete(f"{where.prefix}{row.name}.kfs"))

    lane = site.lane()
    found = site.run(read(lane, where, 0, 100), first(site, GetRange, ".kfs", expire))
    assert found == OutOfRange(Bounds(end, 10))
    assert lane.counters["read again"] == 1
    assert site.log(where) == log[end // 2 :]


def test_a_segment_that_is_lost_is_never_skipped(site: Site, where: PartitionPath) -> None:
    log = site.fill(site.lane(), where, 5)
    gone_from_the_journal(site)
    first_row = site.manifest(where).segments[0]
    site.perform(Delete(f"{where.prefix}{first_row.name}.kfs"))
    with pytest.raises(UnavailableError, match="try again"):
        site.read(where, 0)
    assert site.log_from(where, first_row.next_offset) == log[first_row.next_offset // 2 :]


@pytest.mark.parametrize(
    ("acts", "kind", "end", "nth"),
    [
        (then, GetSuffix, ".bundle", 1), (then, GetSuffix, ".bundle", 2), (first, Get, "head", 1),
        (then, Get, "head", 1), (first, Get, "/manifest", 1), (then, Get, "/manifest", 1),
    ],
)  # fmt: skip
def test_what_is_sealed_and_trimmed_between_two_looks_is_found(
    site: Site, where: PartitionPath, acts: Callable[..., Perform], kind: type, end: str, nth: int
) -> None:
    """The journal is looked at first, the manifest second: so nothing is in neither."""
    log = site.fill(site.lane(), where, 5)
    moved: list[None] = []

    def move() -> None:
        gone_from_the_journal(site)
        moved.append(None)

    chunk = site.read(where, 0, 1 << 20, acts(site, kind, end, move, nth=nth))
    assert cut(chunk.body)[0] == log[0]
    assert moved


def test_the_end_is_fresh_also_when_somebody_else_appends(site: Site, where: PartitionPath) -> None:
    mine, other = site.lane(), site.lane()
    site.fill(other, where, 2)
    assert site.run(bounds(mine, where)).end == 4
    site.fill(other, where, 3)
    assert site.run(bounds(mine, where)).end == 10
    found = site.run(read(mine, where, 9, 100))
    assert isinstance(found, Chunk)
    assert found.base_offset == 8


# ---------------------------------------------------------------------------- indexes


def sealed_in_one(
    site: Site, where: PartitionPath, batches_: int = 40, count: int = 10
) -> list[bytes]:
    log = site.fill(site.lane(), where, batches_, count=count)
    site.seal()
    assert len(site.manifest(where).segments) == 1
    return log


def test_an_index_saves_reading(site: Site, where: PartitionPath) -> None:
    log = sealed_in_one(site, where)
    seen, perform = counting(site)
    chunk = site.read(where, 395, 1, perform)
    assert cut(chunk.body) == [log[39]]
    got = [op.start for op in seen if isinstance(op, GetRange) and op.key.endswith(".kfs")]
    assert min(got) > 0.7 * sum(map(len, log))


def _index(*entries: tuple[int, int]) -> bytes:
    """An index with these entries, whatever they say."""
    placed = [
        batches.Frame(position, decode_header(_HEADER)._replace(base_offset=offset, count=100))
        for offset, position in entries
    ]
    return kafs.encode_index(placed, interval=1)


_HEADER = Site().batch(1)
_LONG = 10**6

WRONG = {
    "missing": None,
    "empty": b"",
    "noise": b"IDX\0 is not the beginning of noise",
    "of a later version": kafs.encode_index([]).replace(b"\0\1", b"\0\2", 1),
    "without entries": kafs.encode_index([]),
    "in the middle of a batch": _index((0, 32 + 50)),
    "in the middle of the last batch": _index((0, 32 + 7777)),
    "at the footer": _index((0, 32 + 40 * 211)),
    "behind the end": _index((0, _LONG)),
    "behind the end, from the middle": _index((0, 32), (100, _LONG)),
    "behind every offset": _index((0, 32 + 211 * 30)),
    "one batch too far": _index(*((10 * at, 32 + 211 * (at + 1)) for at in range(39))),
    "one batch too early": _index(
        (0, 32), *((10 * at, 32 + 211 * (at - 1)) for at in range(2, 40))
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_no_index_changes_the_answer(site: Site, where: PartitionPath, wrong: str) -> None:
    log = sealed_in_one(site, where)
    assert {len(batch) for batch in log} == {211}
    key = f"{where.prefix}{site.manifest(where).segments[0].name}.index"
    body = WRONG[wrong]
    site.perform(Delete(key))
    if body is not None:
        site.perform(PutIfAbsent(key, body))
    for offset in range(0, 400, 7):
        for most in (1, 700, 1 << 20):
            found = cut(site.read(where, offset, most).body)
            assert found == log[offset // 10 :][: len(found)]
            assert found


def test_the_index_of_another_segment_changes_no_answer(site: Site, where: PartitionPath) -> None:
    lane = site.lane()
    for count in (1, 7, 3):
        site.fill(lane, where, 30, count=count)
        site.seal()
    log = site.log(where)
    names = [row.name for row in site.manifest(where).segments]
    assert len(names) == 3
    keys = [f"{where.prefix}{name}.index" for name in names]
    bodies = [site.objects()[key] for key in keys]
    for key, body in zip(keys, bodies[1:] + bodies[:1], strict=True):
        site.replace(key, body)
    assert site.log(where) == log
    for offset in range(0, 30 * 11, 3):
        chunk = site.read(where, offset, 1)
        assert chunk.base_offset <= offset < chunk.next_offset
        assert chunk.body in log


# ---------------------------------------------------------------------------- damage


def test_a_damaged_bundle_is_never_served(site: Site, where: PartitionPath) -> None:
    log = site.fill(site.lane(), where, 3)
    key = bundle_key(0, 1)
    good = site.objects()[key]
    start = good.index(log[1][16:]) - 16
    for at in range(start + 8, start + len(log[1])):
        if start + 12 <= at < start + 16:
            continue  # The leader epoch, which is written anew when a batch leaves.
        damaged = bytearray(good)
        damaged[at] ^= 1
        site.replace(key, bytes(damaged))
        with pytest.raises((CorruptError, UnsupportedError)):
            site.read(where, 2)
    site.replace(key, good)
    assert site.log(where) == log


def test_a_damaged_bundle_is_not_sealed(site: Site, where: PartitionPath) -> None:
    log = site.fill(site.lane(), where, 3)
    key = bundle_key(0, 1)
    good = site.objects()[key]
    damaged = bytearray(good)
    damaged[good.index(log[1][16:]) + 60] ^= 1
    site.replace(key, bytes(damaged))
    with pytest.raises(CorruptError):
        site.seal()
    assert site.manifest(where).sealed_end == 0


def test_a_segment_that_became_shorter_is_damage_and_no_endless_search(
    site: Site, where: PartitionPath
) -> None:
    sealed_in_one(site, where)
    (row,) = site.manifest(where).segments
    key = f"{where.prefix}{row.name}.kfs"
    good = site.objects()[key]
    for left in (0, 10, 32, 500, len(good) // 2):
        site.replace(key, good[:left])
        with pytest.raises(CorruptError):
            site.read(where, 395)


def test_two_partitions_of_one_bundle_are_not_mixed_up(site: Site) -> None:
    topic = site.topic(partitions=3)
    lane = site.lane()
    wheres = [topic.path_of(partition) for partition in range(3)]
    bodies = {
        where.partition: [site.batch(1 + where.partition) for _ in range(4)] for where in wheres
    }
    for at in range(4):
        requests = [
            new_append(*where.topic_partition, bodies[where.partition][at]) for where in wheres
        ]
        site.run(append(lane, requests))
    for round_ in range(2):
        for where in wheres:
            found = site.log(where)
            assert unplaced(found) == unplaced(bodies[where.partition])
            size = 1 + where.partition
            assert spans(found) == [(at * size, at * size + size) for at in range(4)]
        if not round_:
            gone_from_the_journal(site)
