"""STRM: one case per raise, walks that go on behind damage, lookups that read little.

The cases of damage are sealed again under good checksums, so that the check in question sees them.
"""

from itertools import pairwise

import lz4.block
import pytest
import zstandard

from lakelog.errors import CorruptError, InvalidInputError, UnsupportedError
from lakelog.formats.contract import Damage, Files, Range, run, walk_blocks
from lakelog.formats.strm import (
    FORMAT,
    INDEX_ENTRIES_MAX,
    decode_block_header,
    decode_footer,
    decode_header,
    decode_records,
    open_block,
    open_segment,
)
from lakelog.model import Header, Record
from lakelog.records import Codec
from tests.plain_encoders import encode, encode_strm
from tests.segments import buffers
from tests.unit.formats.forged_strm import (
    GOOD,
    block,
    forge,
    opened,
    read,
    record,
    varint,
    walked,
)

I64_MIN, I64_MAX = -(1 << 63), (1 << 63) - 1


def make(offset: int, timestamp: int = 100, value: bytes | None = b"v") -> Record:
    return Record(offset=offset, timestamp=timestamp, key=None, value=value)


MANY = tuple(make(3 * n, timestamp=1000 + (n * 37) % 101, value=b"x" * 50) for n in range(200))
MANY_BYTES = encode_strm(MANY, codec=Codec.ZSTD, block_bytes=600)


def test_the_forged_segment_is_a_good_one() -> None:
    assert read(forge()) == (make(0, 100), make(1, 107))
    assert walked(forge())[1] == []


# ---------------------------------------------------------------------------- laws, by example


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4, Codec.ZSTD])
def test_every_flipped_bit_and_every_cut_is_noticed(codec: Codec) -> None:
    records = [make(0), make(1, I64_MIN), make(2, I64_MAX, None), make(2**63 - 2, -1, b"")]
    whole = encode_strm(records, codec=codec, block_bytes=20)
    assert read(whole) == tuple(records)
    for cut in range(len(whole)):
        with pytest.raises(CorruptError):
            read(whole[:cut])
    for bit in range(len(whole) * 8):
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises((CorruptError, UnsupportedError)):
            read(bytes(flipped))


def test_blocks_are_cut_before_the_target() -> None:
    segment = opened(encode_strm([make(n, value=b"x" * 90) for n in range(10)], block_bytes=300))
    assert [entry.offset for entry in segment.entries] == [0, 3, 6, 9]


def test_a_record_larger_than_the_target_is_a_block_of_its_own() -> None:
    records = [make(0), make(1, value=bytes(5000)), make(2)]
    data = encode_strm(records, block_bytes=100)
    assert [entry.offset for entry in opened(data).entries] == [0, 1, 2]
    assert read(data) == tuple(records)


def test_headers_keep_order_repeats_nulls_and_bytes_that_are_no_text() -> None:
    headers = (Header("a", b"1"), Header("a", None), Header("\udcfe", b""))
    records = (make(0), Record(offset=1, timestamp=0, key=b"", value=None, headers=headers))
    assert read(encode_strm(records)) == records


# ---------------------------------------------------------------------------- encode refuses


@pytest.mark.parametrize(
    ("records", "settings", "says"),
    [
        ([], {}, "at least one"),
        ([make(1), make(1)], {}, "must rise"),
        ([make(-1)], {}, "must rise"),
        ([make(2**63 - 1)], {}, "must rise"),
        ([make(0, I64_MAX + 1)], {}, "timestamp"),
        ([make(0, I64_MIN - 1)], {}, "timestamp"),
        ([make(0)], {"codec": Codec.GZIP}, "gzip"),
        ([make(0)], {"codec": Codec.SNAPPY}, "snappy"),
        ([make(0)], {"partition": -1}, "partition"),
        ([make(0)], {"partition": 1 << 32}, "partition"),
        ([make(0)], {"created_ms": 1 << 63}, "creation"),
        ([make(0)], {"block_bytes": 0}, "blocks of"),
        ([make(0)], {"block_bytes": (16 << 20) + 1}, "blocks of"),
    ],
)
def test_what_cannot_be_written_is_refused(
    records: list[Record], settings: dict[str, int], says: str
) -> None:
    with pytest.raises(InvalidInputError, match=says):
        encode_strm(records, **settings)  # type: ignore[arg-type]


