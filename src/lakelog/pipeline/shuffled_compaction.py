"""compact, for a partition that has more keys than fit into one place: by many, segment by segment.

    begin     an intent                                       the driver
    note      a segment -> its keys, by bucket                a task for each segment
    match     a bucket -> what outdates keys of segments      (``records.scattering``; no store)
    clean     a segment, and what outdates its keys           a task for each segment
    end       the manifest replaces the rows, all at once     the driver

Between the tasks lie shuffles, which are not ours: Spark's, or a dictionary in tests. What travels
is hashes and offsets. Each task holds one segment and a map of its keys.

A segment becomes one segment, or none. Small ones are left to merge. Nothing may be read before the
first: so if nothing is left of it, the next takes its place, under its offset, and is copied for
that.

Tasks may be tried twice at once: the rules carry the time, so both write the same bytes under the
same name. Transactions run through segments, and are told apart only by who cleans all of them in
their order; a segment with any is refused, and the partition is cleaned in parts instead.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from lakelog.errors import CorruptError, NotFoundError, UnsupportedError
from lakelog.formats import Bytes
from lakelog.log import store_now
from lakelog.maintenance import Rewritten, read_segment
from lakelog.manifests import PartitionPath, SegmentRow
from lakelog.pipeline.compacting import (
    Begun,
    Compact,
    CompactUnit,
    begin_cleaning,
    end_cleaning,
    put_cleaned,
)
from lakelog.pipeline.frame import TARGET, Finding, FindingCollector, Result
from lakelog.pipeline.run import Connections
from lakelog.records import decode_header, frames
from lakelog.records.cleaning import Cleaner
from lakelog.records.offset_map import BYTES_PER_KEY, OffsetMap
from lakelog.records.scattering import buckets_for, scatter
from lakelog.store import Usage, Work, run

__all__ = ["CleanAll", "CompactedSegment", "ShuffledCompaction", "compact_shuffled"]

_SLACK_BYTES = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactedSegment:
    """What has become of a segment."""

    row: SegmentRow | None = None
    """None when nothing is left of it, or nothing was done."""
    is_special: bool = False
    """There are transactions in it."""
    is_gone: bool = False
    finding: Finding | None = None
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShuffledCompaction:
    """A partition that is being cleaned by many, as each of them knows it."""

    job: Compact
    where: PartitionPath
    begun: Begun
    seed: bytes
    buckets: int

    def __len__(self) -> int:
        """Return the number of segments."""
        return len(self.begun.rows)

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return sum(row.length for row in self.begun.rows)

    def note(self, segment: int) -> list[tuple[int, bytes]]:
        """Return where the keys of a segment stand last in it, by bucket."""
        perform = Connections(self.job.stores).connect(TARGET)
        row = self.begun.rows[segment]
        try:
            body = run(read_segment(self.where, row), perform)
            return list(scatter(self._map_of(body, row).filled(), self.buckets))
        except (CorruptError, UnsupportedError, NotFoundError):
            return []  # Whoever is to clean it finds the same, and says so.

    def clean(self, segment: int, outdating: Sequence[bytes]) -> CompactedSegment:
        """Clean a segment, given what outdates keys of it; store what is left, if that is new."""
        connections = Connections(self.job.stores)
        row = self.begun.rows[segment]
        try:
            made = run(self._clean(row, outdating), connections.connect(TARGET))
        except NotFoundError:
            made = CompactedSegment(is_gone=True)
        except (CorruptError, UnsupportedError) as error:
            finding = Finding(error.where or self._name(row), error.at, 0, error.what)
            made = CompactedSegment(finding=finding)
        return replace(made, usage=connections.usage)

    def _clean(self, row: SegmentRow, outdating: Sequence[bytes]) -> Work[CompactedSegment]:
        body = yield from read_segment(self.where, row)
        headers = (frame.header for frame in frames(body, after=None, crc=False))
        if any(header.is_transactional or header.is_control for header in headers):
            return CompactedSegment(is_special=True)
        newest = self._map_of(body, row)
        for slots in outdating:
            newest.overlay(slots)
        if newest.is_full:
            what = f"it has more keys than {row.records} records: verify the topic"
            raise CorruptError(what, at=0, where=self._name(row))
        left = bytes(Cleaner(newest, self.begun.rules).clean(body, where=self._name(row)).run)
        if left == body:
            return CompactedSegment(row=row)
        if not left:
            return CompactedSegment()
        is_first = row == self.begun.rows[0]
        base = row.base_offset if is_first else decode_header(left).base_offset
        new = yield from put_cleaned(self.where, base, [row], [left], self.begun.write)
        return CompactedSegment(row=new)

    def _map_of(self, body: Bytes, row: SegmentRow) -> OffsetMap:
        """Return the map of a segment's own keys, with room for all of them."""
        room = row.records * BYTES_PER_KEY + _SLACK_BYTES
        newest = OffsetMap(room, seed=int.from_bytes(self.seed, "big"))
        newest.note(body, where=self._name(row))
        newest.advance(row.next_offset)
        return newest

    def _name(self, row: SegmentRow) -> str:
        return self.where.prefix + row.name


# ---------------------------------------------------------------------------- the driver

CleanAll = Callable[[ShuffledCompaction], Sequence[CompactedSegment]]
"""Notes, matches and cleans; returns what became of each segment, in their order."""


def compact_shuffled(job: Compact, unit: CompactUnit, clean_all: CleanAll) -> Result | None:
    """Compact one partition by many; None if only one can, because of transactions."""
    connections = Connections(job.stores)
    perform = connections.connect(TARGET)
    subject, where, ids = unit.subject, unit.where, job.host.ids
    now_ms = run(store_now(ids), perform)
    beginning = begin_cleaning(unit.topic, where, ids(), now_ms=now_ms, always=job.always)
    begun = run(beginning, perform)
    if isinstance(begun, Rewritten):
        return subject.result("moved" if begun.abandoned else "good")
    buckets = buckets_for(sum(row.records for row in begun.rows), job.settings.map_bytes)
    made = clean_all(
        ShuffledCompaction(job=job, where=where, begun=begun, seed=ids(), buckets=buckets)
    )
    findings = FindingCollector(*(one.finding for one in made if one.finding))
    if any(one.is_special for one in made):
        return None
    if findings.count:
        result = subject.result("damaged", findings)
    elif any(one.is_gone for one in made):
        result = subject.result("moved")  # The sweep takes what was written.
    else:
        new = tuple(one.row for one in made if one.row)
        done = run(_end(where, begun, new), perform)
        outcome = "moved" if done.abandoned else "compacted"
        result = subject.result(outcome, records=done.records)
    return replace(result, usage=sum((one.usage for one in made), connections.usage))


def _end(where: PartitionPath, begun: Begun, new: tuple[SegmentRow, ...]) -> Work[Rewritten]:
    base, end = begun.rows[0].base_offset, begun.rows[-1].next_offset
    try:
        if new and new[0].base_offset != base:
            body = yield from read_segment(where, new[0])
            first = yield from put_cleaned(where, base, new[:1], [body], begun.write)
            new = (first, *new[1:])
    except NotFoundError:
        return Rewritten(abandoned=1)
    return (yield from end_cleaning(where, begun.write, begun.rows, new, end))
