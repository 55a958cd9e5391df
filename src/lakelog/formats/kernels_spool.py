"""The loops of a spool: records to bytes, and bytes to what is known of them; compiled.

    encode_joined    values and keys, each in one piece  \\
    encode_items     lists of bytes objects, as they are   > records, and entries of the index
    encode_columns   Arrow columns                       /
    scan_records     every record of a part of a log: where the last whole one ends; the index
    copy_kept        the records of a log whose offsets are listed: compaction

All write nothing beyond what their caller has made room for, and judge nothing: BAD, or a position,
and plain code says what is wrong. Encoders return how many bytes they have written, or the negative
of a status.

**Lists of bytes objects are read where CPython has them.** A record of a hundred bytes takes thirty
nanoseconds here; to ask Python for the length of each, and to join them, takes as long again.
``spool.encoding`` makes sure that this Python lays its objects out so, and else joins. The kernel
does not let go of the GIL, so that nobody changes a list meanwhile.
"""

from numba import njit, types

from lakelog.records.kernels.envelope import (
    HEAD_BYTES,
    ROW_BYTES,
    begins_enveloped,
    is_signed,
    open_record,
    sign,
)
from lakelog.records.kernels.fields import BAD, DONE, FULL
from lakelog.records.kernels.primitives import (
    I64,
    I64S,
    READ_I64S,
    copy,
    i32,
    i32_pointer,
    i64,
    i64_pointer,
    is_null,
    put_int,
    u8_pointer,
)
from lakelog.records.kernels.source import (
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
    S_TIMESTAMPS,
    S_VALUE_ENDS,
    bytes_column,
    header_bytes,
    length_of,
    put_headers,
)

__all__ = [
    "HEAD_BYTES",
    "ROW_BYTES",
    "copy_kept",
    "encode_columns",
    "encode_items",
    "encode_joined",
    "scan_records",
]

BUILT_FROM = "ec0f442c5447"
"""Digest of what is compiled in from other files; see ``records.kernels.decode``."""

# What encoders are told, and leave for the next call: the offset and number of the next record in
# its segment, the position of its first byte there, and the latest time.
W_OFFSET, W_NUMBER, W_POSITION, W_TIME = 0, 1, 2, 3
# What they leave besides: the row they stopped at.
W_ROW = 4
WRITE_WIDTH = 5

# The state of ``scan_records``: where it is, the least offset, records and the latest time so far,
# bytes of new index entries, and how many records are raw.
C_AT, C_OFFSET, C_NUMBER, C_TIME, C_INDEX_BYTES, C_RAW = 0, 1, 2, 3, 4, 5
SCAN_WIDTH = 6

FRAME_BYTES = HEAD_BYTES + 5 + 5 + 5
"""The most that a record has around its key, value and headers."""
HEADER_FRAME_BYTES = 5 + 5

PAYLOAD_BYTES_MAX = 10 * 1024 * 1024
INDEX_INTERVAL = 100
_ENTRY_BYTES = 16
_OFFSET_MAX = (1 << 63) - 2

# Where CPython has what is needed of its objects.
OBJECT_TYPE, OBJECT_SIZE, BYTES_DATA, LIST_ITEMS = 8, 16, 32, 24


@njit(forceinline=True)
def _put_entry(index, q, number, offset, position):
    """Write the entry that a record has in the index, if it has one."""
    if number % INDEX_INTERVAL == 0:
        put_int(index, q, offset, 8)
        put_int(index, q + 8, position, 8)
        return q + _ENTRY_BYTES
    return q


@njit(I64(I64, I64, I64, I64, I64, I64, I64, I64S), cache=True, nogil=True)
def encode_joined(values, value_lengths, keys, key_lengths, count, address, index_address, state):
    """Write records; lengths are 32 bits each, -1 for null. ``key_lengths`` of 0: no keys."""
    out, index = u8_pointer(address), u8_pointer(index_address)
    value_data, key_data = u8_pointer(values), u8_pointer(keys)
    value_sizes, key_sizes = i32_pointer(value_lengths), i32_pointer(key_lengths)
    offset, number, position = state[W_OFFSET], state[W_NUMBER], state[W_POSITION]
    time = state[W_TIME]
    p = q = value = key = types.int64(0)
    for i in range(count):
        key_length = types.int64(-1)
        if key_lengths != 0:
            key_length = types.int64(key_sizes[i])
        value_length = types.int64(value_sizes[i])
        q = _put_entry(index, q, number, offset, position + p)
        end = open_record(out, p, key_data, key, key_length, value_data, value, value_length)
        out[end] = 0
        sign(out, p, end + 1, offset, time)
        p = end + 1
        key += max(key_length, 0)
        value += max(value_length, 0)
        offset += 1
        number += 1
    return p


