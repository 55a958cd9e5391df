"""Runs of batches: one case for each thing a walk reports, and how it goes on behind it."""

import struct
from collections.abc import Iterator
from typing import Any

import pytest
from crc32c import crc32c

from lakelog.errors import CorruptError, InvalidInputError, UnsupportedError
from lakelog.formats import batches
from lakelog.formats.batches import (
    Piece,
    Run,
    find_offset,
    find_time,
    frames,
    pieces,
    read_records,
    walk_run,
)
from lakelog.formats.contract import Block, Damage, Range, walk_blocks
from lakelog.formats.contract import run as drive
from lakelog.model import Record
from lakelog.records import Codec, NewBatch, encode_batch
from tests.plain_encoders import BATCH_RECORDS_MAX, encode_run
from tests.segments import buffers

SUFFIX = ".log"


def record(offset: int, time: int = 0, value: bytes = b"value") -> Record:
    return Record(offset=offset, timestamp=time, key=b"key", value=value)


def batch(base: int, count: int = 3, **more: Any) -> bytes:
    found = [record(base + i, (base + i) * 10) for i in range(count)]
    return encode_batch(NewBatch(records=found, **more))


def sealed(data: bytes, at: int, new: bytes) -> bytes:
    """A batch with other bytes at one place, and its CRC made right again."""
    made = bytearray(data)
    made[at : at + len(new)] = new
    struct.pack_into(">I", made, 17, crc32c(made[21:]))
    return bytes(made)


def flipped(data: bytes, at: int, bit: int = 1) -> bytes:
    made = bytearray(data)
    made[at] ^= bit
    return bytes(made)


def run_of(data: bytes, **more: Any) -> Run:
    fields: dict[str, Any] = {"start": 0, "end": len(data), "base_offset": 0} | more
    return Run(suffix=SUFFIX, **fields)


def walked(data: bytes, **more: Any) -> list[Block | Damage]:
    return list(walk_blocks(walk_run(run_of(data, **more)), buffers({SUFFIX: data})))


def offsets(found: list[Block | Damage]) -> list[int]:
    return [r.offset for item in found if isinstance(item, Block) for r in item.records]


def damages(found: list[Block | Damage]) -> list[Damage]:
    return [item for item in found if isinstance(item, Damage)]


A, B, C = batch(0), batch(3), batch(6)
GOOD = A + B + C


# ---------------------------------------------------------------------------- walking


def test_a_walk_yields_each_batch_with_its_header_and_place() -> None:
    found = walked(GOOD)
    assert offsets(found) == list(range(9))
    assert [(b.position, b.size) for b in found if isinstance(b, Block)] == [
        (0, len(A)),
        (len(A), len(B)),
        (len(A + B), len(C)),
    ]
    assert all(item.header is not None for item in found)


def test_offsets_may_jump_up() -> None:
    assert offsets(walked(A + batch(1 << 40))) == [0, 1, 2, *range(1 << 40, (1 << 40) + 3)]


def test_a_run_may_begin_above_its_base_offset() -> None:
    assert offsets(walked(B, base_offset=1)) == [3, 4, 5]


def test_a_bad_crc_skips_one_batch_and_names_it() -> None:
    found = walked(A + flipped(B, len(B) - 1) + C)
    (damage,) = damages(found)
    assert offsets(found) == [0, 1, 2, 6, 7, 8]
    assert isinstance(damage.error, CorruptError)
    assert (damage.error.at, damage.size) == (len(A), len(B))
    assert damage.header is not None
    assert damage.header.base_offset == 3


def test_a_bad_crc_at_the_end_skips_to_the_end() -> None:
    found = walked(A + flipped(B, len(B) - 1))
    assert offsets(found) == [0, 1, 2]
    assert damages(found)[0].size == len(B)


@pytest.mark.parametrize("at", range(8, 12), ids=lambda at: f"length byte {at}")
def test_behind_a_wrong_length_the_next_good_batch_is_found(at: int) -> None:
    found = walked(A + flipped(B, at, 4) + C)
    assert offsets(found) == [0, 1, 2, 6, 7, 8]
    assert [damage.size for damage in damages(found)] == [len(B)]


def test_behind_a_header_that_cannot_be_read_the_next_good_batch_is_found() -> None:
    found = walked(A + bytes(range(200)) + C)
    (damage,) = damages(found)
    assert offsets(found) == [0, 1, 2, 6, 7, 8]
    assert damage.header is None
    assert damage.size == 200


