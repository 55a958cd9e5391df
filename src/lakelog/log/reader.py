"""A namespace as a reader of many partitions knows it: its flows, driven to their ends.

    partitions   of the topics that are wanted, as they are now
    look         one look at each of their lanes; manifests second
    ranges       start and end of each partition: fixed from here on
    tasks        segments and slices of these ranges -> tasks, by bytes

Spark's source plans with it in a process of the driver, ``lakelog.scan`` in yours. No broker takes
part, and none is asked: a record that was acknowledged is in the bucket.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from lakelog.errors import InvalidInputError
from lakelog.flows import items_of
from lakelog.journal import Lane
from lakelog.log.located import (
    LocatedRange,
    TaskRanges,
    plan_read_tasks,
    sealed_ranges,
    unsealed_ranges,
)
from lakelog.log.offset_options import (
    Key,
    Losses,
    check_named,
    check_order,
    readable,
)
from lakelog.log.read import refresh
from lakelog.log.survey import Extent, PartitionRef, Survey, open_survey
from lakelog.log.times import Found, offset_at
from lakelog.ports import Clock, Ids
from lakelog.segments import SPLIT_BYTES, OffsetSpec, Selection, no_record_at
from lakelog.store import WORK, Perform, Work, run, run_by_threads, working_by_threads

if TYPE_CHECKING:
    import pyarrow as pa

    from lakelog.log.rows import Reads

__all__ = ["Driver", "NamespaceReader"]

T = TypeVar("T")


class Driver:
    """Runs flows by threads, in a process that reads the log; those that give Arrow, too."""

    def __init__(self, perform: Perform) -> None:
        self._work = working_by_threads(perform)

    def run(self, flow: Work[T]) -> T:
        """Run one flow to its end."""
        return run(flow, self._work)

    def run_all(self, flows: Sequence[Work[T]]) -> list[T]:
        """Run flows side by side, and return what they return, in their order."""
        return run_by_threads(flows, self._work)

    def batches(self, reads: "Reads") -> "Iterator[pa.RecordBatch]":
        """Run a flow that gives Arrow batches on its way."""
        return items_of(reads, WORK, self._work)


class NamespaceReader:
    """What one process knows of a namespace, and the flows about it, driven.

    ``perform`` tries again what was not answered, as ``retrying`` makes it.
    """

    def __init__(self, perform: Perform, clock: Clock, ids: Ids) -> None:
        self._driver = Driver(perform)
        self.survey: Survey = self._driver.run(open_survey(clock, ids))

    def members(
        self,
        selection: Selection,
        *,
        topic_ids: Mapping[str, str] | None = None,
        missing_ok: bool = False,
    ) -> list[PartitionRef]:
        """Return the partitions that are wanted, as topics have them now.

        Raises:
            NotFoundError: a topic that is named is not there.
            InvalidInputError: it is there with another id than ``topic_ids`` say.
        """
        flow = self.survey.members(selection, missing_ok=missing_ok)
        members = self._driver.run(flow)
        for member in members:
            id_ = (topic_ids or {}).get(member.topic)
            if id_ is not None and id_ != member.where.topic.hex():
                raise InvalidInputError(
                    f"topic {member.topic} has the id {member.where.topic.hex()}, not {id_}: it "
                    "was deleted and created again. Begin a new query, with this id in topicIds"
                )
        return members

    def look(self, members: Iterable[PartitionRef]) -> None:
        """Know the lanes of some partitions to their ends."""
        lanes = sorted({member.lane for member in members})
        self._driver.run_all([self.survey.look(lane) for lane in lanes])

    def extents(self, members: Sequence[PartitionRef]) -> list[Extent]:
        """Return where partitions begin and end; their lanes have been looked at."""
        return self._driver.run(self.survey.extents(members))

    def look_at(
        self, selection: Selection, topic_ids: Mapping[str, str] | None = None
    ) -> list[Extent]:
        """Return where the partitions that are wanted begin and end now."""
        members = self.members(selection, topic_ids=topic_ids)
        self.look(members)
        return self.extents(members)

    def find(self, spec: OffsetSpec, extents: Sequence[Extent], option: str) -> dict[Key, int]:
        """Return the offset that is meant in each partition.

        Raises:
            InvalidInputError: not all partitions are named, or no record is as late.
        """
        check_named(spec, [extent.member.key for extent in extents], option)
        times = {
            extent.member: timestamp
            for extent in extents
            if (timestamp := spec.time_in(extent.member.key)) is not None
        }
        found = self._offsets_at(times)
        offsets: dict[Key, int] = {}
        for extent in extents:
            key, first, end = extent.member.key, extent.log_start, extent.end
            if extent.member not in times:
                offsets[key] = spec.offset_in(key, earliest=first, latest=end)
                continue
            record = found[key]
            if record is None and not spec.or_latest:
                raise no_record_at(key, times[extent.member])
            # It may have been appended since; the end is where it was.
            offsets[key] = end if record is None else min(record.offset, end)
        return offsets

    def _offsets_at(self, times: Mapping[PartitionRef, int]) -> dict[Key, Found | None]:
        lanes: dict[int, list[tuple[PartitionRef, int]]] = {}
        for member, timestamp in times.items():
            lanes.setdefault(member.lane, []).append((member, timestamp))
        found: dict[Key, Found | None] = {}
        for some in self._driver.run_all([self._in_lane(lane, of) for lane, of in lanes.items()]):
            found |= some
        return found

    def _in_lane(
        self, number: int, times: Iterable[tuple[PartitionRef, int]]
    ) -> Work[dict[Key, Found | None]]:
        lane, found = self.survey.lane(number), {}
        moves = lane.moves

        def catch_up(lane: Lane) -> Work[None]:
            # It was looked at for all partitions at once; only if it moved on, it is once more.
            if not lane.is_sure or lane.moves > moves:
                yield from refresh(lane)

        for member, timestamp in times:
            found[member.key] = yield from offset_at(lane, member.where, timestamp, catch_up)
        return found

    def ranges(
        self, extents: Sequence[Extent], starting: OffsetSpec, ending: OffsetSpec, losses: Losses
    ) -> dict[Key, tuple[int, int]]:
        """Return the offsets of each partition between two offsets, as far as they are there.

        Raises:
            InvalidInputError: the offsets cannot be understood, or are in the wrong order.
            NotFoundError: some of it is gone, and that is to be an error.
        """
        starts = self.find(starting, extents, "startingOffsets")
        ends = self.find(ending, extents, "endingOffsets")
        found: dict[Key, tuple[int, int]] = {}
        for extent in extents:
            key = extent.member.key
            check_order(extent, starts[key], ends[key])
            found[key] = readable(extent, starts[key], ends[key], losses)
        return found

    def tasks(
        self,
        ranges: Mapping[Key, tuple[int, int]],
        extents: Iterable[Extent],
        *,
        split_bytes: int = SPLIT_BYTES,
        tasks_min: int = 1,
        offsets_max: int | None = None,
    ) -> list[TaskRanges]:
        """Return the tasks that read a range of each partition."""
        located: list[LocatedRange] = []
        lanes: dict[int, dict[PartitionRef, tuple[int, int]]] = {}
        for extent in extents:
            member = extent.member
            low, high = ranges[member.key]
            if low < high:
                located += sealed_ranges(extent, low, min(high, extent.sealed_end))
            if max(low, extent.sealed_end) < high:
                lanes.setdefault(member.lane, {})[member] = max(low, extent.sealed_end), high
        flows = [
            unsealed_ranges(self.survey.lane(lane), wanted)
            for lane, wanted in sorted(lanes.items())
        ]
        for found in self._driver.run_all(flows) if flows else ():
            located += found
        return plan_read_tasks(
            located,
            split_bytes=split_bytes,
            tasks_min=tasks_min,
            offsets_max=offsets_max,
        )
