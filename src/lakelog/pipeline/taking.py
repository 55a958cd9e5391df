"""Batches of another log on their way into one of ours: segments, named after what is in them.

A name is a digest of the bytes, so that two who bring the same do not do it twice. Nothing of it
counts before a manifest takes it (``adopting``).
"""

from collections.abc import Iterator

from lakelog.manifests import (
    PartitionPath,
    SegmentRow,
    finish_segment,
    make_segment,
)
from lakelog.pipeline.adopting import content_name
from lakelog.pipeline.frame import Step, at_store
from lakelog.pipeline.targets import TARGET
from lakelog.records import BatchHeader, rebase
from lakelog.store import put_named

__all__ = ["Taken"]


class Taken:
    """Segments of ours in the making."""

    def __init__(self, where: PartitionPath, low: int, segment_bytes: int) -> None:
        self._where, self._segment_bytes = where, segment_bytes
        self._low: int | None = low
        """Where the first of them begins, also if its first batch does not."""
        self._held: list[bytearray] = []
        self._held_bytes = 0
        self._first = self.next_offset = 0
        self.rows: list[SegmentRow] = []
        self.batches = 0
        self._newest_ms = 0

    def add(self, found: Iterator[tuple[BatchHeader, memoryview]]) -> Step[None]:
        """Take batches in, and write a segment when there is enough for one."""
        for header, batch in found:
            placed = bytearray(batch)
            rebase(placed, base_offset=header.base_offset, leader_epoch=0)
            if not self._held:
                base = header.base_offset
                self._first = base if self._low is None else min(base, self._low)
                self._low, self._newest_ms = None, 0
            self._held.append(placed)
            self._held_bytes += len(placed)
            self._newest_ms = max(self._newest_ms, header.max_timestamp)
            self.next_offset = header.next_offset
            self.batches += 1
            if self._held_bytes >= self._segment_bytes:
                yield from self.close()

    def close(self) -> Step[None]:
        """Write what is held."""
        if not self._held:
            return
        made = make_segment(
            [b"".join(self._held)],
            base_offset=self._first,
            next_offset=self.next_offset,
            appended_ms=self._newest_ms,
        )
        self._held, self._held_bytes = [], 0
        name = content_name(made)
        # The name says what is in it: who made it does not matter.
        yield from at_store(TARGET, put_named(f"{self._where.prefix}{name}.kfs", made.body))
        row = yield from at_store(TARGET, finish_segment(self._where, made, name))
        self.rows.append(row)
