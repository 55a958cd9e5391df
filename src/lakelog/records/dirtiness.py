"""Whether a log is worth cleaning, and how far it may be cleaned: decisions about plain numbers.

    | cleaned before | dirty, may be cleaned | dirty, too young or not yet stable | in use |
                     ^ dirty_from            ^ clean_to

A log is due when what may be cleaned is more than ``min_ratio`` of it and what was cleaned before,
or when a record has waited for longer than ``max_lag_ms``. Segments are cleaned whole: the first
that holds a record younger than ``min_lag_ms``, or an offset that is not stable, ends what may be
cleaned. As in Kafka (LogCleanerManager), whose configs these are: min.cleanable.dirty.ratio,
min.compaction.lag.ms and max.compaction.lag.ms.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lakelog.records.header import OFFSET_MAX

__all__ = ["Cleanable", "SegmentDirtiness", "dirty_ratio", "plan_cleaning"]


class SegmentDirtiness(NamedTuple):
    """A segment that is closed, as far as this decision goes."""

    base_offset: int
    next_offset: int
    size_bytes: int
    first_timestamp: int
    """Of its first batch; 0 or less if unknown, and then nothing waits for it."""
    max_timestamp: int
    is_cleaned: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleanable:
    """What a cleaning would do. Offsets are half-open: ``[dirty_from, clean_to)`` is noted."""

    dirty_from: int
    clean_to: int
    clean_bytes: int
    dirty_bytes: int
    """Of what may be cleaned."""
    waits_ms: int
    """For how long a record has waited beyond ``max_lag_ms``; 0 if none has."""
    is_due: bool

    @property
    def ratio(self) -> float:
        return dirty_ratio(self.clean_bytes, self.dirty_bytes)


def dirty_ratio(clean_bytes: int, dirty_bytes: int) -> float:
    """Return how much of a log is dirty; an empty log is clean."""
    total = clean_bytes + dirty_bytes
    return dirty_bytes / total if total else 0.0


def plan_cleaning(
    segments: Sequence[SegmentDirtiness],
    *,
    now_ms: int,
    min_ratio: float = 0.5,
    min_lag_ms: int = 0,
    max_lag_ms: int = OFFSET_MAX,
    stable_offset: int = OFFSET_MAX,
) -> Cleanable:
    """Decide about the closed segments of a partition, given in order.

    What is cleaned is a prefix: a cleaned segment behind a dirty one counts as dirty, because
    records before it may have changed what it must drop.
    """
    first = next((i for i, s in enumerate(segments) if not s.is_cleaned), len(segments))
    clean, dirty = segments[:first], segments[first:]
    start = dirty[0].base_offset if dirty else clean[-1].next_offset if clean else 0
    count = 0
    for segment in dirty:
        too_young = min_lag_ms > 0 and segment.max_timestamp > now_ms - min_lag_ms
        if too_young or segment.next_offset > stable_offset:
            break
        count += 1
    times = [s.first_timestamp for s in dirty if s.first_timestamp > 0]
    waits = max(0, now_ms - max(max_lag_ms, 0) - min(times)) if times else 0
    clean_bytes = sum(s.size_bytes for s in clean)
    dirty_bytes = sum(s.size_bytes for s in dirty[:count])
    worth = dirty_ratio(clean_bytes, dirty_bytes) > min_ratio
    return Cleanable(
        dirty_from=start,
        clean_to=dirty[count - 1].next_offset if count else start,
        clean_bytes=clean_bytes,
        dirty_bytes=dirty_bytes,
        waits_ms=waits,
        is_due=dirty_bytes > 0 and (worth or waits > 0),
    )