@njit(forceinline=True)
def _item(items, i, none, bytes_type):
    """Length and address of the bytes of an item of a list; -1: None; -2: another object."""
    object_ = i64_pointer(items[i])
    if items[i] == none:
        return types.int64(-1), types.int64(0)
    if object_[OBJECT_TYPE // 8] != bytes_type:
        return types.int64(-2), types.int64(0)
    return object_[OBJECT_SIZE // 8], items[i] + BYTES_DATA


@njit(I64(I64, I64, I64, I64, I64, I64, I64, I64S), cache=True)
def encode_items(values, keys, none, bytes_type, address, room, index_address, state):
    """Write the items of lists, which are at these addresses; ``keys`` of 0: no keys.

    -FULL: there is not room enough. -BAD: an item is no bytes object, or is too large.
    """
    out, index = u8_pointer(address), u8_pointer(index_address)
    value_items = i64_pointer(i64_pointer(values)[LIST_ITEMS // 8])
    key_items = value_items
    if keys != 0:
        key_items = i64_pointer(i64_pointer(keys)[LIST_ITEMS // 8])
    count = i64_pointer(values)[OBJECT_SIZE // 8]
    if keys != 0 and i64_pointer(keys)[OBJECT_SIZE // 8] != count:
        return -BAD
    offset, number, position = state[W_OFFSET], state[W_NUMBER], state[W_POSITION]
    time = state[W_TIME]
    p = q = types.int64(0)
    for row in range(count):
        key_length, key = types.int64(-1), types.int64(0)
        if keys != 0:
            key_length, key = _item(key_items, row, none, bytes_type)
        value_length, value = _item(value_items, row, none, bytes_type)
        size = max(key_length, 0) + max(value_length, 0) + FRAME_BYTES
        if key_length < -1 or value_length < -1 or size - ROW_BYTES > PAYLOAD_BYTES_MAX:
            return -BAD
        if size > room - p:
            return -FULL
        q = _put_entry(index, q, number, offset, position + p)
        end = open_record(
            out, p, u8_pointer(key), types.int64(0), key_length,
            u8_pointer(value), types.int64(0), value_length,
        )  # fmt: skip
        out[end] = 0
        sign(out, p, end + 1, offset, time)
        p = end + 1
        offset += 1
        number += 1
    return p


@njit(I64(READ_I64S, READ_I64S, I64, I64, I64, I64S), cache=True, nogil=True)
def encode_columns(plan, source, address, room, index_address, state):
    """Write records of rows. A time that goes down is lifted; the last one is left in W_TIME.

    -FULL: there is not room enough. -BAD: the row at W_ROW is too large, or its time before 1970.
    """
    out, index = u8_pointer(address), u8_pointer(index_address)
    timestamps = i64_pointer(source[S_TIMESTAMPS])
    key_ends, keys, key_bits = bytes_column(source, S_KEY_ENDS)
    value_ends, values, value_bits = bytes_column(source, S_VALUE_ENDS)
    lists, list_bits = i32_pointer(source[S_LISTS]), u8_pointer(source[S_LIST_BITS])
    name_ends, names, _no_bits = bytes_column(source, S_HEADER_KEY_ENDS)
    item_ends, items, item_bits = bytes_column(source, S_HEADER_VALUE_ENDS)
    item_nulls, item_bit = plan[E_HEADER_VALUE_NULLS], plan[E_HEADER_VALUE_BIT]
    offset, number, position = state[W_OFFSET], state[W_NUMBER], state[W_POSITION]
    time = state[W_TIME]
    p = q = types.int64(0)
    for row in range(plan[E_ROWS]):
        key_length = length_of(key_ends, key_bits, plan[E_KEY_NULLS], plan[E_KEY_BIT], row)
        value_length = length_of(
            value_ends, value_bits, plan[E_VALUE_NULLS], plan[E_VALUE_BIT], row
        )
        first = last = types.int64(0)
        size = max(key_length, 0) + max(value_length, 0) + FRAME_BYTES
        if plan[E_HAS_HEADERS] != 0 and not is_null(
            list_bits, plan[E_LIST_NULLS], row + plan[E_LIST_BIT]
        ):
            first, last = types.int64(lists[row]), types.int64(lists[row + 1])
            size += header_bytes(first, last, name_ends, item_ends, item_bits, item_nulls, item_bit)
            size += HEADER_FRAME_BYTES * (last - first)
        if size - ROW_BYTES > PAYLOAD_BYTES_MAX or timestamps[row] < 0:
            state[W_ROW] = row
            return -BAD
        if size > room - p:
            return -FULL
        time = max(time, timestamps[row])
        q = _put_entry(index, q, number, offset, position + p)
        end = open_record(
            out, p, keys, types.int64(key_ends[row]), key_length,
            values, types.int64(value_ends[row]), value_length,
        )  # fmt: skip
        end = put_headers(
            out, end, first, last, name_ends, names,
            item_ends, items, item_bits, item_nulls, item_bit,
        )  # fmt: skip
        sign(out, p, end, offset, time)
        p = end
        offset += 1
        number += 1
    state[W_TIME] = time
    return p


@njit(I64(I64, I64, I64, I64, I64, I64S), cache=True, nogil=True)
def scan_records(address, end, raw_end, index_address, index_room, cursor):
    """Pass the whole records in ``[C_AT, end)``; make their entries of the index.

    Records below ``raw_end`` may be raw, and then only their frame is checked; all others are
    envelopes with the right checksum. DONE: the bytes end with a whole record. FULL: there is no
    room for more entries. BAD: at C_AT stands no whole record.
    """
    b, index = u8_pointer(address), u8_pointer(index_address)
    p, offset_min, number, time = cursor[C_AT], cursor[C_OFFSET], cursor[C_NUMBER], cursor[C_TIME]
    q, raw = cursor[C_INDEX_BYTES], cursor[C_RAW]
    status = DONE
    while p < end:
        status = BAD
        if end - p < ROW_BYTES:
            break
        length, offset = i32(b, p) & 0xFFFFFFFF, i64(b, p + 4)
        if length > PAYLOAD_BYTES_MAX or length > end - p - ROW_BYTES:
            break
        if offset < offset_min or offset > _OFFSET_MAX:
            break
        if not is_signed(b, p, length):
            if offset >= raw_end or begins_enveloped(b, p, length):
                break
            raw += 1
        if number % INDEX_INTERVAL == 0 and index_room - q < _ENTRY_BYTES:
            status = FULL
            break
        status = DONE
        q = _put_entry(index, q, number, offset, p)
        time = max(time, i64(b, p + 12))
        p += ROW_BYTES + length
        offset_min = offset + 1
        number += 1
    cursor[C_AT], cursor[C_OFFSET], cursor[C_NUMBER], cursor[C_TIME] = p, offset_min, number, time
    cursor[C_INDEX_BYTES], cursor[C_RAW] = q, raw
    return status


@njit(I64(I64, I64, READ_I64S, I64), cache=True, nogil=True)
def copy_kept(address, end, offsets, to):
    """Copy the records in ``[0, end)`` whose offsets are in ``offsets``, which rise.

    They were passed by ``scan_records``. At ``to`` there is room for all; returns the bytes.
    """
    b, out = u8_pointer(address), u8_pointer(to)
    p = q = at = types.int64(0)
    while p < end and at < len(offsets):
        length, offset = i32(b, p) & 0xFFFFFFFF, i64(b, p + 4)
        while at < len(offsets) and offsets[at] < offset:
            at += 1
        if at < len(offsets) and offsets[at] == offset:
            copy(out, q, b, p, ROW_BYTES + length)
            q += ROW_BYTES + length
        p += ROW_BYTES + length
    return q
