"""The writers of STRM blocks and RustLog logs: Arrow columns to bytes, compiled.

Both take rows until there are no more, or until they need their caller: to close a block, for more
room, or to say what is wrong with a row. They write nothing of the row they stop at, so they are
called again with the same state. Compressing and signing is left to libraries.

``encode_strm`` leaves out the count of headers of every record as long as none has any, as the
format does for a segment without headers. Nobody knows beforehand whether one comes. When it does,
``widen_strm`` puts a count of zero behind each record that was written before it.
"""

from numba import njit, types

from lakelog.records.kernels.envelope import begins_magic
from lakelog.records.kernels.fields import BAD, DONE, FULL
from lakelog.records.kernels.primitives import (
    I64,
    I64S,
    READ_I64S,
    copy,
    i32_pointer,
    i64_pointer,
    is_null,
    put_field,
    put_int,
    put_varint,
    skip_field,
    u8_pointer,
    varlong,
)
from lakelog.records.kernels.source import (
    E_BYTES_MAX,
    E_HAS_HEADERS,
    E_HEADER_VALUE_BIT,
    E_HEADER_VALUE_NULLS,
    E_KEY_BIT,
    E_KEY_NULLS,
    E_LIST_BIT,
    E_LIST_NULLS,
    E_ROWS,
    E_VALUE_BIT,
    E_VALUE_NULLS,
    S_HEADER_KEY_ENDS,
    S_HEADER_VALUE_ENDS,
    S_KEY_ENDS,
    S_LIST_BITS,
    S_LISTS,
    S_OFFSETS,
    S_TIMESTAMPS,
    S_VALUE_ENDS,
    bytes_column,
    header_bytes,
    length_of,
    put_headers,
)

__all__ = ["encode_rustlog", "encode_strm", "widen_strm"]

BUILT_FROM = "ec0f442c5447"
"""Digest of what is compiled in from other files; see ``records.kernels.decode``."""

CUT, HEADED = 10, 11
"""The block is full; the first record with headers is here, and counts were left out so far."""

# The state of ``encode_strm``: the next row, the open block, and what is true of all records.
# W_HEADERS is set by the caller; W_TOMBSTONES is negative when a value is null.
W_ROW, W_AT, W_ESTIMATE, W_COUNT, W_BASE_OFFSET, W_BASE_TIME = 0, 1, 2, 3, 4, 5
W_MIN_TIME, W_MAX_TIME, W_HEADERS, W_TOMBSTONES = 6, 7, 8, 9
STRM_WIDTH = 10

# The state of ``encode_rustlog``: the next row, where to go on in the log and in the new entries of
# the index; the records and the latest time of the log.
R_ROW, R_AT, R_INDEX_AT, R_COUNT, R_TIME = 0, 1, 2, 3, 4
RUSTLOG_WIDTH = 5

_FRAME_BYTES_MAX = 10 + 10 + 5 + 5 + 5  # Of a record, around its key, value and headers.
_HEADER_FRAME_BYTES_MAX = 5 + 5
_FRAME_BYTES_ESTIMATED, _HEADER_FRAME_BYTES_ESTIMATED = 10, 4  # Which decide where a block ends.
_PAYLOAD_BYTES_MAX = 10 * 1024 * 1024
_ROW_BYTES, _ENTRY_BYTES = 20, 16
_INDEX_INTERVAL = 100


