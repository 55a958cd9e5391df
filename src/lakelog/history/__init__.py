"""History: segments in a store, found, planned and read.

segments   a segment in a store, a part of it, and what one task reads
layout     names of objects -> segments of topics and partitions
plan       segments -> tasks, by bytes
read       a task -> Arrow batches; imported only when asked for, because it brings LLVM
"""

from lakelog.history.layout import LAYOUTS, Layout, find_segments, layout_named
from lakelog.history.plan import SPLIT_BYTES, OffsetRange, plan_splits
from lakelog.history.segments import Part, SegmentRef, Split

__all__ = [
    "LAYOUTS",
    "SPLIT_BYTES",
    "Layout",
    "OffsetRange",
    "Part",
    "SegmentRef",
    "Split",
    "find_segments",
    "layout_named",
    "plan_splits",
]
