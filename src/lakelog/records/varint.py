"""Variable-length integers: zig-zag, then seven bits a byte, lowest first.

    0 -> 00    -1 -> 01    1 -> 02    -64 -> 7f    64 -> 80 01

A `varint` holds 32 bits in at most 5 bytes, a `varlong` 64 bits in at most 10. Longer forms than
needed (``80 00`` for 0) are read, because Kafka reads them; they are never written. A value that
does not fit its width is refused, where Kafka would silently drop the upper bits.
"""

from lakelog.errors import CorruptError

__all__ = ["decode_varint", "decode_varlong", "encode_varint"]

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
    return _decode(data, at, end, _VARINT_BYTES_MAX, 32)


def decode_varlong(data: bytes | memoryview, at: int, end: int) -> tuple[int, int]:
    """The same for a 64-bit value."""
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
