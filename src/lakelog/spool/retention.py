"""What a partition keeps: retention, room when there is none left, and compaction.

    retention    the oldest sealed segments that are too old, or too much
    room         the oldest sealed segments that were shipped, whatever their age; else it depends
    compaction   of each key the newest record stays, where it is

Never touched: the active segment; what is not on the disk; a range that is being shipped, because
it must be shipped again exactly so; and, unless the spool was told otherwise, what was not shipped
and confirmed.

Where the log begins is written down before anything is deleted, in the cleaner's checkpoint. A
power cut may bring back some files of those that were deleted, and not others: recovery finishes
what the checkpoint says.
"""

import errno
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.errors import CorruptError
from lakelog.formats import kernels_spool as k
from lakelog.formats import rustlog
from lakelog.formats.rustlog import CHECKPOINT_NAME, CleanerCheckpoint
from lakelog.spool.cells import Shipped
from lakelog.spool.disk import Disk
from lakelog.spool.partition import PartitionLog
from lakelog.spool.recovery import COMPACTED, INDEX, SegmentFile, file_name, scan
from lakelog.spool.segments import columns_of, last_time_us
from lakelog.spool.settings import SpoolSettings

__all__ = ["Compacted", "Deleted", "compact", "delete_oldest", "plan_retention", "protected_from"]

_US_PER_MS = 1000


class Deleted(NamedTuple):
    """What was deleted."""

    segments: int
    bytes: int
    unshipped: int
    """Offsets among them that were not shipped."""


@dataclass(slots=True, kw_only=True)
class Compacted:
    """What compaction has left."""

    segments: int = 0
    records_before: int = 0
    records_after: int = 0
    bytes_before: int = 0
    bytes_after: int = 0


def protected_from(log: PartitionLog, shipped: Shipped, *, keep_unshipped: bool) -> int:
    """Return the offset from which on nothing may be deleted."""
    limit = log.durable_end
    if keep_unshipped:
        limit = min(limit, shipped.end)
    if shipped.pending is not None:
        limit = min(limit, shipped.pending.start)
    return limit


def plan_retention(
    disk: Disk, log: PartitionLog, settings: SpoolSettings, shipped: Shipped, now_us: int
) -> int:
    """Return how many of the oldest segments retention deletes."""
    limit = protected_from(log, shipped, keep_unshipped=settings.keep_unshipped)
    count, size = 0, log.size
    for number, segment in enumerate(log.sealed):
        if log.end_of(number) > limit:
            break
        is_old = (
            settings.retention_ms is not None
            and last_time_us(disk, log.folder, segment)
            < now_us - settings.retention_ms * _US_PER_MS
        )
        is_much = settings.retention_bytes is not None and size > settings.retention_bytes
        if not (is_old or is_much):
            break
        size -= segment.size + segment.index_bytes
        count += 1
    return count


def delete_oldest(
    disk: Disk, log: PartitionLog, count: int, shipped: Shipped, *, now_us: int, horizon_ms: int
) -> Deleted:
    """Delete the oldest segments of a partition: first it is written down where the log begins."""
    if not count:
        return Deleted(0, 0, 0)
    try:
        _write_checkpoint(
            disk, log.folder, log.end_of(count - 1), now_us=now_us, horizon_ms=horizon_ms
        )
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        # The oldest alone leaves no hole, whether or not it comes back: that makes room.
        count = 1
    start = log.end_of(count - 1)
    gone = log.sealed[:count]
    unshipped = max(start - max(shipped.end, log.start), 0)
    del log.sealed[:count]
    for segment in gone:
        # The index last: a log without one is whole.
        disk.unlink(
            log.folder, file_name(segment.base_offset), file_name(segment.base_offset, INDEX)
        )
    disk.sync_folder(log.folder)
    return Deleted(count, sum(one.size + one.index_bytes for one in gone), unshipped)


def _write_checkpoint(disk: Disk, folder: str, start: int, *, now_us: int, horizon_ms: int) -> None:
    checkpoint = CleanerCheckpoint(
        last_cleaned_offset=start,
        retention_horizon_ms=max(horizon_ms, 0),
        created_at_ns=now_us * 1000,
    )
    disk.replace(folder, CHECKPOINT_NAME, rustlog.encode_checkpoint(checkpoint))


# ---------------------------------------------------------------------------- compaction


