"""What of a partition is good after its writer has ended, however it ended.

    1  what was left aside is removed: half an index, half a compaction
    2  what retention had begun to delete is deleted
    3  sealed segments are taken as they are; an index that is not their own is built again
    4  the last segment is read, every record of it: where its last whole record ends, it ends
    5  what may not be on the disk is written once more, and synced

A segment is synced before the next one is begun, so only the last can be torn. What stands there
behind the recovery point was not known to be on the disk: a bad record there is where the power
failed, and all from there on goes. Before the recovery point it is damage, and nothing is cut.

Step 5 is there because of fsyncs that failed. Their pages stay in memory, look right, and are never
written; a record behind them would be synced, acknowledged, and lost with them. Nobody can ask the
kernel whether there was such an fsync. So what was not known to be synced is written again where it
stands, byte for byte, which makes its pages dirty, and then synced.
"""

from dataclasses import dataclass, field

import numpy as np

from lakelog.errors import CorruptError
from lakelog.formats import FORMATS, kernels_spool, rustlog
from lakelog.formats import kernels_spool as k
from lakelog.formats.rustlog import CHECKPOINT_NAME, CleanerCheckpoint
from lakelog.records.kernels.fields import BAD, FULL
from lakelog.spool.cells import RecoveryPoint, read_recovery, write_recovery
from lakelog.spool.disk import ASIDE, Disk

__all__ = [
    "COMPACTED",
    "INDEX",
    "LOG",
    "Recovered",
    "Scanned",
    "SegmentFile",
    "build_index",
    "file_name",
    "list_segments",
    "read_checkpoint",
    "recover",
    "scan",
]

LOG, INDEX = ".log", ".index"
COMPACTED, REBUILDING = ".compacted", ".rebuilding"
_LEFT_ASIDE = (ASIDE, COMPACTED, REBUILDING)
_FORMAT = FORMATS["rustlog"]
CHECKPOINT_BYTES_MAX = 64 << 10
"""Of the cleaner's checkpoint."""


@dataclass(slots=True, kw_only=True)
class SegmentFile:
    """A segment that is sealed."""

    base_offset: int
    size: int
    index_bytes: int = 0
    time_us: int | None = None
    """Of its last record, once somebody has looked."""


def file_name(base_offset: int, suffix: str = LOG) -> str:
    """Return the name of a file of a segment."""
    return _FORMAT.file_stem(base_offset) + suffix


def list_segments(disk: Disk, folder: str) -> list[SegmentFile]:
    """Return the segments of a partition, in the order of their offsets; the last is active."""
    files = disk.files(folder)
    found = []
    for name, size in files.items():
        stem, dot, suffix = name.rpartition(".")
        base = _FORMAT.base_offset(stem)
        if dot + suffix == LOG and base is not None:
            index_bytes = files.get(stem + INDEX, 0)
            found.append(SegmentFile(base_offset=base, size=size, index_bytes=index_bytes))
    return sorted(found, key=lambda one: one.base_offset)


# ---------------------------------------------------------------------------- scanning


@dataclass(slots=True, kw_only=True)
class Scanned:
    """What was found in a segment, from its first byte on."""

    end: int
    """Behind the last whole record."""
    next_offset: int
    count: int
    time_us: int
    raw: int
    """How many records are no envelopes."""
    index: bytearray
    is_whole: bool
    """Whether there is nothing behind the last whole record."""


def scan(view: memoryview, *, base_offset: int, raw_end: int) -> Scanned:
    """Read every record of a segment. Those below ``raw_end`` may be raw."""
    log = np.frombuffer(view, np.uint8)
    address = log.ctypes.data if len(log) else 0
    cursor = np.zeros(k.SCAN_WIDTH, np.int64)
    cursor[k.C_OFFSET] = base_offset
    index, room = bytearray(), np.empty(1 << 16, np.uint8)
    while True:
        cursor[k.C_INDEX_BYTES] = 0
        status = kernels_spool.scan_records(
            address, len(log), raw_end, room.ctypes.data, len(room), cursor
        )
        index += room[: int(cursor[k.C_INDEX_BYTES])].tobytes()
        if status != FULL:
            break
    numbers = cursor.tolist()
    return Scanned(
        end=numbers[k.C_AT],
        next_offset=numbers[k.C_OFFSET],
        count=numbers[k.C_NUMBER],
        time_us=numbers[k.C_TIME],
        raw=numbers[k.C_RAW],
        index=index,
        is_whole=status != BAD,
    )


