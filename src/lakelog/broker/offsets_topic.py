"""A ``__consumer_offsets`` that is not there: what groups commit, as a topic that can be read.

    a look, every second     groups that have changed -> records -> the tail of a partition
    from the first fetch on  until a client asks for it nothing is kept, and it costs nothing

Tools like Burrow read this topic of Kafka's. Here groups are cells, so the topic is made up: it
begins with all that is committed when a client first asks for it, as a compacted topic would, and
goes on with every change. It is in memory only and of a bounded size. It cannot be written, and is
not listed: tools that read it know its name.

A partition has groups of every shard, because Kafka's hash of a group is not the one of shards. So
each partition is served by one broker, which reads the shards of the others: when they change, and
only as long as it is asked for the topic.

    offset 0 ... nothing, as where a topic was compacted ... the time at the first record, on and on

The first record's offset is the time, so that offsets never go back when a broker starts again: who
read before reads on. A partition without records ends at 0, because tools that wait until they have
read all know an empty one by that.
"""

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, NamedTuple, cast

from kio.schema.errors import ErrorCode

from lakelog.broker.catalog import Catalog
from lakelog.broker.coordinator import Coordinator
from lakelog.broker.lanes import LaneWriter
from lakelog.broker.looks import SharedLook
from lakelog.broker.metrics.counters import TopicCounters
from lakelog.broker.offset_records import (
    group_key,
    group_value,
    offset_key,
    offset_value,
    partition_of_group,
)
from lakelog.broker.partitions import Partition
from lakelog.broker.scans import RunScan
from lakelog.broker.supervision import Supervisor
from lakelog.broker.topic_entry import Entry, LaneLeaders
from lakelog.broker.watches import Watch, Watches
from lakelog.catalog import Topic
from lakelog.errors import LakelogError
from lakelog.formats import Bytes
from lakelog.groups import Committed, Durable, Roster, TopicIdPartition
from lakelog.journal import ProducerState
from lakelog.log import Bounds, Found
from lakelog.model import Record
from lakelog.ports import Clock
from lakelog.records import NewBatch, encode_batch
from lakelog.wire import FetchedPartition, MetadataPartition

__all__ = ["OFFSETS_TOPIC", "OffsetsTopic"]

OFFSETS_TOPIC = "__consumer_offsets"
PARTITIONS = 50
"""As many as Kafka has, so that a group is in the partition where a tool looks for it."""

TAIL_BYTES_MAX = 1 << 20
"""Of each partition; older batches go."""

RECORDS_MAX = 1_000
"""In a batch."""

OFFSETS_A_MS = 1_000
"""More changes than so many in a millisecond would let offsets run ahead of the time."""

Row = tuple[bytes, bytes | None]


class _Batch(NamedTuple):
    base: int
    """Its first offset."""
    time_ms: int
    body: bytes


class _Tail:
    """The batches of one partition, and the fetches that wait for more."""

    def __init__(self, tasks: Supervisor, look: SharedLook) -> None:
        self._look = look
        self.batches: list[_Batch] = []
        self.start = self.end = 0
        self.size_bytes = 0
        self._watches = Watches(tasks)

    def add(self, rows: list[Row], now_ms: int) -> None:
        """Append one batch, and wake fetches that wait."""
        self.end = self.end or now_ms * OFFSETS_A_MS
        records = [
            Record(offset=self.end + at, timestamp=now_ms, key=key, value=value)
            for at, (key, value) in enumerate(rows)
        ]
        body = encode_batch(NewBatch(records=records))
        self.batches.append(_Batch(self.end, now_ms, body))
        self.end += len(rows)
        self.size_bytes += len(body)
        while self.size_bytes > TAIL_BYTES_MAX and len(self.batches) > 1:
            self.size_bytes -= len(self.batches.pop(0).body)
            self.start = self.batches[0].base
        self._wake()

    # What a fetch asks of a lane.

    def watch(self, watch: Watch) -> None:
        """Call it when there is more."""
        self._watches.add(watch)
        if watch.offset < self.end:
            asyncio.get_running_loop().call_soon(self._wake)

    def _wake(self) -> None:
        self._watches.wake(lambda _: self.end)

    def forget(self, watch: Watch) -> None:
        """Call it no more."""
        self._watches.forget(watch)

    async def refresh(self) -> None:
        """Look at what groups have committed."""
        await self._look.take()


