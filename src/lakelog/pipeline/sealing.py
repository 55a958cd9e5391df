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
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from lakelog.errors import CorruptError, NotFoundError, UnsupportedError
from lakelog.history.manifests import SegmentRow, Where, read_manifests
from lakelog.host import SystemClock, new_id
from lakelog.journal import Held, Lane, Place, StoreTime, write_checkpoint
from lakelog.keep import (
    Backlog,
    Catalog,
    Group,
    SealSettings,
    begin_seal,
    bury,
    catalog_of,
    commit_seal,
    is_unpassed,
    make_group,
    plan_seal,
    read_backlog,
    reap,
    trim,
    where_of,
)
from lakelog.log import Topic, list_topics, open_namespace, store_now
from lakelog.model import Rules
from lakelog.pipeline.frame import Connect, Finding, Plan, Result, Step, at_store
from lakelog.pipeline.targets import TARGET
from lakelog.store import StoreSpec, Usage, Work, run, run_by_threads

__all__ = ["Seal", "SealUnit", "Sealing"]

BUNDLES_MAX = 4096
"""Of a lane, in one run."""


@dataclass(frozen=True, slots=True)
class SealUnit:
    """A group of a lane, with what its bundles hold of it and nothing else."""

    lane: int
    group: Group
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
    ends: Mapping[Place, int] = field(default_factory=dict)
    """Where the history of each partition ends that was announced."""
    burnt: frozenset[Place] = frozenset()
    """Those of them in which no name without a write id may be used any more."""
    write: bytes = b""

    verb = "seal"
    one_wave = True

    @property
    def stores(self) -> Mapping[str, StoreSpec]:
        return {TARGET: self.target}

    def plan(self, connect: Connect) -> Plan:
        """Read the backlog of every lane, and share it out."""
        perform = connect(TARGET)
        rules = run(open_namespace(), perform).rules
        topics = run(list_topics(), perform)
        now_ms = run(store_now(new_id), perform)
        catalog = catalog_of(topics)
        lanes = {number: _lane(number, rules) for number in range(rules.lanes)}
        found = run_by_threads(
            [read_backlog(lane, BUNDLES_MAX) for lane in lanes.values()], perform
        )
        backlogs = {n: one for n, one in zip(lanes, found, strict=True) if one is not None}
        units: list[SealUnit] = []
        for number, backlog in backlogs.items():
            left = run(_unsealed(backlog, catalog), perform)
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
        places: dict[Place, tuple[int, Where]] = {}
        for unit in plan.units:
            places.update({where.place: (unit.lane, where) for where in unit.group.wheres})
        flows = [
            begin_seal(
                _lane(lane, known.rules),  # They run side by side, so each has its own.
                Group((where,), known.backlogs[lane].bundles, 0),
                where,
                write,
                now_ms,
            )
            for lane, where in places.values()
        ]
        begun = run_by_threads(flows, perform)
        announced = {
            place: manifest
            for place, manifest in zip(places, begun, strict=True)
            if manifest is not None
        }
        job = replace(
            self,
            ends={place: manifest.sealed_end for place, manifest in announced.items()},
            burnt=frozenset(place for place, manifest in announced.items() if manifest.burnt),
            write=write,
        )
        return Sealing(job, known, {place: lane for place, (lane, _) in places.items()}, perform)

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
            making = make_group(
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
        self, job: Seal, known: _Known, lanes: Mapping[Place, int], perform: Callable[[Any], Any]
    ) -> None:
        self.job, self._known, self._lanes, self._perform = job, known, lanes, perform

    def commit(self, table: pa.Table) -> list[Result]:
        """Let manifests name what was made, in the lanes whose floors are where they were."""
        rows: dict[Where, list[SegmentRow]] = {}
        for made in table.column("made").to_pylist():
            for topic, path, partition, some in json.loads(made) if made else ():
                where = Where(bytes.fromhex(topic), path, partition)
                rows.setdefault(where, []).extend(SegmentRow(*row) for row in some)
        known = self._known
        looks = [is_unpassed(known.lanes[n], one.floor) for n, one in known.backlogs.items()]
        unpassed = dict(zip(known.backlogs, run_by_threads(looks, self._perform), strict=True))
        flows = [
            commit_seal(where, run_, self.job.write)
            for where, some in rows.items()
            if unpassed[self._lanes[where.place]]
            and (run_ := _from(sorted(some, key=_base), self.job.ends[where.place]))
        ]
        run_by_threads(flows, self._perform)
        return []

    def end(self) -> list[Result]:
        """Raise the floors over what is sealed, and delete what lies below old ones."""
        now_ms = run(store_now(new_id), self._perform)
        lanes = self._known.backlogs
        run_by_threads([self._end(number, now_ms) for number in lanes], self._perform)
        return []

    def _end(self, number: int, now_ms: int) -> Work[None]:
        known = self._known
        lane, topics = known.lanes[number], known.topics
        yield from bury(lane, topics)
        yield from trim(lane, known.backlogs[number], catalog_of(topics), idle=self.job.idle)
        yield from reap(lane, now_ms)
        yield from write_checkpoint(lane)


def _lane(number: int, rules: Rules) -> Lane:
    return Lane(
        number=number,
        rules=rules,
        clock=SystemClock(),
        ids=new_id,
        writer=new_id(),
        time=StoreTime(),
    )


def _unsealed(backlog: Backlog, catalog: Catalog) -> Work[Backlog]:
    """Return a backlog without what manifests have already."""
    places = sorted({one.place for held in backlog.bundles for one in held.bundle.slices})
    wheres = [where for place in places if (where := where_of(catalog, place)) is not None]
    manifests = yield from read_manifests(wheres)
    ends = {
        where.place: manifest.sealed_end for where, manifest in zip(wheres, manifests, strict=True)
    }
    return replace(backlog, bundles=tuple(_thinned(backlog.bundles, ends)))


def _name(group: Group, catalog: Catalog) -> str:
    return catalog[group.wheres[0].topic].name


def _thin(group: Group) -> Group:
    """Return a group whose bundles say nothing but what is in it."""
    places = dict.fromkeys((where.place for where in group.wheres), 0)
    return replace(group, bundles=tuple(_thinned(group.bundles, places)))


def _thinned(bundles: tuple[Held, ...], ends: Mapping[Place, int]) -> Iterator[Held]:
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
