"""The fixed parts of an STRM segment: header, block header, index and footer.

    header                                  block header
      at  field          type                 at  field         type
       0  magic          "STRM"                0  uncompressed  u32   bytes of the records
       4  version        u16                   4  compressed    u32   bytes that follow
       6  flags          u16                   8  count         u32   records
       8  topic_hash     u64                  12  crc           u32   of the compressed bytes
      16  partition      u32
      20  base_offset    i64                index
      28  max_offset     i64                   0  count         u32
      36  count          u32                   4  entries             offset i64, position u64
      40  created_at     i64
      48  min_timestamp  i64                footer
      56  max_timestamp  i64                   0  index_position u64
      64                                       8  index_size     u32
                                              12  crc            u32   of everything before it
    flags                                     16  reserved       12 zero bytes
      0-2  codec: 0 none, 1 lz4, 2 zstd       28  magic          "MRTS"
      3    a value may be null                32
      4    records carry headers

Integers are big-endian; both CRCs are CRC-32 as in zlib, not the CRC-32C of Kafka. Bits 3 and 4
make the file version 2: a reader that knows only version 1 must not guess at such records. The
file CRC takes in the first 12 bytes of the footer, because that is where the first writer stood
when it took it.

StreamHouse writes other files under the same magic and version. Only their end tells: they have
"STRM" where we have the reserved bytes. They are named and refused.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple
from zlib import crc32

from lakelog.errors import CorruptError, InvalidInputError, UnsupportedError
from lakelog.formats.contract import OFFSET_MAX, Bytes, IndexEntry
from lakelog.records import I64_MAX, I64_MIN, Codec

__all__ = [
    "BLOCK_BYTES_MAX",
    "BLOCK_TARGET_BYTES",
    "INDEX_ENTRIES_MAX",
    "BlockHeader",
    "Footer",
    "IndexEntry",
    "SegmentHeader",
    "check_settings",
    "decode_block_header",
    "decode_footer",
    "decode_header",
    "decode_index",
    "encode_end",
    "encode_footer",
    "encode_index",
    "header_faults",
    "topic_hash",
    "unpack_header",
    "version_and_flags",
]

SUFFIX = ".seg"

BLOCK_BYTES_MAX = 64 * 1024 * 1024
"""What one block may hold when it is decompressed."""

COMPRESSED_BYTES_MAX = BLOCK_BYTES_MAX + (BLOCK_BYTES_MAX >> 7)
"""Data that cannot be compressed grows, by less than 1/128 with every codec here."""

BLOCK_TARGET_BYTES = 1024 * 1024
"""Where a block ends, before compression, unless the caller says otherwise."""

BLOCK_TARGET_BYTES_MAX = 16 * 1024 * 1024
"""The estimate of a record may be four times too low, and a block holds 64 MiB."""

INDEX_ENTRIES_MAX = 1 << 20
"""Blocks of one segment: 16 MiB of index, which is read as one piece."""

MAGIC = b"STRM"
FOOTER_MAGIC = b"MRTS"
PLAIN_VERSION, EXTENDED_VERSION = 1, 2
CODECS = {0: Codec.NONE, 1: Codec.LZ4, 2: Codec.ZSTD}
_CODEC_IDS = {codec: number for number, codec in CODECS.items()}
CODEC_MASK = 0x07
TOMBSTONES_BIT = 0x08
HEADERS_BIT = 0x10
KNOWN_BITS = {
    PLAIN_VERSION: CODEC_MASK,
    EXTENDED_VERSION: CODEC_MASK | TOMBSTONES_BIT | HEADERS_BIT,
}


HEADER = struct.Struct(">4sHHQIqqIqqq")
BLOCK = struct.Struct(">IIII")
COUNT = struct.Struct(">I")
ENTRY = struct.Struct(">qQ")
FOOTER = struct.Struct(">QII12s4s")
_FOOTER_BYTES_UNDER_CRC = 12
CRC_BYTES_BEHIND = 20
"""The file CRC covers all but this many bytes at the end."""

INDEX_BYTES_MAX = COUNT.size + INDEX_ENTRIES_MAX * ENTRY.size
SIZE_MIN = HEADER.size + COUNT.size + FOOTER.size
_RECORD_BYTES_MIN = 4

_FNV_BASIS = 0xCBF29CE484222325
_FNV_PRIME = 0x100000001B3


def topic_hash(topic: str) -> int:
    """Return FNV-1a, 64 bits, of the topic's UTF-8 bytes.

    The format never named its hash. This one needs no library and no seed; nobody may refuse a
    file because another writer chose differently.
    """
    value = _FNV_BASIS
    for byte in topic.encode():
        value = (value ^ byte) * _FNV_PRIME & 0xFFFFFFFFFFFFFFFF
    return value


# ---------------------------------------------------------------------------- header


class SegmentHeader(NamedTuple):
    """The first 64 bytes, field by field, as they stand there."""

    magic: bytes
    version: int
    flags: int
    topic_hash: int
    partition: int
    base_offset: int
    max_offset: int
    count: int  # type: ignore[assignment]  # It hides a method of tuples that nobody needs.
    created_at: int
    min_timestamp: int
    max_timestamp: int

    @property
    def codec(self) -> Codec:
        return CODECS[self.flags & CODEC_MASK]

    @property
    def has_tombstones(self) -> bool:
        """Whether a value may be null."""
        return bool(self.flags & TOMBSTONES_BIT)

    @property
    def has_headers(self) -> bool:
        return bool(self.flags & HEADERS_BIT)

    @property
    def knows_times(self) -> bool:
        """Whether the time range says anything: the first writer left both ends 0."""
        return bool(self.min_timestamp or self.max_timestamp)

    @property
    def is_dense(self) -> bool:
        """Whether no offset is missing, so that each follows from the one before."""
        return self.count == self.max_offset - self.base_offset + 1

    @property
    def is_readable(self) -> bool:
        """Whether version and flags are known: then blocks can be read, whatever else is bad."""
        bits = KNOWN_BITS.get(self.version, 0)
        return self.version in KNOWN_BITS and not self.flags & ~bits and self._knows_codec

    @property
    def _knows_codec(self) -> bool:
        return self.flags & CODEC_MASK in CODECS

    def encode(self) -> bytes:
        return HEADER.pack(*self)


def unpack_header(data: Bytes) -> SegmentHeader:
    """Return the header in 64 bytes, good or bad."""
    return SegmentHeader._make(HEADER.unpack(data))


def header_faults(header: SegmentHeader) -> Iterator[CorruptError | UnsupportedError]:
    """Yield everything that is wrong with a header, worst first."""
    if header.magic != MAGIC:
        yield CorruptError(f"magic {header.magic!r}, not {MAGIC!r}", at=0, where=SUFFIX)
    if header.version not in KNOWN_BITS:
        yield UnsupportedError(
            f"version {header.version}, this reader knows {PLAIN_VERSION} and {EXTENDED_VERSION}",
            at=4,
            where=SUFFIX,
        )
    elif not header.is_readable:
        yield UnsupportedError(
            f"flags {header.flags:#06x} of version {header.version}", at=6, where=SUFFIX
        )
    base, last = header.base_offset, header.max_offset
    if base < 0:
        yield CorruptError(f"base offset {base} is negative", at=20, where=SUFFIX)
    if not base <= last <= OFFSET_MAX:
        yield CorruptError(f"last offset {last}, the first is {base}", at=28, where=SUFFIX)
    elif not 1 <= header.count <= last - base + 1:
        yield CorruptError(
            f"{header.count} records in {last - base + 1} offsets", at=36, where=SUFFIX
        )
    if header.min_timestamp > header.max_timestamp:
        yield CorruptError(
            f"times from {header.min_timestamp} to {header.max_timestamp}", at=48, where=SUFFIX
        )


def decode_header(data: Bytes) -> SegmentHeader:
    """Return the header of a segment.

    Raises:
        CorruptError: fewer than 64 bytes, another magic, or fields that contradict each other.
        UnsupportedError: another version, codec or flag.
    """
    if len(data) < HEADER.size:
        raise CorruptError(
            f"{len(data)} bytes, a header has {HEADER.size}", at=len(data), where=SUFFIX
        )
    header = unpack_header(memoryview(data)[: HEADER.size])
    for fault in header_faults(header):
        raise fault
    return header


# ---------------------------------------------------------------------------- block header


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockHeader:
    """The 16 bytes before a block's compressed records."""

    uncompressed: int
    compressed: int
    count: int
    crc: int

    @property
    def size(self) -> int:
        """Bytes of the whole block."""
        return BLOCK.size + self.compressed


