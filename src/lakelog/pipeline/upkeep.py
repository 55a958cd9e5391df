"""merge and retain, on a cluster: what can be done partition by partition.

    merge     the rows of every partition -> runs of small neighbours; a step merges one run, and
              where the topic has a ``compression.type`` of its own, makes few large batches of it
    retain    a step moves the start of some partitions, puts old rows on pages and sweeps what
              nobody names; of deleted topics everything goes

Each step is a flow of ``maintenance`` from its intent to its commit, and stands alone: it may be
killed anywhere, and run twice at once.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import pyarrow as pa

from lakelog.catalog import Topic, compression_codec, config_value, open_namespace
from lakelog.errors import CorruptError, LakelogError, UnavailableError, UnsupportedError
from lakelog.journal import StoreTime, new_lanes
from lakelog.log import store_now
from lakelog.maintenance import (
    MaintenanceReport,
    MergeSettings,
    end_maintenance,
    forget_topics,
    incarnations_of,
    maintain_partition,
    merge_run,
    plan_merge,
)
from lakelog.manifests import PartitionPath, SegmentRow, try_manifests
from lakelog.model import Rules
from lakelog.pipeline.frame import (
    TARGET,
    Connect,
    Finding,
    FindingCollector,
    Plan,
    Result,
    Step,
    Subject,
    TargetJob,
    at_store,
    failed,
)
from lakelog.pipeline.listing import failed_partition, list_wanted
from lakelog.records import Codec
from lakelog.records.repacking import Repacker, Shape
from lakelog.segments import Selection
from lakelog.store import Usage, run, tried

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
class Merge(TargetJob):
    """Merge small segments into large ones."""

    selection: Selection = field(default_factory=Selection)
    settings: MergeSettings = field(default_factory=MergeSettings)

    verb = "merge"

    def plan(self, connect: Connect) -> Plan:
        """Read the manifests, and find what is worth it."""
        perform = connect(TARGET)
        units: list[MergeUnit] = []
        topics, bad = list_wanted(self.selection, perform)
        partitions = _partitions(topics, self.selection)
        while some := list(islice(partitions, WINDOW)):
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
        where, first, ids = unit.where, unit.rows[0], self.host.ids
        key = f"{where.prefix}{first.name}.kfs"
        subject = Subject(unit.topic, where.partition, first.base_offset, key)
        now_ms = yield from at_store(TARGET, store_now(ids))
        repack = None if unit.shape is None else _repack(unit.shape)
        try:
            merging = merge_run(where, unit.rows, ids(), since_ms=now_ms, repack=repack)
            done = yield from at_store(TARGET, merging)
        except (CorruptError, UnsupportedError) as error:
            return subject.failed(error)
        return subject.result("moved" if done.abandoned else "merged", records=done.records)


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
class Retain(TargetJob):
    """Let logs begin later, delete what lies before, and sweep what nobody names."""

    selection: Selection = field(default_factory=Selection)
    grace_ms: int = 0
    """Of the namespace; ``begin`` knows it."""

    verb = "retain"
    one_wave = True
    ends_anyway = True

    def plan(self, connect: Connect) -> Plan:
        """List the topics, also deleted ones of which something may be left."""
        perform = connect(TARGET)
        topics, bad = list_wanted(self.selection, perform)
        every = incarnations_of(one for one in topics if self.selection.wants(one.name, 0))
        units = [
            RetainUnit(one, first, min(first + WINDOW, one.partitions))
            for one, _ in every
            for first in range(0, one.partitions, WINDOW)
        ]
        count = sum(unit.end - unit.first for unit in units)
        usage = Usage(
            requests={"get": 3 * count, "list": count}, bytes_read=count * 3 * MANIFEST_BYTES
        )
        return Plan(
            units=units,
            objects_read=count,
            expected=usage,
            results=tuple(bad),
            known=[one for one, is_retired in every if is_retired],
        )

    def begin(self, plan: Plan, connect: Connect) -> "Retaining":
        """Learn the grace."""
        perform = connect(TARGET)
        rules = run(open_namespace(), perform).rules
        return Retaining(replace(self, grace_ms=rules.grace_ms), plan.known, rules, perform)

    def step(self, unit: RetainUnit) -> Step[Result]:
        """Look after some partitions."""
        topic, ids = unit.topic, self.host.ids
        subject = Subject(topic.name, unit.first, topic.incarnation, topic.path)
        now_ms = yield from at_store(TARGET, store_now(ids))
        swept, left, outcome = 0, False, ""
        findings: list[Finding] = []
        for partition in range(unit.first, unit.end):
            flow = maintain_partition(topic, partition, ids, now_ms=now_ms, grace_ms=self.grace_ms)
            done = yield from at_store(TARGET, tried(flow))
            if isinstance(done, UnavailableError):
                raise done  # The store does not answer: the task fails, and is tried again.
            if isinstance(done, LakelogError):
                told = failed_partition(topic, topic.path_of(partition), done)
                findings += told.findings
                outcome, done = told.outcome, (0, True)
            swept, left = swept + done[0], left or done[1]
        outcome = outcome or ("swept" if swept else "good")
        made = json.dumps([topic.id.hex(), left])
        return subject.result(outcome, FindingCollector(*findings), made=made)


class Retaining:
    """The driver's part of a retain: what is done when all partitions were looked after."""

    def __init__(
        self, job: Retain, retired: list[Topic], rules: Rules, perform: Callable[[Any], Any]
    ) -> None:
        self.job, self._retired, self._rules, self._perform = job, retired, rules, perform
        self._left: set[str] = set()

    def commit(self, table: pa.Table) -> list[Result]:
        """See of which topics something is left."""
        made = [json.loads(one) for one in table.column("made").to_pylist()]
        self._left |= {topic for topic, left in made if left}
        return []

    def end(self) -> list[Result]:
        """Forget deleted topics of which nothing is left; finish bulk writes; sweep the rest."""
        host, grace_ms, report = self.job.host, self.job.grace_ms, MaintenanceReport()
        now_ms = run(store_now(host.ids), self._perform)
        empty = [topic for topic in self._retired if topic.id.hex() not in self._left]
        forgetting = forget_topics(empty, host.ids, report, now_ms=now_ms, grace_ms=grace_ms)
        run(forgetting, self._perform)
        lanes = new_lanes(self._rules, *host, StoreTime())
        run(end_maintenance(lanes, report, now_ms=now_ms, grace_ms=grace_ms), self._perform)
        return [failed(what, error) for what, error in report.failures.items()]


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


def _partitions(
    topics: Sequence[Topic], selection: Selection
) -> Iterator[tuple[Topic, PartitionPath]]:
    """Yield the partitions of topics that can be read."""
    for topic in topics:
        for partition in range(topic.partitions if topic.is_open else 0):
            if selection.wants(topic.name, partition):
                yield topic, topic.path_of(partition)
