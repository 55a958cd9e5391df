"""A topic that a broker knows: its partitions, its counters, and its place in Metadata responses.

The bytes of a topic in a Metadata response are kept: with thousands of partitions they take longer
to make than everything else in a request.
"""

from collections import Counter
from collections.abc import Callable, Collection

from lakelog.broker.metrics.counters import TopicCounters
from lakelog.broker.partitions import Partition
from lakelog.catalog import Topic, TopicConfigs
from lakelog.wire import MetadataPartition, encode_metadata_topic

__all__ = ["Entry", "LaneLeaders"]

OpenPartition = Callable[[Topic, int], Partition]
LaneLeaders = tuple[MetadataPartition, ...]
"""Who leads each lane, as its partitions stand in a Metadata response."""


class Entry:
    """A topic, and what a broker has of it."""

    is_virtual = False
    """Whether it can only be read, and is in no store."""

    __slots__ = (
        "_lane_counts", "_leaders", "_metadata", "_open_partition", "_partitions", "configs",
        "counters", "topic",
    )  # fmt: skip

    def __init__(self, topic: Topic, counters: TopicCounters, open_: OpenPartition) -> None:
        self.counters, self._open_partition = counters, open_
        self._partitions: dict[int, Partition] = {}
        self._metadata: dict[int, tuple[list[MetadataPartition], bytes]] = {}
        self._describe(topic)

    def _describe(self, topic: Topic) -> None:
        self.topic = topic
        self.configs = TopicConfigs.of(topic.configs)
        self._lane_counts = Counter(topic.lanes_of_all())
        self._leaders: tuple[LaneLeaders, list[MetadataPartition]] = ((), [])
        self._metadata.clear()

    def change(self, topic: Topic) -> None:
        """Take in what has become of it. Its partitions stay: requests may hold their locks."""
        if topic.partitions < self.topic.partitions:
            return  # Read before it grew: there are never fewer.
        self._describe(topic)
        for partition in self._partitions.values():
            partition.topic = topic

    def partition(self, index: int) -> Partition | None:
        """Return a partition; None: it has no such one."""
        found = self._partitions.get(index)
        if found is None and 0 <= index < self.topic.partitions:
            found = self._partitions[index] = self._open_partition(self.topic, index)
        return found

    def leaders(self, lanes: LaneLeaders) -> list[MetadataPartition]:
        """Return who leads each of its partitions."""
        if self._leaders[0] is not lanes:
            self._leaders = lanes, [lanes[one] for one in self.topic.lanes_of_all()]
        return self._leaders[1]

    def count_on(self, lanes: Collection[int]) -> int:
        """Return how many of its partitions are on some lanes."""
        return sum(self._lane_counts[lane] for lane in lanes)

    def metadata(self, version: int, lanes: LaneLeaders) -> bytes:
        """Return it as it stands in a Metadata response, with the leaders of the lanes."""
        kept, leaders = self._metadata.get(version), self.leaders(lanes)
        if kept is not None and kept[0] == leaders:
            return kept[1]
        topic = self.topic
        made = encode_metadata_topic(
            version,
            name=topic.name,
            topic_id=topic.id,
            partitions=leaders,
            is_internal=self.is_virtual,
        )
        self._metadata[version] = leaders, made
        return made
