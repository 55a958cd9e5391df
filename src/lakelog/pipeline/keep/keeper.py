"""The keeper: all of it for a whole namespace, in one process.

A laptop or a single broker needs neither Spark nor a cluster to keep its log: this runs the very
steps that Spark runs, one after the other. Two keepers may run at once, beside Spark or not.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from lakelog.history.manifests import turn_page
from lakelog.journal import DeleteTopic, Lane, append, write_checkpoint
from lakelog.log import Topic, forget_retired, list_topics, refresh, store_now
from lakelog.pipeline.keep.backlog import catalog_of, read_backlog
from lakelog.pipeline.keep.retain import retain_partition
from lakelog.pipeline.keep.seal import Sealed, SealSettings, plan_seal, seal_group
from lakelog.pipeline.keep.sweep import sweep_partition
from lakelog.pipeline.keep.trim import reap, trim
from lakelog.ports import Ids
from lakelog.store import Work

__all__ = ["Kept", "keep", "keep_lane", "keep_topic"]

BUNDLES_MAX = 4096
"""Of a lane, in one pass."""

FORGET_GRACES = 24
"""A deleted topic is remembered for so many graces: what arrives late is swept as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What one pass has done."""

    sealed: Sealed
    trimmed: int = 0
    """Bundles that the floor has passed."""
    reaped: int = 0
    """Objects of lanes that were deleted."""
    swept: int = 0
    """Objects beside manifests that were deleted."""


def keep_lane(
    lane: Lane, topics: list[Topic], settings: SealSettings, *, idle: bool = False
) -> Work[Kept]:
    """Seal, trim and reap one lane."""
    now_ms = yield from store_now(lane.ids)
    catalog = catalog_of(topics)
    backlog = yield from read_backlog(lane, BUNDLES_MAX)
    sealed, raised = Sealed(), 0
    if backlog is not None:
        for group in plan_seal(backlog, catalog, settings):
            sealed += yield from seal_group(
                lane, group, settings, floor=backlog.floor, since_ms=now_ms
            )
        trimmed = yield from trim(lane, backlog, catalog, idle=idle)
        raised = trimmed.floor - trimmed.before
    reaped = yield from reap(lane, now_ms)
    return Kept(sealed=sealed, trimmed=raised, reaped=reaped)


def keep_topic(topic: Topic, ids: Ids, *, grace_ms: int) -> Work[int]:
    """Retain and sweep every partition of a topic; return how many objects were deleted."""
    swept = 0
    for one in topic.incarnations():
        now_ms = yield from store_now(ids)
        left = False
        for partition in range(one.partitions):
            where = one.where(partition)
            manifest = yield from retain_partition(one, where, ids, now_ms=now_ms)
            yield from turn_page(where, ids(), now_ms)
            swept += yield from sweep_partition(where, ids, now_ms=now_ms, grace_ms=grace_ms)
            left = left or bool(manifest.dropped)
        late = now_ms - one.deleted_ms > FORGET_GRACES * grace_ms
        if one.id != topic.id and late and not left:
            yield from forget_retired(topic.name, one.id, ids())
    return swept


def keep(lanes: Mapping[int, Lane], settings: SealSettings, *, idle: bool = False) -> Work[Kept]:
    """Do for the namespace what is due."""
    topics = yield from list_topics()
    total = Kept(sealed=Sealed())
    for _, lane in sorted(lanes.items()):
        yield from _bury(lane, topics)
        done = yield from keep_lane(lane, topics, settings, idle=idle)
        yield from write_checkpoint(lane)
        total = Kept(
            sealed=total.sealed + done.sealed,
            trimmed=total.trimmed + done.trimmed,
            reaped=total.reaped + done.reaped,
        )
    swept = 0
    lane = next(iter(lanes.values()))
    for topic in topics:
        swept += yield from keep_topic(topic, lane.ids, grace_ms=lane.rules.grace_ms)
    return Kept(sealed=total.sealed, trimmed=total.trimmed, reaped=total.reaped, swept=swept)


def _bury(lane: Lane, topics: list[Topic]) -> Work[None]:
    """Tell a lane of deleted topics, if whoever deleted them did not live to do it."""
    yield from refresh(lane)
    fold = lane.fold
    assert fold is not None
    gone = [
        DeleteTopic(topic=one.id)
        for topic in topics
        for one in topic.incarnations()
        if one.deleted and any(place[0] == one.id for place in fold.ends)
    ]
    if gone:
        yield from append(lane, gone)
