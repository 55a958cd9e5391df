"""Walks that leave records out: what they still notice, what they cannot, and what they cost."""

import struct

import pytest
from crc32c import crc32c

from lakelog.errors import CorruptError, UnsupportedError
from lakelog.formats import EVERYTHING, FORMATS, NOTHING, Format, Span, kafkalog, strm
from lakelog.model import Record
from lakelog.records import Codec, NewBatch, encode_batch
from tests.plain_encoders import encode, encode_kafka_log
from tests.segments import Store, Walked, walk_files
from tests.unit.formats.forged_strm import GOOD, block, forge, record

BOTH = pytest.mark.parametrize("span", [EVERYTHING, NOTHING], ids=["records", "no records"])


def batch(base: int, count: int = 3) -> bytes:
    found = [
        Record(offset=base + i, timestamp=base, key=None, value=b"value") for i in range(count)
    ]
    return encode_batch(NewBatch(records=found))


def walked_log(log: bytes, span: Span) -> Walked:
    return walk_files(kafkalog.FORMAT, Store({".log": log}), base_offset=0, span=span)


def walked_strm(data: bytes, span: Span) -> Walked:
    return walk_files(strm.FORMAT, Store({".seg": data}), base_offset=0, span=span)


# ---------------------------------------------------------------------------- Kafka batches


def test_records_that_cannot_be_read_go_unnoticed_under_a_good_crc() -> None:
    made = bytearray(batch(3))
    made[61] ^= 1  # The length of the first record.
    struct.pack_into(">I", made, 17, crc32c(made[21:]))
    log = batch(0) + made + batch(6)

    full, shallow = walked_log(log, EVERYTHING), walked_log(log, NOTHING)

    assert [damage.position for damage in full.damages] == [len(batch(0))]
    assert shallow.damages == ()
    assert [one.count for one in shallow.blocks] == [3, 3, 3]
    assert shallow.records == ()


@BOTH
def test_damage_says_where_what_is_skipped_begins(span: Span) -> None:
    made = bytearray(batch(3))
    made[22] |= 0x80  # An attribute that nobody knows.
    log = batch(0) + made + batch(6)

    (damage,) = walked_log(log, span).damages

    assert isinstance(damage.error, UnsupportedError)
    assert damage.error.at == len(batch(0)) + 21
    assert (damage.position, damage.size) == (len(batch(0)), len(made))


@BOTH
def test_damage_for_which_nothing_is_skipped_is_where_it_shows(span: Span) -> None:
    files = encode_kafka_log(batch(0) + batch(3), interval_bytes=0)
    lie = files | {".index": struct.pack(">ii", 5, 7)}

    (damage,) = walk_files(kafkalog.FORMAT, Store(lie), base_offset=0, span=span).damages

    assert (damage.error.where, damage.error.at) == (".index", 0)
    assert (damage.position, damage.size) == (0, 0)


def test_an_empty_batch_and_offsets_near_the_end_of_all_are_good() -> None:
    empty = encode_batch(NewBatch(records=(), base_offset=3, next_offset=5))
    log = batch(0) + empty + batch((1 << 63) - 5) + batch((1 << 63) - 2, 1)

    found = walked_log(log, NOTHING)

    assert found.damages == ()
    assert [one.count for one in found.blocks] == [3, 0, 3, 1]


def test_damage_in_every_other_batch_costs_no_second_reading() -> None:
    parts = [batch(at) for at in range(0, 3000, 3)]
    for number in range(0, len(parts), 2):
        parts[number] = parts[number][:-1] + b"?"
    store = Store({".log": b"".join(parts)})

    found = walk_files(kafkalog.FORMAT, store, base_offset=0, span=NOTHING)

    assert len(found.damages) == len(found.blocks) == 500
    assert len(store.asked) == 1


# ---------------------------------------------------------------------------- STRM


def test_a_block_is_not_decompressed_outside_the_span() -> None:
    odd = block(record(0, 100) + b"\x80\x80", count=2)

    full, shallow = walked_strm(forge(odd), EVERYTHING), walked_strm(forge(odd), NOTHING)

    assert [(one.position, one.size) for one in full.damages] == [(64, len(odd))]
    assert shallow.damages == ()
    assert [(one.count, one.records) for one in shallow.blocks] == [(2, ())]


def test_the_last_offset_is_judged_as_far_as_it_follows_from_counts() -> None:
    def at_of(span: Span, **header: int) -> list[int]:
        data = forge(header=header)
        return [damage.error.at for damage in walked_strm(data, span).damages]

    assert at_of(NOTHING) == at_of(EVERYTHING) == []
    # Offsets may be missing, so that only the records know the last one.
    assert (at_of(EVERYTHING, max_offset=5), at_of(NOTHING, max_offset=5)) == ([28], [])
    # As many offsets as records, but the block cannot end there.
    short = {"count": 1, "max_offset": 0}
    assert at_of(EVERYTHING, **short) == at_of(NOTHING, **short) == [28, 36]
    long = {"count": 3, "max_offset": 2}
    assert at_of(EVERYTHING, **long) == at_of(NOTHING, **long) == [28, 36]


@BOTH
def test_blocks_that_hold_the_same_offsets_are_damage(span: Span) -> None:
    data = forge(GOOD, GOOD, entries=((0, 64), (1, 64 + len(GOOD))))

    found = walked_strm(data, span)

    assert [one.position for one in found.damages] == [64 + len(GOOD)]
    assert isinstance(found.damages[0].error, CorruptError)


@BOTH
def test_a_segment_that_cannot_be_read_is_skipped_from_its_first_byte(span: Span) -> None:
    data = forge(header={"version": 9})

    (damage,) = walked_strm(data, span).damages

    assert (damage.error.at, damage.position, damage.size) == (4, 0, len(data))


# ---------------------------------------------------------------------------- cost


@pytest.mark.parametrize("fmt", FORMATS.values(), ids=FORMATS)
def test_a_large_file_is_read_about_once_and_in_large_pieces(fmt: Format) -> None:
    value = bytes(range(256)) * 400
    found = [Record(offset=at, timestamp=at, key=None, value=value) for at in range(200)]
    store = Store(encode(fmt, found, Codec.NONE))
    size = len(store.files[fmt.suffix])
    assert size > 16 << 20

    seen = walk_files(fmt, store, base_offset=0, span=NOTHING)

    assert (seen.damages, seen.records) == ((), ())
    assert sum(one.count for one in seen.blocks) == len(found)
    pieces = [wish.end - wish.start for wish in store.asked]
    assert max(pieces) <= 10 << 20
    assert sum(pieces) <= size * 1.2
    assert len([piece for piece in pieces if piece > 1 << 16]) <= 4


def test_a_batch_larger_than_a_piece_is_swept_over() -> None:
    value = bytes(9 << 20)
    large = encode_batch(
        NewBatch(records=[Record(offset=3, timestamp=0, key=None, value=value)], base_offset=3)
    )
    store = Store({".log": batch(0) + large + batch(4)})

    found = walk_files(kafkalog.FORMAT, store, base_offset=0, span=NOTHING)

    assert [(one.position, one.count) for one in found.blocks] == [
        (0, 3),
        (len(batch(0)), 1),
        (len(batch(0)) + len(large), 3),
    ]
    assert found.damages == ()
    assert len(store.asked) == 3
