"""Segments of a spool as they are read: mapped, looked up by offset and by time, as Arrow.

A sealed segment is mapped, and does not change: who has it mapped keeps it, also when it was
compacted or deleted meanwhile. Of the active one its writer maps what it has written. Another
process does not map it: a writer that finds its end torn makes the file shorter, and to look at
mapped memory that is gone ends a process. It reads.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from lakelog.formats import FORMATS, Files, Range, drive_items
from lakelog.formats import kernels_spool as k
from lakelog.formats.columns import scan_columns
from lakelog.spool.disk import Disk
from lakelog.spool.recovery import INDEX, LOG, SegmentFile, file_name

__all__ = ["columns_of", "last_time_us", "position_of", "read_columns"]

_FORMAT = FORMATS["rustlog"]
PIECE_BYTES = 1 << 30
"""A mapped segment is one piece: nothing is copied to put pieces together."""


def read_columns(
    log: memoryview,
    index: memoryview,
    base_offset: int,
    columns: Iterable[str],
    *,
    active: bool,
    **settings: Any,
) -> Iterator[pa.RecordBatch]:
    """Yield the records of a segment that is in memory as Arrow.

    Raises:
        CorruptError, UnsupportedError: something is wrong with it.
    """
    files = {LOG: log, INDEX: index}

    def give(wanted: Range) -> memoryview:
        return files[wanted.suffix][wanted.start : wanted.end]

    sizes = {suffix: len(data) for suffix, data in files.items() if len(data) or suffix == LOG}
    about = Files(base_offset=base_offset, sizes=sizes, active=active)
    scan = scan_columns(_FORMAT, about, columns, piece_bytes=PIECE_BYTES, **settings)
    return drive_items(scan, give)  # type: ignore[arg-type]


def columns_of(
    disk: Disk, folder: str, segment: SegmentFile, columns: Iterable[str], **settings: Any
) -> Iterator[pa.RecordBatch]:
    """Yield the records of a sealed segment as Arrow."""
    log = disk.view(folder, file_name(segment.base_offset), segment.size, ahead=True)
    index = memoryview(b"")
    if segment.index_bytes:
        index = disk.view(folder, file_name(segment.base_offset, INDEX))
    return read_columns(log, index, segment.base_offset, columns, active=False, **settings)


def position_of(log: memoryview, index: memoryview, offset: int) -> int:
    """Return where the first record at or after ``offset`` begins, or the log ends."""
    at = 0
    if len(index):
        entries = np.frombuffer(index, ">i8").reshape(-1, 2)
        number = int(np.searchsorted(entries[:, 0], offset, side="right")) - 1
        if number >= 0:
            at = int(entries[number, 1])
    while at + k.ROW_BYTES <= len(log):
        if int.from_bytes(log[at + 4 : at + 12], "big") >= offset:
            break
        at += k.ROW_BYTES + int.from_bytes(log[at : at + 4], "big")
    return at


def last_time_us(disk: Disk, folder: str, segment: SegmentFile) -> int:
    """Return the time of the last record of a sealed segment; it is looked up once."""
    if segment.time_us is None:
        log = disk.view(folder, file_name(segment.base_offset), segment.size)
        at = 0
        if segment.index_bytes:
            index = disk.view(folder, file_name(segment.base_offset, INDEX))
            at = int.from_bytes(index[-8:], "big")
        time_us = 0
        while at + k.ROW_BYTES <= len(log):
            time_us = int.from_bytes(log[at + 12 : at + 20], "big")
            at += k.ROW_BYTES + int.from_bytes(log[at : at + 4], "big")
        segment.time_us = time_us
    return segment.time_us
