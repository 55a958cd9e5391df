"""Located ranges: offsets of partitions, where they lie, and tasks that read them.

    wanted          partition, from, until          fixed when a read is planned
    located range   a part of one segment, or of one slice of a bundle
    task            located ranges of about so many bytes

Bytes decide how much a task reads, and offsets where it begins: a large segment is cut between two
offsets, in proportion. Whoever reads finds the batch by the index. So it is known of every range
how many offsets it has, and a read that gives more or fewer is noticed.

Slices go to tasks bundle by bundle, in the order in which they lie there: a task then needs one
range of bytes of each bundle, whatever the number of partitions.

Where a range lies is how it was when it was planned. Segments are merged and bundles trimmed
meanwhile; whoever finds it gone looks again, for the same offsets (``rows``). What could not be
located, because the lane moved on just then, has no location.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby
from typing import NamedTuple

from lakelog.errors import InvalidInputError
from lakelog.formats.lanes import (
    CHECKPOINT_BYTES_MAX,
    Bundle,
    Slice,
)
from lakelog.journal import (
    DIRECTORIES_AT_ONCE,
    Lane,
    TopicIdPartition,
    checkpoint_in,
    floor_holds,
    read_bundles,
)
from lakelog.log.survey import Extent, PartitionRef
from lakelog.manifests import SegmentRow
from lakelog.names import checkpoint_key
from lakelog.segments import SPLIT_BYTES, equal_parts, pack
from lakelog.store import Get, Work, fetch_many

__all__ = [
    "LocatedRange",
    "SliceRef",
    "TaskRanges",
    "plan_read_tasks",
    "sealed_ranges",
    "unsealed_ranges",
]


class SliceRef(NamedTuple):
    """A slice, as far as whoever reads it needs it: tasks are sent a million of them."""

    seq: int
    epoch: int
    base_offset: int
    offsets: int
    position: int
    length: int
    write: int = -1
    """As in a slice: what is staged lies elsewhere."""


class LocatedRange(NamedTuple):
    """Offsets of a partition, and where they are said to lie."""

    member: PartitionRef
    base_offset: int
    next_offset: int
    size: int
    """About how many bytes."""
    location: SegmentRow | SliceRef | None
    """None: look for it."""

    @property
    def offsets(self) -> int:
        return self.next_offset - self.base_offset


TaskRanges = tuple[LocatedRange, ...]
"""What one task reads, in this order."""


# ---------------------------------------------------------------------------- history


def sealed_ranges(extent: Extent, base_offset: int, next_offset: int) -> Iterator[LocatedRange]:
    """Yield what history has of a range, in order."""
    member = extent.member
    for row in extent.rows:
        base, next_, size = row.base_offset, row.next_offset, row.length
        if base < base_offset or next_ > next_offset:
            base, next_ = max(base_offset, base), min(next_offset, next_)
            if base >= next_:
                continue
            size = _part(size, next_ - base, row.next_offset - row.base_offset)
        # A plan of a million segments goes through here.
        yield tuple.__new__(LocatedRange, (member, base, next_, size, row))


# ---------------------------------------------------------------------------- journal


def unsealed_ranges(
    lane: Lane, wanted: Mapping[PartitionRef, tuple[int, int]]
) -> Work[list[LocatedRange]]:
    """Return what a lane has of some ranges, in the order in which it lies in bundles.

    The newest directories are in memory; older ones come from the rolls of checkpoints, from the
    newest back to the first that is needed.
    """
    need = {
        member.where.topic_partition: (start, until)
        for member, (start, until) in wanted.items()
        if start < until
    }
    found = _Found(need)
    lowest = yield from _collect(lane, found)
    gone = -1
    if lowest is not None and not (yield from floor_holds(lane, lowest)):
        assert lane.last_look is not None
        gone = lane.last_look.head.floor
    ranges: list[LocatedRange] = []
    seqs: list[int] = []
    # Partitions as they lie in a bundle: so it is enough to sort by bundles.
    for member in sorted(wanted, key=lambda member: member.where.topic_partition):
        at, next_offset = wanted[member]
        for piece in found.pieces(member.where.topic_partition):
            seq, _, base, offsets, _, size, write = piece
            if base > at:
                break
            next_ = min(next_offset, base + offsets)
            if next_ - at < offsets:
                size = _part(size, next_ - at, offsets)
            held = None if seq < gone or write >= 0 else piece
            # A plan of a million slices goes through here.
            ranges.append(tuple.__new__(LocatedRange, (member, at, next_, size, held)))
            seqs.append(seq)
            at = next_
        if at < next_offset:
            ranges.append(LocatedRange(member, at, next_offset, 0, None))
            seqs.append(lane.next_seq)
    return [ranges[number] for number in sorted(range(len(ranges)), key=seqs.__getitem__)]


class _Found:
    """Slices of some partitions, from the newest back, until they reach what is wanted."""

    def __init__(self, need: Mapping[TopicIdPartition, tuple[int, int]]) -> None:
        self._need = need
        self._left = set(need)
        self._sorted: list[TopicIdPartition] = []
        self._pieces: dict[TopicIdPartition, list[SliceRef]] = {
            topic_partition: [] for topic_partition in need
        }

    def left(self) -> list[TopicIdPartition]:
        """Return the partitions of which more is needed, in their order."""
        if len(self._sorted) != len(self._left):
            self._sorted = sorted(self._left)
        return self._sorted

    def add(self, rows: Iterable[tuple[int, Slice, int]]) -> None:
        """Take slices with their seq and epoch: of later bundles before those of earlier ones."""
        left, need, pieces, make = self._left, self._need, self._pieces, tuple.__new__
        for seq, slice_, epoch in rows:
            topic, partition, _, base, offsets, position, length, _, _, write, _ = slice_
            topic_partition = topic, partition
            if topic_partition not in left:
                continue
            base_offset, next_offset = need[topic_partition]
            if base < next_offset and base + offsets > base_offset:
                fields = (seq, epoch, base, offsets, position, length, write)
                pieces[topic_partition].append(make(SliceRef, fields))
            if base <= base_offset:
                left.discard(topic_partition)

    def pieces(self, topic_partition: TopicIdPartition) -> list[SliceRef]:
        """Return what was found of a partition, in order."""
        return self._pieces.get(topic_partition, [])[::-1]


def _collect(lane: Lane, found: _Found) -> Work[int | None]:
    """Find slices from the end of a lane backwards; return the lowest key that was used."""
    known, seen = lane.known, lane.last_look
    assert seen is not None
    floor, every = seen.head.floor, lane.rules.checkpoint_every
    if not found.left():
        return None
    top = known.fold.seq - len(known.bundles)
    found.add(_newest_first([held.bundle for held in known.bundles], floor))
    if known.due is not None and known.due[0].seq == top and found.left():
        bundles = known.due[1]
        found.add(_newest_first(bundles, floor))
        top = bundles[0].seq - 1
    marks = [*range((floor // every + 1) * every - 1, top, every), top]
    lows = [floor - 1, *marks[:-1]]
    pairs = [(low, mark) for low, mark in zip(lows, marks, strict=True) if low < mark]
    lowest = top + 1
    while pairs and found.left():
        some, pairs = pairs[-DIRECTORIES_AT_ONCE:], pairs[:-DIRECTORIES_AT_ONCE]
        ops = [Get(checkpoint_key(lane.number, seq), CHECKPOINT_BYTES_MAX) for _, seq in some]
        bodies = yield from fetch_many(ops)
        for (low, mark), body in zip(reversed(some), reversed(bodies), strict=True):
            if not found.left():
                break
            lowest = low + 1
            left = found.left()
            checkpoint = None if body is None else checkpoint_in(body, lane, mark, left)
            if checkpoint is not None and checkpoint.first <= low + 1:
                found.add(row for row in reversed(checkpoint.slice_index) if row[0] > low)
            else:
                yield from _directories(lane, found, low + 1, mark + 1)
    return max(lowest, floor)


def _newest_first(bundles: Sequence[Bundle], floor: int) -> Iterator[tuple[int, Slice, int]]:
    for bundle in reversed(bundles):
        if bundle.seq >= floor:
            for slice_ in reversed(bundle.slices):
                yield bundle.seq, slice_, bundle.epoch


def _directories(lane: Lane, found: _Found, first: int, end: int) -> Work[None]:
    """Read bundles where no slice index says what is in them."""
    for at in range(end, first, -DIRECTORIES_AT_ONCE):
        some = yield from read_bundles(lane, range(max(first, at - DIRECTORIES_AT_ONCE), at))
        found.add(_newest_first([held.bundle for held in some if held is not None], first))
        if not found.left():
            return


def _part(size: int, offsets: int, of: int) -> int:
    return max(1, size * offsets // of)


# ---------------------------------------------------------------------------- tasks


def plan_read_tasks(
    ranges: Sequence[LocatedRange],
    *,
    split_bytes: int = SPLIT_BYTES,
    tasks_min: int = 1,
    offsets_max: int | None = None,
) -> list[TaskRanges]:
    """Return tasks for ranges, in their order: of about ``split_bytes``, and no more offsets each.

    There are at least ``tasks_min``, where there are as many offsets; ``offsets_max`` is kept
    exactly.
    """
    if split_bytes < 1 or (offsets_max is not None and offsets_max < 1):
        raise InvalidInputError(
            f"tasks of {split_bytes} bytes and {offsets_max} offsets: use 1 or more of each"
        )
    most = 1 << 62 if offsets_max is None else offsets_max
    tasks = list(_pack(ranges, split_bytes, most))
    if len(tasks) < tasks_min:
        # By offsets, which are certain; bytes are only about right.
        total = sum(located.offsets for located in ranges)
        tasks = list(_pack(ranges, split_bytes, min(most, max(1, total // tasks_min))))
    return tasks


def _pack(
    ranges: Iterable[LocatedRange], split_bytes: int, offsets_max: int
) -> Iterator[TaskRanges]:
    parts = chain.from_iterable(_cut(located, split_bytes, offsets_max) for located in ranges)
    for some in pack(parts, split_bytes, offsets_max):
        yield tuple(_joined(some))


def _cut(located: LocatedRange, split_bytes: int, offsets_max: int) -> Iterable[LocatedRange]:
    """Return a range in pieces, equal but for one offset, none of them more than a task reads."""
    base, size, offsets = located.base_offset, located.size, located.offsets
    if size <= split_bytes and offsets <= offsets_max:
        return (located,)
    count = min(max(-(-size // split_bytes), -(-offsets // offsets_max)), offsets)
    ends = zip(equal_parts(offsets, count), equal_parts(size, count), strict=True)
    return [
        located._replace(base_offset=base + first, next_offset=base + end, size=to - at)
        for (first, end), (at, to) in ends
    ]


def _joined(ranges: list[LocatedRange]) -> Iterator[LocatedRange]:
    """Yield ranges for one task; the pieces of one segment or slice are one, and read once."""
    for _, group in groupby(ranges, key=lambda one: (id(one.member), id(one.location))):
        first, *others = group
        size = first.size + sum(one.size for one in others)
        yield first._replace(next_offset=others[-1].next_offset, size=size) if others else first
