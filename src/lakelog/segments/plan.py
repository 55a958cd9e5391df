"""Plans: segments in, tasks out, by bytes.

One task per partition, as Kafka's own connectors have it, makes a topic with one partition a job
for one core. Here bytes decide: a large segment is cut anywhere, because a reader finds the first
batch behind a cut by itself, and small ones are packed together until they are worth a task.

Segments that hold none of the offsets asked for are left out; nothing has been read by then. A
segment without an index is not cut: finding a batch behind the cut would mean to read all before
it. (STRM carries its index inside.)
"""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any, Protocol, TypeVar

from lakelog.errors import InvalidInputError
from lakelog.records import OFFSET_MAX
from lakelog.segments.segments import ReadTask, SegmentRange, SegmentRef

__all__ = ["SPLIT_BYTES", "OffsetRange", "equal_parts", "pack", "plan_splits", "plan_tasks"]

SPLIT_BYTES = 128 * 1024 * 1024
"""What a task reads, unless told otherwise: some ten seconds of work over a network."""

OffsetRange = tuple[int, int]
"""Half-open."""

ALL_OFFSETS: OffsetRange = (0, OFFSET_MAX)


def plan_tasks(
    segments: Collection[SegmentRef],
    *,
    splits_min: int = 1,
    split_bytes: int = SPLIT_BYTES,
    **settings: Any,
) -> list[ReadTask]:
    """Return at least ``splits_min`` tasks, where there are bytes for them.

    Settings are those of plan_splits. Bytes decide here, too: tasks become smaller until there
    are enough.
    """
    splits = list(plan_splits(segments, split_bytes=split_bytes, **settings))
    if len(splits) < splits_min:
        smaller = max(1, sum(split.size for split in splits) // splits_min)
        smaller = min(split_bytes, smaller)
        splits = list(plan_splits(segments, split_bytes=smaller, **settings))
    return splits


def plan_splits(
    segments: Iterable[SegmentRef],
    *,
    split_bytes: int = SPLIT_BYTES,
    offsets: Mapping[tuple[str, int], OffsetRange] | None = None,
    whole: bool = False,
) -> Iterator[ReadTask]:
    """Return tasks of about ``split_bytes`` each, in the order of the segments.

    ``offsets`` gives, by topic and partition, what is wanted of it; a partition that is not named
    is wanted whole when there is no mapping at all, and not at all when there is one. With
    ``whole`` no segment is cut.
    """
    if split_bytes < 1:
        raise InvalidInputError(f"splits of {split_bytes} bytes: use 1 or more")
    parts = (
        part
        for segment in segments
        for part in _cut(segment, _wanted(segment, offsets), split_bytes, whole=whole)
    )
    return (ReadTask(parts=tuple(some)) for some in pack(parts, split_bytes))


def _wanted(
    segment: SegmentRef, offsets: Mapping[tuple[str, int], OffsetRange] | None
) -> OffsetRange:
    if offsets is None:
        return ALL_OFFSETS
    return offsets.get((segment.topic, segment.partition), (0, 0))


def _cut(
    segment: SegmentRef, wanted: OffsetRange, split_bytes: int, *, whole: bool
) -> Iterator[SegmentRange]:
    """Yield the segment as parts of equal size, none larger than a split."""
    offset_from = max(wanted[0], segment.base_offset, segment.offset_min)
    offset_to = min(wanted[1], segment.next_offset_max)
    size = segment.size
    if offset_from >= offset_to or size == 0:
        return
    count = 1 if whole or not _can_be_cut(segment) else -(-size // split_bytes)
    for byte_from, byte_to in equal_parts(size, count):
        yield SegmentRange(
            segment=segment,
            byte_from=byte_from,
            byte_to=byte_to,
            offset_from=offset_from,
            offset_to=offset_to,
        )


def _can_be_cut(segment: SegmentRef) -> bool:
    return segment.format == "strm" or ".index" in segment.sizes


# ---------------------------------------------------------------------------- cutting and packing


class _Packed(Protocol):
    """What is packed into tasks."""

    @property
    def size(self) -> int: ...
    @property
    def offsets(self) -> int: ...


P = TypeVar("P", bound=_Packed)


def equal_parts(size: int, count: int) -> Iterator[tuple[int, int]]:
    """Yield where each of so many equal parts begins and ends."""
    return pairwise(size * number // count for number in range(count + 1))


def pack(parts: Iterable[P], bytes_max: int, offsets_max: float = math.inf) -> Iterator[list[P]]:
    """Yield parts in their order, together as many as are not more than so much; one at least."""
    held: list[P] = []
    size = offsets = 0
    for part in parts:
        more, more_offsets = part.size, part.offsets
        if held and (size + more > bytes_max or offsets + more_offsets > offsets_max):
            yield held
            held, size, offsets = [], 0, 0
        held.append(part)
        size, offsets = size + more, offsets + more_offsets
    if held:
        yield held
