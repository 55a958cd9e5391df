"""copy: a topic becomes another one, with the same offsets, up to now or to a moment of the past.

    plan      every partition, from its start to its end -> ranges of offsets, by bytes
    begin     the new topic gets a cell that says closed: the name is taken, and nobody comes in
    step      one range: read, wherever it lies by then -> segments, named after what is in them
    commit    a wave of steps: each manifest takes its rows, just where its history ends
    end       each lane is told where its partitions begin; then the topic is opened

It is an import whose source is a namespace, and ends in the same way (``adopting``): a run that was
killed goes on where the manifests end. Ranges are fixed when they are planned; the source goes on
meanwhile, and may be repacked. So a batch that reaches over the end of a range is cut there: what
is behind it is another task's, or later than the moment that is asked for.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from lakelog.catalog import Topic, open_namespace, read_topic
from lakelog.errors import (
    ConflictError,
    CorruptError,
    InvalidInputError,
    NotFoundError,
    UnavailableError,
    UnsupportedError,
)
from lakelog.journal import new_lane
from lakelog.log import (
    Extent,
    LocatedRange,
    OutOfRange,
    PartitionRef,
    Survey,
    look_at,
    offset_at,
    read,
    sealed_ranges,
)
from lakelog.manifests import read_manifest
from lakelog.model import Rules
from lakelog.pipeline.adopting import (
    Importing,
    SegmentTaker,
    TransferJob,
    begin_topic,
    begun_topic,
)
from lakelog.pipeline.frame import (
    SOURCE,
    TARGET,
    Connect,
    Plan,
    Result,
    Step,
    Subject,
    at_store,
)
from lakelog.records import (
    BatchHeader,
    NewBatch,
    decode_batch,
    decode_header,
    encode_batch,
    frames,
)
from lakelog.segments import Selection
from lakelog.store import Usage, Work, run

__all__ = ["Copy", "CopyUnit"]

CHUNK_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class CopyUnit:
    """Offsets of a partition of the source."""

    member: PartitionRef
    rules: Rules
    base_offset: int
    next_offset: int
    size: int
    log_start: int
    last: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy(TransferJob):
    """Make a topic out of another, with the same offsets."""

    topic: str
    name: str
    at_ms: int | None = None
    """Only what lies before the first record of this time, or of a later one."""

    verb = "copy"

    # ------------------------------------------------------------------------ the driver

    def plan(self, connect: Connect) -> Plan:
        """Look where every partition begins and ends, and how far an earlier run has come."""
        run(open_namespace(), connect(TARGET))
        source = run(read_topic(self.topic), connect(SOURCE))
        topic = run(begun_topic(self.name), connect(TARGET))
        if topic is not None:
            self._check_begun(topic, source)
        selection = Selection(topics=frozenset({self.topic}))
        survey, extents = run(look_at(selection, *self.host), connect(SOURCE))
        units: list[CopyUnit] = []
        for extent in extents:
            low = 0
            if topic is not None:
                where = topic.path_of(extent.member.partition)
                low = run(read_manifest(where), connect(TARGET)).sealed_end
            end = run(_end(survey, extent, self.at_ms), connect(SOURCE))
            units += _units(extent, survey.rules, low, end, self.segment_bytes)
        made = 3 * len(units)
        usage = Usage(
            requests={"get": 3 * len(units), "put": made},
            bytes_read=2 * sum(unit.size for unit in units),
        )
        return Plan(
            units=units, objects_read=len(units), objects_written=made, expected=usage,
            known=source,
        )  # fmt: skip

    def _check_begun(self, topic: Topic, source: Topic) -> None:
        if not topic.closed:
            raise ConflictError(
                f"there is a topic {self.name!r} already: choose another name with --as, or "
                "append to it with df.write"
            )
        if topic.partitions != source.partitions:
            raise ConflictError(
                f"a copy to {self.name!r} was begun with {topic.partitions} partitions: finish "
                f"it, or begin again after lakelog topic delete {self.name}"
            )

    def begin(self, plan: Plan, connect: Connect) -> Importing:
        """Make the topic, if an earlier run has not made it."""
        perform = connect(TARGET)
        rules = run(open_namespace(), perform).rules
        source: Topic = plan.known
        beginning = begin_topic(
            self.name,
            partitions=source.partitions,
            lanes=rules.lanes,
            configs=source.configs,
            ids=self.host.ids,
        )
        topics = {self.name: run(beginning, perform)}
        job = replace(self, topics=topics)
        return Importing(job, topics, rules, self.host, perform, stay_closed=False)

    # ------------------------------------------------------------------------ an executor

    def step(self, unit: CopyUnit) -> Step[Result]:
        """Bring one range."""
        member = unit.member
        subject = Subject(self.name, member.partition, unit.base_offset, str(member))
        where = self.topics[self.name].path_of(member.partition)
        taken = SegmentTaker(where, unit.base_offset, self.segment_bytes)
        lane = new_lane(member.lane, unit.rules, *self.host)
        at = unit.base_offset
        try:
            while at < unit.next_offset:
                chunk = yield from at_store(SOURCE, read(lane, member.where, at, CHUNK_BYTES))
                if isinstance(chunk, OutOfRange):
                    what = f"{member} begins at {chunk.bounds.log_start} by now: copy again"
                    return subject.found("refused", what)
                yield from taken.add(_between(chunk.body, at, unit.next_offset))
                if chunk.next_offset <= at:
                    break
                at = chunk.next_offset
            yield from taken.close()
        except (CorruptError, UnsupportedError) as error:
            return subject.failed(error)
        except (NotFoundError, UnavailableError) as error:
            return subject.found("refused", f"{error}: copy again")
        return taken.result(
            subject,
            start=unit.log_start,
            end=unit.next_offset,
            last=unit.last,
            open=(),
            ended=(),
            unlisted=(),
        )


# ---------------------------------------------------------------------------- what there is to do


def _end(survey: Survey, extent: Extent, at_ms: int | None) -> Work[int]:
    """Return where a partition ends, or ended at a moment."""
    if at_ms is None:
        return extent.end
    found = yield from offset_at(survey.lane(extent.member.lane), extent.member.where, at_ms)
    return extent.end if found is None else min(max(found.offset, extent.log_start), extent.end)


def _units(extent: Extent, rules: Rules, low: int, end: int, size_max: int) -> Iterator[CopyUnit]:
    """Yield ranges of about so many bytes; one that is empty, if a partition is."""
    start = max(extent.log_start, low)
    spans = list(sealed_ranges(extent, start, min(end, extent.sealed_end)))
    base = max(start, min(extent.sealed_end, end))
    if base < end or not spans:
        spans.append(LocatedRange(extent.member, base, max(base, end), 0, None))
    at, size = start, 0
    for number, span in enumerate(spans):
        size += span.size
        last = number == len(spans) - 1
        if last or size + spans[number + 1].size > size_max:
            yield CopyUnit(extent.member, rules, at, span.next_offset, size, extent.log_start, last)
            at, size = span.next_offset, 0


# ---------------------------------------------------------------------------- batches


def _between(
    body: bytes, offset_from: int, offset_to: int
) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Yield batches of a range; those that reach beyond it are cut."""
    view = memoryview(body)
    for at, header in frames(view, after=None, crc=False):
        batch = view[at : at + header.size]
        if header.next_offset <= offset_from or header.base_offset >= offset_to:
            continue
        if header.base_offset >= offset_from and header.next_offset <= offset_to:
            yield header, batch
            continue
        cut = _cut(batch, offset_from, offset_to)
        yield decode_header(cut), memoryview(cut)


def _cut(batch: memoryview, offset_from: int, offset_to: int) -> bytes:
    """Return the records of a batch that lie in a range, with all else that it says."""
    found = decode_batch(batch)
    header = found.header
    if header.is_control:
        raise InvalidInputError("a marker of a transaction has one offset, and cannot be cut")
    base, next_ = max(header.base_offset, offset_from), min(header.next_offset, offset_to)
    first = header.base_sequence
    return encode_batch(
        NewBatch(
            records=[one for one in found.records if base <= one.offset < next_],
            base_offset=base,
            next_offset=next_,
            codec=header.codec,
            leader_epoch=header.leader_epoch,
            timestamp_type=header.timestamp_type,
            is_transactional=header.is_transactional,
            delete_horizon=header.delete_horizon,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=first if first < 0 else (first + base - header.base_offset) & 0x7FFFFFFF,
        )
    )
