"""Where history ends and the journal begins, lane by lane: no gap, and no end beyond the other.

    head, the checkpoint it stands on, the bundles from the floor to it, head again      the journal
      -> the first offset of each partition that lies above the floor
    manifests, second                                                                    history
      sealed_end or log_start reaches that offset: else what lies between is in neither
    the lane to its end, third
      no manifest ends or begins behind it

The order is that of a reader, and then some: sealed ends never go down, and neither do the ends of
a lane. What looks wrong is looked at again after the cells of the topics: a floor passes a deleted
topic unsealed, and of a topic that is being imported the lane knows nothing yet.

A unit is a part of a lane's partitions: a range of the order of places, so that also what no topic
claims lies in one of them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lakelog.catalog import Topic
from lakelog.errors import CorruptError, NotFoundError, UnsupportedError
from lakelog.journal import (
    Fold,
    Head,
    Lane,
    TopicIdPartition,
    learn,
    new_lane,
    read_bundles,
    read_checkpoint,
)
from lakelog.maintenance import catalog_of
from lakelog.manifests import PartitionPath
from lakelog.model import Rules
from lakelog.names import (
    TOPICS_PREFIX,
    bundle_key,
    checkpoint_key,
    head_key,
    is_topic_name,
    manifest_key,
    topic_key,
)
from lakelog.pipeline.frame import FindingCollector, Result
from lakelog.pipeline.fsck.cells import read_topics
from lakelog.pipeline.fsck.chains import lane_subject, read_head
from lakelog.ports import Host
from lakelog.store import AT_ONCE, CELL_BYTES_MAX, Get, Work, fetch_many, list_objects

__all__ = ["Border", "borders_of", "check_border"]

PLACES_MAX = 4096
"""Partitions of a unit."""
STARTS_MAX = 20
_PRICE_BYTES = 4096
"""About what a manifest has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Border:
    """A unit: some partitions of a lane."""

    lane: int
    rules: Rules
    wheres: tuple[PartitionPath, ...]
    """In the order of places."""
    low: TopicIdPartition | None
    high: TopicIdPartition | None
    """All places of the lane from ``low`` up to ``high`` are this unit's; None: to the end."""

    @property
    def size(self) -> int:
        return _PRICE_BYTES * (1 + len(self.wheres))

    def has(self, topic_partition: TopicIdPartition) -> bool:
        after = self.low is None or topic_partition >= self.low
        return after and (self.high is None or topic_partition < self.high)


def borders_of(lane: int, rules: Rules, wheres: Sequence[PartitionPath]) -> Iterator[Border]:
    """Cut the partitions of a lane into units; a lane without any has one, too."""
    order = sorted(wheres, key=lambda where: where.topic_partition)
    parts = [order[at : at + PLACES_MAX] for at in range(0, len(order), PLACES_MAX)] or [[]]
    for number, part in enumerate(parts):
        yield Border(
            lane=lane,
            rules=rules,
            wheres=tuple(part),
            low=part[0].topic_partition if number else None,
            high=parts[number + 1][0].topic_partition if number + 1 < len(parts) else None,
        )


def check_border(unit: Border, host: Host) -> Work[Result]:
    """Check that history and journal meet in every partition."""
    subject = lane_subject(unit.lane, 0, head_key(unit.lane))
    findings = FindingCollector()
    lane = new_lane(unit.lane, unit.rules, *host)
    try:
        begins = yield from _begins(unit, lane, findings)
        if begins is None:
            return subject.result("damaged" if findings.count else "unjudged", findings)
        suspects, _ = yield from _judge(unit, lane, unit.wheres, begins)
        if suspects:
            names = yield from _topic_names()
            topics = yield from read_topics(names, unit.rules.lanes)
            again = [where for where in unit.wheres if where.topic_partition in suspects]
            suspects, fold = yield from _judge(unit, lane, again, begins)
            known = catalog_of([*topics.good.values()])
            for topic_partition, why in sorted(suspects.items()):
                topic = known.get(topic_partition[0])
                if topic is not None:
                    _tell(unit, fold, topic, topic_partition, why, findings)
                elif topic_partition in fold.ends and not topics.bad:
                    # Else it was forgotten, as it should be; or its cell cannot be read.
                    findings.add(
                        TOPICS_PREFIX.rstrip("/"),
                        f"lane {unit.lane} holds topic {topic_partition[0].hex()}, which no cell "
                        "knows",
                    )
    except (CorruptError, UnsupportedError, NotFoundError) as error:
        # What cannot be read here is told where it is judged: by stretches, and by the lane.
        key = getattr(error, "where", "")
        return subject.found("unjudged", str(error), key=key)
    return subject.result("damaged" if findings.count else "good", findings)


# ---------------------------------------------------------------------------- the journal


