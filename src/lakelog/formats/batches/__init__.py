"""Runs of record batches: what a KAFS segment and a Kafka log file have in common.

run      reading a run: look up, hand out in pieces, find the next batch behind damage
walk     every batch of a run, in order, on behind damage; with records or without
index    looking up in an index, and holding it against the batches it speaks of
segment  an opened segment
"""

from lakelog.formats.batches.index import BatchEntry, IndexCheck, OffsetIndex, Told, follow
from lakelog.formats.batches.run import (
    SEARCH_BYTES_MAX,
    Piece,
    Run,
    find_offset,
    find_time,
    first_batch,
    pieces,
    read_records,
)
from lakelog.formats.batches.segment import BatchSegment, base_offset_of
from lakelog.formats.batches.walk import walk_run
from lakelog.records import Frame, frames

__all__ = [
    "SEARCH_BYTES_MAX",
    "BatchEntry",
    "BatchSegment",
    "Frame",
    "IndexCheck",
    "OffsetIndex",
    "Piece",
    "Run",
    "Told",
    "base_offset_of",
    "find_offset",
    "find_time",
    "first_batch",
    "follow",
    "frames",
    "pieces",
    "read_records",
    "walk_run",
]
