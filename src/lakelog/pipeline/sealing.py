"""seal, on a cluster: the bundles of all lanes become segments, and the floors rise.

    plan      each lane: its backlog from the floor on -> groups of neighbouring partitions, by
              bytes; a large partition is cut into several
    begin     an intent in every manifest that will change
    step      one group: one range of each bundle, segments, read back
    commit    look at the heads, whose floors must be where they were; then each manifest names its
              segments, those of a large partition all at once
    end       tell the lanes of deleted topics; trim and reap

Steps only make objects, so that one partition with most of the bytes does not make one task carry
it all. A run may be killed anywhere: what was not committed is sealed by the next one, and swept
when its intents are old. Two runs at once do some work twice, and one of them commits it.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from lakelog.catalog import Topic, open_namespace
from lakelog.errors import CorruptError, LakelogError, NotFoundError, UnsupportedError
from lakelog.host import SystemClock, new_id
from lakelog.journal import (
    KnownBundle,
    Lane,
    StoreTime,
    TopicIdPartition,
    new_lane,
    write_checkpoint,
)
from lakelog.log import store_now
from lakelog.maintenance import (
    Backlog,
    Catalog,
    SealBatch,
    SealSettings,
    append_topic_tombstones,
    begin_seal,
    catalog_of,
    commit_seal,
    floor_unchanged,
    make_seal_batch,
    path_of,
    plan_seal,
    read_backlog,
    reap,
    trim,
)
from lakelog.manifests import Manifest, PartitionPath, SegmentRow, try_manifests
from lakelog.model import Rules
from lakelog.pipeline.frame import Connect, Finding, Plan, Result, Step, at_store, failed
from lakelog.pipeline.targets import TARGET
from lakelog.pipeline.wanted import failed_partition, list_wanted
from lakelog.segments import Selection
from lakelog.store import StoreSpec, Usage, Work, run, run_by_threads, tried

__all__ = ["Seal", "SealUnit", "Sealing"]

BUNDLES_MAX = 4096
"""Of a lane, in one run."""


@dataclass(frozen=True, slots=True)
class SealUnit:
    """A group of a lane, with what its bundles hold of it and nothing else."""

    lane: int
    group: SealBatch
    topic: str
    """The first of its topics, for the report."""

    @property
    def size(self) -> int:
        return self.group.size_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Seal:
    """Seal what is due in every lane of a namespace, and trim the lanes."""

    target: StoreSpec
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

    @property
    def stores(self) -> Mapping[str, StoreSpec]:
        return {TARGET: self.target}

    def plan(self, connect: Connect) -> Plan:
        """Read the backlog of every lane, and share it out."""
        perform = connect(TARGET)
        rules = run(open_namespace(), perform).rules
        topics, bad = list_wanted(Selection(), perform)
        now_ms = run(store_now(new_id), perform)
        catalog = catalog_of(topics)
        lanes = {number: _lane(number, rules) for number in range(rules.lanes)}
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
                groups = plan_seal(left, catalog, self.settings)
                units += [SealUnit(number, _thin(group), _name(group, catalog)) for group in groups]
        size = sum(unit.size for unit in units)
        gets = sum(len(unit.group.bundles) for unit in units)
        wheres = sum(len(unit.group.wheres) for unit in units)
        return Plan(
            units=units,
            objects_read=gets,
            objects_written=3 * wheres,
            expected=Usage(requests={"get": gets + 4 * wheres, "put": 5 * wheres}, bytes_read=size),
            results=tuple(bad),
            known=_Known(rules, lanes, topics, backlogs),
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
        write, now_ms = new_id(), run(store_now(new_id), perform)
        places: dict[TopicIdPartition, tuple[int, PartitionPath]] = {}
        for unit in plan.units:
            places.update({where.place: (unit.lane, where) for where in unit.group.wheres})
        flows = [
            begin_seal(
                _lane(lane, known.rules),  # They run side by side, so each has its own.
                SealBatch((where,), known.backlogs[lane].bundles, 0),
                where,
                write,
                now_ms,
            )
            for lane, where in places.values()
        ]
        begun = run_by_threads([tried(flow) for flow in flows], perform)
        announced: dict[TopicIdPartition, Manifest] = {}
        bad: list[Result] = []
        catalog = catalog_of(known.topics)
        for (_, where), manifest in zip(places.values(), begun, strict=True):
            if isinstance(manifest, LakelogError):
                bad.append(failed_partition(catalog[where.topic], where, manifest))
            elif manifest is not None:
                announced[where.place] = manifest
        job = replace(
            self,
            ends={place: manifest.sealed_end for place, manifest in announced.items()},
            burnt=frozenset(place for place, manifest in announced.items() if manifest.burnt),
            write=write,
        )
        lanes = {place: lane for place, (lane, _) in places.items()}
        return Sealing(job, known, lanes, perform, bad)

    def step(self, unit: SealUnit) -> Step[Result]:
        """Make the segments of one group."""
        first = unit.group.wheres[0]
        result = Result(
            topic=unit.topic,
            partition=first.partition,
            base_offset=unit.group.bundles[0].bundle.seq if unit.group.bundles else 0,
            object=f"lane {unit.lane}",
            outcome="empty",
        )
        ends = {
            where.place: self.ends[where.place]
            for where in unit.group.wheres
            if where.place in self.ends
        }
        try:
            making = make_seal_batch(
                unit.lane, unit.group, self.settings, ends, self.write, burnt=self.burnt
            )
            made = yield from at_store(TARGET, making)
        except NotFoundError:
            return replace(result, outcome="moved")  # The next run finds it where it is.
        except (CorruptError, UnsupportedError) as error:
            finding = Finding(error.where or result.object, error.at, 0, error.what)
            return replace(result, outcome="damaged", findings=(finding,), findings_count=1)
        rows = [row for _, some in made for row in some]
        told = [[where.topic.hex(), where.path, where.partition, some] for where, some in made]
        return replace(
            result,
            outcome="sealed" if rows else "empty",
            records=sum(row.records for row in rows),
            made=json.dumps(told) if rows else "",
        )


@dataclass(frozen=True, slots=True)
class _Known:
    """What the driver knows of the lanes."""

    rules: Rules
    lanes: dict[int, Lane]
    topics: list[Topic]
    backlogs: dict[int, Backlog]


class Sealing:
    """The driver's part of a seal."""

    def __init__(
        self,
        job: Seal,
        known: _Known,
        lanes: Mapping[TopicIdPartition, int],
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
        bad, self._bad = self._bad, []
        numbers = [*known.backlogs]
        looks = [floor_unchanged(known.lanes[n], known.backlogs[n].floor) for n in numbers]
        # Not known is not unpassed: nothing of such a lane is committed.
        unpassed = {
            n: one is True
            for n, one in zip(numbers, self._alone(_lanes(numbers), looks, bad), strict=True)
        }
        runs = {
            where: run_
            for where, some in rows.items()
            if unpassed[self._lanes[where.place]]
            and (run_ := _from(sorted(some, key=_base), self.job.ends[where.place]))
        }
        commits = [commit_seal(where, run_, self.job.write) for where, run_ in runs.items()]
        self._alone([f"{where.prefix}manifest" for where in runs], commits, bad)
        return bad

    def end(self) -> list[Result]:
        """Raise the floors over what is sealed, and delete what lies below old ones."""
        now_ms = run(store_now(new_id), self._perform)
        bad, numbers = self._bad, [*self._known.backlogs]
        self._alone(_lanes(numbers), [self._end(number, now_ms) for number in numbers], bad)
        return bad

    def _alone(
        self, names: Sequence[str], flows: Sequence[Work[Any]], bad: list[Result]
    ) -> list[Any]:
        """Run flows side by side, each of which stops only itself; return what they return."""
        done = run_by_threads([tried(flow) for flow in flows], self._perform)
        for name, one in zip(names, done, strict=True):
            if isinstance(one, LakelogError):
                bad.append(failed(name, one))
        return done

    def _end(self, number: int, now_ms: int) -> Work[None]:
        known = self._known
        lane, topics = known.lanes[number], known.topics
        yield from append_topic_tombstones(lane, topics)
        yield from trim(lane, known.backlogs[number], catalog_of(topics), idle=self.job.idle)
        yield from reap(lane, now_ms)
        yield from write_checkpoint(lane)


def _lanes(numbers: Sequence[int]) -> list[str]:
    return [f"lane {number}" for number in numbers]


def _lane(number: int, rules: Rules) -> Lane:
    return new_lane(number, rules, SystemClock(), new_id, time=StoreTime())


def _unsealed(
    backlog: Backlog, catalog: Catalog
) -> Work[tuple[Backlog, list[tuple[PartitionPath, LakelogError]]]]:
    """Return a backlog without what manifests have already, and those that cannot be read."""
    places = sorted({one.place for held in backlog.bundles for one in held.bundle.slices})
    wheres = [where for place in places if (where := path_of(catalog, place)) is not None]
    found = [*zip(wheres, (yield from try_manifests(wheres)), strict=True)]
    ends = {where.place: one.sealed_end for where, one in found if isinstance(one, Manifest)}
    damaged = [(where, one) for where, one in found if isinstance(one, LakelogError)]
    return replace(backlog, bundles=tuple(_thinned(backlog.bundles, ends))), damaged


def _name(group: SealBatch, catalog: Catalog) -> str:
    return catalog[group.wheres[0].topic].name


def _thin(group: SealBatch) -> SealBatch:
    """Return a group whose bundles say nothing but what is in it."""
    places = dict.fromkeys((where.place for where in group.wheres), 0)
    return replace(group, bundles=tuple(_thinned(group.bundles, places)))


def _thinned(
    bundles: tuple[KnownBundle, ...], ends: Mapping[TopicIdPartition, int]
) -> Iterator[KnownBundle]:
    """Yield bundles without what lies before the end of its partition, or is of no such."""
    for held in bundles:
        slices = tuple(
            one
            for one in held.bundle.slices
            if one[:2] in ends and one.next_offset > ends[one.place]
        )
        if slices:
            staged = any(one.write >= 0 for one in slices)
            events = held.bundle.events if staged else ()
            thin = replace(held.bundle, slices=slices, batches=(), events=events)
            yield replace(held, bundle=thin)


def _from(rows: list[SegmentRow], end: int) -> list[SegmentRow]:
    """Return the rows that go on from ``end`` without a gap."""
    run_: list[SegmentRow] = []
    for row in rows:
        if row.base_offset != end:
            break
        run_.append(row)
        end = row.next_offset
    return run_


def _base(row: SegmentRow) -> int:
    return row.base_offset
