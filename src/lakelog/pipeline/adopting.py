"""How batches of another log become a topic of ours: what import and copy have in common.

    begin     a topic that is closed: the name is taken, and nobody comes in
    steps     batches -> segments, named after what is in them                      SegmentTaker
    commit    held until no transaction is open -> named by the manifest            Importing
    end       lanes are told where partitions begin; the topic is opened

A name is a digest of the bytes, so that two who bring the same do not do it twice. Nothing counts
before a manifest takes it. A manifest takes rows in order, so behind a segment that could not be
brought nothing is taken, nor in a later wave. And it takes them for good, so a segment waits while
a transaction is open that began in it or before it: whether its records count is known when its
marker comes. What still waits in the end is refused; or, if more is to come, left to the next run.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import pyarrow as pa

from lakelog.catalog import Topic, create_topic, open_topic, read_topic
from lakelog.errors import ConflictError, NotFoundError, UnavailableError
from lakelog.journal import Begin, Lane, Refused, StoreTime, Unknown, append, new_lanes
from lakelog.log import store_now
from lakelog.maintenance import read_segment
from lakelog.manifests import (
    NewSegment,
    PartitionPath,
    SegmentRow,
    change_manifest,
    changes,
    finish_segment,
    make_segment,
    read_manifest,
    store_segment,
    turn_page,
)
from lakelog.model import Rules
from lakelog.names import segment_stem
from lakelog.pipeline.frame import (
    SOURCE,
    TARGET,
    Job,
    Result,
    Step,
    Subject,
    at_store,
)
from lakelog.ports import Host, Ids
from lakelog.records import BatchHeader, rebase
from lakelog.store import StoreSpec, Work, put_named, run

__all__ = [
    "SEGMENT_BYTES",
    "Importing",
    "SegmentTaker",
    "TransferJob",
    "begin_topic",
    "begun_topic",
]

SEGMENT_BYTES = 128 << 20

TopicPartition = tuple[str, int]
Part = Mapping[str, Any]
"""What a step has made of one segment: see ``SegmentTaker.result``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferJob:
    """What import and copy are made of."""

    source: StoreSpec
    target: StoreSpec
    host: Host
    segment_bytes: int = SEGMENT_BYTES
    topics: Mapping[str, Topic] = field(default_factory=dict)
    """What ``begin`` has made."""

    one_wave = False
    ends_anyway = False

    @property
    def stores(self) -> Mapping[str, StoreSpec]:
        return {SOURCE: self.source, TARGET: self.target}


def _content_name(made: NewSegment) -> str:
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


def begin_topic(
    name: str, *, partitions: int, lanes: int, configs: Mapping[str, str], ids: Ids
) -> Work[Topic]:
    """Return the topic that an earlier run has begun, or make one that is closed."""
    topic = yield from begun_topic(name)
    if topic is not None:
        return topic
    now_ms = yield from store_now(ids)
    making = create_topic(
        name,
        topic_id=ids(),
        partitions=partitions,
        lanes=lanes,
        now_ms=now_ms,
        configs=configs,
        closed=True,
    )
    return (yield from making)


# ---------------------------------------------------------------------------- an executor


class SegmentTaker:
    """Batches of another log on their way into segments of ours."""

    def __init__(self, where: PartitionPath, low: int, segment_bytes: int) -> None:
        self._where, self._segment_bytes = where, segment_bytes
        self._low: int | None = low
        """Where the first of them begins, also if its first batch does not."""
        self._held: list[bytearray] = []
        self._held_bytes = 0
        self._first = self.next_offset = 0
        self.rows: list[SegmentRow] = []
        self.batches = 0
        self._newest_ms = 0

    def add(self, found: Iterator[tuple[BatchHeader, memoryview]]) -> Step[None]:
        """Take batches in, and write a segment when there is enough for one."""
        for header, batch in found:
            placed = bytearray(batch)
            rebase(placed, base_offset=header.base_offset, leader_epoch=0)
            if not self._held:
                base = header.base_offset
                self._first = base if self._low is None else min(base, self._low)
                self._low, self._newest_ms = None, 0
            self._held.append(placed)
            self._held_bytes += len(placed)
            self._newest_ms = max(self._newest_ms, header.max_timestamp)
            self.next_offset = header.next_offset
            self.batches += 1
            if self._held_bytes >= self._segment_bytes:
                yield from self.close()

    def close(self) -> Step[None]:
        """Write what is held."""
        if not self._held:
            return
        made = make_segment(
            [b"".join(self._held)],
            base_offset=self._first,
            next_offset=self.next_offset,
            appended_ms=self._newest_ms,
        )
        self._held, self._held_bytes = [], 0
        name = _content_name(made)
        # The name says what is in it: who made it does not matter.
        yield from at_store(TARGET, put_named(f"{self._where.prefix}{name}.kfs", made.body))
        row = yield from at_store(TARGET, finish_segment(self._where, made, name))
        self.rows.append(row)

    def result(self, subject: Subject, **part: Any) -> Result:
        """Return what the driver is to commit.

        ``part`` has ``start`` and ``end``: where the log begins, and where what was brought ends;
        ``last``: whether the partition ends with it; and of transactions, which producers have one
        ``open`` and from where on, whose have ``ended``, and whose abort is ``unlisted``.
        """
        return subject.result(
            "written" if self.rows else "empty",
            records=sum(row.records for row in self.rows),
            batches=self.batches,
            made=json.dumps({**part, "rows": self.rows}),
        )


