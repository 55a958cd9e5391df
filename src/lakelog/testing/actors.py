"""Who else lives in the simulated world: readers, keepers and an admin.

They are processes that run the real flows. The admin deletes records, deletes topics and makes them
anew. ``brokers``, ``rewriting`` and ``bulk`` have the others.
"""

from lakelog.catalog import (
    Topic,
    create_topic,
    delete_topic,
    list_topics,
    read_topic,
)
from lakelog.errors import LakelogError
from lakelog.journal import DeleteTopic, Lane, flush
from lakelog.log import Bounds, Known, read, store_now
from lakelog.maintenance import (
    MaintenanceReport,
    finish_writes,
    maintain_lane,
    maintain_topics,
)
from lakelog.manifests import change_manifest, changes
from lakelog.store import Wait, Work
from lakelog.testing.process import Process
from lakelog.testing.town import SEALS, Town, expected
from lakelog.testing.truth import Anomaly

__all__ = ["admin", "keeper", "reader"]


def reader(town: Town, process: Process) -> Work[None]:
    """Read at random offsets, and follow one partition."""
    lane = town.lane(process)
    random = town.random
    seen: dict[tuple[bytes, int], Bounds] = {}
    memory: dict[tuple[bytes, int], Known] = {}
    while True:
        yield Wait(town.world.some(1_000, 15_000))
        topic, partition = town.some_partition()
        where = topic.path_of(partition)
        truth, topic_partition = town.truth, where.topic_partition
        asked = Bounds(truth.starts.get(topic_partition, 0), truth.end(topic_partition))
        offset = town.some_offset(asked)
        size = random.choice((1, 300, 100_000))
        known = memory.setdefault(topic_partition, Known()) if random.random() < 0.5 else None
        found = yield from town.judged(
            read(lane, where, offset, size, known), topic, topic_partition, offset, asked
        )
        town.count_ways(lane)
        if found is None:
            continue
        last = seen.get(topic_partition, Bounds(0, 0))
        if found.bounds.end < last.end or found.bounds.log_start < last.log_start:
            raise Anomaly(f"J5: {found.bounds} after {last}")
        seen[topic_partition] = found.bounds


def keeper(town: Town, process: Process) -> Work[None]:
    """Seal, trim, reap, retain and sweep, again and again."""
    lane, is_swift = town.lane(process), town.world.is_swift
    while True:
        yield Wait(town.world.some(*((300, 2_500) if is_swift else (1_000, 12_000))))
        try:
            topics = yield from list_topics()
            idle = town.random.random() < (0.4 if is_swift else 0.2)
            kept = MaintenanceReport()
            yield from maintain_lane(lane, topics, SEALS, kept, idle=idle)
            if town.random.random() < 0.4:
                grace_ms = town.rules.grace_ms
                for topic in topics:
                    yield from maintain_topics([topic], town.world.ids, kept, grace_ms=grace_ms)
                now_ms = yield from store_now(town.world.ids)
                writes = yield from finish_writes({0: lane}, now_ms=now_ms, grace_ms=grace_ms)
                kept.failures |= writes.failures
                kept.swept += writes.swept
                town.count("bulk finished", writes.finished)
            for error in kept.failures.values():
                expected(error)
            town.count("swept", kept.swept)
        except LakelogError as error:
            expected(error)
            town.count("keeper failed")
        town.count_ways(lane)


def admin(town: Town, process: Process) -> Work[None]:
    """Delete records, delete topics, and make them anew; finish what an earlier life began."""
    lane = town.lane(process)
    random = town.random
    while True:
        yield Wait(town.world.some(5_000, 60_000))
        name = random.choice(sorted(town.topics))
        try:
            topic = yield from read_topic(name)
            if not topic.deleted and random.random() < 0.6:
                yield from _delete_records(town, topic)
            else:
                yield from _make_anew(town, lane, topic)
        except LakelogError as error:
            expected(error)
        town.count_ways(lane)


def _delete_records(town: Town, topic: Topic) -> Work[None]:
    where = topic.path_of(town.random.randrange(topic.partitions))
    end = town.truth.end(where.topic_partition)
    if end:
        start, write = town.random.randrange(end + 1), town.world.ids().hex()
        yield from change_manifest(where, write, lambda now: changes.start(now, write, start))


def _make_anew(town: Town, lane: Lane, topic: Topic) -> Work[None]:
    now_ms = town.world.store_ms()
    yield from delete_topic(topic.name, topic.id, town.world.ids(), now_ms=now_ms)
    done = yield from flush(lane, [DeleteTopic(topic=topic.id)])
    if done.error is not None:
        raise done.error
    town.topics[topic.name] = yield from create_topic(
        topic.name,
        topic_id=town.world.ids(),
        partitions=topic.partitions,
        lanes=1,
        now_ms=town.world.store_ms(),
        configs=topic.configs,
    )
    town.count("topic made anew")
