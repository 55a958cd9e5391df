"""Shipping: what a spool holds becomes part of a log elsewhere, in order, and once.

    1  what is to be shipped is made durable: a range [start, end) of a partition
    2  the range is written down, and synced
    3  it is delivered, as a write that has a name
    4  that it was delivered is written down

A range that was written down is delivered exactly so, however often it takes: whoever is killed
between 2 and 4 finds it again, and delivers it under the same name. Under that name it is in the
log once. Nothing of it is deleted before 4, and only what was confirmed may be deleted at all.

A target is asked for three things (``Target``): where it is in a partition, if it knows; to take a
range; and what it is called. There are two: ``namespace`` and ``kafka``. Shipping needs no lock of
the writer, who goes on meanwhile; one process ships at a time.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import pyarrow as pa

from lakelog.errors import ConflictError, InvalidInputError, NotFoundError
from lakelog.spool.cells import (
    Shipped,
    ShippedRange,
    read_shipped,
    read_spool_id,
    write_shipped,
)
from lakelog.spool.disk import Disk, named_folder
from lakelog.spool.reading import SpoolReader
from lakelog.spool.recovery import file_name, list_segments
from lakelog.spool.spool import KEEP_LOCK

__all__ = ["Shipment", "Target", "check_partition", "read_id", "ship"]

SHIP_LOCK = ".shipping.lock"
RANGE_RECORDS = 200_000
"""How many offsets are shipped at a time: what is repeated if it was not confirmed."""


class Shipment(NamedTuple):
    """A range that was shipped and confirmed."""

    topic: str
    partition: int
    start: int
    end: int
    was_there: bool
    """Whether the target had it already: an earlier shipment was not confirmed."""


class Target(Protocol):
    """Where a spool is shipped to."""

    @property
    def name(self) -> str:
        """What it is called where ranges are written down."""
        ...

    def position(self, topic: str, partition: int) -> int | None:
        """Return up to where it says that it has a partition; None if it does not say."""
        ...

    def deliver(
        self, topic: str, partition: int, range_: ShippedRange, rows: pa.RecordBatchReader
    ) -> bool:
        """Take a range, once; return whether it was there already."""
        ...


def read_id(disk: Disk) -> bytes:
    """Return the id of a spool.

    Raises:
        NotFoundError: there is no spool in the folder.
        ConflictError: it is a copy that nobody has opened yet.
    """
    found = read_spool_id(disk)
    if found is None:
        raise NotFoundError(
            f"{disk.root}: there is no spool here: check the path; lakelog spool append makes one"
        )
    if not found.id:
        raise ConflictError(
            f"{disk.root}: this folder is a copy of a spool, and has no id of its own yet: it gets "
            "one when it is opened to write; lakelog spool keep does that"
        )
    return found.id


def ship(disk: Disk, target: Target, *, range_records: int = RANGE_RECORDS) -> Iterator[Shipment]:
    """Ship all that a spool has, range by range; yields each when it is confirmed.

    Raises:
        ConflictError: another process ships, or a range is under way to another target.
        LakelogError: the target did not take a range; nothing is lost, ship again.
    """
    lock = disk.lock(SHIP_LOCK, "another process ships this spool: wait for it, or stop it")
    try:
        for topic, partition in disk.partitions():
            work = _Partition(disk, target, topic, partition, range_records)
            while (done := work.ship_next()) is not None:
                yield done
    finally:
        disk.system.close(lock)


@dataclass(slots=True)
class _Partition:
    """One partition on its way."""

    disk: Disk
    target: Target
    topic: str
    partition: int
    range_records: int

    def ship_next(self) -> Shipment | None:
        """Ship the next range; None if there is none."""
        shipped = self._shipped()
        if shipped.pending is None:
            shipped = self._settle(shipped)
            range_ = self._next_range(shipped)
            if range_ is None or not self._write_down(range_):
                return None
        else:
            range_ = shipped.pending
            if range_.target != self.target.name:
                raise ConflictError(
                    f"{self.topic}-{self.partition}: offsets {range_.start} to {range_.end} are on "
                    f"their way to {range_.target}: ship them there first, to the end"
                )
        was_there = self._deliver(range_)
        self._change(lambda now: Shipped(end=max(now.end, range_.end)))
        return Shipment(self.topic, self.partition, range_.start, range_.end, was_there)

    def _deliver(self, range_: ShippedRange) -> bool:
        position = self.target.position(self.topic, self.partition)
        if position is not None and position >= range_.end:
            return True
        reader = SpoolReader(self.disk)
        rows = reader.batches(
            self.topic, self.partition, offset=range_.start, end=range_.end,
            columns=("key", "value", "timestamp", "headers"),
        )  # fmt: skip
        return self.target.deliver(self.topic, self.partition, range_, rows)

    def _settle(self, shipped: Shipped) -> Shipped:
        """Take the target's word where it has more than was confirmed."""
        position = self.target.position(self.topic, self.partition)
        if position is not None and position > shipped.end:
            self._change(lambda now: replace(now, end=position))
            return replace(shipped, end=position)
        return shipped

    def _next_range(self, shipped: Shipped) -> ShippedRange | None:
        """Return what follows, and is on the disk from here on."""
        folder = named_folder(self.topic, self.partition)
        segments = list_segments(self.disk, folder)
        if not segments:
            return None
        start, end = SpoolReader(self.disk).bounds(self.topic, self.partition, shipped.end)
        start = max(start, shipped.end)
        if start >= end:
            return None
        name = file_name(segments[-1].base_offset)
        # What was read before this is durable after it, whoever wrote it.
        with self.disk.opened(folder, name) as handle:
            self.disk.sync(handle, self.disk.path(folder, name))
        self.disk.sync_folder(folder)
        return ShippedRange(start, min(end, start + self.range_records), self.target.name)

    def _write_down(self, range_: ShippedRange) -> bool:
        """Write a range down; False if something of it was deleted meanwhile."""
        folder = named_folder(self.topic, self.partition)
        with self.disk.locked(KEEP_LOCK):
            segments = list_segments(self.disk, folder)
            if not segments or segments[0].base_offset > range_.start:
                return False
            self._change_now(lambda now: replace(now, pending=range_))
        return True

    def _shipped(self) -> Shipped:
        return read_shipped(self.disk).get((self.topic, self.partition), Shipped())

    def _change(self, alter: Callable[[Shipped], Shipped]) -> None:
        with self.disk.locked(KEEP_LOCK):
            self._change_now(alter)

    def _change_now(self, alter: Callable[[Shipped], Shipped]) -> None:
        all_shipped = read_shipped(self.disk)
        name = self.topic, self.partition
        all_shipped[name] = alter(all_shipped.get(name, Shipped()))
        write_shipped(self.disk, all_shipped)


def check_partition(topic: str, partition: int, partitions: int) -> None:
    """See that a topic has a partition.

    Raises:
        InvalidInputError: it has fewer.
    """
    if partition >= partitions:
        raise InvalidInputError(
            f"topic {topic} has {partitions} partitions there, and the spool has partition "
            f"{partition}: give it more, with kafka-topics --alter"
        )
