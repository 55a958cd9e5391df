"""One partition, as a broker reads it.

    read_now   from memory, or that there is nothing yet: no waiting, for the hot path
    read       from the store, through the shared cache

Positive answers may come from what is known; that an offset is out of range is never said without
asking the lane and the manifest again.
"""

import asyncio
from collections.abc import Awaitable, Callable, Generator
from contextlib import suppress
from types import GeneratorType
from typing import Any

from kio.schema.errors import ErrorCode

from lakelog.broker.codes import read_code
from lakelog.broker.lanes import LaneWriter
from lakelog.broker.recent_batches import RecentBatches
from lakelog.broker.scans import RunScan
from lakelog.catalog import Topic
from lakelog.errors import LakelogError, UnavailableError
from lakelog.formats import Bytes
from lakelog.journal import Lane, ProducerState, new_append
from lakelog.log import (
    Bounds,
    Found,
    Known,
    OutOfRange,
    history_bytes,
    journal_bytes,
    newest,
    offset_at,
    read,
)
from lakelog.manifests import Manifest, change_manifest, changes, read_manifest
from lakelog.records import Scan
from lakelog.store import Work, run_async
from lakelog.wire import FetchedPartition

__all__ = ["Partition"]

PerformWork = Callable[[Any], Awaitable[Any]]
"""Performs what flows ask for, from memory where it can."""


def _refreshed(lane: Lane) -> Generator[Any, Any, None]:
    """Stand in for ``refresh`` of a lane: its writer has done it already."""
    if lane.snapshot is None:
        raise UnavailableError(f"lane {lane.number} has not been read to its end yet: retry")
    yield from ()


def _yield_scan(scan: Scan[Found | None]) -> Generator[Any, Any, Found | None]:
    """Yield a scan to what performs the flow, which runs it in a thread."""
    found: Found | None = yield scan
    return found


