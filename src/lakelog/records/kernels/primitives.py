"""What all kernels are made of: pointers, varints, bits.

These compile into their callers. They work on raw pointers, not on arrays, for speed: Numba counts
references to an array whenever it is handed to a function, and asks of every index whether it is
negative. The price is that nothing here checks a bound; the callers do, before they come.
"""

from llvmlite import ir  # type: ignore[import-untyped]
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

__all__ = [
    "byte",
    "check_headers",
    "clear_bit",
    "copy",
    "i32",
    "i32_pointer",
    "i64",
    "i64_pointer",
    "is_null",
    "move",
    "put_field",
    "put_int",
    "put_varint",
    "put_word",
    "read_record",
    "skip_field",
    "u8_pointer",
    "varint",
    "varint_size",
    "varlong",
    "word_at",
]

# What kernels take: a number; numbers, and such that are only read; tables of numbers, likewise.
I64, I64S = types.int64, types.int64[::1]
READ_I64S = types.Array(types.int64, 1, "C", readonly=True)
TABLE = types.int64[:, ::1]
READ_TABLE = types.Array(types.int64, 2, "C", readonly=True)


def _pointer_to(kind):
    @intrinsic
    def pointer(context, address):  # noqa: ARG001
        def generate(context, builder, signature, args):
            return builder.inttoptr(args[0], context.get_value_type(signature.return_type))

        return types.CPointer(kind)(types.int64), generate

    return pointer


u8_pointer = _pointer_to(types.uint8)
i32_pointer = _pointer_to(types.int32)
i64_pointer = _pointer_to(types.int64)


@intrinsic
def _copy_any(context, to, to_at, source, source_at, count):  # noqa: ARG001
    def generate(context, builder, signature, args):  # noqa: ARG001
        to, to_at, source, source_at, count = args
        target, origin = builder.gep(to, [to_at]), builder.gep(source, [source_at])
        cgutils.raw_memcpy(builder, target, origin, count, 1)
        return context.get_dummy_value()

    return types.void(to, types.int64, source, types.int64, types.int64), generate


def _copy_of(count):
    @intrinsic
    def copy_fixed(context, to, to_at, source, source_at):  # noqa: ARG001
        def generate(context, builder, signature, args):  # noqa: ARG001
            to, to_at, source, source_at = args
            size = context.get_constant(types.int64, count)
            target, origin = builder.gep(to, [to_at]), builder.gep(source, [source_at])
            cgutils.raw_memcpy(builder, target, origin, size, 1)
            return context.get_dummy_value()

        return types.void(to, types.int64, source, types.int64), generate

    return copy_fixed


_copy_4, _copy_8, _copy_16 = _copy_of(4), _copy_of(8), _copy_of(16)
_copy_32, _copy_64 = _copy_of(32), _copy_of(64)


@intrinsic
def word_at(context, b, p):  # noqa: ARG001
    """Eight bytes from ``p`` on, wherever that is, the first of them lowest."""

    def generate(context, builder, signature, args):  # noqa: ARG001
        pointer = builder.gep(args[0], [args[1]])
        pointer = builder.bitcast(pointer, ir.IntType(64).as_pointer())
        return builder.load(pointer, align=1)

    return types.uint64(b, types.int64), generate


@intrinsic
def put_word(context, out, p, word):  # noqa: ARG001
    """Write eight bytes at ``p``, the lowest of them first."""

    def generate(context, builder, signature, args):  # noqa: ARG001
        pointer = builder.gep(args[0], [args[1]])
        pointer = builder.bitcast(pointer, ir.IntType(64).as_pointer())
        builder.store(args[2], pointer, align=1)
        return context.get_dummy_value()

    return types.void(out, types.int64, types.uint64), generate


