"""Tasks by bytes: large segments are cut, small ones packed, unwanted ones left out."""

import itertools
import pickle

import pytest

from lakelog.errors import InvalidInputError
from lakelog.segments import ReadTask, SegmentRef, plan_splits

KIB = 1024


def segment(
    base: int, end: int, size: int, *, partition: int = 0, index: bool = True
) -> SegmentRef:
    sizes = {".log": size} | ({".index": 8} if index else {})
    return SegmentRef(
        topic="t", partition=partition, base_offset=base, next_offset_max=end,
        format="kafkalog", stem=f"t-{partition}/{base:020}", sizes=sizes,
    )  # fmt: skip


def plan(*segments: SegmentRef, **settings: object) -> list[ReadTask]:
    return list(plan_splits(segments, **settings))  # type: ignore[arg-type]


def test_a_large_segment_is_cut_into_equal_parts() -> None:
    splits = plan(segment(0, 10, 1000 * KIB), split_bytes=300 * KIB)
    parts = [part for split in splits for part in split.parts]
    assert [split.size for split in splits] == [250 * KIB] * 4
    assert next((part.byte_from, part.byte_to) for part in parts) == (0, 250 * KIB)
    assert all(a.byte_to == b.byte_from for a, b in itertools.pairwise(parts))
    assert parts[-1].byte_to == 1000 * KIB


def test_small_segments_share_a_task() -> None:
    small = [segment(i, i + 1, 10 * KIB, partition=i) for i in range(1000)]
    splits = plan(*small, split_bytes=1024 * KIB)
    assert len(splits) == 10
    assert [part.segment for split in splits for part in split.parts] == small


def test_a_segment_without_an_index_is_not_cut() -> None:
    assert len(plan(segment(0, 10, 1000, index=False), split_bytes=100)) == 1


def test_only_segments_with_wanted_offsets_are_read() -> None:
    log = [segment(0, 100, 50), segment(100, 200, 50), segment(200, 300, 50)]
    other = segment(0, 10, 50, partition=1)
    (split,) = plan(*log, other, offsets={("t", 0): (120, 200)})
    (part,) = split.parts
    assert part.segment is log[1]
    assert (part.offset_from, part.offset_to) == (120, 200)


def test_an_empty_segment_makes_no_task() -> None:
    assert plan(segment(0, 10, 0)) == []


def test_splits_cross_process_borders() -> None:
    splits = plan(segment(0, 10, 1000))
    assert pickle.loads(pickle.dumps(splits)) == splits


def test_a_split_has_at_least_one_byte() -> None:
    with pytest.raises(InvalidInputError):
        plan(segment(0, 10, 1000), split_bytes=0)
