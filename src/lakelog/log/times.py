"""Finding offsets by time, in history and journal.

    manifest   the first segment whose newest time is late enough
    .timeindex path to begin in it; advisory, so without one at its beginning
    journal    the first slice whose newest time is late enough, by directories and rolls
    batches    from there on: the first record that is not older

Times need not rise. The answer is Kafka's: the first offset whose record is not older.
"""

from collections.abc import Callable, Generator
from typing import Any

from lakelog.errors import CorruptError, NotFoundError, UnavailableError, UnsupportedError
from lakelog.formats import kafkalog
from lakelog.journal import Lane, locate_run
from lakelog.log.read import CatchUp, Known, OutOfRange, current, read, refresh
from lakelog.manifests import Manifest, PartitionPath, SegmentRow, read_page
from lakelog.records import FoundRecord as Found
from lakelog.records import Scan, finish, first_not_older
from lakelog.store import GetRange, Wait, Work, ask

__all__ = ["Found", "Look", "newest", "offset_at"]

STARTS_MAX = 20
CHUNK_BYTES = 1 << 20
RUN_BYTES = 1 << 30
"""Slices that are looked at together; none of their bytes is read."""

Look = Callable[[Scan[Found | None]], Generator[Any, Any, Found | None]]
"""A flow that runs a scan: a broker does it beside its loop, and yields it to have it done."""


def _look_here(scan: Scan[Found | None]) -> Work[Found | None]:
    """Run a scan at once."""
    yield from ()
    return finish(scan)


def offset_at(
    lane: Lane,
    path: PartitionPath,
    timestamp: int,
    catch_up: CatchUp = refresh,
    look: Look = _look_here,
) -> Work[Found | None]:
    """Return the first record that is not older than ``timestamp``; None: all are.

    Raises:
        NotFoundError: the topic was deleted.
        UnavailableError: the log moved on, again and again.
    """
    for start in range(STARTS_MAX):
        manifest, now = yield from current(lane, path, catch_up)
        try:
            offset = yield from _sealed_from(path, manifest, timestamp)
            if offset is None:
                first = max(manifest.sealed_end, now.log_start)
                offset = yield from _unsealed_from(lane, path, first, timestamp)
            if offset is None:
                return None
            first = max(offset, now.log_start)
            return (yield from _first(lane, path, first, timestamp, catch_up, look))
        except NotFoundError:
            lane.moved_on()
            yield Wait(10 << min(start, 8))
    raise UnavailableError(
        f"{path} at {timestamp}: the partition changed during "
        f"{STARTS_MAX} attempts to read it; try again"
    )


def newest(
    lane: Lane, path: PartitionPath, catch_up: CatchUp = refresh, look: Look = _look_here
) -> Work[Found | None]:
    """Return the first of the records with the highest timestamp; None: there is none.

    What a batch says of its newest time is taken for true, as everywhere.
    """
    manifest, now = yield from current(lane, path, catch_up)
    times = [page.max_timestamp for page in manifest.pages if page.next_offset > now.log_start]
    times += [row.max_timestamp for row in manifest.segments if row.next_offset > now.log_start]
    offset = max(manifest.sealed_end, now.log_start)
    while offset < now.end:
        placed = yield from locate_run(lane, path.topic_partition, offset, RUN_BYTES)
        if not placed:
            raise UnavailableError(f"{path}: the partition changed while it was read; try again")
        times += [one.slice.max_timestamp for one in placed]
        offset = placed[-1].slice.next_offset
    if not times:
        return None
    return (yield from offset_at(lane, path, max(times), catch_up, look))


def _sealed_from(path: PartitionPath, manifest: Manifest, timestamp: int) -> Work[int | None]:
    """Return an offset of history before which no record is late enough; None: none is at all."""
    for page in manifest.pages:
        if page.max_timestamp >= timestamp and page.next_offset > manifest.log_start:
            rows = yield from read_page(path, page)
            return (yield from _begin(path, _late(rows, timestamp)[0], timestamp))
    live = [row for row in manifest.segments if row.next_offset > manifest.log_start]
    late = _late(live, timestamp)
    return (yield from _begin(path, late[0], timestamp)) if late else None


def _late(rows: tuple[SegmentRow, ...] | list[SegmentRow], timestamp: int) -> list[SegmentRow]:
    return [row for row in rows if row.max_timestamp >= timestamp]


def _begin(path: PartitionPath, row: SegmentRow, timestamp: int) -> Work[int]:
    key = f"{path.prefix}{row.name}.timeindex"
    try:
        found = yield from ask(GetRange(key, 0, kafkalog.INDEX_BYTES_MAX))
        index = kafkalog.decode_time_index(found.body, base_offset=row.base_offset)
        offset = index.offset(timestamp)
    except (NotFoundError, CorruptError, UnsupportedError):
        return row.base_offset
    return offset if row.base_offset <= offset < row.next_offset else row.base_offset


def _unsealed_from(
    lane: Lane, path: PartitionPath, offset: int, timestamp: int
) -> Work[int | None]:
    """Return the first offset of a slice of the journal that is late enough; None: none is."""
    end = lane.known.fold.end(path.topic_partition)
    while offset < end:
        placed = yield from locate_run(lane, path.topic_partition, offset, RUN_BYTES)
        if not placed:
            raise NotFoundError(f"offset {offset} has left the journal: look again")
        for one in placed:
            if one.slice.max_timestamp >= timestamp:
                return max(offset, one.slice.base_offset)
        offset = placed[-1].slice.next_offset
    return None


def _first(
    lane: Lane, path: PartitionPath, offset: int, timestamp: int, catch_up: CatchUp, look: Look
) -> Work[Found | None]:
    """Return the first record from ``offset`` on that is late enough."""
    known = Known()
    while True:
        chunk = yield from read(lane, path, offset, CHUNK_BYTES, known, catch_up)
        if isinstance(chunk, OutOfRange):
            raise NotFoundError(f"offset {offset} has expired: look again")
        if not chunk.body:
            return None
        found = yield from look(first_not_older(chunk.body, offset, timestamp))
        if found is not None:
            return found
        offset = chunk.next_offset
