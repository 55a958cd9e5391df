"""Small segments become large ones, and nobody who reads can tell."""

import pytest

from lakelog.catalog import read_topic
from lakelog.errors import CorruptError, UnavailableError
from lakelog.maintenance import (
    MergeSettings,
    Rewritten,
    SealSettings,
    merge_run,
    plan_merge,
    retain_partition,
)
from lakelog.maintenance.merge import Repack
from lakelog.manifests import Manifest, PartitionPath, SegmentRow
from lakelog.model import Record
from lakelog.records import Codec, decode_batches, decode_header
from lakelog.records.repacking import Shape
from lakelog.store import Get, GetRange, PutIfAbsent, PutIfMatch, Work
from tests.shorthands import repack
from tests.unit.log.site import (
    GRACE_MS,
    Paused,
    Perform,
    Site,
    get_key,
    killed_at_every_step,
    lose_answer,
    spans,
    then,
)

TINY = SealSettings(segment_bytes=1)
ALL = MergeSettings(segment_bytes=1 << 20, rows_min=2)


@pytest.fixture
def site() -> Site:
    return Site()


@pytest.fixture
def where(site: Site) -> PartitionPath:
    return filled(site)


def filled(site: Site, bundles: int = 6) -> PartitionPath:
    """A partition with a segment for every bundle, and something in the journal."""
    where = site.topic().path_of(0)
    lane = site.lane()
    site.fill(lane, where, bundles)
    site.seal(TINY)
    site.fill(lane, where, 2)
    return where


def merge(site: Site, where: PartitionPath, perform: Perform | None = None) -> Rewritten:
    return site.run(merging(site, where), perform)


def merging(site: Site, where: PartitionPath, repack: Repack | None = None) -> Work[Rewritten]:
    (rows,) = plan_merge(site.manifest(where).segments, ALL)
    return merge_run(where, rows, site.id(), since_ms=site.now_ms, repack=repack)


def bounds_of(site: Site, where: PartitionPath) -> list[tuple[int, int]]:
    return [(row.base_offset, row.next_offset) for row in site.manifest(where).segments]


# ---------------------------------------------------------------------------- the plan


def row(base: int, length: int) -> SegmentRow:
    return SegmentRow(f"s{base}", base, base + 10, 0, length, 10, 1, 2, 3, 4, 1, 0)


