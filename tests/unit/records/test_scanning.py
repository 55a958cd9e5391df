"""A scan costs what it reads, whatever a batch holds or says that it holds."""

import struct
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
import zstandard
from crc32c import crc32c

from lakelog.errors import CorruptError, UnsupportedError
from lakelog.model import Record, TimestampType
from lakelog.records import (
    DECOMPRESSED_BYTES_MAX,
    HEADER_BYTES,
    Codec,
    NewBatch,
    Scan,
    compress,
    encode_batch,
    encode_varint,
    finish,
    first_not_older,
    without_keys,
)
from lakelog.records.scanning import TURN_BYTES, TURN_RECORDS, FoundRecord

NOON = 1_700_000_000_000
EMPTY = b"\x0c\0\0\0\x01\x01\0"
"""A record without key, value and headers."""

every_codec = pytest.mark.parametrize("codec", Codec, ids=lambda codec: codec.name.lower())


def packed(body: bytes, count: int, codec: Codec = Codec.ZSTD) -> bytes:
    """Return a batch whose records are compressed already."""
    one = Record(offset=count - 1, timestamp=NOON, key=None, value=None)
    made = NewBatch(records=(one,), base_offset=0)
    batch = bytearray(encode_batch(made))
    batch[HEADER_BYTES:] = body
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    struct.pack_into(">h", batch, 21, codec)
    struct.pack_into(">i", batch, 57, count)
    struct.pack_into(">I", batch, 17, crc32c(batch[21:]))
    return bytes(batch)


def bomb(size: int, *, level: int = 19) -> bytes:
    """Return a batch of one record, whose value has so many zeros."""
    record = b"\0\0\0\x01" + encode_varint(size)
    length = len(record) + size + 1
    codec = zstandard.ZstdCompressor(level=level).compressobj()
    out = [codec.compress(encode_varint(length) + record)]
    out += [codec.compress(bytes(1 << 20)) for _ in range(size >> 20)]
    return packed(b"".join([*out, codec.compress(b"\0"), codec.flush()]), 1)


def turns(scan: Scan[Any]) -> tuple[list[int], Any]:
    """Return what a scan held after each of its turns, and what it found."""
    held: list[int] = []
    while True:
        try:
            held.append(next(scan))
        except StopIteration as done:
            return held, done.value


def peak(work: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@every_codec
def test_headers_cost_nothing(codec: Codec) -> None:
    record = b"\0\0\0\x01\x01" + encode_varint(300_000) + b"\0\x01" * 300_000
    batch = packed(compress(codec, encode_varint(len(record)) + record), 1, codec)
    if codec is Codec.ZSTD:
        assert len(batch) < 150
    tried = 1_500_000  # A piece or two of the codec; as objects they would take ten times that.
    assert peak(lambda: finish(first_not_older(batch, 0, NOON))) < tried
    assert peak(lambda: finish(without_keys(batch, 10))) < tried
    assert finish(first_not_older(batch, 0, NOON)) == FoundRecord(0, NOON)
    assert finish(without_keys(batch, 10)) == [0]


def test_a_small_batch_that_holds_much_takes_little_memory_and_many_turns() -> None:
    size = 64 << 20
    batch = bomb(size)
    assert len(batch) < 20_000
    assert peak(lambda: finish(without_keys(batch, 10))) < 2 << 20
    held, found = turns(without_keys(batch, 10))
    assert found == [0]
    assert len(held) >= size // (2 * TURN_BYTES)
    window = zstandard.get_frame_parameters(batch[HEADER_BYTES:]).window_size
    assert max(held) <= window + (1 << 20) < size


def test_what_comes_out_of_a_batch_is_capped() -> None:
    batch = bomb(DECOMPRESSED_BYTES_MAX + (1 << 20), level=1)
    with pytest.raises(UnsupportedError, match="more than the limit"):
        finish(without_keys(batch, 10))


def test_a_window_that_is_only_claimed_is_not_held() -> None:
    codec = zstandard.ZstdCompressor(write_content_size=False)
    body = bytearray(codec.compress(EMPTY))
    body[5] = 17 << 3  # The window descriptor: 2^27 bytes.
    assert zstandard.get_frame_parameters(bytes(body)).window_size == 1 << 27
    held, found = turns(without_keys(packed(bytes(body), 1), 10))
    assert found == [0]
    assert sum(held) == 0


def test_records_are_looked_at_in_turns() -> None:
    many = 5 * TURN_RECORDS
    records = [Record(offset=at, timestamp=NOON + at, key=b"", value=b"") for at in range(many)]
    batch = encode_batch(NewBatch(records=records))
    held, found = turns(first_not_older(batch, 0, NOON + many - 1))
    assert found == FoundRecord(many - 1, NOON + many - 1)
    assert len(held) >= 4
    first, found = turns(first_not_older(batch, 0, NOON))
    assert found == FoundRecord(0, NOON)
    assert len(first) <= 1


def test_batches_are_looked_at_in_turns_too() -> None:
    one = encode_batch(NewBatch(records=[Record(offset=0, timestamp=NOON, key=None, value=None)]))
    held, found = turns(first_not_older(one * 10_000, 0, NOON + 1))
    assert found is None
    assert len(held) >= 5


def test_what_says_that_it_is_older_or_comes_before_is_not_decompressed() -> None:
    noise = packed(b"this is no zstd", 1)
    assert finish(first_not_older(noise, 0, NOON + 1)) is None
    assert finish(first_not_older(noise, 1, NOON)) is None
    with pytest.raises(CorruptError):
        finish(first_not_older(noise, 0, NOON))


def test_records_that_the_log_stamped_have_the_time_of_their_batch() -> None:
    records = [Record(offset=at, timestamp=NOON, key=None, value=None) for at in (3, 5, 6)]
    kind = TimestampType.LOG_APPEND_TIME
    batch = encode_batch(NewBatch(records=records, base_offset=0, timestamp_type=kind))
    assert finish(first_not_older(batch, 0, NOON - 5)) == FoundRecord(3, NOON)
    assert finish(first_not_older(batch, 4, NOON)) == FoundRecord(5, NOON)
    assert finish(first_not_older(batch, 0, NOON + 1)) is None


def test_a_batch_whose_bytes_do_not_match_their_checksum_is_refused_though_it_is_older() -> None:
    batch = bytearray(packed(EMPTY, 1, Codec.NONE))
    batch[-1] ^= 1
    with pytest.raises(CorruptError, match="CRC-32C"):
        finish(first_not_older(batch, 0, NOON + 1))


@every_codec
def test_a_record_longer_than_its_batch_is_refused(codec: Codec) -> None:
    for body, count in ((b"\x0e" + EMPTY[1:], 1), (EMPTY, 2), (EMPTY + b"\0", 1)):
        batch = packed(compress(codec, body), count, codec)
        with pytest.raises(CorruptError):
            finish(without_keys(batch, 10))
