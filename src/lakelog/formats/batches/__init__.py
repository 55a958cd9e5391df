"""Runs of record batches: what a KAFS segment and a Kafka log file have in common.

run      reading a run: look up, hand out in pieces, find the next batch behind damage
walk     every batch of a run, in order, on behind damage; with records or without
check    holding an index against the batches it speaks of
encode   records as a run
"""

from lakelog.formats.batches.check import IndexCheck, IndexEntry, Told, follow
from lakelog.formats.batches.encode import BATCH_BYTES_GOAL, BATCH_RECORDS_MAX, encode_run
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
from lakelog.formats.batches.walk import walk_run
from lakelog.records import Frame, frames

__all__ = [
    "BATCH_BYTES_GOAL",
    "BATCH_RECORDS_MAX",
    "SEARCH_BYTES_MAX",
    "Frame",
    "IndexCheck",
    "IndexEntry",
    "Piece",
    "Run",
    "Told",
    "encode_run",
    "find_offset",
    "find_time",
    "first_batch",
    "follow",
    "frames",
    "pieces",
    "read_records",
    "walk_run",
]
