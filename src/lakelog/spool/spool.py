"""A spool: a writer that also keeps its folder: seals, syncs and deletes when it is time to.

Everything that is done of its own accord (syncing what is old, sealing, retention) is done by
``tick``, which a thread calls now and then; a simulator calls it itself.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

from lakelog.errors import FullError, LakelogError, UnavailableError
from lakelog.spool.cells import Shipped, read_shipped
from lakelog.spool.counters import Gauges, page_faults, print_metrics
from lakelog.spool.disk import Disk
from lakelog.spool.fullness import bytes_used, delete_for_room
from lakelog.spool.partition import PartitionLog
from lakelog.spool.reading import SpoolReader
from lakelog.spool.retention import Compacted, Deleted, compact, delete_oldest, plan_retention
from lakelog.spool.settings import SpoolSettings, WhenFull
from lakelog.spool.writing import US_PER_MS, Writer

__all__ = ["KEEP_LOCK", "Spool"]

KEEP_LOCK = ".keeping.lock"
BLOCK_POLL_S = 0.05
KEEP_EVERY_US = 60_000_000
TICK_S_MAX = 1.0


class Spool(Writer):
    """One folder of logs, with its one writer. Threads may share it."""

    def __init__(
        self,
        disk: Disk,
        settings: SpoolSettings,
        *,
        id_: bytes,
        is_adopted: bool,
        lock: int,
        clock_us: Callable[[], int],
    ) -> None:
        super().__init__(disk, settings, is_adopted=is_adopted, lock=lock, clock_us=clock_us)
        self.id = id_
        self.reader = SpoolReader(disk, self.log)
        self._stopping = threading.Event()
        self._ticker: threading.Thread | None = None
        self._kept_us = clock_us()

    # ------------------------------------------------------------------------ what is due

    def tick(self) -> None:
        """Do what is due: sync what is old enough, seal segments, delete what retention says.

        Raises:
            UnavailableError: the disk failed.
        """
        self._check()
        now_us = self._clock_us()
        with self._lock:
            due = [log for log in self._logs.values() if self._is_due(log, now_us)]
            for log in [one for one in self._logs.values() if now_us >= one.due_us]:
                self._seal(log)
        for log in due:
            self._synced(log)
        if now_us - self._kept_us >= KEEP_EVERY_US:
            self._kept_us = now_us
            self.keep()

    def start_ticking(self) -> None:
        """Let a thread call ``tick`` as often as the policy asks for."""
        every_s = min((self.settings.sync.ms or 1000) / 1000 / 2, TICK_S_MAX)

        def run() -> None:
            while not self._stopping.wait(every_s) and self._failure is None:
                # What failed is said to whoever appends next.
                with contextlib.suppress(LakelogError):
                    self.tick()

        self._ticker = threading.Thread(target=run, name="lakelog-spool", daemon=True)
        self._ticker.start()

    # ------------------------------------------------------------------------ keeping

    def keep(self) -> Deleted:
        """Delete what retention says, of all partitions that this spool has used.

        Raises:
            UnavailableError: the disk failed.
        """
        with self._lock:
            self._check()
            now_us, total = self._clock_us(), Deleted(0, 0, 0)
            horizon_ms = now_us // US_PER_MS - (self.settings.retention_ms or 0)
            with self._keeping() as shipped:
                for log in self._logs.values():
                    of = shipped.get(log.name, Shipped())
                    count = plan_retention(self.disk, log, self.settings, of, now_us)
                    deleted = delete_oldest(
                        self.disk, log, count, of, now_us=now_us, horizon_ms=horizon_ms
                    )
                    self._note(deleted)
                    total = Deleted(*(a + b for a, b in zip(total, deleted, strict=True)))
        return total

    def compact(
        self, topic: str, partition: int = 0, *, tombstones_ms: int = 86_400_000
    ) -> Compacted:
        """Keep the newest record of each key among the sealed ones that may be deleted.

        Tombstones that are older than ``tombstones_ms`` go, too.

        Raises:
            CorruptError: a segment is damaged.
            UnavailableError: the disk failed.
        """
        with self._lock:
            log = self.log(topic, partition)
            tombstones_us = self._clock_us() - tombstones_ms * US_PER_MS
            with self._keeping() as shipped:
                before = log.size
                done = compact(
                    self.disk, log, shipped.get(log.name, Shipped()),
                    keep_unshipped=self.settings.keep_unshipped, tombstones_us=tombstones_us,
                )  # fmt: skip
                self._room += before - log.size
        return done

    @contextlib.contextmanager
    def _keeping(self) -> Iterator[dict[tuple[str, int], Shipped]]:
        """Hold what was shipped still: no shipment begins while something is deleted."""
        with self._careful(), self.disk.locked(KEEP_LOCK):
            yield read_shipped(self.disk)

    def _note(self, deleted: Deleted) -> None:
        self._room += deleted.bytes
        self.counters.deleted_segments += deleted.segments
        self.counters.dropped_records += deleted.unshipped

    def _make_room(self, log: PartitionLog, size: int, now_us: int) -> None:
        """See that an append has room: in its segment, and in the folder."""
        super()._make_room(log, size, now_us)
        settings = self.settings
        waited_until = now_us + settings.block_ms_max * US_PER_MS
        while size > self._room:
            assert settings.bytes_max is not None
            used = bytes_used(self.disk)  # Indexes count, and are not followed one by one.
            self._room = settings.bytes_max - used
            if size <= self._room or self._delete_for_room():
                continue
            if settings.when_full is WhenFull.BLOCK and self._clock_us() < waited_until:
                self._wait_for_room()
                continue
            self.counters.refused += 1
            raise FullError(
                f"{self.disk.root}: {used} of {settings.bytes_max} bytes are used, and nothing may "
                "be deleted before it is shipped: lakelog spool ship, or open the spool with a "
                "larger bytes_max"
            )

    def _delete_for_room(self) -> bool:
        """Delete one segment that may go; False if there is none."""
        with self._keeping() as shipped:
            deleted = delete_for_room(
                self.disk, [self.log(*name) for name in self.partitions()], shipped,
                drops=self.settings.when_full is WhenFull.DROP, clock_us=self._clock_us,
            )  # fmt: skip
        if deleted is None:
            return False
        self._note(deleted)
        return True

    def _wait_for_room(self) -> None:
        """Let others go on for a moment."""
        self._lock.release()
        try:
            self._stopping.wait(BLOCK_POLL_S)
        finally:
            self._lock.acquire()
        self._check()

    # ------------------------------------------------------------------------ looking

    def gauges(self) -> Gauges:
        """Return what is so now, of the partitions that this spool has used."""
        with self._lock:
            shipped, logs = read_shipped(self.disk), list(self._logs.values())
            return Gauges(
                partitions=len(logs),
                segments=sum(len(log.sealed) + 1 for log in logs),
                bytes=sum(log.size for log in logs),
                bytes_max=self.settings.bytes_max,
                unsynced=sum(log.unsynced for log in logs),
                unshipped=sum(
                    max(log.end - max(shipped.get(log.name, Shipped()).end, log.start), 0)
                    for log in logs
                ),
                records=sum(log.appended for log in logs),
                page_faults=page_faults(),
            )

    def metrics(self) -> str:
        """Return the page that Prometheus reads."""
        return print_metrics(self.counters, self.gauges())

    # ------------------------------------------------------------------------ the end

    def close(self) -> None:
        """Make all durable, and let others open the folder.

        Raises:
            UnavailableError: the disk failed. The folder can be opened again.
        """
        self._stopping.set()
        if self._ticker is not None:
            self._ticker.join()
        super().close()

    def __enter__(self) -> "Spool":
        return self

    def __exit__(self, kind: Any, *_: object) -> None:
        try:
            self.close()
        except UnavailableError:
            if kind is None:
                raise
