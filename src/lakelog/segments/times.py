"""Times to offsets: the first record of a partition that is not older than a time.

Segments are looked at in order, because times need not rise. A segment with a Kafka time index is
passed over when the last entry of that, twelve bytes from its end, is older: an active segment's
index may lag behind, so that one is always opened.
"""

import struct
from collections.abc import Iterable, Mapping

from lakelog.errors import CorruptError, UnsupportedError
from lakelog.flows import Items, asked_for
from lakelog.formats import Block, Range, Ranged, Segment
from lakelog.records import OFFSET_MAX
from lakelog.segments.plan import OffsetRange
from lakelog.segments.segments import SegmentRef, through_store
from lakelog.segments.select import Mode, OffsetSpec, no_record_at
from lakelog.store import Flow, GetSuffix, ask

__all__ = ["find_offset_at", "resolve_offsets"]

_TIME_INDEX = ".timeindex"
_TIME_ENTRY = struct.Struct(">qi")
_RECORDS = 1000  # What is read at a time behind deleted ones.


def find_offset_at(
    segments: Iterable[SegmentRef], timestamp: int, mode: Mode = Mode.FAILFAST
) -> Flow[int | None]:
    """Return the first offset of a partition whose record is not older, or None.

    Raises:
        CorruptError, UnsupportedError: something is wrong with a segment on the way, and the mode
            is not to read on.
    """
    for segment in segments:
        if not segment.active and segment.sizes.get(_TIME_INDEX, 0) >= _TIME_ENTRY.size:
            tail = yield from ask(GetSuffix(segment.key(_TIME_INDEX), _TIME_ENTRY.size))
            if _TIME_ENTRY.unpack(tail.body)[0] < timestamp:
                continue
        try:
            found = yield from _first_at(segment, timestamp)
        except (CorruptError, UnsupportedError):
            if mode is Mode.FAILFAST:
                raise
            found = yield from through_store(segment, _first_readable(segment, timestamp))
        if found is not None:
            return found
    return None


def _first_at(segment: SegmentRef, timestamp: int) -> Flow[int | None]:
    """Return the first offset in a segment that counts and is not older, or None."""
    opened: Segment = yield from through_store(segment, segment.fmt.open(segment.files))
    found = yield from through_store(segment, opened.offset_at(timestamp))
    # The first one may have been deleted. Times need not rise, so those behind it are looked at.
    at = segment.offset_min
    while found is not None and found < segment.offset_min:
        records = yield from through_store(segment, opened.read_from(at, _RECORDS))
        if not records:
            return None
        at = records[-1].offset + 1
        found = next((r.offset for r in records if r.timestamp >= timestamp), found)
    return found if found is not None and found < segment.next_offset_max else None


def _first_readable(segment: SegmentRef, timestamp: int) -> Ranged[int | None]:
    """Return the same for a damaged segment: every record is looked at that can be read."""
    walk = segment.fmt.walk(segment.files)
    found = Items(walk, Range, asked_for)
    while (item := (yield from found.next())) is not None:
        if isinstance(item, Block):
            for record in item.records:
                wanted = segment.offset_min <= record.offset < segment.next_offset_max
                if wanted and record.timestamp >= timestamp:
                    return record.offset
    return None


def resolve_offsets(
    partitions: Mapping[tuple[str, int], list[SegmentRef]],
    starting: OffsetSpec,
    ending: OffsetSpec,
    mode: Mode = Mode.FAILFAST,
) -> Flow[dict[tuple[str, int], OffsetRange]]:
    """Return which offsets of each partition are wanted.

    Raises:
        InvalidInputError: a partition is not named where all must be, or no record of it is as
            late as it should begin.
    """
    ranges: dict[tuple[str, int], OffsetRange] = {}
    for partition, segments in partitions.items():
        low = yield from _resolve(starting, partition, segments, mode)
        high = yield from _resolve(ending, partition, segments, mode)
        ranges[partition] = low, high
    return ranges


def _resolve(
    spec: OffsetSpec, partition: tuple[str, int], segments: list[SegmentRef], mode: Mode
) -> Flow[int]:
    timestamp = spec.time_in(partition)
    if timestamp is None:
        return spec.offset_in(partition, earliest=0, latest=OFFSET_MAX)
    found = yield from find_offset_at(segments, timestamp, mode)
    if found is None and not spec.or_latest:
        raise no_record_at(partition, timestamp)
    return OFFSET_MAX if found is None else found
