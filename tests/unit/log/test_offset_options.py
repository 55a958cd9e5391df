"""Offsets of options and of streams become ranges by the rules of Spark's Kafka source."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.errors import InvalidInputError, NotFoundError
from lakelog.log import Extent, PartitionRef
from lakelog.log.offset_options import (
    Losses,
    check_named,
    check_order,
    decode_offsets,
    encode_offsets,
    limit_offsets,
    readable,
)
from lakelog.manifests import PartitionPath
from lakelog.segments import EARLIEST, LATEST, OffsetSpec

EXTENT = Extent(PartitionRef("t", PartitionPath(bytes(16), "t", 0), 0), 5, 10, 20)
keys = st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 3))
offsets = st.dictionaries(keys, st.integers(0, 1 << 40), max_size=8)


def offset_in(spec: OffsetSpec) -> int:
    return spec.offset_in(EXTENT.member.key, earliest=EXTENT.log_start, latest=EXTENT.end)


@given(offsets)
def test_offsets_survive_kafka_s_shape(some: dict[tuple[str, int], int]) -> None:
    assert decode_offsets(encode_offsets(some)) == some


def test_kafka_s_shape_is_the_one_of_its_checkpoints() -> None:
    shape = {"t": {"0": 4, "1": 3}}
    assert encode_offsets({("t", 1): 3, ("t", 0): 4}) == shape
    with pytest.raises(InvalidInputError, match="checkpoint is of another source"):
        decode_offsets({"t": 3})  # type: ignore[dict-item]


@given(st.data(), offsets, st.integers(1, 1000))
def test_a_limit_starves_nobody_and_is_hardly_passed(
    data: st.DataObject, start: dict[tuple[str, int], int], limit: int
) -> None:
    end = {key: at + data.draw(st.integers(0, 500)) for key, at in start.items()}
    until = limit_offsets(start, end, limit)
    assert until.keys() == end.keys()
    assert all(start[key] <= until[key] <= end[key] for key in end)
    assert all(until[key] > start[key] for key in end if end[key] > start[key])
    assert sum(until[key] - start[key] for key in end) <= limit + len(end)


def test_words_are_places_in_a_partition() -> None:
    assert offset_in(OffsetSpec(offset=EARLIEST)) == 5
    assert offset_in(OffsetSpec(offset=LATEST)) == 20
    for said, meant in ((-2, 5), (-1, 20), (7, 7)):
        assert offset_in(OffsetSpec(offsets={("t", 0): said})) == meant
    with pytest.raises(InvalidInputError, match="offset -3 for t-0"):
        offset_in(OffsetSpec(offsets={("t", 0): -3}))


def test_who_names_partitions_names_all_and_no_others() -> None:
    named = OffsetSpec(offsets={("t", 0): 1, ("t", 1): 1})
    check_named(named, [("t", 1), ("t", 0)], "startingOffsets")
    for assigned in ([("t", 0)], [("t", 0), ("t", 1), ("t", 2)]):
        with pytest.raises(InvalidInputError, match=r"(?s)KAFKA_START_OFFSET.*Assigned: t-0"):
            check_named(named, assigned, "startingOffsets")
    check_named(OffsetSpec(timestamp=1, offsets={}), [("t", 0)], "startingOffsets")


@pytest.mark.parametrize(
    ("start", "until", "there"),
    [(3, 8, (5, 8)), (6, 25, (6, 20)), (0, 3, (5, 5)), (21, 25, (21, 21)), (9, 9, (9, 9))],
)
def test_what_is_not_there_is_a_loss_or_passed_over(
    start: int, until: int, there: tuple[int, int]
) -> None:
    assert readable(EXTENT, start, until, Losses(fail=False)) == there
    if start < until:
        with pytest.raises(NotFoundError, match=r"KAFKA_DATA_LOSS.*failOnDataLoss to false"):
            readable(EXTENT, start, until, Losses(fail=True))


def test_a_range_does_not_end_before_it_begins() -> None:
    check_order(EXTENT, 7, 7)
    with pytest.raises(InvalidInputError, match="start offset 9 is greater than the end offset 7"):
        check_order(EXTENT, 9, 7)
