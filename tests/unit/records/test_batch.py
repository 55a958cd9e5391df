"""One case for each thing the batch codec refuses, with the damage resealed under a good CRC."""

import struct
from dataclasses import replace
from typing import Any

import pytest
from crc32c import crc32c

from lakelog.errors import CorruptError, InvalidInputError, UnsupportedError
from lakelog.model import Header, Record, TimestampType
from lakelog.records import (
    Codec,
    NewBatch,
    decode_batch,
    decode_batches,
    decode_header,
    encode_batch,
    encode_varint,
)

RECORD = Record(
    offset=7, timestamp=1000, key=b"key", value=b"value", headers=(Header("trace", b"on"),)
)
OTHER = Record(offset=9, timestamp=1005, key=None, value=None)
BATCH = NewBatch(records=(RECORD, OTHER))


def damaged(at: int, new: bytes, batch: NewBatch = BATCH) -> bytes:
    """The batch with other bytes at one place, and its CRC made right again."""
    data = bytearray(encode_batch(batch))
    data[at : at + len(new)] = new
    struct.pack_into(">I", data, 17, crc32c(data[21:]))
    return bytes(data)


def with_body(body: bytes, count: int = 1, last_delta: int = 0) -> bytes:
    """A batch with a sound header around whatever records these are."""
    head = struct.pack(">hiqqqhii", 0, last_delta, 1000, 1000, -1, -1, -1, count)
    signed = head + body
    return struct.pack(">qiibI", 0, 9 + len(signed), 0, 2, crc32c(signed)) + signed


def record(
    *, times: int = 0, delta: int = 0, key: bytes = b"\x01", value: bytes = b"\x01",
    headers: bytes = b"\x00", rest: bytes = b"",
) -> bytes:  # fmt: skip
    inside = b"\0" + encode_varint(times) + encode_varint(delta) + key + value + headers + rest
    return encode_varint(len(inside)) + inside


@pytest.mark.parametrize(
    ("at", "new", "what"),
    [
        (8, struct.pack(">i", 48), "batch length 48"),
        (8, struct.pack(">i", -1), "batch length -1"),
        (0, struct.pack(">q", -1), "base offset -1"),
        (23, struct.pack(">i", -1), "last offset delta"),
        (0, struct.pack(">q", (1 << 63) - 2), "last offset delta"),
        (57, struct.pack(">i", -1), "-1 records"),
        (57, struct.pack(">i", 4), "4 records in 3 offsets"),
        (57, struct.pack(">i", 0), "but count 0"),
        (57, struct.pack(">i", 1), "behind the last record"),
        (57, struct.pack(">i", 3), "a varint runs past the end"),
    ],
)
def test_a_header_that_contradicts_itself_is_corrupt(at: int, new: bytes, what: str) -> None:
    with pytest.raises(CorruptError, match=what):
        decode_batch(damaged(at, new))


@pytest.mark.parametrize(
    ("at", "new", "what"),
    [
        (16, b"\x00", "message format v0"),
        (16, b"\x01", "message format v1"),
        (16, b"\x03", "magic 3"),
        (21, b"\x00\x05", "attributes 0x0005"),
        (21, b"\x00\x80", "attributes 0x0080"),
        (21, b"\x80\x00", "attributes"),
    ],
)
def test_what_a_later_or_earlier_kafka_wrote_is_unsupported(at: int, new: bytes, what: str) -> None:
    with pytest.raises(UnsupportedError, match=what):
        decode_batch(damaged(at, new))


@pytest.mark.parametrize(
    ("body", "what"),
    [
        (b"", "a varint runs past the end"),
        (b"\x80\x80\x80\x80\x80\x00", "more than 5 bytes"),
        (b"\xff\xff\xff\xff\x7f", "does not fit 32 bits"),
        (encode_varint(0), "a record of 0 bytes"),
        (encode_varint(-3), "a record of -3 bytes"),
        (encode_varint(50) + b"\0", "a record of 50 bytes, 1 left"),
        (record(times=(1 << 63) - 1), "timestamp .* does not fit"),
        (record(delta=1), "offset delta 1 after -1"),
        (record(delta=-1), "offset delta -1"),
        (record(key=encode_varint(-2)), "a field of -2 bytes"),
        (record(key=encode_varint(90)), "a field of 90 bytes"),
        (record(value=encode_varint(-2)), "a field of -2 bytes"),
        (record(value=encode_varint(4) + b"abc", headers=b""), "a field of 4 bytes, 3 left"),
        (record(headers=b""), "a varint runs past the end"),
        (record(headers=encode_varint(-1)), "-1 headers"),
        (record(headers=encode_varint(1)), "1 headers in 0 bytes"),
        (record(headers=encode_varint(1) + b"\x01\x01"), "a header without a key"),
        (record(headers=encode_varint(1) + b"\x02a"), "a varint runs past the end"),
        (record(rest=b"!"), "1 bytes behind a record's headers"),
        (record() + b"!", "1 bytes behind the last record"),
    ],
)  # fmt: skip
def test_records_that_no_writer_makes_are_corrupt(body: bytes, what: str) -> None:
    with pytest.raises(CorruptError, match=what):
        decode_batch(with_body(body))


