"""Where the fields of records stand: what a parser writes down, and what becomes columns.

Reading records is done in two steps. A parser, one for each format, goes through the bytes once,
checks them, and writes down per record its offset and time, and where its key, value and headers
begin and how long they are. ``gather`` then copies them into Arrow's buffers, column by column,
and knows nothing of formats. Two short loops with few variables run faster than one long one, and
the sums that a parser leaves say exactly how large the buffers must be.

    fields   arrays by address, one item per record    (S_OFFSETS, ...)
    sums     what all of them come to                  (N_ROWS, ...)
    limits   how many records a parser may take        (L_ROWS_MAX, ...)
"""

from numba import njit, types

from lakelog.records.kernels.primitives import i32_pointer, i64_pointer

__all__ = ["note_record"]

# What a parser ended with: everything is read; there is no room for more; something is wrong;
# a time does not fit the microseconds of a column.
DONE, FULL, BAD, TIME_OVERFLOW = 0, 1, 2, 3

# The fields, by address. A length of -1 is a null. Times are microseconds.
S_OFFSETS, S_TIMES, S_KINDS, S_KEYS, S_KEY_LENGTHS = 0, 1, 2, 3, 4
S_VALUES, S_VALUE_LENGTHS, S_HEADERS, S_HEADER_COUNTS = 5, 6, 7, 8
FIELDS = 9

# The sums.
N_ROWS, N_KEY_BYTES, N_KEY_NULLS, N_VALUE_BYTES, N_VALUE_NULLS = 0, 1, 2, 3, 4
N_HEADERS, N_HEADER_KEY_BYTES, N_HEADER_VALUE_BYTES, N_BARE_ROWS = 5, 6, 7, 8
SUMS = 9

# The limits. Records outside the offsets are checked but not noted.
L_ROWS_MAX, L_BYTES_MAX, L_OFFSET_FROM, L_OFFSET_TO, L_CONTROL, L_TIMES = 0, 1, 2, 3, 4, 5
LIMITS = 6

_MILLIS_MAX = ((1 << 63) - 1) // 1000


@njit(forceinline=True)
def note_record(
    offset, millis, kind, key, key_length, value, value_length,
    headers, header_count, header_key_bytes, header_value_bytes, limits, fields, sums,
):  # fmt: skip
    """Write down one record, unless there is no room for it or its time is absurd."""
    row = sums[N_ROWS]
    key_bytes, value_bytes = max(key_length, 0), max(value_length, 0)
    held = sums[N_KEY_BYTES] + sums[N_VALUE_BYTES]
    held += sums[N_HEADER_KEY_BYTES] + sums[N_HEADER_VALUE_BYTES]
    adding = key_bytes + value_bytes + header_key_bytes + header_value_bytes
    if row == limits[L_ROWS_MAX] or (row > 0 and held + adding > limits[L_BYTES_MAX]):
        return FULL
    if millis > _MILLIS_MAX or millis < -_MILLIS_MAX:
        if limits[L_TIMES] != 0:
            return TIME_OVERFLOW
        millis = types.int64(0)
    i64_pointer(fields[S_OFFSETS])[row] = offset
    i64_pointer(fields[S_TIMES])[row] = millis * 1000
    i32_pointer(fields[S_KINDS])[row] = kind
    i32_pointer(fields[S_KEYS])[row] = key
    i32_pointer(fields[S_KEY_LENGTHS])[row] = key_length
    i32_pointer(fields[S_VALUES])[row] = value
    i32_pointer(fields[S_VALUE_LENGTHS])[row] = value_length
    i32_pointer(fields[S_HEADERS])[row] = headers
    i32_pointer(fields[S_HEADER_COUNTS])[row] = header_count
    sums[N_ROWS] = row + 1
    sums[N_KEY_BYTES] += key_bytes
    sums[N_VALUE_BYTES] += value_bytes
    sums[N_KEY_NULLS] += key_length < 0
    sums[N_VALUE_NULLS] += value_length < 0
    sums[N_HEADERS] += header_count
    sums[N_HEADER_KEY_BYTES] += header_key_bytes
    sums[N_HEADER_VALUE_BYTES] += header_value_bytes
    sums[N_BARE_ROWS] += header_count == 0
    return DONE
