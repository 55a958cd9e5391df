"""How far groups are behind, in records, in bytes and in seconds.

    records   the end of the partition, less what was committed
    bytes     about: records, times the mean size of what this broker took for the topic
    seconds   the age of the first record that was not read yet

Ages come from timelines (``offset_timeline``), which cost nothing. What was written before this
broker began to look is read from the store: one batch for each offset that a group stands at, a few
in a second, and kept for as long as it stands there. So a broker that has just started says nothing
of a lag rather than zero.

The broker that coordinates a group need not lead what the group reads. Where such a lane ends is
read from the store now and then, and only while a group here has committed for it.
"""

import asyncio
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from lakelog.broker.metrics.offset_timeline import OffsetTimeline
from lakelog.broker.services import Services
from lakelog.broker.turns import in_turns
from lakelog.errors import LakelogError
from lakelog.journal import TopicIdPartition
from lakelog.records import HEADER_BYTES, decode_header

__all__ = ["Lag", "Lags"]

LAGS_MAX = 10_000
LOOKED_MAX = 50_000
"""Rows that are looked at in a second, those of topics that are gone included."""
AT_ONCE = 500
"""Rows that are looked at in a turn of the loop."""

ELSEWHERE_MS = 30_000
"""How often lanes are looked at that other brokers lead. Each bundle there is a request more."""

READS_MAX = 8
"""Offsets whose time is read from the store in a turn."""


class Lag(NamedTuple):
    """A group in a partition."""

    group: str
    topic: str
    partition: int
    committed: int
    records: int
    size_bytes: float | None
    """None: nothing was written here yet, so that the size of a record is not known."""
    seconds: float | None
    """None: it is being found out."""


class _GroupPosition(NamedTuple):
    """Where a group stands."""

    group: str
    topic: str
    partition: TopicIdPartition
    offset: int
    end: int


class Lags:
    """What is known of the lags of all groups. ``look``, every second, keeps it up."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._timelines: dict[TopicIdPartition, OffsetTimeline] = {}
        self._positions: tuple[_GroupPosition, ...] = ()
        """Where groups stood when they were looked at last."""
        self._read: dict[tuple[TopicIdPartition, int], int] = {}
        """Times that were read from the store, in milliseconds."""
        self._elsewhere: dict[int, int | None] = {}
        """The lanes that others lead and groups here read, and when each was looked at."""

    async def look(self) -> None:
        """Take down where partitions end, and read a few times that are missing."""
        now_ms = self._services.clock.now_ms()
        positions: list[_GroupPosition] = []
        timelines: dict[TopicIdPartition, OffsetTimeline] = {}
        elsewhere: set[int] = set()
        async for one in in_turns(islice(self._looked_at(elsewhere), LOOKED_MAX), AT_ONCE):
            if one is None:
                continue
            positions.append(one)
            if one.partition not in timelines:
                timeline = self._timelines.get(one.partition) or OffsetTimeline()
                timelines[one.partition] = timeline
                timeline.note(one.end, now_ms)
            if len(positions) == LAGS_MAX:
                break
        self._timelines, self._positions = timelines, tuple(positions)
        wanted = {(one.partition, one.offset): one for one in positions if one.offset < one.end}
        self._read = {key: time for key, time in self._read.items() if key in wanted}
        missing = [
            (key, one)
            for key, one in wanted.items()
            if key not in self._read and timelines[one.partition].when(one.offset) is None
        ]
        for key, one in missing[:READS_MAX]:
            time_ms = await self._time(one)
            if time_ms is not None:
                self._read[key] = time_ms
        await self._look_at(elsewhere)

    async def _look_at(self, elsewhere: set[int]) -> None:
        """See where lanes end that other brokers lead, if it is time: for the next look."""
        boot_ms = self._services.clock.boot_ms()
        looked = {lane: self._elsewhere.get(lane) for lane in elsewhere}
        due = [lane for lane, at in looked.items() if at is None or boot_ms - at >= ELSEWHERE_MS]
        self._elsewhere = {lane: boot_ms if lane in due else at for lane, at in looked.items()}
        # One that does not answer has told so itself, and is asked again in its turn.
        looks = (self._services.lanes[lane].refresh() for lane in due)
        await asyncio.gather(*looks, return_exceptions=True)

    def rows(self) -> Iterator[Lag]:
        """Yield every group in every partition that it has committed for, as it was last seen."""
        now_ms = self._services.clock.now_ms()
        for one in self._positions:
            behind = max(one.end - one.offset, 0)
            size: float | None = 0.0
            counters = self._services.metrics.topics.get(one.topic)
            if behind and counters is not None and counters.messages_in:
                size = behind * counters.bytes_in / counters.messages_in
            elif behind:
                size = None
            seconds = self._seconds(one, now_ms) if behind else 0.0
            index = one.partition[1]
            yield Lag(one.group, one.topic, index, one.offset, behind, size, seconds)

    def _seconds(self, one: _GroupPosition, now_ms: int) -> float | None:
        timeline = self._timelines.get(one.partition)
        time_ms = None if timeline is None else timeline.when(one.offset)
        if time_ms is None:
            time_ms = self._read.get((one.partition, one.offset))
        return None if time_ms is None or time_ms < 0 else max(now_ms - time_ms, 0) / 1000

    def _looked_at(self, elsewhere: set[int]) -> Iterator[_GroupPosition | None]:
        """Yield something for every row that is looked at; None: no group can lag there.

        Lanes among them that other brokers lead are added to a set.
        """
        services = self._services
        for group, offsets in services.coordinator.stored_offsets():
            yield None  # A group without offsets takes time as well.
            # A table is a value: what is committed meanwhile makes another one.
            for (topic_id, index), row in offsets.rows.items():
                topic = services.catalog.by_id(topic_id)
                if topic is None or index >= topic.partitions or row.offset < 0:
                    yield None
                    continue
                partition, lane = (topic_id, index), topic.lane(index)
                if not services.cluster.leads(lane):
                    elsewhere.add(lane)
                end = services.lanes[lane].end(partition)
                at = group, topic.name, partition, row.offset
                yield None if end is None else _GroupPosition(*at, end)

    async def _time(self, position: _GroupPosition) -> int | None:
        """Return the time of the first batch at or behind an offset; None: there was no answer."""
        topic_id, index = position.partition
        entry = self._services.catalog.known_id(topic_id)
        partition = None if entry is None else entry.partition(index)
        if partition is None:
            return None
        try:
            log_start = (await partition.bounds()).log_start
            part = await partition.read(max(position.offset, log_start), 1)
            head = b"".join(bytes(piece[:HEADER_BYTES]) for piece in part.pieces[:2])
            if len(head) < HEADER_BYTES:
                return None
            return decode_header(head[:HEADER_BYTES]).base_timestamp
        except LakelogError:
            return None
