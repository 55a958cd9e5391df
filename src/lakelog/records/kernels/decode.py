"""The compiled reader: bytes of record batches to columns.

A kernel never judges. When anything at all looks wrong it stops with ``BAD`` and the place, and the
reference codec reads those bytes again and says what is wrong with them. That keeps the two in
agreement by construction: a kernel only has to notice.

Decoding can stop at any record and go on there later, because columns are handed out in pieces of
bounded size. What stands between two calls is in two small arrays:

    cursor   batch index, record index, byte position, last offset delta
    filled   rows, bytes of each variable-length column, nulls (see the F_ names)
"""

from numba import njit, types

from lakelog.records.kernels.primitives import (
    byte,
    clear_bit,
    copy,
    i32,
    i32_pointer,
    i64,
    i64_pointer,
    skip_field,
    u8_pointer,
    varint,
    varlong,
)

__all__ = ["decode_records", "scan_batches"]

BUILT_FROM = "e4def4acbb23"
"""Digest of ``primitives``. The kernel cache knows a kernel by the text of its own file alone, so
that text must change when what it is built from does; a test compares."""

# What a decode call ended with.
DONE, FULL, BAD, TIME_OVERFLOW = 0, 1, 2, 3
# Or: there is no room left in these buffers for the next record.
NO_ROWS, NO_KEYS, NO_VALUES, NO_HEADERS, NO_HEADER_KEYS, NO_HEADER_VALUES = 10, 11, 12, 13, 14, 15
# How much room there is, in the order of these.
R_ROWS, R_KEYS, R_VALUES, R_HEADERS, R_HEADER_KEYS, R_HEADER_VALUES = 0, 1, 2, 3, 4, 5

# The buffers of the columns, by address. Ends are where each item ends, behind a zero; bits are
# Arrow's, set before a kernel is called, and cleared by it for nulls.
C_OFFSETS, C_TIMESTAMPS, C_TIMESTAMP_TYPES = 0, 1, 2
C_KEY_ENDS, C_KEYS, C_KEY_BITS, C_VALUE_ENDS, C_VALUES, C_VALUE_BITS = 3, 4, 5, 6, 7, 8
C_LISTS, C_LIST_BITS, C_HEADER_KEY_ENDS, C_HEADER_KEYS = 9, 10, 11, 12
C_HEADER_VALUE_ENDS, C_HEADER_VALUES, C_HEADER_VALUE_BITS = 13, 14, 15

# Columns of the table that ``scan_batches`` fills, a row per batch.
T_POSITION, T_SIZE, T_BASE_OFFSET, T_ATTRIBUTES, T_BASE_TIME = 0, 1, 2, 3, 4
T_MAX_TIME, T_COUNT, T_LAST_DELTA, T_CRC, T_BODY, T_BODY_END = 5, 6, 7, 8, 9, 10
TABLE_WIDTH = 11

# Columns that can be wanted, as bits.
W_KEY, W_VALUE, W_OFFSET, W_TIMESTAMP, W_TIMESTAMP_TYPE, W_HEADERS = 1, 2, 4, 8, 16, 32

# What ``filled`` counts.
F_ROWS, F_KEY_BYTES, F_VALUE_BYTES, F_KEY_NULLS, F_VALUE_NULLS, F_HEADERS = 0, 1, 2, 3, 4, 5
F_HEADER_KEY_BYTES, F_HEADER_VALUE_BYTES, F_HEADER_VALUE_NULLS = 6, 7, 8
F_BARE_ROWS, F_NOT_ASCII = 9, 10
FILLED_WIDTH = 11

# What may not be exceeded, and what is wanted, in one array.
L_WANTED, L_BYTES_MAX, L_OFFSET_FROM, L_OFFSET_TO, L_CONTROL = 0, 1, 2, 3, 4
LIMITS_WIDTH = 5

_HEADER_BYTES = 61
_I64_MAX = (1 << 63) - 1
_MILLIS_MAX = _I64_MAX // 1000

_READ_I64 = types.Array(types.int64, 1, "C", readonly=True)
_READ_TABLE = types.Array(types.int64, 2, "C", readonly=True)
_I64 = types.int64[::1]
_TABLE = types.int64[:, ::1]
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


