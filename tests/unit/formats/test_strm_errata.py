"""STRM: every contradiction of the first description, the golden files, and the page's example.

Each test of the first part is named by the number that docs/reference/formats/strm.md gives the
contradiction.
"""

import re
import struct
from pathlib import Path
from zlib import crc32

import lz4.block
import pytest
from crc32c import crc32c

from lakelog.errors import CorruptError, InvalidInputError, UnsupportedError
from lakelog.formats.contract import run
from lakelog.formats.strm import FORMAT, topic_hash
from lakelog.model import Header, Record
from lakelog.records import Codec
from tests.golden.strm import make as golden
from tests.plain_encoders import encode_strm
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

ROOT = Path(__file__).parents[3]
PLAIN = encode_strm(golden.PLAIN, **golden.ENCODED["none.seg"].settings)


def make(offset: int, timestamp: int = 100, value: bytes | None = b"v") -> Record:
    return Record(offset=offset, timestamp=timestamp, key=None, value=value)


# ---------------------------------------------------------------------------- contradictions


def test_s1_offsets_stand_at_20_and_28() -> None:
    data = encode_strm([make(0x1122), make(0x3344)])
    assert struct.unpack_from(">qq", data, 20) == (0x1122, 0x3344)


def test_s2_the_first_record_of_each_block_stores_its_timestamp() -> None:
    records = (make(0, 1000), make(1, 1007), make(2, 900))
    data = encode_strm(records, codec=Codec.NONE)
    raw = record(0, 1000) + record(1, 7) + record(2, -100)
    assert data[80 : 80 + len(raw)] == raw
    assert read(data) == records


def test_s2_a_first_time_of_0_stands_for_the_oldest_where_that_is_known() -> None:
    blocks = (
        block(record(0, 0) + record(1, 7), count=2),
        block(record(0, 0) + record(1, -3), count=2),
    )
    data = forge(
        *blocks,
        header={"min_timestamp": 500, "max_timestamp": 600, "max_offset": 3, "count": 4},
        entries=((0, 64), (2, 64 + len(blocks[0]))),
    )
    assert [one.timestamp for one in read(data)] == [500, 507, 500, 500]


def test_s2_a_true_first_time_of_0_is_kept() -> None:
    for records in ((make(0, 0), make(1, 5)), (make(0, 0), make(1, -1)), (make(0, 0),)):
        assert read(encode_strm(records)) == records


def test_s3_the_range_of_times_is_filled_in() -> None:
    header = opened(encode_strm([make(0, 9), make(1, -5), make(2, 7)])).header
    assert (header.min_timestamp, header.max_timestamp) == (-5, 9)


def test_s3_a_range_of_0_to_0_is_unknown() -> None:
    data = forge(header={"min_timestamp": 0, "max_timestamp": 0})
    assert [one.timestamp for one in read(data)] == [100, 107]
    assert run(opened(data).offset_at(105), buffers({".seg": data})) == 1


def test_s4_offset_deltas_count_from_the_first_of_the_block() -> None:
    raw = record(0, 100) + record(1, 0) + record(2, 0)
    data = encode_strm([make(70), make(71), make(72)], codec=Codec.NONE)
    assert data[80 : 80 + len(raw)] == raw


def test_s5_the_file_crc_covers_all_but_the_last_20_bytes() -> None:
    assert struct.unpack(">I", PLAIN[-20:-16]) == (crc32(PLAIN[:-20]),)


def test_s6_version_footer_checksums_and_lengths_are_checked() -> None:
    for bad in (
        forge(header={"version": 7}),
        forge(magic=b"MRTX"),
        forge(crc=1),
        forge(block(record(0, 100), crc=1)),
        forge(index_position=1 << 40),
        forge()[:31],
    ):
        with pytest.raises((CorruptError, UnsupportedError)):
            read(bad)


def test_s7_the_crc_is_ieee_and_covers_the_compressed_bytes() -> None:
    data = encode_strm(golden.MANY, codec=Codec.LZ4)
    _, compressed, _, crc = struct.unpack_from(">IIII", data, 64)
    assert crc == crc32(data[80 : 80 + compressed]) != crc32c(data[80 : 80 + compressed])


def test_s8_an_lz4_block_has_its_size_in_front_little_endian() -> None:
    data = encode_strm(golden.MANY, codec=Codec.LZ4)
    uncompressed, compressed = struct.unpack_from(">II", data, 64)
    body = data[80 : 80 + compressed]
    assert struct.unpack_from("<I", body) == (uncompressed,)
    assert len(lz4.block.decompress(body)) == uncompressed


def test_s9_the_codec_is_in_the_low_3_bits_and_the_rest_is_not_guessed() -> None:
    for number, codec in enumerate((Codec.NONE, Codec.LZ4, Codec.ZSTD)):
        assert struct.unpack_from(">H", encode_strm([make(0)], codec=codec), 6) == (number,)
    for flags in (*range(3, 8), *(1 << bit for bit in range(5, 16))):
        with pytest.raises(UnsupportedError, match="flags"):
            read(forge(header={"flags": flags, "version": 2}))


def test_s10_the_topic_hash_is_fnv_1a_and_never_a_reason_to_refuse() -> None:
    assert topic_hash("") == 0xCBF29CE484222325
    assert topic_hash("a") == 0xAF63DC4C8601EC8C
    assert topic_hash("foobar") == 0x85944171F73967E8
    assert struct.unpack_from(">Q", PLAIN, 8) == (topic_hash("orders"),)
    assert walked(forge(header={"topic_hash": 12345}))[1] == []


