"""Offset maps of more keys than one process can hold: scattered by hash, sorted bucket by bucket.

    segment  --its own map-->  slots, by bucket            where its keys stand last in it
    bucket   --sort-->         of each hash the newest     for each segment, what outdates its keys
    segment  --its own map, and those slots-->             the map that a ``Cleaner`` needs for it

The keys of one segment fit wherever the segment fits. So a log is cleaned segment by segment, each
with a map of its own keys alone: where they stand last in it, and for those that stand again
further on, where they stand last of all. Only slots travel, 24 bytes for a key of a segment; never
keys, and never values. A bucket holds all slots of the hashes that fall into it, from everywhere.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from lakelog.records.kernels.clean import SLOT_WIDTH
from lakelog.records.memory import Array

__all__ = ["buckets_for", "outdating", "scatter"]

_SLOT_BYTES = 8 * SLOT_WIDTH
_SORTING = 4
"""How often a bucket is in memory while it is sorted."""


def buckets_for(keys: int, memory_bytes: int) -> int:
    """Return into how many buckets slots of so many keys go, if each is to fit into memory."""
    return max(1, -(-keys * _SLOT_BYTES * _SORTING // memory_bytes))


def scatter(slots: Array, buckets: int) -> Iterator[tuple[int, bytes]]:
    """Yield the slots of each bucket that there are some for."""
    bucket = slots[:, 0] % buckets
    order = np.argsort(bucket, kind="stable")
    bounds = np.flatnonzero(np.diff(bucket[order])) + 1
    for some in np.split(order, bounds):
        if len(some):
            yield int(bucket[some[0]]), slots[some].tobytes()


def outdating(blocks: Sequence[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
    """Yield for each segment what outdates keys of it; ``blocks`` is a bucket, with segments."""
    every = np.concatenate([_slots(block) for _, block in blocks])
    segments = np.repeat(
        np.array([segment for segment, _ in blocks], np.int64),
        [len(block) // _SLOT_BYTES for _, block in blocks],
    )
    order = np.lexsort((every[:, 2], every[:, 1], every[:, 0]))
    every, segments = every[order], segments[order]
    is_last = np.ones(len(every), bool)
    is_last[:-1] = (every[1:, :2] != every[:-1, :2]).any(axis=1)
    # Of each slot, the last one of its hash: the first that is one, from there on.
    ends = np.flatnonzero(is_last)
    newest = every[ends[np.searchsorted(ends, np.arange(len(every)))]]
    old = np.flatnonzero(~is_last)
    old = old[np.argsort(segments[old], kind="stable")]
    for some in np.split(old, np.flatnonzero(np.diff(segments[old])) + 1):
        if len(some):
            yield int(segments[some[0]]), newest[some].tobytes()


def _slots(block: bytes) -> Array:
    return np.frombuffer(block, np.int64).reshape(-1, SLOT_WIDTH)
