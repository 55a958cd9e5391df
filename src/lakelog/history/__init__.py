r"""History: segments in a store, found, planned and read.

segments   a segment in a store, a part of it, and what one task reads
layout     names of objects -> segments of topics and partitions
select     which partitions are wanted, from where and up to where
times      times -> offsets
plan       segments -> tasks, by bytes
read       a task -> Arrow batches   \  imported only when asked for,
scan       all of it, in this process /  because they bring LLVM
"""

from lakelog.history.layout import LAYOUTS, Layout, find_segments, layout_named
from lakelog.history.plan import SPLIT_BYTES, OffsetRange, plan_splits
from lakelog.history.segments import Part, SegmentRef, Split
from lakelog.history.select import EARLIEST, LATEST, Place, Selection
from lakelog.history.times import find_offset_at, resolve_offsets

__all__ = [
    "EARLIEST",
    "LATEST",
    "LAYOUTS",
    "SPLIT_BYTES",
    "Layout",
    "OffsetRange",
    "Part",
    "Place",
    "SegmentRef",
    "Selection",
    "Split",
    "find_offset_at",
    "find_segments",
    "layout_named",
    "plan_splits",
    "resolve_offsets",
]
