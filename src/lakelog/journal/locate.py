"""Locating offsets in the journal.

    the newest bundles   their directories are held in memory
    older ones           checkpoints say where every partition ended: bisect them for the first that
                         ends behind the offset; its slice index names the bundles
    without one          read the directories that it would have covered

All of it is about keys at or above the floor that was seen last. Whoever reads bytes there keeps
the head-check rule afterwards.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from lakelog.formats.lanes import BatchRow, Checkpoint, Slice
from lakelog.journal.fold import TopicIdPartition
from lakelog.journal.lane import KnownBundle, Lane
from lakelog.journal.walk import DIRECTORIES_AT_ONCE, read_bundles, read_checkpoint
from lakelog.store import Work

__all__ = ["LocatedSlice", "batches_of", "locate_run", "slices_of"]

ROWS_MAX = 1 << 16
"""Of the checkpoints that a lane keeps for locating: about 16 MiB. They go sooner when the floor
has passed them, since nobody locates anything there any more."""


class LocatedSlice(NamedTuple):
    """A slice, and the bundle it is in."""

    seq: int
    epoch: int
    slice: Slice
    known: KnownBundle | None = None
    """The bundle, if its directory has been read."""


def slices_of(held: KnownBundle, topic_partition: TopicIdPartition) -> Iterator[Slice]:
    """Yield the slices of one partition in a bundle."""
    slices = held.bundle.slices
    at = bisect_left(slices, topic_partition)
    while at < len(slices) and slices[at].topic_partition == topic_partition:
        yield slices[at]
        at += 1


def batches_of(held: KnownBundle, slice_: Slice) -> tuple[BatchRow, ...]:
    """Return the batches of a slice of a bundle."""
    before = 0
    for one in held.bundle.slices:
        if one == slice_:
            break
        before += one.batches
    return held.bundle.batches[before : before + slice_.batches]


def locate_run(
    lane: Lane, topic_partition: TopicIdPartition, offset: int, size_bytes: int = 1
) -> Work[list[LocatedSlice]]:
    """Return the slice that holds an offset and those that follow it, up to so many bytes.

    Empty: the offset is at or behind the end, or below the floor, or has fallen below it.
    """
    known, seen = lane.known, lane.last_look
    assert seen is not None
    if offset >= known.fold.end(topic_partition):
        return []
    found = _run(_placed(known.bundles, topic_partition), offset, size_bytes)
    if found:
        return found
    floor, top = seen.head.floor, known.fold.seq - len(known.bundles)
    every = lane.rules.checkpoint_every
    marks = [*range((floor // every + 1) * every - 1, top, every), top]
    checkpoint, low = yield from _find_index(lane, marks, topic_partition, offset)
    first = max(floor, low + 1)
    if checkpoint is not None:
        lane.slice_index = checkpoint
        rows = (row for row in _indexed(checkpoint, topic_partition) if row.seq >= floor)
        found = _run(rows, offset, size_bytes)
        if found or checkpoint.first <= first:
            return found
    last = top if checkpoint is None else checkpoint.seq
    for seq in range(first, last + 1, DIRECTORIES_AT_ONCE):
        some = yield from read_bundles(lane, range(seq, min(seq + DIRECTORIES_AT_ONCE, last + 1)))
        held = [one for one in some if one is not None]
        found = _run(_placed(held, topic_partition), offset, size_bytes)
        if found:
            return found
    return []


def _placed(
    bundles: Iterable[KnownBundle], topic_partition: TopicIdPartition
) -> Iterator[LocatedSlice]:
    for held in bundles:
        for one in slices_of(held, topic_partition):
            yield LocatedSlice(held.bundle.seq, held.bundle.epoch, one, held)


def _indexed(checkpoint: Checkpoint, topic_partition: TopicIdPartition) -> Iterator[LocatedSlice]:
    """Yield what the slice index of a checkpoint has of a partition."""
    slice_index = checkpoint.slice_index
    at = bisect_left(slice_index, topic_partition, key=lambda row: row.slice.topic_partition)
    # By index: a slice of the slice index would copy all that stands behind it, for every read.
    while at < len(slice_index) and slice_index[at].slice.topic_partition == topic_partition:
        seq, one, epoch = slice_index[at]
        yield LocatedSlice(seq, epoch, one)
        at += 1


def _run(placed: Iterable[LocatedSlice], offset: int, size_bytes: int) -> list[LocatedSlice]:
    """Return the slices from the one that holds ``offset`` on, while they follow each other."""
    found: list[LocatedSlice] = []
    size = 0
    for one in placed:
        base, next_ = one.slice.base_offset, one.slice.next_offset
        if next_ <= offset:
            continue
        full = bool(found) and size + one.slice.length > size_bytes
        if full or base > (found[-1].slice.next_offset if found else offset):
            break
        found.append(one)
        size += one.slice.length
    return found


def _find_index(
    lane: Lane, marks: list[int], topic_partition: TopicIdPartition, offset: int
) -> Work[tuple[Checkpoint | None, int]]:
    """Return the first checkpoint that ends behind ``offset``, and the seq of the mark before it.

    Whoever reads on finds it where they found the last one, or next to that.
    """
    last = lane.slice_index
    if last is not None and last.seq in marks:
        at = marks.index(last.seq)
        if _end(last, topic_partition) > offset:
            if any(True for _ in _run(_indexed(last, topic_partition), offset, 1)):
                return last, marks[at - 1] if at else -1
        elif at + 1 < len(marks):
            checkpoint = yield from _checkpoint(lane, marks[at + 1])
            if checkpoint is not None and _end(checkpoint, topic_partition) > offset:
                return checkpoint, last.seq
    return (yield from _bisect(lane, marks, topic_partition, offset))


def _bisect(
    lane: Lane, marks: list[int], topic_partition: TopicIdPartition, offset: int
) -> Work[tuple[Checkpoint | None, int]]:
    """The same, by bisecting. A checkpoint that is missing is passed over: the next one says as
    much, if less exactly.
    """
    low, high = -1, len(marks)
    found: Checkpoint | None = None
    while high - low > 1:
        at = middle = (low + high) // 2
        checkpoint = yield from _checkpoint(lane, marks[at])
        while checkpoint is None and at + 1 < high:
            at += 1
            checkpoint = yield from _checkpoint(lane, marks[at])
        if checkpoint is None or _end(checkpoint, topic_partition) > offset:
            found, high = checkpoint or found, middle
        else:
            low = at
    return found, marks[low] if low >= 0 else -1


def _checkpoint(lane: Lane, seq: int) -> Work[Checkpoint | None]:
    """Return what is needed here of a checkpoint, one of those used last if possible.

    Decoding one takes the processor for as long as there are partitions. Readers of many partitions
    that each decoded their own would do nothing else.
    """
    assert lane.last_look is not None
    indexes, floor = lane.slice_indexes, lane.last_look.head.floor
    found = indexes.get(seq)
    if found is None:
        found = yield from read_checkpoint(lane, seq, indexes)
        if found is None:
            return None
        for old in [one for one in indexes if one < floor]:
            del indexes[old]
        if seq not in indexes:
            found = indexes[seq] = replace(found, producers=(), writes=(), marks=())
        while len(indexes) > 1 and sum(map(_rows, indexes.values())) > ROWS_MAX:
            indexes.popitem(last=False)
    if seq in indexes:
        indexes.move_to_end(seq)
    return found


def _rows(checkpoint: Checkpoint) -> int:
    return len(checkpoint.ends) + len(checkpoint.slice_index)


def _end(checkpoint: Checkpoint, topic_partition: TopicIdPartition) -> int:
    ends = checkpoint.ends
    at = bisect_right(ends, (*topic_partition, -1))
    return ends[at].offset if at < len(ends) and ends[at][:2] == topic_partition else 0
