"""Times to offsets: the first record of a partition that is not older than a time.

Segments are looked at in order, because times need not rise. A segment with a Kafka time index is
passed over when the last entry of that, twelve bytes from its end, is older: an active segment's
index may lag behind, so that one is always opened.
"""

import struct
from collections.abc import Iterable, Mapping
from typing import Any

from lakelog.errors import InvalidInputError
from lakelog.formats import Range, Ranged
from lakelog.history.plan import OffsetRange
from lakelog.history.segments import SegmentRef
from lakelog.history.select import Place, place_in
from lakelog.records import OFFSET_MAX
from lakelog.store import Flow, get_range, get_suffix

__all__ = ["find_offset_at", "resolve_offsets"]

_TIME_INDEX = ".timeindex"
_TIME_ENTRY = struct.Struct(">qi")


def find_offset_at(segments: Iterable[SegmentRef], timestamp: int) -> Flow[int | None]:
    """Return the first offset of a partition whose record is not older, or None.

    Raises:
        CorruptError, UnsupportedError: something is wrong with a segment on the way.
    """
    for segment in segments:
        if not segment.active and segment.sizes.get(_TIME_INDEX, 0) >= _TIME_ENTRY.size:
            tail = yield from get_suffix(segment.key(_TIME_INDEX), _TIME_ENTRY.size)
            if _TIME_ENTRY.unpack(tail)[0] < timestamp:
                continue
        opened = yield from _through_store(segment, segment.fmt.open(segment.files))
        found: int | None = yield from _through_store(segment, opened.offset_at(timestamp))
        if found is not None:
            return found
    return None


def _through_store(segment: SegmentRef, flow: Ranged[Any]) -> Flow[Any]:
    """Turn the wishes of a format's flow into reads of a segment's objects."""
    answer: bytes | None = None
    while True:
        try:
            wish: Range = flow.send(answer)
        except StopIteration as done:
            return done.value
        answer = yield from get_range(segment.key(wish.suffix), wish.start, wish.end)


def resolve_offsets(
    partitions: Mapping[tuple[str, int], list[SegmentRef]], starting: Place, ending: Place
) -> Flow[dict[tuple[str, int], OffsetRange]]:
    """Return which offsets of each partition are wanted.

    Raises:
        InvalidInputError: a partition is not named where all must be, or no record of it is as
            late as it should begin.
    """
    ranges: dict[tuple[str, int], OffsetRange] = {}
    for partition, segments in partitions.items():
        low = yield from _resolve(starting, partition, segments)
        high = yield from _resolve(ending, partition, segments)
        ranges[partition] = low, high
    return ranges


def _resolve(place: Place, partition: tuple[str, int], segments: list[SegmentRef]) -> Flow[int]:
    timestamp = place.time_in(partition)
    if timestamp is None:
        return place_in(place, partition)
    found = yield from find_offset_at(segments, timestamp)
    if found is None and not place.or_latest:
        raise InvalidInputError(
            f"no record of {partition[0]}-{partition[1]} is as late as {timestamp}; "
            "startingOffsetsByTimestampStrategy=latest begins at the end then"
        )
    return OFFSET_MAX if found is None else found