def test_a_record_larger_than_a_block_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakelog.formats.strm.blocks.BLOCK_BYTES_MAX", 100)
    with pytest.raises(InvalidInputError, match="offset 5 takes"):
        encode_strm([make(5, value=bytes(100))])


def test_more_blocks_than_an_index_holds_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakelog.formats.strm.layout.INDEX_ENTRIES_MAX", 2)
    with pytest.raises(InvalidInputError, match="3 blocks"):
        encode_strm([make(0), make(1), make(2)], block_bytes=1)


# ---------------------------------------------------------------------------- decode refuses


@pytest.mark.parametrize(
    ("header", "error", "at", "says"),
    [
        ({"magic": b"STRN"}, CorruptError, 0, "magic"),
        ({"version": 0}, UnsupportedError, 4, "version 0"),
        ({"version": 3}, UnsupportedError, 4, "version 3"),
        ({"flags": 3}, UnsupportedError, 6, "flags"),
        ({"flags": 0x20, "version": 2}, UnsupportedError, 6, "flags"),
        ({"flags": 0x08}, UnsupportedError, 6, "of version 1"),
        ({"base_offset": -1}, CorruptError, 20, "negative"),
        ({"max_offset": -1}, CorruptError, 28, "last offset"),
        ({"max_offset": 2**63 - 1}, CorruptError, 28, "last offset"),
        ({"count": 0}, CorruptError, 36, "0 records"),
        ({"count": 3}, CorruptError, 36, "3 records"),
        ({"min_timestamp": 108}, CorruptError, 48, "times"),
    ],
)
def test_a_bad_header_is_refused(
    header: dict[str, int | bytes], error: type[CorruptError], at: int, says: str
) -> None:
    data = forge(header=header)
    with pytest.raises(error, match=says) as caught:
        read(data)
    assert (caught.value.at, caught.value.where) == (at, ".seg")
    with pytest.raises(error, match=says):
        opened(data)


@pytest.mark.parametrize(
    ("header", "at", "says"),
    [
        ({"max_offset": 5}, 28, "the last record has 1"),
        ({"max_offset": 2, "count": 1}, 28, "the last record has 1"),
        ({"count": 1}, 36, "1 records are promised"),
        ({"min_timestamp": 101}, 64, "timestamp 100"),
        ({"max_timestamp": 106}, 64, "timestamp 107"),
    ],
)
def test_a_header_that_does_not_fit_the_blocks_is_refused(
    header: dict[str, int | bytes], at: int, says: str
) -> None:
    with pytest.raises(CorruptError, match=says) as caught:
        read(forge(header=header))
    assert caught.value.at == at


def test_a_name_with_another_offset_is_refused() -> None:
    for reading in (read, opened):
        with pytest.raises(CorruptError, match="the name says 7") as caught:
            reading(forge(), 7)
        assert caught.value.at == 20


def test_an_index_with_another_base_offset_is_refused() -> None:
    data = forge(header={"max_offset": 3}, entries=((1, 64),))
    for reading in (read, opened):
        with pytest.raises(CorruptError, match="the index says 1") as caught:
            reading(data)
        assert caught.value.at == 20


SECOND = 64 + len(GOOD)


@pytest.mark.parametrize(
    ("forged", "error", "says"),
    [
        ({"magic": b"MRTX"}, CorruptError, "footer magic"),
        ({"reserved": b"\1" + bytes(11)}, CorruptError, "reserved"),
        ({"index_position": 63}, CorruptError, "the footer is at"),
        ({"index_position": SECOND + 1}, CorruptError, "the footer is at"),
        ({"index_size": 21}, CorruptError, "the footer is at"),
        ({"index_size": 0}, CorruptError, "the footer is at"),
        ({"index": b""}, CorruptError, "index of 0 bytes"),
        ({"index": b"\0\0\0"}, CorruptError, "index of 3 bytes"),
        ({"index": bytes(4)}, CorruptError, "with 0 entries"),
        ({"index": b"\0\0\0\2" + bytes(16)}, CorruptError, "with 2 entries"),
        ({"entries": ((0, 65),)}, CorruptError, "first block"),
        ({"entries": ((-1, 64),)}, CorruptError, "first block"),
        ({"entries": ((0, 64), (0, 82))}, CorruptError, "entry 0"),
        ({"entries": ((0, 64), (1, 80))}, CorruptError, "entry 0"),
        ({"entries": ((0, 64), (1, 1 << 63))}, CorruptError, "entry 1"),
        ({"entries": ((0, 64), (2**63 - 1, 82))}, CorruptError, "entry 1"),
    ],
)
def test_a_bad_end_is_refused(
    forged: dict[str, bytes], error: type[CorruptError], says: str
) -> None:
    data = forge(**forged)  # type: ignore[arg-type]
    for reading in (read, opened):
        with pytest.raises(error, match=says):
            reading(data)