def decode_block_header(data: Bytes, *, at: int, room: int) -> BlockHeader:
    """Return the header of the block at ``at``, where ``room`` bytes are left for all of it.

    Raises:
        CorruptError: it does not fit, or its fields contradict each other.
        UnsupportedError: it is over a limit.
    """
    if len(data) < BLOCK.size:
        raise CorruptError(
            f"{len(data)} bytes left, a block header has {BLOCK.size}", at=at, where=SUFFIX
        )
    uncompressed, compressed, count, crc = BLOCK.unpack_from(data)
    if not 1 <= compressed <= room - BLOCK.size:
        raise CorruptError(
            f"a block of {compressed} bytes, {room - BLOCK.size} left", at=at + 4, where=SUFFIX
        )
    if not 1 <= count <= uncompressed // _RECORD_BYTES_MIN:
        raise CorruptError(
            f"a block with {count} records in {uncompressed} bytes", at=at + 8, where=SUFFIX
        )
    if uncompressed > BLOCK_BYTES_MAX or compressed > COMPRESSED_BYTES_MAX:
        raise UnsupportedError(
            f"a block of {max(uncompressed, compressed)} bytes is over the limit of "
            f"{BLOCK_BYTES_MAX}",
            at=at,
            where=SUFFIX,
        )
    return BlockHeader(uncompressed=uncompressed, compressed=compressed, count=count, crc=crc)


