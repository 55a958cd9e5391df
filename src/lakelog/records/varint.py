"""Variable-length integers, and the fields and headers of records that begin with them.

    0 -> 00    -1 -> 01    1 -> 02    -64 -> 7f    64 -> 80 01      zig-zag, then seven bits a byte,
                                                                    lowest first
    field    => varint length, -1 for null, then the bytes
    headers  => varint count, then for each: its key, a field that is never null, and its value

A `varint` holds 32 bits in at most 5 bytes, a `varlong` 64 bits in at most 10. Longer forms than
needed (``80 00`` for 0) are read, because Kafka reads them; they are never written. A value that
does not fit its width is refused, where Kafka would silently drop the upper bits.
"""

from collections.abc import Sequence

from lakelog.errors import CorruptError
from lakelog.model import Header

__all__ = [
    "decode_field",
    "decode_headers",
    "decode_varint",
    "decode_varlong",
    "encode_field",
    "encode_headers",
    "encode_varint",
]

_VARINT_BYTES_MAX = 5
_VARLONG_BYTES_MAX = 10


def encode_varint(value: int) -> bytes:
    """Return the shortest form of ``value``, which must fit 64 bits."""
    rest = (value << 1) ^ (value >> 63)
    assert 0 <= rest < 1 << 64, value
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def decode_varint(data: bytes | memoryview, at: int, end: int) -> tuple[int, int]:
    """Return the 32-bit value at ``at`` and the position behind it; read nothing from ``end`` on.

    Raises:
        CorruptError: it does not end before ``end``, or does not fit.
    """
    if at < end and (byte := data[at]) < 0x80:  # Nearly all numbers take one byte.
        return (byte >> 1) ^ -(byte & 1), at + 1
    return _decode(data, at, end, _VARINT_BYTES_MAX, 32)


def decode_varlong(data: bytes | memoryview, at: int, end: int) -> tuple[int, int]:
    """The same for a 64-bit value."""
    if at < end and (byte := data[at]) < 0x80:
        return (byte >> 1) ^ -(byte & 1), at + 1
    return _decode(data, at, end, _VARLONG_BYTES_MAX, 64)


def _decode(
    data: bytes | memoryview, at: int, end: int, bytes_max: int, bits: int
) -> tuple[int, int]:
    raw = shift = 0
    for position in range(at, min(end, at + bytes_max)):
        byte = data[position]
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            if raw >> bits:
                raise CorruptError(f"a varint does not fit {bits} bits", at=at)
            return (raw >> 1) ^ -(raw & 1), position + 1
        shift += 7
    if end - at < bytes_max:
        raise CorruptError("a varint runs past the end", at=at)
    raise CorruptError(f"a varint of more than {bytes_max} bytes", at=at)


def encode_field(value: bytes | None) -> tuple[bytes, bytes]:
    """Return the length of a field and its bytes."""
    if value is None:
        return encode_varint(-1), b""
    return encode_varint(len(value)), value


def encode_headers(headers: Sequence[Header]) -> list[bytes]:
    """Return what the headers of a record consist of, one behind the other."""
    parts = [encode_varint(len(headers))]
    for key, value in headers:
        parts += encode_field(key.encode("utf-8", "surrogateescape"))
        parts += encode_field(value)
    return parts


def decode_field(raw: bytes, at: int, end: int) -> tuple[bytes | None, int]:
    """Return the field at ``at``, and the position behind it.

    Raises:
        CorruptError: it does not end before ``end``.
    """
    start = at
    length, at = decode_varint(raw, at, end)
    if length == -1:
        return None, at
    if not 0 <= length <= end - at:
        raise CorruptError(f"a field of {length} bytes, {end - at} left", at=start)
    return raw[at : at + length], at + length


def decode_headers(raw: bytes, at: int, end: int) -> tuple[tuple[Header, ...], int]:
    """Return the headers at ``at``, and the position behind them.

    Raises:
        CorruptError: they do not end before ``end``, or one has no key.
    """
    start = at
    count, at = decode_varint(raw, at, end)
    # A header takes two bytes at least, so a count cannot make us build more than was sent.
    if not 0 <= count <= (end - at) // 2:
        raise CorruptError(f"{count} headers in {end - at} bytes", at=start)
    headers = []
    for _ in range(count):
        start = at
        key, at = decode_field(raw, at, end)
        if key is None:
            raise CorruptError("a header without a key", at=start)
        value, at = decode_field(raw, at, end)
        headers.append(Header(key.decode("utf-8", "surrogateescape"), value))
    return tuple(headers), at
