"""The compiled loops that share rows out: hash keys as Kafka clients do, sort rows by partition.

    hash_keys   a column of keys -> a number of 31 bits for each, -1 for a null
    sort_rows   the partition of each row -> rows by partition, in their order within each

The hash is Java's ``murmur2`` with its sign bit cleared, which is what the Java client takes modulo
the number of partitions. It computes with 32 bits that overflow; here they are the lower half of a
64-bit number, which is cut after every product.

Rows are counted before they are placed, so sorting them is two passes, whatever their order is.
"""

from numba import njit, types

from lakelog.records.kernels.primitives import I64, I64S, byte, i32_pointer, u8_pointer
from lakelog.records.kernels.source import length_of

__all__ = ["hash_keys", "sort_rows"]

BUILT_FROM = "ec0f442c5447"
"""Digest of what is compiled into these kernels from other files; see ``decode``."""

_I32 = types.int32[::1]
_READ_I32 = types.Array(types.int32, 1, "C", readonly=True)
_SEED = 0x9747B28C
_M = 0x5BD1E995
_LOW = 0xFFFFFFFF


@njit(forceinline=True)
def _murmur2(keys, start, length):
    h = types.int64(_SEED) ^ length
    p, end = start, start + (length & ~types.int64(3))
    while p < end:
        k = byte(keys, p) | byte(keys, p + 1) << 8 | byte(keys, p + 2) << 16
        k = (k | byte(keys, p + 3) << 24) * _M & _LOW
        k = (k ^ k >> 24) * _M & _LOW
        h = h * _M & _LOW ^ k
        p += 4
    left = length & 3
    if left == 3:
        h ^= byte(keys, p + 2) << 16
    if left >= 2:
        h ^= byte(keys, p + 1) << 8
    if left >= 1:
        h = (h ^ byte(keys, p)) * _M & _LOW
    h = (h ^ h >> 13) * _M & _LOW
    return h ^ h >> 15


@njit(types.void(I64, I64, I64, I64, I64, _I32), cache=True, nogil=True)
def hash_keys(ends_address, keys_address, bits_address, has_nulls, bit, hashes):
    """Hash every key of a column, whose buffers are given by their addresses."""
    ends, keys = i32_pointer(ends_address), u8_pointer(keys_address)
    bits = u8_pointer(bits_address)
    for row in range(hashes.shape[0]):
        length = length_of(ends, bits, has_nulls, bit, row)
        if length < 0:
            hashes[row] = -1
        else:
            hashes[row] = _murmur2(keys, types.int64(ends[row]), length) & 0x7FFFFFFF


@njit(types.void(_READ_I32, I64S, I64S), cache=True, nogil=True)
def sort_rows(partitions, ends, order):
    """Write rows by partition into ``order``, and where each partition ends there into ``ends``.

    ``ends`` has a zero for every partition; each row must be of one of them.
    """
    for row in range(partitions.shape[0]):
        ends[partitions[row]] += 1
    total = types.int64(0)
    for partition in range(ends.shape[0]):
        count = ends[partition]
        ends[partition] = total
        total += count
    for row in range(partitions.shape[0]):
        partition = partitions[row]
        order[ends[partition]] = row
        ends[partition] += 1
