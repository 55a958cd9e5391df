"""The log of one partition, as its writer has it: sealed segments, and the one that grows.

    append    encoded records -> one write behind the last one
    sync      what was written is on the disk
    seal      sync; index aside and renamed; the next segment; one sync for all of these names

Three ends of the log, each at or before the next: what is on the disk (``durable_end``), what a
kill leaves (``end``), and what is being written, which nobody sees.

The active segment has no index file. Its index is in memory, and is built again by recovery, which
reads the segment anyway; readers do without.

Threads: all is done under the lock of the spool, but an fsync, which holds ``sync_lock``. Whoever
wants both takes the spool's first; whoever syncs takes only the second, and reads ``_tip``, which
is replaced as a whole.
"""

import errno
import threading
from typing import NamedTuple

from lakelog.spool.cells import RecoveryPoint, write_recovery
from lakelog.spool.disk import Disk
from lakelog.spool.encoding import Encoded, NextRecord
from lakelog.spool.recovery import INDEX, Recovered, SegmentFile, file_name
from lakelog.spool.settings import SpoolSettings

__all__ = ["PartitionLog"]

RECOVERY_BYTES = 16 << 20
"""So much is synced before the recovery point is moved there: recovery writes no more than that."""

_NEVER_US = _ANY = 1 << 63


class _Tip(NamedTuple):
    """The end of what was written."""

    base_offset: int
    position: int
    offset: int


