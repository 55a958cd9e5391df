"""The keeper: all of it for a whole namespace, in one process.

A laptop or a single broker needs neither Spark nor a cluster to keep its log: this runs the very
steps that Spark runs, one after the other. Two keepers may run at once, beside Spark or not. What
fails is noted, and does not keep it from the rest.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakelog.errors import LakelogError
from lakelog.history.manifests import turn_page
from lakelog.journal import DeleteTopic, Lane, append, write_checkpoint
from lakelog.keep.backlog import catalog_of, read_backlog
from lakelog.keep.groups import SealSettings, plan_seal
from lakelog.keep.retain import retain_partition
from lakelog.keep.seal import Sealed, seal_group
from lakelog.keep.staged import keep_writes
from lakelog.keep.sweep import sweep_partition, sweep_times
from lakelog.keep.trim import reap, trim
from lakelog.log import Topic, forget_retired, list_topics, refresh, store_now
from lakelog.ports import Ids
from lakelog.store import Work

__all__ = ["Kept", "bury", "forget_topic", "keep", "keep_lane", "keep_partition", "keep_topic"]

BUNDLES_MAX = 4096
"""Of a lane, in one pass."""

FORGET_GRACES = 24
"""A deleted topic is remembered for so many graces: what arrives late is swept as well."""


@dataclass(slots=True, kw_only=True)
class Kept:
    """What a pass has done."""

    sealed: Sealed = field(default_factory=Sealed)
    trimmed: int = 0
    """Bundles that a floor has passed."""
    reaped: int = 0
    """Objects of lanes that were deleted."""
    swept: int = 0
    """Objects beside manifests that were deleted."""
    failures: dict[str, LakelogError] = field(default_factory=dict)
    """What could not be done: a lane or a topic, and why."""


def keep(lanes: Mapping[int, Lane], settings: SealSettings, *, idle: bool = False) -> Work[Kept]:
    """Do for the namespace what is due.

    Raises:
        LakelogError: the topics cannot be listed.
    """
    kept = Kept()
    topics = yield from list_topics()
    for number, lane in sorted(lanes.items()):
        try:
            yield from bury(lane, topics)
            yield from keep_lane(lane, topics, settings, kept, idle=idle)
            yield from write_checkpoint(lane)
        except LakelogError as error:
            kept.failures[f"lane {number}"] = error
    lane = next(iter(lanes.values()))
    grace_ms = lane.rules.grace_ms
    for topic in topics:
        try:
            yield from keep_topic(topic, lane.ids, kept, grace_ms=grace_ms)
        except LakelogError as error:
            kept.failures[f"topic {topic.name}"] = error
    now_ms = yield from store_now(lane.ids)
    kept.swept += yield from sweep_times(now_ms=now_ms, grace_ms=grace_ms)
    writes = yield from keep_writes(lanes, now_ms=now_ms, grace_ms=grace_ms)
    kept.swept += writes.swept
    kept.failures |= writes.failures
    return kept


def keep_lane(
    lane: Lane, topics: list[Topic], settings: SealSettings, kept: Kept, *, idle: bool = False
) -> Work[None]:
    """Seal, trim and reap one lane."""
    catalog = catalog_of(topics)
    backlog = yield from read_backlog(lane, BUNDLES_MAX)
    if backlog is not None:
        for group in plan_seal(backlog, catalog, settings):
            # Asked for each: a pass may take longer than the grace, and an intent begins now.
            now_ms = yield from store_now(lane.ids)
            kept.sealed += yield from seal_group(
                lane, group, settings, floor=backlog.floor, since_ms=now_ms
            )
        trimmed = yield from trim(lane, backlog, catalog, idle=idle)
        kept.trimmed += trimmed.floor - trimmed.before
    now_ms = yield from store_now(lane.ids)
    kept.reaped += yield from reap(lane, now_ms)


def keep_topic(topic: Topic, ids: Ids, kept: Kept, *, grace_ms: int) -> Work[None]:
    """Retain and sweep every partition of a topic, and of deleted ones of its name."""
    for one in topic.incarnations():
        if one.closed and not one.deleted:
            continue  # What no manifest names yet is being written.
        now_ms = yield from store_now(ids)
        left = False
        for partition in range(one.partitions):
            swept, more = yield from keep_partition(
                one, partition, ids, now_ms=now_ms, grace_ms=grace_ms
            )
            kept.swept += swept
            left = left or more
        if one.id != topic.id and not left:
            yield from forget_topic(one, ids, now_ms=now_ms, grace_ms=grace_ms)


def keep_partition(
    topic: Topic, partition: int, ids: Ids, *, now_ms: int, grace_ms: int
) -> Work[tuple[int, bool]]:
    """Retain and sweep one partition; return how many objects went, and whether some are left."""
    where = topic.where(partition)
    manifest = yield from retain_partition(topic, where, ids, now_ms=now_ms)
    yield from turn_page(where, ids(), now_ms)
    swept = yield from sweep_partition(where, ids, now_ms=now_ms, grace_ms=grace_ms)
    return swept, bool(manifest.pages or manifest.segments or manifest.dropped)


def forget_topic(topic: Topic, ids: Ids, *, now_ms: int, grace_ms: int) -> Work[None]:
    """Forget a deleted topic of which nothing is left, when nothing more can arrive."""
    if now_ms - topic.deleted_ms > FORGET_GRACES * grace_ms:
        yield from forget_retired(topic.name, topic.id, ids())


def bury(lane: Lane, topics: list[Topic]) -> Work[None]:
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
