"""merge and retain, on a cluster: what can be done partition by partition.

    merge     the rows of every partition -> runs of small neighbours; a step merges one run, and
              where the topic has a ``compression.type`` of its own, makes few large batches of it
    retain    a step moves the start of some partitions, puts old rows on pages and sweeps what
              nobody names; of deleted topics everything goes

Each step is a flow of ``keep`` from its intent to its commit, and stands alone: it may be killed
anywhere, and run twice at once.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from lakelog.catalog import Topic, compression_codec, config_value, open_namespace, read_topic
from lakelog.errors import CorruptError, LakelogError, UnavailableError, UnsupportedError
from lakelog.host import SystemClock, new_id
from lakelog.journal import StoreTime, new_lanes
from lakelog.log import store_now
from lakelog.maintenance import (
    MergeSettings,
    finish_writes,
    forget_topic,
    maintain_partition,
    merge_run,
    plan_merge,
    sweep_times,
)
from lakelog.manifests import PartitionPath, SegmentRow, try_manifests
from lakelog.model import Rules
from lakelog.names import is_topic_name
from lakelog.pipeline.frame import (
    Connect,
    Finding,
    FindingCollector,
    Plan,
    Result,
    Step,
    at_store,
    failed,
)
from lakelog.pipeline.targets import TARGET
from lakelog.pipeline.wanted import failed_partition, list_wanted
from lakelog.records import Codec
from lakelog.records.repacking import Repacker, Shape
from lakelog.segments import Selection
from lakelog.store import StoreSpec, Usage, Work, run, tried

__all__ = ["Merge", "MergeUnit", "Retain", "RetainUnit", "Retaining"]

WINDOW = 64
"""Manifests that are asked for at once, and partitions in a unit of retain."""

MANIFEST_BYTES = 16 << 10
"""What is read to look after a partition, about."""


@dataclass(frozen=True, slots=True)
class MergeUnit:
    """Neighbouring segments that are to become one."""

    topic: str
    where: PartitionPath
    rows: tuple[SegmentRow, ...]
    shape: Shape | None = None
    """What its batches are to become; None: they are copied as they are."""

    @property
    def size(self) -> int:
        return sum(row.length for row in self.rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """Merge small segments into large ones."""

    target: StoreSpec
    selection: Selection = field(default_factory=Selection)
    settings: MergeSettings = field(default_factory=MergeSettings)

    verb = "merge"

    @property
    def stores(self) -> Mapping[str, StoreSpec]:
        return {TARGET: self.target}

    def plan(self, connect: Connect) -> Plan:
        """Read the manifests, and find what is worth it."""
        perform = connect(TARGET)
        units: list[MergeUnit] = []
        topics, bad = list_wanted(self.selection, perform)
        for some in _windows(_partitions(topics, self.selection)):
            manifests = run(try_manifests([where for _, where in some]), perform)
            for (topic, where), manifest in zip(some, manifests, strict=True):
                if isinstance(manifest, LakelogError):
                    bad.append(failed_partition(topic, where, manifest))
                    continue
                rows = [row for row in manifest.segments if row.next_offset > manifest.log_start]
                shape = _shape(topic.configs)
                units += [
                    MergeUnit(topic.name, where, one, shape)
                    for one in plan_merge(rows, self.settings)
                ]
        reads = sum(len(unit.rows) for unit in units)
        usage = Usage(
            requests={"get": reads + 3 * len(units), "put": 5 * len(units)},
            bytes_read=2 * sum(unit.size for unit in units),
        )
        return Plan(
            units=units,
            objects_read=reads,
            objects_written=3 * len(units),
            expected=usage,
            results=tuple(bad),
        )

    def step(self, unit: MergeUnit) -> Step[Result]:
        """Merge one run."""
        result = _result(unit.topic, unit.where, unit.rows[0])
        now_ms = yield from at_store(TARGET, store_now(new_id))
        repack = None if unit.shape is None else _repack(unit.shape)
        try:
            merging = merge_run(unit.where, unit.rows, new_id(), since_ms=now_ms, repack=repack)
            done = yield from at_store(TARGET, merging)
        except (CorruptError, UnsupportedError) as error:
            finding = Finding(error.where or result.object, error.at, 0, error.what)
            return replace(result, outcome="damaged", findings=(finding,), findings_count=1)
        outcome = "moved" if done.abandoned else "merged"
        return replace(result, outcome=outcome, records=done.records)


@dataclass(frozen=True, slots=True)
class RetainUnit:
    """Some partitions of a topic, deleted ones of its name included."""

    topic: Topic
    first: int
    end: int

    @property
    def size(self) -> int:
        return (self.end - self.first) * MANIFEST_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Retain:
    """Let logs begin later, delete what lies before, and sweep what nobody names."""

    target: StoreSpec
    selection: Selection = field(default_factory=Selection)
    grace_ms: int = 0
    """Of the namespace; ``begin`` knows it."""

    verb = "retain"
    one_wave = True
    ends_anyway = True

    @property
    def stores(self) -> Mapping[str, StoreSpec]:
        return {TARGET: self.target}

    def plan(self, connect: Connect) -> Plan:
        """List the topics, also deleted ones of which something may be left."""
        perform = connect(TARGET)
        topics, bad = list_wanted(self.selection, perform)
        every = [
            one
            for topic in topics
            if self.selection.wants(topic.name, 0)
            if is_topic_name(topic.name)  # Of a name that is reserved, no object can be there.
            for one in topic.incarnations()
            if one.deleted or not one.closed
        ]
        units = [
            RetainUnit(one, first, min(first + WINDOW, one.partitions))
            for one in every
            for first in range(0, one.partitions, WINDOW)
        ]
        count = sum(unit.end - unit.first for unit in units)
        usage = Usage(
            requests={"get": 3 * count, "list": count}, bytes_read=count * 3 * MANIFEST_BYTES
        )
        return Plan(units=units, objects_read=count, expected=usage, results=tuple(bad))

    def begin(self, plan: Plan, connect: Connect) -> "Retaining":
        """Learn the grace."""
        perform = connect(TARGET)
        rules = run(open_namespace(), perform).rules
        return Retaining(replace(self, grace_ms=rules.grace_ms), plan, rules, perform)

    def step(self, unit: RetainUnit) -> Step[Result]:
        """Look after some partitions."""
        topic = unit.topic
        now_ms = yield from at_store(TARGET, store_now(new_id))
        swept, left, notes, outcome = 0, False, FindingCollector(), ""
        for partition in range(unit.first, unit.end):
            keeping = maintain_partition(
                topic, partition, new_id, now_ms=now_ms, grace_ms=self.grace_ms
            )
            done = yield from at_store(TARGET, tried(keeping))
            if isinstance(done, UnavailableError):
                raise done  # What is wrong with the world fails the task.
            if isinstance(done, LakelogError):
                told = failed_partition(topic, topic.where(partition), done)
                notes.add(told.findings[0])
                outcome, done = told.outcome, (0, True)
            swept, left = swept + done[0], left or done[1]
        return Result(
            topic=topic.name,
            partition=unit.first,
            base_offset=topic.incarnation,
            object=topic.path,
            outcome=outcome or ("swept" if swept else "good"),
            findings=tuple(notes.kept),
            findings_count=notes.count,
            made=json.dumps([topic.id.hex(), left]),
        )


class Retaining:
    """The driver's part of a retain: what is done when all partitions were looked after."""

    def __init__(
        self, job: Retain, plan: Plan, rules: Rules, perform: Callable[[Any], Any]
    ) -> None:
        self.job, self._rules, self._perform = job, rules, perform
        self._topics: dict[str, Topic] = {unit.topic.id.hex(): unit.topic for unit in plan.units}
        self._left: set[str] = set()

    def commit(self, table: pa.Table) -> list[Result]:
        """See of which topics something is left."""
        for made in table.column("made").to_pylist():
            topic, left = json.loads(made)
            if left:
                self._left.add(topic)
        return []

    def end(self) -> list[Result]:
        """Forget deleted topics of which nothing is left; keep bulk writes; sweep the rest."""
        now_ms, grace_ms = run(store_now(new_id), self._perform), self.job.grace_ms
        bad: list[Result] = []

        def alone(what: str, flow: Work[Any]) -> None:
            done = run(tried(flow), self._perform)
            if isinstance(done, LakelogError):
                bad.append(failed(what, done))

        for id_, topic in self._topics.items():
            if id_ not in self._left and topic.deleted:
                alone(f"topic {topic.name}", _forget(topic, now_ms=now_ms, grace_ms=grace_ms))
        alone("objects that told the time", sweep_times(now_ms=now_ms, grace_ms=grace_ms))
        lanes = new_lanes(self._rules, SystemClock(), new_id, StoreTime())
        kept = run(finish_writes(lanes, now_ms=now_ms, grace_ms=grace_ms), self._perform)
        return bad + [failed(what, error) for what, error in kept.failures.items()]