def test_the_checksum_of_the_file_is_checked() -> None:
    data = forge(crc=1)
    with pytest.raises(CorruptError, match="CRC-32 of the file") as caught:
        read(data)
    assert caught.value.at == len(data) - 20


def test_a_huge_index_is_refused_before_it_is_read() -> None:
    size = 4 + 16 * (INDEX_ENTRIES_MAX + 1)
    footer = forge(index_position=64, index_size=size)[-32:]
    with pytest.raises(UnsupportedError, match="over the limit"):
        decode_footer(footer, size=64 + size + 32)


def test_too_few_bytes_are_refused() -> None:
    for reading in (read, opened):
        with pytest.raises(CorruptError, match="99 bytes, a segment has 100"):
            reading(forge()[:99])
    with pytest.raises(CorruptError, match="a header has 64"):
        decode_header(forge()[:63])
    with pytest.raises(CorruptError, match="a footer has 32"):
        decode_footer(b"", size=31)
    with pytest.raises(CorruptError, match="a block header has 16"):
        decode_block_header(GOOD[:15], at=64, room=15)
    with pytest.raises(CorruptError, match="there"):
        open_block(GOOD[:-1], decode_header(forge()), position=64, base_offset=0, room=len(GOOD))


def test_a_file_that_shrank_is_refused() -> None:
    data = forge()
    files = Files(base_offset=0, sizes={".seg": len(data) + 200_000})
    for shorter in (data, data[:70], data[:10], b""):
        with pytest.raises(CorruptError):
            run(open_segment(files), buffers({".seg": shorter}))
        found = list(walk_blocks(FORMAT.walk(files), buffers({".seg": shorter})))
        assert isinstance(found[0], Damage)
        assert len(shorter) > 64 or "the file ends here" in str(found[1])


RAW = record(0, 100) + record(1, 7)


BAD_BLOCKS = [
    (block(RAW, count=2, crc=1), CorruptError, 64, "CRC-32 is"),
    (block(RAW, count=2, compressed=0), CorruptError, 68, "a block of 0 bytes"),
    (block(RAW, count=2, compressed=1000), CorruptError, 68, "a block of 1000 bytes"),
    (block(RAW, count=0), CorruptError, 72, "0 records"),
    (block(RAW, count=3), CorruptError, 72, "3 records"),
    (block(RAW, count=2, uncompressed=(64 << 20) + 1), UnsupportedError, 64, "over the limit"),
    (block(RAW, count=2, uncompressed=9), CorruptError, 64, "more than the 9 bytes"),
    (block(RAW, count=2, uncompressed=12), CorruptError, 64, "promises 12"),
    (block(RAW, count=1), CorruptError, 86, "behind the last record"),
    (block(b"\0\0\1\2vx\0\0", count=2), CorruptError, 88, "past the end"),
    (block(b"\x80" * 10 + b"\0\0\0"), CorruptError, 80, "more than 10 bytes"),
    (block(record(1, 100)), CorruptError, 80, "first offset delta is 1"),
    (block(record(0, 100) + record(0, 0), count=2), CorruptError, 86, "delta 0 after 0"),
    (block(record(0, 100) + record(-1, 0), count=2), CorruptError, 86, "delta -1 after 0"),
    (block(record(0, 100) + record(2**63 - 1, 0), count=2), CorruptError, 86, "delta"),
    (block(record(0, 100) + record(1, I64_MAX), count=2), CorruptError, 86, "64 bits"),
    (block(record(0, 100, None, None)), CorruptError, 80, "a null value"),
    (block(b"\0\0\x03\0"), CorruptError, 82, "a field of -2 bytes"),
    (block(b"\0\0\1\2"), CorruptError, 83, "a field of 1 bytes"),
]


@pytest.mark.parametrize(
    ("bad", "error", "at", "says"), BAD_BLOCKS, ids=[case[-1] for case in BAD_BLOCKS]
)
def test_a_bad_block_is_refused(bad: bytes, error: type[CorruptError], at: int, says: str) -> None:
    data = forge(bad)
    with pytest.raises(error, match=says) as caught:
        read(data)
    assert caught.value.at == at
    segment = opened(data)
    with pytest.raises(error, match=says):
        run(segment.read_from(0, 9), buffers({".seg": data}))


