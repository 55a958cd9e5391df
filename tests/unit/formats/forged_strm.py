"""STRM segments put together byte by byte, without the encoder, right or wrong as the test likes.

Checksums are right unless a test says otherwise: damage that a checksum already notices would
never reach the check that the test is about.
"""

import struct
from collections.abc import Mapping
from zlib import crc32

from lakelog.formats.contract import Block, Damage, Files, run, walk_blocks
from lakelog.formats.strm import FORMAT, StrmSegment, open_segment
from lakelog.model import Record
from tests.segments import buffers, decode


def varint(value: int) -> bytes:
    rest = (value << 1) ^ (value >> 63)
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def record(delta: int, time: int, key: bytes | None = None, value: bytes | None = b"v") -> bytes:
    parts = [varint(delta), varint(time)]
    for part in (key, value):
        parts += [varint(-1)] if part is None else [varint(len(part)), part]
    return b"".join(parts)


def block(
    raw: bytes,
    *,
    count: int = 1,
    body: bytes | None = None,
    uncompressed: int | None = None,
    compressed: int | None = None,
    crc: int | None = None,
) -> bytes:
    body = raw if body is None else body
    head = struct.pack(
        ">IIII",
        len(raw) if uncompressed is None else uncompressed,
        len(body) if compressed is None else compressed,
        count,
        crc32(body) if crc is None else crc,
    )
    return head + body


GOOD = block(record(0, 100) + record(1, 7), count=2)
"""Offsets 0 and 1 at times 100 and 107, when it is the first block of a segment at offset 0."""

HEADER_FIELDS = {
    "magic": b"STRM",
    "version": 1,
    "flags": 0,
    "topic_hash": 0,
    "partition": 0,
    "base_offset": 0,
    "max_offset": 1,
    "count": 2,
    "created_at": 0,
    "min_timestamp": 100,
    "max_timestamp": 107,
}


def forge(
    *blocks: bytes,
    header: Mapping[str, int | bytes] | None = None,
    index: bytes | None = None,
    entries: tuple[tuple[int, int], ...] = ((0, 64),),
    index_position: int | None = None,
    index_size: int | None = None,
    crc: int | None = None,
    reserved: bytes = bytes(12),
    magic: bytes = b"MRTS",
) -> bytes:
    """Return a segment of ``blocks``, or of GOOD."""
    data = struct.pack(">4sHHQIqqIqqq", *(HEADER_FIELDS | dict(header or {})).values())
    data += b"".join(blocks or (GOOD,))
    found = len(data)
    if index is None:
        index = struct.pack(">I", len(entries))
        index += b"".join(struct.pack(">qQ", *entry) for entry in entries)
    data += index
    data += struct.pack(
        ">QI",
        found if index_position is None else index_position,
        len(index) if index_size is None else index_size,
    )
    return data + struct.pack(">I12s4s", crc32(data) if crc is None else crc, reserved, magic)


def read(data: bytes, base_offset: int = 0) -> tuple[Record, ...]:
    return decode(FORMAT, {".seg": data}, base_offset=base_offset)


def walked(data: bytes, base_offset: int = 0) -> tuple[list[Record], list[Damage]]:
    """Return the records and the damage that a walk finds."""
    records: list[Record] = []
    damages: list[Damage] = []
    files = Files(base_offset=base_offset, sizes={".seg": len(data)})
    for found in walk_blocks(FORMAT.walk(files), buffers({".seg": data})):
        if isinstance(found, Block):
            records += found.records
        else:
            damages.append(found)
    return records, damages


def opened(data: bytes, base_offset: int = 0) -> StrmSegment:
    files = Files(base_offset=base_offset, sizes={".seg": len(data)})
    return run(open_segment(files), buffers({".seg": data}))
