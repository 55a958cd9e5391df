"""A survey: whole topics at once, where each of their partitions begins and ends.

    topics     cells in the bucket: one by its name, several by a listing
    lanes      one look at each that has a partition of them: head, walk, head
    manifests  second, so that they cover all that lies below the floors just seen

It is what a reader of many partitions has instead of ``read``, which asks for one. Whoever surveys
again and again, as a stream does, keeps the survey: then a lane to which nobody has appended takes
one request, and the topics another.

Flows of different lanes may run side by side; those of one lane may not.

``tell_unsealed`` says what of a namespace is only in its journal, in words for whoever reads its
segments alone, and so leaves it out: how much it is, and of which partitions.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from lakelog.catalog import (
    Marks,
    Topic,
    cleanup_policy,
    has_namespace,
    news_of_topics,
    open_namespace,
    read_topic,
)
from lakelog.errors import LakelogError, NotFoundError
from lakelog.journal import Lane, new_lane, probe
from lakelog.log.plan import plan_partitions
from lakelog.manifests import PartitionPath, SegmentRow
from lakelog.model import Rules
from lakelog.ports import Clock, Ids
from lakelog.segments import Selection
from lakelog.store import Work

__all__ = ["Extent", "PartitionRef", "Survey", "look_at", "open_survey", "tell_unsealed"]

SHOWN = 5
"""Partitions in a sentence."""


class PartitionRef(NamedTuple):
    """A partition of one incarnation of a topic."""

    topic: str
    where: PartitionPath
    lane: int
    compacted: bool = False
    """Whether records may be missing between others."""

    @property
    def partition(self) -> int:
        return self.where.partition

    @property
    def key(self) -> tuple[str, int]:
        """What a reader calls it."""
        return self.topic, self.where.partition

    def __str__(self) -> str:
        return f"{self.topic}-{self.where.partition}"


@dataclass(frozen=True, slots=True)
class Extent:
    """A partition as it was when it was looked at: from ``log_start`` to ``end``."""

    member: PartitionRef
    log_start: int
    sealed_end: int
    end: int
    rows: tuple[SegmentRow, ...] = ()
    """The segments from the start of the log on; none of them if only the journal was asked."""


@dataclass(slots=True, kw_only=True)
class Survey:
    """What one process knows of a namespace. Flows change it."""

    rules: Rules
    clock: Clock
    ids: Ids
    lanes: dict[int, Lane] = field(default_factory=dict)
    topics: dict[str, Topic] = field(default_factory=dict)
    _marks: Marks = field(default_factory=dict)

    def lane(self, number: int) -> Lane:
        """Return what is known of a lane, which may be nothing yet."""
        if number not in self.lanes:
            self.lanes[number] = new_lane(number, self.rules, self.clock, self.ids)
        return self.lanes[number]

    def members(
        self, selection: Selection, *, missing_ok: bool = False
    ) -> Work[list[PartitionRef]]:
        """Look at the topics, and return the partitions that are wanted of them.

        Raises:
            NotFoundError: a topic that is named is not there, and may not be missing.
            LakelogError: one that is wanted cannot be read.
        """
        names = _names(selection)
        if names is not None and len(names) == 1:
            yield from self._read(names[0])
        else:
            news = yield from news_of_topics(self._marks, selection.wants_some)
            for error in news.damaged.values():
                raise error  # To leave out a topic that was asked for would be to lose records.
            self.topics |= news.topics
        missing = [name for name in names or () if self._topic(name) is None]
        if missing and not missing_ok:
            raise NotFoundError(
                f"there is no topic {', '.join(missing)}: check the name, or create it"
            )
        return [
            member
            for name in sorted(self.topics)
            if (topic := self._topic(name)) is not None
            for member in _members(topic)
            if selection.wants(*member.key)
        ]

    def _read(self, name: str) -> Work[None]:
        try:
            self.topics[name] = yield from read_topic(name)
        except NotFoundError:
            self.topics.pop(name, None)

    def _topic(self, name: str) -> Topic | None:
        topic = self.topics.get(name)
        return topic if topic is not None and topic.is_open else None

    def look(self, lane: int) -> Work[None]:
        """Know a lane to its end as it is now: one request, if nobody has appended since."""
        yield from probe(self.lane(lane))

    def end(self, member: PartitionRef) -> int:
        """Return where the journal ends, by the last look at its lane.

        Raises:
            NotFoundError: the topic was deleted.
        """
        fold = self.lane(member.lane).known.fold
        if fold.is_deleted(member.where.topic):
            raise _deleted(member)
        return fold.end(member.where.topic_partition)

    def extents(self, members: Sequence[PartitionRef]) -> Work[list[Extent]]:
        """Read the manifests of partitions whose lanes have been looked at.

        Raises:
            NotFoundError: a topic was deleted.
        """
        planned = yield from plan_partitions([member.where for member in members])
        extents: list[Extent] = []
        for member, found in zip(members, planned, strict=True):
            if found.deleted:
                raise _deleted(member)
            end = max(self.end(member), found.sealed_end)
            start = min(found.log_start, end)
            extents.append(Extent(member, start, found.sealed_end, end, found.rows))
        return extents


def open_survey(clock: Clock, ids: Ids) -> Work[Survey]:
    """Return a survey of the namespace that is here, which has not seen anything.

    Raises:
        NotFoundError: there is none.
    """
    namespace = yield from open_namespace()
    return Survey(rules=namespace.rules, clock=clock, ids=ids)


def look_at(
    selection: Selection, clock: Clock, ids: Ids, *, missing_ok: bool = False
) -> Work[tuple[Survey, list[Extent]]]:
    """Return where each partition that is wanted begins and ends, and the survey that saw it."""
    survey = yield from open_survey(clock, ids)
    members = yield from survey.members(selection, missing_ok=missing_ok)
    for lane in sorted({member.lane for member in members}):
        yield from survey.look(lane)
    return survey, (yield from survey.extents(members))


def _names(selection: Selection) -> list[str] | None:
    if selection.topics is not None:
        return sorted(selection.topics)
    if selection.partitions is not None:
        return sorted({topic for topic, _ in selection.partitions})
    return None


def _members(topic: Topic) -> Iterable[PartitionRef]:
    compacted = "compact" in cleanup_policy(topic.configs)
    for partition in range(topic.partitions):
        yield PartitionRef(topic.name, topic.path_of(partition), topic.lane(partition), compacted)


def _deleted(member: PartitionRef) -> NotFoundError:
    id_ = member.where.topic.hex()
    return NotFoundError(f"{member}: the topic with id {id_} was deleted: check the name")


# ---------------------------------------------------------------------------- what is not sealed


def tell_unsealed(selection: Selection, clock: Clock, ids: Ids) -> Work[str]:
    """Return a clause about what is only in the journal of the partitions that are wanted.

    It is empty where all is sealed, and where there is no namespace. A journal that cannot be read
    is told of as well: nobody may take that for an empty one.
    """
    if not (yield from has_namespace()):
        return ""
    try:
        _, extents = yield from look_at(selection, clock, ids, missing_ok=True)
    except LakelogError as error:
        return f"records that are only in the journal are left out; it cannot be read: {error}"
    return _clause(extents)


def _clause(extents: Iterable[Extent]) -> str:
    unsealed = [
        (extent, start)
        for extent in extents
        if (start := max(extent.sealed_end, extent.log_start)) < extent.end
    ]
    if not unsealed:
        return ""
    count = sum(extent.end - start for extent, start in unsealed)
    named = [f"{extent.member} from offset {start} on" for extent, start in unsealed[:SHOWN]]
    more = f", and {len(unsealed) - SHOWN} more partitions" if unsealed[SHOWN:] else ""
    what = "1 record is" if count == 1 else f"{count} records are"
    return f"{what} only in the journal, and left out here ({', '.join(named)}{more})"
