"""The keeper: all of it for a whole namespace, in one process.

A laptop or a single broker needs neither Spark nor a cluster to keep its log: this runs the very
steps that Spark runs. Two keepers may run at once, beside Spark or not. A topic, a partition or a
lane that fails is noted, and stops only itself.

Lanes, partitions and bulk writes are looked after side by side, so many at a time, because most of
them have nothing to do and each takes a few requests to find that out. What is sealed takes memory:
that is done one after the other.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TypeVar

from lakelog.catalog import Topic, forget_retired, news_of_topics
from lakelog.errors import LakelogError, UnavailableError
from lakelog.journal import DeleteTopic, Lane, append, write_checkpoint
from lakelog.log import refresh, store_now
from lakelog.maintenance.backlog import Backlog, Catalog, catalog_of, read_backlog
from lakelog.maintenance.batches import SealBatch, SealSettings, plan_seal
from lakelog.maintenance.bulk_writes import finish_writes
from lakelog.maintenance.retain import retain_partition
from lakelog.maintenance.seal import Sealed, seal_batch
from lakelog.maintenance.sweep import sweep_listed, sweep_times
from lakelog.maintenance.trim import reap, trim
from lakelog.manifests import read_manifest, turn_page
from lakelog.names import is_topic_name
from lakelog.ports import Ids
from lakelog.store import Work, list_objects, together

__all__ = [
    "MaintenanceReport",
    "append_topic_tombstones",
    "forget_topic",
    "maintain",
    "maintain_lane",
    "maintain_partition",
    "maintain_topic",
]

BUNDLES_MAX = 4096
"""Of a lane, in one pass."""

LANES_AT_ONCE = 16
PARTITIONS_AT_ONCE = 64
"""Looked after side by side: each has one request under way."""

PARTITIONS_AT_A_TIME = 1024
"""By one look at the store's clock."""

T = TypeVar("T")

FORGET_GRACES = 24
"""A deleted topic is remembered for so many graces: what arrives late is swept as well."""


@dataclass(slots=True, kw_only=True)
class MaintenanceReport:
    """What a pass has done."""

    sealed: Sealed = field(default_factory=Sealed)
    trimmed: int = 0
    """Bundles that a floor has passed."""
    reaped: int = 0
    """Objects of lanes that were deleted."""
    swept: int = 0
    """Objects beside manifests that were deleted."""
    failures: dict[str, LakelogError] = field(default_factory=dict)
    """What could not be done: a lane, a topic, a partition or a bulk write, and why."""


def maintain(
    lanes: Mapping[int, Lane], settings: SealSettings, *, idle: bool = False
) -> Work[MaintenanceReport]:
    """Do for the namespace what is due.

    Raises:
        LakelogError: the topics cannot be listed, or the store does not tell the time.
    """
    kept = MaintenanceReport()
    news = yield from news_of_topics({})
    kept.failures |= {f"topic {name}": error for name, error in news.damaged.items()}
    topics = [*news.topics.values()]
    yield from _keep_lanes(lanes, topics, settings, kept, idle=idle)
    lane = next(iter(lanes.values()))
    grace_ms = lane.rules.grace_ms
    yield from _keep_topics(topics, lane.ids, kept, grace_ms=grace_ms)
    now_ms = yield from store_now(lane.ids)
    swept = sweep_times(now_ms=now_ms, grace_ms=grace_ms)
    times = yield from _alone(swept, "objects that told the time", kept)
    kept.swept += times or 0
    writes = yield from finish_writes(lanes, now_ms=now_ms, grace_ms=grace_ms)
    kept.swept += writes.swept
    kept.failures |= writes.failures
    return kept


def _alone(flow: Work[T], what: str, kept: MaintenanceReport) -> Work[T | None]:
    """Do something that stops nothing else if it fails; None: it has, and that is noted."""
    try:
        return (yield from flow)
    except LakelogError as error:
        kept.failures[what] = error
        return None


# ---------------------------------------------------------------------------- lanes


def _keep_lanes(
    lanes: Mapping[int, Lane],
    topics: list[Topic],
    settings: SealSettings,
    kept: MaintenanceReport,
    *,
    idle: bool,
) -> Work[None]:
    """Keep lanes side by side, but for the sealing: what is sealed takes memory."""
    catalog, numbers = catalog_of(topics), sorted(lanes)
    for at in range(0, len(numbers), LANES_AT_ONCE):
        some = numbers[at : at + LANES_AT_ONCE]
        flows = (_alone(_begin(lanes[n], topics), f"lane {n}", kept) for n in some)
        begun = yield from together(flows, LANES_AT_ONCE)
        good = [(lanes[n], one[0]) for n, one in zip(some, begun, strict=True) if one is not None]
        for lane, backlog in good:
            if backlog is not None:
                sealing = _seal(lane, backlog, catalog, settings, kept)
                yield from _alone(sealing, f"lane {lane.number}", kept)
        now_ms = yield from store_now(lanes[some[0]].ids)
        flows_ = (
            _alone(
                _end(lane, backlog, catalog, kept, now_ms=now_ms, idle=idle),
                f"lane {lane.number}",
                kept,
            )
            for lane, backlog in good
        )
        yield from together(flows_, LANES_AT_ONCE)


def _begin(lane: Lane, topics: list[Topic]) -> Work[tuple[Backlog | None]]:
    yield from append_topic_tombstones(lane, topics)
    return ((yield from read_backlog(lane, BUNDLES_MAX)),)


