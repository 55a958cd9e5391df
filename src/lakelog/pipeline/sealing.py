"""seal, on a cluster: the bundles of all lanes become segments, and the floors rise.

    plan      each lane: its backlog from the floor on -> batches of neighbouring partitions, by
              bytes; a large partition is cut into several
    begin     an intent in every manifest that will change
    step      one batch: one range of each bundle, segments, read back
    commit    look at the heads, whose floors must be where they were; then each manifest names its
              segments, those of a large partition all at once
    end       tell the lanes of deleted topics; trim and reap

Steps only make objects, so that one partition with most of the bytes does not make one task carry
it all. A run may be killed anywhere: what was not committed is sealed by the next one, and swept
when its intents are old. Two runs at once do some work twice, and one of them commits it.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any

import pyarrow as pa

from lakelog.catalog import Topic, open_namespace
from lakelog.errors import CorruptError, LakelogError, NotFoundError, UnsupportedError
from lakelog.journal import KnownBundle, Lane, StoreTime, TopicIdPartition, new_lane, new_lanes
from lakelog.log import store_now
from lakelog.maintenance import (
    BUNDLES_MAX,
    Backlog,
    Catalog,
    SealBatch,
    SealSettings,
    append_topic_tombstones,
    begin_seal,
    catalog_of,
    commit_seal,
    end_lane,
    floor_unchanged,
    make_seal_batch,
    plan_seal,
    read_backlog,
    try_histories,
)
from lakelog.manifests import Manifest, PartitionPath, SegmentRow
from lakelog.model import Rules
from lakelog.pipeline.frame import (
    TARGET,
    Connect,
    Plan,
    Result,
    Step,
    Subject,
    TargetJob,
    at_store,
    failed,
)
from lakelog.pipeline.listing import failed_partition, list_wanted
from lakelog.segments import Selection
from lakelog.store import Usage, Work, isolated, run, run_by_threads, tried

__all__ = ["Seal", "SealUnit", "Sealing"]


@dataclass(frozen=True, slots=True)
class SealUnit:
    """A batch of a lane, with what its bundles hold of it and nothing else."""

    lane: int
    batch: SealBatch
    topic: str
    """The first of its topics, for the report."""

    @property
    def size(self) -> int:
        return self.batch.size_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Seal(TargetJob):
    """Seal what is due in every lane of a namespace, and trim the lanes."""

    settings: SealSettings = field(default_factory=SealSettings)
    backlog_bytes: int = 1 << 30
    """A lane is due with so much..."""
    backlog_ms: int = 600_000
    """... or when the oldest of it is so old. 0: every lane is due."""
    idle: bool = False
    """Nobody appends: empty the journal altogether."""
    ends: Mapping[TopicIdPartition, int] = field(default_factory=dict)
    """Where the history of each partition ends that was announced."""
    burnt: frozenset[TopicIdPartition] = frozenset()
    """Those of them in which no name without a write id may be used any more."""
    write: bytes = b""

    verb = "seal"
    one_wave = True
    ends_anyway = True

    def plan(self, connect: Connect) -> Plan:
        """Read the backlog of every lane, and share it out."""
        perform = connect(TARGET)
        rules = run(open_namespace(), perform).rules
        topics, bad = list_wanted(Selection(), perform)
        now_ms = run(store_now(self.host.ids), perform)
        catalog, lanes = catalog_of(topics), new_lanes(rules, *self.host, StoreTime())
        flows = [tried(read_backlog(lane, BUNDLES_MAX)) for lane in lanes.values()]
        backlogs: dict[int, Backlog] = {}
        for number, one in zip(lanes, run_by_threads(flows, perform), strict=True):
            if isinstance(one, LakelogError):
                bad.append(failed(f"lane {number}", one))
            elif one is not None:
                backlogs[number] = one
        units: list[SealUnit] = []
        for number, backlog in backlogs.items():
            left, damaged = run(_unsealed(backlog, catalog), perform)
            bad += [failed_partition(catalog[where.topic], where, e) for where, e in damaged]
            if self._is_due(left, now_ms):
                units += [
                    SealUnit(number, _thin(batch), catalog[batch.wheres[0].topic].name)
                    for batch in plan_seal(left, catalog, self.settings)
                ]
        size = sum(unit.size for unit in units)
        gets = sum(len(unit.batch.bundles) for unit in units)
        wheres = sum(len(unit.batch.wheres) for unit in units)
        return Plan(
            units=units,
            objects_read=gets,
            objects_written=3 * wheres,
            expected=Usage(requests={"get": gets + 4 * wheres, "put": 5 * wheres}, bytes_read=size),
            results=tuple(bad),
            known=_Known(rules, lanes, topics, catalog, backlogs),
        )

    def _is_due(self, backlog: Backlog, now_ms: int) -> bool:
        if not backlog.bundles:
            return False
        size = sum(one.length for held in backlog.bundles for one in held.bundle.slices)
        # The writer's clock may be ahead of the store's: with 0 none of them is asked.
        old = now_ms - backlog.bundles[0].bundle.created_ms >= self.backlog_ms
        return not self.backlog_ms or old or size >= self.backlog_bytes

    def begin(self, plan: Plan, connect: Connect) -> "Sealing":
        """Announce what will be sealed."""
        known: _Known = plan.known
        perform = connect(TARGET)
        write, now_ms = self.host.ids(), run(store_now(self.host.ids), perform)
        lanes = {where: unit.lane for unit in plan.units for where in unit.batch.wheres}
        flows = [
            begin_seal(
                new_lane(lane, known.rules, *self.host),  # They run side by side: one for each.
                SealBatch((where,), known.backlogs[lane].bundles, 0),
                where,
                write,
                now_ms,
            )
            for where, lane in lanes.items()
        ]
        begun = run_by_threads([tried(flow) for flow in flows], perform)
        announced: dict[TopicIdPartition, Manifest] = {}
        bad: list[Result] = []
        for where, manifest in zip(lanes, begun, strict=True):
            if isinstance(manifest, LakelogError):
                bad.append(failed_partition(known.catalog[where.topic], where, manifest))
            elif manifest is not None:
                announced[where.topic_partition] = manifest
        job = replace(
            self,
            ends={
                topic_partition: manifest.sealed_end
                for topic_partition, manifest in announced.items()
            },
            burnt=frozenset(
                topic_partition for topic_partition, manifest in announced.items() if manifest.burnt
            ),
            write=write,
        )
        return Sealing(job, known, lanes, perform, bad)

    def step(self, unit: SealUnit) -> Step[Result]:
        """Make the segments of one batch."""
        batch = unit.batch
        seq = batch.bundles[0].bundle.seq if batch.bundles else 0
        subject = Subject(unit.topic, batch.wheres[0].partition, seq, f"lane {unit.lane}")
        try:
            making = make_seal_batch(
                unit.lane, batch, self.settings, self.ends, self.write, burnt=self.burnt
            )
            made = yield from at_store(TARGET, making)
        except NotFoundError:
            return subject.result("moved")  # The next run finds it where it is.
        except (CorruptError, UnsupportedError) as error:
            return subject.failed(error)
        rows = [row for _, some in made for row in some]
        if not rows:
            return subject.result("empty")
        told = [[where.topic.hex(), where.path, where.partition, some] for where, some in made]
        records = sum(row.records for row in rows)
        return subject.result("sealed", records=records, made=json.dumps(told))


@dataclass(frozen=True, slots=True)
class _Known:
    """What the driver knows of the lanes."""

    rules: Rules
    lanes: dict[int, Lane]
    topics: list[Topic]
    catalog: Catalog
    backlogs: dict[int, Backlog]


class Sealing:
    """The driver's part of a seal."""

    def __init__(
        self,
        job: Seal,
        known: _Known,
        lanes: Mapping[PartitionPath, int],
        perform: Callable[[Any], Any],
        bad: list[Result],
    ) -> None:
        self.job, self._known, self._lanes, self._perform = job, known, lanes, perform
        self._bad = bad
        """What could not be announced, and was left."""

    def commit(self, table: pa.Table) -> list[Result]:
        """Let manifests name what was made, in the lanes whose floors are where they were."""
        rows: dict[PartitionPath, list[SegmentRow]] = {}
        for made in table.column("made").to_pylist():
            for topic, path, partition, some in json.loads(made) if made else ():
                where = PartitionPath(bytes.fromhex(topic), path, partition)
                rows.setdefault(where, []).extend(SegmentRow(*row) for row in some)
        known = self._known
        looks = {
            f"lane {number}": floor_unchanged(known.lanes[number], backlog.floor)
            for number, backlog in known.backlogs.items()
        }
        # Not known is not unchanged: nothing of such a lane is committed.
        unchanged = dict(zip(known.backlogs, self._run_all(looks), strict=True))
        runs = {
            where: _contiguous(some, self.job.ends[where.topic_partition])
            for where, some in rows.items()
            if unchanged[self._lanes[where]]
        }
        commits = {
            f"{where.prefix}manifest": commit_seal(where, run_, self.job.write)
            for where, run_ in runs.items()
            if run_
        }
        self._run_all(commits)
        bad, self._bad = self._bad, []
        return bad

    def end(self) -> list[Result]:
        """Raise the floors over what is sealed, and delete what lies below old ones."""
        now_ms = run(store_now(self.job.host.ids), self._perform)
        self._run_all({f"lane {n}": self._end(n, now_ms) for n in self._known.backlogs})
        return self._bad

    def _run_all(self, flows: Mapping[str, Work[Any]]) -> list[Any]:
        """Run flows side by side, each of which stops only itself; return what they return."""
        failures: dict[str, LakelogError] = {}
        alone = [isolated(flow, what, failures) for what, flow in flows.items()]
        done = run_by_threads(alone, self._perform)
        self._bad += [failed(what, error) for what, error in failures.items()]
        return done

    def _end(self, number: int, now_ms: int) -> Work[None]:
        known = self._known
        lane, backlog, catalog = known.lanes[number], known.backlogs[number], known.catalog
        yield from append_topic_tombstones(lane, known.topics)
        yield from end_lane(lane, backlog, catalog, now_ms=now_ms, idle=self.job.idle)


