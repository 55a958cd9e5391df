"""The compiled loops of compaction: hash keys, note the newest offset of each, weigh records by it.

    note_keys       bodies -> the table of slots
    weigh_records   bodies, slots -> a byte per record, kept or not, and sums per batch

A slot is three numbers: two hashes of a key and the offset behind its newest record; 0 there is an
empty slot. The table is larger than any cache, so every look into it waits for memory. Records are
therefore taken in blocks: a block is parsed and hashed, its slots are asked for ahead of time, and
only then looked at, which lets the waits overlap.

The hash is a polynomial whose coefficients are the key's length and its bytes, seven at a time,
taken at two secret points of the prime field of 2^61 - 1. Two keys are two polynomials, and they
agree at a random point only if it is a root of their difference, which has no more roots than its
degree. So for keys of up to n bytes, chosen without knowing the points, the chance that two of
them collide is at most ((n / 7 + 1) / 2^61)^2. This bound is proven; most fast hashes have none.

As in ``decode``, nothing here judges: BAD, and the plain codec says what is wrong.
"""

from llvmlite import ir  # type: ignore[import-untyped]
from numba import njit, types
from numba.extending import intrinsic

from lakelog.records.kernels.fields import (
    BAD,
    DONE,
    FULL,
    T_ATTRIBUTES,
    T_BASE_OFFSET,
    T_BASE_TIME,
    T_BODY,
    T_BODY_END,
    T_COUNT,
    T_LAST_DELTA,
    T_MAX_TIME,
)
from lakelog.records.kernels.primitives import (
    I64,
    I64S,
    READ_I64S,
    READ_TABLE,
    TABLE,
    byte,
    i64_pointer,
    read_record,
    u8_pointer,
    word_at,
)

__all__ = ["find_key", "note_keys", "put_slots", "weigh_records"]

BUILT_FROM = "ec0f442c5447"
"""Digest of what is compiled into these kernels from other files; see ``decode``."""

# A map, in one array: the points of the hash, the slots and where they are, what is in them, and
# the offset before which everything is noted.
M_POINT_1, M_POINT_2, M_ADDRESS, M_SLOTS, M_KEYS, M_KEYS_MAX, M_END = 0, 1, 2, 3, 4, 5, 6
MAP_WIDTH = 7
SLOT_WIDTH = 3

# What is to be done with the records of a batch: look at their keys, keep them all, drop them all.
BY_KEY, KEEP, DROP = 0, 1, 2

# What ``weigh_records`` says of a batch. Times are those of the records that are kept.
W_KEPT, W_TOMBSTONES, W_FIRST_TIME, W_MAX_TIME = 0, 1, 2, 3
WEIGHT_WIDTH = 4

# A block, in a scratch array: these numbers of each of its records. In place of a slot there may
# be a verdict.
B_HASH_1, B_HASH_2, B_SLOT, B_OFFSET, B_TIME, B_VALUE_LENGTH = 0, 1, 2, 3, 4, 5
BLOCK_WIDTH = 6
BLOCK = 64
_ASK, _STAYS, _GOES = -3, -2, -1

_U = types.uint64
_PRIME = (1 << 61) - 1
_WORD_BYTES = 7
_WORD_MASK = (1 << 56) - 1
_APPEND_TIME, _CONTROL, _HORIZON = 0x08, 0x20, 0x40


@intrinsic
def _high(context, x, y):  # noqa: ARG001
    """The upper half of a product of 128 bits."""

    def generate(context, builder, signature, args):  # noqa: ARG001
        wide = ir.IntType(128)
        product = builder.mul(builder.zext(args[0], wide), builder.zext(args[1], wide))
        return builder.trunc(builder.lshr(product, wide(64)), ir.IntType(64))

    return types.uint64(types.uint64, types.uint64), generate


@intrinsic
def _ask_for(context, pointer, at):  # noqa: ARG001
    """Tell the memory that the number at ``at`` will be wanted soon."""

    def generate(context, builder, signature, args):  # noqa: ARG001
        i32 = ir.IntType(32)
        pointer = builder.gep(args[0], [args[1]])
        pointer = builder.bitcast(pointer, ir.IntType(8).as_pointer())
        kind = ir.FunctionType(ir.VoidType(), [pointer.type, i32, i32, i32])
        prefetch = builder.module.declare_intrinsic("llvm.prefetch", [pointer.type], kind)
        builder.call(prefetch, [pointer, i32(0), i32(3), i32(1)])
        return context.get_dummy_value()

    return types.void(pointer, types.int64), generate


@njit(forceinline=True)
def _step(h, point, word):
    """``h * point + word`` in the field, not quite reduced: below 2^61 + 8."""
    low, high = h * point, _high(h, point)
    total = (low & _U(_PRIME)) + (low >> _U(61) | high << _U(3)) + word
    return (total & _U(_PRIME)) + (total >> _U(61))


@njit(forceinline=True)
def _reduce(h):
    h = (h & _U(_PRIME)) + (h >> _U(61))
    return types.int64(h - _U(_PRIME)) if h >= _U(_PRIME) else types.int64(h)


