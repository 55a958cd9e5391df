"""A data file as it grows in memory: what the writers of all formats have in common.

The memory is Arrow's, whose allocator keeps what was freed and asks for large pages: fresh memory,
handed out by the system in pages of 4 KiB, can cost more than all else that is done to a record
before it is compressed. Much is asked for at first, because what is never touched costs nothing,
and outgrowing it means a copy. What was written is handed out as it lies there.

Offsets must rise over all of a segment, not only within one Arrow batch, and none may lie below the
base offset that the file will be named after.
"""

import pyarrow as pa

from lakelog.errors import InvalidInputError
from lakelog.formats.contract import Bytes

__all__ = ["Growing", "SegmentFiles"]

SegmentFiles = dict[str, pa.Buffer | bytes]
"""The files of a segment, by suffix."""

_BYTES_AT_FIRST = 256 * 1024 * 1024


class Growing:
    """The bytes of the data file so far, and which offsets are in them."""

    def __init__(self, base_offset: int | None, *, head_bytes: int = 0) -> None:
        self.base_offset, self.size = base_offset, head_bytes
        self.first = self.last = -1
        self.count = 0
        self.memory = pa.allocate_buffer(_BYTES_AT_FIRST, resizable=True)

    def grow(self, size: int) -> None:
        """Make room for ``size`` bytes in all. Addresses and views from before are void then."""
        if size > self.memory.size:
            self.memory.resize(max(size, 2 * self.memory.size))

    def append(self, data: Bytes) -> None:
        end = self.size + len(data)
        self.grow(end)
        memoryview(self.memory).cast("B")[self.size : end] = data
        self.size = end

    def view(self) -> memoryview:
        """Return the bytes so far, to be read or changed."""
        return memoryview(self.memory).cast("B")[: self.size]

    def buffer(self) -> pa.Buffer:
        """Return the bytes so far, for good: nothing may be appended any more."""
        return self.memory.slice(0, self.size)

    def follow(self, columns: pa.RecordBatch) -> None:
        """Take note of columns whose offsets rise, and are behind those before them."""
        offsets = columns.column("offset")
        first = offsets[0].as_py()
        if first <= self.last:
            raise InvalidInputError(
                f"offset {first} behind {self.last}; sort the records of a segment by offset"
            )
        if self.count == 0:
            if first < (self.base_offset or 0):
                raise InvalidInputError(
                    f"the records begin at {first}, below base offset {self.base_offset}; "
                    "name the segment after its first record"
                )
            self.first = first
        self.last = offsets[-1].as_py()
        self.count += columns.num_rows
