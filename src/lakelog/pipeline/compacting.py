"""compact, on a cluster: of each key the newest record stays (``cleanup.policy=compact``).

    plan      the rows of every compacted topic -> partitions that are due, by Kafka's rules
    step      one partition, in two passes
                note     keys of what was appended since the last time -> an OffsetMap
                clean    everything before its end, again: what the map outdates goes
              then the manifest replaces the rows, all at once

One step has one partition, because a tombstone may go only when everything that it outdates is
gone: a cleaning counts as a whole, or not at all. It holds one map and one segment at a time.

A map may be too small for the keys of a partition. On a cluster, such a partition is told as
``crowded``, and cleaned by many (``shuffled_compaction``). Without one, a map that is full ends
early; what lies behind is cleaned by the next run.

The last batch of a producer is not kept when it is empty: which sequence comes next is known to the
journal, and not read from history.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from lakelog.catalog import Topic, cleanup_policy, config_value
from lakelog.errors import CorruptError, LakelogError, NotFoundError, UnsupportedError
from lakelog.formats import Bytes
from lakelog.log import plan_partitions, store_now
from lakelog.maintenance import Rewritten, read_segment
from lakelog.manifests import (
    Intent,
    Manifest,
    PartitionPath,
    SegmentRow,
    change_manifest,
    changes,
    make_segment,
    read_manifest,
    read_page,
    store_segment,
)
from lakelog.names import segment_stem
from lakelog.pipeline.frame import TARGET, Connect, Plan, Result, Step, Subject, TargetJob, at_store
from lakelog.pipeline.listing import failed_partition, list_wanted
from lakelog.records import decode_header
from lakelog.records.cleaning import Cleaner
from lakelog.records.cleaning_rules import CleaningRules
from lakelog.records.dirtiness import Cleanable, SegmentDirtiness, plan_cleaning
from lakelog.records.offset_map import MEMORY_BYTES, OffsetMap
from lakelog.segments import Selection
from lakelog.store import Usage, Work, run, run_by_threads, tried

__all__ = [
    "Begun",
    "Compact",
    "CompactSettings",
    "CompactUnit",
    "begin_cleaning",
    "compact_partition",
    "end_cleaning",
    "put_cleaned",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactSettings:
    """How much memory a step takes, and how large what it writes becomes."""

    map_bytes: int = MEMORY_BYTES
    """32 bytes a key."""
    segment_bytes: int = 128 << 20


@dataclass(frozen=True, slots=True)
class CompactUnit:
    """A partition that is due."""

    topic: Topic
    partition: int
    size: int

    @property
    def where(self) -> PartitionPath:
        return self.topic.path_of(self.partition)

    @property
    def subject(self) -> Subject:
        """What a result about it is about."""
        return Subject(self.topic.name, self.partition, 0, self.where.prefix)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compact(TargetJob):
    """Compact the topics whose policy says so."""

    selection: Selection = field(default_factory=Selection)
    settings: CompactSettings = field(default_factory=CompactSettings)
    always: bool = False
    """Whatever is dirty is due."""
    whole: bool = False
    """A partition is cleaned as a whole, or told as crowded; not in parts, run after run."""

    verb = "compact"

    def plan(self, connect: Connect) -> Plan:
        """Look at the manifests of compacted topics."""
        perform = connect(TARGET)
        topics, bad = list_wanted(self.selection, perform)
        now_ms = run(store_now(self.host.ids), perform)
        units: list[CompactUnit] = []
        for topic in topics:
            if not topic.is_open or "compact" not in cleanup_policy(topic.configs):
                continue
            wheres = [topic.path_of(partition) for partition in range(topic.partitions)]
            wheres = [one for one in wheres if self.selection.wants(topic.name, one.partition)]
            flows = [tried(plan_partitions([where])) for where in wheres]
            for where, found in zip(wheres, run_by_threads(flows, perform), strict=True):
                if isinstance(found, LakelogError):
                    bad.append(failed_partition(topic, where, found))
                    continue
                due = _cleanable(topic, found[0].rows, found[0].cleaned_end, now_ms)
                if due.is_due or (self.always and due.dirty_bytes):
                    size = due.clean_bytes + 2 * due.dirty_bytes
                    units.append(CompactUnit(topic, where.partition, size))
        total = sum(unit.size for unit in units)
        gets = len(units) + total // self.settings.segment_bytes
        usage = Usage(requests={"get": gets, "put": 3 * gets}, bytes_read=total)
        return Plan(
            units=units,
            objects_read=gets,
            objects_written=3 * gets,
            expected=usage,
            results=tuple(bad),
        )

    def step(self, unit: CompactUnit) -> Step[Result]:
        """Compact one partition."""
        subject, ids = unit.subject, self.host.ids
        now_ms = yield from at_store(TARGET, store_now(ids))
        try:
            compacting = compact_partition(
                unit.topic,
                unit.where,
                self.settings,
                ids(),
                seed=ids(),
                now_ms=now_ms,
                always=self.always,
                whole=self.whole,
            )
            done = yield from at_store(TARGET, compacting)
        except (CorruptError, UnsupportedError) as error:
            return subject.failed(error)
        if isinstance(done, _Crowded):
            return subject.result("crowded")
        if done.abandoned:
            return subject.result("moved")
        return subject.result("compacted" if done.before else "good", records=done.records)


def _cleanable(
    topic: Topic, rows: tuple[SegmentRow, ...], cleaned_end: int, now_ms: int
) -> Cleanable:
    stretches = [
        SegmentDirtiness(
            base_offset=row.base_offset,
            next_offset=row.next_offset,
            size_bytes=row.length,
            first_timestamp=row.min_timestamp,
            max_timestamp=row.max_timestamp,
            is_cleaned=row.next_offset <= cleaned_end,
        )
        for row in rows
    ]
    return plan_cleaning(
        stretches,
        now_ms=now_ms,
        min_ratio=config_value(topic.configs, "min.cleanable.dirty.ratio"),
        min_lag_ms=config_value(topic.configs, "min.compaction.lag.ms"),
        max_lag_ms=config_value(topic.configs, "max.compaction.lag.ms"),
    )


# ---------------------------------------------------------------------------- one partition


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """A cleaning that was announced: what it is to clean, and by which rules."""

    write: bytes
    rows: tuple[SegmentRow, ...]
    dirty_from: int
    rules: CleaningRules


class _Crowded(Rewritten):
    """Nothing was done: the keys do not fit into a map."""


def compact_partition(
    topic: Topic,
    where: PartitionPath,
    settings: CompactSettings,
    write: bytes,
    *,
    seed: bytes,
    now_ms: int,
    always: bool = False,
    whole: bool = False,
) -> Work[Rewritten]:
    """Compact one partition, if it is due; ``now_ms`` is by the store's clock.

    ``seed`` is drawn at random, and told to nobody: whoever knew it could make keys that are taken
    for one another.

    Raises:
        CorruptError, UnsupportedError: a segment is not what it should be. Nothing is changed.
    """
    begun = yield from begin_cleaning(topic, where, write, now_ms=now_ms, always=always)
    if isinstance(begun, Rewritten):
        return begun
    try:
        newest = yield from _noted(where, begun.rows, begun.dirty_from, settings, seed)
        if whole and newest.is_full:
            id_ = write.hex() + ":give up"
            yield from change_manifest(
                where, id_, lambda now: changes.give_up(now, id_, write.hex())
            )
            return _Crowded()
        old = tuple(row for row in begun.rows if row.base_offset < newest.end)
        new = yield from _cleaned(where, old, Cleaner(newest, begun.rules), settings, write)
    except NotFoundError:
        return Rewritten(abandoned=1)  # The log moved on. The sweep takes what was written.
    return (yield from end_cleaning(where, write, old, new, newest.end))


def begin_cleaning(
    topic: Topic, where: PartitionPath, write: bytes, *, now_ms: int, always: bool = False
) -> Work[Begun | Rewritten]:
    """Announce the cleaning of a partition; if it is not due, or has moved on, say so."""
    id_ = write.hex()
    manifest = yield from _unpaged(where, id_)
    rows = tuple(row for row in manifest.segments if row.next_offset > manifest.log_start)
    due = _cleanable(topic, rows, manifest.cleaned_end, now_ms)
    if manifest.deleted or manifest.pages or not (due.is_due or (always and due.dirty_bytes)):
        return Rewritten()
    rows = tuple(row for row in rows if row.base_offset < due.clean_to)
    intent = Intent(id_, "compact", rows[0].base_offset, rows[-1].next_offset, now_ms)
    begun = yield from change_manifest(
        where, id_ + ":begin", lambda now: changes.begin(now, intent)
    )
    if intent not in begun.intents or not set(rows) <= set(begun.segments):
        return Rewritten(abandoned=1)
    retention_ms = config_value(topic.configs, "delete.retention.ms")
    return Begun(
        write=write,
        rows=rows,
        # A map that was full ended inside of a segment, which is dirty from there on.
        dirty_from=max(due.dirty_from, manifest.cleaned_end),
        rules=CleaningRules(now_ms=now_ms, delete_retention_ms=retention_ms),
    )


def end_cleaning(
    where: PartitionPath,
    write: bytes,
    old: tuple[SegmentRow, ...],
    new: tuple[SegmentRow, ...],
    cleaned_end: int,
) -> Work[Rewritten]:
    """Let the manifest name what was made, if all that it takes the place of is still there."""
    id_ = write.hex()
    after = yield from change_manifest(
        where, id_, lambda now: changes.rewrite(now, id_, old, new, cleaned_end=cleaned_end)
    )
    if id_ not in after.writers:
        return Rewritten(abandoned=1)
    return Rewritten(
        before=len(old),
        after=len(new),
        size_bytes=sum(row.length for row in old),
        records=sum(row.records for row in new),
    )


def _unpaged(where: PartitionPath, id_: str) -> Work[Manifest]:
    """Return the manifest with all of its rows in it: compaction concerns old ones, too."""
    manifest = yield from read_manifest(where)
    pages: dict[str, tuple[SegmentRow, ...]] = {}
    try:
        for page in manifest.pages:
            pages[page.name] = yield from read_page(where, page)
    except NotFoundError:
        return manifest  # It has changed since. Next time.
    if not pages:
        return manifest
    return (
        yield from change_manifest(
            where, id_ + ":unpage", lambda now: changes.unpage(now, id_ + ":unpage", pages)
        )
    )


def _noted(
    where: PartitionPath,
    rows: tuple[SegmentRow, ...],
    dirty_from: int,
    settings: CompactSettings,
    seed: bytes,
) -> Work[OffsetMap]:
    """Return where each key was written last, of what is dirty, as far as there is room."""
    newest = OffsetMap(settings.map_bytes, seed=int.from_bytes(seed, "big"))
    newest.advance(dirty_from)
    for row in rows:
        if row.next_offset <= dirty_from:
            continue
        body = yield from read_segment(where, row)
        noted = newest.note(body, offset_from=dirty_from, where=where.prefix + row.name)
        if noted.is_full:
            break
        newest.advance(row.next_offset)
    return newest


def _cleaned(
    where: PartitionPath,
    rows: tuple[SegmentRow, ...],
    cleaner: Cleaner,
    settings: CompactSettings,
    write: bytes,
) -> Work[tuple[SegmentRow, ...]]:
    """Clean segments, and return the rows of those that take their place."""
    made: list[SegmentRow] = []
    held: list[bytes] = []
    over: list[SegmentRow] = []
    """Rows whose place a new segment takes; of the first of them nothing may be left."""
    for row in rows:
        body = yield from read_segment(where, row)
        left = bytes(cleaner.clean(body, where=where.prefix + row.name).run)
        if left == body and not over:
            made.append(row)
            continue
        over.append(row)
        if left:
            held.append(left)
        is_full = sum(map(len, held)) >= settings.segment_bytes
        if is_full or (held and row == rows[-1]):
            base = decode_header(held[0]).base_offset if made else rows[0].base_offset
            new = yield from put_cleaned(where, base, over, held, write)
            made.append(new)
            held, over = [], []
    return tuple(made)


def put_cleaned(
    where: PartitionPath, base: int, over: Sequence[SegmentRow], runs: Sequence[Bytes], write: bytes
) -> Work[SegmentRow]:
    """Store a segment that takes the place of others."""
    made = make_segment(
        runs,
        base_offset=base,
        next_offset=over[-1].next_offset,
        appended_ms=max(row.appended_ms for row in over),
        generation=max(row.generation for row in over) + 1,
    )
    name = segment_stem(base, write)
    return (yield from store_segment(where, made, name))