@njit(forceinline=True)
def _hash(b, p, length, end, point_1, point_2):
    """Both hashes of the key at ``p``. Two bytes behind it can be read, and all before ``end``."""
    h1 = h2 = _U(length)
    stop = p + length
    while stop - p >= _WORD_BYTES:
        word = word_at(b, p) & _U(_WORD_MASK)
        h1, h2 = _step(h1, point_1, word), _step(h2, point_2, word)
        p += _WORD_BYTES
    if p < stop:
        if end - p >= 8:
            word = word_at(b, p) & ((_U(1) << _U(8 * (stop - p))) - _U(1))
        else:
            word = _U(0)
            for i in range(stop - p):
                word |= _U(byte(b, p + i)) << _U(8 * i)
        h1, h2 = _step(h1, point_1, word), _step(h2, point_2, word)
    return _reduce(h1), _reduce(h2)


@njit(forceinline=True)
def _slot_of(h1, h2, slots):
    """Where to begin looking. Keys that count up must not become slots that do: mix the bits."""
    x = _U(h1) ^ (_U(h2) << _U(3))
    x = (x ^ x >> _U(33)) * _U(0xFF51AFD7ED558CCD)
    x = (x ^ x >> _U(33)) * _U(0xC4CEB9FE1A85EC53)
    return types.int64(_high(x ^ x >> _U(33), _U(slots)))


@njit(forceinline=True)
def _find(table, slots, slot, h1, h2):
    """The slot of a key: where it is, or the empty one where it would be."""
    while True:
        at = SLOT_WIDTH * slot
        if table[at + 2] == 0 or (table[at] == h1 and table[at + 1] == h2):
            return at
        slot += 1
        if slot == slots:
            slot = types.int64(0)


@njit(forceinline=True)
def _put(table, slots, slot, h1, h2, next_offset, keys, keys_max):
    """Note an offset; return how many keys there are now, -1 if there is no room for one more."""
    at = _find(table, slots, slot, h1, h2)
    if table[at + 2] == 0:
        if keys == keys_max:
            return types.int64(-1)
        table[at], table[at + 1] = h1, h2
        keys += 1
    table[at + 2] = max(table[at + 2], next_offset)
    return keys


@njit(I64(I64, READ_TABLE, I64S, I64, I64S, I64S), cache=True, nogil=True)
def note_keys(address, batches, the_map, offset_from, scratch, out):
    """Note the keys of ``batches`` from ``offset_from`` on, whose bodies lie at ``address``.

    Control records and records without a key are passed over. Leaves in ``out`` the batch at which
    it stopped, and adds how many records it has seen. FULL: there is a key for which there is no
    room, and the map ends before its record.
    """
    b, block = u8_pointer(address), i64_pointer(scratch.ctypes.data)
    table, slots = i64_pointer(the_map[M_ADDRESS]), the_map[M_SLOTS]
    point_1, point_2 = _U(the_map[M_POINT_1]), _U(the_map[M_POINT_2])
    keys, keys_max = the_map[M_KEYS], the_map[M_KEYS_MAX]
    status = DONE
    for index in range(batches.shape[0]):
        out[0] = index
        base, last_delta = batches[index, T_BASE_OFFSET], batches[index, T_LAST_DELTA]
        wanted = batches[index, T_ATTRIBUTES] & _CONTROL == 0
        p, end = batches[index, T_BODY], batches[index, T_BODY_END]
        record, count, last = types.int64(0), batches[index, T_COUNT], types.int64(-1)
        while record < count and status == DONE:
            n = types.int64(0)
            while n < BLOCK and record < count:
                frame, fields, _headers = read_record(
                    b, p, end, last, last_delta, batches[index, T_BASE_TIME]
                )
                (stop, last, _time), (key, length, _value, _value_length) = frame, fields
                if stop < 0:
                    status = BAD
                    break
                p = stop
                record += 1
                if wanted and length >= 0 and base + last >= offset_from:
                    h1, h2 = _hash(b, key, length, end, point_1, point_2)
                    at, slot = BLOCK_WIDTH * n, _slot_of(h1, h2, slots)
                    _ask_for(table, SLOT_WIDTH * slot)
                    block[at + B_HASH_1], block[at + B_HASH_2] = h1, h2
                    block[at + B_SLOT], block[at + B_OFFSET] = slot, base + last
                    n += 1
            for i in range(n):
                at = BLOCK_WIDTH * i
                h1, h2, offset = block[at + B_HASH_1], block[at + B_HASH_2], block[at + B_OFFSET]
                held = _put(table, slots, block[at + B_SLOT], h1, h2, offset + 1, keys, keys_max)
                if held < 0:
                    status = FULL
                    the_map[M_END] = max(the_map[M_END], offset)
                    break
                keys = held
                out[1] += 1
        if status == DONE and p != end:
            status = BAD
        if status != DONE:
            break
        the_map[M_END] = max(the_map[M_END], base + last_delta + 1)
    the_map[M_KEYS] = keys
    return status


