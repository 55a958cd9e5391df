"""Makes the checksums of damaged bytes right again, so that the damage gets past them.

Only as far as lengths lead: what cannot be framed is left as it is. Nothing here may raise.
"""

import struct
from zlib import crc32

from crc32c import crc32c

__all__ = ["reseal_kafs", "reseal_lane", "reseal_run", "reseal_snapshot", "reseal_strm"]


def reseal_run(data: bytes, start: int = 0, end: int | None = None) -> bytes:
    """A run of record batches."""
    out = bytearray(data)
    at, end = start, len(out) if end is None else end
    while end - at >= 61:
        size = 12 + int.from_bytes(out[at + 8 : at + 12], "big")
        if not 61 <= size <= end - at:
            break
        struct.pack_into(">I", out, at + 17, crc32c(out[at + 21 : at + size]))
        at += size
    return bytes(out)


def reseal_kafs(data: bytes) -> bytes:
    """Batches and footer of a KAFS segment."""
    if len(data) < 48:
        return data
    end = len(data) - 16
    out = bytearray(reseal_run(data, 32, end))
    struct.pack_into(">I", out, end, crc32c(out[32:end]))
    return bytes(out)


def reseal_strm(data: bytes) -> bytes:
    """Blocks and footer of an STRM segment."""
    if len(data) < 100:
        return data
    out = bytearray(data)
    end = min(int.from_bytes(out[-32:-24], "big"), len(out) - 32)
    at = 64
    while at + 16 <= end:
        size = 16 + int.from_bytes(out[at + 4 : at + 8], "big")
        if size > end - at:
            break
        struct.pack_into(">I", out, at + 12, crc32(out[at + 16 : at + size]))
        at += size
    struct.pack_into(">I", out, len(out) - 20, crc32(out[:-20]))
    return bytes(out)


def reseal_snapshot(data: bytes) -> bytes:
    """A producer snapshot."""
    if len(data) < 6:
        return data
    return data[:2] + crc32c(data[6:]).to_bytes(4, "big") + data[6:]


def reseal_lane(data: bytes, size: int | None = None) -> bytes:
    """Payload and directory of a bundle or a checkpoint; of its end alone if ``size`` is larger.

    Where the payload is not all here, its CRC stays as it is: nobody will look at it.
    """
    end, missing = len(data) - 24, (len(data) if size is None else size) - len(data)
    if end < 0:
        return data
    start = int.from_bytes(data[end : end + 8], "big") - missing
    if not 0 <= start <= end:
        return data
    out = bytearray(data)
    if not missing:
        struct.pack_into(">I", out, end + 8, crc32c(out[8:start]))
    struct.pack_into(">I", out, end + 12, crc32c(out[start : end + 12]))
    return bytes(out)
