"""The reader behind ``spark.readStream.format("lakelog")``.

    latestOffset   topics, and one look at each lane      a lane without news: one request
    partitions     offsets from and to -> shares          manifests, where something is new
    read           on executors, as a batch has it

Offsets have Kafka's shape and meaning, so that a query that was begun with ``format("kafka")`` goes
on from its checkpoint. They cannot say which incarnation of a topic they are about. The reader
remembers that while the query runs, and the option topicIds says it for longer.

One process of the driver holds the reader for as long as the query runs; executors get a copy of
it that has never looked at anything. Spark neither tells of the end of a last batch nor stops a
reader reliably, so nothing here depends on it.
"""

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from lakelog.errors import NotFoundError
from lakelog.host import THIS_HOST
from lakelog.log import (
    Extent,
    Key,
    Losses,
    NamespaceReader,
    Offsets,
    PartitionRef,
    decode_offsets,
    encode_offsets,
    limit_offsets,
    readable,
)
from lakelog.ports import Clock
from lakelog.spark.live import live_log, members_of, read_live, tasks_of
from lakelog.spark.options import ReadOptions
from lakelog.spark.telling import told_plainly
from lakelog.spark.worker import uncollected
from lakelog.store import Perform

__all__ = ["LiveStreamReader"]

Shape = dict[str, dict[str, int]]


class LiveStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream: what was appended since the last trigger, from history and journal as one."""

    def __init__(
        self,
        options: ReadOptions,
        columns: tuple[str, ...],
        *,
        clock: Clock | None = None,
        perform: Perform | None = None,
    ) -> None:
        self._options, self._columns = options, columns
        self._clock = clock or THIS_HOST.clock
        self._perform = perform
        self._losses = Losses(fail=options.fail_on_data_loss)
        self._log: NamespaceReader | None = None
        self._members: dict[Key, PartitionRef] = {}
        self._sealed: dict[PartitionRef, int] = {}
        """How far history reached when a partition was seen first: what was imported has no
        journal."""
        self._ends: Offsets = {}
        self._target: Offsets | None = None
        self._renewed: set[str] = set()
        """Topics that were created again since the last trigger."""
        self._begun: dict[Key, int] = {}
        """Partitions that begin again from the start of their log, and the offset that the query
        had reached in what they were before."""
        self._last_trigger_ms: int | None = None

    # ------------------------------------------------------------------------ looking

    @property
    def log(self) -> NamespaceReader:
        if self._log is None:
            self._log = live_log(self._options, self._perform)
        return self._log

    def _look(self) -> None:
        """See which partitions there are, and where they end."""
        members = self._news()
        self.log.look(members)
        new = [member for member in members if member not in self._sealed]
        for extent in self.log.extents(new) if new else ():
            self._sealed[extent.member] = extent.sealed_end
        self._members = {member.key: member for member in members}
        self._ends = {}
        for key, member in list(self._members.items()):
            try:
                self._ends[key] = max(self.log.survey.end(member), self._sealed[member])
            except NotFoundError as error:
                # The lane says so, and the topic's cell was read before.
                self._losses.report("PARTITIONS_DELETED", str(error))
                del self._members[key]

    def _news(self) -> list[PartitionRef]:
        """Return the partitions that are wanted, after telling of topics that are others now."""
        known = {key[0]: member.where.topic for key, member in self._members.items()}
        missing_ok = bool(known) and not self._losses.fail
        members = members_of(self.log, self._options, missing_ok=missing_ok)
        now = {member.topic: member.where.topic for member in members}
        for topic, id_ in known.items():
            if topic in now and now[topic] != id_:
                self._losses.report(
                    "PARTITIONS_DELETED",
                    f"topic {topic} was deleted and created again: its id was {id_.hex()} and is "
                    f"{now[topic].hex()}, what was not read of the old one is gone",
                )
                self._renewed.add(topic)
        return members

    # ------------------------------------------------------------------------ offsets

    @told_plainly()
    def initialOffset(self) -> Shape:  # noqa: N802 (Spark's names)
        self._look()
        extents = self.log.extents(list(self._members.values()))
        return encode_offsets(self.log.find(self._options.starting, extents, "startingOffsets"))

    @told_plainly()
    def latestOffset(self, start: Shape, limit: ReadLimit) -> Shape:  # noqa: N802
        if self._target is None or not self._members:
            self._look()
        since = decode_offsets(start)
        # With a topic that was created again it goes on from the beginning.
        self._begun |= {key: at for key, at in since.items() if key[0] in self._renewed}
        self._renewed.clear()
        end = self._ends if self._target is None else self._within_target(since)
        if isinstance(limit, ReadAllAvailable):
            return self._shape(start, since, end)
        begin = self._beginnings(since, end)
        if self._target is None and self._is_too_little(begin, end):
            return start
        most = self._options.offsets_max
        limited = end if most is None else limit_offsets(begin, end, most)
        return self._shape(start, since, limited)

    def _within_target(self, since: Offsets) -> Offsets:
        """Where a query ends that reads what was there when it began."""
        assert self._target is not None
        return {
            key: max(self._target.get(key, 0), since.get(key, 0))
            for key in {*self._target, *since}
            if key in self._members
        }

    def _beginnings(self, since: Offsets, end: Offsets) -> Offsets:
        """Return from where each partition would be read."""
        new = [key for key in end if self._is_new(key, since)]
        extents = self.log.extents([self._members[key] for key in new]) if new else []
        return {key: min(since.get(key, 0), end[key]) for key in end} | {
            extent.member.key: extent.log_start for extent in extents
        }

    def _is_new(self, key: Key, since: Mapping[Key, int]) -> bool:
        return key not in since or self._begun.get(key) == since[key]

    def _is_too_little(self, begin: Offsets, end: Offsets) -> bool:
        """Whether to wait for more; if not, the time until the next batch must come begins."""
        least, now_ms, last_ms = (
            self._options.offsets_min,
            self._clock.boot_ms(),
            self._last_trigger_ms,
        )
        if least is None:
            return False
        waited = last_ms is None or now_ms - last_ms >= self._options.trigger_delay_ms
        if not waited and sum(end[key] - begin[key] for key in end) < least:
            return True
        self._last_trigger_ms = now_ms
        return False

    def _shape(self, start: Shape, since: Offsets, end: Offsets) -> Shape:
        """Return an end; the very start if that is the same, because Spark compares its text."""
        lower = [key for key, until in end.items() if until < since.get(key, 0)]
        for key in lower:
            if self._begun.get(key) != since[key]:
                self._losses.report(
                    "PARTITION_OFFSET_CHANGED",
                    f"partition {key[0]}-{key[1]} offset was changed from {since[key]} to "
                    f"{end[key]}: topic {key[0]} was deleted and created again since, its id is "
                    f"{self._members[key].where.topic.hex()}",
                )
                self._begun[key] = since[key]
        return start if end == since else encode_offsets(end)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        # There is no limit of two parts. Both are kept here, whichever of them Spark knows of.
        if self._options.offsets_max is not None:
            return ReadMaxRows(self._options.offsets_max)
        if self._options.offsets_min is not None:
            return ReadMinRows(self._options.offsets_min)
        return ReadAllAvailable()

    def reportLatestOffset(self) -> Shape | None:  # noqa: N802
        return encode_offsets(self._ends) if self._ends else None

    @told_plainly()
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._look()
        self._target = dict(self._ends)

    # ------------------------------------------------------------------------ batches

    @uncollected()
    @told_plainly()
    def partitions(self, start: Shape, end: Shape) -> Sequence[InputPartition]:
        since, until = decode_offsets(start), decode_offsets(end)
        if not self._members or any(until[key] > self._ends.get(key, 0) for key in until):
            self._look()
        gone = {key for key in until if key not in self._members}
        deleted = sorted(gone | (since.keys() - until.keys()))
        if deleted:
            names = ", ".join(f"{topic}-{partition}" for topic, partition in deleted)
            self._losses.report("PARTITIONS_DELETED", f"partitions {names} have been deleted")
        keys = [
            key
            for key in until
            if key in self._members and (self._is_new(key, since) or until[key] != since[key])
        ]
        extents = self.log.extents([self._members[key] for key in keys]) if keys else []
        ranges = {extent.member.key: self._range(extent, since, until) for extent in extents}
        return tasks_of(self.log, self._options, ranges, extents)

    def _range(self, extent: Extent, since: Offsets, until: Offsets) -> tuple[int, int]:
        key = extent.member.key
        if key not in since and extent.log_start:
            self._losses.report(
                "ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO",
                f"added partition {extent.member} starts from {extent.log_start} instead of 0",
            )
        start = extent.log_start if self._is_new(key, since) else since[key]
        return readable(extent, start, until[key], self._losses)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_live(partition, self._options, self._columns)