@njit(I64(READ_I64S, READ_I64S, I64, I64, I64S), cache=True, nogil=True)
def encode_strm(plan, source, address, room, state):
    """Write records of one block, uncompressed, behind those that are at ``address`` already."""
    out = u8_pointer(address)
    timestamps, offsets = i64_pointer(source[S_TIMESTAMPS]), i64_pointer(source[S_OFFSETS])
    key_ends, keys, key_bits = bytes_column(source, S_KEY_ENDS)
    value_ends, values, value_bits = bytes_column(source, S_VALUE_ENDS)
    lists, list_bits = i32_pointer(source[S_LISTS]), u8_pointer(source[S_LIST_BITS])
    name_ends, names, _no_bits = bytes_column(source, S_HEADER_KEY_ENDS)
    item_ends, items, item_bits = bytes_column(source, S_HEADER_VALUE_ENDS)
    key_nulls, key_bit = plan[E_KEY_NULLS], plan[E_KEY_BIT]
    value_nulls, value_bit = plan[E_VALUE_NULLS], plan[E_VALUE_BIT]
    item_nulls, item_bit = plan[E_HEADER_VALUE_NULLS], plan[E_HEADER_VALUE_BIT]
    has_headers, headed = plan[E_HAS_HEADERS] != 0, state[W_HEADERS] != 0
    row, p, size, count = state[W_ROW], state[W_AT], state[W_ESTIMATE], state[W_COUNT]
    base_offset, base_time = state[W_BASE_OFFSET], state[W_BASE_TIME]
    min_time, max_time, tombstones = state[W_MIN_TIME], state[W_MAX_TIME], state[W_TOMBSTONES]
    status = DONE
    while row < plan[E_ROWS]:
        key_length = length_of(key_ends, key_bits, key_nulls, key_bit, row)
        value_length = length_of(value_ends, value_bits, value_nulls, value_bit, row)
        bytes_held = max(key_length, 0) + max(value_length, 0)
        first = last = types.int64(0)
        if has_headers and not is_null(list_bits, plan[E_LIST_NULLS], row + plan[E_LIST_BIT]):
            first, last = types.int64(lists[row]), types.int64(lists[row + 1])
            bytes_held += header_bytes(
                first, last, name_ends, item_ends, item_bits, item_nulls, item_bit
            )
        if last > first and not headed:
            status = HEADED
            break
        estimate = _FRAME_BYTES_ESTIMATED + _HEADER_FRAME_BYTES_ESTIMATED * (last - first)
        if count > 0 and size + estimate + bytes_held > plan[E_BYTES_MAX]:
            status = CUT
            break
        # Room for the longest forms of all varints, so that nothing is measured beforehand.
        if p + _FRAME_BYTES_MAX + _HEADER_FRAME_BYTES_MAX * (last - first) + bytes_held > room:
            status = FULL
            break
        # A column's times are microseconds, so two of them never lie 63 bits of milliseconds apart.
        time = timestamps[row] // 1000
        if count == 0:
            base_offset, base_time = offsets[row], types.int64(0)
        p = put_varint(out, p, offsets[row] - base_offset)
        p = put_varint(out, p, time - base_time)
        if count == 0:
            base_time = time
        p = put_field(out, p, keys, types.int64(key_ends[row]), key_length)
        p = put_field(out, p, values, types.int64(value_ends[row]), value_length)
        if headed:
            p = put_headers(
                out, p, first, last, name_ends, names,
                item_ends, items, item_bits, item_nulls, item_bit,
            )  # fmt: skip
        min_time, max_time = min(min_time, time), max(max_time, time)
        tombstones |= value_length  # Negative from the first null on.
        size += estimate + bytes_held
        count += 1
        row += 1
    state[W_ROW], state[W_AT], state[W_ESTIMATE], state[W_COUNT] = row, p, size, count
    state[W_BASE_OFFSET], state[W_BASE_TIME] = base_offset, base_time
    state[W_MIN_TIME], state[W_MAX_TIME], state[W_TOMBSTONES] = min_time, max_time, tombstones
    return status


@njit(I64(I64, I64, I64), cache=True, nogil=True)
def widen_strm(address, end, to):
    """Copy the records in ``[0, end)`` to ``to``, each with a count of no headers; return its end.

    ``encode_strm`` made them; a record takes four bytes at least, so five for four is room enough.
    """
    b, out = u8_pointer(address), u8_pointer(to)
    at = p = types.int64(0)
    while at < end:
        _, q = varlong(b, at, end)
        _, q = varlong(b, q, end)
        _, _, q = skip_field(b, q, end)
        _, _, q = skip_field(b, q, end)
        copy(out, p, b, at, q - at)
        p += q - at
        out[p] = 0
        p += 1
        at = q
    return p


@njit(I64(READ_I64S, READ_I64S, I64, I64, I64, I64S), cache=True, nogil=True)
def encode_rustlog(plan, source, address, room, index_address, state):
    """Write records behind those of the log at ``address``, and their entries of the index.

    At ``index_address`` there is room for all entries that the columns can give.
    """
    out, index = u8_pointer(address), u8_pointer(index_address)
    timestamps, offsets = i64_pointer(source[S_TIMESTAMPS]), i64_pointer(source[S_OFFSETS])
    key_ends, _keys, key_bits = bytes_column(source, S_KEY_ENDS)
    value_ends, values, value_bits = bytes_column(source, S_VALUE_ENDS)
    lists, list_bits = i32_pointer(source[S_LISTS]), u8_pointer(source[S_LIST_BITS])
    row, p, q = state[R_ROW], state[R_AT], state[R_INDEX_AT]
    status = DONE
    while row < plan[E_ROWS]:
        key_length = length_of(key_ends, key_bits, plan[E_KEY_NULLS], plan[E_KEY_BIT], row)
        length = length_of(value_ends, value_bits, plan[E_VALUE_NULLS], plan[E_VALUE_BIT], row)
        millis = timestamps[row] // 1000
        if key_length >= 0 or length < 0 or length > _PAYLOAD_BYTES_MAX or millis < 0:
            status = BAD
            break
        if length > 2 and begins_magic(values, types.int64(value_ends[row])):
            status = BAD
            break
        has_list = plan[E_HAS_HEADERS] != 0 and lists[row + 1] > lists[row]
        if has_list and not is_null(list_bits, plan[E_LIST_NULLS], row + plan[E_LIST_BIT]):
            status = BAD
            break
        if p + _ROW_BYTES + length > room:
            status = FULL
            break
        if state[R_COUNT] % _INDEX_INTERVAL == 0:
            put_int(index, q, offsets[row], 8)
            put_int(index, q + 8, p, 8)
            q += _ENTRY_BYTES
        # A time that goes down is lifted to the one before it.
        state[R_TIME] = max(state[R_TIME], millis * 1000)
        put_int(out, p, length, 4)
        put_int(out, p + 4, offsets[row], 8)
        put_int(out, p + 12, state[R_TIME], 8)
        copy(out, p + _ROW_BYTES, values, types.int64(value_ends[row]), length)
        p += _ROW_BYTES + length
        state[R_COUNT] += 1
        row += 1
    state[R_ROW], state[R_AT], state[R_INDEX_AT] = row, p, q
    return status