def test_the_records_around_the_damage_are_sound() -> None:
    assert len(decode_batch(with_body(record())).records) == 1


def test_offsets_must_rise() -> None:
    with pytest.raises(CorruptError, match="offset delta 0 after 0"):
        decode_batch(with_body(record() + record(), count=2, last_delta=1))


def test_a_wrong_crc_says_both_numbers() -> None:
    data = bytearray(encode_batch(BATCH))
    data[-1] ^= 1
    with pytest.raises(CorruptError, match=r"CRC-32C is \d+, the batch says \d+"):
        decode_batch(data)


@pytest.mark.parametrize("length", [0, 10, 17, 60, 61, 90])
def test_a_cut_batch_is_corrupt(length: int) -> None:
    with pytest.raises(CorruptError, match="left"):
        decode_batch(encode_batch(BATCH)[:length])


def test_errors_carry_the_file_and_the_position() -> None:
    before = encode_batch(BATCH)
    with pytest.raises(CorruptError) as caught:
        list(decode_batches(before + damaged(57, struct.pack(">i", 1)), where="0.log"))
    # Of the two records, 24 and 7 bytes long, the second is one too many.
    assert caught.value.where == "0.log"
    assert caught.value.at == len(before) + 61 + 24
    assert str(caught.value).startswith(f"0.log at byte {caught.value.at}: ")


def test_a_batch_over_the_limit_is_refused_before_it_is_read() -> None:
    with pytest.raises(UnsupportedError, match="over the limit of 64"):
        decode_header(encode_batch(BATCH), size_max=64)


def test_records_over_the_limit_are_refused() -> None:
    bomb = encode_batch(
        NewBatch(records=(replace(RECORD, value=bytes(100_000)),), codec=Codec.GZIP)
    )
    assert len(bomb) < 400
    with pytest.raises(UnsupportedError, match="more than the limit of 1000 bytes"):
        decode_batch(bomb, decompressed_bytes_max=1000)


def test_longer_varints_than_needed_are_read_as_kafka_reads_them() -> None:
    inside = b"\0" + b"\x80\x00" + b"\x80\x80\x00" + b"\x01\x01\x00"
    (found,) = decode_batch(with_body(encode_varint(len(inside)) + inside)).records
    assert (found.offset, found.timestamp) == (0, 1000)


def test_a_compacted_batch_keeps_its_first_and_last_offset() -> None:
    data = encode_batch(NewBatch(records=(RECORD,), base_offset=5, next_offset=12))
    batch = decode_batch(data)
    assert (batch.header.base_offset, batch.header.next_offset) == (5, 12)
    assert [found.offset for found in batch.records] == [7]


def test_an_empty_batch_is_a_header_alone() -> None:
    data = encode_batch(NewBatch(records=(), base_offset=5, next_offset=8, codec=Codec.ZSTD))
    assert len(data) == 61
    batch = decode_batch(data)
    assert batch.records == ()
    assert batch.header.codec is Codec.NONE


def test_log_append_time_is_the_time_of_every_record() -> None:
    data = bytearray(encode_batch(BATCH))
    data[22] |= 0x08
    struct.pack_into(">I", data, 17, crc32c(data[21:]))
    batch = decode_batch(data)
    assert batch.header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert {found.timestamp for found in batch.records} == {1005}


def test_header_keys_that_are_not_utf8_are_kept() -> None:
    odd = Header(b"\xff\x00a".decode("utf-8", "surrogateescape"), None)
    data = encode_batch(NewBatch(records=(replace(RECORD, headers=(odd,)),)))
    assert b"\xff\x00a" in data
    assert decode_batch(data).records[0].headers == (odd,)


def test_sequences_wrap_at_31_bits() -> None:
    batch = NewBatch(
        records=(RECORD, OTHER), producer_id=1, producer_epoch=0, base_sequence=(1 << 31) - 2
    )
    assert decode_header(encode_batch(batch)).last_sequence == 0


@pytest.mark.parametrize(
    "change",
    [
        {"records": ()},
        {"records": (OTHER, RECORD)},
        {"records": (RECORD, RECORD)},
        {"base_offset": 8},
        {"next_offset": 9},
        {"records": (replace(RECORD, offset=-1),)},
        {"records": (RECORD, replace(OTHER, offset=7 + (1 << 31)))},
        {"timestamp_type": TimestampType.LOG_APPEND_TIME},
        {"records": (RECORD, replace(OTHER, timestamp=1 << 63))},
        {"records": (replace(RECORD, timestamp=-(1 << 62)), replace(OTHER, timestamp=1 << 62))},
    ],
)  # fmt: skip
def test_a_batch_that_cannot_be_read_back_is_not_written(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError):
        encode_batch(replace(BATCH, **change))
