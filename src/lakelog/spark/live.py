"""The reader behind ``format("lakelog")`` on a namespace: the log as it is now, to its last record.

    driver      topics; one look at each lane; manifests; start and end of each partition: fixed
                from here on. Segments and slices -> shares, by bytes
    executors   each its share: where it lay when it was planned, or wherever it lies by now

No broker takes part, and none is asked: a record that was acknowledged is in the bucket.

There is no ``pushFilters``, on purpose. What one query pushes, Spark 4.3 leaves in the reader for
every other query of the same frame, which then misses rows (decision 18).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from lakelog.errors import InvalidInputError
from lakelog.history import Place
from lakelog.host import SystemClock, new_id
from lakelog.journal import Lane
from lakelog.log import (
    Extent,
    Found,
    Member,
    Share,
    Span,
    Survey,
    offset_at,
    open_survey,
    plan_shares,
    refresh,
    sealed_spans,
    unsealed_spans,
)
from lakelog.model import Rules
from lakelog.spark.driving import Driver
from lakelog.spark.options import ReadOptions
from lakelog.spark.ranges import (
    Key,
    Losses,
    check_named,
    check_order,
    no_time,
    place_at,
    readable,
)
from lakelog.spark.telling import told_plainly
from lakelog.spark.worker import settle, uncollected
from lakelog.store import Perform, StoreSpec, Work, retrying

__all__ = ["LiveLog", "LiveReader", "SharePartition", "read_live"]


class SharePartition(InputPartition):
    """One task: what it reads, and the rules of the namespace."""

    def __init__(self, share: Share, rules: Rules) -> None:
        super().__init__(share)
        self.share, self.rules = share, rules


class LiveLog:
    """A namespace as one process of the driver knows it, and the flows about it, driven."""

    def __init__(self, options: ReadOptions, perform: Perform | None = None) -> None:
        self.options = options
        if perform is None:
            store = StoreSpec(options.path, dict(options.store_options)).open()
            perform = retrying(store.perform)
        self._driver = Driver(perform)
        self.survey: Survey = self._driver.run(open_survey(SystemClock(), new_id))

    def members(self, *, missing_ok: bool = False) -> list[Member]:
        """Return the partitions that are wanted, as topics have them now.

        Raises:
            NotFoundError: a topic that is named is not there.
            InvalidInputError: it is there with another id than it should have.
        """
        flow = self.survey.members(self.options.selection, missing_ok=missing_ok)
        members = self._driver.run(flow)
        for member in members:
            id_ = self.options.topic_ids.get(member.topic)
            if id_ is not None and id_ != member.where.topic.hex():
                raise InvalidInputError(
                    f"topic {member.topic} has the id {member.where.topic.hex()}, not {id_}: it "
                    "was deleted and created again. Begin a new query, with this id in topicIds"
                )
        return members

    def look(self, members: Iterable[Member]) -> None:
        """Know the lanes of some partitions to their ends."""
        lanes = sorted({member.lane for member in members})
        self._driver.run_all([self.survey.look(lane) for lane in lanes])

    def extents(self, members: Sequence[Member]) -> list[Extent]:
        """Return where partitions begin and end; their lanes have been looked at."""
        return self._driver.run(self.survey.extents(members))

    def find(self, place: Place, extents: Sequence[Extent], option: str) -> dict[Key, int]:
        """Return the offset that a place means in each partition.

        Raises:
            InvalidInputError: not all partitions are named, or no record is as late.
        """
        check_named(place, [extent.member.key for extent in extents], option)
        times = {
            extent.member: timestamp
            for extent in extents
            if (timestamp := place.time_in(extent.member.key)) is not None
        }
        if not times:
            return {extent.member.key: place_at(place, extent) for extent in extents}
        found = self._offsets_at(times)
        offsets: dict[Key, int] = {}
        for extent in extents:
            if extent.member not in times:
                offsets[extent.member.key] = place_at(place, extent)
                continue
            record = found[extent.member.key]
            if record is None and not place.or_latest:
                raise no_time(extent.member.key, times[extent.member])
            # It may have been appended since; the end is where it was.
            offset = extent.end if record is None else min(record.offset, extent.end)
            offsets[extent.member.key] = offset
        return offsets

    def _offsets_at(self, times: Mapping[Member, int]) -> dict[Key, Found | None]:
        lanes: dict[int, list[tuple[Member, int]]] = {}
        for member, timestamp in times.items():
            lanes.setdefault(member.lane, []).append((member, timestamp))
        found: dict[Key, Found | None] = {}
        for some in self._driver.run_all([self._in_lane(lane, of) for lane, of in lanes.items()]):
            found |= some
        return found

    def _in_lane(
        self, number: int, times: Iterable[tuple[Member, int]]
    ) -> Work[dict[Key, Found | None]]:
        lane, found = self.survey.lane(number), {}
        again = lane.notes["read again"]

        def catch_up(lane: Lane) -> Work[None]:
            # It was looked at for all partitions at once; only if it moved on, it is once more.
            if not lane.is_sure or lane.notes["read again"] > again:
                yield from refresh(lane)

        for member, timestamp in times:
            found[member.key] = yield from offset_at(lane, member.where, timestamp, catch_up)
        return found

    def shares(
        self, ranges: Mapping[Key, tuple[int, int]], extents: Iterable[Extent]
    ) -> list[Share]:
        """Return the tasks that read a range of each partition."""
        spans: list[Span] = []
        lanes: dict[int, dict[Member, tuple[int, int]]] = {}
        for extent in extents:
            member = extent.member
            low, high = ranges[member.key]
            if low < high:
                spans += sealed_spans(extent, low, min(high, extent.sealed_end))
            if max(low, extent.sealed_end) < high:
                lanes.setdefault(member.lane, {})[member] = max(low, extent.sealed_end), high
        flows = [
            unsealed_spans(self.survey.lane(lane), wanted) for lane, wanted in sorted(lanes.items())
        ]
        for found in self._driver.run_all(flows) if flows else ():
            spans += found
        return plan_shares(
            spans,
            split_bytes=self.options.split_bytes,
            shares_min=self.options.min_partitions,
            offsets_max=self.options.records_max,
        )


def read_live(
    partition: InputPartition, options: ReadOptions, columns: tuple[str, ...]
) -> Iterator[pa.RecordBatch]:
    """Read one task, on an executor."""
    # Spark asks even where there is nothing to read, with a partition of its own.
    if not isinstance(partition, SharePartition):
        return
    # Compiled: loaded where something is read, and not by every process that plans.
    from lakelog.log.rows import read_share

    settle()
    store = StoreSpec(options.path, dict(options.store_options)).open()
    survey = Survey(rules=partition.rules, clock=SystemClock(), ids=new_id)
    reads = read_share(
        partition.share, survey.lane, columns, may_lose=not options.fail_on_data_loss
    )
    yield from Driver(retrying(store.perform)).batches(reads)


class LiveReader(DataSourceReader):
    """A batch read: plans on the driver, reads on the executors."""

    def __init__(self, options: ReadOptions, columns: tuple[str, ...]) -> None:
        self._options, self._columns = options, columns

    @told_plainly()
    @uncollected()
    def partitions(self) -> list[InputPartition]:
        options = self._options
        log, losses = LiveLog(options), Losses(fail=options.fail_on_data_loss)
        members = log.members()
        log.look(members)
        extents = log.extents(members)
        starts = log.find(options.starting, extents, "startingOffsets")
        ends = log.find(options.ending, extents, "endingOffsets")
        ranges: dict[Key, tuple[int, int]] = {}
        for extent in extents:
            key = extent.member.key
            check_order(extent, starts[key], ends[key])
            ranges[key] = readable(extent, starts[key], ends[key], losses)
        return [SharePartition(share, log.survey.rules) for share in log.shares(ranges, extents)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_live(partition, self._options, self._columns)
