"""Rewriters: tasks of a pipeline that merge segments, and compact topics that want it."""

from lakelog.catalog import Topic, list_topics
from lakelog.errors import LakelogError
from lakelog.log import store_now
from lakelog.maintenance import MergeSettings, Rewritten, merge_run, plan_merge
from lakelog.manifests import read_manifest
from lakelog.pipeline import CompactSettings, compact_partition
from lakelog.store import Wait, Work
from lakelog.testing.town import Town, expected, is_compacted

__all__ = ["rewriter"]

MAPS_BYTES = (4 * 32, 1 << 12)
"""Of a compaction: room for fewer keys than there are, and for all of them."""


def rewriter(town: Town) -> Work[None]:
    """Merge segments, and compact what wants it, again and again."""
    while True:
        yield Wait(town.world.some(200, 5_000))
        try:
            now_ms = yield from store_now(town.world.ids)
            topics = yield from list_topics()
            partitions = [(topic, at) for topic in topics for at in range(topic.partitions)]
            for topic, partition in town.random.sample(partitions, len(partitions)):
                if topic.is_open:
                    done = yield from _rewrite(town, topic, partition, now_ms)
                    town.count("rewrite moved", done.abandoned)
        except LakelogError as error:
            expected(error)
            town.count("rewriter failed")


def _rewrite(town: Town, topic: Topic, partition: int, now_ms: int) -> Work[Rewritten]:
    where, random, ids = topic.path_of(partition), town.random, town.world.ids
    if is_compacted(topic) and random.random() < 0.7:
        settings = CompactSettings(map_bytes=random.choice(MAPS_BYTES), segment_bytes=600)
        always = random.random() < 0.7
        done = yield from compact_partition(
            topic, where, settings, ids(), seed=ids(), now_ms=now_ms, always=always
        )
        town.count("compacted", done.before > 0)
        return done
    done = Rewritten()
    manifest = yield from read_manifest(where)
    rows = [row for row in manifest.segments if row.next_offset > manifest.log_start]
    for some in plan_merge(rows, MergeSettings(segment_bytes=2_000, rows_min=2)):
        done += yield from merge_run(where, some, ids(), since_ms=now_ms)
    town.count("merged", done.before > 0)
    return done