def test_s11_null_values_and_headers_are_extensions_of_version_2() -> None:
    plain = make(0)
    null = make(1, value=None)
    headed = Record(offset=2, timestamp=0, key=None, value=b"", headers=(Header("h", b""),))
    for records, expected in (
        ((plain,), (1, 0)),
        ((plain, null), (2, 0x08)),
        ((plain, headed), (2, 0x10)),
        ((plain, null, headed), (2, 0x18)),
    ):
        data = encode_strm(records, codec=Codec.NONE)
        assert struct.unpack_from(">HH", data, 4) == expected
        assert read(data) == records


def test_s11_the_flags_say_what_may_occur_not_what_must() -> None:
    assert read(forge(header={"version": 2})) == read(forge())
    assert read(forge(header={"version": 2, "flags": 0x08})) == read(forge())


def test_s12_gaps_are_kept_and_counted_right() -> None:
    records = (make(5), make(9), make(1 << 40))
    data = encode_strm(records)
    header = opened(data, 5).header
    assert (header.base_offset, header.max_offset, header.count) == (5, 1 << 40, 3)
    assert read(data, 5) == records


def test_s13_an_empty_segment_is_neither_written_nor_read() -> None:
    with pytest.raises(InvalidInputError, match="at least one"):
        encode_strm([])
    with pytest.raises(CorruptError):
        read(forge(b"", header={"max_offset": -1, "count": 0}, entries=()))


def test_s14_timestamps_are_signed() -> None:
    records = (make(0, -1), make(1, -(1 << 63)), make(2, (1 << 63) - 1))
    data = encode_strm(records)
    assert struct.unpack_from(">qq", data, 48) == (-(1 << 63), (1 << 63) - 1)
    assert read(data) == records


def test_s15_varints_are_zigzag_with_the_lowest_bits_first() -> None:
    raw = b"\x00\xd7\x04" + b"\x01" + b"\x02v"
    assert encode_strm([make(0, -300)], codec=Codec.NONE)[80:86] == raw
    assert varint(-300) == b"\xd7\x04"


def test_s17_the_name_is_the_formats_and_the_prefix_is_not() -> None:
    assert FORMAT.file_stem(100_000) + FORMAT.suffix == "00000000000000100000.seg"


def streamhouse(body: bytes = bytes(40)) -> bytes:
    data = struct.pack(">4sHHQQII32x", b"STRM", 1, 0, 0, 0, 1, 1) + body
    data += struct.pack(">QQQ", 0, 64, 0)
    return data + struct.pack(">QI4s16x", 104, crc32(data), b"STRM")


def test_a_streamhouse_segment_is_refused_by_name() -> None:
    data = streamhouse()
    assert FORMAT.sniff(data[:64], 0)
    for reading in (read, opened):
        with pytest.raises(UnsupportedError, match="StreamHouse"):
            reading(data)
    assert walked(data)[1][0].size == len(data)


# ---------------------------------------------------------------------------- golden files


@pytest.mark.parametrize("name", golden.ENCODED)
def test_golden_files_decode_to_their_records(name: str) -> None:
    records = golden.ENCODED[name].records
    assert read((golden.HERE / name).read_bytes(), records[0].offset) == records


@pytest.mark.parametrize("name", golden.ENCODED)
def test_golden_files_are_what_the_encoder_writes(name: str) -> None:
    made = golden.ENCODED[name]
    assert encode_strm(made.records, **made.settings) == (golden.HERE / name).read_bytes()


def test_what_the_first_writer_made_is_read() -> None:
    data = (golden.HERE / "first-writer.seg").read_bytes()
    assert data == golden.first_writer()
    assert read(data, 7) == golden.FIRST


def test_a_golden_file_is_put_together_by_hand() -> None:
    noon = 1_700_000_000_000
    raw = b"\x00\x80\xa0\xab\xfe\xf9\x62\x02k\x0ahello"
    raw += b"\x02\x0a\x01\x00"
    raw += b"\x0a\x06\x00\x3eafter a gap, and a little older"
    data = b"STRM" + struct.pack(">HHQ", 1, 0, topic_hash("orders"))
    data += struct.pack(">IqqI", 3, 1000, 1005, 3)
    data += struct.pack(">qqq", noon + 60_000, noon, noon + 5)
    data += struct.pack(">IIII", len(raw), len(raw), 3, crc32(raw)) + raw
    data += struct.pack(">I", 1) + struct.pack(">qQ", 1000, 64)
    data += struct.pack(">QI", 134, 20)
    data += struct.pack(">I", crc32(data)) + bytes(12) + b"MRTS"
    assert (golden.HERE / "none.seg").read_bytes() == data


# ---------------------------------------------------------------------------- the page


def test_the_example_of_the_page_is_what_the_encoder_writes() -> None:
    page = (ROOT / "docs/reference/formats/strm.md").read_text()
    (example,) = re.findall(r"```hex\n(.*?)```", page, re.DOTALL)
    shown = bytearray()
    for line in example.splitlines():
        at, hexes = re.match(r"([0-9a-f]{4})  ((?:[0-9a-f]{2} )+)", line).groups()  # type: ignore[union-attr]
        assert int(at, 16) == len(shown)
        shown += bytes.fromhex(hexes)
    assert bytes(shown) == PLAIN


def test_good_is_what_the_encoder_writes() -> None:
    data = encode_strm([make(0, 100), make(1, 107)], codec=Codec.NONE)
    assert data[64 : 64 + len(GOOD)] == GOOD
    assert forge(header={"topic_hash": topic_hash("")}) == data
