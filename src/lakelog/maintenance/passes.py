"""Maintenance of a whole namespace: what is done, in which order, and what a failure stops.

    each lane        append_topic_tombstones   of topics whose deleter did not live to do it
                     read_backlog, plan_seal   what is sealed together
                     seal_batch                one after the other: what is sealed takes memory
                     end_lane                  trim, reap, write a checkpoint
    each partition   maintain_partition        retain, turn a page, sweep; deleted topics included
    each topic       forget_topics             deleted ones of which nothing is left
    at the end       end_maintenance           sweep what is nobody's, finish bulk writes

``maintain`` runs all of it in one process: a laptop or a broker needs neither Spark nor a cluster.
Where there are many brokers each maintains the lanes that it leads, the topics that begin in one of
them, and with lane 0 what is the namespace's. That saves work, and is never needed: the pipeline's
seal and retain run the same steps on a cluster (``pipeline.sealing``, ``pipeline.upkeep``), and all
of it may run at once, and twice. A topic, a partition or a lane that fails is in the report, and
stops only itself.

Lanes, partitions and bulk writes are looked after side by side, so many at a time, because most of
them have nothing to do and each takes a few requests to find that out.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice

from lakelog.catalog import Topic, forget_retired, news_of_topics
from lakelog.errors import LakelogError, UnavailableError
from lakelog.journal import Lane
from lakelog.log import store_now
from lakelog.maintenance.backlog import (
    BUNDLES_MAX,
    Backlog,
    Catalog,
    SealBatch,
    SealSettings,
    catalog_of,
    plan_seal,
    read_backlog,
)
from lakelog.maintenance.bulk_writes import finish_writes
from lakelog.maintenance.retain import retain_partition
from lakelog.maintenance.seal import Sealed, seal_batch
from lakelog.maintenance.sweep import sweep_partition, sweep_times
from lakelog.maintenance.trim import append_topic_tombstones, end_lane
from lakelog.manifests import read_manifest, turn_page
from lakelog.names import is_topic_name
from lakelog.ports import Ids
from lakelog.store import Work, isolated, list_objects, together

__all__ = [
    "MaintenanceReport",
    "end_maintenance",
    "forget_topics",
    "incarnations_of",
    "maintain",
    "maintain_lane",
    "maintain_partition",
    "maintain_topics",
]

LANES_AT_ONCE = 16
PARTITIONS_AT_ONCE = 64
"""Looked after side by side: each has one request under way."""

PARTITIONS_AT_A_TIME = 1024
"""By one look at the store's clock."""

FORGET_GRACES = 24
"""A deleted topic is remembered for so many graces: what arrives late is swept as well."""


@dataclass(slots=True, kw_only=True)
class MaintenanceReport:
    """What a pass has done."""

    sealed: Sealed = field(default_factory=Sealed)
    trimmed: int = 0
    """Bundles that a floor has passed."""
    is_behind: bool = False
    """Whether a lane had more bundles than one pass takes."""
    reaped: int = 0
    """Objects of lanes that were deleted."""
    swept: int = 0
    """Objects beside manifests that were deleted."""
    failures: dict[str, LakelogError] = field(default_factory=dict)
    """What could not be done: a lane, a topic, a partition or a bulk write, and why."""


def maintain(
    lanes: Mapping[int, Lane],
    settings: SealSettings,
    *,
    idle: bool = False,
    led: Collection[int] | None = None,
) -> Work[MaintenanceReport]:
    """Do for the namespace what is due; or for the lanes that are ``led`` here.

    Raises:
        LakelogError: the topics cannot be listed, or the store does not tell the time.
    """
    report = MaintenanceReport()
    news = yield from news_of_topics({})
    report.failures |= {f"topic {name}": error for name, error in news.damaged.items()}
    topics = [*news.topics.values()]
    mine = {number: lane for number, lane in lanes.items() if led is None or number in led}
    yield from _maintain_lanes(mine, topics, settings, report, idle=idle)
    lane = next(iter(lanes.values()))
    grace_ms = lane.rules.grace_ms
    begun_here = [topic for topic in topics if topic.lane(0) in mine]
    yield from maintain_topics(begun_here, lane.ids, report, grace_ms=grace_ms)
    if 0 in mine:
        now_ms = yield from store_now(lane.ids)
        yield from end_maintenance(lanes, report, now_ms=now_ms, grace_ms=grace_ms)
    return report


