"""The parser of record batches.

A parser never judges. When anything at all looks wrong it stops with ``BAD`` and the place, and the
reference codec reads those bytes again and says what is wrong with them. That keeps the two in
agreement by construction: a parser only has to notice.

It can stop at any record and go on there later: the cursor holds the batch, the record in it, the
byte position and the last offset delta.
"""

from numba import njit, types

from lakelog.records.kernels.fields import (
    A_KINDS,
    A_NOTES,
    A_OFFSETS,
    A_TIMES,
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
    N_HEADED_ROWS,
    N_HEADER_KEY_BYTES,
    N_HEADER_VALUE_BYTES,
    N_HEADERS,
    N_KEY_BYTES,
    N_KEYS,
    N_ROWS,
    N_TAKEN,
    N_VALUE_BYTES,
    N_VALUES,
    TIME_OVERFLOW,
    is_absurd,
    note,
)
from lakelog.records.kernels.primitives import (
    byte,
    check_headers,
    i32,
    i32_pointer,
    i64,
    i64_pointer,
    skip_field,
    u8_pointer,
    varint,
    varlong,
)

__all__ = ["parse_batches", "scan_batches"]

BUILT_FROM = "e400799878e0"
"""Digest of what is compiled into these kernels from other files. The kernel cache knows a kernel
by the text of its own file alone, so that text must change when those do; a test compares."""

# Columns of the table that ``scan_batches`` fills, a row per batch.
T_POSITION, T_SIZE, T_BASE_OFFSET, T_ATTRIBUTES, T_BASE_TIME = 0, 1, 2, 3, 4
T_MAX_TIME, T_COUNT, T_LAST_DELTA, T_CRC, T_BODY, T_BODY_END = 5, 6, 7, 8, 9, 10
TABLE_WIDTH = 11

_HEADER_BYTES = 61
_I64_MAX = (1 << 63) - 1

_READ_I64 = types.Array(types.int64, 1, "C", readonly=True)
_READ_TABLE = types.Array(types.int64, 2, "C", readonly=True)
_I64, _TABLE = types.int64[::1], types.int64[:, ::1]
_I, _STATUS = types.int64, types.int64


@njit(_STATUS(_I, _I, _I, _I, _TABLE, _I64), cache=True, nogil=True)
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


@njit(
    _STATUS(_I, _READ_TABLE, _READ_I64, _I64, _READ_I64, _I64),
    cache=True,
    nogil=True,
)
def parse_batches(address, table, limits, cursor, arrays, sums):
    """Note the records of the batches in ``table``, whose bodies lie at ``address``."""
    b = u8_pointer(address)
    offsets, times = i64_pointer(arrays[A_OFFSETS]), i64_pointer(arrays[A_TIMES])
    kinds, notes = i32_pointer(arrays[A_KINDS]), i32_pointer(arrays[A_NOTES])
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
            length, q = varint(b, p, end)
            if q < 0 or length < 1 or length > end - q:
                break
            stop = q + length
            time_delta, q = varlong(b, q + 1, stop)
            if q < 0:
                break
            delta, q = varint(b, q, stop)
            if q < 0 or delta <= last or delta > last_delta:
                break
            key_length, key, q = skip_field(b, q, stop)
            if q < 0:
                break
            value_length, value, q = skip_field(b, q, stop)
            if q < 0:
                break
            headers = q
            header_count = header_key_bytes = header_value_bytes = types.int64(0)
            if q == stop - 1 and b[q] == 0:
                q = stop
            else:
                header_count, header_key_bytes, header_value_bytes, q = check_headers(b, q, stop)
            time = base_time + time_delta
            overflow = ((base_time ^ time) & (time_delta ^ time)) < 0
            if q != stop or overflow:
                break
            status = DONE
            offset = base_offset + delta
            if wanted and offset_from <= offset < offset_to:
                if row == rows_max or (row + held > 0 and taken + length > bytes_max):
                    status = FULL
                    break
                if append_time:
                    time = max_time
                if is_absurd(time) and want_times:
                    status = TIME_OVERFLOW
                    break
                offsets[row] = offset
                times[row] = time * 1000
                note(notes, row, key, key_length, value, value_length, headers, header_count)
                if header_count:
                    sums[N_HEADERS] += header_count
                    sums[N_HEADER_KEY_BYTES] += header_key_bytes
                    sums[N_HEADER_VALUE_BYTES] += header_value_bytes
                    sums[N_HEADED_ROWS] += 1
                row += 1
                taken += length
                key_bytes += max(key_length, 0)
                value_bytes += max(value_length, 0)
                keys |= key_length
                values |= value_length
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