BAD_RECORD_HEADERS = [
    (record(0, 100), "past the end"),
    (record(0, 100) + varint(-1), "-1 headers"),
    (record(0, 100) + varint(2) + b"\0\1", "2 headers in 2 bytes"),
    (record(0, 100) + varint(1) + b"\1\1", "without a key"),
    (record(0, 100) + varint(1) + b"\0\3", "a field of -2"),
]


@pytest.mark.parametrize(
    ("raw", "says"), BAD_RECORD_HEADERS, ids=[case[-1] for case in BAD_RECORD_HEADERS]
)
def test_bad_headers_of_a_record_are_refused(raw: bytes, says: str) -> None:
    header: dict[str, int | bytes] = {"flags": 0x10, "version": 2}
    with pytest.raises(CorruptError, match=says):
        read(forge(block(raw), header=header))


LZ4_BODY = lz4.block.compress(RAW, store_size=True)
ZSTD_BODY = zstandard.compress(RAW)


BAD_BODIES = [
    (1, LZ4_BODY[:4], 11, "lz4 promises None"),
    (1, LZ4_BODY, 12, "lz4 promises 11 bytes, the block 12"),
    (1, b"\x0c\0\0\0" + LZ4_BODY[4:], 12, "11 bytes, the block promises 12"),
    (1, LZ4_BODY[:-1], 11, "lz4: "),
    (1, LZ4_BODY + b"x", 11, "lz4: "),
    (2, ZSTD_BODY, 10, "more than the 10 bytes"),
    (2, ZSTD_BODY, 12, "11 bytes, the block promises 12"),
    (2, ZSTD_BODY[:-1], 11, "ends early"),
    (2, b"noise", 11, "zstd"),
]


@pytest.mark.parametrize(
    ("flags", "body", "uncompressed", "says"), BAD_BODIES, ids=[case[-1] for case in BAD_BODIES]
)
def test_bad_compressed_bytes_are_refused(
    flags: int, body: bytes, uncompressed: int, says: str
) -> None:
    bad = block(RAW, count=2, body=body, uncompressed=uncompressed)
    with pytest.raises(CorruptError, match=says) as caught:
        read(forge(bad, header={"flags": flags}))
    assert caught.value.at == 64


def test_positions_inside_a_compressed_block_are_those_of_the_block() -> None:
    raw = record(0, 100) + record(0, 0)
    bad = block(raw, count=2, body=lz4.block.compress(raw, store_size=True))
    with pytest.raises(CorruptError, match="delta 0 after 0") as caught:
        read(forge(bad, header={"flags": 1}))
    assert caught.value.at == 64


def test_a_decompressed_block_is_never_larger_than_its_limit() -> None:
    bomb = zstandard.compress(bytes(65 << 20))
    bad = block(RAW, count=2, body=bomb, uncompressed=65 << 20)
    with pytest.raises(UnsupportedError, match="over the limit"):
        read(forge(bad, header={"flags": 2}))


def test_a_block_that_the_index_calls_too_large_is_not_asked_for() -> None:
    tail = forge()[-52:]
    size = 70 << 20
    header = forge()[:64]
    footer = forge(index_position=size - 52)[-32:]

    def give(wish: Range) -> bytes:
        if wish.start == 0:
            return header
        assert wish.end - wish.start <= 8192
        return (bytes(8192) + tail[:20] + footer)[-(wish.end - wish.start) :]

    segment = run(open_segment(Files(base_offset=0, sizes={".seg": size})), give)
    with pytest.raises(UnsupportedError, match="over the limit"):
        run(segment.read_from(0, 1), give)


def test_blocks_that_do_not_fill_what_the_index_says_are_refused_by_lookups() -> None:
    data = forge(GOOD + b"x", entries=((0, 64),))
    with pytest.raises(CorruptError, match="the index says 28"):
        run(opened(data).read_from(0, 1), buffers({".seg": data}))


def test_blocks_that_overlap_are_refused() -> None:
    data = forge(GOOD, GOOD, header={"max_offset": 2, "count": 3}, entries=((0, 64), (1, SECOND)))
    with pytest.raises(CorruptError, match="ends before 1"):
        run(opened(data).read_from(0, 1), buffers({".seg": data}))
    with pytest.raises(CorruptError, match="offset 1 after 1"):
        read(data)