@njit(forceinline=True)
def copy(to, to_at, source, source_at, count):
    """Copy ``count`` bytes between memory that does not overlap.

    Keys and values are short, and for short copies the call of memcpy costs more than the copy. A
    length between 17 and 32, say, is two copies of 16 that meet or overlap in the middle.
    """
    if count > 128:
        _copy_any(to, to_at, source, source_at, count)
    elif count > 64:
        _copy_64(to, to_at, source, source_at)
        _copy_64(to, to_at + count - 64, source, source_at + count - 64)
    elif count > 32:
        _copy_32(to, to_at, source, source_at)
        _copy_32(to, to_at + count - 32, source, source_at + count - 32)
    elif count > 16:
        _copy_16(to, to_at, source, source_at)
        _copy_16(to, to_at + count - 16, source, source_at + count - 16)
    elif count >= 8:
        _copy_8(to, to_at, source, source_at)
        _copy_8(to, to_at + count - 8, source, source_at + count - 8)
    elif count >= 4:
        _copy_4(to, to_at, source, source_at)
        _copy_4(to, to_at + count - 4, source, source_at + count - 4)
    else:
        for i in range(count):
            to[to_at + i] = source[source_at + i]


@intrinsic
def move(context, memory, to, source, count):  # noqa: ARG001
    """Copy ``count`` bytes within one memory, where the two places may overlap."""

    def generate(context, builder, signature, args):  # noqa: ARG001
        memory, to, source, count = args
        target, origin = builder.gep(memory, [to]), builder.gep(memory, [source])
        cgutils.raw_memmove(builder, target, origin, count, 1)
        return context.get_dummy_value()

    return types.void(memory, types.int64, types.int64, types.int64), generate


@njit(forceinline=True)
def byte(b, p):
    return types.int64(b[p])


@njit(forceinline=True)
def i32(b, p):
    value = byte(b, p) << 24 | byte(b, p + 1) << 16 | byte(b, p + 2) << 8 | byte(b, p + 3)
    return (value ^ 0x80000000) - 0x80000000


@njit(forceinline=True)
def i64(b, p):
    return i32(b, p) << 32 | (i32(b, p + 4) & 0xFFFFFFFF)


@njit
def _long_varint(b, p, end):
    raw = types.int64(0)
    for i in range(5):
        if p + i >= end:
            break
        c = byte(b, p + i)
        raw |= (c & 0x7F) << (7 * i)
        if c < 0x80:
            if raw >> 32:
                break
            return (raw >> 1) ^ -(raw & 1), p + i + 1
    return types.int64(0), types.int64(-1)


@njit
def _long_varlong(b, p, end):
    raw = types.uint64(0)
    for i in range(10):
        if p + i >= end:
            break
        c = byte(b, p + i)
        raw |= types.uint64(c & 0x7F) << types.uint64(7 * i)
        if c < 0x80:
            if i == 9 and c > 1:
                break
            half = types.int64(raw >> types.uint64(1))
            return half ^ -types.int64(raw & types.uint64(1)), p + i + 1
    return types.int64(0), types.int64(-1)


def _varint_reader(read_long):
    """Return what reads a number: one or two bytes in place, more by ``read_long``."""

    @njit(forceinline=True)
    def read(b, p, end):
        if p < end:
            c = byte(b, p)
            if c < 0x80:
                return (c >> 1) ^ -(c & 1), p + 1
            if p + 1 < end:
                d = byte(b, p + 1)
                if d < 0x80:
                    c = (c & 0x7F) | d << 7
                    return (c >> 1) ^ -(c & 1), p + 2
        return read_long(b, p, end)

    return read


varint = _varint_reader(_long_varint)
"""Value and the position behind it, which is -1 when there is no 32-bit varint here."""
varlong = _varint_reader(_long_varlong)
"""The same for 64 bits: at most ten bytes, the tenth holding the one bit that is left."""


@njit(forceinline=True)
def varint_size(value):
    """Bytes of a varint. Most take one or two, and those are found without a loop."""
    u = types.uint64((value << 1) ^ (value >> 63))
    if u < types.uint64(0x80):
        return 1
    if u < types.uint64(0x4000):
        return 2
    n = 3
    while u >= types.uint64(0x200000):
        u >>= types.uint64(7)
        n += 1
    return n


