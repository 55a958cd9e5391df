"""The parser of record batches.

A parser never judges. When anything at all looks wrong it stops with ``BAD`` and the place, and the
reference codec reads those bytes again and says what is wrong with them. That keeps the two in
agreement by construction: a parser only has to notice.

It can stop at any record and go on there later: the cursor holds the batch, the record in it, the
byte position and the last offset delta.
"""

from numba import njit, types

from lakelog.records.kernels.fields import (
    BAD,
    DONE,
    FULL,
    L_BYTES_MAX,
    L_CONTROL,
    L_HELD,
    L_OFFSET_FROM,
    L_OFFSET_TO,
    L_ROWS_MAX,
    L_TIMES,
    N_KEY_BYTES,
    N_KEYS,
    N_ROWS,
    N_TAKEN,
    N_VALUE_BYTES,
    N_VALUES,
    T_ATTRIBUTES,
    T_BASE_OFFSET,
    T_BASE_TIME,
    T_BODY,
    T_BODY_END,
    T_COUNT,
    T_CRC,
    T_LAST_DELTA,
    T_MAX_TIME,
    T_POSITION,
    T_SIZE,
    TIME_OVERFLOW,
    arrays_of,
    is_absurd,
    note,
)
from lakelog.records.kernels.primitives import (
    I64,
    I64S,
    READ_I64S,
    READ_TABLE,
    TABLE,
    byte,
    i32,
    i64,
    read_record,
    u8_pointer,
)

__all__ = ["parse_batches", "scan_batches"]

BUILT_FROM = "ec0f442c5447"
"""Digest of what is compiled into these kernels from other files. The kernel cache knows a kernel
by the text of its own file alone, so that text must change when those do; a test compares."""

_HEADER_BYTES = 61
_I64_MAX = (1 << 63) - 1


@njit(I64(I64, I64, I64, I64, TABLE, I64S), cache=True, nogil=True)
def scan_batches(address, start, end, size_max, table, out):
    """Fill a row of ``table`` per batch header from ``start`` on; the bodies stay unread.

    Leaves in ``out`` the number of batches and the position behind the last of them.
    """
    b = u8_pointer(address)
    p, n = start, 0
    status = DONE
    while p < end:
        if n == table.shape[0]:
            status = FULL
            break
        status = BAD
        if end - p < _HEADER_BYTES or b[p + 16] != 2:
            break
        size = 12 + i32(b, p + 8)
        attributes = byte(b, p + 21) << 8 | byte(b, p + 22)
        base, last = i64(b, p), i32(b, p + 23)
        count = i32(b, p + 57)
        if size < _HEADER_BYTES or size > end - p or size > size_max:
            break
        if attributes & ~0x7F or attributes & 7 > 4:
            break
        if base < 0 or last < 0 or base > _I64_MAX - 1 - last:
            break
        if count < 0 or count > last + 1 or (count == 0 and size != _HEADER_BYTES):
            break
        table[n, T_POSITION] = p
        table[n, T_SIZE] = size
        table[n, T_BASE_OFFSET] = base
        table[n, T_ATTRIBUTES] = attributes
        table[n, T_BASE_TIME] = i64(b, p + 27)
        table[n, T_MAX_TIME] = i64(b, p + 35)
        table[n, T_COUNT] = count
        table[n, T_LAST_DELTA] = last
        table[n, T_CRC] = i32(b, p + 17) & 0xFFFFFFFF
        table[n, T_BODY] = p + _HEADER_BYTES
        table[n, T_BODY_END] = p + size
        n += 1
        p += size
        status = DONE
    out[0], out[1] = n, p
    return status


@njit(I64(I64, READ_TABLE, READ_I64S, I64S, READ_I64S, I64S), cache=True, nogil=True)
def parse_batches(address, table, limits, cursor, arrays, sums):
    """Note the records of the batches in ``table``, whose bodies lie at ``address``."""
    b = u8_pointer(address)
    offsets, times, kinds, notes = arrays_of(arrays)
    rows_max, bytes_max, held = limits[L_ROWS_MAX], limits[L_BYTES_MAX], limits[L_HELD]
    offset_from, offset_to, want_times = limits[L_OFFSET_FROM], limits[L_OFFSET_TO], limits[L_TIMES]
    index, record, p, last = cursor[0], cursor[1], cursor[2], cursor[3]
    row = taken = key_bytes = value_bytes = keys = values = types.int64(0)
    status = DONE
    while index < table.shape[0] and status == DONE:
        end = table[index, T_BODY_END]
        if record == 0:
            p, last = table[index, T_BODY], types.int64(-1)
        base_offset, last_delta = table[index, T_BASE_OFFSET], table[index, T_LAST_DELTA]
        base_time, max_time = table[index, T_BASE_TIME], table[index, T_MAX_TIME]
        attributes, count = table[index, T_ATTRIBUTES], table[index, T_COUNT]
        append_time = attributes >> 3 & 1
        wanted = limits[L_CONTROL] != 0 or attributes & 0x20 == 0
        first_row = row
        while record < count:
            status = BAD
            frame, fields, headers = read_record(b, p, end, last, last_delta, base_time)
            stop, delta, time = frame
            if stop < 0:
                break
            status = DONE
            offset = base_offset + delta
            if wanted and offset_from <= offset < offset_to:
                if row == rows_max or (row + held > 0 and taken + stop - p > bytes_max):
                    status = FULL
                    break
                if append_time:
                    time = max_time
                if is_absurd(time) and want_times:
                    status = TIME_OVERFLOW
                    break
                offsets[row] = offset
                times[row] = time * 1000
                note(notes, sums, row, fields, headers)
                row += 1
                taken += stop - p
                key_bytes += max(fields[1], 0)
                value_bytes += max(fields[3], 0)
                keys |= fields[1]
                values |= fields[3]
            last = delta
            p = stop
            record += 1
        for noted in range(first_row, row):
            kinds[noted] = append_time
        if status == DONE:
            if count > 0 and p != end:
                status = BAD
                break
            record = 0
            index += 1
    cursor[0], cursor[1], cursor[2], cursor[3] = index, record, p, last
    sums[N_ROWS], sums[N_KEY_BYTES], sums[N_VALUE_BYTES] = row, key_bytes, value_bytes
    sums[N_TAKEN] = taken
    sums[N_KEYS], sums[N_VALUES] = keys, values
    return status
