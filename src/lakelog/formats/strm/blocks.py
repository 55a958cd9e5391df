"""One block of an STRM segment: a header of 16 bytes, then records compressed as one piece.

    record => offset_delta time key value headers?
      offset_delta  varint   from the block's first offset, so 0 for the first record
      time          varint   first record: the timestamp; the others: the distance from it
      key           varint length, -1 for null, then the bytes
      value         varint length, then the bytes; -1 for null only with flag bit 3
      headers       only with flag bit 4: varint count, then for each
                    key varint length + UTF-8, value varint length, -1 for null, then the bytes

    codec   compressed bytes
    none    as they are
    lz4     u32 *little-endian* size, then one LZ4 block (not a frame)
    zstd    Zstandard frames

Varints are zig-zag and hold 64 bits. The format's first writer forgot to store the first record's
timestamp: it wrote 0, its distance from itself. Such a block is recognised when the header knows
an oldest timestamp above 0, and then takes that one: a little wrong instead of 1970, and never
older than the oldest.

``open_block`` ends at the decompressed bytes, and ``seal_block`` begins with them, for those who
have a faster way to read or write records.
"""

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from zlib import crc32

import lz4.block

from lakelog.errors import CorruptError, InvalidInputError, UnsupportedError
from lakelog.formats.contract import OFFSET_MAX, Bytes
from lakelog.formats.strm.layout import (
    BLOCK,
    BLOCK_BYTES_MAX,
    COMPRESSED_BYTES_MAX,
    SUFFIX,
    BlockHeader,
    SegmentHeader,
    decode_block_header,
)
from lakelog.model import Header, Record
from lakelog.records import (
    I64_MAX,
    I64_MIN,
    Codec,
    compressor,
    decode_field,
    decode_headers,
    decode_varlong,
    decompress,
)

__all__ = [
    "RawBlock",
    "block_compressor",
    "check_block",
    "check_times",
    "decode_records",
    "open_block",
    "seal_block",
]

_LZ4_SIZE = struct.Struct("<I")
_LZ4_SLOW_LEVEL = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class RawBlock:
    """A block whose checksum is right: its records, decompressed but not yet told apart."""

    position: int
    size: int
    base_offset: int
    """Of the first record; from the index, for a block does not say."""

    count: int
    raw: bytes


def open_block(
    data: Bytes, header: SegmentHeader, *, position: int, base_offset: int, room: int | None = None
) -> RawBlock:
    """Return the block that begins with ``data`` and may take ``room`` bytes (all of ``data``).

    Raises:
        CorruptError: a wrong checksum, or not the bytes the block header promises.
        UnsupportedError: over a limit.
    """
    block = check_block(data, position=position, room=len(data) if room is None else room)
    body = memoryview(data)[BLOCK.size : block.size]
    try:
        raw = _decompress(header.codec, body, block)
    except CorruptError as error:
        raise CorruptError(error.what, at=position, where=SUFFIX) from error
    return RawBlock(
        position=position, size=block.size, base_offset=base_offset, count=block.count, raw=raw
    )


def check_block(data: Bytes, *, position: int, room: int) -> BlockHeader:
    """Return the header of a block whose checksum is right; nothing is decompressed.

    Raises:
        CorruptError, UnsupportedError: as ``open_block``.
    """
    block = decode_block_header(data, at=position, room=room)
    if block.size > len(data):
        raise CorruptError(
            f"a block of {block.size} bytes, {len(data)} there", at=position, where=SUFFIX
        )
    found = crc32(memoryview(data)[BLOCK.size : block.size])
    if found != block.crc:
        raise CorruptError(
            f"CRC-32 is {found}, the block says {block.crc}", at=position, where=SUFFIX
        )
    return block


def _decompress(codec: Codec, body: memoryview, block: BlockHeader) -> bytes:
    size = block.uncompressed
    if codec is Codec.LZ4:
        raw = _decompress_lz4(body, size)
    else:
        try:
            raw = decompress(codec, body, size_max=size)
        except UnsupportedError as error:
            raise CorruptError(f"more than the {size} bytes the block promises", at=0) from error
    if len(raw) != size:
        raise CorruptError(f"{len(raw)} bytes, the block promises {size}", at=0)
    return raw


def _decompress_lz4(body: memoryview, size: int) -> bytes:
    promised = _LZ4_SIZE.unpack_from(body)[0] if len(body) > _LZ4_SIZE.size else None
    if promised != size:
        raise CorruptError(f"lz4 promises {promised} bytes, the block {size}", at=0)
    try:
        raw: bytes = lz4.block.decompress(body[_LZ4_SIZE.size :], uncompressed_size=size)
    except lz4.block.LZ4BlockError as error:
        raise CorruptError(f"lz4: {error}", at=0) from error
    return raw