# ---------------------------------------------------------------------------- index


def encode_index(entries: list[IndexEntry]) -> bytes:
    """Return the bytes of the index."""
    parts = [ENTRY.pack(entry.offset, entry.position) for entry in entries]
    return COUNT.pack(len(entries)) + b"".join(parts)


def decode_index(data: Bytes, *, at: int) -> tuple[IndexEntry, ...]:
    """Return the entries of the index that begins at ``at`` and fills ``data``.

    Raises:
        CorruptError: the count is another, or blocks would overlap or go backwards.
    """
    count = COUNT.unpack_from(data)[0] if len(data) >= COUNT.size else 0
    if count == 0 or COUNT.size + count * ENTRY.size != len(data):
        raise CorruptError(
            f"an index of {len(data)} bytes with {count} entries", at=at, where=SUFFIX
        )
    entries = tuple(
        IndexEntry(offset=offset, position=position)
        for offset, position in ENTRY.iter_unpack(memoryview(data)[COUNT.size :])
    )
    if entries[0].offset < 0 or entries[0].position != HEADER.size:
        raise CorruptError(
            f"the first block is said to hold offset {entries[0].offset} at {entries[0].position}",
            at=at + COUNT.size,
            where=SUFFIX,
        )
    # The index itself stands for a block behind the last one: that must end before it as well.
    after = IndexEntry(offset=OFFSET_MAX + 1, position=at)
    for number, (entry, later) in enumerate(pairwise((*entries, after))):
        if entry.offset >= later.offset or later.position - entry.position <= BLOCK.size:
            raise CorruptError(
                f"index entry {number} (offset {entry.offset} at {entry.position}) does not end "
                f"before the next (offset {later.offset} at {later.position})",
                at=at + COUNT.size + number * ENTRY.size,
                where=SUFFIX,
            )
    return entries


# ---------------------------------------------------------------------------- footer


@dataclass(frozen=True, slots=True, kw_only=True)
class Footer:
    """The last 32 bytes."""

    index_position: int
    index_size: int
    crc: int


def encode_footer(footer: Footer) -> bytes:
    """Return the bytes of the footer."""
    return FOOTER.pack(
        footer.index_position, footer.index_size, footer.crc, bytes(12), FOOTER_MAGIC
    )


def decode_footer(data: Bytes, *, size: int) -> Footer:
    """Return the footer of a file of ``size`` bytes, given its last 32.

    Raises:
        CorruptError: another magic, or an index that does not lie right before the footer.
        UnsupportedError: a StreamHouse segment, or an index over the limit.
    """
    if len(data) < FOOTER.size:
        raise CorruptError(f"{size} bytes, a footer has {FOOTER.size}", at=size, where=SUFFIX)
    at = size - FOOTER.size
    position, index_size, crc, reserved, magic = FOOTER.unpack(data)
    if bytes(data[12:]) == MAGIC + bytes(16):
        raise UnsupportedError(
            "a StreamHouse segment: the same magic, but other bytes; let StreamHouse export it",
            at=at + 12,
            where=SUFFIX,
        )
    if magic != FOOTER_MAGIC:
        raise CorruptError(
            f"footer magic {magic!r}, not {FOOTER_MAGIC!r}", at=at + 28, where=SUFFIX
        )
    if any(reserved):
        raise CorruptError("reserved bytes are not zero", at=at + 16, where=SUFFIX)
    if position < HEADER.size or position + index_size != at:
        raise CorruptError(
            f"an index of {index_size} bytes at {position}, the footer is at {at}",
            at=at,
            where=SUFFIX,
        )
    if index_size > INDEX_BYTES_MAX:
        raise UnsupportedError(
            f"an index of {index_size} bytes is over the limit of {INDEX_ENTRIES_MAX} entries",
            at=at + 8,
            where=SUFFIX,
        )
    return Footer(index_position=position, index_size=index_size, crc=crc)


# ---------------------------------------------------------------------------- writing


def check_settings(codec: Codec, partition: int, created_ms: int, block_bytes: int) -> None:
    """Check what a segment is to be made with.

    Raises:
        InvalidInputError: something is out of range.
    """
    if codec not in _CODEC_IDS:
        raise InvalidInputError(f"STRM knows none, lz4 and zstd, not {codec.name.lower()}")
    if not 0 <= partition < 1 << 32:
        raise InvalidInputError(f"partition {partition} does not fit 32 bits")
    if not I64_MIN <= created_ms <= I64_MAX:
        raise InvalidInputError(f"creation time {created_ms} does not fit 64 bits")
    if not 1 <= block_bytes <= BLOCK_TARGET_BYTES_MAX:
        raise InvalidInputError(
            f"blocks of {block_bytes} bytes, choose from 1 to {BLOCK_TARGET_BYTES_MAX}"
        )


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
