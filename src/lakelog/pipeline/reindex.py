"""reindex: what lies beside a segment, made again from the segment where it is missing or wrong.

The data is walked once, as ``verify`` does. If an index is missing, or contradicts the data, the
new one is created, or replaces the old one if that is still the one that was read. The bytes follow
from the data alone, so that runs agree. A sound index is left alone, also one with other intervals.

Data that is damaged gets no index, and neither does a segment that somebody may be writing to.
"""

from dataclasses import dataclass

from lakelog.errors import InvalidInputError, NotFoundError
from lakelog.formats import EVERYTHING, NOTHING, Block, Damage, kafkalog, kafs, rustlog
from lakelog.formats.batches import Frame
from lakelog.pipeline.frame import (
    SOURCE,
    Connect,
    FindingCollector,
    Plan,
    Result,
    SourceJob,
    Step,
    at_store,
)
from lakelog.pipeline.listing import feed, list_copies, result_of_absent
from lakelog.pipeline.output import put_once, replace_once
from lakelog.pipeline.sides import expected_reads, subject_of
from lakelog.segments import SegmentRef, layout_named
from lakelog.store import Usage, Work, head

__all__ = ["Reindex"]

INDEXES = {
    "kafkalog": (".index", ".timeindex"),
    "kafs": (".index",),
    "rustlog": (".index",),
}
"""What can be made again, by format. STRM carries its index inside."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reindex(SourceJob):
    """Make the indexes of segments again where they are missing or wrong."""

    layout: str
    closed: bool = False
    """Nobody writes: the last segment of a partition gets its indexes, too."""

    verb = "reindex"

    def plan(self, connect: Connect) -> Plan:
        """List the segments.

        Raises:
            InvalidInputError: the format has no index beside it.
        """
        fmt = layout_named(self.layout).format
        if fmt not in INDEXES:
            raise InvalidInputError(f"{self.layout} carries its index inside: use convert")
        segments, results = list_copies(
            connect(SOURCE), self.source.url, self.layout, self.selection, closed=self.closed
        )
        objects, expected = expected_reads(segments)
        missing = sum(suffix not in one.sizes for one in segments for suffix in INDEXES[fmt])
        return Plan(
            units=segments,
            objects_read=objects,
            objects_written=missing,
            expected=expected + Usage(requests={"put": missing} if missing else {}),
            results=results,
        )

    def step(self, segment: SegmentRef) -> Step[Result]:
        """Look at one segment, and make what it lacks."""
        subject, findings = subject_of(segment), FindingCollector()
        if segment.active:
            return subject.result("active")
        made = _Index(segment)
        wrong: set[str] = set()
        try:
            yield from _walk(segment, made, wrong, findings)
        except NotFoundError:
            return (yield from result_of_absent(segment, subject))
        if findings.count:
            return subject.result("damaged", findings)
        suffixes = INDEXES[segment.format]
        due = [suffix for suffix in suffixes if suffix in wrong or suffix not in segment.sizes]
        if due:
            bodies = made.encode()
            for suffix in due:
                flow = _store(segment.key(suffix), bodies[suffix], exists=suffix in segment.sizes)
                yield from at_store(SOURCE, flow)
        outcome = "rebuilt" if due else "good"
        return subject.result(outcome, records=made.count, batches=len(made.frames))


def _walk(
    segment: SegmentRef, made: "_Index", wrong: set[str], findings: FindingCollector
) -> Step[None]:
    def take(found: Block | Damage) -> None:
        if isinstance(found, Block):
            made.saw(found)
            return
        error = found.error
        suffix = error.where or segment.fmt.suffix
        if suffix in INDEXES[segment.format]:
            wrong.add(suffix)
        elif suffix == segment.fmt.suffix:
            findings.add(segment.key(suffix), error.what, at=found.position, size=found.size)

    # The index of RustLog names records, and only reading them tells their offsets.
    span = EVERYTHING if segment.format == "rustlog" else NOTHING
    yield from feed(segment, segment.fmt.walk(segment.files, span=span), take)


def _store(key: str, body: bytes, *, exists: bool) -> Work[None]:
    if not exists:
        yield from put_once(key, body)
        return
    info = yield from head(key)
    yield from replace_once(key, body, info.etag)


class _Index:
    """The places that an index of a segment may name, gathered while they come by."""

    def __init__(self, segment: SegmentRef) -> None:
        self._segment = segment
        self.frames: list[Frame] = []
        self.count = 0
        self._entries: list[rustlog.IndexEntry] = []

    def saw(self, block: Block) -> None:
        if block.header is not None:
            self.frames.append(Frame(block.position, block.header))
        elif self.count % rustlog.INDEX_INTERVAL == 0:
            entry = rustlog.IndexEntry(offset=block.records[0].offset, position=block.position)
            self._entries.append(entry)
        self.count += block.count

    def encode(self) -> dict[str, bytes]:
        """Return each index by its suffix."""
        match self._segment.format:
            case "kafkalog":
                base = self._segment.base_offset
                offsets, times = kafkalog.encode_indexes(self.frames, base_offset=base)
                return {".index": offsets, ".timeindex": times}
            case "kafs":
                return {".index": kafs.encode_index(self.frames)}
            case _:
                return {".index": rustlog.encode_index(self._entries)}
