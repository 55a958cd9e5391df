"""The compiled writer of compaction: what is kept of a batch becomes its new body.

Offsets are told as distances from the base offset of the batch, which compaction does not change.
Times are told as distances from its base timestamp, which it may change: to the time of the first
record that is left, or to the moment when tombstones may go. Then every record is written anew, but
only its length and time differ: the rest, from the offset on, is copied as one piece.
"""

from numba import njit, types

from lakelog.records.kernels.fields import (
    DONE,
    T_ATTRIBUTES,
    T_BASE_TIME,
    T_BODY,
    T_BODY_END,
    T_COUNT,
    T_MAX_TIME,
    TIME_OVERFLOW,
)
from lakelog.records.kernels.primitives import (
    I64,
    I64S,
    READ_I64S,
    READ_TABLE,
    copy,
    put_varint,
    u8_pointer,
    varint,
    varint_size,
    varlong,
)

__all__ = ["write_kept"]

BUILT_FROM = "ec0f442c5447"
"""Digest of what is compiled into these kernels from other files; see ``decode``."""

_APPEND_TIME = 0x08


@njit(I64(I64, READ_TABLE, READ_I64S, READ_I64S, I64, I64, I64S), cache=True, nogil=True)
def write_kept(address, batches, base_times, firsts, keep_address, out_address, ends):
    """Write the bodies of what is kept of each batch, one behind the other; leave their ends.

    ``firsts`` says where the flags of each batch's records begin. Times are told as distances from
    ``base_times``; where that is what they were, records are copied as they stand, neighbours
    together. TIME_OVERFLOW: a distance does not fit 64 bits.
    """
    b, keep, out = u8_pointer(address), u8_pointer(keep_address), u8_pointer(out_address)
    op = types.int64(0)
    for index in range(batches.shape[0]):
        base_time, new_time = batches[index, T_BASE_TIME], base_times[index]
        append_time = batches[index, T_ATTRIBUTES] & _APPEND_TIME != 0
        same = base_time == new_time and not append_time
        p, end = batches[index, T_BODY], batches[index, T_BODY_END]
        first, pending = firsts[index], p
        for record in range(batches[index, T_COUNT]):
            stays = keep[first + record] != 0
            length, q = varint(b, p, end)
            stop = q + length
            if same:
                if not stays:
                    copy(out, op, b, pending, p - pending)
                    op += p - pending
                    pending = stop
            elif stays:
                time_delta, rest = varlong(b, q + 1, stop)
                time = batches[index, T_MAX_TIME] if append_time else base_time + time_delta
                time_delta = time - new_time
                if ((time ^ new_time) & (time ^ time_delta)) < 0:
                    return TIME_OVERFLOW
                op = put_varint(out, op, 1 + varint_size(time_delta) + stop - rest)
                out[op] = 0
                op = put_varint(out, op + 1, time_delta)
                copy(out, op, b, rest, stop - rest)
                op += stop - rest
            p = stop
        if same:
            copy(out, op, b, pending, p - pending)
            op += p - pending
        ends[index] = op
    return DONE