def test_the_search_crosses_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches.run, "_SEARCH_PIECE_BYTES", 64)
    for junk in range(1, 200):
        found = walked(A + b"\x01" * junk + C)
        assert offsets(found) == [0, 1, 2, 6, 7, 8]
        assert [damage.size for damage in damages(found)] == [junk]


def test_the_search_does_not_believe_offsets_that_go_down_or_far_up() -> None:
    junk = b"\x01" * 100
    assert offsets(walked(C + junk + A)) == [6, 7, 8]
    assert offsets(walked(A + junk + batch(1 << 41))) == [0, 1, 2]


def test_the_search_gives_up_when_too_much_only_looks_like_batches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trap = flipped(batch(6), 20)
    assert offsets(walked(A + b"\x01" + trap * 5 + b"\x01" + C)) == [0, 1, 2, 6, 7, 8]
    monkeypatch.setattr(batches.run, "SEARCH_BYTES_MAX", 2 * len(trap))
    found = walked(A + b"\x01" + trap * 5 + b"\x01" + C)
    assert offsets(found) == [0, 1, 2]
    assert sum(damage.size for damage in damages(found)) == 2 + 5 * len(trap) + len(C)


def test_a_batch_that_reaches_past_the_end_is_damage_with_a_header() -> None:
    found = walked(A + B[:-1])
    (damage,) = damages(found)
    assert offsets(found) == [0, 1, 2]
    assert damage.header is not None
    assert damage.size == len(B) - 1


def test_a_header_cut_short_is_damage() -> None:
    (damage,) = damages(walked(A + B[:60]))
    assert isinstance(damage.error, CorruptError)
    assert damage.size == 60


def test_offsets_that_go_down_are_damage_and_reported_once() -> None:
    found = walked(B + A + B + C)
    (damage,) = damages(found)
    assert offsets(found) == [3, 4, 5, 3, 4, 5, 6, 7, 8]
    assert "base offset 0, the batch before ends at 6" in damage.error.what
    assert damage.size == len(A)


def test_an_offset_below_the_base_offset_is_damage() -> None:
    (damage,) = damages(walked(A, base_offset=1))
    assert "base offset 0" in damage.error.what


def test_records_that_do_not_fill_their_batch_are_damage_though_the_crc_is_good() -> None:
    bad = sealed(B, 61, b"\x7f")
    found = walked(A + bad + C)
    (damage,) = damages(found)
    assert offsets(found) == [0, 1, 2, 6, 7, 8]
    assert damage.header is not None
    assert (damage.error.at, damage.size) == (len(A) + 61, len(B))


@pytest.mark.parametrize("magic", [0, 1, 3])
def test_another_magic_is_unsupported_and_the_walk_goes_on(magic: int) -> None:
    other = bytearray(B)
    other[16] = magic
    found = walked(A + bytes(other) + C)
    (damage,) = damages(found)
    assert isinstance(damage.error, UnsupportedError)
    assert damage.error.at == len(A) + 16
    assert offsets(found) == [0, 1, 2, 6, 7, 8]


def test_an_unknown_codec_is_unsupported_and_the_walk_goes_on() -> None:
    found = walked(A + sealed(B, 22, b"\x05") + C)
    assert isinstance(damages(found)[0].error, UnsupportedError)
    assert offsets(found) == [0, 1, 2, 6, 7, 8]


def test_a_file_shorter_than_promised_is_damage() -> None:
    run = run_of(GOOD, end=len(GOOD) + 100)
    found = list(walk_blocks(walk_run(run), buffers({SUFFIX: GOOD})))
    assert offsets(found) == list(range(9))
    assert damages(found)[0].size == 100


# ---------------------------------------------------------------------------- how a run may end


def test_zeros_are_the_end_only_where_space_may_be_set_aside() -> None:
    assert damages(walked(A + bytes(500), zeros_end=True)) == []
    assert damages(walked(bytes(500), zeros_end=True)) == []
    assert damages(walked(A + bytes(3), zeros_end=True)) == []
    assert len(damages(walked(A + bytes(500)))) == 1


def test_zeros_before_a_good_batch_are_damage() -> None:
    found = walked(A + bytes(500) + C, zeros_end=True)
    assert offsets(found) == [0, 1, 2, 6, 7, 8]
    assert [damage.size for damage in damages(found)] == [500]


def test_zeros_behind_a_damaged_batch_are_the_end() -> None:
    found = walked(flipped(A, 70) + bytes(500), zeros_end=True)
    assert [damage.size for damage in damages(found)] == [len(A)]


