"""What was done through one broker, asked of another at once: how often is the answer an old one?

    pairs      a record is produced to the leader; another broker is asked where the log ends
    hops       a consumer that stands at the end goes from broker to broker: OFFSET_OUT_OF_RANGE is
               false, wherever it is told
    created    a topic is made through one broker and used through another
    grown      it gets a partition, which is used through another one
    anew       it is deleted and made again, and used through another one

Three brokers on SeaweedFS, as they come but for flushes of 5 ms. A broker that does not lead says
so, and then the one that it names is asked: that is a right answer. False is one that was true
before: an end before what was acknowledged, "unknown" of what is there. The figure is how many
answers were right, of all: every one must be.
"""

import queue
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import Any

from kio.schema.create_partitions.v3.request import CreatePartitionsTopic
from kio.schema.create_topics.v5.request import CreatableTopic
from kio.schema.errors import ErrorCode
from kio.schema.fetch.v12.request import FetchPartition, FetchTopic
from kio.schema.list_offsets.v7.request import ListOffsetsPartition, ListOffsetsTopic
from kio.schema.metadata.v12.request import MetadataRequestTopic
from kio.schema.produce.v9.request import PartitionProduceData, TopicProduceData

from benchmarks.measure import arguments, closing_line
from lakelog.model import Record
from lakelog.records import NewBatch, encode_batch
from tests.parts.cluster import Cluster, running_cluster
from tests.parts.seaweedfs import running_seaweedfs
from tests.parts.wire import Wire

TOPIC, PARTITIONS = "fresh", 12
THREADS = 16
TRIES = 40
SECOND = timedelta(seconds=1)
BATCH = encode_batch(NewBatch(records=[Record(offset=0, timestamp=0, key=None, value=b"v")]))
NOT_LED = (ErrorCode.not_leader_or_follower, ErrorCode.leader_not_available)


def row(kind: Any, **fields: Any) -> Any:
    """Return a part of a request; plain numbers and texts will do."""
    return kind(**fields)


class Wires:
    """Connections to every broker, for one thread."""

    def __init__(self, cluster: Cluster) -> None:
        self.nodes = list(cluster.brokers)
        self._wires = {node: Wire(one.bootstrap) for node, one in cluster.brokers.items()}

    def ask(self, node: int, key: int, version: int, **fields: Any) -> Any:
        return self._wires[node].ask(key, version, **fields)

    def close(self) -> None:
        for wire in self._wires.values():
            wire.close()

    def leader(self, node: int, topic: str, partition: int) -> tuple[int, ErrorCode]:
        """Return who leads, as one broker says; and what it says of the topic."""
        wanted = row(MetadataRequestTopic, topic_id=None, name=topic)
        found = self.ask(
            node,
            3,
            12,
            topics=(wanted,),
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=False,
        )
        (told,) = found.topics
        leaders = {one.partition_index: int(one.leader_id) for one in told.partitions}
        return leaders.get(partition, -1), told.error_code

    def create(self, node: int, topic: str, partitions: int) -> Any:
        new = row(
            CreatableTopic,
            name=topic,
            num_partitions=partitions,
            replication_factor=1,
            assignments=(),
            configs=(),
        )
        return self.ask(node, 19, 5, topics=(new,), timeout=30 * SECOND, validate_only=False)

    def produce(self, node: int, topic: str, partition: int) -> Any:
        data = row(PartitionProduceData, index=partition, records=BATCH)
        topics = (row(TopicProduceData, name=topic, partition_data=(data,)),)
        found = self.ask(
            node, 0, 9, transactional_id=None, acks=-1, timeout=10 * SECOND, topic_data=topics
        )
        return found.responses[0].partition_responses[0]

    def end(self, node: int, topic: str, partition: int) -> Any:
        one = row(ListOffsetsPartition, partition_index=partition, timestamp=-1)
        topics = (row(ListOffsetsTopic, name=topic, partitions=(one,)),)
        found = self.ask(node, 2, 7, replica_id=-1, isolation_level=0, topics=topics)
        return found.topics[0].partitions[0]

    def fetch(self, node: int, topic: str, partition: int, offset: int) -> Any:
        one = row(
            FetchPartition, partition=partition, fetch_offset=offset, partition_max_bytes=9999
        )
        topics = (row(FetchTopic, topic=topic, partitions=(one,)),)
        found = self.ask(
            node, 1, 12, max_wait=0 * SECOND, min_bytes=1, topics=topics, forgotten_topics_data=()
        )
        return found.responses[0].partitions[0]

    def at_leader(
        self, node: int, partition: int, ask: Callable[[int], Any], topic: str = TOPIC
    ) -> Any:
        """Ask a broker, and whoever it names, until one of them leads; return what that says."""
        found = ask(node)
        for _ in range(TRIES):
            if found.error_code not in NOT_LED:
                break
            told, _ = self.leader(node, topic, partition)
            node = told if told >= 0 else random.choice(self.nodes)
            found = ask(node)
        return found

    def two(self) -> list[int]:
        return random.sample(self.nodes, 2)


# ---------------------------------------------------------------------------- what is tried

Tried = Iterator[str]
"""What was said wrongly, by a word; nothing if all was right."""


def pair(wires: Wires, number: int) -> Tried:
    """Produce through one broker, and ask another where the log ends."""
    here, there = wires.two()
    partition = number % PARTITIONS
    produce = partial(wires.produce, topic=TOPIC, partition=partition)
    found = wires.at_leader(here, partition, produce)
    if found.error_code is not ErrorCode.none:
        yield f"produce: {found.error_code.name}"
        return
    end = wires.at_leader(there, partition, partial(wires.end, topic=TOPIC, partition=partition))
    if end.error_code is not ErrorCode.none:
        yield f"end: {end.error_code.name}"
    elif end.offset <= found.base_offset:
        yield "an old end"


