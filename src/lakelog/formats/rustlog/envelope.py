"""The envelope: what a spool puts into the payload of a RustLog record.

    record  at  field      type                    payload  at  field
             0  length     u32                               0  magic    3 bytes   f8 53 45
             4  offset     u64                               3  version  u8        1
            12  timestamp  u64                               4  crc      u32
            20  payload                                      8  key, value, headers

A RustLog record has no checksum and no key. The envelope brings both, and headers: behind the crc
stand key, value and headers as a Kafka record has them. The crc is CRC-32C of the record's bytes
but for its own four: so it is over length, offset and time as well, and a record that is half
written, or stands where another was, is told from one that is whole.

No text begins with the byte f8. A payload that does not begin with the magic is raw: it is another
writer's, a value without a key, and nothing tells whether it is right.

Specification: docs/reference/formats/rustlog.md
"""

import struct
from collections.abc import Sequence
from typing import NamedTuple

from crc32c import crc32c

from lakelog.errors import CorruptError, UnsupportedError
from lakelog.formats.contract import Bytes
from lakelog.model import Header
from lakelog.records import decode_field, decode_headers, encode_field, encode_headers

__all__ = [
    "ENVELOPE_BYTES",
    "ENVELOPE_MAGIC",
    "Envelope",
    "decode_envelope",
    "encode_envelope",
    "is_envelope",
]

ENVELOPE_MAGIC = b"\xf8SE"
ENVELOPE_VERSION = 1
ENVELOPE_BYTES = 8
"""Bytes before the key."""

_LEAD = ENVELOPE_MAGIC + bytes([ENVELOPE_VERSION])
_RECORD = struct.Struct(">IQQ")
_U32 = struct.Struct(">I")
_WHERE = ".log"


class Envelope(NamedTuple):
    """What is in an envelope."""

    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


def is_envelope(payload: Bytes) -> bool:
    """Whether a payload says that it is an envelope; all others are raw."""
    return bytes(payload[: len(ENVELOPE_MAGIC)]) == ENVELOPE_MAGIC


def encode_envelope(
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[Header] = (),
    *,
    offset: int,
    timestamp_us: int,
) -> bytes:
    """Return the payload of the record that has this offset and time."""
    parts = [*encode_field(key), *encode_field(value), *encode_headers(headers)]
    body = b"".join(parts)
    head = _RECORD.pack(ENVELOPE_BYTES + len(body), offset, timestamp_us)
    return _LEAD + _U32.pack(crc32c(body, crc32c(head + _LEAD))) + body


def decode_envelope(
    payload: Bytes, *, offset: int, timestamp_us: int, at: int = 0, where: str = _WHERE
) -> Envelope:
    """Return what is in the envelope of a record that stands at ``at``.

    Raises:
        CorruptError: its checksum is another, or what it holds does not end where it must.
        UnsupportedError: a later version made it.
    """
    raw = bytes(payload)
    if len(raw) < ENVELOPE_BYTES:
        raise CorruptError(f"an envelope of {len(raw)} bytes", at=at, where=where)
    if raw[3] != ENVELOPE_VERSION:
        raise UnsupportedError(
            f"an envelope of version {raw[3]}, this reader knows {ENVELOPE_VERSION}",
            at=at,
            where=where,
        )
    head = _RECORD.pack(len(raw), offset, timestamp_us) + raw[:4]
    expected, found = crc32c(raw[ENVELOPE_BYTES:], crc32c(head)), _U32.unpack_from(raw, 4)[0]
    if expected != found:
        raise CorruptError(
            f"the envelope has checksum {found:08x}, and its bytes have {expected:08x}",
            at=at,
            where=where,
        )
    try:
        key, next_ = decode_field(raw, ENVELOPE_BYTES, len(raw))
        value, next_ = decode_field(raw, next_, len(raw))
        headers, next_ = decode_headers(raw, next_, len(raw))
    except CorruptError as error:
        raise CorruptError(error.what, at=at, where=where) from error
    if next_ != len(raw):
        raise CorruptError(
            f"{len(raw) - next_} bytes behind the headers of an envelope", at=at, where=where
        )
    return Envelope(key, value, headers)