@pytest.mark.parametrize("cut", [1, 11, 17, 40, 61, 70, len(B) - 1])
def test_what_is_on_its_way_is_no_damage_while_a_writer_is_at_work(cut: int) -> None:
    assert offsets(walked(A + B[:cut], torn_end=True)) == [0, 1, 2]
    assert damages(walked(A + B[:cut], torn_end=True)) == []
    assert damages(walked(A + B[:cut])) != []


def test_a_bad_last_batch_is_no_damage_while_a_writer_is_at_work() -> None:
    assert damages(walked(A + flipped(B, 70), torn_end=True)) == []
    assert damages(walked(A + B[:70] + bytes(900), torn_end=True, zeros_end=True)) == []


def test_a_bad_batch_before_a_good_one_is_damage_even_while_a_writer_is_at_work() -> None:
    found = walked(A + flipped(B, 70) + C, torn_end=True)
    assert len(damages(found)) == 1
    assert offsets(found) == [0, 1, 2, 6, 7, 8]


def test_an_old_message_format_is_reported_even_while_a_writer_is_at_work() -> None:
    other = bytearray(B)
    other[16] = 1
    assert len(damages(walked(bytes(other), torn_end=True))) == 1


# ---------------------------------------------------------------------------- looking up


def reading(data: bytes, asked: list[Range] | None = None) -> Any:
    give = buffers({SUFFIX: data})

    def noted(wish: Range) -> bytes:
        if asked is not None:
            asked.append(wish)
        return give(wish)

    return noted


@pytest.mark.parametrize("offset", range(-1, 11))
@pytest.mark.parametrize("limit", [0, 1, 4, 100])
def test_read_records_is_a_plain_filter(offset: int, limit: int) -> None:
    found = drive(read_records(run_of(GOOD), 0, offset, limit), reading(GOOD))
    due = [n for n in range(9) if n >= offset][:limit]
    assert [r.offset for r in found] == due


def test_reading_asks_for_little() -> None:
    many = b"".join(batch(3 * i) for i in range(20_000))
    asked: list[Range] = []
    run = run_of(many)
    drive(read_records(run, len(A), 5, 2), reading(many, asked))
    assert sum(wish.end - wish.start for wish in asked) <= 64 * 1024


def test_a_large_batch_is_skipped_without_being_read() -> None:
    large = encode_batch(NewBatch(records=[record(0, value=bytes(10_000_000))]))
    data = large + batch(1)
    asked: list[Range] = []
    assert [r.offset for r in drive(read_records(run_of(data), 0, 2, 1), reading(data, asked))] == [
        2
    ]
    assert sum(wish.end - wish.start for wish in asked) <= 200_000


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (A + flipped(B, 70) + C, "CRC-32C"),
        (A + b"\x07" * 100, "magic 7"),
        (A + B[:-1], " left"),
        (B + A, "the batch before ends at 6"),
    ],
    ids=["crc", "magic", "cut", "order"],
)
def test_reading_raises_on_damage_it_meets(data: bytes, what: str) -> None:
    with pytest.raises((CorruptError, UnsupportedError), match=what):
        drive(read_records(run_of(data), 0, 0, 100), reading(data))


def test_reading_stops_at_a_torn_end_and_at_zeros() -> None:
    for data in (A + flipped(B, 70), A + B[:-1], A + bytes(100)):
        run = run_of(data, torn_end=True, zeros_end=True)
        found = drive(read_records(run, 0, 0, 100), reading(data))
        assert [r.offset for r in found] == [0, 1, 2]


def test_reading_notices_an_index_that_leads_too_far() -> None:
    with pytest.raises(CorruptError, match="the index leads here for offset 4"):
        drive(read_records(run_of(GOOD), len(A + B), 4, 1), reading(GOOD))
    with pytest.raises(CorruptError, match="the batches end at"):
        drive(read_records(run_of(GOOD), len(GOOD), 9, 1), reading(GOOD))


def test_an_index_may_be_ahead_of_a_run_that_grows() -> None:
    run = run_of(GOOD, torn_end=True)
    assert drive(read_records(run, len(GOOD) + 10, 50, 1), reading(GOOD)) == ()


def test_find_offset_finds_the_batch_or_the_next_one() -> None:
    data = A + C
    assert drive(find_offset(run_of(data), 0, 1), reading(data)) == next(frames(data))
    gap = drive(find_offset(run_of(data), 0, 4), reading(data))
    assert gap is not None
    assert (gap.position, gap.header.base_offset) == (len(A), 6)
    assert drive(find_offset(run_of(data), 0, 9), reading(data)) is None


def test_find_time_decodes_only_batches_that_can_qualify() -> None:
    spoiled = flipped(A, 70) + B + C
    assert drive(find_time(run_of(spoiled), 0, 41), reading(spoiled)) == 5
    with pytest.raises(CorruptError):
        drive(find_time(run_of(spoiled), 0, 20), reading(spoiled))