def hop(wires: Wires, number: int) -> Tried:
    """Fetch at the end, which another broker has just moved, from every broker in turn."""
    partition = number % PARTITIONS
    produce = partial(wires.produce, topic=TOPIC, partition=partition)
    found = wires.at_leader(random.choice(wires.nodes), partition, produce)
    end = found.base_offset + 1
    for node in random.sample(wires.nodes, len(wires.nodes)):
        found = wires.fetch(node, TOPIC, partition, end)
        if found.error_code not in (ErrorCode.none, *NOT_LED):
            yield f"fetch: {found.error_code.name}"


def created(wires: Wires, number: int) -> Tried:
    """Make a topic through one broker, and use it through another."""
    yield from _used(wires, wires.two(), f"made-{number}", 0)


def grown(wires: Wires, number: int) -> Tried:
    """Let a topic grow through one broker, and use what is new through another."""
    name, (here, there) = f"grown-{number}", wires.two()
    yield from _used(wires, [here, there], name, 0)
    more = row(CreatePartitionsTopic, name=name, count=3, assignments=None)
    made = wires.ask(here, 37, 3, topics=(more,), timeout=30 * SECOND, validate_only=False)
    if made.results[0].error_code is not ErrorCode.none:
        yield f"grow: {made.results[0].error_code.name}"
    for partition in (1, 2):
        found = wires.end(there, name, partition)
        if found.error_code not in (ErrorCode.none, *NOT_LED):
            yield f"a new partition: {found.error_code.name}"
        found = wires.produce(there, name, partition)
        if found.error_code not in (ErrorCode.none, *NOT_LED):
            yield f"to a new partition: {found.error_code.name}"


def anew(wires: Wires, number: int) -> Tried:
    """Delete a topic and make it again through one broker, and use it through another."""
    name, (here, there) = f"anew-{number}", wires.two()
    yield from _used(wires, [here, there], name, 0)
    gone = wires.ask(here, 20, 5, topic_names=(name,), timeout=30 * SECOND)
    if gone.responses[0].error_code is not ErrorCode.none:
        yield f"delete: {gone.responses[0].error_code.name}"
    yield from _used(wires, [here, there], name, 0)


def _used(wires: Wires, nodes: list[int], name: str, partition: int) -> Tried:
    here, there = nodes
    made = wires.create(here, name, 1)
    if made.topics[0].error_code is not ErrorCode.none:
        yield f"create: {made.topics[0].error_code.name}"
        return
    _, code = wires.leader(there, name, partition)
    if code is not ErrorCode.none:
        yield f"metadata: {code.name}"
    produce = partial(wires.produce, topic=name, partition=partition)
    found = wires.at_leader(there, partition, produce, name)
    if found.error_code is not ErrorCode.none:
        yield f"use: {found.error_code.name}"


# ---------------------------------------------------------------------------- trying

Attempt = Callable[[Wires, int], Tried]
FULL: dict[Attempt, int] = {pair: 10_000, hop: 1_000, created: 1_000, grown: 1_000, anew: 1_000}
QUICK: dict[Attempt, int] = {pair: 200, hop: 30, created: 30, grown: 30, anew: 30}


def tried(cluster: Cluster, attempts: dict[Attempt, int]) -> Counter[str]:
    """Try everything by many threads, and count what was wrong."""
    work: queue.SimpleQueue[tuple[Attempt, int] | None] = queue.SimpleQueue()
    mixed = [(attempt, number) for attempt, count in attempts.items() for number in range(count)]
    random.shuffle(mixed)
    for one in mixed:
        work.put(one)
    wrong: Counter[str] = Counter()
    lock = threading.Lock()

    def run() -> None:
        wires = Wires(cluster)
        try:
            while (one := work.get()) is not None:
                attempt, number = one
                try:
                    found = list(attempt(wires, number))
                except OSError as error:
                    found = [f"connection: {error}"]
                    wires.close()
                    wires = Wires(cluster)
                with lock:
                    wrong.update(f"{attempt.__name__}: {what}" for what in found)
        finally:
            wires.close()

    threads = [threading.Thread(target=run) for _ in range(THREADS)]
    for thread in threads:
        work.put(None)
        thread.start()
    for thread in threads:
        thread.join()
    return wrong


@contextmanager
def cluster_with_topic() -> Iterator[Cluster]:
    """Three brokers, and a topic with partitions in every lane."""
    with running_seaweedfs() as seaweedfs:
        storage = f"s3://{seaweedfs.bucket('fresh')}/ns"
        flags = ("--no-keep", "--flush-interval-ms", "5")
        with running_cluster(storage, seaweedfs.options, arguments=flags) as cluster:
            wires = Wires(cluster)
            wires.create(1, TOPIC, PARTITIONS)
            wires.close()
            cluster.wait_until_whole(TOPIC)
            yield cluster


def main() -> None:
    """Try, and tell."""
    quick = arguments(__doc__).quick
    attempts = QUICK if quick else FULL
    with cluster_with_topic() as cluster:
        wrong = tried(cluster, attempts)
    total = sum(attempts.values())
    closing_line(
        name="cluster_fresh",
        value=total - wrong.total(),
        bar=total,
        unit="right answers",
        tried={attempt.__name__: count for attempt, count in attempts.items()},
        wrong=dict(wrong),
    )


if __name__ == "__main__":
    main()