def build_index(disk: Disk, folder: str, base_offset: int, *, raw_end: int) -> int:
    """Build the index of a sealed segment: aside, then renamed; return its bytes.

    Raises:
        CorruptError: the segment is damaged.
    """
    name = file_name(base_offset)
    view = disk.view(folder, name, ahead=True)
    found = scan(view, base_offset=base_offset, raw_end=raw_end)
    if not found.is_whole:
        raise CorruptError(
            "no whole record stands here: the segment was synced before the next one was begun, so "
            "this is damage to the disk; lakelog spool verify shows all of it",
            at=found.end,
            where=disk.path(folder, name),
        )
    disk.replace(folder, file_name(base_offset, INDEX), bytes(found.index))
    return len(found.index)


def _is_index_of(disk: Disk, folder: str, segment: SegmentFile) -> bool:
    """Whether a segment has an index that can be its own: it rises, and leads into the log."""
    if not segment.index_bytes:
        return segment.size == 0
    if segment.index_bytes % 16:
        return False
    view = disk.view(folder, file_name(segment.base_offset, INDEX))
    entries = np.frombuffer(view, ">i8").reshape(-1, 2)
    offsets, positions = entries[:, 0], entries[:, 1]
    rises = bool(np.all(np.diff(offsets) > 0)) and bool(np.all(np.diff(positions) > 0))
    return (
        rises
        and int(positions[0]) == 0
        and int(offsets[0]) >= segment.base_offset
        and int(positions[-1]) + k.ROW_BYTES <= segment.size
    )


# ---------------------------------------------------------------------------- a partition


def read_checkpoint(disk: Disk, folder: str) -> CleanerCheckpoint | None:
    """Return how far retention has come in a partition.

    Raises:
        CorruptError, UnsupportedError: the file says something else.
    """
    data = disk.read(folder, CHECKPOINT_NAME, CHECKPOINT_BYTES_MAX)
    return None if data is None else rustlog.decode_checkpoint(data)


@dataclass(slots=True, kw_only=True)
class Recovered:
    """A partition as its next writer finds it."""

    sealed: list[SegmentFile]
    base_offset: int
    """Of the active segment."""
    scanned: Scanned
    raw_end: int = 0
    cut_bytes: int = 0
    rebuilt: list[int] = field(default_factory=list)
    """The segments whose index was built again."""


def recover(disk: Disk, folder: str, *, is_adopted: bool) -> Recovered:
    """Make a partition good, and return what is in it.

    Raises:
        CorruptError: it is damaged where the disk was said to have it.
        UnavailableError: an fsync failed.
    """
    _remove_left(disk, folder)
    point = read_recovery(disk, folder)
    segments = _finish_retention(disk, folder, list_segments(disk, folder))
    if not segments:
        return _begin(disk, folder, point, is_adopted=is_adopted)
    is_foreign = point is None and is_adopted
    last = segments.pop()
    raw_end = (1 << 63) - 1 if is_foreign else point.raw_end if point is not None else 0
    synced = _synced_position(point, last)
    scanned, cut = _recover_last(disk, folder, last, raw_end=raw_end, synced=synced)
    found = Recovered(sealed=segments, base_offset=last.base_offset, scanned=scanned, cut_bytes=cut)
    found.raw_end = scanned.next_offset if is_foreign else raw_end
    for segment in segments:
        if not _is_index_of(disk, folder, segment):
            segment.index_bytes = build_index(
                disk, folder, segment.base_offset, raw_end=found.raw_end
            )
            found.rebuilt.append(segment.base_offset)
    recovered = RecoveryPoint(
        base_offset=last.base_offset, position=scanned.end, raw_end=found.raw_end
    )
    if recovered != point:
        write_recovery(disk, folder, recovered)
    return found