def end_maintenance(
    lanes: Mapping[int, Lane], report: MaintenanceReport, *, now_ms: int, grace_ms: int
) -> Work[None]:
    """Sweep the objects that told the time, and finish bulk writes.

    Raises:
        LakelogError: the bulk writes cannot be listed.
    """
    sweeping = sweep_times(now_ms=now_ms, grace_ms=grace_ms)
    times = yield from isolated(sweeping, "objects that told the time", report.failures)
    writes = yield from finish_writes(lanes, now_ms=now_ms, grace_ms=grace_ms)
    report.swept += (times or 0) + writes.swept
    report.failures |= writes.failures


# ---------------------------------------------------------------------------- lanes


def _maintain_lanes(
    lanes: Mapping[int, Lane],
    topics: list[Topic],
    settings: SealSettings,
    report: MaintenanceReport,
    *,
    idle: bool,
) -> Work[None]:
    """Maintain lanes side by side, but for the sealing: what is sealed takes memory."""
    catalog, numbers, failures = catalog_of(topics), sorted(lanes), report.failures
    for at in range(0, len(numbers), LANES_AT_ONCE):
        some = numbers[at : at + LANES_AT_ONCE]
        flows = (isolated(_begin_lane(lanes[n], topics), f"lane {n}", failures) for n in some)
        begun = yield from together(flows, LANES_AT_ONCE)
        good = [(lanes[n], one[0]) for n, one in zip(some, begun, strict=True) if one is not None]
        for lane, backlog in good:
            if backlog is not None:
                sealing = _seal(lane, backlog, catalog, settings, report)
                yield from isolated(sealing, f"lane {lane.number}", failures)
        now_ms = yield from store_now(lanes[some[0]].ids)
        ending = (
            isolated(
                _end_lane(lane, backlog, catalog, report, now_ms=now_ms, idle=idle),
                f"lane {lane.number}",
                failures,
            )
            for lane, backlog in good
        )
        yield from together(ending, LANES_AT_ONCE)


def _begin_lane(lane: Lane, topics: list[Topic]) -> Work[tuple[Backlog | None]]:
    yield from append_topic_tombstones(lane, topics)
    return ((yield from read_backlog(lane, BUNDLES_MAX)),)


def _seal(
    lane: Lane,
    backlog: Backlog,
    catalog: Catalog,
    settings: SealSettings,
    report: MaintenanceReport,
) -> Work[None]:
    """Seal what is due in a lane. A partition that is damaged stops only itself.

    Raises:
        UnavailableError: the store does not answer; the others would not be served either.
    """
    for batch in plan_seal(backlog, catalog, settings):
        try:
            sealed = yield from _seal_now(lane, backlog, batch, settings)
            report.sealed += sealed
        except UnavailableError:
            raise
        except LakelogError:
            for where in batch.wheres:
                alone = _seal_now(lane, backlog, replace(batch, wheres=(where,)), settings)
                what = f"partition {catalog[where.topic].name}-{where.partition}"
                one = yield from isolated(alone, what, report.failures)
                report.sealed += one or Sealed()


def _seal_now(
    lane: Lane, backlog: Backlog, batch: SealBatch, settings: SealSettings
) -> Work[Sealed]:
    # Asked for each: a pass may take longer than the grace, and an intent begins now.
    now_ms = yield from store_now(lane.ids)
    return (yield from seal_batch(lane, batch, settings, floor=backlog.floor, since_ms=now_ms))


