"""Of a slice index whoever plans a read wants some partitions: it gets their rows alone."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.errors import CorruptError, UnsupportedError
from lakelog.formats.lanes import (
    Checkpoint,
    End,
    EventKind,
    Kept,
    Mark,
    Producer,
    Rolled,
    Slice,
    Write,
    decode_checkpoint,
    encode_checkpoint,
)
from tests.unit.formats.forged_lanes import forge_checkpoint

Place = tuple[bytes, int]

IDS = [bytes([number]) * 16 for number in (1, 2, 255)]
PLACES = st.tuples(st.sampled_from(IDS), st.sampled_from([0, 1, 2, 300, 1 << 30]))


def rolled(place: Place, number: int) -> Rolled:
    return Rolled(number, Slice(*place, 1, 10 * number, 10, 8, 70, 0, 0), 3)


def checkpoint_of(rows: list[Rolled]) -> Checkpoint:
    """One whose other tables have something as well."""
    return Checkpoint(
        lane=4,
        seq=63,
        epoch=3,
        created_ms=5,
        nonce=IDS[0],
        first=0,
        ends=(End(IDS[0], 0, 640), End(IDS[1], 1, 7)),
        producers=(Producer(IDS[0], 0, 9, 0, 5, (Kept(0, 1, 2),)),),
        writes=(Write(IDS[0], 1, IDS[1], 5),),
        marks=(Mark(EventKind.TOPIC_DELETED, IDS[2], 5),),
        slice_index=tuple(rows),
    )


@given(
    held=st.dictionaries(
        PLACES,
        st.sets(st.integers(0, 63), min_size=1, max_size=9),
    ),
    wanted=st.sets(PLACES),
)
def test_the_rows_of_some_partitions_are_those_of_the_whole_roll(
    held: dict[Place, set[int]], wanted: set[Place]
) -> None:
    rows = [rolled(place, number) for place in sorted(held) for number in sorted(held[place])]
    whole = checkpoint_of(rows)
    found = decode_checkpoint(encode_checkpoint(whole), sorted(wanted))
    slice_index = tuple(row for row in rows if row.slice.topic_partition in wanted)
    assert found == replace(
        whole, ends=(), producers=(), writes=(), marks=(), slice_index=slice_index
    )


def test_whoever_wants_no_partition_is_told_what_it_is_a_checkpoint_of() -> None:
    data = encode_checkpoint(checkpoint_of([rolled((IDS[0], 0), 1)]))
    found = decode_checkpoint(data, [])
    assert (found.lane, found.seq, found.first, found.slice_index) == (4, 63, 0, ())


FLAWS = {
    "a row twice": [rolled((IDS[0], 0), 1), rolled((IDS[0], 0), 1)],
    "rows out of order": [rolled((IDS[0], 0), 2), rolled((IDS[0], 0), 1)],
    "a bundle behind its own": [rolled((IDS[0], 0), 64)],
}


@pytest.mark.parametrize("rows", FLAWS.values(), ids=FLAWS)
def test_rows_that_are_wanted_are_judged(rows: list[Rolled]) -> None:
    with pytest.raises(CorruptError, match=r"slice index|sorted"):
        decode_checkpoint(forge_checkpoint(checkpoint_of(rows)), [(IDS[0], 0)])


def test_damage_anywhere_is_noticed_whatever_is_wanted() -> None:
    data = encode_checkpoint(checkpoint_of([rolled((IDS[0], 0), 1)]))
    for at in range(len(data)):
        damaged = bytearray(data)
        damaged[at] ^= 1
        with pytest.raises((CorruptError, UnsupportedError)):
            decode_checkpoint(bytes(damaged), [(IDS[1], 0)])
