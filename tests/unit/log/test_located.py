"""A read is planned once and runs later: whatever happens between, it gives the log's rows."""

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.catalog import Topic, delete_topic
from lakelog.errors import CorruptError, LakelogError, NotFoundError, UnsupportedError
from lakelog.formats import kafs
from lakelog.formats.batches import Frame
from lakelog.formats.lanes import LEAD_BYTES, decode_checkpoint
from lakelog.journal import DeleteTopic, append, new_append, write_checkpoint
from lakelog.log import (
    Extent,
    LocatedRange,
    PartitionRef,
    Survey,
    TaskRanges,
    open_survey,
    plan_read_tasks,
    sealed_ranges,
    unsealed_ranges,
)
from lakelog.log.located import SliceRef
from lakelog.log.rows import Reads, read_task
from lakelog.maintenance import SealSettings, merge_run
from lakelog.manifests import PartitionPath, SegmentRow, change_manifest
from lakelog.model import Record
from lakelog.names import bundle_key, checkpoint_key
from lakelog.records import (
    BatchHeader,
    Codec,
    NewBatch,
    decode_batches,
    decode_header,
    encode_batch,
)
from lakelog.records.repacking import Shape
from lakelog.segments import Selection
from lakelog.store import Delete, GetRange, PutIfAbsent, working
from tests.shorthands import encode_kafs, repack
from tests.unit.log.site import GRACE_MS, Perform, Site, counting

SMALL = SealSettings(segment_bytes=300)
Row = tuple[int, int, bytes | None]


def survey_of(site: Site) -> Survey:
    return site.run(open_survey(site.lane().clock, site.id))


def extents_of(site: Site, survey: Survey, selection: Selection | None = None) -> list[Extent]:
    members = site.run(survey.members(selection or Selection()))
    for lane in sorted({member.lane for member in members}):
        site.run(survey.look(lane))
    return site.run(survey.extents(members))


def spans_of(site: Site, survey: Survey, ranges: dict[int, tuple[int, int]]) -> list[LocatedRange]:
    """Plan ranges of the partitions of the one topic."""
    spans: list[LocatedRange] = []
    wanted = {}
    for extent in extents_of(site, survey):
        low, high = ranges.get(extent.member.partition, (extent.log_start, extent.end))
        spans += sealed_ranges(extent, low, min(high, extent.sealed_end))
        wanted[extent.member] = max(low, extent.sealed_end), high
    return spans + site.run(unsealed_ranges(survey.lane(0), wanted))


def shares_of(
    site: Site, ranges: dict[int, tuple[int, int]] | None = None, **settings: int
) -> list[TaskRanges]:
    spans = spans_of(site, survey_of(site), ranges or {})
    return plan_read_tasks(spans, **settings)


def batches_of(site: Site, flow: Reads, perform: Perform | None = None) -> Iterator[pa.RecordBatch]:
    work = working(perform or site.perform, sleep=lambda _: None)
    answer: Any = None
    error: LakelogError | None = None
    while True:
        try:
            item = flow.send(answer) if error is None else flow.throw(error)
        except StopIteration:
            return
        answer = error = None
        if isinstance(item, pa.RecordBatch):
            yield item
            continue
        try:
            answer = work(item)
        except LakelogError as raised:
            error = raised


def rows_of(
    site: Site, shares: list[TaskRanges], perform: Perform | None = None, **settings: bool
) -> list[Row]:
    """Each share by a new process, as tasks have it."""
    found: list[Row] = []
    for share in shares:
        survey = survey_of(site)
        flow = read_task(share, survey.lane, ("partition", "offset", "value"), **settings)
        for batch in batches_of(site, flow, perform):
            found += [tuple(row.values()) for row in batch.to_pylist()]
    return found


def log_rows(site: Site, where: PartitionPath, low: int, high: int) -> list[Row]:
    """The same by ``read``."""
    return [
        (where.partition, record.offset, record.value)
        for body in site.log_from(where, low)
        for batch in decode_batches(body)
        for record in batch.records
        if low <= record.offset < high
    ]


def gone_from_the_journal(site: Site) -> None:
    site.seal(SMALL)
    site.trim(idle=True)
    site.pass_ms(GRACE_MS)
    site.reap()


def reaped(site: Site) -> None:
    site.pass_ms(GRACE_MS)
    site.reap()


# ---------------------------------------------------------------------------- the law