class Partition:
    """A partition of a topic, and what is known of it."""

    __slots__ = (
        "_in_turn",
        "_known",
        "_perform",
        "_recent",
        "_sized",
        "index",
        "lane",
        "lane_number",
        "path",
        "stamped_ms",
        "topic",
        "topic_id_partition",
    )

    def __init__(
        self,
        topic: Topic,
        index: int,
        lane: LaneWriter,
        recent: RecentBatches,
        perform: PerformWork,
    ) -> None:
        self.topic = topic
        self.index = index
        self.topic_id_partition = (topic.id, index)
        self.lane = lane
        self.lane_number = lane.lane.number
        """Below 0 if it is in no lane, and so has no leader."""
        self.path = topic.path_of(index)
        self._known = Known()
        self._recent = recent
        self._perform = perform
        self._in_turn: asyncio.Lock | None = None
        self._sized: tuple[Manifest, int] | None = None
        self.stamped_ms = 0
        """The newest time that was given to a batch of it."""

    def refused(self, records: Bytes) -> None:
        """Take note of batches that are refused: this broker may lead when the next ones come."""
        with suppress(LakelogError):
            batches = new_append(*self.topic_id_partition, records)
            self.lane.missing.note(batches, self.lane.lane.clock.boot_ms())

    @property
    def in_turn(self) -> asyncio.Lock:
        """Held while a batch is checked in a thread, so that batches keep their order."""
        if self._in_turn is None:
            self._in_turn = asyncio.Lock()
        return self._in_turn

    @property
    def log_start(self) -> int:
        """Where it begins, as far as it is known."""
        return self._known.manifest.log_start if self._known.manifest else -1

    @property
    def sealed_bytes(self) -> int | None:
        """How many bytes its history has, as far as it is known; None: it is not."""
        manifest = self._known.manifest
        if manifest is None:
            return None
        if self._sized is None or self._sized[0] is not manifest:
            self._sized = manifest, history_bytes(manifest)
        return self._sized[1]

    def read_now(self, offset: int, most: int) -> FetchedPartition | None:
        """Return what is in memory; a part without bytes at the end; None: ask ``read``."""
        manifest = self._known.get(self.lane.lane)
        end = self.lane.end(self.topic_id_partition)
        if manifest is None or end is None:
            return None
        end = max(end, manifest.sealed_end)
        if not manifest.log_start <= offset <= end:
            return None
        if offset == end:
            return FetchedPartition(self.index, ErrorCode.none, end, manifest.log_start)
        if offset < manifest.cleaned_end:
            return None  # Compaction took records away that memory still has: ask history.
        found = self._recent.read(self.topic_id_partition, offset, most)
        if found is None:
            return None
        return FetchedPartition(self.index, ErrorCode.none, end, manifest.log_start, *found)

    def marks(self) -> FetchedPartition:
        """Return where it begins and ends, as far as it is known, and nothing of it."""
        manifest = self._known.get(self.lane.lane)
        end = self.lane.end(self.topic_id_partition)
        if manifest is None or end is None:
            return FetchedPartition(self.index, ErrorCode.none)
        return FetchedPartition(
            self.index, ErrorCode.none, max(end, manifest.sealed_end), manifest.log_start
        )

    async def read(self, offset: int, most: int) -> FetchedPartition:
        """Return what is there at an offset: at least one batch, unless it is the end."""
        try:
            if not self._is_known(offset):
                await self.lane.refresh()
            if self._known.get(self.lane.lane) is None:
                boot_ms = self.lane.lane.clock.boot_ms()
                manifest = await run_async(read_manifest(self.path), self._perform)
                if not manifest.deleted:
                    self._known.manifest, self._known.boot_ms = manifest, boot_ms
                    now = self.read_now(offset, most)
                    if now is not None:
                        return now  # It is in memory: only where the log begins was not known.
            flow = read(self.lane.lane, self.path, offset, max(most, 1), self._known, _refreshed)
            found = await run_async(flow, self._perform)
        except LakelogError as error:
            return FetchedPartition(self.index, read_code(error))
        start, end = found.bounds.log_start, found.bounds.end
        if isinstance(found, OutOfRange):
            return FetchedPartition(self.index, ErrorCode.offset_out_of_range, end, start)
        size = sum(map(len, found.pieces))
        return FetchedPartition(self.index, ErrorCode.none, end, start, found.pieces, size)

    def _is_known(self, offset: int) -> bool:
        """Say whether the lane need not be looked at again: what is read of the manifest comes
        behind what is known of the lane, and that is the order that counts.
        """
        manifest = self._known.get(self.lane.lane)
        end = self.lane.end(self.topic_id_partition)
        if end is None:
            return False
        if manifest is None:
            return 0 <= offset <= end
        return manifest.log_start <= offset <= max(end, manifest.sealed_end)

    def is_at_end(self, offset: int) -> bool:
        """Say whether there is nothing at an offset yet, as far as it is known."""
        return self.lane.end(self.topic_id_partition) == offset

    # Callers of these have looked at the lane before (``LaneWriter.refresh``): a request that asks
    # about many partitions looks once.

    async def bounds(self) -> Bounds:
        """Return where it begins and ends now.

        Raises:
            LakelogError: there was no answer, or the topic was deleted.
        """
        end = self._journal_end()
        manifest = await self._learn(read_manifest(self.path))
        end = max(end, manifest.sealed_end)
        return Bounds(min(manifest.log_start, end), end)

    async def _learn(self, flow: Work[Manifest]) -> Manifest:
        """Remember the manifest that a flow has read or written."""
        boot_ms = self.lane.lane.clock.boot_ms()
        manifest = await run_async(flow, self._perform)
        self._known.manifest, self._known.boot_ms = manifest, boot_ms
        return manifest

    async def latest(self) -> int:
        """Return where it ends now."""
        # A partition whose history was brought here has an end there before it has one in a lane.
        return self._journal_end() or (await self.bounds()).end

    def _journal_end(self) -> int:
        """Return where the journal of it ends. That nothing is known is not that it is empty.

        Raises:
            UnavailableError: the lane has not been learned.
        """
        end = self.lane.end(self.topic_id_partition)
        if end is None:
            raise UnavailableError(
                f"lane {self.lane.lane.number} has not been read to its end yet: retry"
            )
        return end

    async def start_at(self, offset: int, write: str) -> int:
        """Let it begin at an offset, if that is later, and return where it begins then.

        Raises:
            LakelogError: there was no answer, or the topic was deleted.
        """
        flow = change_manifest(self.path, write, lambda now: changes.start(now, write, offset))
        return (await self._learn(flow)).log_start

    async def size_bytes(self) -> int:
        """Return about how many bytes of the store it takes.

        Raises:
            LakelogError: there was no answer, or the topic was deleted.
        """
        await self.bounds()
        manifest = self._known.manifest
        assert manifest is not None
        start = max(manifest.sealed_end, manifest.log_start)
        flow = journal_bytes(self.lane.lane, self.topic_id_partition, start)
        return history_bytes(manifest) + await run_async(flow, self._perform)

    async def sealed_end(self) -> int:
        """Return where its history ends and the journal goes on."""
        await self.bounds()
        return self._known.manifest.sealed_end if self._known.manifest else 0

    def producers(self) -> dict[int, ProducerState]:
        """Return the idempotent producers that it knows, by id, as of the last look at its lane."""
        return {
            producer_id: seen
            for (topic_id, index, producer_id), seen in self.lane.lane.known.fold.producers.items()
            if (topic_id, index) == self.topic_id_partition
        }

    async def find(self, timestamp: int, run_scan: RunScan) -> Found | None:
        """Return the first record that is not older."""
        flow = offset_at(self.lane.lane, self.path, timestamp, _refreshed, _yield_scan)
        return await run_async(flow, self._scanning(run_scan))

    async def find_newest(self, run_scan: RunScan) -> Found | None:
        """Return the first of the records with the highest timestamp."""
        flow = newest(self.lane.lane, self.path, _refreshed, _yield_scan)
        return await run_async(flow, self._scanning(run_scan))

    def _scanning(self, run_scan: RunScan) -> PerformWork:
        """Return what performs work, and runs scans."""
        return lambda asked: (
            run_scan(asked) if isinstance(asked, GeneratorType) else self._perform(asked)
        )
