"""Where the fields of records stand: what a parser writes down, and what becomes columns.

Reading records is done in two steps. A parser, one for each format, goes through the bytes once,
checks them, and writes down per record its offset and time, and where its key, value and headers
begin and how long they are. ``gather`` then copies them into Arrow's buffers, column by column,
and knows nothing of formats. Two short loops with few variables run faster than one long one, and
the sums that a parser leaves say exactly how large the buffers must be.

    offsets, times, kinds   one item per record, already as the columns hold them
    notes                   six numbers per record: where, and how long
    sums                    what all of them come to
    limits                  how many records a parser may take, and of which offsets

The two steps take turns, a few thousand records at a time, so that the second finds in the cache
what the first has read.
"""

from numba import njit, types

from lakelog.records.kernels.primitives import i32_pointer, i64_pointer

__all__ = ["arrays_of", "is_absurd", "note"]

# What a parser ended with: everything is read; there is no room for more; something is wrong;
# a time does not fit the microseconds of a column.
DONE, FULL, BAD, TIME_OVERFLOW = 0, 1, 2, 3

# The arrays that a parser writes, by address. Times are microseconds.
A_OFFSETS, A_TIMES, A_KINDS, A_NOTES = 0, 1, 2, 3
ARRAYS = 4

# A note. A length of -1 is a null; headers begin with their count.
NOTE_KEY, NOTE_KEY_LENGTH, NOTE_VALUE, NOTE_VALUE_LENGTH = 0, 1, 2, 3
NOTE_HEADERS, NOTE_HEADER_COUNT = 4, 5
NOTE_WIDTH = 6

# The sums. A row is headed when it has headers. N_KEYS and N_VALUES are negative when there is a
# null among them. N_TAKEN is the bytes of the records.
N_ROWS, N_KEY_BYTES, N_VALUE_BYTES, N_KEYS, N_VALUES = 0, 1, 2, 3, 4
N_HEADERS, N_HEADER_KEY_BYTES, N_HEADER_VALUE_BYTES, N_HEADED_ROWS, N_TAKEN = 5, 6, 7, 8, 9
SUMS = 10

# The limits. Bytes are those of whole records; the first record of all is taken whatever its size,
# and L_HELD says whether there is one already. Records outside the offsets are checked but not
# noted, and absurd times are refused only where times are wanted.
L_ROWS_MAX, L_BYTES_MAX, L_HELD, L_OFFSET_FROM, L_OFFSET_TO, L_CONTROL, L_TIMES = range(7)
LIMITS = 7

# Columns of the table that ``decode.scan_batches`` fills, a row per batch.
T_POSITION, T_SIZE, T_BASE_OFFSET, T_ATTRIBUTES, T_BASE_TIME = 0, 1, 2, 3, 4
T_MAX_TIME, T_COUNT, T_LAST_DELTA, T_CRC, T_BODY, T_BODY_END = 5, 6, 7, 8, 9, 10
TABLE_WIDTH = 11

_MILLIS_MAX = ((1 << 63) - 1) // 1000


@njit(forceinline=True)
def is_absurd(millis):
    """Whether a time does not fit a column: the year is beyond 292,277 or before that."""
    return millis > _MILLIS_MAX or millis < -_MILLIS_MAX


@njit(forceinline=True)
def arrays_of(arrays):
    """The offsets, times, kinds and notes that a parser writes."""
    offsets, times = i64_pointer(arrays[A_OFFSETS]), i64_pointer(arrays[A_TIMES])
    return offsets, times, i32_pointer(arrays[A_KINDS]), i32_pointer(arrays[A_NOTES])


@njit(forceinline=True)
def note(notes, sums, row, fields, headers):
    """Write down where the fields and the headers of a record stand, and what they come to.

    Both are as ``primitives.read_record`` has them.
    """
    key, key_length, value, value_length = fields
    headers_at, header_count, header_key_bytes, header_value_bytes = headers
    at = row * NOTE_WIDTH
    notes[at + NOTE_KEY] = types.int32(key)
    notes[at + NOTE_KEY_LENGTH] = types.int32(key_length)
    notes[at + NOTE_VALUE] = types.int32(value)
    notes[at + NOTE_VALUE_LENGTH] = types.int32(value_length)
    notes[at + NOTE_HEADERS] = types.int32(headers_at)
    notes[at + NOTE_HEADER_COUNT] = types.int32(header_count)
    if header_count:
        sums[N_HEADERS] += header_count
        sums[N_HEADER_KEY_BYTES] += header_key_bytes
        sums[N_HEADER_VALUE_BYTES] += header_value_bytes
        sums[N_HEADED_ROWS] += 1
