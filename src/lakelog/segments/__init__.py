r"""History: segments in a store, found, planned and read.

segments   a segment in a store, a part of it, and what one task reads
layout     names of objects -> segments of topics and partitions
copies     directories of several brokers -> one log; where it begins, after DeleteRecords
logs       all of that: a listing -> the log of each partition; what manifests beside segments name
select     which partitions are wanted, from where and up to where
times      times -> offsets
plan       segments -> tasks, by bytes
read       a part of a segment -> Arrow batches     \
mend       the same, behind damage; a whole task      | imported only when asked for,
scan       all of it, in this process                 | because they bring Arrow and LLVM
tables     segments and batches as tables            /
"""

from lakelog.segments.layout import (
    HISTORY,
    LAYOUTS,
    NAMESPACE,
    Directory,
    Layout,
    find_directories,
    layout_named,
)
from lakelog.segments.logs import each_directory, each_segment, find_logs, is_named, read_named
from lakelog.segments.plan import (
    SPLIT_BYTES,
    OffsetRange,
    equal_parts,
    pack,
    plan_splits,
    plan_tasks,
)
from lakelog.segments.segments import ReadTask, SegmentRange, SegmentRef
from lakelog.segments.select import (
    EARLIEST,
    LATEST,
    Mode,
    OffsetSpec,
    Selection,
    mode_named,
    no_record_at,
)
from lakelog.segments.times import find_offset_at, resolve_offsets

__all__ = [
    "EARLIEST",
    "HISTORY",
    "LATEST",
    "LAYOUTS",
    "NAMESPACE",
    "SPLIT_BYTES",
    "Directory",
    "Layout",
    "Mode",
    "OffsetRange",
    "OffsetSpec",
    "ReadTask",
    "SegmentRange",
    "SegmentRef",
    "Selection",
    "each_directory",
    "each_segment",
    "equal_parts",
    "find_directories",
    "find_logs",
    "find_offset_at",
    "is_named",
    "layout_named",
    "mode_named",
    "no_record_at",
    "pack",
    "plan_splits",
    "plan_tasks",
    "read_named",
    "resolve_offsets",
]