def test_find_time_goes_on_when_a_header_claims_too_much() -> None:
    boast = sealed(A, 35, struct.pack(">q", 1000))
    data = boast + B
    assert drive(find_time(run_of(data), 0, 31), reading(data)) == 4
    assert drive(find_time(run_of(data), 0, 500), reading(data)) is None


# ---------------------------------------------------------------------------- pieces


def cut_up(data: bytes, bytes_max: int, **more: Any) -> Iterator[Piece]:
    flow = pieces(run_of(data, **more), bytes_max=bytes_max)
    answer = None
    while True:
        try:
            item = flow.send(answer)
        except StopIteration:
            return
        answer = None
        if isinstance(item, Range):
            answer = data[item.start : item.end]
        else:
            yield item


@pytest.mark.parametrize("bytes_max", [1, 61, 100, 150, 300, 1000, 10_000])
def test_pieces_are_whole_batches_that_make_up_the_run(bytes_max: int) -> None:
    data = b"".join(batch(10 * i, 1 + i % 5) for i in range(30))
    found = list(cut_up(data, bytes_max))
    assert b"".join(piece.data for piece in found) == data
    assert all(len(list(frames(piece.data))) >= 1 for piece in found)
    assert all(
        len(piece.data) <= bytes_max or len(list(frames(piece.data))) == 1 for piece in found
    )


def test_pieces_yield_what_is_good_before_they_raise() -> None:
    found = cut_up(A + b"\x07" * 100, 1000)
    assert bytes(next(found).data) == A
    with pytest.raises(UnsupportedError):
        next(found)


def test_pieces_end_where_the_run_does() -> None:
    ends = {"zeros_end": True, "torn_end": True}
    assert [bytes(p.data) for p in cut_up(A + bytes(99), 1000, **ends)] == [A]
    assert [bytes(p.data) for p in cut_up(A + B[:-1], 1000, **ends)] == [A]


@pytest.mark.parametrize("bytes_max", [50, 1000])
def test_pieces_end_before_a_batch_whose_bytes_are_not_all_there_yet(bytes_max: int) -> None:
    """As in a file of full size (log.preallocate), where a batch on its way has its length."""
    torn = B[:-5] + bytes(5)
    ends = {"zeros_end": True, "torn_end": True}
    assert [bytes(p.data) for p in cut_up(A + torn + bytes(50), bytes_max, **ends)] == [A]
    # But not when more stands behind it, nor when nobody is writing: then it is for the decoder.
    for found in (
        cut_up(A + torn + C, bytes_max, **ends),
        cut_up(A + torn, bytes_max, zeros_end=True),
    ):
        assert torn in b"".join(p.data for p in found)


# ---------------------------------------------------------------------------- in memory


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (A + flipped(B, 70), "CRC-32C"),
        (A + B[:-1], "left"),
        (B + A, "base offset 0, the batch before ends at 6"),
        (A + b"\0", "1 bytes left"),
    ],
    ids=["crc", "cut", "order", "rest"],
)
def test_frames_refuses_what_is_not_a_run(data: bytes, what: str) -> None:
    with pytest.raises(CorruptError, match=what):
        list(frames(data))


def test_a_batch_closes_at_a_thousand_records() -> None:
    data = encode_run([record(i) for i in range(2 * BATCH_RECORDS_MAX + 1)], Codec.ZSTD)
    assert [header.count for _, header in frames(data)] == [1000, 1000, 1]


def test_a_batch_closes_at_a_mebibyte() -> None:
    data = encode_run([record(i, value=bytes(400_000)) for i in range(5)], Codec.GZIP)
    assert [header.count for _, header in frames(data)] == [2, 2, 1]


def test_a_batch_closes_where_an_offset_or_a_time_does_not_fit() -> None:
    far = [record(0), record((1 << 31) - 1), record(1 << 31), record(1 << 33)]
    assert [h.count for _, h in frames(encode_run(far, Codec.NONE))] == [2, 1, 1]
    times = [record(0, -(1 << 63)), record(1, -1), record(2, 0), record(3, (1 << 63) - 1)]
    assert [h.count for _, h in frames(encode_run(times, Codec.NONE))] == [2, 2]


@pytest.mark.parametrize("bad", [[-1], [5, 5], [5, 4], [(1 << 63) - 1]])
def test_offsets_must_rise_and_fit(bad: list[int]) -> None:
    with pytest.raises(InvalidInputError):
        encode_run([record(offset) for offset in bad], Codec.NONE)
