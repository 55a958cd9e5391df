"""The compiled writer: columns to bytes of record batches.

It writes whole batches, uncompressed and without their CRC, one behind the other. Compressing and
signing them is left to libraries that are better at it than any loop of ours.
"""

from numba import njit, types

from lakelog.records.kernels.fields import DONE, FULL, TIME_OVERFLOW
from lakelog.records.kernels.primitives import (
    I64,
    I64S,
    READ_I64S,
    TABLE,
    i32_pointer,
    i64_pointer,
    is_null,
    move,
    put_field,
    put_int,
    put_varint,
    u8_pointer,
    varint_size,
)
from lakelog.records.kernels.source import (
    E_BASE_OFFSET,
    E_BYTES_MAX,
    E_CODEC,
    E_HAS_HEADERS,
    E_HAS_OFFSETS,
    E_HAS_TYPES,
    E_HEADER_VALUE_BIT,
    E_HEADER_VALUE_NULLS,
    E_KEY_BIT,
    E_KEY_NULLS,
    E_LEADER_EPOCH,
    E_LIST_BIT,
    E_LIST_NULLS,
    E_RECORDS_MAX,
    E_ROWS,
    E_VALUE_BIT,
    E_VALUE_NULLS,
    S_HEADER_KEY_ENDS,
    S_HEADER_VALUE_ENDS,
    S_KEY_ENDS,
    S_LIST_BITS,
    S_LISTS,
    S_OFFSETS,
    S_TIMESTAMP_TYPES,
    S_TIMESTAMPS,
    S_VALUE_ENDS,
    bytes_column,
    header_bytes,
    length_of,
    put_headers,
)

__all__ = ["encode_batches"]

BUILT_FROM = "ec0f442c5447"
"""Digest of what is compiled into these kernels from other files; see ``decode``."""

_HEADER_BYTES = 61
_FRAME_BYTES_MAX = 5 + 1 + 10 + 5 + 5 + 5 + 5  # Of a record, around its key, value and headers.
_HEADER_FRAME_BYTES_MAX = 5 + 5