def planned(*lengths: int, rows_min: int = 3) -> list[list[int]]:
    rows = [row(10 * number, length) for number, length in enumerate(lengths)]
    settings = MergeSettings(segment_bytes=100, rows_min=rows_min)
    return [[one.base_offset // 10 for one in run] for run in plan_merge(rows, settings)]


def test_neighbours_are_merged_up_to_the_size_of_a_segment() -> None:
    assert planned(40, 40, 40, 40) == [[0, 1], [2, 3]]
    assert planned(30, 30, 30, 30, 30, 30) == [[0, 1, 2], [3, 4, 5]]


def test_what_is_large_is_left_alone_and_parts_its_neighbours() -> None:
    assert planned(200, 50, 10) == []
    assert planned(49, 49, 50, 49, 49) == [[0, 1], [3, 4]]


def test_a_few_small_ones_wait_for_more() -> None:
    assert planned(1, 1) == []
    assert planned(1, 1, 1) == [[0, 1, 2]]
    assert planned(40) == []
    assert planned(1, 1, 50, 1) == []
    assert planned() == []


# ---------------------------------------------------------------------------- the step


def test_nobody_who_reads_can_tell(site: Site, where: PartitionPath) -> None:
    before = site.log(where)
    done = merge(site, where)
    assert (done.before, done.after, done.records, done.abandoned) == (6, 1, 12, 0)
    assert site.log(where) == before
    assert bounds_of(site, where) == [(0, 12)]
    (merged,) = site.manifest(where).segments
    assert (merged.generation, merged.records) == (1, 12)
    for offset in range(12):
        assert site.read(where, offset).base_offset == offset - offset % 2


def test_who_has_the_old_manifest_can_go_on_reading_for_a_grace(
    site: Site, where: PartitionPath
) -> None:
    old = {row.name for row in site.manifest(where).segments}
    merge(site, where)
    stems = {name.partition(".")[0] for name in site.names(where)}
    site.sweep(where)
    assert old < stems
    site.pass_ms(GRACE_MS)
    site.sweep(where)
    (merged,) = site.manifest(where).segments
    assert {name.partition(".")[0] for name in site.names(where)} == {merged.name}
    assert len(site.log(where)) == 8


def test_two_at_once_merge_once(site: Site, where: PartitionPath) -> None:
    before = site.log(where)

    def another() -> None:
        assert merge(site, where).after == 1

    done = merge(site, where, then(site, PutIfAbsent, ".kfs", another))
    assert done == Rewritten(abandoned=1)
    assert site.log(where) == before
    site.sweep(where)
    site.pass_ms(GRACE_MS)
    site.sweep(where)
    assert len(site.names(where)) == 3


def test_however_late_it_commits_what_it_replaces_stays_for_a_grace(
    site: Site, where: PartitionPath
) -> None:
    """Somebody may have read the manifest just before."""
    late = Paused(site, merging(site, where), PutIfMatch, "manifest")
    late.step()
    late.until(PutIfMatch, "manifest")
    site.pass_ms(5 * GRACE_MS)
    before = site.manifest(where)
    assert late.finish().after == 1
    site.sweep(where)
    site.pass_ms(GRACE_MS - 1)
    site.sweep(where)
    for row in before.segments:
        assert get_key(site, f"{where.prefix}{row.name}.kfs")
    site.pass_ms(1)
    site.sweep(where)
    assert len(site.names(where)) == 3


def test_what_retention_took_is_not_brought_back(site: Site, where: PartitionPath) -> None:
    def start() -> None:
        site.delete_records(where, 5)
        site.run(retained(site, where))

    assert merge(site, where, then(site, PutIfAbsent, ".kfs", start)).abandoned == 1
    assert bounds_of(site, where)[0] == (4, 6)
    assert site.bounds(where).log_start == 5


def retained(site: Site, where: PartitionPath) -> Work[Manifest]:
    topic = site.run(read_topic("orders"))
    return retain_partition(topic, where, site.id, now_ms=site.now_ms)


def test_a_merger_that_slept_too_long_changes_nothing(site: Site, where: PartitionPath) -> None:
    before = site.log(where)

    def night() -> None:
        site.pass_ms(2 * GRACE_MS)
        site.sweep(where)

    assert merge(site, where, then(site, PutIfAbsent, ".timeindex", night)).abandoned == 1
    assert site.log(where) == before
    assert len(site.manifest(where).segments) == 6


def test_a_damaged_segment_is_not_carried_on(site: Site, where: PartitionPath) -> None:
    damaged = site.manifest(where).segments[3]
    key = f"{where.prefix}{damaged.name}.kfs"
    body = site.objects()[key]
    site.replace(key, body[:-30] + bytes([body[-30] ^ 1]) + body[-29:])
    with pytest.raises(CorruptError, match="not what its manifest says"):
        merge(site, where)
    assert len(site.manifest(where).segments) == 6


@pytest.mark.parametrize(
    ("kind", "end"), [(PutIfAbsent, ".kfs"), (PutIfMatch, "manifest"), (GetRange, ".kfs"),
                      (Get, ".kfs"), (PutIfAbsent, ".index")]
)  # fmt: skip
def test_a_lost_answer_loses_nothing(
    site: Site, where: PartitionPath, kind: type, end: str
) -> None:
    before = site.log(where)
    try:
        done = merge(site, where, lose_answer(site, kind, end))
    except UnavailableError:
        done = merge(site, where)  # Whoever drives it tries again.
    assert done.after == 1
    assert site.log(where) == before


def test_killed_anywhere_the_next_one_finishes() -> None:
    def make() -> Site:
        site = Site()
        filled(site)
        return site

    for site in killed_at_every_step(make, lambda site: merging(site, _where(site))):
        where = _where(site)
        log = site.log(where)
        assert len(log) == 8
        for rows in plan_merge(site.manifest(where).segments, ALL):
            assert site.run(merge_run(where, rows, site.id(), since_ms=site.now_ms)).after == 1
        assert site.log(where) == log
        for _ in range(3):
            site.sweep(where)
            site.pass_ms(2 * GRACE_MS)
        assert len(site.names(where)) == 3
        assert site.log(where) == log


# ---------------------------------------------------------------------------- repacking


def zstd(run: bytes) -> bytes:
    return repack(run, Shape(codec=Codec.ZSTD)).run


def records_of(batches: list[bytes]) -> list[Record]:
    return [record for batch in decode_batches(b"".join(batches)) for record in batch.records]


def test_a_run_may_be_repacked_on_the_way(site: Site, where: PartitionPath) -> None:
    before = site.log(where)
    done = site.run(merging(site, where, zstd))
    assert (done.before, done.after, done.records) == (6, 1, 12)
    log = site.log(where)
    assert records_of(log) == records_of(before)
    assert spans(log) == [(0, 12), (12, 14), (14, 16)]
    (merged,) = site.manifest(where).segments
    assert (merged.base_offset, merged.next_offset, merged.records) == (0, 12, 12)
    assert merged.codecs == 1 << Codec.ZSTD
    headers = [decode_header(batch) for batch in before[:6]]
    assert merged.min_timestamp == min(header.base_timestamp for header in headers)
    assert merged.max_timestamp == max(header.max_timestamp for header in headers)
    for offset in range(12):
        assert site.read(where, offset).base_offset == 0


def test_a_log_that_begins_inside_of_a_batch_does_so_after_repacking(
    site: Site, where: PartitionPath
) -> None:
    site.delete_records(where, 1)
    site.run(merging(site, where, zstd))
    site.delete_records(where, 5)
    site.run(retained(site, where))
    assert site.bounds(where).log_start == 5
    assert site.read(where, 5).base_offset == 0
    assert bounds_of(site, where) == [(0, 12)]


def test_killed_while_repacking_the_next_one_finishes() -> None:
    def make() -> Site:
        site = Site()
        filled(site)
        return site

    for site in killed_at_every_step(make, lambda site: merging(site, _where(site), zstd)):
        where = _where(site)
        records = records_of(site.log(where))
        assert len(records) == 16
        for rows in plan_merge(site.manifest(where).segments, ALL):
            site.run(merge_run(where, rows, site.id(), since_ms=site.now_ms, repack=zstd))
        assert records_of(site.log(where)) == records
        assert len(site.log(where)) == 3


def test_repacking_that_would_lose_a_record_changes_nothing(
    site: Site, where: PartitionPath
) -> None:
    before = site.log(where)
    with pytest.raises(CorruptError, match="12 records would be repacked to 2"):
        site.run(merging(site, where, lambda run: run[: decode_header(run).size]))
    assert site.log(where) == before
    assert len(site.manifest(where).segments) == 6


def _where(site: Site) -> PartitionPath:
    return site.run(read_topic("orders")).path_of(0)