# ---------------------------------------------------------------------------- bytes -> records


def decode_records(block: RawBlock, header: SegmentHeader) -> tuple[Record, ...]:
    """Return the records of a block.

    Raises:
        CorruptError: they do not fill the block exactly, or their offsets do not rise.
    """
    try:
        return tuple(_each_record(block, header))
    except CorruptError as error:
        # Positions inside compressed bytes mean nothing to somebody with the file in hand, so
        # then the block's own position is given.
        inside = BLOCK.size + error.at if header.codec is Codec.NONE else 0
        raise CorruptError(error.what, at=block.position + inside, where=SUFFIX) from error


def _each_record(block: RawBlock, header: SegmentHeader) -> Iterator[Record]:
    """Yield the records in ``block.raw``; errors carry positions within it."""
    raw, end = block.raw, len(block.raw)
    at, last, origin, oldest = 0, -1, 0, I64_MIN
    has_tombstones, has_headers = header.has_tombstones, header.has_headers
    headers: tuple[Header, ...] = ()
    for _ in range(block.count):
        start = at
        delta, at = decode_varlong(raw, at, end)
        timestamp, at = decode_varlong(raw, at, end)
        key, at = decode_field(raw, at, end)
        value, at = decode_field(raw, at, end)
        if value is None and not has_tombstones:
            raise CorruptError("a null value, but the flags say there is none", at=start)
        if has_headers:
            headers, at = decode_headers(raw, at, end)
        if last < 0:
            if delta != 0:
                raise CorruptError(f"the first offset delta is {delta}, not 0", at=start)
            if timestamp == 0 and header.min_timestamp > 0:
                timestamp = oldest = header.min_timestamp
            origin = timestamp
        else:
            timestamp = max(oldest, origin + timestamp)
        if delta <= last or block.base_offset + delta > OFFSET_MAX:
            raise CorruptError(f"offset delta {delta} after {last}", at=start)
        if not I64_MIN <= timestamp <= I64_MAX:
            raise CorruptError(f"timestamp {timestamp} does not fit 64 bits", at=start)
        last = delta
        yield Record(
            offset=block.base_offset + delta,
            timestamp=timestamp,
            key=key,
            value=value,
            headers=headers,
        )
    if at != end:
        raise CorruptError(f"{end - at} bytes behind the last record", at=at)


def check_times(records: Sequence[Record], header: SegmentHeader, *, position: int) -> None:
    """Check that the records of the block at ``position`` keep to the header's range of times.

    Raises:
        CorruptError: one does not, so that a lookup by time would miss it.
    """
    oldest, newest = header.min_timestamp, header.max_timestamp
    if not header.knows_times:
        return
    for record in records:
        if not oldest <= record.timestamp <= newest:
            raise CorruptError(
                f"timestamp {record.timestamp} at offset {record.offset}, "
                f"the header says {oldest} to {newest}",
                at=position,
                where=SUFFIX,
            )


# ---------------------------------------------------------------------------- records -> bytes


def seal_block(
    raw: Bytes, compress: Callable[[Bytes], Bytes], *, count: int, base_offset: int
) -> tuple[bytes, Bytes]:
    """Return the header and the body of the block that holds ``count`` records, written as ``raw``.

    ``compress`` is what ``block_compressor`` gives.

    Raises:
        InvalidInputError: they take more than a block may hold.
    """
    if len(raw) > BLOCK_BYTES_MAX:
        raise InvalidInputError(
            f"the record at offset {base_offset} takes {len(raw)} bytes, a block holds "
            f"{BLOCK_BYTES_MAX}"
        )
    body = compress(raw)
    if len(body) > COMPRESSED_BYTES_MAX:
        raise InvalidInputError(
            f"the block at offset {base_offset} takes {len(body)} bytes when it is compressed: "
            f"readers take at most {COMPRESSED_BYTES_MAX}; use smaller blocks, or no compression"
        )
    return BLOCK.pack(len(raw), len(body), count, crc32(body)), body


def block_compressor(codec: Codec, *, level: int | None = None) -> Callable[[Bytes], Bytes]:
    """Return what compresses the records of one block after another; it belongs to one thread."""
    match codec:
        case Codec.NONE:
            return lambda raw: raw
        case Codec.LZ4:
            return partial(_compress_lz4, level=level or 0)
        case _:
            return compressor(codec, level=level)


def _compress_lz4(raw: Bytes, *, level: int) -> bytes:
    # Levels mean what they mean for LZ4 frames: from 3 on the slow compressor, below 0 haste.
    if level < _LZ4_SLOW_LEVEL:
        pace = {"mode": "fast", "acceleration": max(1, -level)}
    else:
        pace = {"mode": "high_compression", "compression": level}
    done: bytes = lz4.block.compress(raw, store_size=True, **pace)
    return done
