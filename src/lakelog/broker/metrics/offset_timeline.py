"""When offsets were written: a few points in time, with the end that a partition had then.

    times    10:00:00   10:00:05   10:00:06   10:00:07
    ends          100        140        141        300
    offset 120 came between the first two: at about 10:00:02.5

A timeline keeps ``POINTS_MAX`` points. When it has more, every second one of its older half goes:
near the end it is fine, and further back as coarse as it needs to be there.
"""

from bisect import bisect_right

__all__ = ["OffsetTimeline"]

POINTS_MAX = 48


class OffsetTimeline:
    """Ends of one partition, and when they were seen."""

    __slots__ = ("_ends", "_times")

    def __init__(self) -> None:
        self._ends: list[int] = []
        self._times: list[int] = []

    def note(self, end: int, now_ms: int) -> None:
        """Take down where it ends now. A point that says nothing new moves the last one on."""
        if self._ends and self._ends[-1] >= end:
            if len(self._ends) > 1 and self._ends[-2] == end:
                self._times[-1] = now_ms
                return
            end = self._ends[-1]
        self._ends.append(end)
        self._times.append(now_ms)
        if len(self._ends) > POINTS_MAX:
            half = POINTS_MAX // 2
            del self._ends[1:half:2], self._times[1:half:2]

    def when(self, offset: int) -> int | None:
        """Return about when an offset was written; None: before the timeline begins.

        What came after the last point has come just now.
        """
        at = bisect_right(self._ends, offset)
        if at == 0:
            return None
        if at == len(self._ends):
            return self._times[-1]
        low, high = self._ends[at - 1], self._ends[at]
        before, after = self._times[at - 1], self._times[at]
        return before + (after - before) * (offset - low) // (high - low)
