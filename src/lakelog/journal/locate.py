"""Locating an offset in the journal.

    the newest bundles   their directories are held in memory
    older ones           checkpoints say where every partition ended: bisect them for the first that
                         ends behind the offset; its roll names the bundle
    without a roll       read the directories that it would have covered

All of it is about keys at or above the floor that was seen last. Whoever reads bytes there keeps
the one rule afterwards.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator

from lakelog.formats.lanes import BatchRow, Checkpoint, Slice
from lakelog.journal.fold import Place
from lakelog.journal.lane import Held, Lane
from lakelog.journal.walk import WINDOW, read_bundle, read_bundles, read_checkpoint
from lakelog.store import Work

__all__ = ["batches_of", "locate", "slices_of"]


def slices_of(held: Held, place: Place) -> Iterator[Slice]:
    """Yield the slices of one partition in a bundle."""
    slices = held.bundle.slices
    at = bisect_left(slices, place)
    while at < len(slices) and slices[at].place == place:
        yield slices[at]
        at += 1


def batches_of(held: Held, slice_: Slice) -> tuple[BatchRow, ...]:
    """Return the batches of a slice of a bundle."""
    before = 0
    for one in held.bundle.slices:
        if one == slice_:
            break
        before += one.batches
    return held.bundle.batches[before : before + slice_.batches]


def locate(lane: Lane, place: Place, offset: int) -> Work[tuple[Held, Slice] | None]:
    """Return the bundle and the slice that hold an offset.

    None: it is at or behind the end, or below the floor, or has fallen below it meanwhile.
    """
    fold, seen = lane.fold, lane.last_look
    assert fold is not None
    assert seen is not None
    if offset >= fold.end(place):
        return None
    found = _among(lane.held, place, offset)
    if found:
        return found
    floor, top = seen.head.floor, fold.seq - len(lane.held)
    every = lane.rules.checkpoint_every
    marks = [*range((floor // every + 1) * every - 1, top, every), top]
    checkpoint, low = yield from _bisect(lane, marks, place, offset)
    first = max(floor, low + 1)
    if checkpoint is not None and checkpoint.first <= first:
        for seq, slice_ in checkpoint.roll:
            if slice_.place == place and slice_.base_offset <= offset < slice_.next_offset:
                held = yield from read_bundle(lane, seq) if seq >= floor else _nothing()
                return None if held is None else _among((held,), place, offset)
    last = top if checkpoint is None else checkpoint.seq
    for seq in range(first, last + 1, WINDOW):
        some = yield from read_bundles(lane, range(seq, min(seq + WINDOW, last + 1)))
        found = _among([held for held in some if held is not None], place, offset)
        if found:
            return found
    return None


def _nothing() -> Work[None]:
    yield from ()


def _among(bundles: Iterable[Held], place: Place, offset: int) -> tuple[Held, Slice] | None:
    for held in bundles:
        for slice_ in slices_of(held, place):
            if slice_.base_offset <= offset < slice_.next_offset:
                return held, slice_
    return None


def _bisect(
    lane: Lane, marks: list[int], place: Place, offset: int
) -> Work[tuple[Checkpoint | None, int]]:
    """Return the first checkpoint that ends behind ``offset``, and the seq of the one before it.

    A checkpoint that is missing is passed over: the next one says as much, if less exactly.
    """
    low, high = -1, len(marks)
    found: Checkpoint | None = None
    while high - low > 1:
        at = middle = (low + high) // 2
        checkpoint = yield from read_checkpoint(lane, marks[at])
        while checkpoint is None and at + 1 < high:
            at += 1
            checkpoint = yield from read_checkpoint(lane, marks[at])
        if checkpoint is None or _end(checkpoint, place) > offset:
            found, high = checkpoint or found, middle
        else:
            low = at
    return found, marks[low] if low >= 0 else -1


def _end(checkpoint: Checkpoint, place: Place) -> int:
    at = bisect_left(checkpoint.ends, place)
    ends = checkpoint.ends
    return ends[at].offset if at < len(ends) and ends[at][:2] == place else 0
