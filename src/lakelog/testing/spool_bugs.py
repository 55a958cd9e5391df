"""Planted bugs of a spool: each breaks one rule of it, and the simulator must find it."""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from lakelog.spool.disk import Disk
from lakelog.spool.partition import PartitionLog
from lakelog.spool.recovery import Scanned, SegmentFile, scan
from lakelog.spool.writing import Writer
from lakelog.store import Folders
from lakelog.testing.scale import Patches, patched

__all__ = ["SPOOL_BUGS", "SpoolBug", "planted_in_spool"]

_READING, _RECOVERY, _RETENTION, _FULLNESS = (
    f"lakelog.spool.{name}" for name in ("reading", "recovery", "retention", "fullness")
)


@dataclass(frozen=True, slots=True)
class SpoolBug:
    """What is broken: a sentence, what is replaced by what, and a seed that finds it."""

    what: str
    patches: Patches
    seed: int


def planted_in_spool(name: str) -> AbstractContextManager[None]:
    """Plant a bug while this lasts; the empty name plants none."""
    return patched(SPOOL_BUGS[name].patches if name else ())


def _believe(log: PartitionLog) -> None:
    """Say that all is on the disk, and ask nobody."""
    log._synced = log._tip  # noqa: SLF001


def _sync_records(log: PartitionLog) -> None:
    log._sync_tip()  # noqa: SLF001


def _no_checkpoint(disk: Disk, folder: str) -> None: ...


def _take_all(view: memoryview, *, base_offset: int, raw_end: int) -> Scanned:  # noqa: ARG001
    return scan(view, base_offset=base_offset, raw_end=1 << 62)


def _sync_late(writer: Writer, log: PartitionLog, now_us: int) -> None:
    records = writer.settings.sync.records
    if (records is not None and log.unsynced > records) or writer._is_due(log, now_us):  # noqa: SLF001
        writer._synced(log)  # noqa: SLF001


def _replace_log(disk: Disk, log: PartitionLog, segment: SegmentFile, data: bytes) -> None:
    """Put another log where one was, beside the index of that one."""
    name = f"{segment.base_offset:020d}.log"
    disk.replace(log.folder, name, data)
    segment.size = len(data)


def _replace_unsynced(
    disk: Disk, folder: str, name: str, data: bytes, *, durable: bool = True
) -> None:
    disk.unlink(folder, name + ".tmp")
    handle = disk.open(folder, name + ".tmp", write=True, create=True)
    disk.write(handle, data)
    disk.system.close(handle)
    disk.rename(folder, name + ".tmp", name)
    if durable:
        disk.sync_folder(folder)


def _nothing(*_: Any, **__: Any) -> None: ...


def _all_durable(log: PartitionLog, *_: Any, **__: Any) -> int:
    return log.durable_end


SPOOL_BUGS = {
    "sync-believed": SpoolBug(
        "an append is acknowledged before its records are on the disk",
        ((PartitionLog, "_sync_tip", _believe),),
        0,
    ),
    "sealed-unsynced": SpoolBug(
        "the next segment is begun before the last one is on the disk",
        ((PartitionLog, "_sync_end", _believe),),
        1,
    ),
    "end-unsynced": SpoolBug(
        "a segment whose records are synced is sealed, and what recovery has cut off comes back",
        ((PartitionLog, "_sync_end", _sync_records),),
        4379,
    ),
    "names-unsynced": SpoolBug(
        "files are synced, and the folders that name them are not",
        ((Folders, "sync", _nothing),),
        0,
    ),
    "torn-taken": SpoolBug(
        "recovery takes what has the frame of a record, whatever its checksum",
        ((_RECOVERY, "scan", _take_all),),
        0,
    ),
    "tail-trusted": SpoolBug(
        "recovery does not write again what an fsync may have lost",
        ((_RECOVERY, "_write_again", _nothing),),
        16,
    ),
    "unshipped-deleted": SpoolBug(
        "retention deletes what was not shipped",
        ((_RETENTION, "protected_from", _all_durable), (_FULLNESS, "protected_from", _all_durable)),
        1,
    ),
    "deleted-read": SpoolBug(
        "a reader takes segments that retention was deleting when the power was cut",
        ((_READING, "read_checkpoint", _no_checkpoint),),
        375,
    ),
    "index-left": SpoolBug(
        "compaction leaves the index of the log that it replaces",
        ((_RETENTION, "_replace_log", _replace_log),),
        5,
    ),
    "one-too-many": SpoolBug(
        "a sync after N records is made after one more",
        ((Writer, "_sync_by_policy", _sync_late),),
        6,
    ),
    "renamed-unsynced": SpoolBug(
        "a file is renamed to its name before its bytes are on the disk",
        ((Disk, "replace", _replace_unsynced),),
        0,
    ),
}
