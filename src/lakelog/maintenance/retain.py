"""Retain: the log begins later, and what lies before is taken out of the manifest.

Whole segments go, oldest first: when the newest time in one is older than ``retention.ms``, or
while more than ``retention.bytes`` would be left without it. A time in the future does not keep a
segment for ever, and records without a time do not go at once: then the time of the append counts.
What is taken out is deleted by the sweep, when everybody who may still read it has finished.

Of a deleted topic everything goes. Its manifest stays, so that a sealer that slept cannot bring it
back.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lakelog.catalog import Topic, cleanup_policy, config_value
from lakelog.errors import NotFoundError
from lakelog.manifests import (
    Manifest,
    PageRow,
    PartitionPath,
    SegmentRow,
    change_manifest,
    changes,
    read_manifest,
    read_page,
)
from lakelog.ports import Ids
from lakelog.store import Work

__all__ = ["Retention", "plan_retain", "retain_partition", "retention_of"]

WEEK_MS = 7 * 24 * 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How much is kept; -1: everything."""

    age_ms: int = WEEK_MS
    size_bytes: int = -1


def retention_of(configs: Mapping[str, str]) -> Retention:
    """Return what a topic's configs ask for.

    Raises:
        InvalidInputError: a value is no number, or none that Kafka allows.
    """
    if "delete" not in cleanup_policy(configs):
        return Retention(age_ms=-1, size_bytes=-1)  # What compaction leaves is kept for ever.
    return Retention(
        age_ms=config_value(configs, "retention.ms"),
        size_bytes=config_value(configs, "retention.bytes"),
    )


def plan_retain(manifest: Manifest, retention: Retention, now_ms: int) -> int:
    """Return where the log should begin."""
    rows: Iterable[PageRow | SegmentRow] = (*manifest.pages, *manifest.segments)
    left = sum(row.length for row in rows)
    start = manifest.log_start
    for row in rows:
        newest = row.appended_ms
        if row.max_timestamp >= 0:
            newest = min(row.max_timestamp, newest)
        old = 0 <= retention.age_ms < now_ms - newest
        large = 0 <= retention.size_bytes <= left - row.length
        if not old and not large:
            break
        left -= row.length
        start = max(start, row.next_offset)
    return start


def retain_partition(
    topic: Topic, where: PartitionPath, ids: Ids, *, now_ms: int, manifest: Manifest | None = None
) -> Work[Manifest]:
    """Move the start of one partition, and take out what lies before it.

    ``now_ms`` is the store's time; ``manifest`` is what somebody has just read.
    """
    write = ids().hex()
    if manifest is None:
        manifest = yield from read_manifest(where)
    if topic.deleted and not manifest.deleted:
        manifest = yield from change_manifest(
            where, write + ":delete", lambda now: changes.delete(now, write + ":delete")
        )
    elif not topic.deleted:
        start = plan_retain(manifest, retention_of(topic.configs), now_ms)
        if start > manifest.log_start:
            manifest = yield from change_manifest(
                where, write + ":start", lambda now: changes.start(now, write + ":start", start)
            )
    if not any(row.next_offset <= manifest.log_start for row in _rows(manifest)):
        return manifest
    paged = yield from _paged(where, manifest)
    return (yield from change_manifest(where, write, lambda now: changes.drop(now, write, paged)))


def _rows(manifest: Manifest) -> tuple[PageRow | SegmentRow, ...]:
    return (*manifest.pages, *manifest.segments)


def _paged(where: PartitionPath, manifest: Manifest) -> Work[dict[str, tuple[str, ...]]]:
    """Return the names of segments on the pages that lie before the start, as many as may go."""
    paged: dict[str, tuple[str, ...]] = {}
    count = 0
    for page in manifest.pages:
        count += page.rows + 1
        if page.next_offset > manifest.log_start or count > changes.DROPPED_MAX:
            break
        try:
            rows = yield from read_page(where, page)
        except NotFoundError:
            break  # The manifest has moved on; next time.
        paged[page.name] = tuple(row.name for row in rows)
    return paged