def _unsealed(
    backlog: Backlog, catalog: Catalog
) -> Work[tuple[Backlog, list[tuple[PartitionPath, LakelogError]]]]:
    """Return a backlog without what manifests have already, and those that cannot be read."""
    topic_partitions = sorted(
        {one.topic_partition for held in backlog.bundles for one in held.bundle.slices}
    )
    found = yield from try_histories(topic_partitions, catalog)
    ends = {
        where.topic_partition: one.sealed_end
        for where, one in found.items()
        if isinstance(one, Manifest)
    }
    damaged = [(where, one) for where, one in found.items() if isinstance(one, LakelogError)]
    return replace(backlog, bundles=tuple(_thinned(backlog.bundles, ends))), damaged


def _thin(batch: SealBatch) -> SealBatch:
    """Return a batch whose bundles say nothing but what is in it."""
    topic_partitions = dict.fromkeys((where.topic_partition for where in batch.wheres), 0)
    return replace(batch, bundles=tuple(_thinned(batch.bundles, topic_partitions)))


def _thinned(
    bundles: tuple[KnownBundle, ...], ends: Mapping[TopicIdPartition, int]
) -> Iterator[KnownBundle]:
    """Yield bundles without what lies before the end of its partition, or is of no such."""
    for held in bundles:
        slices = tuple(
            one
            for one in held.bundle.slices
            if one[:2] in ends and one.next_offset > ends[one.topic_partition]
        )
        if slices:
            staged = any(one.write >= 0 for one in slices)
            events = held.bundle.events if staged else ()
            thin = replace(held.bundle, slices=slices, batches=(), events=events)
            yield replace(held, bundle=thin)


def _contiguous(rows: list[SegmentRow], end: int) -> list[SegmentRow]:
    """Return the rows that go on from ``end`` without a gap."""
    run_: list[SegmentRow] = []
    for row in sorted(rows, key=attrgetter("base_offset")):
        if row.base_offset != end:
            break
        run_.append(row)
        end = row.next_offset
    return run_