def _seal(
    lane: Lane, backlog: Backlog, catalog: Catalog, settings: SealSettings, kept: MaintenanceReport
) -> Work[None]:
    """Seal what is due in a lane. A partition that is damaged stops only itself.

    Raises:
        UnavailableError: the store does not answer; the others would not be served either.
    """
    for group in plan_seal(backlog, catalog, settings):
        try:
            sealed = yield from _seal_group(lane, backlog, group, settings)
            kept.sealed += sealed
        except UnavailableError:
            raise
        except LakelogError:
            for where in group.wheres:
                alone = replace(group, wheres=(where,))
                what = f"partition {catalog[where.topic].name}-{where.partition}"
                sealing = _seal_group(lane, backlog, alone, settings)
                one = yield from _alone(sealing, what, kept)
                kept.sealed += one or Sealed()


def _seal_group(
    lane: Lane, backlog: Backlog, group: SealBatch, settings: SealSettings
) -> Work[Sealed]:
    # Asked for each: a pass may take longer than the grace, and an intent begins now.
    now_ms = yield from store_now(lane.ids)
    return (yield from seal_batch(lane, group, settings, floor=backlog.floor, since_ms=now_ms))


def _end(
    lane: Lane,
    backlog: Backlog | None,
    catalog: Catalog,
    kept: MaintenanceReport,
    *,
    now_ms: int,
    idle: bool,
) -> Work[None]:
    if backlog is not None:
        trimmed = yield from trim(lane, backlog, catalog, idle=idle)
        kept.trimmed += trimmed.floor - trimmed.before
    reaped = yield from reap(lane, now_ms)
    kept.reaped += reaped
    yield from write_checkpoint(lane)


def maintain_lane(
    lane: Lane,
    topics: list[Topic],
    settings: SealSettings,
    kept: MaintenanceReport,
    *,
    idle: bool = False,
) -> Work[None]:
    """Seal, trim and reap one lane."""
    catalog = catalog_of(topics)
    backlog = yield from read_backlog(lane, BUNDLES_MAX)
    if backlog is not None:
        yield from _seal(lane, backlog, catalog, settings, kept)
    now_ms = yield from store_now(lane.ids)
    yield from _end(lane, backlog, catalog, kept, now_ms=now_ms, idle=idle)


# ---------------------------------------------------------------------------- topics


def maintain_topic(topic: Topic, ids: Ids, kept: MaintenanceReport, *, grace_ms: int) -> Work[None]:
    """Retain and sweep every partition of a topic, and of deleted ones of its name."""
    yield from _keep_topics([topic], ids, kept, grace_ms=grace_ms)


def _keep_topics(
    topics: list[Topic], ids: Ids, kept: MaintenanceReport, *, grace_ms: int
) -> Work[None]:
    """Retain and sweep every partition of topics, side by side."""
    every = [
        (one, one.id != topic.id)
        for topic in topics
        if is_topic_name(topic.name)  # Of a name that is reserved, no object can be there.
        for one in topic.incarnations()
        if one.deleted or not one.closed  # What no manifest names yet is being written.
    ]
    left: set[bytes] = set()

    def one_partition(one: Topic, partition: int, now_ms: int) -> Work[None]:
        keeping = maintain_partition(one, partition, ids, now_ms=now_ms, grace_ms=grace_ms)
        done = yield from _alone(keeping, f"partition {one.name}-{partition}", kept)
        swept, more = done or (0, True)
        kept.swept += swept
        if more:
            left.add(one.id)

    places = ((one, partition) for one, _ in every for partition in range(one.partitions))
    now_ms = 0
    while some := list(islice(places, PARTITIONS_AT_A_TIME)):
        now_ms = yield from store_now(ids)
        flows = (one_partition(one, partition, now_ms) for one, partition in some)
        yield from together(flows, PARTITIONS_AT_ONCE)
    for one, is_retired in every:
        if is_retired and one.id not in left:
            forgetting = forget_topic(one, ids, now_ms=now_ms, grace_ms=grace_ms)
            yield from _alone(forgetting, f"topic {one.name}", kept)


def maintain_partition(
    topic: Topic, partition: int, ids: Ids, *, now_ms: int, grace_ms: int
) -> Work[tuple[int, bool]]:
    """Retain and sweep one partition; return how many objects went, and whether some are left.

    Two requests, where there is nothing to do: the objects are listed, then the manifest is read.
    """
    where = topic.where(partition)
    infos = yield from list_objects(where.prefix)
    manifest = yield from read_manifest(where)
    manifest = yield from retain_partition(topic, where, ids, now_ms=now_ms, manifest=manifest)
    if (yield from turn_page(where, ids(), now_ms, manifest)):
        manifest = yield from read_manifest(where)
    swept = yield from sweep_listed(where, infos, manifest, ids, now_ms=now_ms, grace_ms=grace_ms)
    return swept, bool(manifest.pages or manifest.segments or manifest.dropped)


def forget_topic(topic: Topic, ids: Ids, *, now_ms: int, grace_ms: int) -> Work[None]:
    """Forget a deleted topic of which nothing is left, when nothing more can arrive."""
    if now_ms - topic.deleted_ms > FORGET_GRACES * grace_ms:
        yield from forget_retired(topic.name, topic.id, ids())


def append_topic_tombstones(lane: Lane, topics: list[Topic]) -> Work[None]:
    """Tell a lane of deleted topics, if whoever deleted them did not live to do it."""
    yield from refresh(lane)
    known = {place[0] for place in lane.known.fold.ends}
    gone = [
        DeleteTopic(topic=one.id)
        for topic in topics
        for one in topic.incarnations()
        if one.deleted and one.id in known
    ]
    if gone:
        yield from append(lane, gone)
