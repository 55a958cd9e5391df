"""Manifests: which segments are the history of a partition.

manifest   a manifest and its pages, as values and as bytes
changes    what can happen to one
cells      reading and changing them in a store
making     a segment, before a manifest names it
"""

from lakelog.manifests import changes
from lakelog.manifests.cells import (
    PartitionPath,
    change_manifest,
    find_row,
    read_manifest,
    read_manifests,
    read_page,
    read_rows,
    try_manifests,
    turn_page,
)
from lakelog.manifests.making import (
    NewSegment,
    finish_segment,
    make_segment,
    store_segment,
)
from lakelog.manifests.manifest import (
    ROWS_GOAL,
    ROWS_MAX,
    Dropped,
    Intent,
    Manifest,
    PageRow,
    SegmentRow,
    decode_manifest,
    decode_page,
    encode_manifest,
    encode_page,
)

__all__ = [
    "ROWS_GOAL",
    "ROWS_MAX",
    "Dropped",
    "Intent",
    "Manifest",
    "NewSegment",
    "PageRow",
    "PartitionPath",
    "SegmentRow",
    "change_manifest",
    "changes",
    "decode_manifest",
    "decode_page",
    "encode_manifest",
    "encode_page",
    "find_row",
    "finish_segment",
    "make_segment",
    "read_manifest",
    "read_manifests",
    "read_page",
    "read_rows",
    "store_segment",
    "try_manifests",
    "turn_page",
]
