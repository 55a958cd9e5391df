"""Which partitions of a fetch are read here, and what is answered for the others.

    led here        it is read
    near by         another broker leads it, and this one reads it for consumers of its rack
    led elsewhere   NOT_LEADER_OR_FOLLOWER, with the leader
    not there       unknown, after asking the store
    not allowed     TOPIC_AUTHORIZATION_FAILED, before anybody is asked whether it is there

Each topic and each lane is asked for once, however many partitions a fetch names.
"""

from kio.schema.errors import ErrorCode

from lakelog.broker.codes import read_code
from lakelog.broker.partitions import Partition
from lakelog.broker.request_items import find_entry, find_partition
from lakelog.broker.services import Call, Services
from lakelog.broker.sessions import Wanted
from lakelog.broker.topic_entry import Entry
from lakelog.errors import LakelogError
from lakelog.security import Operation
from lakelog.wire import CurrentLeader, FetchedPartition

__all__ = ["PartitionFinder"]

_DENIED = ErrorCode.topic_authorization_failed
_UNKNOWN, _NOT_LED = ErrorCode.unknown_topic_or_partition, ErrorCode.not_leader_or_follower


class PartitionFinder:
    """Finds the partitions of one fetch."""

    def __init__(self, services: Services, rack: str, call: Call) -> None:
        self._services, self._rack, self._call = services, rack, call
        self._judges = call.rules is not None
        self.verdicts: dict[str, bool] = {}
        """Which topics may be read, as far as it has been asked."""
        self._topics: dict[tuple[str, bytes], Entry | None] = {}
        self._leaders: dict[int, CurrentLeader | None] = {}

    def known(self, one: Wanted) -> Partition | FetchedPartition | None:
        """Return a partition that is read here, or the broker that stands nearer to who asks; None:
        others must be asked.
        """
        entry = self._services.catalog.entry(one.name, one.id)
        if self._judges:
            name = one.name if entry is None else entry.topic.name
            if not self.verdicts.get(name) and not self._may(name):
                return FetchedPartition(one.partition.partition, _DENIED)
        partition = None if entry is None else entry.partition(one.partition.partition)
        cluster = self._services.cluster
        if partition is None or not cluster.leads(partition.lane_number):
            return None
        reader = cluster.reader_in(partition.lane_number, self._rack)
        return partition if reader < 0 else partition.marks()._replace(preferred_replica=reader)

    def _may(self, name: str) -> bool:
        """Say whether a topic may be read. One that comes by its id has no name, and is judged when
        it is known.
        """
        if not name:
            return True
        verdict = self.verdicts[name] = self._call.may_topic(Operation.READ, name)
        return verdict

    async def _topic(self, one: Wanted) -> Entry | None:
        """Return the topic of a partition; None: there is none.

        Raises:
            LakelogError: the store did not say.
        """
        key = one.name, one.id
        if key not in self._topics:
            self._topics[key] = await find_entry(self._services, self._call, *key)
        return self._topics[key]

    async def find(self, one: Wanted) -> Partition | FetchedPartition:
        """Return a partition that is read here; or what is answered for one that is not."""
        cluster, index = self._services.cluster, one.partition.partition
        try:
            entry = await self._topic(one)
            if self._judges and not self._may(one.name if entry is None else entry.topic.name):
                return FetchedPartition(index, _DENIED)
            partition = (
                None if entry is None else await find_partition(self._services, entry, index)
            )
            if partition is None:
                is_by_id = entry is None and bool(one.id)
                unknown = ErrorCode.unknown_topic_id if is_by_id else _UNKNOWN
                return FetchedPartition(index, unknown)
            lane = partition.lane_number
            if cluster.leads(lane):
                return partition
            if cluster.reads(lane, self._rack):
                # What another broker appends is not in this memory: whether there is more is looked
                # up.
                await partition.lane.refresh()
                return partition
        except LakelogError as error:
            return FetchedPartition(index, read_code(error))
        if lane not in self._leaders:
            self._leaders[lane] = await cluster.current_leader(lane)
        return FetchedPartition(index, _NOT_LED, leader=self._leaders[lane])
