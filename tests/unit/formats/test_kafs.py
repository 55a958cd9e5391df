"""KAFS: one case for each thing it refuses, resealed; each erratum by name; the golden files."""

import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from crc32c import crc32c

from lakelog.errors import CorruptError, InvalidInputError, UnsupportedError
from lakelog.formats.batches import BatchSegment, Frame, frames
from lakelog.formats.contract import Block, Damage, Files, Range, walk_blocks
from lakelog.formats.contract import (
    run as drive,
)
from lakelog.formats.kafs import (
    FORMAT,
    HEADER_BYTES,
    INDEX_BYTES_MAX,
    Footer,
    Head,
    decode_footer,
    decode_head,
    decode_index,
    encode_head,
    encode_index,
    index,
    segment,
    wrap,
)
from lakelog.model import Record
from lakelog.records import Codec, NewBatch, encode_batch
from tests.golden.kafs.make import HERE, KINDS, NOON, SMALL, Golden, goldens
from tests.plain_encoders import encode
from tests.segments import buffers, decode
from tests.shorthands import encode_kafs

BASE = 100
PAGE = Path(__file__).parents[3] / "docs/reference/formats/kafs.md"


def record(offset: int, time: int) -> Record:
    return Record(offset=offset, timestamp=time, key=b"key", value=b"value %d" % offset)


def batch(base: int, count: int) -> bytes:
    return encode_batch(NewBatch(records=[record(base + i, base + i) for i in range(count)]))


RUN = b"".join(batch(BASE + 10 * i, 10) for i in range(5))
FRAMES = [Frame(HEADER_BYTES + at, header) for at, header in frames(RUN)]
SEGMENT = encode_kafs(RUN, created_ms=NOON)
INDEX = encode_index(FRAMES, interval=20)
GOOD = {".kfs": SEGMENT, ".index": INDEX}


def walked(files: dict[str, bytes], base_offset: int = BASE) -> list[Block | Damage]:
    sizes = {suffix: len(data) for suffix, data in files.items()}
    walk = FORMAT.walk(Files(base_offset=base_offset, sizes=sizes))
    return list(walk_blocks(walk, buffers(files)))


def damages(files: dict[str, bytes], base_offset: int = BASE) -> list[Damage]:
    return [found for found in walked(files, base_offset) if isinstance(found, Damage)]


def records(files: dict[str, bytes]) -> list[int]:
    return [r.offset for f in walked(files) if isinstance(f, Block) for r in f.records]


def opened(files: dict[str, bytes], base_offset: int = BASE) -> BatchSegment:
    sizes = {suffix: len(data) for suffix, data in files.items()}
    found = drive(FORMAT.open(Files(base_offset=base_offset, sizes=sizes)), buffers(files))
    assert isinstance(found, BatchSegment)
    return found


def put(data: bytes, at: int, layout: str, *values: Any) -> bytes:
    made = bytearray(data)
    struct.pack_into(layout, made, at % len(made), *values)
    return bytes(made)


def resealed(run: bytes, like: bytes = SEGMENT) -> bytes:
    """Other batches in the same segment, under a good CRC."""
    return like[:32] + run + struct.pack(">I", crc32c(run)) + like[-12:]


# ---------------------------------------------------------------------------- the whole


@pytest.mark.parametrize("codec", Codec)
def test_decode_inverts_encode(codec: Codec) -> None:
    assert decode(FORMAT, encode(FORMAT, SMALL, codec), base_offset=1000) == SMALL


def test_batches_are_kept_byte_for_byte() -> None:
    assert SEGMENT[32:-16] == RUN
    assert damages(GOOD) == []


def test_a_segment_needs_no_index() -> None:
    assert damages({".kfs": SEGMENT}) == []


def test_a_segment_may_begin_above_its_base_offset() -> None:
    data = encode_kafs(RUN, created_ms=0, base_offset=7)
    assert damages({".kfs": data}, base_offset=7) == []


def test_every_cut_is_noticed() -> None:
    for suffix, data in GOOD.items():
        for end in range(len(data)):
            assert damages(GOOD | {suffix: data[:end]}) != []


