"""Sweep: objects beside a manifest that no manifest names are removed.

    list the objects     first
    read the manifest    second
    cancel old intents   their writers can no longer commit
    note the time        for what is newly dropped: its grace begins
    burn plain names     if one is to go that was never dropped
    delete               what was seen to be dropped a grace ago; what nobody names, and nobody has
                         announced

The order makes it safe. An object that was listed was announced before it was written, so the
manifest, read later, has the intent, or names the object, or neither because its writer was
cancelled or gave up. Of a segment the indexes go first: while the segment is there its name is
taken, so that nobody else's indexes can come to lie beside a new one. And before a segment with a
plain name goes, the manifest says that such names are burnt: the request to delete it may arrive
late, when somebody has made a new one of that name.
"""

import re
from typing import NamedTuple

from lakelog.errors import NotFoundError
from lakelog.log import store_now
from lakelog.manifests import (
    Intent,
    Manifest,
    PartitionPath,
    change_manifest,
    changes,
    read_rows,
)
from lakelog.names import TIME_PREFIX
from lakelog.ports import Ids
from lakelog.store import ListPage, ObjectInfo, Work, ask, delete_many

__all__ = ["HistoryObject", "history_object", "sweep_partition", "sweep_times"]

_SEGMENT = re.compile(r"(segment-(\d{20})(?:-([0-9a-f]{32}))?)\.(?:kfs|index|timeindex)")
_PAGE = re.compile(r"(page-([0-9a-f]{32}))\.json")


class HistoryObject(NamedTuple):
    """What the name of an object beside a manifest says."""

    stem: str
    """The name without its suffix."""
    base_offset: int
    """Of a page: 0."""
    write: str
    """Who made it; empty where a segment has a plain name."""

    def is_of(self, intent: Intent) -> bool:
        """Whether it may be one that was announced: by its writer, or by its offset."""
        if self.write:
            return self.write == intent.write
        return intent.base_offset <= self.base_offset < intent.next_offset


def history_object(name: str) -> HistoryObject | None:
    """Return what a name beside a manifest says; None: it is not one of ours, or the manifest."""
    if found := _SEGMENT.fullmatch(name):
        return HistoryObject(found[1], int(found[2]), found[3] or "")
    if found := _PAGE.fullmatch(name):
        return HistoryObject(found[1], 0, found[2])
    return None


def sweep_partition(
    where: PartitionPath,
    infos: list[ObjectInfo],
    manifest: Manifest,
    ids: Ids,
    *,
    now_ms: int,
    grace_ms: int,
) -> Work[int]:
    """Remove what is left over beside one manifest; return how many objects.

    ``infos`` are all objects beside it, listed before the manifest was read; ``now_ms`` is the
    store's time.
    """
    named = [(info, history_object(info.key.removeprefix(where.prefix))) for info in infos]
    objects = [(info, one) for info, one in named if one is not None]
    before_ms = now_ms - grace_ms
    if any(intent.since_ms <= before_ms for intent in manifest.intents):
        write = ids().hex()
        manifest = yield from change_manifest(
            where, write, lambda now: changes.cancel(now, write, before_ms)
        )
    fresh = frozenset(one.name for one in manifest.dropped if not one.since_ms)
    if fresh:
        # Asked for after the manifest was read, so that it is not before they were dropped.
        since_ms, write = (yield from store_now(ids)), ids().hex()
        manifest = yield from change_manifest(
            where, write, lambda now: changes.seen(now, write, fresh, since_ms)
        )
    dropped = {one.name for one in manifest.dropped if 0 < one.since_ms <= before_ms}
    try:
        gone = yield from _left_over(where, manifest, objects, dropped, before_ms)
        if not manifest.burnt and any(not one.write and one.stem not in dropped for _, one in gone):
            write = ids().hex()
            manifest = yield from change_manifest(
                where, write, lambda now: changes.burn(now, write)
            )
            # Who began before this may still use a plain name: their intents are known now.
            gone = yield from _left_over(where, manifest, objects, dropped, before_ms)
    except NotFoundError:
        return 0  # It has changed since. Next time.
    for is_segment in (False, True):
        keys = [info.key for info, _ in gone if info.key.endswith(".kfs") == is_segment]
        yield from delete_many(keys)
    if dropped:
        write = ids().hex()
        names = frozenset(dropped)
        yield from change_manifest(where, write, lambda now: changes.cleared(now, write, names))
    return len(gone)


def sweep_times(*, now_ms: int, grace_ms: int) -> Work[int]:
    """Remove what processes left behind that died while they asked for the time."""
    page = yield from ask(ListPage(TIME_PREFIX))
    old = [info.key for info in page.objects if info.modified_ms <= now_ms - grace_ms]
    yield from delete_many(old)
    return len(old)


def _left_over(
    where: PartitionPath,
    manifest: Manifest,
    objects: list[tuple[ObjectInfo, HistoryObject]],
    dropped: set[str],
    before_ms: int,
) -> Work[list[tuple[ObjectInfo, HistoryObject]]]:
    rows = yield from read_rows(where, manifest)
    named = manifest.names() | {row.name for row in rows}
    return [
        (info, one)
        for info, one in objects
        if one.stem in dropped
        or (
            one.stem not in named
            and info.modified_ms <= before_ms
            and not any(one.is_of(intent) for intent in manifest.intents)
        )
    ]
