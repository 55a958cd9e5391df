"""Envelopes inside kernels: the payload that a spool gives a RustLog record.

What they are is in ``lakelog.formats.rustlog.envelope``, which also says what is wrong with one.
"""

from numba import njit, types

from lakelog.records.kernels.checksum import (
    checksum,
    checksum_begin,
    checksum_end,
    checksum_word,
    turned,
)
from lakelog.records.kernels.primitives import (
    byte,
    check_headers,
    i32,
    put_field,
    put_int,
    put_word,
    skip_field,
)

__all__ = ["begins_enveloped", "begins_magic", "is_signed", "open_record", "read_envelope", "sign"]

ROW_BYTES = 20
HEAD_BYTES = 28
"""Of a record, before its key."""

_U = types.uint64
_LEAD_BYTES = 24
_LEAD = 0xF8534501
_MAGIC_1, _MAGIC_2, _MAGIC_3 = 0xF8, 0x53, 0x45


@njit(forceinline=True)
def begins_magic(b, p):
    return byte(b, p) == _MAGIC_1 and byte(b, p + 1) == _MAGIC_2 and byte(b, p + 2) == _MAGIC_3


@njit(forceinline=True)
def begins_enveloped(b, p, length):
    """Whether the payload of the record at ``p`` says that it is an envelope."""
    return length > 2 and begins_magic(b, p + ROW_BYTES)


@njit(forceinline=True)
def _signature(b, p, end):
    crc = checksum(checksum_begin(), b, p, p + _LEAD_BYTES)
    return checksum_end(checksum(crc, b, p + HEAD_BYTES, end))


@njit(forceinline=True)
def is_signed(b, p, length):
    """Whether the record at ``p`` is an envelope of our version with the right checksum."""
    if length < HEAD_BYTES - ROW_BYTES or (i32(b, p + ROW_BYTES) & 0xFFFFFFFF) != _LEAD:
        return False
    crc = i32(b, p + _LEAD_BYTES) & 0xFFFFFFFF
    return crc == _signature(b, p, p + ROW_BYTES + length)


@njit(forceinline=True)
def read_envelope(b, p, length):
    """The fields and headers of the record at ``p``, as ``read_record`` has them, and its end (-1).

    Every byte of it is checked.
    """
    none = types.int64(0)
    fields, headers = (none, none, none, none), (none, none, none, none)
    if not is_signed(b, p, length):
        return fields, headers, types.int64(-1)
    end = p + ROW_BYTES + length
    key_length, key, q = skip_field(b, p + HEAD_BYTES, end)
    if q < 0:
        return fields, headers, q
    value_length, value, q = skip_field(b, q, end)
    if q < 0:
        return fields, headers, q
    at, count, key_bytes, value_bytes = q, none, none, none
    if q == end - 1 and b[q] == 0:
        q = end
    else:
        count, key_bytes, value_bytes, q = check_headers(b, q, end)
    if q != end:
        q = types.int64(-1)
    return (key, key_length, value, value_length), (at, count, key_bytes, value_bytes), q


@njit(forceinline=True)
def open_record(out, p, key_data, key, key_length, value_data, value, value_length):
    """Write key and value of the record at ``p``; return where its headers go."""
    q = put_field(out, p + HEAD_BYTES, key_data, key, key_length)
    return put_field(out, q, value_data, value, value_length)


@njit(forceinline=True)
def sign(out, p, end, offset, time):
    """Write what stands before the key of the record at ``p``, which ends at ``end``.

    By three numbers of eight bytes, of which the checksum is taken before they are in memory: to
    read there what was written a byte at a time would be waited for.
    """
    length, high, low = _U(end - p - ROW_BYTES), _U(32), _U(0xFFFFFFFF)
    first = turned(length << high | _U(offset) >> high)
    second = turned((_U(offset) & low) << high | _U(time) >> high)
    third = turned((_U(time) & low) << high | _U(_LEAD))
    put_word(out, p, first)
    put_word(out, p + 8, second)
    put_word(out, p + 16, third)
    crc = checksum_word(checksum_word(checksum_word(checksum_begin(), first), second), third)
    put_int(out, p + _LEAD_BYTES, checksum_end(checksum(crc, out, p + HEAD_BYTES, end)), 4)