class PartitionLog:
    """One partition."""

    __slots__ = (
        "_checkpointed",
        "_disk",
        "_index",
        "_number", "_opened_at",
        "_raw_end",
        "_settings",
        "_synced",
        "_tip",
        "due_us",
        "folder",
        "handle",
        "name",
        "room",
        "sealed",
        "sync_lock",
        "time_us",
        "unsynced_us",
    )  # fmt: skip

    def __init__(
        self,
        disk: Disk,
        folder: str,
        name: tuple[str, int],
        found: Recovered,
        *,
        now_us: int,
        settings: SpoolSettings,
    ) -> None:
        self._disk, self.folder, self.name = disk, folder, name
        self.sealed: list[SegmentFile] = found.sealed
        scanned = found.scanned
        self._tip = self._synced = _Tip(found.base_offset, scanned.end, scanned.next_offset)
        self._checkpointed, self._opened_at = scanned.end, scanned.next_offset
        self._number, self._index = scanned.count, scanned.index
        self._raw_end = found.raw_end
        self.handle: int | None = None
        self.time_us = scanned.time_us
        self._settings = settings
        self.due_us, self.room = _NEVER_US, _ANY
        """When the active segment is so old that it is sealed, and how many bytes it may still
        take: never, and any, while it has no record."""
        if scanned.count:
            self._limit(now_us)
        self.unsynced_us = 0
        """When the first record was written that may not be on the disk; 0: all are."""
        self.sync_lock = threading.Lock()

    # ------------------------------------------------------------------------ what there is

    @property
    def end(self) -> int:
        """The offset of the next record."""
        return self._tip.offset

    @property
    def durable_end(self) -> int:
        """Records below it survive a power cut."""
        return self._synced.offset

    @property
    def start(self) -> int:
        """The offset of the first record, or of the next if there is none."""
        return self.sealed[0].base_offset if self.sealed else self._tip.base_offset

    @property
    def active(self) -> tuple[int, int]:
        """The base offset of the active segment, and its bytes."""
        return self._tip.base_offset, self._tip.position

    @property
    def unsynced(self) -> int:
        """How many records may not be on the disk."""
        return self._tip.offset - self._synced.offset

    @property
    def appended(self) -> int:
        """How many records were appended since it was opened."""
        return self._tip.offset - self._opened_at

    @property
    def raw_end(self) -> int:
        """Records below it may be raw."""
        return self._raw_end

    @property
    def size(self) -> int:
        """Bytes of all logs and indexes."""
        sealed = sum(one.size + one.index_bytes for one in self.sealed)
        return sealed + self._tip.position

    def end_of(self, number: int) -> int:
        """Return where the sealed segment of this number ends: where the next one begins."""
        after = self.sealed[number + 1 : number + 2]
        return after[0].base_offset if after else self._tip.base_offset

    def next_record(self, now_us: int) -> NextRecord:
        """Return where the next record goes."""
        _, position, offset = self._tip
        time_us = self.time_us if self.time_us > now_us else now_us
        # Its own constructor would take twice as long.
        return tuple.__new__(NextRecord, (offset, self._number, position, time_us))

    # ------------------------------------------------------------------------ writing

    def append(self, encoded: Encoded, now_us: int) -> int:
        """Write records that were encoded for ``next_record``; return the offset of the first.

        Raises:
            FullError: the disk has no room; nothing was written.
            UnavailableError: the disk failed; whether they are there is not known.
        """
        handle = self.handle
        if handle is None:
            handle = self._open()
        base, position, offset = self._tip
        data, index, count, self.time_us = encoded
        size = len(data)
        if not size:
            return offset
        try:
            if self._disk.system.writev(handle, [data]) != size:
                self._write_rest(handle, data, position)
        except OSError as error:
            self._undo(handle, count, error)
        if index:
            self._index += index
        self._number += count
        self._tip = tuple.__new__(_Tip, (base, position + size, offset + count))
        if not self.unsynced_us:
            self.unsynced_us = now_us
        self.room -= size
        if not position:
            self._limit(now_us)
        return offset

    def _limit(self, now_us: int) -> None:
        self.due_us = now_us + self._settings.segment_ms * 1000
        self.room = self._settings.segment_bytes - self._tip.position

    def _write_rest(self, handle: int, data: memoryview, position: int) -> None:
        """Write what a short write has left: the disk is full, or a signal came."""
        written = self._disk.system.fstat(handle).st_size - position
        self._disk.write(handle, data[written:])

    def _undo(self, handle: int, count: int, error: OSError) -> None:
        """Let the file end where it ended, so that nothing half written is in the way.

        If some of it was written, a reader may have seen it, and shipped it: its offsets are not
        used again.
        """
        base, position, offset = self._tip
        try:
            was_seen = self._disk.system.fstat(handle).st_size > position
            self._disk.system.ftruncate(handle, position)
        except OSError as worse:
            raise self._disk.failure(worse) from error
        if was_seen:
            self._tip = _Tip(base, position, offset + count)
        raise self._disk.refusal(error) from error

    def sync(self, offset: int) -> None:
        """See that all records below ``offset`` are on the disk; many threads may ask at once.

        One of them calls fsync for all that have written before it; the others find that done.

        Raises:
            UnavailableError: fsync failed.
        """
        with self.sync_lock:
            if self._synced.offset < offset:
                self._sync_tip()

    def _sync_tip(self) -> None:
        """Sync what was written; under ``sync_lock``."""
        # In this order: what is written from here on says so itself.
        self.unsynced_us = 0
        tip = self._tip
        if tip == self._synced:
            return
        if self.handle is not None:
            self._disk.sync(self.handle, self.folder)
        else:
            name = file_name(tip.base_offset)
            with self._disk.opened(self.folder, name, write=True) as handle:
                self._disk.sync(handle, self.folder)
        self._synced = tip
        if tip.position - self._checkpointed >= RECOVERY_BYTES:
            self._move_recovery()

    def _move_recovery(self) -> None:
        base, position, _ = self._synced
        point = RecoveryPoint(base_offset=base, position=position, raw_end=self._raw_end)
        try:
            write_recovery(self._disk, self.folder, point)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            return  # All records are on the disk. Recovery will write a few of them again.
        self._checkpointed = position

    # ------------------------------------------------------------------------ sealing

    def seal(self) -> None:
        """Seal the active segment, if it has records, and begin the next.

        Raises:
            UnavailableError: fsync failed.
        """
        with self.sync_lock:
            base, position, offset = self._tip
            if not position:
                return
            self._sync_end()
            self._let_go()
            index = bytes(self._index)
            self._disk.replace(self.folder, file_name(base, INDEX), index, durable=False)
            self.handle = self._begin_segment(offset)
            self.sealed.append(
                SegmentFile(
                    base_offset=base, size=position, index_bytes=len(index), time_us=self.time_us
                )
            )
            self._tip = self._synced = _Tip(offset, 0, offset)
            self._number, self._index = 0, bytearray()
            self.due_us, self.room = _NEVER_US, _ANY
            self._checkpointed = 0

    def _sync_end(self) -> None:
        """Make durable that the segment ends here; under ``sync_lock``.

        All its records may be synced, and the disk may still have more: recovery has cut a torn
        record off, and was ended before its fsync, or that fsync failed. The last segment may have
        such an end; a sealed one is read to its last byte.
        """
        handle = self._open() if self.handle is None else self.handle
        self._disk.system.ftruncate(handle, self._tip.position)
        self._disk.sync(handle, self.folder)
        self._synced, self.unsynced_us = self._tip, 0

    def _begin_segment(self, offset: int) -> int:
        """Begin the segment that follows; it is on the disk, and so are the names around it."""
        handle = self._disk.open(self.folder, file_name(offset), write=True, create=True)
        try:
            # Its sync of the folder makes the names of the index and of the segment durable, too.
            point = RecoveryPoint(base_offset=offset, position=0, raw_end=self._raw_end)
            write_recovery(self._disk, self.folder, point)
        except OSError as error:
            # Whoever opens this again finds an empty segment, and goes on there.
            self._disk.system.close(handle)
            raise self._disk.failure(error) from error
        return handle

    def _open(self) -> int:
        name = file_name(self._tip.base_offset)
        handle = self.handle = self._disk.open(self.folder, name, write=True)
        return handle

    def let_go(self) -> None:
        """Close the file of the active segment. It is opened again when it is needed."""
        with self.sync_lock:
            self._let_go()

    def _let_go(self) -> None:
        if self.handle is not None:
            self._disk.system.close(self.handle)
            self.handle = None

    def close(self) -> None:
        """Make all durable, say so, and close.

        Raises:
            UnavailableError: fsync failed.
        """
        with self.sync_lock:
            self._sync_tip()
            if self._checkpointed != self._synced.position:
                self._move_recovery()
            self._let_go()

    @property
    def _path(self) -> str:
        return self._disk.path(self.folder, file_name(self._tip.base_offset))