@njit(I64(READ_I64S, READ_I64S, I64, I64, TABLE, I64S), cache=True, nogil=True)
def encode_batches(plan, source, address, room, table, cursor):
    """Write whole batches, uncompressed and without their CRC, from the cursor's row on.

    The cursor holds the next row, the batches and the bytes written so far. A row of ``table`` is
    where a batch begins and ends in ``out``. Stops with FULL, at the start of a batch, when the
    table or the output has no room for the next one, and with TIME_OVERFLOW when two timestamps of
    a batch lie further apart than the format can say.
    """
    out = u8_pointer(address)
    timestamps, offsets = i64_pointer(source[S_TIMESTAMPS]), i64_pointer(source[S_OFFSETS])
    timestamp_types = i32_pointer(source[S_TIMESTAMP_TYPES])
    key_ends, keys, key_bits = bytes_column(source, S_KEY_ENDS)
    value_ends, values, value_bits = bytes_column(source, S_VALUE_ENDS)
    lists, list_bits = i32_pointer(source[S_LISTS]), u8_pointer(source[S_LIST_BITS])
    header_key_ends, header_keys, _no_bits = bytes_column(source, S_HEADER_KEY_ENDS)
    header_value_ends, header_values, header_bits = bytes_column(source, S_HEADER_VALUE_ENDS)
    rows, records_max, bytes_max = plan[E_ROWS], plan[E_RECORDS_MAX], plan[E_BYTES_MAX]
    has_offsets, has_headers = plan[E_HAS_OFFSETS] != 0, plan[E_HAS_HEADERS] != 0
    has_types = plan[E_HAS_TYPES] != 0
    key_nulls, key_bit = plan[E_KEY_NULLS], plan[E_KEY_BIT]
    value_nulls, value_bit = plan[E_VALUE_NULLS], plan[E_VALUE_BIT]
    list_nulls, list_bit = plan[E_LIST_NULLS], plan[E_LIST_BIT]
    header_nulls, header_bit = plan[E_HEADER_VALUE_NULLS], plan[E_HEADER_VALUE_BIT]
    row, batches, op = cursor[0], cursor[1], cursor[2]
    length_bytes = types.int64(2)
    status = DONE
    while row < rows and status == DONE:
        if batches == table.shape[0] or op + _HEADER_BYTES > room:
            status = FULL
            break
        first, start, p = row, op, op + _HEADER_BYTES
        base_offset = offsets[row] if has_offsets else plan[E_BASE_OFFSET] + row
        base_time = timestamps[row] // 1000
        max_time = base_time
        append_time = types.int64(timestamp_types[row]) if has_types else types.int64(0)
        delta = types.int64(0)
        while row < rows and row - first < records_max:
            time = timestamps[row] // 1000
            if has_types and timestamp_types[row] != append_time:
                break
            if append_time and time != base_time:
                break
            next_delta = (offsets[row] if has_offsets else plan[E_BASE_OFFSET] + row) - base_offset
            if next_delta > 0x7FFFFFFE:
                break
            time_delta = time - base_time
            if ((time ^ base_time) & (time ^ time_delta)) < 0:
                status = TIME_OVERFLOW
                break
            key_length = length_of(key_ends, key_bits, key_nulls, key_bit, row)
            value_length = length_of(value_ends, value_bits, value_nulls, value_bit, row)
            # Room for the longest forms of all varints, so that nothing is measured beforehand.
            most = _FRAME_BYTES_MAX + max(key_length, 0) + max(value_length, 0)
            header_from = header_to = types.int64(0)
            if has_headers and not is_null(list_bits, list_nulls, row + list_bit):
                header_from, header_to = types.int64(lists[row]), types.int64(lists[row + 1])
                most += _HEADER_FRAME_BYTES_MAX * (header_to - header_from)
                most += header_bytes(
                    header_from, header_to, header_key_ends,
                    header_value_ends, header_bits, header_nulls, header_bit,
                )  # fmt: skip
            if p + most > room:
                status = FULL
                break
            # The length comes first but is known last. It takes as many bytes as the one before
            # it did, nearly always; if not, the record moves.
            q = p + length_bytes
            out[q] = 0
            q = put_varint(out, q + 1, time_delta)
            q = put_varint(out, q, next_delta)
            q = put_field(out, q, keys, types.int64(key_ends[row]), key_length)
            q = put_field(out, q, values, types.int64(value_ends[row]), value_length)
            q = put_headers(
                out, q, header_from, header_to, header_key_ends, header_keys,
                header_value_ends, header_values, header_bits, header_nulls, header_bit,
            )  # fmt: skip
            length = q - p - length_bytes
            needed = varint_size(length)
            if row > first and p + needed + length - start > bytes_max:
                break
            if needed != length_bytes:
                move(out, p + needed, p + length_bytes, length)
                length_bytes = needed
            put_varint(out, p, length)
            p += needed + length
            delta = next_delta
            max_time = max(max_time, time)
            row += 1
        if status != DONE:
            row = first
            break
        put_int(out, start, base_offset, 8)
        put_int(out, start + 8, p - start - 12, 4)
        put_int(out, start + 12, plan[E_LEADER_EPOCH], 4)
        out[start + 16] = 2
        put_int(out, start + 21, plan[E_CODEC] | append_time << 3, 2)
        put_int(out, start + 23, delta, 4)
        put_int(out, start + 27, base_time, 8)
        put_int(out, start + 35, max_time, 8)
        for i in range(43, 57):
            out[start + i] = 0xFF
        put_int(out, start + 57, row - first, 4)
        table[batches, 0], table[batches, 1] = start, p
        batches += 1
        op = p
    cursor[0], cursor[1], cursor[2] = row, batches, op
    return status
