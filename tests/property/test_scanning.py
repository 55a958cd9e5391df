"""Laws of scans: of what they read, they say what the plain codec says."""

import struct
from collections.abc import Callable
from typing import Any

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from lakelog.errors import CorruptError, UnsupportedError
from lakelog.model import Record
from lakelog.records import (
    HEADER_BYTES,
    Codec,
    FoundRecord,
    NewBatch,
    Scan,
    compress,
    decode_batches,
    decompress,
    encode_batch,
    finish,
    first_not_older,
    without_keys,
)
from lakelog.records.compression import decompress_pieces
from tests.strategies import new_batches, timestamps

every_codec = pytest.mark.parametrize("codec", Codec, ids=lambda codec: codec.name.lower())

ALL = 1 << 30


def late(data: bytes, offset: int, timestamp: int) -> FoundRecord | None:
    """The judge: looks at every record."""
    for batch in decode_batches(data):
        for record in batch.records:
            if record.offset >= offset and record.timestamp >= timestamp:
                return FoundRecord(record.offset, record.timestamp)
    return None


def keyless(data: bytes) -> list[int]:
    records = [record for batch in decode_batches(data) for record in batch.records]
    return [at for at, record in enumerate(records) if record.key is None]


def outcome(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except (CorruptError, UnsupportedError) as error:
        return type(error)


def reseal(batch: bytearray) -> bytes:
    """Make the CRC right again, so that damage is found by what comes after it."""
    struct.pack_into(">I", batch, 17, crc32c(batch[21:]))
    return bytes(batch)


@given(batches=st.lists(new_batches(), min_size=1, max_size=3), data=st.data())
def test_a_scan_finds_the_record_that_the_plain_codec_finds(
    batches: list[NewBatch], data: st.DataObject
) -> None:
    run = b"".join(map(encode_batch, batches))
    records = [record for batch in batches for record in batch.records]
    some: st.SearchStrategy[Record | None] = st.sampled_from(records) if records else st.none()
    near = data.draw(some, "near")
    timestamp = data.draw(timestamps) if near is None else near.timestamp
    timestamp += data.draw(st.integers(-1, 1))
    offset = 0 if near is None else max(0, near.offset + data.draw(st.integers(-2, 2)))
    assert finish(first_not_older(run, offset, timestamp)) == late(run, offset, timestamp)


@given(batches=st.lists(new_batches(), min_size=1, max_size=3), most=st.integers(1, 5))
def test_a_scan_finds_the_records_without_keys(batches: list[NewBatch], most: int) -> None:
    run = b"".join(map(encode_batch, batches))
    assert finish(without_keys(run, ALL)) == keyless(run)
    assert finish(without_keys(run, most)) == keyless(run)[:most]


@given(batch=new_batches(), data=st.data())
def test_a_scan_of_damage_says_what_the_plain_codec_says_or_nothing_worse(
    batch: NewBatch, data: st.DataObject
) -> None:
    """Whatever the plain codec reads, a scan reads alike. What it refuses, a scan may pass over."""
    damaged = bytearray(encode_batch(batch))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(HEADER_BYTES - 40, len(damaged) - 1))
        damaged[at] = data.draw(st.integers(0, 255))
    run = reseal(damaged)
    judged = outcome(lambda: keyless(run))
    found = outcome(lambda: finish(without_keys(run, ALL)))
    time = outcome(lambda: finish(first_not_older(run, 0, -1)))
    if isinstance(judged, list):
        assert found == judged
        assert time == late_if_told(run)
    else:
        assert found in (CorruptError, UnsupportedError) or isinstance(found, list)
        assert time in (CorruptError, UnsupportedError, None) or isinstance(time, FoundRecord)


def late_if_told(run: bytes) -> FoundRecord | None:
    """The judge, for batches that lie: one that says that all of it is older is believed."""
    for batch in decode_batches(run):
        if batch.header.max_timestamp >= -1:
            for record in batch.records:
                if record.timestamp >= -1:
                    return FoundRecord(record.offset, record.timestamp)
    return None


@given(batch=new_batches(), data=st.data())
def test_a_scan_of_part_of_a_batch_is_refused(batch: NewBatch, data: st.DataObject) -> None:
    whole = encode_batch(batch)
    part = whole[: data.draw(st.integers(1, len(whole) - 1))]
    for scan in (without_keys(part, ALL), first_not_older(part, 0, -1)):
        with pytest.raises(CorruptError):
            finish_any(scan)


def finish_any(scan: Scan[Any]) -> Any:
    return finish(scan)


@every_codec
@given(noise=st.binary(max_size=200))
def test_noise_in_a_body_never_crashes_a_scan(codec: Codec, noise: bytes) -> None:
    one = NewBatch(records=(Record(offset=0, timestamp=5, key=b"k", value=None),), codec=codec)
    run = reseal(_with_body(bytearray(encode_batch(one)), noise))
    for ask in (without_keys(run, ALL), first_not_older(run, 0, -1)):
        outcome(lambda scan=ask: finish_any(scan))  # type: ignore[misc]


def _with_body(batch: bytearray, body: bytes) -> bytearray:
    batch[HEADER_BYTES:] = body
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    return batch


@every_codec
@given(
    parts=st.lists(st.binary(min_size=1, max_size=20) | st.just(bytes(200_000)), max_size=4),
    room=st.integers(0, 3),
)
def test_pieces_are_what_is_decompressed_at_once(
    codec: Codec, parts: list[bytes], room: int
) -> None:
    raw = b"".join(parts)
    packed = compress(codec, raw)
    assert b"".join(decompress_pieces(codec, packed)) == raw
    size_max = max(len(raw) - 2 + room, 0)
    ways = (
        lambda: decompress(codec, packed, size_max=size_max),
        lambda: b"".join(decompress_pieces(codec, packed, size_max=size_max)),
    )
    assert len({outcome(way) for way in ways}) == 1