# ---------------------------------------------------------------------------- the driver


class Importing:
    """What one import has brought, and what of it counts."""

    def __init__(
        self,
        job: Job,
        topics: Mapping[str, Topic],
        rules: Rules,
        host: Host,
        perform: Callable[[Any], Any],
        *,
        stay_closed: bool,
    ) -> None:
        self.job, self._topics, self._host = job, topics, host
        self._rules, self._perform, self._stay_closed = rules, perform, stay_closed
        self._flawed: set[TopicPartition] = set()
        self._waiting: dict[TopicPartition, list[Part]] = {}
        self._open: dict[TopicPartition, dict[int, int]] = {}
        """Producers with an open transaction, and where it began."""

    def commit(self, table: pa.Table) -> list[Result]:
        """Let manifests name what waits for nothing, partition by partition, up to a flaw."""
        told: list[Result] = []
        columns = (table.column(name).to_pylist() for name in ("topic", "partition", "made"))
        for name, partition, made in zip(*columns, strict=True):
            topic_partition = name, partition
            if not made:
                self._flawed.add(topic_partition)
            if topic_partition not in self._flawed:
                told += self._take(topic_partition, json.loads(made))
        for topic_partition, parts in self._waiting.items():
            ready = _without_open(parts, self._open.get(topic_partition, {}))
            where = self._topics[topic_partition[0]].path_of(topic_partition[1])
            adopted = bool(ready) and run(_adopt(where, ready, self._host.ids), self._perform)
            if adopted:
                self._waiting[topic_partition] = parts[len(ready) :]
        return told

    def _take(self, topic_partition: TopicPartition, part: Part) -> list[Result]:
        still = self._open.setdefault(topic_partition, {})
        unlisted = [producer for producer in part["unlisted"] if producer in still]
        if unlisted:
            self._flawed.add(topic_partition)
            what = (
                f"a transaction of producer {unlisted[0]} from offset {still[unlisted[0]]} on was "
                "aborted, and no .txnindex says so: bring all files of the directory"
            )
            return [_refused(topic_partition, what)]
        for producer in part["ended"]:
            still.pop(producer, None)
        for producer, first in part["open"]:
            still.setdefault(producer, first)
        self._waiting.setdefault(topic_partition, []).append(part)
        return []

    def end(self) -> list[Result]:
        """Tell the lanes where partitions begin, and open the topics; or say what is open."""
        if self._stay_closed:
            return []
        told = [
            _refused(
                topic_partition,
                f"a transaction is open from offset {min(self._open[topic_partition].values())} "
                "on: let it end, then import again",
            )
            for topic_partition, parts in self._waiting.items()
            if parts
        ]
        if not told:
            lanes = new_lanes(self._rules, *self._host, StoreTime())
            for topic in self._topics.values():
                self._begin(topic, lanes)
            for topic in self._topics.values():
                run(open_topic(topic.name, topic.id, self._host.ids()), self._perform)
        return told

    def _begin(self, topic: Topic, lanes: Mapping[int, Lane]) -> None:
        begins: dict[int, list[Begin]] = {}
        for partition in range(topic.partitions):
            where = topic.path_of(partition)
            end = run(read_manifest(where), self._perform).sealed_end
            if end:
                begin = Begin(topic_partition=where.topic_partition, offset=end)
                begins.setdefault(topic.lane(partition), []).append(begin)
        for number, requests in sorted(begins.items()):
            for outcome in run(append(lanes[number], requests), self._perform):
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


def _refused(topic_partition: TopicPartition, what: str) -> Result:
    return Subject(*topic_partition, 0, f"{topic_partition[0]}-{topic_partition[1]}").found(
        "refused", what
    )


def _without_open(parts: Sequence[Part], still: Mapping[int, int]) -> list[Part]:
    """Return the first parts, up to one that holds something of an open transaction."""
    first = min(still.values(), default=None)
    count = 0
    while count < len(parts) and (first is None or parts[count]["end"] <= first):
        count += 1
    return list(parts[:count])


def _adopt(where: PartitionPath, parts: Sequence[Part], ids: Ids) -> Work[bool]:
    """Let a manifest name the rows of some steps, which follow one another.

    False: nothing of the log has been found yet, and more is to come. Then where it begins is not
    known, and the parts wait.

    Raises:
        NotFoundError: the topic was deleted.
        ConflictError: its history ends elsewhere by now.
    """
    start, end, write = parts[-1]["start"], parts[-1]["end"], ids().hex()
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
    if start > after.log_start:
        # The log begins where Kafka's does by now.
        later = ids().hex()
        yield from change_manifest(where, later, lambda now: changes.start(now, later, start))
    yield from turn_page(where, ids(), (yield from store_now(ids)))
    return True


def _lowered(where: PartitionPath, row: SegmentRow, base: int) -> Work[SegmentRow]:
    """Return a segment with the same batches that begins at ``base``."""
    made = make_segment(
        [(yield from read_segment(where, row))],
        base_offset=base,
        next_offset=row.next_offset,
        appended_ms=row.appended_ms,
    )
    name = _content_name(made)
    return (yield from store_segment(where, made, name))
