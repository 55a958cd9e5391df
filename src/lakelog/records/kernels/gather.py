"""Fields to Arrow's buffers, a column at a time. Everything here has been checked by a parser."""

from numba import njit, types

from lakelog.records.kernels.fields import NOTE_HEADER_COUNT, NOTE_HEADERS, NOTE_WIDTH
from lakelog.records.kernels.primitives import (
    I64,
    clear_bit,
    copy,
    i32_pointer,
    skip_field,
    u8_pointer,
    varint,
)

__all__ = ["gather_bytes", "gather_headers"]

BUILT_FROM = "ec0f442c5447"
"""Digest of what is compiled into these kernels from other files; see ``decode``."""


@njit(I64(I64, I64, I64, I64, I64, I64, I64, I64, I64), cache=True, nogil=True)
def gather_bytes(
    address, rows, notes_address, field, end_address, data_address, bits, first_row, at
):  # fmt: skip
    """Copy one field of some records behind what is there: rows from ``first_row``, bytes from
    ``at``. Clear the bits of nulls, unless there are none (``bits`` = 0); return how many.
    """
    b, notes = u8_pointer(address), i32_pointer(notes_address)
    ends, data, valid = i32_pointer(end_address), u8_pointer(data_address), u8_pointer(bits)
    nulls = types.int64(0)
    ends[first_row] = types.int32(at)
    for row in range(rows):
        start = types.int64(notes[row * NOTE_WIDTH + field])
        length = types.int64(notes[row * NOTE_WIDTH + field + 1])
        if length > 0:
            copy(data, at, b, start, length)
            at += length
        elif length < 0:
            clear_bit(valid, first_row + row)
            nulls += 1
        ends[first_row + row + 1] = types.int32(at)
    return nulls


@njit(I64(I64, I64, I64, I64, I64, I64, I64, I64, I64, I64), cache=True, nogil=True)
def gather_headers(
    address, rows, notes_address,
    list_address, list_bits, key_end_address, key_address, value_end_address, value_address,
    value_bits,
):  # fmt: skip
    """Copy the headers of all records, and return how many values are null.

    The result is negative, and one less, when a key has bytes outside ASCII.
    """
    b, notes = u8_pointer(address), i32_pointer(notes_address)
    lists, valid_lists = i32_pointer(list_address), u8_pointer(list_bits)
    key_ends, keys = i32_pointer(key_end_address), u8_pointer(key_address)
    value_ends, values = i32_pointer(value_end_address), u8_pointer(value_address)
    valid_values = u8_pointer(value_bits)
    n = key_at = value_at = nulls = not_ascii = types.int64(0)
    lists[0] = key_ends[0] = value_ends[0] = 0
    end = types.int64(1) << 62
    for row in range(rows):
        count = types.int64(notes[row * NOTE_WIDTH + NOTE_HEADER_COUNT])
        if count == 0:
            # Spark's Kafka source gives null, not an empty list, where there are none.
            clear_bit(valid_lists, row)
        else:
            _, p = varint(b, types.int64(notes[row * NOTE_WIDTH + NOTE_HEADERS]), end)
            for _ in range(count):
                length, start, p = skip_field(b, p, end)
                copy(keys, key_at, b, start, length)
                for q in range(start, start + length):
                    not_ascii |= b[q] >> 7
                key_at += length
                length, start, p = skip_field(b, p, end)
                if length < 0:
                    clear_bit(valid_values, n)
                    nulls += 1
                else:
                    copy(values, value_at, b, start, length)
                    value_at += length
                n += 1
                key_ends[n] = key_at
                value_ends[n] = value_at
        lists[row + 1] = n
    return -1 - nulls if not_ascii else nulls