def _begins(
    unit: Border, lane: Lane, findings: FindingCollector
) -> Work[dict[TopicIdPartition, int] | None]:
    """Return the first offset above the floor of each partition; None if that cannot be told.

    Raises:
        CorruptError, UnsupportedError, NotFoundError: something on the way cannot be read.
    """
    for _ in range(STARTS_MAX):
        seen = yield from read_head(unit.lane)
        begins = yield from _walk(unit, lane, seen)
        now = yield from read_head(unit.lane)
        if now != seen:
            continue  # What was read may be from below the floor.
        if isinstance(begins, str):
            findings.add(
                begins,
                f"it is missing, and the head stands on checkpoint {seen.checkpoint}: restore it",
            )
            findings.add(
                head_key(unit.lane),
                f"it has floor {seen.floor} and checkpoint {seen.checkpoint}: {begins} is missing",
            )
            return None
        return begins
    return None


def _walk(unit: Border, lane: Lane, seen: Head) -> Work[dict[TopicIdPartition, int] | str]:
    """Return the first offsets, or the key of what is missing."""
    if seen.checkpoint < 0:
        return {}  # Nothing was ever trimmed.
    checkpoint = yield from read_checkpoint(lane, seen.checkpoint)
    if checkpoint is None:
        return checkpoint_key(unit.lane, seen.checkpoint)
    firsts: dict[TopicIdPartition, int] = {}
    for start in range(seen.floor, seen.checkpoint + 1, AT_ONCE):
        seqs = range(start, min(start + AT_ONCE, seen.checkpoint + 1))
        for seq, held in zip(seqs, (yield from read_bundles(lane, seqs)), strict=True):
            if held is None:
                return bundle_key(unit.lane, seq)
            for one in held.bundle.slices:
                if unit.has(one.topic_partition):
                    firsts.setdefault(one.topic_partition, one.base_offset)
    ends = {(end.topic, end.partition): end.offset for end in checkpoint.ends}
    return {
        topic_partition: end for topic_partition, end in ends.items() if unit.has(topic_partition)
    } | firsts


# ---------------------------------------------------------------------------- both


class _Extent(NamedTuple):
    """Of a manifest, without its rows: there may be many."""

    end: int
    """Below it history has everything that may be read."""
    deleted: bool


def _judge(
    unit: Border, lane: Lane, wheres: Sequence[PartitionPath], begins: dict[TopicIdPartition, int]
) -> Work[tuple[dict[TopicIdPartition, str], Fold]]:
    """Return what looks wrong with which partitions, and the lane as it is now."""
    held: dict[TopicIdPartition, _Extent | None] = {}
    for at in range(0, len(wheres), AT_ONCE):
        some = wheres[at : at + AT_ONCE]
        keys = [manifest_key(where.path, where.partition) for where in some]
        cells = yield from fetch_many([Get(key, CELL_BYTES_MAX) for key in keys])
        for where, cell in zip(some, cells, strict=True):
            held[where.topic_partition] = _short(where, None if cell is None else cell.body)
    fold = yield from learn(lane)
    suspects: dict[TopicIdPartition, str] = {}
    for topic_partition, extent in held.items():
        if extent is not None and not extent.deleted and not fold.is_deleted(topic_partition[0]):
            why = _flaw(extent.end, begins.get(topic_partition, 0), fold.end(topic_partition))
            if why:
                suspects[topic_partition] = why
    known = {where.topic_partition for where in unit.wheres}
    for topic_partition in fold.ends:
        if unit.has(topic_partition) and topic_partition not in known:
            suspects[topic_partition] = ""
    return suspects, fold


def _short(where: PartitionPath, body: bytes | None) -> _Extent | None:
    """Return what a manifest says of its ends; None if it is none."""
    try:
        manifest = where.decoded(body)
    except (CorruptError, UnsupportedError):
        return None  # That is told where manifests are judged.
    return _Extent(max(manifest.sealed_end, manifest.log_start), manifest.deleted)


def _flaw(history: int, begin: int, end: int) -> str:
    if begin > history:
        return f"history ends at {history}, the journal begins at {begin}"
    if history > end:
        return f"history reaches {history}, the journal ends at {end}"
    return ""


def _tell(
    unit: Border,
    fold: Fold,
    topic: Topic,
    topic_partition: TopicIdPartition,
    why: str,
    findings: FindingCollector,
) -> None:
    """Note what is wrong with a partition, if its topic does not explain it."""
    if not topic.is_open:
        return
    if topic_partition[1] >= topic.partitions or topic.lane(topic_partition[1]) != unit.lane:
        findings.add(
            topic_key(topic.name),
            f"lane {unit.lane} holds its partition {topic_partition[1]}, which is not of this lane",
        )
        return
    if not why:
        return
    key = manifest_key(topic.path, topic_partition[1])
    findings.add(key, why)
    if "begins" in why:
        findings.add(
            head_key(unit.lane), f"its floor has passed what no manifest has: {key}: {why}"
        )
    else:
        findings.add(
            bundle_key(unit.lane, fold.seq + 1),
            f"it is missing, or the manifest is wrong: {key}: {why}",
        )


def _topic_names() -> Work[list[str]]:
    infos = yield from list_objects(TOPICS_PREFIX)
    names = (info.key.removeprefix(TOPICS_PREFIX) for info in infos)
    return [name for name in names if is_topic_name(name)]
