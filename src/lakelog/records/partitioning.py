"""Which partition a record goes to: what Kafka's clients agree on, so that a key has one partition.

    a key      murmur2 of its bytes, the sign bit cleared, modulo the number of partitions
    no key     any: whoever writes fills a batch of one partition, then one of the next

Both functions bring NumPy, Arrow and LLVM, which are loaded when they are called first.
"""

from typing import TYPE_CHECKING, Any

from lakelog.errors import InvalidInputError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

__all__ = ["hash_keys", "sort_rows"]


def hash_keys(keys: "pa.Array") -> "npt.NDArray[np.int32]":
    """Return Java's murmur2 of each key without its sign bit, and -1 where there is none.

    Raises:
        InvalidInputError: it is no column of bytes.
    """
    import numpy as np
    import pyarrow as pa

    from lakelog.records.kernels import partition as k

    if keys.type != pa.binary():
        raise InvalidInputError(f"keys are {keys.type}: cast them to binary")
    hashes = np.empty(len(keys), np.int32)
    bits, ends, data = keys.buffers()
    if len(keys):
        has_nulls = int(bits is not None and keys.null_count > 0)
        k.hash_keys(
            ends.address + 4 * keys.offset,
            data.address if data is not None else 0,
            bits.address if has_nulls else 0,
            has_nulls,
            keys.offset,
            hashes,
        )
    return hashes


def sort_rows(
    partitions: "npt.NDArray[np.int32]", count: int
) -> "tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]":
    """Return rows by partition, in their order within each, and where the rows of each end.

    Raises:
        InvalidInputError: a partition is not one of ``count``.
    """
    import numpy as np

    from lakelog.records.kernels import partition as k

    low, high = (int(partitions.min()), int(partitions.max())) if len(partitions) else (0, -1)
    if low < 0 or high >= count:
        raise InvalidInputError(f"partitions from {low} to {high}, and there are {count}")
    order: npt.NDArray[Any] = np.empty(len(partitions), np.int64)
    ends: npt.NDArray[Any] = np.zeros(count, np.int64)
    k.sort_rows(np.ascontiguousarray(partitions), ends, order)
    return order, ends