@njit(I64(READ_TABLE, I64S), cache=True, nogil=True)
def put_slots(filled, the_map):
    """Put slots of another map with the same points into this one; FULL if they do not fit."""
    table, slots = i64_pointer(the_map[M_ADDRESS]), the_map[M_SLOTS]
    for i in range(filled.shape[0]):
        h1, h2, next_offset = filled[i, 0], filled[i, 1], filled[i, 2]
        slot = _slot_of(h1, h2, slots)
        keys = the_map[M_KEYS]
        held = _put(table, slots, slot, h1, h2, next_offset, keys, the_map[M_KEYS_MAX])
        if held < 0:
            return FULL
        the_map[M_KEYS] = held
    return DONE


@njit(I64(I64, I64, READ_I64S), cache=True, nogil=True)
def find_key(address, length, the_map):
    """The offset of one key, -1 if it is not there; two bytes behind the key can be read."""
    b, slots = u8_pointer(address), the_map[M_SLOTS]
    h1, h2 = _hash(b, 0, length, length, _U(the_map[M_POINT_1]), _U(the_map[M_POINT_2]))
    table = i64_pointer(the_map[M_ADDRESS])
    return table[_find(table, slots, _slot_of(h1, h2, slots), h1, h2) + 2] - 1


@njit(forceinline=True)
def _verdict(order, is_noted, key_length, value_length, keep_dead):
    """Whether a record stays or goes, if that can be said without its key; else ASK."""
    if order != BY_KEY:
        return _STAYS if order == KEEP else _GOES
    if not is_noted:
        return _STAYS
    if key_length < 0 or (value_length < 0 and not keep_dead):
        return _GOES
    return _ASK


@njit(I64(I64, READ_TABLE, READ_I64S, READ_I64S, I64, I64, TABLE, I64S), cache=True, nogil=True)
def weigh_records(address, batches, orders, the_map, now, keep_address, weights, scratch):
    """Say of each record whether it is kept, a byte each; leave a row of ``weights`` per batch.

    ``orders`` says what decides in each batch. BAD: at the batch that has -1 for its records kept.
    """
    b, keep = u8_pointer(address), u8_pointer(keep_address)
    block = i64_pointer(scratch.ctypes.data)
    table, slots, map_end = i64_pointer(the_map[M_ADDRESS]), the_map[M_SLOTS], the_map[M_END]
    point_1, point_2 = _U(the_map[M_POINT_1]), _U(the_map[M_POINT_2])
    weighed = types.int64(0)
    for index in range(batches.shape[0]):
        base, last_delta = batches[index, T_BASE_OFFSET], batches[index, T_LAST_DELTA]
        base_time, attributes = batches[index, T_BASE_TIME], batches[index, T_ATTRIBUTES]
        keep_dead = attributes & _HORIZON == 0 or now < base_time
        p, end, order = batches[index, T_BODY], batches[index, T_BODY_END], orders[index]
        record, count, last = types.int64(0), batches[index, T_COUNT], types.int64(-1)
        kept = tombstones = first_time = types.int64(0)
        max_time = types.int64(-1)
        weights[index, W_KEPT] = -1
        while record < count:
            n = min(BLOCK, count - record)
            for i in range(n):
                frame, fields, _headers = read_record(b, p, end, last, last_delta, base_time)
                (p, last, time), (key, length, _value, value_length) = frame, fields
                if p < 0:
                    return BAD
                at, offset = BLOCK_WIDTH * i, base + last
                slot = _verdict(order, offset < map_end, length, value_length, keep_dead)
                if slot == _ASK:
                    h1, h2 = _hash(b, key, length, end, point_1, point_2)
                    slot = _slot_of(h1, h2, slots)
                    _ask_for(table, SLOT_WIDTH * slot)
                    block[at + B_HASH_1], block[at + B_HASH_2] = h1, h2
                block[at + B_SLOT], block[at + B_OFFSET] = slot, offset
                block[at + B_TIME], block[at + B_VALUE_LENGTH] = time, value_length
            for i in range(n):
                at = BLOCK_WIDTH * i
                slot = block[at + B_SLOT]
                stays = slot == _STAYS
                if slot >= 0:
                    found = _find(table, slots, slot, block[at + B_HASH_1], block[at + B_HASH_2])
                    stays = table[found + 2] <= block[at + B_OFFSET] + 1
                keep[weighed + i] = types.uint8(stays)
                if stays:
                    first_time = block[at + B_TIME] if kept == 0 else first_time
                    max_time = max(max_time, block[at + B_TIME])
                    kept += 1
                    tombstones += block[at + B_VALUE_LENGTH] < 0
            record += n
            weighed += n
        if p != end:
            return BAD
        if attributes & _APPEND_TIME:
            first_time = max_time = batches[index, T_MAX_TIME]
        weights[index, W_KEPT], weights[index, W_TOMBSTONES] = kept, tombstones
        weights[index, W_FIRST_TIME], weights[index, W_MAX_TIME] = first_time, max_time
    return DONE