@njit(forceinline=True)
def put_varint(out, p, value):
    """Write ``value``, of up to 64 bits, and return the position behind it."""
    u = types.uint64((value << 1) ^ (value >> 63))
    if u < types.uint64(0x80):
        out[p] = types.uint8(u)
        return p + 1
    if u < types.uint64(0x4000):
        out[p] = types.uint8(u | types.uint64(0x80))
        out[p + 1] = types.uint8(u >> types.uint64(7))
        return p + 2
    while u >= types.uint64(0x80):
        out[p] = types.uint8(u | types.uint64(0x80))
        u >>= types.uint64(7)
        p += 1
    out[p] = types.uint8(u)
    return p + 1


@njit(forceinline=True)
def put_int(out, p, value, width):
    """Write ``value`` big-endian in ``width`` bytes."""
    for i in range(width):
        out[p + i] = types.uint8((value >> (8 * (width - 1 - i))) & 0xFF)


@njit(forceinline=True)
def put_field(out, p, data, start, length):
    """Write a nullable field; a length of -1 is null."""
    p = put_varint(out, p, length)
    if length > 0:
        copy(out, p, data, start, length)
        p += length
    return p


@njit(forceinline=True)
def skip_field(b, p, end):
    """Length of a nullable field, where its bytes begin, where they end; -1 there when bad."""
    length, p = varint(b, p, end)
    if p < 0 or length < -1 or length > end - p:
        return types.int64(0), types.int64(0), types.int64(-1)
    return length, p, p + max(length, 0)


@njit(forceinline=True)
def check_headers(b, p, end):
    """Count of headers, bytes of their keys and values, the position behind them (-1: bad)."""
    bad = types.int64(0), types.int64(0), types.int64(0), types.int64(-1)
    count, p = varint(b, p, end)
    if p < 0 or count < 0 or count > (end - p) // 2:
        return bad
    key_bytes = value_bytes = types.int64(0)
    for _ in range(count):
        length, _start, p = skip_field(b, p, end)
        if p < 0 or length < 0:
            return bad
        key_bytes += length
        length, _start, p = skip_field(b, p, end)
        if p < 0:
            return bad
        value_bytes += max(length, 0)
    return count, key_bytes, value_bytes, p


@njit(forceinline=True)
def clear_bit(bits, i):
    bits[i >> 3] = bits[i >> 3] & types.uint8(0xFF ^ (1 << (i & 7)))


@njit(forceinline=True)
def is_null(bits, nulls, i):
    return nulls != 0 and (byte(bits, i >> 3) >> (i & 7)) & 1 == 0


@njit(forceinline=True)
def read_record(b, p, end, last, last_delta, base_time):
    """A record, every byte of it checked, in three parts.

    Where it ends (-1: bad), its offset delta and its time; where its key and its value are, and
    their lengths; where its headers are, how many, and the bytes of their keys and values.
    """
    none = types.int64(0)
    bad = (types.int64(-1), last, base_time), (p, p, p, p), (p, none, none, none)
    length, q = varint(b, p, end)
    if q < 0 or length < 1 or length > end - q:
        return bad
    stop = q + length
    time_delta, q = varlong(b, q + 1, stop)
    if q < 0:
        return bad
    delta, q = varint(b, q, stop)
    if q < 0 or delta <= last or delta > last_delta:
        return bad
    key_length, key, q = skip_field(b, q, stop)
    if q < 0:
        return bad
    value_length, value, q = skip_field(b, q, stop)
    if q < 0:
        return bad
    headers, count, key_bytes, value_bytes = q, none, none, none
    if q == stop - 1 and b[q] == 0:
        q = stop
    else:
        count, key_bytes, value_bytes, q = check_headers(b, q, stop)
    time = base_time + time_delta
    if q != stop or ((base_time ^ time) & (time_delta ^ time)) < 0:
        return bad
    fields = key, key_length, value, value_length
    return (stop, delta, time), fields, (headers, count, key_bytes, value_bytes)
