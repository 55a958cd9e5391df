"""The sparse index of a KAFS segment, version 1.

    segment-{base offset:020}.index => header entry*
      header, 16 bytes
         0  magic         "IDX" 00
         4  version       u16   1
         6  count         i32   entries
        10  interval      i32   records between two entries, at least
        14  reserved      2 zero bytes
      entry, 12 bytes
         0  offset        i64   base offset of a batch
         8  position      i32   where that batch begins, from the start of the object

Integers are big-endian. Kafscale's page gives the magic as 4 bytes, 0x494458, which are three: its
code writes a zero behind them. Its code also makes an entry exactly when ``encode_index`` does. The
index is advisory: it can be rebuilt from its segment, and is never needed to read one.
"""

import struct
from collections.abc import Iterable

from lakelog.errors import CorruptError, InvalidInputError, UnsupportedError
from lakelog.formats.batches import Frame, OffsetIndex
from lakelog.formats.contract import Bytes, Files, Ranged, fetch_file
from lakelog.records import I32_MAX

__all__ = [
    "INDEX_BYTES_MAX",
    "INDEX_INTERVAL",
    "INDEX_SUFFIX",
    "decode_index",
    "encode_index",
    "read_index",
]

INDEX_SUFFIX = ".index"
INDEX_MAGIC = b"IDX\0"
VERSION = 1

INDEX_INTERVAL = 100
"""Records between two index entries, unless the writer says otherwise."""

INDEX_BYTES_MAX = 64 * 1024 * 1024
"""An index is held whole while a segment is open; 5.5 million entries."""

FIRST_POSITION = 32  # Behind the header of the segment.

_INDEX_HEAD = struct.Struct(">4sHii2s")
_ENTRY = struct.Struct(">qi")


def encode_index(batches: Iterable[Frame], *, interval: int = INDEX_INTERVAL) -> bytes:
    """Return the index of batches whose positions count from the start of the object.

    The first batch has an entry, and then each batch before which ``interval`` records or more
    have passed since the last one.

    Raises:
        InvalidInputError: the interval is not positive, or the index would be too large to read.
    """
    if not 0 < interval <= I32_MAX:
        raise InvalidInputError(f"an entry every {interval} records")
    entries = bytearray()
    since = interval
    for position, header in batches:
        if since >= interval:
            entries += _ENTRY.pack(header.base_offset, position)
            since = 0
        since += header.count
    if len(entries) > INDEX_BYTES_MAX - _INDEX_HEAD.size:
        raise InvalidInputError(f"an index of {len(entries)} bytes: use a larger interval")
    count = len(entries) // _ENTRY.size
    return _INDEX_HEAD.pack(INDEX_MAGIC, VERSION, count, interval, bytes(2)) + entries


def decode_index(data: Bytes) -> OffsetIndex:
    """Return the index. Whether it fits its segment is for a walk to say.

    Raises:
        UnsupportedError: another version.
        CorruptError: no version wrote this.
    """
    if len(data) < _INDEX_HEAD.size:
        raise CorruptError(f"{len(data)} bytes, a header has 16", at=0, where=INDEX_SUFFIX)
    magic, version, count, interval, reserved = _INDEX_HEAD.unpack_from(data)
    if magic != INDEX_MAGIC:
        raise CorruptError(f"magic {magic!r}, not {INDEX_MAGIC!r}", at=0, where=INDEX_SUFFIX)
    if version != VERSION:
        raise UnsupportedError(f"version {version}, this reader knows 1", at=4, where=INDEX_SUFFIX)
    if _INDEX_HEAD.size + count * _ENTRY.size != len(data):
        raise CorruptError(f"{count} entries in {len(data)} bytes", at=6, where=INDEX_SUFFIX)
    if interval <= 0:
        raise CorruptError(f"an entry every {interval} records", at=10, where=INDEX_SUFFIX)
    if any(reserved):
        raise UnsupportedError(f"reserved bytes {reserved.hex()}", at=14, where=INDEX_SUFFIX)
    index = OffsetIndex(
        data=bytes(memoryview(data)[_INDEX_HEAD.size :]),
        entry=_ENTRY,
        entries_at=_INDEX_HEAD.size,
        first_position=FIRST_POSITION,
    )
    index.check_order(FIRST_POSITION, INDEX_SUFFIX)
    return index


def read_index(files: Files) -> Ranged[OffsetIndex | None]:
    """Return the index that lies beside a segment, if one does.

    Raises:
        UnsupportedError: another version, or too large.
        CorruptError: no version wrote this.
    """
    data = yield from fetch_file(files, INDEX_SUFFIX, INDEX_BYTES_MAX)
    return None if data is None else decode_index(data)