def _forget(topic: Topic, *, now_ms: int, grace_ms: int) -> Work[None]:
    """Forget a deleted topic of which nothing is left, if the name is another's by now."""
    if (yield from read_topic(topic.name)).id != topic.id:
        yield from forget_topic(topic, new_id, now_ms=now_ms, grace_ms=grace_ms)


# ---------------------------------------------------------------------------- what merge makes

_LEVELS = {
    Codec.GZIP: "compression.gzip.level",
    Codec.LZ4: "compression.lz4.level",
    Codec.ZSTD: "compression.zstd.level",
}
_LZ4_LEVEL_FAST = 9
"""The default, and to Kafka no level at all: with it, and only with it, lz4 is the fast one."""


def _shape(configs: Mapping[str, str]) -> Shape | None:
    """Return what the batches of a topic are to become; None: they stay as producers made them."""
    codec = compression_codec(configs)
    if codec is None:
        return None
    level = config_value(configs, _LEVELS[codec]) if codec in _LEVELS else None
    if codec is Codec.LZ4 and level == _LZ4_LEVEL_FAST:
        level = None
    most = config_value(configs, "max.message.bytes")
    return Shape(codec=codec, level=level, batch_bytes_max=most)


def _repack(shape: Shape) -> Callable[[bytes], bytes]:
    return lambda body: Repacker(shape).repack(body).run


# ---------------------------------------------------------------------------- what both need


def _partitions(
    topics: Sequence[Topic], selection: Selection
) -> Iterator[tuple[Topic, PartitionPath]]:
    """Yield the partitions of topics that can be read."""
    for topic in topics:
        for partition in range(topic.partitions if topic.is_open else 0):
            if selection.wants(topic.name, partition):
                yield topic, topic.where(partition)


def _windows(items: Iterator[Any]) -> Iterator[list[Any]]:
    some: list[Any] = []
    for item in items:
        some.append(item)
        if len(some) == WINDOW:
            yield some
            some = []
    if some:
        yield some


def _result(topic: str, where: PartitionPath, row: SegmentRow) -> Result:
    return Result(
        topic=topic,
        partition=where.partition,
        base_offset=row.base_offset,
        object=f"{where.prefix}{row.name}.kfs",
        outcome="empty",
    )
