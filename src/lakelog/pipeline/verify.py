"""verify: every byte of every segment, checked.

Framing, the CRC of every batch or block, the order of offsets within and between segments, counts,
every entry of the indexes; with ``records``, each record is decoded as well. Nothing is written.

Records need no decoding to be trusted: a batch whose CRC is right holds what its producer signed.
``records`` is for the other case, a producer that signed nonsense. It costs what decompression
costs.

All copies of a partition are verified, not only the one that is read.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lakelog.errors import CorruptError, UnsupportedError
from lakelog.formats import NOTHING, Block, Damage
from lakelog.history import SegmentRef, Selection
from lakelog.history.read import read_part
from lakelog.pipeline.frame import Finding, Notes, Plan, Result, Step
from lakelog.pipeline.listing import SOURCE, feed, list_copies, whole
from lakelog.pipeline.sides import expected_reads
from lakelog.store import StoreSpec

__all__ = ["Verify"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verify:
    """Verify the segments of a store."""

    source: StoreSpec
    layout: str
    selection: Selection = field(default_factory=Selection)
    records: bool = False
    """Decode every record, too."""
    closed: bool = False
    """Nobody writes: the last segment of a partition must be whole."""

    verb = "verify"

    @property
    def stores(self) -> Mapping[str, StoreSpec]:
        return {SOURCE: self.source}

    def plan(self, connect: Callable[[str], Callable[[Any], Any]]) -> Plan:
        """List the segments."""
        segments = list_copies(connect(SOURCE), self.layout, self.selection, closed=self.closed)
        objects, expected = expected_reads(segments, passes=2 if self.records else 1)
        return Plan(units=segments, objects_read=objects, expected=expected)

    def step(self, segment: SegmentRef) -> Step[Result]:
        """Verify one segment."""
        notes = Notes()
        count, batches, last = yield from _walk(segment, notes)
        if last > segment.next_offset_max:
            what = f"offsets up to {last - 1}, the next segment begins at {segment.next_offset_max}"
            notes.add(Finding(segment.key(segment.fmt.suffix), 0, 0, what))
        if self.records and not notes.count:
            yield from _decode(segment, notes)
        return Result(
            topic=segment.topic,
            partition=segment.partition,
            base_offset=segment.base_offset,
            object=segment.key(segment.fmt.suffix),
            outcome="damaged" if notes.count else "good",
            records=count,
            batches=batches,
            findings=tuple(notes.kept),
            findings_count=notes.count,
        )


def _walk(segment: SegmentRef, notes: Notes) -> Step[tuple[int, int, int]]:
    """Return records, batches and the offset behind the last of them."""
    count = batches = last = 0

    def take(found: Block | Damage) -> None:
        nonlocal count, batches, last
        if isinstance(found, Damage):
            key = segment.key(found.error.where or segment.fmt.suffix)
            notes.add(Finding(key, found.position, found.size, found.error.what))
        else:
            batches += 1
            count += found.count
            if found.header is not None:
                last = found.header.next_offset

    yield from feed(segment, segment.fmt.walk(segment.files, span=NOTHING), take)
    return count, batches, last


def _decode(segment: SegmentRef, notes: Notes) -> Step[None]:
    """Decode every record and let go of it."""
    try:
        yield from feed(segment, read_part(whole(segment)))
    except (CorruptError, UnsupportedError) as error:
        notes.add(Finding(error.where, error.at, 0, error.what))