def test_every_flipped_bit_is_noticed_but_those_of_created_and_interval() -> None:
    run = batch(BASE, 1) + batch(BASE + 5, 2)
    placed = [Frame(HEADER_BYTES + at, header) for at, header in frames(run)]
    good = {
        ".kfs": encode_kafs(run, created_ms=NOON),
        ".index": encode_index(placed, interval=1),
    }
    silent = set()
    for suffix, data in good.items():
        for bit in range(8 * len(data)):
            made = bytearray(data)
            made[bit // 8] ^= 0x80 >> bit % 8
            if not damages(good | {suffix: bytes(made)}):
                silent.add((suffix, bit))
    created = {(".kfs", bit) for bit in range(20 * 8 + 1, 28 * 8)}
    # Its lowest bit is the only one that is set: without it, the interval is 0.
    interval = {(".index", bit) for bit in range(10 * 8 + 1, 14 * 8 - 1)}
    assert silent == created | interval


def test_equal_records_give_equal_bytes() -> None:
    assert encode(FORMAT, SMALL, Codec.ZSTD) == encode(FORMAT, list(SMALL), Codec.ZSTD)


# ---------------------------------------------------------------------------- what is refused


HEAD_CASES: list[tuple[bytes, type[Exception], str]] = [
    (put(SEGMENT, 0, ">4s", b"KAFT"), CorruptError, "magic"),
    (put(SEGMENT, 4, ">H", 2), UnsupportedError, "version 2"),
    (put(SEGMENT, 6, ">H", 1), UnsupportedError, "flags 0x0001"),
    (put(SEGMENT, 8, ">q", -1), CorruptError, "base offset -1"),
    (put(SEGMENT, 8, ">q", 99), CorruptError, "the name says 100"),
    (put(SEGMENT, 16, ">i", -1), CorruptError, "record count -1"),
    (put(SEGMENT, 20, ">q", -1), CorruptError, "creation time -1"),
    (put(SEGMENT, 28, ">i", 1), UnsupportedError, "reserved"),
    (b"", CorruptError, "0 bytes, a header has 32"),
    (SEGMENT[:31], CorruptError, "31 bytes, a header has 32"),
]


@pytest.mark.parametrize(("data", "kind", "what"), HEAD_CASES, ids=[c[2] for c in HEAD_CASES])
def test_a_bad_header_is_refused(data: bytes, kind: type[Exception], what: str) -> None:
    with pytest.raises(kind, match=what):
        decode(FORMAT, {".kfs": data}, base_offset=BASE)
    with pytest.raises(kind, match=what):
        opened({".kfs": data})


BODY_CASES = [
    (put(SEGMENT, 16, ">i", 51), "50 records, the header says 51", 16),
    (put(SEGMENT, -12, ">q", 150), "last offset 150, the batches end at 149", len(SEGMENT) - 12),
    (put(SEGMENT, -16, ">I", 7), "the footer says 7", len(SEGMENT) - 16),
    (put(SEGMENT, -4, ">4s", b"END?"), "END", len(SEGMENT) - 4),
    (put(SEGMENT, 32 + 12, ">i", 9), "CRC-32C of the batches", len(SEGMENT) - 16),
    (resealed(b""), "no batches", 32),
    (resealed(RUN[: len(RUN) // 5] * 2), "the batch before ends at 110", 32 + len(RUN) // 5),
    (resealed(put(RUN, 0, ">q", 99)), "base offset 99", 32),
    (resealed(RUN[:-1]), "left", FRAMES[-1].position),
    (resealed(RUN + b"\0"), "1 bytes left", len(SEGMENT) - 16),
]


@pytest.mark.parametrize(("data", "what", "at"), BODY_CASES, ids=[c[1] for c in BODY_CASES])
def test_a_contradiction_is_damage_and_says_where(data: bytes, what: str, at: int) -> None:
    first = damages({".kfs": data})[0]
    assert isinstance(first.error, CorruptError)
    assert re.search(what, first.error.what)
    assert (first.error.at, first.error.where) == (at, ".kfs")


def test_the_name_of_the_segment_must_agree() -> None:
    with pytest.raises(CorruptError, match="the name says 101"):
        decode(FORMAT, GOOD, base_offset=101)


def test_a_header_that_only_lies_about_its_name_still_gives_its_records() -> None:
    assert records(GOOD | {".kfs": put(SEGMENT, 8, ">q", 99)}) == list(range(100, 150))


def test_another_version_is_not_read_at_all() -> None:
    (damage,) = walked({".kfs": put(SEGMENT, 4, ">H", 2)})
    assert isinstance(damage, Damage)
    assert damage.size == len(SEGMENT)


def test_a_segment_cut_short_gives_what_is_left() -> None:
    assert records({".kfs": SEGMENT[: FRAMES[3].position + 50]}) == list(range(100, 130))


def test_damage_in_a_batch_silences_what_is_said_of_all() -> None:
    data = bytearray(SEGMENT)
    data[FRAMES[1].position + 80] ^= 1
    (damage,) = damages(GOOD | {".kfs": bytes(data)})
    assert damage.header is not None
    assert records(GOOD | {".kfs": bytes(data)}) == [*range(100, 110), *range(120, 150)]


INDEX_CASES: list[tuple[bytes, type[Exception], str]] = [
    (b"", CorruptError, "0 bytes, a header has 16"),
    (INDEX[:15], CorruptError, "15 bytes, a header has 16"),
    (put(INDEX, 0, ">4s", b"IDX1"), CorruptError, "magic"),
    (put(INDEX, 4, ">H", 2), UnsupportedError, "version 2"),
    (put(INDEX, 6, ">i", 2), CorruptError, "2 entries in 52 bytes"),
    (put(INDEX, 6, ">i", -1), CorruptError, "-1 entries"),
    (put(INDEX, 10, ">i", 0), CorruptError, "every 0 records"),
    (put(INDEX, 14, ">H", 1), UnsupportedError, "reserved"),
    (INDEX + b"\0", CorruptError, "3 entries in 53 bytes"),
    (put(INDEX, 28, ">q", 100), CorruptError, "offset 100"),
    (put(INDEX, 36, ">i", 32), CorruptError, "position 32"),
    (put(INDEX, 24, ">i", 31), CorruptError, "position 31"),
]


@pytest.mark.parametrize(("data", "kind", "what"), INDEX_CASES, ids=[c[2] for c in INDEX_CASES])
def test_a_bad_index_is_reported_but_the_records_come(
    data: bytes, kind: type[Exception], what: str
) -> None:
    files = GOOD | {".index": data}
    (damage,) = damages(files)
    assert isinstance(damage.error, kind)
    assert re.search(what, damage.error.what)
    assert damage.error.where == ".index"
    assert records(files) == list(range(100, 150))
    with pytest.raises(kind, match=what):
        opened(files)


LIES = [
    (put(INDEX, 28, ">q", 121), "that batch begins at offset 120"),
    (put(INDEX, 36, ">i", FRAMES[2].position + 1), "no batch begins there"),
    (put(INDEX, -4, ">i", len(SEGMENT)), "the batches end before it"),
]


@pytest.mark.parametrize(("data", "what"), LIES, ids=[c[1] for c in LIES])
def test_an_index_entry_that_contradicts_the_batches_is_damage(data: bytes, what: str) -> None:
    (damage,) = damages(GOOD | {".index": data})
    assert what in damage.error.what
    assert damage.error.where == ".index"
    assert damage.error.at >= 16


def test_entries_that_point_into_damage_are_passed_over() -> None:
    data = bytearray(SEGMENT)
    data[FRAMES[2].position + 80] ^= 1
    assert [d.error.where for d in damages(GOOD | {".kfs": bytes(data)})] == [".kfs"]
    data = bytearray(SEGMENT)
    data[FRAMES[4].position + 80] ^= 1
    assert [d.error.where for d in damages(GOOD | {".kfs": bytes(data)})] == [".kfs"]


def test_an_index_over_the_limit_is_unsupported() -> None:
    files = Files(base_offset=BASE, sizes={".kfs": len(SEGMENT), ".index": INDEX_BYTES_MAX + 1})
    with pytest.raises(UnsupportedError, match="over the limit"):
        drive(FORMAT.open(files), buffers(GOOD))


def test_a_footer_that_ends_before_the_base_offset_is_refused() -> None:
    with pytest.raises(CorruptError, match="last offset 99"):
        opened({".kfs": put(SEGMENT, -12, ">q", 99)})


BAD_CALLS: list[tuple[Callable[[], object], str]] = [
    (lambda: encode_kafs(b"", created_ms=0), "at least one batch"),
    (lambda: encode(FORMAT, [], Codec.NONE), "at least one batch"),
    (lambda: encode_kafs(RUN, created_ms=-1), "created at -1"),
    (lambda: encode_kafs(RUN, created_ms=0, base_offset=101), "below base offset 101"),
    (lambda: encode_head(Head(base_offset=-1, count=1, created_ms=0)), "offset -1"),
    (lambda: encode_head(Head(base_offset=0, count=1 << 31, created_ms=0)), "records"),
    (lambda: encode_index(FRAMES, interval=0), "every 0 records"),
]


@pytest.mark.parametrize("cuts", [[], [1], [1, 2, 4], [2, 2], [0, 5]])
def test_a_segment_is_the_same_from_one_run_and_from_many(cuts: list[int]) -> None:
    starts = [frame.position - HEADER_BYTES for frame in FRAMES] + [len(RUN)]
    ends = [starts[cut] for cut in cuts]
    runs = [RUN[start:end] for start, end in zip([0, *ends], [*ends, len(RUN)], strict=True)]
    pieces, placed = wrap([memoryview(run) for run in runs], created_ms=NOON)
    assert b"".join(pieces) == SEGMENT
    assert placed == FRAMES


def test_runs_stand_in_the_order_of_their_offsets() -> None:
    one, two = batch(0, 10), batch(10, 10)
    with pytest.raises(CorruptError, match="base offset 0, the batch before ends at 20"):
        wrap([two, one], created_ms=0)


@pytest.mark.parametrize(("call", "what"), BAD_CALLS, ids=[c[1] for c in BAD_CALLS])
def test_what_cannot_be_written_is_refused(call: Callable[[], object], what: str) -> None:
    with pytest.raises(InvalidInputError, match=what):
        call()


def test_a_damaged_run_is_not_sealed() -> None:
    with pytest.raises(CorruptError):
        encode_kafs(RUN[:-1], created_ms=0)


def test_a_segment_and_an_index_have_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment, "SEGMENT_BYTES_MAX", len(SEGMENT) - 1)
    with pytest.raises(InvalidInputError, match="do not fit one KAFS segment"):
        encode_kafs(RUN, created_ms=0)
    monkeypatch.setattr(index, "INDEX_BYTES_MAX", 16 + 12 * 4)
    with pytest.raises(InvalidInputError, match="larger interval"):
        encode_index(FRAMES, interval=1)


# ---------------------------------------------------------------------------- lookups


@pytest.mark.parametrize("with_index", [True, False])
def test_read_from_is_a_plain_filter(with_index: bool) -> None:
    files = GOOD if with_index else {".kfs": SEGMENT}
    found = opened(files)
    assert found.base_offset == 100
    for offset in range(95, 155):
        for limit in (0, 1, 15, 100):
            got = drive(found.read_from(offset, limit), buffers(files))
            assert [r.offset for r in got] == [n for n in range(100, 150) if n >= offset][:limit]


def test_offset_at_is_a_plain_filter() -> None:
    found = opened(GOOD)
    for time in range(95, 155):
        due = next((n for n in range(100, 150) if n >= time), None)
        assert drive(found.offset_at(time), buffers(GOOD)) == due


def test_opening_and_reading_ask_for_little() -> None:
    run = b"".join(batch(10 * i, 10) for i in range(20_000))
    data = encode_kafs(run, created_ms=0)
    placed = (Frame(HEADER_BYTES + at, header) for at, header in frames(run))
    files = {".kfs": data, ".index": encode_index(placed)}
    give = buffers(files)
    asked: list[Range] = []

    def noted(wish: Range) -> bytes:
        asked.append(wish)
        return give(wish)

    sizes = {suffix: len(part) for suffix, part in files.items()}
    found = drive(FORMAT.open(Files(base_offset=0, sizes=sizes)), noted)
    of_segment = [wish.end - wish.start for wish in asked if wish.suffix == ".kfs"]
    assert of_segment == [32, 16]
    asked.clear()
    (got,) = drive(found.read_from(123_456, 1), noted)
    assert got.offset == 123_456
    assert [wish.suffix for wish in asked] == [".kfs"]
    assert asked[0].end - asked[0].start <= 64 * 1024


def test_an_index_gives_the_last_entry_not_above_the_offset() -> None:
    found = decode_index(INDEX)
    assert [entry.offset for entry in found] == [100, 120, 140]
    starts = [found.position(offset) for offset in (0, 100, 119, 120, 149, 1000)]
    first, third, fifth = (FRAMES[i].position for i in (0, 2, 4))
    assert starts == [32, first, first, third, fifth, fifth]


# ---------------------------------------------------------------------------- names


def test_names() -> None:
    assert FORMAT.file_stem(50_000) == "segment-00000000000000050000"
    assert FORMAT.base_offset("segment-00000000000000050000") == 50_000
    assert FORMAT.base_offset("segment-00000000000000050000-0badcafe") == 50_000
    assert FORMAT.base_offset("segment-00000000000000000007-1b4e28ba-2fa1-11d2-883f") == 7
    for other in ("segment-7", "00000000000000050000", "segment-00000000000000050000-", "",
                  "segment-99999999999999999999", "segment-0000000000000005000٠"):  # fmt: skip
        assert FORMAT.base_offset(other) is None


def test_sniff_goes_by_the_magic_and_never_raises() -> None:
    assert FORMAT.sniff(SEGMENT[:64], BASE)
    for other in (b"", b"KAF", b"STRM" + bytes(60), RUN[:64]):
        assert not FORMAT.sniff(other, 0)


# ---------------------------------------------------------------------------- errata


def test_k1_a_batch_header_has_61_bytes() -> None:
    empty = encode_batch(NewBatch(records=(), base_offset=0, next_offset=1))
    assert len(empty) == 61
    assert decode(FORMAT, {".kfs": encode_kafs(empty, created_ms=0)}, base_offset=0) == ()


def test_k2_batch_length_counts_the_bytes_behind_it() -> None:
    (length,) = struct.unpack_from(">i", SEGMENT, 32 + 8)
    assert 12 + length == FRAMES[1].position - 32


def test_k3_a_batch_crc_is_crc32c_from_the_attributes_on() -> None:
    (crc,) = struct.unpack_from(">I", SEGMENT, 32 + 17)
    assert crc == crc32c(SEGMENT[32 + 21 : FRAMES[1].position])


def test_k4_partition_leader_is_an_epoch() -> None:
    data = encode_batch(NewBatch(records=[record(0, 0)], leader_epoch=7))
    (block,) = walked_one(encode_kafs(data, created_ms=0))
    assert block.header is not None
    assert block.header.leader_epoch == 7


def walked_one(data: bytes) -> list[Block]:
    return [found for found in walked({".kfs": data}, 0) if isinstance(found, Block)]


def test_k5_the_segment_crc_is_crc32c_of_the_batches_alone() -> None:
    footer = decode_footer(SEGMENT[-16:], at=len(SEGMENT) - 16)
    assert footer == Footer(crc=crc32c(RUN), last_offset=149)


def test_k6_the_index_magic_is_four_bytes() -> None:
    assert INDEX[:6] == bytes.fromhex("49 44 58 00 00 01")
    assert len(encode_index([])) == 16


def test_k7_positions_count_from_the_start_of_the_object_and_entries_by_batch() -> None:
    assert [entry.position for entry in decode_index(INDEX)] == [
        FRAMES[0].position,
        FRAMES[2].position,
        FRAMES[4].position,
    ]
    assert FRAMES[0].position == 32
    every = encode_index(FRAMES, interval=15)
    # Ten records a batch: fifteen have passed only after two batches.
    assert [entry.offset for entry in decode_index(every)] == [100, 120, 140]
    assert int.from_bytes(INDEX[10:14], "big") == 20


def test_k16_the_header_counts_records_and_knows_no_times() -> None:
    assert decode_head(SEGMENT[:32]) == Head(base_offset=100, count=50, created_ms=NOON)
    kinds = b"".join(encode_batch(batch) for batch in KINDS)
    assert decode_head(encode_kafs(kinds, created_ms=0)).count == 5
    # So a time is looked for batch by batch.
    assert drive(opened(GOOD).offset_at(125), buffers(GOOD)) == 125


def test_k17_the_footer_has_16_bytes_with_the_last_offset() -> None:
    assert SEGMENT[-16:] == struct.pack(">Iq4s", crc32c(RUN), 149, b"END!")


# ---------------------------------------------------------------------------- golden files


@pytest.mark.parametrize("golden", goldens(), ids=lambda golden: golden.stem)
def test_golden_segments_decode_for_ever(golden: Golden) -> None:
    files = {suffix: (HERE / f"{golden.stem}{suffix}").read_bytes() for suffix in golden.files}
    assert FORMAT.base_offset(golden.stem) == golden.base_offset
    assert decode(FORMAT, files, base_offset=golden.base_offset) == golden.records


@pytest.mark.parametrize("golden", goldens(), ids=lambda golden: golden.stem)
def test_golden_segments_are_what_the_encoder_makes(golden: Golden) -> None:
    for suffix, data in golden.files.items():
        assert (HERE / f"{golden.stem}{suffix}").read_bytes() == data


@pytest.mark.parametrize("suffix", [".kfs", ".index"])
def test_the_bytes_on_the_page_are_those_of_the_encoder(suffix: str) -> None:
    block = PAGE.read_text().split(f"<!-- bytes of {suffix} -->")[1].split("```")[1]
    shown = b""
    for line in block.splitlines()[1:]:
        found = re.match(r"([0-9a-f]{4})  ((?:[0-9a-f]{2} ?)+)", line)
        assert found, line
        assert int(found[1], 16) == len(shown)
        shown += bytes.fromhex(found[2])
    assert shown == encode(FORMAT, SMALL, Codec.NONE)[suffix]