ACTIONS: dict[str, Callable[[Site, Topic], object]] = {
    "append 0": lambda site, topic: site.fill(site.lane(), topic.path_of(0), 2, count=3),
    "append 1": lambda site, topic: site.fill(site.lane(), topic.path_of(1), 1, count=5),
    "seal": lambda site, _: site.seal(SMALL),
    "trim": lambda site, _: site.trim(),
    "trim all": lambda site, _: site.trim(idle=True),
    "reap": lambda site, _: reaped(site),
    "sweep": lambda site, topic: site.sweep(topic.path_of(0)),
    "no index": lambda site, _: [
        site.perform(Delete(key)) for key in site.objects("orders/") if key.endswith(".index")
    ],
    "no checkpoint": lambda site, _: [
        site.perform(Delete(key))
        for key in site.objects("_lakelog/lanes/")
        if key.endswith(".checkpoint") and not _stands_on(site, key)
    ],
}


def _stands_on(site: Site, key: str) -> bool:
    return key == checkpoint_key(0, site.run(_head(site)))


def _head(site: Site) -> Any:
    from lakelog.journal import look

    return (yield from look(site.lane())).head.checkpoint


actions = st.lists(st.sampled_from(sorted(ACTIONS)), max_size=8)


@given(before=actions, between=actions, data=st.data())
def test_whatever_happens_between_plan_and_read_the_rows_are_those_of_the_log(
    before: list[str], between: list[str], data: st.DataObject
) -> None:
    site = Site()
    topic = site.topic(partitions=2)
    for action in ["append 0", "append 1", *before]:
        ACTIONS[action](site, topic)
    ranges: dict[int, tuple[int, int]] = {}
    for partition in (0, 1):
        end = site.bounds(topic.path_of(partition)).end
        low = data.draw(st.integers(0, end))
        ranges[partition] = low, data.draw(st.integers(low, end))
    split = data.draw(st.sampled_from([1, 200, 1 << 20]))
    most = data.draw(st.sampled_from([None, 1, 4]))
    shares = shares_of(
        site, ranges, split_bytes=split, **({} if most is None else {"offsets_max": most})
    )
    if most is not None:
        assert all(sum(span.offsets for span in share) <= most for share in shares)
    expected = [row for p in (0, 1) for row in log_rows(site, topic.path_of(p), *ranges[p])]
    for action in between:
        ACTIONS[action](site, topic)
    assert sorted(rows_of(site, shares)) == expected


# ---------------------------------------------------------------------------- stories


@pytest.fixture
def site() -> Site:
    return Site()


@pytest.fixture
def topic(site: Site) -> Topic:
    return site.topic(partitions=2)


def test_neighbouring_slices_of_a_bundle_are_one_request(site: Site, topic: Topic) -> None:
    lane = site.lane()
    for _ in range(3):
        requests = [new_append(*topic.path_of(p).topic_partition, site.batch(4)) for p in (0, 1)]
        site.run(append(lane, requests))
    (share,) = shares_of(site)
    seen, perform = counting(site)
    assert len(rows_of(site, [share], perform)) == 24
    assert sum(isinstance(op, GetRange) for op in seen) == 3
    assert len(seen) == 4, "and one look at the head"


class Looks(LocatedRange):
    """A span that counts how often it is looked at."""

    times = 0

    @property
    def size(self) -> int:
        Looks.times += 1
        return self[3]

    @property
    def member(self) -> PartitionRef:
        Looks.times += 1
        return self[0]


@pytest.mark.parametrize("lanes", [1, 16])
def test_a_window_of_many_slices_looks_at_each_of_them_a_few_times(lanes: int) -> None:
    site = Site(lanes=lanes)
    topic = site.topic(partitions=320)
    for number in range(lanes):
        mine = [p for p in range(320) if topic.lane(p) == number]
        requests = [new_append(*topic.path_of(p).topic_partition, site.batch(1)) for p in mine]
        site.run(append(site.lane(number), requests))
    survey = survey_of(site)
    extents = extents_of(site, survey)
    share: list[LocatedRange] = []
    for number in range(lanes):
        wanted = {one.member: (0, one.end) for one in extents if one.member.lane == number}
        share += site.run(unsealed_ranges(survey.lane(number), wanted))
    assert [type(span.location) for span in share] == [SliceRef] * 320
    Looks.times = 0
    assert len(rows_of(site, [tuple(Looks(*span) for span in share)])) == 320
    assert Looks.times <= 9 * len(share)


