"""The compiled loops of repacking: check the records of a batch, and tell them from another base.

    check_records   every byte, as the plain codec would
    move_records    records of one batch -> the end of the body of another

A record says its time and its offset as distances from its batch. In another batch both distances
are others, and with them its length; the rest, from the key on, is copied as one piece, and so are
the attributes in front.

As in ``decode``, nothing here judges: what is BAD is left to those who can say why.
"""

from numba import njit, types

from lakelog.records.kernels.fields import BAD, DONE
from lakelog.records.kernels.primitives import (
    I64,
    copy,
    put_varint,
    read_record,
    u8_pointer,
    varint,
    varint_size,
    varlong,
)

__all__ = ["check_records", "move_records"]

BUILT_FROM = "ec0f442c5447"
"""Digest of what is compiled into these kernels from other files; see ``decode``."""

_BYTES = types.Array(types.uint8, 1, "C", readonly=True)


@njit(I64(_BYTES, I64, I64, I64), cache=True, nogil=True)
def check_records(records, count, last_delta, base_time):
    """DONE, if these bytes are ``count`` records of such a batch and nothing else; BAD."""
    b, end = u8_pointer(records.ctypes.data), types.int64(len(records))
    p, last = types.int64(0), types.int64(-1)
    for _ in range(count):
        frame, _fields, _headers = read_record(b, p, end, last, last_delta, base_time)
        p, last, _time = frame
        if p < 0:
            return BAD
    return DONE if p == end else BAD


@njit(I64(_BYTES, I64, I64, I64, I64, I64, I64, I64), cache=True, nogil=True)
def move_records(records, count, base_time, new_time, shift, out_address, at, limit):
    """Write checked records behind ``at``, each with its offset ``shift`` further from its base.

    Returns where they end; -1 if that would be behind ``limit``, or if a time lies further from
    ``new_time`` than 64 bits can say.
    """
    b, out = u8_pointer(records.ctypes.data), u8_pointer(out_address)
    p, op, end = types.int64(0), at, types.int64(len(records))
    for _ in range(count):
        length, q = varint(b, p, end)
        stop = q + length
        time_delta, rest = varlong(b, q + 1, stop)
        delta, rest = varint(b, rest, stop)
        time = base_time + time_delta
        time_delta, delta = time - new_time, delta + shift
        if ((time ^ new_time) & (time ^ time_delta)) < 0:
            return types.int64(-1)
        length = 1 + varint_size(time_delta) + varint_size(delta) + stop - rest
        if op + varint_size(length) + length > limit:
            return types.int64(-1)
        op = put_varint(out, op, length)
        out[op] = b[q]
        op = put_varint(out, op + 1, time_delta)
        op = put_varint(out, op, delta)
        copy(out, op, b, rest, stop - rest)
        op += stop - rest
        p = stop
    return op