@njit(forceinline=True)
def _check_headers(b, p, end):
    """Count of headers, bytes of their keys and values, the position behind them (-1: bad)."""
    bad = types.int64(0), types.int64(0), types.int64(0), types.int64(-1)
    count, p = varint(b, p, end)
    if p < 0 or count < 0 or count > (end - p) // 2:
        return bad
    key_bytes = value_bytes = types.int64(0)
    for _ in range(count):
        length, _start, p = skip_field(b, p, end)
        if p < 0 or length < 0:
            return bad
        key_bytes += length
        length, _start, p = skip_field(b, p, end)
        if p < 0:
            return bad
        value_bytes += max(length, 0)
    return count, key_bytes, value_bytes, p


@njit(forceinline=True)
def _put_headers(b, p, end, columns, filled):
    """Append the headers at ``p``, which have been checked."""
    key_ends, value_ends = (
        i32_pointer(columns[C_HEADER_KEY_ENDS]),
        i32_pointer(columns[C_HEADER_VALUE_ENDS]),
    )
    key_data, value_data = u8_pointer(columns[C_HEADER_KEYS]), u8_pointer(columns[C_HEADER_VALUES])
    value_bits = u8_pointer(columns[C_HEADER_VALUE_BITS])
    n = filled[F_HEADERS]
    keys, values = filled[F_HEADER_KEY_BYTES], filled[F_HEADER_VALUE_BYTES]
    count, p = varint(b, p, end)
    for _ in range(count):
        length, start, p = skip_field(b, p, end)
        copy(key_data, keys, b, start, length)
        for q in range(start, start + length):
            if b[q] >= 0x80:
                filled[F_NOT_ASCII] = 1
        keys += length
        length, start, p = skip_field(b, p, end)
        if length < 0:
            clear_bit(value_bits, n)
            filled[F_HEADER_VALUE_NULLS] += 1
        else:
            copy(value_data, values, b, start, length)
            values += length
        n += 1
        key_ends[n] = keys
        value_ends[n] = values
    filled[F_HEADERS], filled[F_HEADER_KEY_BYTES], filled[F_HEADER_VALUE_BYTES] = n, keys, values


