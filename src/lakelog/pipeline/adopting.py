"""The driver's part of an import: which segments count, and when a topic is opened.

    made by steps -> held until it is settled -> named by the manifest -> lanes told, topic opened

A manifest takes rows in order, so behind a segment that could not be brought nothing is taken, nor
in a later wave. And it takes them for good, so a segment waits while a transaction is open that
began in it or before it: whether its records count is known when its marker comes. What still waits
in the end is refused; or, if more is to come, left to the next run.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any

import pyarrow as pa

from lakelog.catalog import Topic, open_topic, read_topic
from lakelog.errors import ConflictError, NotFoundError, UnavailableError
from lakelog.host import SystemClock, new_id
from lakelog.journal import Begin, Refused, StoreTime, Unknown, append, new_lane
from lakelog.log import store_now
from lakelog.maintenance import read_segment
from lakelog.manifests import (
    Manifest,
    NewSegment,
    PartitionPath,
    SegmentRow,
    change_manifest,
    changes,
    make_segment,
    read_manifest,
    store_segment,
    turn_page,
)
from lakelog.model import Rules
from lakelog.names import segment_stem
from lakelog.pipeline.frame import Finding, Job, Result
from lakelog.store import Work, run

__all__ = ["Importing", "begun_topic", "content_name"]

TopicPartition = tuple[str, int]
Part = Mapping[str, Any]
"""What a step has made of one segment: see ``Import.step``."""


def content_name(made: NewSegment) -> str:
    """Return the name of a segment that says what is in it: who made it does not matter."""
    digest = sha256()
    for piece in made.body:
        digest.update(piece)
    return segment_stem(made.row.base_offset, digest.digest()[:16])


def begun_topic(name: str) -> Work[Topic | None]:
    """Return the topic of this name, which an earlier run may have begun; None if there is none."""
    try:
        topic = yield from read_topic(name)
    except NotFoundError:
        return None
    return None if topic.deleted else topic


class Importing:
    """What one import has brought, and what of it counts."""

    def __init__(
        self,
        job: Job,
        topics: Mapping[str, Topic],
        rules: Rules,
        perform: Callable[[Any], Any],
        *,
        stay_closed: bool,
    ) -> None:
        self.job, self._topics = job, topics
        self._rules, self._perform, self._stay_closed = rules, perform, stay_closed
        self._flawed: set[TopicPartition] = set()
        self._waiting: dict[TopicPartition, list[Part]] = {}
        self._open: dict[TopicPartition, dict[int, int]] = {}
        """Producers with an open transaction, and where it began."""

    def commit(self, table: pa.Table) -> list[Result]:
        """Let manifests name what is settled, partition by partition, up to the first flaw."""
        told: list[Result] = []
        columns = (table.column(name).to_pylist() for name in ("topic", "partition", "made"))
        for name, partition, made in zip(*columns, strict=True):
            place = name, partition
            if not made:
                self._flawed.add(place)
            if place not in self._flawed:
                told += self._take(place, json.loads(made))
        for place, parts in self._waiting.items():
            settled = _settled(parts, self._open.get(place, {}))
            where = self._topics[place[0]].where(place[1])
            adopted = bool(settled) and run(_adopt(where, settled), self._perform)
            if adopted:
                self._waiting[place] = parts[len(settled) :]
        return told

    def _take(self, place: TopicPartition, part: Part) -> list[Result]:
        still = self._open.setdefault(place, {})
        unlisted = [producer for producer in part["unlisted"] if producer in still]
        if unlisted:
            self._flawed.add(place)
            what = (
                f"a transaction of producer {unlisted[0]} from offset {still[unlisted[0]]} on was "
                "aborted, and no .txnindex says so: bring all files of the directory"
            )
            return [_refused(place, what)]
        for producer in part["ended"]:
            still.pop(producer, None)
        for producer, first in part["open"]:
            still.setdefault(producer, first)
        self._waiting.setdefault(place, []).append(part)
        return []

    def end(self) -> list[Result]:
        """Tell the lanes where partitions begin, and open the topics; or say what is open."""
        if self._stay_closed:
            return []
        told = [
            _refused(
                place,
                f"a transaction is open from offset {min(self._open[place].values())} on: let it "
                "end, then import again",
            )
            for place, parts in self._waiting.items()
            if parts
        ]
        if not told:
            writer = new_id()
            for topic in self._topics.values():
                self._begin(topic, writer)
            for topic in self._topics.values():
                run(open_topic(topic.name, topic.id, new_id()), self._perform)
        return told

    def _begin(self, topic: Topic, writer: bytes) -> None:
        begins: dict[int, list[Begin]] = {}
        for partition in range(topic.partitions):
            where = topic.where(partition)
            end = run(read_manifest(where), self._perform).sealed_end
            if end:
                begin = Begin(place=where.place, offset=end)
                begins.setdefault(topic.lane(partition), []).append(begin)
        time = StoreTime()
        for number, requests in sorted(begins.items()):
            rules = self._rules
            lane = new_lane(number, rules, SystemClock(), new_id, time=time, writer=writer)
            for outcome in run(append(lane, requests), self._perform):
                if isinstance(outcome, Unknown):
                    raise UnavailableError(
                        f"{topic.name}: the store did not answer for too long, and it is not known "
                        "whether its lanes know where it begins: run the same command again"
                    )
                if isinstance(outcome, Refused):
                    raise ConflictError(
                        f"{topic.name}: {outcome.why.value}: an earlier run ended between telling "
                        "its lanes and opening it, and the directories have grown since. Begin "
                        f"again after lakelog topic delete {topic.name}"
                    )


def _refused(place: TopicPartition, what: str) -> Result:
    name = f"{place[0]}-{place[1]}"
    return Result(
        topic=place[0],
        partition=place[1],
        base_offset=0,
        object=name,
        outcome="refused",
        findings=(Finding(name, 0, 0, what),),
        findings_count=1,
    )


def _settled(parts: Sequence[Part], still: Mapping[int, int]) -> list[Part]:
    """Return the first parts, up to one that holds something of an open transaction."""
    first = min(still.values(), default=None)
    count = 0
    while count < len(parts) and (first is None or parts[count]["end"] <= first):
        count += 1
    return list(parts[:count])


def _adopt(where: PartitionPath, parts: Sequence[Part]) -> Work[bool]:
    """Let a manifest name the rows of some steps, which follow one another.

    False: nothing of the log has been found yet, and more is to come. Then where it begins is not
    known, and the parts wait.

    Raises:
        NotFoundError: the topic was deleted.
        ConflictError: its history ends elsewhere by now.
    """
    start, end, write = parts[-1]["start"], parts[-1]["end"], new_id().hex()
    now = yield from read_manifest(where)
    base, empty = now.sealed_end, not (now.pages or now.segments)
    rows = [SegmentRow(*row) for part in parts for row in part["rows"]]
    rows = [row for row in rows if row.next_offset > base]
    if empty and not rows and not parts[-1]["last"]:
        return False
    if rows and rows[0].base_offset < base:
        raise ConflictError(
            f"{where.path}: a batch from {rows[0].base_offset} on reaches over {base}, where an "
            "earlier run ended: these are other directories, or another import is at work. Let it "
            "finish; or delete the topic, and begin again"
        )
    low = max(start, base)
    if empty and rows and rows[0].base_offset > low:
        # What the log began with is gone, and so is nothing of ours that begins where it does.
        rows[0] = yield from _lowered(where, rows[0], low)
    after = yield from change_manifest(
        where,
        write,
        lambda now: changes.adopt(now, write, base, tuple(rows), start=start, end=end),
    )
    if after.deleted:
        raise NotFoundError(f"{where.path}: the topic was deleted while it was imported")
    if after.sealed_end < end:
        raise ConflictError(f"{where.path}: another import is at work: let one of them finish")
    yield from _begin_at(where, after, start)
    yield from turn_page(where, new_id(), (yield from store_now(new_id)))
    return True


def _begin_at(where: PartitionPath, now: Manifest, start: int) -> Work[None]:
    """Let the log begin where Kafka's does by now."""
    if start > now.log_start:
        write = new_id().hex()
        yield from change_manifest(where, write, lambda now: changes.start(now, write, start))


def _lowered(where: PartitionPath, row: SegmentRow, base: int) -> Work[SegmentRow]:
    """Return a segment with the same batches that begins at ``base``."""
    made = make_segment(
        [(yield from read_segment(where, row))],
        base_offset=base,
        next_offset=row.next_offset,
        appended_ms=row.appended_ms,
    )
    name = content_name(made)
    return (yield from store_segment(where, made, name))
