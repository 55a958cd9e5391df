"""The five codecs: what other writers make is read, what is cut or bloated is refused."""

import gzip
import tracemalloc

import cramjam
import lz4.frame
import pytest
import zstandard

from lakelog.errors import CorruptError, UnsupportedError
from lakelog.records import Codec, compress, decompress

TEXT = b"the log is the lake, " * 2000

compressed = pytest.mark.parametrize(
    "codec", [c for c in Codec if c is not Codec.NONE], ids=lambda c: c.name.lower()
)


@compressed
def test_a_stream_that_ends_early_is_corrupt(codec: Codec) -> None:
    whole = compress(codec, TEXT)
    for length in (0, 1, len(whole) // 2, len(whole) - 1):
        with pytest.raises(CorruptError):
            decompress(codec, whole[:length])


@compressed
def test_bytes_after_the_stream_are_corrupt(codec: Codec) -> None:
    with pytest.raises(CorruptError):
        decompress(codec, compress(codec, TEXT) + b"!!!!!")


@pytest.mark.parametrize("codec", Codec, ids=lambda c: c.name.lower())
def test_the_limit_is_exact(codec: Codec) -> None:
    whole = compress(codec, TEXT)
    assert decompress(codec, whole, size_max=len(TEXT)) == TEXT
    with pytest.raises(UnsupportedError, match=f"the limit of {len(TEXT) - 1} bytes"):
        decompress(codec, whole, size_max=len(TEXT) - 1)


@compressed
def test_a_bomb_costs_no_more_than_the_limit(codec: Codec) -> None:
    bomb = compress(codec, bytes(200 << 20))
    assert len(bomb) < 11 << 20
    tracemalloc.start()
    with pytest.raises(UnsupportedError):
        decompress(codec, bomb, size_max=1 << 20)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 64 << 20


def test_a_frame_that_lies_about_its_size_is_refused_before_allocation() -> None:
    honest = lz4.frame.compress(TEXT, store_size=True)
    size = len(TEXT).to_bytes(8, "little")
    assert honest[6:14] == size
    with pytest.raises((CorruptError, UnsupportedError)):
        decompress(Codec.LZ4, honest[:6] + (1 << 50).to_bytes(8, "little") + honest[14:])
    raw = bytes(cramjam.snappy.compress_raw(TEXT))
    with pytest.raises(CorruptError, match="cannot hold"):
        decompress(Codec.SNAPPY, b"\xff\xff\xff\xff\x0f" + raw[3:])


def test_gzip_of_several_members_is_one_stream() -> None:
    assert decompress(Codec.GZIP, gzip.compress(b"one ") + gzip.compress(b"two")) == b"one two"


def test_zstd_of_several_frames_is_one_stream() -> None:
    frame = zstandard.ZstdCompressor().compress
    assert decompress(Codec.ZSTD, frame(b"one ") + frame(b"two")) == b"one two"


def test_zstd_that_says_that_it_is_empty_is_looked_at_nevertheless() -> None:
    assert decompress(Codec.ZSTD, compress(Codec.ZSTD, b"")) == b""
    with pytest.raises(CorruptError, match="zstd"):
        decompress(Codec.ZSTD, bytes.fromhex("28b52ffd2000fe0000"))


def test_zstd_without_a_content_size_is_read() -> None:
    stream = zstandard.ZstdCompressor(write_content_size=False).compressobj()
    assert decompress(Codec.ZSTD, stream.compress(TEXT) + stream.flush()) == TEXT


def test_raw_snappy_is_read() -> None:
    assert decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(TEXT))) == TEXT


def test_xerial_streams_may_follow_one_another() -> None:
    one, two = compress(Codec.SNAPPY, b"one "), compress(Codec.SNAPPY, b"two")
    assert decompress(Codec.SNAPPY, one + two) == b"one two"


@pytest.mark.parametrize(
    ("tail", "what"),
    [
        (b"\x82SNAPPY\x00\x00", "header is cut short"),
        (b"\x00\x00", "length is cut short"),
        (b"\xff\xff\xff\xff", "a block of -1 bytes"),
        (b"\x00\x00\x00\x09abc", "a block of 9 bytes, 3 left"),
    ],
)
def test_damaged_xerial_framing_is_corrupt(tail: bytes, what: str) -> None:
    with pytest.raises(CorruptError, match=what):
        decompress(Codec.SNAPPY, compress(Codec.SNAPPY, b"one") + tail)


def test_lz4_blocks_are_independent_as_kafka_demands() -> None:
    info = lz4.frame.get_frame_info(compress(Codec.LZ4, TEXT * 20))
    assert info["block_linked"] is False


def test_lz4_with_linked_blocks_is_read() -> None:
    assert decompress(Codec.LZ4, lz4.frame.compress(TEXT * 20, block_linked=True)) == TEXT * 20