# ---------------------------------------------------------------------------- walk


@pytest.mark.parametrize("inside", [3, 7, 11, 20])
def test_a_walk_goes_on_behind_a_bad_block(inside: int) -> None:
    for entry, after in pairwise(opened(MANY_BYTES).entries):
        data = bytearray(MANY_BYTES)
        data[entry.position + inside] ^= 0xFF
        records, (damage,) = walked(bytes(data))
        assert entry.position <= damage.error.at < entry.position + 16
        assert damage.size == after.position - entry.position
        assert records == [one for one in MANY if not entry.offset <= one.offset < after.offset]


def test_a_walk_survives_a_bad_last_block() -> None:
    last = opened(MANY_BYTES).entries[-1]
    data = bytearray(MANY_BYTES)
    data[last.position + 20] ^= 1
    records, damages = walked(bytes(data))
    assert len(damages) == 1
    assert records == [one for one in MANY if one.offset < last.offset]


@pytest.mark.parametrize("back", [1, 10, 20, 24, 32])
def test_a_walk_survives_a_bad_footer(back: int) -> None:
    data = bytearray(MANY_BYTES)
    data[-back] ^= 0xFF
    records, damages = walked(bytes(data))
    assert records == list(MANY)
    assert len(damages) == 1


@pytest.mark.parametrize("at", [0, 8, 21, 29, 37, 41, 49])
def test_a_walk_survives_a_bad_header(at: int) -> None:
    data = bytearray(MANY_BYTES)
    data[at] ^= 0x7F
    records, damages = walked(bytes(data))
    assert records == list(MANY)
    assert damages


def test_a_walk_places_blocks_without_an_index_as_long_as_no_offset_is_missing() -> None:
    records = [make(n) for n in range(100)]
    whole = encode_strm(records, codec=Codec.NONE, block_bytes=100)
    index = opened(whole).footer.index_position
    for data in (whole[:index], whole[: index + 7], whole[:-1], whole[:-40]):
        assert walked(data)[0] == records
    cut = opened(whole).entries[4]
    assert walked(whole[: cut.position + 5])[0] == records[: cut.offset]
    bad = bytearray(whole)
    bad[index + 5] ^= 0xFF
    assert walked(bytes(bad))[0] == records


def test_a_walk_cannot_place_blocks_behind_a_gap_without_an_index() -> None:
    data = MANY_BYTES[: opened(MANY_BYTES).footer.index_position]
    records, damages = walked(data)
    assert records == [one for one in MANY if one.offset < opened(MANY_BYTES).entries[1].offset]
    assert "cannot be told" in str(damages[1].error)
    assert damages[1].size > 0


def test_a_walk_finds_blocks_and_entries_that_do_not_know_of_each_other() -> None:
    dense = encode_strm([make(n) for n in range(30)], codec=Codec.NONE, block_bytes=100)
    entries = opened(dense).entries
    data = bytearray(dense)
    at = opened(dense).footer.index_position + 4 + 16 * 2
    data[at + 15] ^= 0x04
    records, damages = walked(bytes(data))
    assert [one.offset for one in records] == list(range(30))
    assert [damage.error.at for damage in damages] == [entries[2].position, at]
    assert "does not know" in str(damages[0].error)
    assert "no block begins" in str(damages[1].error)


def test_a_walk_stops_at_a_header_it_cannot_read() -> None:
    records, damages = walked(forge(header={"version": 9}))
    assert records == []
    assert [damage.size for damage in damages] == [len(forge())]


def test_a_walk_without_a_file_says_so() -> None:
    files = Files(base_offset=0, sizes={})
    (damage,) = walk_blocks(FORMAT.walk(files), buffers({}))
    assert isinstance(damage, Damage)
    assert damage.error.at == 0


def test_a_walk_asks_for_each_byte_about_once() -> None:
    records = [make(n, value=bytes([n % 251]) * 40_000) for n in range(100)]
    data = encode_strm(records, codec=Codec.NONE, block_bytes=1 << 20)
    asked = []
    give = buffers({".seg": data})

    def counted(wish: Range) -> bytes:
        asked.append(wish.end - wish.start)
        return give(wish)

    files = Files(base_offset=0, sizes={".seg": len(data)})
    found = list(walk_blocks(FORMAT.walk(files), counted))
    assert len(found) == 4
    assert sum(asked) <= len(data) + 8192
    assert max(asked) <= 3 << 20