def _end_lane(
    lane: Lane,
    backlog: Backlog | None,
    catalog: Catalog,
    report: MaintenanceReport,
    *,
    now_ms: int,
    idle: bool,
) -> Work[None]:
    trimmed, reaped = yield from end_lane(lane, backlog, catalog, now_ms=now_ms, idle=idle)
    report.trimmed += trimmed
    report.is_behind |= backlog is not None and not backlog.complete
    report.reaped += reaped


def maintain_lane(
    lane: Lane,
    topics: list[Topic],
    settings: SealSettings,
    report: MaintenanceReport,
    *,
    idle: bool = False,
) -> Work[None]:
    """Seal, trim and reap one lane."""
    catalog = catalog_of(topics)
    backlog = yield from read_backlog(lane, BUNDLES_MAX)
    if backlog is not None:
        yield from _seal(lane, backlog, catalog, settings, report)
    now_ms = yield from store_now(lane.ids)
    yield from _end_lane(lane, backlog, catalog, report, now_ms=now_ms, idle=idle)


# ---------------------------------------------------------------------------- topics


def incarnations_of(topics: Iterable[Topic]) -> list[tuple[Topic, bool]]:
    """Return what is retained and swept: topics, and deleted ones of their names.

    True: another one has the name by now, so that this one may be forgotten.
    """
    return [
        (one, one.id != topic.id)
        for topic in topics
        if is_topic_name(topic.name)  # Of a name that is reserved, no object can be there.
        for one in topic.incarnations()
        if one.deleted or not one.closed  # What no manifest names yet is being written.
    ]


def maintain_topics(
    topics: Iterable[Topic], ids: Ids, report: MaintenanceReport, *, grace_ms: int
) -> Work[None]:
    """Retain and sweep every partition of topics, and of deleted ones of their names."""
    every = incarnations_of(topics)
    left: set[bytes] = set()

    def one_partition(one: Topic, partition: int, now_ms: int) -> Work[None]:
        flow = maintain_partition(one, partition, ids, now_ms=now_ms, grace_ms=grace_ms)
        done = yield from isolated(flow, f"partition {one.name}-{partition}", report.failures)
        swept, more = done or (0, True)
        report.swept += swept
        if more:
            left.add(one.id)

    partitions = ((one, partition) for one, _ in every for partition in range(one.partitions))
    now_ms = 0
    while some := list(islice(partitions, PARTITIONS_AT_A_TIME)):
        now_ms = yield from store_now(ids)
        flows = (one_partition(one, partition, now_ms) for one, partition in some)
        yield from together(flows, PARTITIONS_AT_ONCE)
    empty = [one for one, is_retired in every if is_retired and one.id not in left]
    yield from forget_topics(empty, ids, report, now_ms=now_ms, grace_ms=grace_ms)


def maintain_partition(
    topic: Topic, partition: int, ids: Ids, *, now_ms: int, grace_ms: int
) -> Work[tuple[int, bool]]:
    """Retain and sweep one partition; return how many objects went, and whether some are left.

    Two requests, where there is nothing to do: the objects are listed, then the manifest is read.
    """
    where = topic.path_of(partition)
    infos = yield from list_objects(where.prefix)
    manifest = yield from read_manifest(where)
    manifest = yield from retain_partition(topic, where, ids, now_ms=now_ms, manifest=manifest)
    if (yield from turn_page(where, ids(), now_ms, manifest)):
        manifest = yield from read_manifest(where)
    sweeping = sweep_partition(where, infos, manifest, ids, now_ms=now_ms, grace_ms=grace_ms)
    swept = yield from sweeping
    return swept, bool(manifest.pages or manifest.segments or manifest.dropped)


def forget_topics(
    empty: Iterable[Topic], ids: Ids, report: MaintenanceReport, *, now_ms: int, grace_ms: int
) -> Work[None]:
    """Forget deleted topics of which nothing is left, when nothing more can arrive."""
    for topic in empty:
        if now_ms - topic.deleted_ms > FORGET_GRACES * grace_ms:
            forgetting = forget_retired(topic.name, topic.id, ids())
            yield from isolated(forgetting, f"topic {topic.name}", report.failures)
