"""The parsers of STRM blocks and RustLog logs: compiled, and as unforgiving as the plain readers.

Like the parser of record batches they note where fields stand, and stop with ``BAD`` when anything
looks wrong, so that the plain reader can say what it is.
"""

from numba import njit, types

from lakelog.records.kernels.envelope import begins_enveloped, read_envelope
from lakelog.records.kernels.fields import (
    BAD,
    DONE,
    FULL,
    L_BYTES_MAX,
    L_HELD,
    L_OFFSET_FROM,
    L_OFFSET_TO,
    L_ROWS_MAX,
    L_TIMES,
    N_KEY_BYTES,
    N_KEYS,
    N_ROWS,
    N_TAKEN,
    N_VALUE_BYTES,
    N_VALUES,
    TIME_OVERFLOW,
    arrays_of,
    is_absurd,
    note,
)
from lakelog.records.kernels.primitives import (
    I64,
    I64S,
    READ_I64S,
    check_headers,
    i32,
    i64,
    skip_field,
    u8_pointer,
    varlong,
)

__all__ = ["parse_rustlog", "parse_strm"]

BUILT_FROM = "ec0f442c5447"
"""Digest of what is compiled in from other files; see ``records.kernels.decode``."""

# What ``parse_strm`` is told of a block and its segment.
B_END, B_COUNT, B_BASE_OFFSET, B_MIN_TIME, B_MAX_TIME, B_TOMBSTONES, B_HEADERS = 0, 1, 2, 3, 4, 5, 6
BLOCK_WIDTH = 7

_OFFSET_MAX = (1 << 63) - 2
_PAYLOAD_BYTES_MAX = 10 * 1024 * 1024
_ROW_BYTES = 20


@njit(I64(I64, READ_I64S, READ_I64S, I64S, READ_I64S, I64S), cache=True, nogil=True)
def parse_strm(address, block, limits, cursor, arrays, sums):
    """Note the records of one block, decompressed at ``address``, from the cursor on.

    The cursor holds the record, the byte position, the last offset delta, the first record's time,
    and the least time a record may have.
    """
    b = u8_pointer(address)
    offsets, times, kinds, notes = arrays_of(arrays)
    rows_max, bytes_max, held = limits[L_ROWS_MAX], limits[L_BYTES_MAX], limits[L_HELD]
    row = taken = types.int64(0)
    end, base_offset = block[B_END], block[B_BASE_OFFSET]
    min_time, max_time = block[B_MIN_TIME], block[B_MAX_TIME]
    knows_times = min_time != 0 or max_time != 0
    record, p, last, origin, oldest = cursor[0], cursor[1], cursor[2], cursor[3], cursor[4]
    status = DONE
    while record < block[B_COUNT]:
        status = BAD
        delta, q = varlong(b, p, end)
        if q < 0 or delta <= last or (last < 0 and delta != 0) or delta > _OFFSET_MAX - base_offset:
            break
        time, q = varlong(b, q, end)
        if q < 0:
            break
        key_length, key, q = skip_field(b, q, end)
        if q < 0:
            break
        value_length, value, q = skip_field(b, q, end)
        if q < 0 or (value_length < 0 and block[B_TOMBSTONES] == 0):
            break
        headers = q
        header_count = header_key_bytes = header_value_bytes = types.int64(0)
        if block[B_HEADERS] != 0:
            header_count, header_key_bytes, header_value_bytes, q = check_headers(b, q, end)
            if q < 0:
                break
        if last < 0:
            if time == 0 and min_time > 0:
                time = oldest = min_time
            first = time
        else:
            first = origin
            moved = origin + time
            if ((origin ^ moved) & (time ^ moved)) < 0:
                # Past 64 bits: an early time is raised to the least one, a late one is damage.
                if time > 0:
                    break
                moved = oldest
            time = max(oldest, moved)
        if knows_times and (time < min_time or time > max_time):
            break
        status = DONE
        offset = base_offset + delta
        if limits[L_OFFSET_FROM] <= offset < limits[L_OFFSET_TO]:
            if row == rows_max or (row + held > 0 and taken + q - p > bytes_max):
                status = FULL
                break
            if is_absurd(time) and limits[L_TIMES]:
                status = TIME_OVERFLOW
                break
            offsets[row] = offset
            times[row] = time * 1000
            kinds[row] = 0
            fields = key, key_length, value, value_length
            note(
                notes, sums, row, fields,
                (headers, header_count, header_key_bytes, header_value_bytes),
            )  # fmt: skip
            row += 1
            taken += q - p
            sums[N_KEY_BYTES] += max(key_length, 0)
            sums[N_VALUE_BYTES] += max(value_length, 0)
            sums[N_KEYS] |= key_length
            sums[N_VALUES] |= value_length
        origin, last, p = first, delta, q
        record += 1
    if status == DONE and p != end:
        status = BAD
    cursor[0], cursor[1], cursor[2], cursor[3], cursor[4] = record, p, last, origin, oldest
    sums[N_ROWS], sums[N_TAKEN] = row, taken
    return status


@njit(I64(I64, I64, I64, READ_I64S, I64S, READ_I64S, I64S), cache=True, nogil=True)
def parse_rustlog(address, end, stop, limits, cursor, arrays, sums):
    """Note the whole records in ``[0, end)`` that begin before ``stop``.

    The cursor holds the position and the least offset.

    Ends with DONE at the first record that is not all there: more bytes may bring the rest of it.
    """
    b = u8_pointer(address)
    offsets, times, kinds, notes = arrays_of(arrays)
    rows_max, bytes_max, held = limits[L_ROWS_MAX], limits[L_BYTES_MAX], limits[L_HELD]
    row = taken = types.int64(0)
    p, offset_min = cursor[0], cursor[1]
    status = DONE
    while p < stop and end - p >= _ROW_BYTES:
        length = i32(b, p) & 0xFFFFFFFF
        offset = i64(b, p + 4)
        if length > _PAYLOAD_BYTES_MAX:
            status = BAD
            break
        if length > end - p - _ROW_BYTES:
            break
        if offset < offset_min or offset > _OFFSET_MAX:
            status = BAD
            break
        if limits[L_OFFSET_FROM] <= offset < limits[L_OFFSET_TO]:
            millis = types.int64(types.uint64(i64(b, p + 12)) // types.uint64(1000))
            if row == rows_max or (row + held > 0 and taken + length > bytes_max):
                status = FULL
                break
            if is_absurd(millis) and limits[L_TIMES]:
                status = TIME_OVERFLOW
                break
            fields = types.int64(0), types.int64(-1), p + _ROW_BYTES, length
            headers = types.int64(0), types.int64(0), types.int64(0), types.int64(0)
            if begins_enveloped(b, p, length):
                fields, headers, q = read_envelope(b, p, length)
                if q < 0:
                    status = BAD
                    break
            offsets[row] = offset
            times[row] = millis * 1000
            kinds[row] = 0
            note(notes, sums, row, fields, headers)
            sums[N_KEY_BYTES] += max(fields[1], 0)
            sums[N_VALUE_BYTES] += max(fields[3], 0)
            sums[N_KEYS] |= fields[1]
            sums[N_VALUES] |= fields[3]
            row += 1
            taken += length
        offset_min = offset + 1
        p += _ROW_BYTES + length
    cursor[0], cursor[1] = p, offset_min
    sums[N_ROWS], sums[N_TAKEN] = row, taken
    return status