def test_the_plan_of_an_unsealed_lane_reads_rolls_and_not_bundles(site: Site, topic: Topic) -> None:
    site.fill(site.lane(), topic.path_of(0), 30)
    survey = survey_of(site)
    (one, two) = extents_of(site, survey)
    assert (one.end, two.end) == (60, 0)
    seen, perform = counting(site)
    spans = site.run(unsealed_ranges(survey.lane(0), {one.member: (0, 60)}), perform)
    assert [span.base_offset for span in spans] == list(range(0, 60, 2))
    assert all(getattr(op, "key", "").endswith(".checkpoint") for op in seen)
    assert len(seen) == 7, "one for each of four bundles"


def test_a_roll_that_was_cut_is_made_up_for_by_directories(
    site: Site, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where bulk writes would make it larger than an object should be."""
    monkeypatch.setattr("lakelog.journal.checkpoints.ROLL_ROWS_MAX", 2)
    log = site.fill(site.lane(), topic.path_of(0), 30)
    rolls = [
        decode_checkpoint(body)
        for key, body in site.objects("_lakelog/lanes/").items()
        if key.endswith(".checkpoint")
    ]
    assert [(one.seq - one.first, len(one.slice_index)) for one in rolls] == [(1, 2)] * len(rolls)
    assert len(rolls) > 5
    survey = survey_of(site)
    extent, _ = extents_of(site, survey)
    spans = site.run(unsealed_ranges(survey.lane(0), {extent.member: (0, 60)}))
    assert [span.base_offset for span in spans] == list(range(0, 60, 2))
    assert site.log(topic.path_of(0)) == log


def test_a_roll_has_one_bundle_at_least(
    site: Site, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakelog.journal.checkpoints.ROLL_ROWS_MAX", 0)
    log = site.fill(site.lane(), topic.path_of(0), 9)
    assert site.log(topic.path_of(0)) == log


def test_the_plan_of_one_partition_is_its_part_of_the_plan_of_all(site: Site) -> None:
    topic, lane = site.topic(partitions=5), site.lane()
    for number in range(23):
        some = [
            new_append(*topic.path_of(p).topic_partition, site.batch(p + 1))
            for p in range(number % 6)
        ]
        site.run(append(lane, some))
        site.run(write_checkpoint(lane))
    survey = survey_of(site)
    extents = extents_of(site, survey)
    wanted = {extent.member: (extent.end // 4, extent.end) for extent in extents}
    spans = site.run(unsealed_ranges(survey.lane(0), wanted))
    assert len({span.member for span in spans}) == 5
    for member, range_ in wanted.items():
        found = site.run(unsealed_ranges(survey.lane(0), {member: range_}))
        assert found == [span for span in spans if span.member == member]
    places = [
        (span.location.seq, span.location.position)
        for span in spans
        if isinstance(span.location, SliceRef)
    ]
    assert len(places) == len(spans)
    assert places == sorted(places), "in the order in which they lie"


@pytest.mark.parametrize("at", [11, 20, 30, 70])
def test_a_damaged_batch_of_a_bundle_is_named_with_its_key(
    site: Site, topic: Topic, at: int
) -> None:
    """In its length, its CRC, its times, a record."""
    site.fill(site.lane(), topic.path_of(0), 3)
    shares = shares_of(site)
    key = bundle_key(0, 1)
    damaged = bytearray(site.objects()[key])
    damaged[LEAD_BYTES + at] ^= 1
    site.replace(key, bytes(damaged))
    with pytest.raises((CorruptError, UnsupportedError), match=f"{1:020}.bundle"):
        rows_of(site, shares)


def test_who_knows_the_newest_bundles_plans_them_without_a_request(
    site: Site, topic: Topic
) -> None:
    site.fill(site.lane(), topic.path_of(0), 6)
    survey = survey_of(site)
    (one, _) = extents_of(site, survey)
    seen, perform = counting(site)
    (span,) = site.run(unsealed_ranges(survey.lane(0), {one.member: (11, 12)}), perform)
    assert (span.base_offset, span.next_offset, seen) == (11, 12, [])


def test_a_lane_with_nothing_new_takes_one_request(site: Site, topic: Topic) -> None:
    site.fill(site.lane(), topic.path_of(0), 6)
    survey = survey_of(site)
    extents_of(site, survey)
    seen, perform = counting(site)
    members = site.run(survey.members(Selection(topics=frozenset({"orders"}))), perform)
    assert len(members) == 2
    site.run(survey.look(0), perform)
    assert len(seen) == 2, "the topic, and the next key of the lane"


def test_there_are_as_many_shares_as_asked_for(site: Site, topic: Topic) -> None:
    site.fill(site.lane(), topic.path_of(0), 2, count=50)
    assert len(shares_of(site)) == 1
    shares = shares_of(site, tasks_min=7)
    assert len(shares) >= 7
    assert rows_of(site, shares) == log_rows(site, topic.path_of(0), 0, 100)


def test_parts_of_one_segment_are_read_once_and_partitions_are_kept_apart(site: Site) -> None:
    site.topic(partitions=2)
    one, two = (extent.member for extent in extents_of(site, survey_of(site)))
    spans = [LocatedRange(one, 0, 4, 4, None), LocatedRange(two, 0, 12, 4, None)]
    shares = plan_read_tasks(spans, offsets_max=10)
    assert [[(s.member, s.base_offset, s.next_offset) for s in share] for share in shares] == [
        [(one, 0, 4), (two, 0, 6)],
        [(two, 6, 12)],
    ]
    (share,) = plan_read_tasks([LocatedRange(one, 0, 12, 12, None)], split_bytes=12)
    assert [span.offsets for span in share] == [12]


def test_segments_that_share_an_object_are_read_from_their_place(site: Site, topic: Topic) -> None:
    where = topic.path_of(0)
    first, last = (
        run_of(NewBatch(records=[record(0), record(1)])),
        run_of(NewBatch(records=[record(2)])),
    )
    parts = [encode_kafs(first, created_ms=0), encode_kafs(last, created_ms=0)]
    site.perform(PutIfAbsent(f"{where.prefix}shared.kfs", b"".join(parts)))
    size = len(parts[0])
    rows = (
        SegmentRow("shared", 0, 2, 0, size, 2, 0, 0, 0, 0, 1, 0),
        SegmentRow("shared", 2, 3, size, len(parts[1]), 1, 0, 0, 0, 0, 1, 0),
    )
    flow = change_manifest(where, "w", lambda now: now.next("w", sealed_end=3, segments=rows))
    site.run(flow)
    assert [row[1] for row in rows_of(site, shares_of(site, offsets_max=1))] == [0, 1, 2]


@pytest.mark.parametrize("index", [b"", b"nonsense", b"lies"])
def test_an_index_that_misleads_costs_time_and_no_record(
    site: Site, topic: Topic, index: bytes
) -> None:
    where = topic.path_of(0)
    site.fill(site.lane(), where, 9, count=10)
    site.seal()
    (key,) = (key for key in site.objects(where.prefix) if key.endswith(".index"))
    if index == b"lies":
        told = [Frame(kafs.HEADER_BYTES + 7, decode_batches_header(offset)) for offset in (40, 60)]
        index = kafs.encode_index(told, interval=1)
    site.replace(key, index)
    rows = rows_of(site, shares_of(site, {0: (45, 90)}))
    assert rows == log_rows(site, where, 45, 90)


def decode_batches_header(offset: int) -> BatchHeader:
    return decode_header(encode_batch(NewBatch(records=[record(offset)])))


def test_what_expired_while_it_was_read_is_an_error_or_passed_over(
    site: Site, topic: Topic
) -> None:
    site.fill(site.lane(), topic.path_of(0), 11)
    shares = shares_of(site, split_bytes=1)
    gone_from_the_journal(site)
    site.delete_records(topic.path_of(0), 8)
    with pytest.raises(NotFoundError, match=r"\[0, 1\).*begins at 8.*failOnDataLoss"):
        rows_of(site, shares)
    assert rows_of(site, shares, may_lose=True) == log_rows(site, topic.path_of(0), 8, 22)


def test_a_topic_that_was_deleted_meanwhile_is_named_with_its_id(site: Site, topic: Topic) -> None:
    site.fill(site.lane(), topic.path_of(0), 3)
    shares = [tuple(span._replace(location=None) for span in share) for share in shares_of(site)]
    site.run(append(site.lane(), [DeleteTopic(topic=topic.id)]))
    with pytest.raises(NotFoundError, match=f"{topic.id.hex()} is gone"):
        rows_of(site, shares)
    assert rows_of(site, shares, may_lose=True) == []
    site.run(delete_topic("orders", topic.id, site.id(), now_ms=site.now_ms))
    with pytest.raises(NotFoundError, match="no topic orders"):
        extents_of(site, survey_of(site), Selection(topics=frozenset({"orders"})))
    assert extents_of(site, survey_of(site)) == []


def test_a_bundle_that_was_made_again_below_the_floor_is_not_believed(
    site: Site, topic: Topic
) -> None:
    lane = site.lane()
    site.fill(lane, topic.path_of(0), 5)
    shares = shares_of(site)
    bodies = site.objects("_lakelog/lanes/")
    gone_from_the_journal(site)
    last = bodies[bundle_key(0, 4)]
    site.perform(PutIfAbsent(bundle_key(0, 0), last))
    assert rows_of(site, shares) == log_rows(site, topic.path_of(0), 0, 10)


# ---------------------------------------------------------------------------- counting


def replaced(
    site: Site, where: PartitionPath, batches: bytes, *, records: int, next_offset: int
) -> None:
    """Let the history of a partition be one segment that no sealer would have written."""
    segment = encode_kafs(batches, created_ms=0, base_offset=0)
    site.perform(PutIfAbsent(f"{where.prefix}segment-{0:020}.kfs", segment))
    row = SegmentRow(f"segment-{0:020}", 0, next_offset, 0, len(segment), records, 0, 0, 0, 0, 1, 0)
    flow = change_manifest(
        where, "w", lambda now: now.next("w", sealed_end=next_offset, segments=(row,))
    )
    site.run(flow)


def run_of(*batches: NewBatch) -> bytes:
    return b"".join(map(encode_batch, batches))


def record(offset: int) -> Record:
    return Record(offset=offset, timestamp=0, key=b"k", value=b"%d" % offset)


MARKER = NewBatch(
    records=[Record(offset=2, timestamp=0, key=b"\0\0\0\1", value=b"\0\0\0\0\0\0")],
    is_transactional=True,
    is_control=True,
    producer_id=7,
    producer_epoch=0,
)


def test_markers_of_transactions_have_offsets_and_are_no_records(site: Site, topic: Topic) -> None:
    run = run_of(NewBatch(records=[record(0), record(1)]), MARKER, NewBatch(records=[record(3)]))
    replaced(site, topic.path_of(0), run, records=4, next_offset=4)
    assert [row[1] for row in rows_of(site, shares_of(site))] == [0, 1, 3]


def test_records_that_are_missing_fail_the_task(site: Site, topic: Topic) -> None:
    run = run_of(NewBatch(records=[record(0)]), NewBatch(records=[record(2)]))
    replaced(site, topic.path_of(0), run, records=3, next_offset=3)
    with pytest.raises(CorruptError, match="2 records of orders-0 in 3 offsets"):
        rows_of(site, shares_of(site))


def test_where_history_says_so_offsets_may_be_missing(site: Site, topic: Topic) -> None:
    run = run_of(NewBatch(records=[record(0)]), NewBatch(records=[record(2)]))
    replaced(site, topic.path_of(0), run, records=2, next_offset=3)
    assert [row[1] for row in rows_of(site, shares_of(site))] == [0, 2]


def test_a_compacted_topic_may_miss_any(site: Site) -> None:
    topic = site.topic("keys", cleanup_policy="compact")
    run = run_of(NewBatch(records=[record(0)]), NewBatch(records=[record(2)]))
    replaced(site, topic.path_of(0), run, records=3, next_offset=3)
    assert [row[1] for row in rows_of(site, shares_of(site))] == [0, 2]


# ---------------------------------------------------------------------------- repacked meanwhile


def test_batches_that_become_larger_while_they_are_read_give_every_record_once(
    site: Site, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A merge may make one batch of many: then the next one begins before the reader's place."""
    monkeypatch.setattr("lakelog.log.rows.CHUNK_BYTES", 1)
    where = topic.path_of(0)
    site.fill(site.lane(), where, 6)
    site.seal(SealSettings(segment_bytes=1))
    member = extents_of(site, survey_of(site))[0].member
    left = [3]

    def perform(op: Any) -> Any:
        if isinstance(op, GetRange) and op.key.endswith(".kfs"):
            left[0] -= 1
            if not left[0]:
                repack_all(site, where)
        return site.perform(op)

    share = (LocatedRange(member, 0, 12, 0, None),)
    assert rows_of(site, [share], perform) == log_rows(site, where, 0, 12)
    assert left[0] <= 0


def repack_all(site: Site, where: PartitionPath) -> None:
    def smaller(run: bytes) -> bytes:
        return repack(run, Shape(codec=Codec.ZSTD)).run

    rows = site.manifest(where).segments
    merging = merge_run(where, rows, site.id(), since_ms=site.now_ms, repack=smaller)
    site.run(merging)
    assert len(site.manifest(where).segments) == 1
    site.pass_ms(GRACE_MS // 2)
