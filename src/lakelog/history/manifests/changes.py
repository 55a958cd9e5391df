"""What can happen to a manifest, as functions: the manifest now -> the next one, or None.

    begin      an intent, before the first object is written
    seal       rows for what the journal held; the intent goes
    skip       the end of what nobody may read any more, without rows
    start      the log begins later (retention, DeleteRecords)
    drop       rows that lie before the start are taken out
    page       older rows move onto a page; the intent goes
    cancel     intents of writers that have been silent for too long
    burn       plain names are not used any more
    cleared    what was dropped has been deleted
    delete     the topic is gone

None means that nothing is to be done, or no longer: the change is there already, or the topic is
gone, or the intent was cancelled. Then what was written for it is left to the sweep.
"""

from itertools import takewhile

from lakelog.history.manifests.manifest import Dropped, Intent, Manifest, PageRow, SegmentRow

__all__ = [
    "DROPPED_MAX",
    "begin",
    "burn",
    "cancel",
    "cleared",
    "delete",
    "drop",
    "page",
    "seal",
    "skip",
    "start",
]

DROPPED_MAX = 4096
"""What is taken out and not yet deleted. The rest waits, so that a manifest stays small."""


def begin(now: Manifest, intent: Intent) -> Manifest | None:
    """Announce that objects will be written."""
    if now.deleted or _has(now, intent.write):
        return None
    return now.next(intent.write + ":begin", intents=(*now.intents, intent))


def seal(now: Manifest, write: str, base: int, rows: tuple[SegmentRow, ...]) -> Manifest | None:
    """Add rows for the offsets from ``base`` on, if history ends just there."""
    if now.deleted or not _has(now, write) or now.sealed_end != base:
        return None
    return now.next(
        write,
        sealed_end=rows[-1].next_offset,
        segments=(*now.segments, *rows),
        intents=_without(now, write),
    )


def skip(now: Manifest, write: str, end: int) -> Manifest | None:
    """Let history end at ``end``, before which nobody may read."""
    if now.deleted or end <= now.sealed_end or end > now.log_start:
        return None
    return now.next(write, sealed_end=end)


def start(now: Manifest, write: str, offset: int) -> Manifest | None:
    """Let the log begin at ``offset``, if that is later."""
    if now.deleted or offset <= now.log_start:
        return None
    return now.next(write, log_start=offset)


def drop(
    now: Manifest, write: str, paged: dict[str, tuple[str, ...]], since_ms: int
) -> Manifest | None:
    """Take out what lies wholly before the start, from the front, as much as has room.

    ``paged`` are the segments of each page that lies there.
    """
    room = DROPPED_MAX - len(now.dropped)
    gone: list[str] = []
    pages, segments = now.pages, now.segments
    while pages and not _is_kept(now, pages[0]) and pages[0].name in paged:
        names = (*paged[pages[0].name], pages[0].name)
        if len(gone) + len(names) > room:
            break
        gone += names
        pages = pages[1:]
    if not pages:  # Behind a page that stays, everything stays.
        before = takewhile(lambda row: not _is_kept(now, row), segments[: room - len(gone)])
        names = tuple(row.name for row in before)
        gone += names
        segments = segments[len(names) :]
    if not gone:
        return None
    dropped = (*now.dropped, *(Dropped(name, since_ms) for name in gone))
    return now.next(write, pages=pages, segments=segments, dropped=dropped)


def page(now: Manifest, write: str, row: PageRow) -> Manifest | None:
    """Replace the first rows by a page of them."""
    moved = now.segments[: row.rows]
    fits = len(moved) == row.rows and moved[0].base_offset == row.base_offset
    if now.deleted or not _has(now, write) or not fits or moved[-1].next_offset != row.next_offset:
        return None
    return now.next(
        write,
        pages=(*now.pages, row),
        segments=now.segments[row.rows :],
        intents=_without(now, write),
    )


def cancel(now: Manifest, write: str, before_ms: int) -> Manifest | None:
    """Take out intents from before a moment: their writers can no longer commit."""
    intents = tuple(one for one in now.intents if one.since_ms > before_ms)
    return None if intents == now.intents else now.next(write, intents=intents)


def burn(now: Manifest, write: str) -> Manifest | None:
    """Use no plain names any more."""
    return None if now.burnt else now.next(write, burnt=True)


def cleared(now: Manifest, write: str, names: frozenset[str]) -> Manifest | None:
    """Forget what was dropped and has been deleted."""
    dropped = tuple(one for one in now.dropped if one.name not in names)
    return None if dropped == now.dropped else now.next(write, dropped=dropped)


def delete(now: Manifest, write: str) -> Manifest | None:
    """Let nobody read or seal it any more; what it names is dropped as if it had expired."""
    if now.deleted:
        return None
    start_ = max(now.log_start, now.sealed_end)
    return now.next(write, deleted=True, intents=(), log_start=start_)


def _has(now: Manifest, write: str) -> bool:
    return any(intent.write == write for intent in now.intents)


def _without(now: Manifest, write: str) -> tuple[Intent, ...]:
    return tuple(intent for intent in now.intents if intent.write != write)


def _is_kept(now: Manifest, row: PageRow | SegmentRow) -> bool:
    return row.next_offset > now.log_start