@njit(
    _STATUS(_I, _READ_TABLE, _I, _READ_I64, _I64, _READ_I64, _READ_I64, _I64),
    cache=True,
    nogil=True,
)
def decode_records(address, table, batches, limits, cursor, column_addresses, room, filled_array):
    """Append the records of ``table[:batches]``, whose bodies lie at ``address``."""
    b, columns, filled = (
        u8_pointer(address),
        i64_pointer(column_addresses.ctypes.data),
        i64_pointer(filled_array.ctypes.data),
    )
    offsets, timestamps = i64_pointer(columns[C_OFFSETS]), i64_pointer(columns[C_TIMESTAMPS])
    timestamp_types = i32_pointer(columns[C_TIMESTAMP_TYPES])
    key_ends, keys = i32_pointer(columns[C_KEY_ENDS]), u8_pointer(columns[C_KEYS])
    value_ends, values = i32_pointer(columns[C_VALUE_ENDS]), u8_pointer(columns[C_VALUES])
    key_bits, value_bits = u8_pointer(columns[C_KEY_BITS]), u8_pointer(columns[C_VALUE_BITS])
    lists, list_bits = i32_pointer(columns[C_LISTS]), u8_pointer(columns[C_LIST_BITS])
    rows_room, key_room, value_room = room[R_ROWS], room[R_KEYS], room[R_VALUES]
    wanted, bytes_max = limits[L_WANTED], limits[L_BYTES_MAX]
    offset_from, offset_to = limits[L_OFFSET_FROM], limits[L_OFFSET_TO]
    want_key, want_value = wanted & W_KEY != 0, wanted & W_VALUE != 0
    want_offset, want_type = wanted & W_OFFSET != 0, wanted & W_TIMESTAMP_TYPE != 0
    want_time, want_headers = wanted & W_TIMESTAMP != 0, wanted & W_HEADERS != 0
    index, record, p, last = cursor[0], cursor[1], cursor[2], cursor[3]
    row, key_at, value_at = filled[F_ROWS], filled[F_KEY_BYTES], filled[F_VALUE_BYTES]
    headers, bare_rows = filled[F_HEADERS], filled[F_BARE_ROWS]
    status = DONE
    while index < batches and status == DONE:
        end = table[index, T_BODY_END]
        if record == 0:
            p, last = table[index, T_BODY], types.int64(-1)
        base_offset, last_delta = table[index, T_BASE_OFFSET], table[index, T_LAST_DELTA]
        base_time, max_time = table[index, T_BASE_TIME], table[index, T_MAX_TIME]
        attributes, count = table[index, T_ATTRIBUTES], table[index, T_COUNT]
        append_time = attributes >> 3 & 1
        emit_batch = limits[L_CONTROL] != 0 or attributes & 0x20 == 0
        while record < count:
            length, q = varint(b, p, end)
            if q < 0 or length < 1 or length > end - q:
                status = BAD
                break
            stop = q + length
            time_delta, q = varlong(b, q + 1, stop)
            if q < 0:
                status = BAD
                break
            delta, q = varint(b, q, stop)
            if q < 0 or delta <= last or delta > last_delta:
                status = BAD
                break
            key_length, key_start, q = skip_field(b, q, stop)
            if q < 0:
                status = BAD
                break
            value_length, value_start, q = skip_field(b, q, stop)
            if q < 0:
                status = BAD
                break
            header_start = q
            header_count = header_key_bytes = header_value_bytes = types.int64(0)
            if q == stop - 1 and b[q] == 0:
                q = stop
            else:
                header_count, header_key_bytes, header_value_bytes, q = _check_headers(b, q, stop)
            time = base_time + time_delta
            overflow = ((base_time ^ time) & (time_delta ^ time)) < 0
            if q != stop or overflow:
                status = BAD
                break
            offset = base_offset + delta
            if emit_batch and offset_from <= offset < offset_to:
                key_bytes = max(key_length, 0) if want_key else 0
                value_bytes = max(value_length, 0) if want_value else 0
                if row == rows_room:
                    status = NO_ROWS
                    break
                held = key_at + value_at
                adding = key_bytes + value_bytes
                if want_headers:
                    held += filled[F_HEADER_KEY_BYTES] + filled[F_HEADER_VALUE_BYTES]
                    adding += header_key_bytes + header_value_bytes
                if row > 0 and held + adding > bytes_max:
                    status = FULL
                    break
                if key_at + key_bytes > key_room:
                    status = NO_KEYS
                    break
                if value_at + value_bytes > value_room:
                    status = NO_VALUES
                    break
                if want_offset:
                    offsets[row] = offset
                if want_time:
                    if append_time:
                        time = max_time
                    if time > _MILLIS_MAX or time < -_MILLIS_MAX:
                        status = TIME_OVERFLOW
                        break
                    timestamps[row] = time * 1000
                if want_headers:
                    if header_count == 0:
                        # Spark's Kafka source gives null, not an empty list, where there are none.
                        clear_bit(list_bits, row)
                        bare_rows += 1
                    else:
                        if headers + header_count > room[R_HEADERS]:
                            status = NO_HEADERS
                            break
                        if filled[F_HEADER_KEY_BYTES] + header_key_bytes > room[R_HEADER_KEYS]:
                            status = NO_HEADER_KEYS
                            break
                        if (
                            filled[F_HEADER_VALUE_BYTES] + header_value_bytes
                            > room[R_HEADER_VALUES]
                        ):
                            status = NO_HEADER_VALUES
                            break
                        _put_headers(b, header_start, stop, columns, filled)
                        headers += header_count
                    lists[row + 1] = headers
                if want_type:
                    timestamp_types[row] = append_time
                if want_key:
                    if key_length < 0:
                        clear_bit(key_bits, row)
                        filled[F_KEY_NULLS] += 1
                    else:
                        copy(keys, key_at, b, key_start, key_bytes)
                        key_at += key_bytes
                    key_ends[row + 1] = key_at
                if want_value:
                    if value_length < 0:
                        clear_bit(value_bits, row)
                        filled[F_VALUE_NULLS] += 1
                    else:
                        copy(values, value_at, b, value_start, value_bytes)
                        value_at += value_bytes
                    value_ends[row + 1] = value_at
                row += 1
            last = delta
            p = stop
            record += 1
        if status == DONE:
            if count > 0 and p != end:
                status = BAD
                break
            record = 0
            index += 1
    cursor[0], cursor[1], cursor[2], cursor[3] = index, record, p, last
    filled[F_ROWS], filled[F_KEY_BYTES], filled[F_VALUE_BYTES] = row, key_at, value_at
    filled[F_BARE_ROWS] = bare_rows
    return status