def _begin(disk: Disk, folder: str, point: RecoveryPoint | None, *, is_adopted: bool) -> Recovered:
    """Begin the first segment of a partition."""
    base = point.base_offset if point is not None else 0
    checkpoint = read_checkpoint(disk, folder)
    base = max(base, checkpoint.last_cleaned_offset if checkpoint is not None else 0)
    raw_end = point.raw_end if point is not None else 0
    if is_adopted and point is None:
        # Else its first segment would pass for one of another writer.
        write_recovery(disk, folder, RecoveryPoint(base_offset=base, position=0))
    disk.system.close(disk.open(folder, file_name(base), write=True, create=True))
    disk.sync_folder(folder)
    empty = scan(memoryview(b""), base_offset=base, raw_end=0)
    return Recovered(sealed=[], base_offset=base, scanned=empty, raw_end=raw_end)


def _remove_left(disk: Disk, folder: str) -> None:
    names = disk.files(folder)
    left = [name for name in names if name.endswith(_LEFT_ASIDE)]
    left += [
        name
        for name in names
        if name.endswith(INDEX) and name.removesuffix(INDEX) + LOG not in names
    ]
    disk.unlink(folder, *left)


def _finish_retention(disk: Disk, folder: str, segments: list[SegmentFile]) -> list[SegmentFile]:
    """Delete the segments that are before the start of the log: a power cut may bring one back."""
    checkpoint = read_checkpoint(disk, folder)
    if checkpoint is None:
        return segments
    start = checkpoint.last_cleaned_offset
    ends = [one.base_offset for one in segments[1:]]
    gone = [one for one, end in zip(segments, ends, strict=False) if end <= start]
    for one in gone:
        disk.unlink(folder, file_name(one.base_offset), file_name(one.base_offset, INDEX))
    if gone:
        disk.sync_folder(folder)
    return segments[len(gone) :]


def _synced_position(point: RecoveryPoint | None, last: SegmentFile) -> int:
    """Return up to where the last segment is known to be on the disk."""
    if point is None or point.base_offset < last.base_offset:
        return 0
    # A later segment was begun, and its name was lost: this one was sealed, and synced, before.
    return point.position if point.base_offset == last.base_offset else last.size


def _recover_last(
    disk: Disk, folder: str, last: SegmentFile, *, raw_end: int, synced: int
) -> tuple[Scanned, int]:
    """Find the end of the last segment, and make it durable up to there."""
    name = file_name(last.base_offset)
    where = disk.path(folder, name)
    with disk.opened(folder, name, write=True) as handle:
        view = disk.view(folder, name, ahead=True)
        scanned = scan(view, base_offset=last.base_offset, raw_end=raw_end)
        if scanned.end < synced:
            raise CorruptError(
                f"no whole record stands here, and up to {synced} the disk was said to have them: "
                "it is damaged; restore a backup, or see with lakelog spool verify what is left",
                at=scanned.end,
                where=where,
            )
        cut = len(view) - scanned.end
        tail = bytes(view[synced : scanned.end])
        del view
        if cut:
            disk.system.ftruncate(handle, scanned.end)
        _write_again(disk, folder, name, tail, synced)
        if cut or tail:
            disk.sync(handle, where)
            disk.sync_folder(folder)
    return scanned, cut


def _write_again(disk: Disk, folder: str, name: str, tail: bytes, at: int) -> None:
    if not tail:
        return
    handle = disk.open_in_place(folder, name)
    try:
        rest = memoryview(tail)
        while len(rest):
            written = disk.system.pwrite(handle, rest, at)
            rest, at = rest[written:], at + written
    finally:
        disk.system.close(handle)