def compact(
    disk: Disk, log: PartitionLog, shipped: Shipped, *, keep_unshipped: bool, tombstones_us: int
) -> Compacted:
    """Drop the sealed records of which there is a newer one with the same key, sealed too.

    Offsets and times stay, and so do records without a key. Tombstones from before
    ``tombstones_us`` go, too, with all that they outdate. Segments are done from the oldest on, and
    each is durable before the next, so that a tombstone never goes before what it outdates.

    Raises:
        CorruptError: a segment is damaged; those before it are compacted.
    """
    done = Compacted()
    limit = protected_from(log, shipped, keep_unshipped=keep_unshipped)
    chosen = [one for number, one in enumerate(log.sealed) if log.end_of(number) <= limit]
    newest = _newest_offsets(disk, log, chosen)
    for segment in chosen:
        _compact_segment(disk, log, segment, newest, tombstones_us, done)
    log.sealed = [one for one in log.sealed if one.size]
    return done


def _newest_offsets(disk: Disk, log: PartitionLog, segments: list[SegmentFile]) -> pa.Array:
    """Return the offsets of the newest records of all keys, in order."""
    tables = [
        pa.Table.from_batches(columns_of(disk, log.folder, one, ("key", "offset")))
        for one in segments
        if one.size
    ]
    if not tables:
        return pa.array([], pa.int64())
    keyed = pa.concat_tables(tables).filter(pc.is_valid(pc.field("key")))
    newest = keyed.group_by("key").aggregate([("offset", "max")])
    return newest["offset_max"].combine_chunks().sort()


def _compact_segment(
    disk: Disk,
    log: PartitionLog,
    segment: SegmentFile,
    newest: pa.Array,
    tombstones_us: int,
    done: Compacted,
) -> None:
    if not segment.size:
        return
    name = file_name(segment.base_offset)
    columns = ("key", "value", "offset", "timestamp")
    rows = pa.Table.from_batches(columns_of(disk, log.folder, segment, columns))
    keyless = pc.is_null(rows["key"])
    is_newest = pc.is_in(rows["offset"], value_set=newest)
    old = pc.less(rows["timestamp"].cast(pa.int64()), tombstones_us)
    gone = pc.and_(pc.and_(pc.is_null(rows["value"]), pc.invert(keyless)), old)
    stays = pc.and_(pc.or_(keyless, is_newest), pc.invert(gone))
    kept = rows["offset"].filter(stays).combine_chunks().to_numpy()
    done.segments += 1
    done.records_before += rows.num_rows
    done.records_after += len(kept)
    done.bytes_before += segment.size
    if len(kept) == rows.num_rows:
        done.bytes_after += segment.size
        return
    view = np.frombuffer(disk.view(log.folder, name, segment.size), np.uint8)
    out = np.empty(len(view), np.uint8)
    size = int(
        k.copy_kept(
            view.ctypes.data, len(view), np.ascontiguousarray(kept, np.int64), out.ctypes.data
        )
    )
    _replace_log(disk, log, segment, out[:size].tobytes())
    done.bytes_after += size


def _replace_log(disk: Disk, log: PartitionLog, segment: SegmentFile, data: bytes) -> None:
    """Let a segment hold other bytes. At no time is there an index of the other ones."""
    name, index_name = file_name(segment.base_offset), file_name(segment.base_offset, INDEX)
    found = scan(memoryview(data), base_offset=segment.base_offset, raw_end=log.raw_end)
    if not found.is_whole:
        raise CorruptError(
            "what compaction kept is not whole: the segment is damaged; see lakelog spool verify",
            at=found.end,
            where=disk.path(log.folder, name),
        )
    disk.unlink(log.folder, index_name)
    disk.sync_folder(log.folder)
    if not data:
        disk.unlink(log.folder, name)
        disk.sync_folder(log.folder)
        segment.size = segment.index_bytes = 0
        return
    handle = disk.open(log.folder, name + COMPACTED, write=True, create=True)
    try:
        disk.write(handle, data)
        disk.sync(handle, disk.path(log.folder, name + COMPACTED))
    finally:
        disk.system.close(handle)
    disk.rename(log.folder, name + COMPACTED, name)
    disk.sync_folder(log.folder)
    disk.replace(log.folder, index_name, bytes(found.index))
    segment.size, segment.index_bytes = len(data), len(found.index)
