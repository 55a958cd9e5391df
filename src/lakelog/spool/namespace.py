"""Shipping to a namespace of lakelog, by its bulk writes: no broker takes part.

The write is named by the spool's id, topic and partition, and by the first offset of the range. So
a range that is delivered twice is one write, and is in the log once: ``lakelog.log.writes``.
"""

from collections.abc import Iterator
from hashlib import blake2b

import pyarrow as pa

from lakelog.catalog import open_namespace, read_topic
from lakelog.journal import StoreTime, new_lanes, stamp
from lakelog.log import (
    Driver,
    Identity,
    Staged,
    TaskParts,
    commit_write,
    finish_write,
    read_decision,
)
from lakelog.log.packing import (
    BATCH_BYTES,
    Packer,
    PartitionedRows,
    PartitionRows,
    TopicTarget,
    check_rows,
    target_of,
)
from lakelog.ports import Host
from lakelog.spool.cells import ShippedRange
from lakelog.spool.shipping import check_partition

__all__ = ["NamespaceTarget"]

WINDOW_BYTES = 32 << 20
"""So much is packed and staged at a time."""


class NamespaceTarget:
    """A namespace that a spool is shipped to."""

    def __init__(self, name: str, driver: Driver, host: Host, spool_id: bytes) -> None:
        self.name = name
        self._driver, self._host, self._spool_id = driver, host, spool_id
        self._time, self._packer = StoreTime(), Packer()
        self._rules = driver.run(open_namespace()).rules
        self._targets: dict[str, TopicTarget] = {}

    def position(self, topic: str, partition: int) -> int | None:  # noqa: ARG002
        """It does not say: a write that it has is recognized by its name."""
        return None

    def deliver(
        self, topic: str, partition: int, range_: ShippedRange, rows: pa.RecordBatchReader
    ) -> bool:
        """Write a range, unless it was written.

        Raises:
            NotFoundError: there is no such topic.
            InvalidInputError: the topic does not take such records.
            ConflictError, UnavailableError: as ``commit_write``.
        """
        identity, run = self._identity(topic, partition, range_.start), self._driver.run
        lanes = new_lanes(self._rules, *self._host, self._time)
        decision = run(read_decision(identity))
        if decision is not None and decision.write:
            run(finish_write(lanes, identity, decision))
            return True
        target = self._target(topic)
        check_partition(topic, partition, target.topic.partitions)
        write = self._host.ids()
        staged = self._stage(target, partition, identity, write, rows)
        now_ms = run(stamp(self._time, *self._host))
        return not run(commit_write(lanes, identity, write, staged, now_ms=now_ms)).is_mine

    def _identity(self, topic: str, partition: int, start: int) -> Identity:
        """Name the write: numbers of one query go up, so each partition is one."""
        named = self._spool_id + f"{topic}/{partition}".encode()
        return Identity(blake2b(named, digest_size=16).digest(), start, True)

    def _target(self, topic: str) -> TopicTarget:
        if topic not in self._targets:
            found = self._driver.run(read_topic(topic))
            self._targets[topic] = target_of(found, None, BATCH_BYTES)
        return self._targets[topic]

    def _stage(
        self,
        target: TopicTarget,
        partition: int,
        identity: Identity,
        write: bytes,
        rows: pa.RecordBatchReader,
    ) -> list[Staged]:
        parts = TaskParts(identity, write, task=0, attempt=0)
        self._driver.run(parts.announce())
        staged: list[Staged] = []
        for window in _windows(rows):
            now_ms = self._driver.run(stamp(self._time, *self._host))
            keyless = window.column("key").is_null().to_numpy(zero_copy_only=False)
            times = window.column("timestamp").cast(pa.int64()).to_numpy() // 1000
            check_rows(target, keyless, times, now_ms)
            group = PartitionRows(target, partition, 0, window.num_rows)
            objects = self._packer.pack(PartitionedRows(window, [group]), now_ms)
            for some in self._driver.run_all(parts.put(objects)):
                staged += some
        return staged


def _windows(rows: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    """Yield rows in pieces that are worth an object."""
    held: list[pa.RecordBatch] = []
    for batch in rows:
        held.append(batch)
        if sum(one.nbytes for one in held) >= WINDOW_BYTES:
            yield from pa.Table.from_batches(held).combine_chunks().to_batches()
            held = []
    if held:
        yield from pa.Table.from_batches(held).combine_chunks().to_batches()
