"""What can happen to a manifest, as functions: the manifest now -> the next one, or None.

    begin      an intent, before the first object is written
    seal       rows for what the journal held; the intent goes
    adopt      rows for what was made elsewhere, where history ends
    skip       the end of what nobody may read any more, without rows
    start      the log begins later (retention, DeleteRecords)
    drop       rows that lie before the start are taken out
    rewrite    neighbouring rows are replaced by others for the same offsets; the intent goes
    page       older rows move onto a page; the intent goes
    unpage     the rows of all pages come back
    cancel     intents of writers that have been silent for too long
    burn       plain names are not used any more
    seen       when it was noticed that something was dropped: its grace begins
    cleared    what was dropped has been deleted
    delete     the topic is gone

None means that nothing is to be done, or no longer: the change is there already, or the topic is
gone, or the intent was cancelled. Then what was written for it is left to the sweep.
"""

from itertools import takewhile

from lakelog.manifests.manifest import (
    Dropped,
    Intent,
    Manifest,
    PageRow,
    SegmentRow,
)

__all__ = [
    "DROPPED_MAX",
    "adopt",
    "begin",
    "burn",
    "cancel",
    "cleared",
    "delete",
    "drop",
    "give_up",
    "page",
    "rewrite",
    "seal",
    "seen",
    "skip",
    "start",
    "unpage",
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


def adopt(
    now: Manifest, write: str, base: int, rows: tuple[SegmentRow, ...], *, start: int, end: int
) -> Manifest | None:
    """Add rows for the offsets from ``base`` to ``end``, if history ends at ``base``.

    They need not touch: where one begins behind the end of the one before, nothing is left in
    between, and the one before reaches up to it. A history that begins with them has its ``start``.
    """
    if now.deleted or now.sealed_end != base or end <= base:
        return None
    first = not (now.pages or now.segments)
    every = [*now.segments, *rows]
    for at in range(max(0, len(now.segments) - 1), len(every)):
        reach = every[at + 1].base_offset if at + 1 < len(every) else end
        every[at] = every[at]._replace(next_offset=reach)
    log_start = max(now.log_start, start) if first else now.log_start
    return now.next(
        write,
        sealed_end=end,
        segments=tuple(every),
        log_start=log_start if every or now.pages else end,
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


def drop(now: Manifest, write: str, paged: dict[str, tuple[str, ...]]) -> Manifest | None:
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
    dropped = (*now.dropped, *(Dropped(name) for name in gone))
    return now.next(write, pages=pages, segments=segments, dropped=dropped)


def rewrite(
    now: Manifest,
    write: str,
    old: tuple[SegmentRow, ...],
    new: tuple[SegmentRow, ...],
    cleaned_end: int = 0,
) -> Manifest | None:
    """Replace neighbouring rows by others for the same offsets, of which some may be gone.

    If nothing is left of them, the row before reaches over their offsets; if there is none, the log
    begins behind them. A row that is among the old and the new ones stays.
    """
    if now.deleted or not _has(now, write) or old[0] not in now.segments:
        return None
    at, end = now.segments.index(old[0]), old[-1].next_offset
    room = len(now.dropped) + len(old) <= DROPPED_MAX
    if now.segments[at : at + len(old)] != old or not room or (now.pages and not new and not at):
        return None
    behind = now.segments[at + len(old) :]
    every = [*now.segments[:at], *new]
    for number in range(max(0, at - 1), len(every)):
        reach = every[number + 1].base_offset if number + 1 < len(every) else end
        every[number] = every[number]._replace(next_offset=reach)
    start_ = now.log_start if every else max(now.log_start, end)
    kept = {row.name for row in new}
    gone = tuple(Dropped(row.name) for row in old if row.name not in kept)
    return now.next(
        write,
        segments=(*every, *behind),
        intents=_without(now, write),
        dropped=(*now.dropped, *gone),
        log_start=start_,
        cleaned_end=max(now.cleaned_end, cleaned_end),
    )


def unpage(now: Manifest, write: str, pages: dict[str, tuple[SegmentRow, ...]]) -> Manifest | None:
    """Take the rows of all pages back in; ``pages`` is what stands on them."""
    names = [page.name for page in now.pages]
    if now.deleted or not names or set(names) != set(pages):
        return None
    rows = [row for name in names for row in pages[name]]
    return now.next(write, pages=(), segments=(*rows, *now.segments))


def page(now: Manifest, write: str, row: PageRow, rows: tuple[SegmentRow, ...]) -> Manifest | None:
    """Replace the first rows by a page of them, if they are still what stands on it."""
    if now.deleted or not _has(now, write) or now.segments[: row.rows] != rows:
        return None
    return now.next(
        write,
        pages=(*now.pages, row),
        segments=now.segments[row.rows :],
        intents=_without(now, write),
    )


def give_up(now: Manifest, write: str, of: str) -> Manifest | None:
    """Take out the intent of a write that will not be."""
    return now.next(write, intents=_without(now, of)) if _has(now, of) else None


def cancel(now: Manifest, write: str, before_ms: int) -> Manifest | None:
    """Take out intents from before a moment: their writers can no longer commit."""
    intents = tuple(one for one in now.intents if one.since_ms > before_ms)
    return None if intents == now.intents else now.next(write, intents=intents)


def burn(now: Manifest, write: str) -> Manifest | None:
    """Use no plain names any more."""
    return None if now.burnt else now.next(write, burnt=True)


def seen(now: Manifest, write: str, names: frozenset[str], since_ms: int) -> Manifest | None:
    """Say since when what was dropped has been so, at the latest."""
    dropped = tuple(
        one._replace(since_ms=since_ms) if not one.since_ms and one.name in names else one
        for one in now.dropped
    )
    return None if dropped == now.dropped else now.next(write, dropped=dropped)


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
