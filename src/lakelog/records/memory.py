"""Memory for columns that is used again, but never while somebody holds it.

Fresh memory is slow: the system hands it out page by page, zeroed, on first touch, and for columns
that costs as much as decoding them. A ``Pool`` lends blocks instead. What it lends is an Arrow
buffer whose owner is a lease; when the last reference to the buffer goes, wherever that is, Python
deletes the lease, and the lease gives its block back.

A pool keeps no more than ``kept_bytes_max`` of idle memory, and belongs to one decoder or encoder.
"""

from typing import Any

import numpy.typing as npt
import pyarrow as pa

__all__ = ["Array", "Pool"]

Array = npt.NDArray[Any]

_KEPT_BYTES_MAX = 64 * 1024 * 1024
_LEAST = 1024
_NOTHING = pa.py_buffer(b"")


class Pool:
    """Blocks of memory, lent as Arrow buffers."""

    def __init__(self, kept_bytes_max: int = _KEPT_BYTES_MAX) -> None:
        self._idle: dict[int, list[pa.Buffer]] = {}
        self._kept_bytes = 0
        self._kept_bytes_max = kept_bytes_max

    def lend(self, size: int) -> pa.Buffer:
        """Return at least ``size`` bytes; what they hold is left over from someone else.

        Kernels write through the buffer's address: to everyone else it is read-only.
        """
        if size == 0:
            return _NOTHING
        capacity = _capacity(size)
        blocks = self._idle.get(capacity)
        if blocks:
            block = blocks.pop()
            self._kept_bytes -= capacity
        else:
            block = pa.allocate_buffer(capacity)
        return pa.foreign_buffer(block.address, capacity, _Lease(self, block))

    def give_back(self, block: pa.Buffer) -> None:
        if self._kept_bytes + block.size <= self._kept_bytes_max:
            self._idle.setdefault(block.size, []).append(block)
            self._kept_bytes += block.size


class _Lease:
    """Owns a lent block; its end is the end of the loan."""

    __slots__ = ("_block", "_pool")

    def __init__(self, pool: Pool, block: pa.Buffer) -> None:
        self._pool = pool
        self._block = block

    def __del__(self) -> None:
        self._pool.give_back(self._block)


def _capacity(size: int) -> int:
    """Round up to one of four steps between two powers of two, so that sizes meet again."""
    if size <= _LEAST:
        return _LEAST
    step = 1 << ((size - 1).bit_length() - 3)
    return (size + step - 1) // step * step
