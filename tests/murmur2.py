"""Java's murmur2, written to be read: the judge of the compiled one."""

__all__ = ["murmur2", "partition_of"]

_SEED = 0x9747B28C
_M = 0x5BD1E995
_LOW = 0xFFFFFFFF
_POSITIVE = 0x7FFFFFFF


def murmur2(data: bytes) -> int:
    """Return the hash of a key in 32 bits, as Java's client has it; there it is signed."""
    h = _SEED ^ len(data)
    whole = len(data) & ~3
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little") * _M & _LOW
        k = (k ^ k >> 24) * _M & _LOW
        h = h * _M & _LOW ^ k
    if whole < len(data):
        h = (h ^ int.from_bytes(data[whole:], "little")) * _M & _LOW
    h = (h ^ h >> 13) * _M & _LOW
    return h ^ h >> 15


def partition_of(key: bytes, partitions: int) -> int:
    """Return the partition that every client of Kafka with murmur2 chooses for a key."""
    return (murmur2(key) & _POSITIVE) % partitions