class _TailPartition(Partition):
    """A partition that is read from a tail."""

    __slots__ = ("_tail",)

    def __init__(self, topic: Topic, index: int, tail: _Tail) -> None:
        self.topic, self.index, self.topic_id_partition = topic, index, (topic.id, index)
        self._tail = tail
        self.lane = cast("LaneWriter", tail)
        self.lane_number = -1
        self.stamped_ms = 0

    @property
    def log_start(self) -> int:
        return self._tail.start

    @property
    def sealed_bytes(self) -> int | None:
        return self._tail.size_bytes

    def read_now(self, offset: int, most: int) -> FetchedPartition | None:
        tail = self._tail
        if not tail.start <= offset <= tail.end:
            return None
        pieces: list[Bytes] = []
        size = 0
        if offset < tail.end:
            first = bisect_right(tail.batches, offset, key=attrgetter("base")) - 1
            for _, _, body in tail.batches[max(0, first) :]:
                if pieces and size + len(body) > most:
                    break
                pieces.append(body)
                size += len(body)
        return FetchedPartition(self.index, ErrorCode.none, tail.end, tail.start, pieces, size)

    async def read(self, offset: int, most: int) -> FetchedPartition:
        await self._tail.refresh()
        found, code = self.read_now(offset, most), ErrorCode.offset_out_of_range
        return found or FetchedPartition(self.index, code, self._tail.end, self._tail.start)

    def marks(self) -> FetchedPartition:
        return FetchedPartition(self.index, ErrorCode.none, self._tail.end, self._tail.start)

    def is_at_end(self, offset: int) -> bool:
        return offset == self._tail.end

    async def bounds(self) -> Bounds:
        return Bounds(self._tail.start, self._tail.end)

    async def latest(self) -> int:
        return self._tail.end

    async def sealed_end(self) -> int:
        return self._tail.start

    async def size_bytes(self) -> int:
        return self._tail.size_bytes

    def producers(self) -> dict[int, ProducerState]:
        return {}  # Nobody can write it.

    async def find(self, timestamp: int, run_scan: RunScan) -> Found | None:  # noqa: ARG002
        found = (one for one in self._tail.batches if one.time_ms >= timestamp)
        return next((Found(one.base, one.time_ms) for one in found), None)

    async def find_newest(self, run_scan: RunScan) -> Found | None:  # noqa: ARG002
        batches = self._tail.batches
        return Found(batches[-1].base, batches[-1].time_ms) if batches else None


class OffsetsTopic(Entry):
    """The topic. A catalog hands it out; ``watch`` keeps it up."""

    is_virtual = True

    def __init__(
        self,
        catalog: Catalog,
        coordinator: Coordinator,
        clock: Clock,
        topic_id: bytes,
        tasks: Supervisor,
    ) -> None:
        topic = Topic(
            name=OFFSETS_TOPIC,
            id=topic_id,
            partitions=PARTITIONS,
            lanes=1,
            configs={"cleanup.policy": "compact"},
        )
        super().__init__(topic, TopicCounters(), self._open)
        self._catalog = catalog
        self._coordinator, self._clock, self._tasks = coordinator, clock, tasks
        self._tails: list[_Tail] = []
        self._look = SharedLook(self.look)
        self._offsets: dict[str, Mapping[TopicIdPartition, Committed]] = {}
        self._rosters: dict[str, Roster] = {}

    def _open(self, topic: Topic, index: int) -> Partition:
        """Return a partition; the first question makes them."""
        if not self._tails:
            self._tails = [_Tail(self._tasks, self._look) for _ in range(PARTITIONS)]
        return _TailPartition(topic, index, self._tails[index])

    def leaders(self, lanes: LaneLeaders) -> list[MetadataPartition]:  # noqa: ARG002
        """Return who serves each of its partitions."""
        cluster = self._catalog.cluster
        nodes = (cluster.owner("offsets", index, PARTITIONS) for index in range(PARTITIONS))
        # No epoch: clients believe whoever is named last.
        return [MetadataPartition(node, -1, (node,)) for node in nodes]

    async def watch(self) -> None:
        """Look, once a client has asked. Called every second."""
        if self._tails:
            await self._look.take()

    async def look(self) -> None:
        """Append what has changed since the last look."""
        try:
            groups = await self._coordinator.stored_groups()
        except LakelogError:
            return  # They are being loaded, or the store does not answer: what is known stays.
        rows: dict[int, list[Row]] = {}
        for name, stored in groups.items():
            mine = rows.setdefault(partition_of_group(name, PARTITIONS), [])
            roster = stored.roster if isinstance(stored, Durable) else None
            if roster is not None and roster != self._rosters.get(name):
                self._rosters[name] = roster
                mine.append((group_key(name), group_value(roster)))
            self._compare(name, stored.offsets.rows, mine.append)
        for name in self._offsets.keys() - groups.keys():
            mine = rows.setdefault(partition_of_group(name, PARTITIONS), [])
            self._compare(name, {}, mine.append)
            del self._offsets[name]
            if self._rosters.pop(name, None) is not None:
                mine.append((group_key(name), None))
        now_ms = self._clock.now_ms()
        for index, some in rows.items():
            for at in range(0, len(some), RECORDS_MAX):
                self._tails[index].add(some[at : at + RECORDS_MAX], now_ms)

    def _compare(
        self, group: str, now: Mapping[TopicIdPartition, Committed], add: Callable[[Row], Any]
    ) -> None:
        before = self._offsets.get(group, {})
        if now is before:
            return  # Tables are values: the same one says the same.
        self._offsets[group] = now
        changed = [one for one, row in now.items() if before.get(one) != row]
        for one in (*changed, *(before.keys() - now.keys())):
            topic = self._catalog.by_id(one.topic_id)
            if topic is not None:
                value = offset_value(now[one]) if one in now else None
                add((offset_key(group, topic.name, one.partition), value))