# ---------------------------------------------------------------------------- lookup


def test_read_from_is_a_filter() -> None:
    segment, give = opened(MANY_BYTES), buffers({".seg": MANY_BYTES})
    for offset in range(-1, 3 * 200 + 2):
        for limit in (0, 1, 7, 1000):
            expected = [one for one in MANY if one.offset >= offset][:limit]
            assert run(segment.read_from(offset, limit), give) == tuple(expected)


def test_offset_at_is_a_filter() -> None:
    segment, give = opened(MANY_BYTES), buffers({".seg": MANY_BYTES})
    for timestamp in range(998, 1104):
        expected = next((one.offset for one in MANY if one.timestamp >= timestamp), None)
        assert run(segment.offset_at(timestamp), give) == expected


def test_offset_at_needs_no_block_outside_the_range_of_times() -> None:
    def refuse(wish: Range) -> bytes:
        raise AssertionError(wish)

    segment = opened(MANY_BYTES)
    assert run(segment.offset_at(1000), refuse) == 0
    assert run(segment.offset_at(5000), refuse) is None


def test_offset_at_finds_nothing_in_a_foreign_file_that_is_too_old() -> None:
    data = forge(header={"min_timestamp": 0, "max_timestamp": 0})
    segment, give = opened(data), buffers({".seg": data})
    assert run(segment.offset_at(101), give) == 1
    assert run(segment.offset_at(108), give) is None


def test_lookups_ask_for_little() -> None:
    records = [make(n, value=bytes([n % 251]) * 4000) for n in range(2000)]
    data = encode_strm(records, codec=Codec.NONE, block_bytes=64 << 10)
    asked: list[Range] = []
    give = buffers({".seg": data})

    def counted(wish: Range) -> bytes:
        asked.append(wish)
        return give(wish)

    files = Files(base_offset=0, sizes={".seg": len(data)})
    segment = run(open_segment(files), counted)
    assert [wish.end - wish.start for wish in asked] == [8192, 64]
    asked.clear()
    (found,) = run(segment.read_from(1234, 1), counted)
    assert found == records[1234]
    assert [wish.end - wish.start <= 65 << 10 for wish in asked] == [True]
    asked.clear()
    assert run(segment.read_from(5000, 1), counted) == ()
    assert asked == []


def test_a_long_index_takes_one_more_request() -> None:
    records = [make(n) for n in range(1000)]
    data = encode_strm(records, codec=Codec.NONE, block_bytes=1)
    asked: list[Range] = []
    give = buffers({".seg": data})

    def counted(wish: Range) -> bytes:
        asked.append(wish)
        return give(wish)

    segment = run(open_segment(Files(base_offset=0, sizes={".seg": len(data)})), counted)
    assert (len(segment.entries), len(asked)) == (1000, 3)


def test_a_block_can_be_had_without_its_records() -> None:
    segment, give = opened(MANY_BYTES), buffers({".seg": MANY_BYTES})
    block = run(segment.read_block(2), give)
    assert block.base_offset == segment.entries[2].offset
    assert block.count == len(decode_records(block, segment.header))
    assert segment.base_offset == 0


# ---------------------------------------------------------------------------- the row


@pytest.mark.parametrize(
    ("stem", "base_offset"),
    [
        ("00000000000000000000", 0),
        ("00000000000000100000", 100_000),
        ("09223372036854775806", 2**63 - 2),
        ("09223372036854775807", None),
        ("0000000000000000000", None),
        ("000000000000000000000", None),
        ("0000000000000000000x", None),
        ("+0000000000000000001", None),
        ("٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠", None),
    ],
)
def test_names_are_read_as_they_are_written(stem: str, base_offset: int | None) -> None:
    assert FORMAT.base_offset(stem) == base_offset
    if base_offset is not None:
        assert FORMAT.file_stem(base_offset) == stem


def test_sniffing_goes_by_the_magic() -> None:
    assert FORMAT.sniff(forge()[:64], 0)
    assert not FORMAT.sniff(b"STR", 0)
    assert not FORMAT.sniff(b"", 0)
    assert not FORMAT.sniff(b"KAFS" + bytes(60), 0)


def test_the_row_encodes_with_each_codec_it_carries() -> None:
    for codec in FORMAT.carries.codecs:
        assert read(encode(FORMAT, MANY, codec)[".seg"]) == MANY
