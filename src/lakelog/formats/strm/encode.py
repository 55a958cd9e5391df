"""Records -> an STRM segment.

Blocks are cut where the format's first writer cut them: before a record whose estimated size
(10 bytes, key and value) would carry the block past its target. So the same records give the same
blocks as there. One cut is ours: a timestamp further than 63 bits from the block's first one
begins a new block, so that every 64-bit timestamp can be written.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from zlib import crc32

from lakelog.errors import InvalidInputError
from lakelog.formats.contract import OFFSET_MAX
from lakelog.formats.strm.blocks import encode_block
from lakelog.formats.strm.layout import (
    CODECS,
    EXTENDED_VERSION,
    HEADER,
    HEADERS_BIT,
    INDEX_ENTRIES_MAX,
    PLAIN_VERSION,
    TOMBSTONES_BIT,
    Footer,
    IndexEntry,
    SegmentHeader,
    encode_footer,
    encode_index,
    topic_hash,
)
from lakelog.model import Record
from lakelog.records import I64_MAX, I64_MIN, Codec

__all__ = [
    "BLOCK_TARGET_BYTES",
    "check_settings",
    "encode_end",
    "encode_segment",
    "version_and_flags",
]

BLOCK_TARGET_BYTES = 1024 * 1024
"""Where a block ends, before compression, unless the caller says otherwise."""

BLOCK_TARGET_BYTES_MAX = 16 * 1024 * 1024
"""The estimate of a record may be four times too low, and a block holds 64 MiB."""

U32_MAX = (1 << 32) - 1
_RECORD_BYTES_ESTIMATED = 10
_HEADER_BYTES_ESTIMATED = 4
_CODEC_IDS = {codec: number for number, codec in CODECS.items()}
_FOOTER_BYTES_UNDER_CRC = 12


def encode_segment(
    records: Sequence[Record],
    *,
    topic: str = "",
    partition: int = 0,
    created_ms: int = 0,
    codec: Codec = Codec.LZ4,
    block_bytes: int = BLOCK_TARGET_BYTES,
) -> bytes:
    """Return the bytes of a segment. Equal input gives equal bytes.

    Raises:
        InvalidInputError: no records, offsets that do not rise, or something out of range.
    """
    _check_records(records)
    check_settings(codec, partition, created_ms, block_bytes)
    has_headers = any(record.headers for record in records)
    timestamps = [record.timestamp for record in records]
    version, flags = version_and_flags(
        codec,
        has_tombstones=any(record.value is None for record in records),
        has_headers=has_headers,
    )
    header = SegmentHeader(
        version=version,
        flags=flags,
        topic_hash=topic_hash(topic),
        partition=partition,
        base_offset=records[0].offset,
        max_offset=records[-1].offset,
        count=len(records),
        created_at=created_ms,
        min_timestamp=min(timestamps),
        max_timestamp=max(timestamps),
    )
    parts = [header.encode()]
    entries: list[IndexEntry] = []
    position = HEADER.size
    for run in _runs(records, block_bytes):
        block = encode_block(run, codec, has_headers=has_headers)
        entries.append(IndexEntry(offset=run[0].offset, position=position))
        parts.append(block)
        position += len(block)
    body = b"".join(parts)
    return body + encode_end(entries, position, crc32(body))


def version_and_flags(codec: Codec, *, has_tombstones: bool, has_headers: bool) -> tuple[int, int]:
    """Return the lowest version that can say what is in a segment, and its flags."""
    extended = TOMBSTONES_BIT * has_tombstones | HEADERS_BIT * has_headers
    return EXTENDED_VERSION if extended else PLAIN_VERSION, _CODEC_IDS[codec] | extended


def encode_end(entries: list[IndexEntry], position: int, crc: int) -> bytes:
    """Return index and footer, which stand at ``position`` behind bytes whose CRC is ``crc``.

    Raises:
        InvalidInputError: more blocks than an index may have.
    """
    if len(entries) > INDEX_ENTRIES_MAX:
        raise InvalidInputError(
            f"{len(entries)} blocks, a segment holds {INDEX_ENTRIES_MAX}; use larger blocks"
        )
    index = encode_index(entries)
    unsigned = encode_footer(Footer(index_position=position, index_size=len(index), crc=0))
    crc = crc32(unsigned[:_FOOTER_BYTES_UNDER_CRC], crc32(index, crc))
    return index + encode_footer(Footer(index_position=position, index_size=len(index), crc=crc))


def _runs(records: Sequence[Record], block_bytes: int) -> Iterator[Sequence[Record]]:
    """Yield the records of each block."""
    start = size = 0
    for at, record in enumerate(records):
        estimate = _estimate(record)
        distance = record.timestamp - records[start].timestamp
        full = size + estimate > block_bytes or not I64_MIN <= distance <= I64_MAX
        if full and at > start:
            yield records[start:at]
            start, size = at, 0
        size += estimate
    yield records[start:]


def _estimate(record: Record) -> int:
    size = _RECORD_BYTES_ESTIMATED + len(record.key or b"") + len(record.value or b"")
    for key, value in record.headers:
        size += _HEADER_BYTES_ESTIMATED + len(key.encode("utf-8", "surrogateescape"))
        size += len(value or b"")
    return size


def _check_records(records: Sequence[Record]) -> None:
    if not records:
        # Its last offset would be the one before its first, which at offset 0 cannot be written.
        raise InvalidInputError("an STRM segment holds at least one record")
    if not 0 <= records[0].offset <= records[-1].offset <= OFFSET_MAX or any(
        a.offset >= b.offset for a, b in pairwise(records)
    ):
        raise InvalidInputError("offsets must rise within [0, 2^63 - 1)")
    if not all(I64_MIN <= record.timestamp <= I64_MAX for record in records):
        raise InvalidInputError("a timestamp must fit 64 bits")


def check_settings(codec: Codec, partition: int, created_ms: int, block_bytes: int) -> None:
    """Check what a segment is to be made with.

    Raises:
        InvalidInputError: something is out of range.
    """
    if codec not in _CODEC_IDS:
        raise InvalidInputError(f"STRM knows none, lz4 and zstd, not {codec.name.lower()}")
    if not 0 <= partition <= U32_MAX:
        raise InvalidInputError(f"partition {partition} does not fit 32 bits")
    if not I64_MIN <= created_ms <= I64_MAX:
        raise InvalidInputError(f"creation time {created_ms} does not fit 64 bits")
    if not 1 <= block_bytes <= BLOCK_TARGET_BYTES_MAX:
        raise InvalidInputError(
            f"blocks of {block_bytes} bytes, choose from 1 to {BLOCK_TARGET_BYTES_MAX}"
        )
