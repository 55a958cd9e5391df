"""verify: every byte of every segment, checked as far as its format protects it.

Framing, the CRC of every batch or block, the order of offsets within and between segments, counts,
every entry of the indexes; with ``records``, each record is decoded as well. Nothing is written.

    good            every check that there is was passed
    gap             likewise, and no segment holds the offsets between this one and the next:
                    compaction and retention leave such gaps, and so does a segment that was lost
    unverifiable    likewise, but records are under no checksum: a changed payload would not show
    damaged         something no correct writer leaves behind
    gone            it was deleted after it was listed
    empty           a partition whose manifest names no segment
    missing         what was asked for is not there
    unsealed        records of a namespace that are only in its journal: not looked at here

Records need no decoding to be trusted: a batch whose CRC is right holds what its producer signed.
``records`` is for the other case, a producer that signed nonsense. It costs what decompression
costs.

All copies of a partition are verified, not only the one that is read.
"""

from dataclasses import dataclass

from lakelog.errors import CorruptError, NotFoundError, UnsupportedError
from lakelog.formats import NOTHING, Block, Damage
from lakelog.pipeline.frame import (
    SOURCE,
    UNVERIFIABLE,
    Connect,
    FindingCollector,
    Plan,
    Result,
    SourceJob,
    Step,
)
from lakelog.pipeline.listing import feed, list_copies, result_of_absent, unsealed_results, whole
from lakelog.pipeline.sides import expected_reads, subject_of
from lakelog.ports import Host
from lakelog.records import OFFSET_MAX
from lakelog.segments import SegmentRef
from lakelog.segments.read import read_part

__all__ = ["Verify"]

UNSEALED_NEXT = "--layout lakelog verifies all of it, its journal too"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verify(SourceJob):
    """Verify the segments of a store."""

    layout: str
    host: Host
    records: bool = False
    """Decode every record, too."""
    closed: bool = False
    """Nobody writes: the last segment of a partition must be whole."""

    verb = "verify"

    def plan(self, connect: Connect) -> Plan:
        """List the segments."""
        perform, url, layout = connect(SOURCE), self.source.url, self.layout
        segments, results = list_copies(perform, url, layout, self.selection, closed=self.closed)
        unsealed = unsealed_results(url, layout, self.selection, perform, self.host, UNSEALED_NEXT)
        objects, expected = expected_reads(segments, passes=2 if self.records else 1)
        return Plan(
            units=segments,
            objects_read=objects,
            expected=expected,
            results=results + unsealed,
        )

    def step(self, segment: SegmentRef) -> Step[Result]:
        """Verify one segment."""
        subject, findings = subject_of(segment), FindingCollector()
        try:
            count, batches, end = yield from _walk(segment, findings)
            outcome = _judge(segment, end, findings)
            if self.records and outcome != "damaged":
                outcome = (yield from _decode(segment, findings)) or outcome
        except NotFoundError:
            return (yield from result_of_absent(segment, subject))
        return subject.result(outcome, findings, records=count, batches=batches)


def _walk(segment: SegmentRef, findings: FindingCollector) -> Step[tuple[int, int, int]]:
    """Return records, batches and the offset behind the last of them."""
    count = batches = 0
    end = segment.base_offset

    def take(found: Block | Damage) -> None:
        nonlocal count, batches, end
        if isinstance(found, Damage):
            key = segment.key(found.error.where or segment.fmt.suffix)
            findings.add(key, found.error.what, at=found.position, size=found.size)
        else:
            batches += 1
            count += found.count
            end = found.next_offset or end

    yield from feed(segment, segment.fmt.walk(segment.files, span=NOTHING), take)
    return count, batches, end


def _judge(segment: SegmentRef, end: int, findings: FindingCollector) -> str:
    """Return the outcome of a walk, and note how the segment and the next one meet."""
    key, next_ = segment.key(segment.fmt.suffix), segment.next_offset_max
    is_damaged = findings.count > 0
    if end > next_:
        findings.add(key, f"offsets up to {end - 1}, the next segment begins at {next_}")
        is_damaged = True
    has_gap = end < next_ < OFFSET_MAX and not segment.has_row and not is_damaged
    if has_gap:
        findings.add(
            key, f"no segment holds offsets {end} to {next_ - 1}: compacted or expired, or lost"
        )
    if is_damaged:
        return "damaged"
    if not segment.fmt.checksums:
        return UNVERIFIABLE
    return "gap" if has_gap else "good"


def _decode(segment: SegmentRef, findings: FindingCollector) -> Step[str]:
    """Decode every record and let go of it; return "damaged" if one cannot be read."""
    try:
        yield from feed(segment, read_part(whole(segment)))
    except (CorruptError, UnsupportedError) as error:
        findings.add(error.where, error.what, at=error.at)
        return "damaged"
    return ""
