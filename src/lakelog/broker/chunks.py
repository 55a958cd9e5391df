"""Memory that requests are received into.

    | taken | left: the beginning of a frame |        a chunk that is full
            | left | room for what comes next    |    the next one

A chunk begins small and grows with what has really come, never with what a length field promises;
so a short frame that announces a large one costs next to nothing. A frame of which much has come
gets all of its memory at once, from the system, which has it until it is used.
"""

import struct
from mmap import mmap

__all__ = [
    "CHUNK_BYTES_MAX", "CHUNK_BYTES_MIN", "SIZE", "SMALL_BYTES", "grown", "next_chunk",
]  # fmt: skip

CHUNK_BYTES_MIN = 4 << 10
CHUNK_BYTES_MAX = 1 << 20
GROWTH = 2
FRAMES_A_CHUNK = 4
SMALL_BYTES = 64 << 10
"""Also when the budget is spent a connection may have so much: heartbeats must pass."""

SIZE = struct.Struct(">i")
"""Of a frame, before it."""


def next_chunk(left: memoryview, wanted: int) -> bytearray | mmap:
    """Return a chunk that begins with what is left of the one before, and has room for more."""
    size = wanted
    if left:
        size = max(size, GROWTH * len(left))
        if len(left) >= SIZE.size:
            (frame,) = SIZE.unpack_from(left)
            size = min(size, max(SIZE.size + frame, wanted))
            size = SIZE.size + frame if size > CHUNK_BYTES_MAX else size
    if size <= len(left):
        size = len(left) + wanted  # Whole frames that wait to be taken.
    chunk = mmap(-1, size) if size > CHUNK_BYTES_MAX else bytearray(size)
    chunk[: len(left)] = left
    return chunk


def grown(wanted: int, largest: int) -> int:
    """Return how large the next chunk is to be when one was filled, by the largest frame so far.

    A few frames in a chunk: more would keep all of it in memory for one of them.
    """
    return min(GROWTH * wanted, max(FRAMES_A_CHUNK * largest, SMALL_BYTES), CHUNK_BYTES_MAX)
