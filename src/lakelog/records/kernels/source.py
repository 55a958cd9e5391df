"""Arrow columns as the kernels that write see them: buffers by address, and a plan of reading them.

``records.encoder.Source`` fills both in, and holds what the addresses point into.
"""

from numba import njit, types

from lakelog.records.kernels.primitives import (
    i32_pointer,
    is_null,
    put_field,
    put_varint,
    u8_pointer,
)

__all__ = ["bytes_column", "header_bytes", "length_of", "put_headers"]

# What a writer is told, in one array.
E_ROWS, E_RECORDS_MAX, E_BYTES_MAX, E_CODEC, E_LEADER_EPOCH, E_BASE_OFFSET = 0, 1, 2, 3, 4, 5
E_HAS_OFFSETS, E_HAS_TYPES, E_HAS_HEADERS, E_KEY_NULLS, E_VALUE_NULLS = 6, 7, 8, 9, 10
E_LIST_NULLS, E_HEADER_VALUE_NULLS = 11, 12
# Where in its first byte a sliced array's bits begin.
E_KEY_BIT, E_VALUE_BIT, E_LIST_BIT, E_HEADER_VALUE_BIT = 13, 14, 15, 16
ENCODE_WIDTH = 17

# The buffers of the columns, by address, as Arrow lays them out.
S_TIMESTAMPS, S_OFFSETS, S_TIMESTAMP_TYPES = 0, 1, 2
S_KEY_ENDS, S_KEYS, S_KEY_BITS, S_VALUE_ENDS, S_VALUES, S_VALUE_BITS = 3, 4, 5, 6, 7, 8
S_LISTS, S_LIST_BITS, S_HEADER_KEY_ENDS, S_HEADER_KEYS = 9, 10, 11, 12
S_HEADER_VALUE_ENDS, S_HEADER_VALUES, S_HEADER_VALUE_BITS = 13, 14, 15
SOURCE_WIDTH = 16


@njit(forceinline=True)
def length_of(ends, bits, nulls, bit, i):
    """Length of item ``i`` of a column, -1 when it is null."""
    if is_null(bits, nulls, i + bit):
        return types.int64(-1)
    return types.int64(ends[i + 1]) - types.int64(ends[i])


@njit(forceinline=True)
def bytes_column(source, at):
    """The ends, the bytes and the bits of the column whose buffers begin at slot ``at``."""
    return i32_pointer(source[at]), u8_pointer(source[at + 1]), u8_pointer(source[at + 2])


@njit(forceinline=True)
def header_bytes(first, last, key_ends, value_ends, value_bits, nulls, bit):
    """Bytes of the keys and values of some headers."""
    size = types.int64(0)
    for h in range(first, last):
        size += types.int64(key_ends[h + 1]) - types.int64(key_ends[h])
        size += max(length_of(value_ends, value_bits, nulls, bit, h), 0)
    return size


@njit(forceinline=True)
def put_headers(out, p, first, last, key_ends, keys, value_ends, values, value_bits, nulls, bit):
    """Write how many headers there are, and these; return the position behind them."""
    p = put_varint(out, p, last - first)
    for h in range(first, last):
        length = types.int64(key_ends[h + 1]) - types.int64(key_ends[h])
        p = put_field(out, p, keys, types.int64(key_ends[h]), length)
        length = length_of(value_ends, value_bits, nulls, bit, h)
        p = put_field(out, p, values, types.int64(value_ends[h]), length)
    return p
