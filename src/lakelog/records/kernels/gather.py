"""Fields to Arrow's buffers, a column at a time. Everything here has been checked by a parser."""

from numba import njit, types

from lakelog.records.kernels.primitives import (
    clear_bit,
    copy,
    i32_pointer,
    skip_field,
    u8_pointer,
    varint,
)

__all__ = ["gather_bytes", "gather_headers"]

BUILT_FROM = "d8944463389a"
"""Digest of what is compiled into these kernels from other files; see ``decode``."""

_I = types.int64


@njit(types.void(_I, _I, _I, _I, _I, _I, _I), cache=True, nogil=True)
def gather_bytes(address, rows, start_address, length_address, end_address, data_address, bits):
    """Copy one field of all records; clear the bits of nulls, unless there are none (bits = 0)."""
    b, starts, lengths = (
        u8_pointer(address),
        i32_pointer(start_address),
        i32_pointer(length_address),
    )
    ends, data, valid = i32_pointer(end_address), u8_pointer(data_address), u8_pointer(bits)
    at = types.int64(0)
    ends[0] = 0
    for row in range(rows):
        length = types.int64(lengths[row])
        if length > 0:
            copy(data, at, b, types.int64(starts[row]), length)
            at += length
        elif length < 0 and bits != 0:
            clear_bit(valid, row)
        ends[row + 1] = at


@njit(
    types.int64(_I, _I, _I, _I, _I, _I, _I, _I, _I, _I, _I),
    cache=True,
    nogil=True,
)
def gather_headers(
    address, rows, start_address, count_address,
    list_address, list_bits, key_end_address, key_address, value_end_address, value_address,
    value_bits,
):  # fmt: skip
    """Copy the headers of all records. Returns how many values are null; the sign is the news:
    negative (less one) when a key has bytes outside ASCII."""
    b, starts, counts = u8_pointer(address), i32_pointer(start_address), i32_pointer(count_address)
    lists, valid_lists = i32_pointer(list_address), u8_pointer(list_bits)
    key_ends, keys = i32_pointer(key_end_address), u8_pointer(key_address)
    value_ends, values = i32_pointer(value_end_address), u8_pointer(value_address)
    valid_values = u8_pointer(value_bits)
    n = key_at = value_at = nulls = not_ascii = types.int64(0)
    lists[0] = key_ends[0] = value_ends[0] = 0
    end = types.int64(1) << 62
    for row in range(rows):
        count = types.int64(counts[row])
        if count == 0:
            # Spark's Kafka source gives null, not an empty list, where there are none.
            clear_bit(valid_lists, row)
        else:
            _, p = varint(b, types.int64(starts[row]), end)
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
