"""Slots that are scattered and settled say what a dictionary of all of them says."""

from collections import defaultdict
from random import Random  # noqa: TID251 (seeded)

import numpy as np
import pytest

from lakelog.model import Record
from lakelog.records import NewBatch, encode_batch
from lakelog.records.offset_map import OffsetMap
from lakelog.records.scattering import buckets_for, outdating, scatter

SEED = 11


def segment_of(keys: list[bytes], first: int) -> OffsetMap:
    """The map of a segment of these keys, from an offset on."""
    records = [
        Record(offset=first + at, timestamp=0, key=key, value=b"") for at, key in enumerate(keys)
    ]
    made = OffsetMap(len(keys) * 32 + 1024, seed=SEED)
    made.note(encode_batch(NewBatch(records=records, base_offset=first)))
    return made


@pytest.mark.parametrize("buckets", [1, 2, 7, 1000])
def test_a_map_of_a_segment_knows_the_newest_of_each_of_its_keys(buckets: int) -> None:
    chance, newest, first = Random(buckets), dict[bytes, int](), 0
    keys_of, maps = [], []
    for _ in range(12):
        keys = [b"%d" % chance.randrange(400) for _ in range(chance.randint(1, 200))]
        keys_of.append(keys)
        maps.append(segment_of(keys, first))
        newest |= {key: first + at for at, key in enumerate(keys)}
        first += len(keys)
    bucketed: dict[int, list[tuple[int, bytes]]] = defaultdict(list)
    for segment, one in enumerate(maps):
        for bucket, slots in scatter(one.filled(), buckets):
            assert 0 <= bucket < buckets
            bucketed[bucket].append((segment, slots))
    told = 0
    for blocks in bucketed.values():
        for segment, slots in outdating(blocks):
            assert maps[segment].overlay(slots)
            told += len(slots) // 24
    for keys, one in zip(keys_of, maps, strict=True):
        assert len(one) == len(set(keys)), "nothing came along that it does not need"
        assert {key: one.get(key) for key in keys} == {key: newest[key] for key in keys}
    assert told == sum(len(set(keys)) for keys in keys_of) - len(newest)


def test_no_slots_are_nothing() -> None:
    assert list(scatter(np.empty((0, 3), np.int64), 5)) == []
    assert list(outdating([(0, b""), (1, b"")])) == []


def test_a_map_without_room_says_so() -> None:
    small, large = OffsetMap(64, seed=SEED), segment_of([b"%d" % n for n in range(50)], 0)
    assert not small.overlay(large.filled().tobytes())
    assert small.is_full


def test_there_are_as_many_buckets_as_memory_needs() -> None:
    assert buckets_for(0, 1 << 20) == 1
    assert buckets_for(1_000, 1 << 20) == 1
    assert buckets_for(100_000_000, 128 << 20) == 72
