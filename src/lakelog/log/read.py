"""Reading the log: history and journal as one.

    journal first    look, walk to the end, look
    manifest second  then it covers all that is below the floor just seen
    below its sealed end -> a segment; else -> a bundle

The order matters. With the manifest first, what is sealed and trimmed between the two reads would
be in neither. A missing object means that the log moved on: start again, never skip. Bytes out of a
bundle are served only when the floor, looked at afterwards, has not passed it.
"""

from dataclasses import dataclass, field

from crc32c import crc32c

from lakelog.errors import CorruptError, NotFoundError, UnavailableError, UnsupportedError
from lakelog.formats import Bytes, kafs
from lakelog.formats.lanes import Slice
from lakelog.history.manifests import Manifest, SegmentRow, Where, read_manifest, read_rows
from lakelog.journal import Held, Lane, batches_of, floor_holds, follow, learn, locate
from lakelog.names import bundle_key, staged_key
from lakelog.records import CRC_START, HEADER_BYTES, decode_header, rebase
from lakelog.store import GetRange, Wait, Work, fetch

__all__ = [
    "Bounds",
    "Chunk",
    "OutOfRange",
    "bounds",
    "place_batches",
    "read",
    "read_slice",
    "refresh",
]

STARTS_MAX = 20
"""How often a read starts again before it gives up."""

CHUNK_BYTES_MIN = 1 << 10


@dataclass(frozen=True, slots=True)
class Bounds:
    """Where a partition begins and ends."""

    log_start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Whole batches, with their offsets; empty at the end of the log."""

    base_offset: int
    """Of the first batch, which may lie before the offset that was asked for."""
    next_offset: int
    body: bytes = field(repr=False)
    bounds: Bounds


@dataclass(frozen=True, slots=True)
class OutOfRange:
    """There is no such offset, and there was none after the request came."""

    bounds: Bounds


def refresh(lane: Lane) -> Work[None]:
    """Bring what is known of a lane to its end, as it is now."""
    if lane.fold is None or not (yield from follow(lane, lane.next_seq)):
        yield from learn(lane)


def bounds(lane: Lane, where: Where) -> Work[Bounds]:
    """Return where a partition begins and ends now.

    Raises:
        NotFoundError: its topic was deleted.
    """
    return (yield from _now(lane, where))[1]


def _now(lane: Lane, where: Where) -> Work[tuple[Manifest, Bounds]]:
    yield from refresh(lane)
    fold = lane.fold
    assert fold is not None
    manifest = yield from read_manifest(where)
    if manifest.deleted or fold.is_deleted(where.topic):
        raise NotFoundError(f"{where.path}/{where.partition}: the topic was deleted")
    end = max(fold.end(where.place), manifest.sealed_end)
    return manifest, Bounds(min(manifest.log_start, end), end)


def read(lane: Lane, where: Where, offset: int, size_bytes_max: int) -> Work[Chunk | OutOfRange]:
    """Return the batch that holds ``offset`` and those behind it, at least one.

    Raises:
        NotFoundError: the topic was deleted.
        UnavailableError: the log moved on, again and again.
    """
    for start in range(STARTS_MAX):
        manifest, now = yield from _now(lane, where)
        if not now.log_start <= offset <= now.end:
            return OutOfRange(now)
        if offset == now.end:
            return Chunk(base_offset=offset, next_offset=offset, body=b"", bounds=now)
        body: bytes | None
        try:
            if offset < manifest.sealed_end:
                body = yield from _sealed(where, manifest, offset, size_bytes_max)
            else:
                body = yield from _unsealed(lane, where, offset, size_bytes_max)
        except NotFoundError:
            body = None
        if body is not None:
            first, next_ = _span(body)
            return Chunk(base_offset=first, next_offset=next_, body=body, bounds=now)
        lane.notes["read again"] += 1
        yield Wait(10 << min(start, 8))
    raise UnavailableError(f"{where.path}/{where.partition} at {offset}: it moves: retry")


def _span(body: bytes) -> tuple[int, int]:
    first = decode_header(body)
    at, last = first.size, first
    while at < len(body):
        last = decode_header(body, at)
        at += last.size
    return first.base_offset, last.next_offset


# ---------------------------------------------------------------------------- journal


def _unsealed(lane: Lane, where: Where, offset: int, size_bytes_max: int) -> Work[bytes | None]:
    found = yield from locate(lane, where.place, offset)
    if found is None:
        return None
    held, slice_ = found
    body = yield from read_slice(lane.number, held, slice_, offset, size_bytes_max)
    if not (yield from floor_holds(lane, held.bundle.seq)):
        return None
    return body


def read_slice(
    lane: int, held: Held, slice_: Slice, offset: int = 0, size_bytes_max: int = 1 << 62
) -> Work[bytes]:
    """Return batches of a slice from the one that holds ``offset``, each with its offset and epoch.

    Whoever calls this keeps the one rule afterwards.

    Raises:
        NotFoundError: the object is gone.
        CorruptError: these are not the bytes that the directory describes.
    """
    if slice_.write >= 0:
        write = held.bundle.events[slice_.write].id
        key = staged_key(write, lane, slice_.part)
        start, end, base = slice_.position, slice_.position + slice_.length, slice_.base_offset
    else:
        key = bundle_key(lane, held.bundle.seq)
        start, end, base = _wanted(held, slice_, offset, size_bytes_max)
    found = yield from fetch(GetRange(key, start, end))
    if len(found.body) != end - start:
        raise CorruptError(f"{len(found.body)} bytes of {end - start}", at=start, where=key)
    return place_batches(found.body, base, held.bundle.epoch, where=key)


def place_batches(body: Bytes, base_offset: int, epoch: int, *, where: str) -> bytes:
    """Return batches as they leave the journal: checked, with their offsets and leader epoch.

    Raises:
        CorruptError: they are not a run of good batches.
    """
    placed = bytearray(body)
    view = memoryview(placed)
    at = 0
    while at < len(view):
        header = decode_header(view, at, where=where)
        batch = view[at : at + header.size]
        if len(batch) < header.size or crc32c(batch[CRC_START:]) != header.crc:
            raise CorruptError("a batch does not match its CRC", at=at, where=where)
        rebase(batch, base_offset=base_offset, leader_epoch=epoch)
        base_offset += header.last_offset_delta + 1
        at += header.size
    return bytes(placed)


def _wanted(held: Held, slice_: Slice, offset: int, size_bytes_max: int) -> tuple[int, int, int]:
    """Return where the wanted batches begin and end, and the offset of the first."""
    at, base = slice_.position, slice_.base_offset
    start, first, size = -1, base, 0
    for row in batches_of(held, slice_):
        base += row.last_offset_delta + 1
        if base > offset:
            if start < 0:
                start, first = at, base - row.last_offset_delta - 1
            elif size + row.length > size_bytes_max:
                break
            size += row.length
        at += row.length
    return start, start + size, first


# ---------------------------------------------------------------------------- history


def _sealed(where: Where, manifest: Manifest, offset: int, size_bytes_max: int) -> Work[bytes]:
    rows = yield from read_rows(where, manifest, offset)
    at = yield from _position(where, rows[0], offset)
    if at > kafs.HEADER_BYTES:
        try:
            body = yield from _batches(where, rows[0], at, offset, size_bytes_max)
            if decode_header(body).base_offset <= offset:
                return body
        except (CorruptError, UnsupportedError):
            pass  # It was the index that led there. If it was not, the next try tells.
    return (yield from _batches(where, rows[0], kafs.HEADER_BYTES, offset, size_bytes_max))


def _batches(where: Where, row: SegmentRow, at: int, offset: int, most: int) -> Work[bytes]:
    """Return batches from the one that holds ``offset`` on; one of them begins at ``at``."""
    key = f"{where.prefix}{row.name}{kafs.FORMAT.suffix}"
    end = row.length - kafs.FOOTER_BYTES
    size = max(most, CHUNK_BYTES_MIN)
    while True:
        wanted = GetRange(key, row.position + at, row.position + min(at + size, end))
        data = (yield from fetch(wanted)).body
        skip, cut, more = _whole(data, offset)
        if cut > skip:
            return data[skip:cut]
        if at + len(data) >= end:
            raise CorruptError(f"offset {offset} is not in it", at=at, where=key)
        at, size = at + cut, max(more, size)


def _position(where: Where, row: SegmentRow, offset: int) -> Work[int]:
    """Return where to begin looking. An index is advisory: without a good one, at the beginning."""
    key = f"{where.prefix}{row.name}.index"
    try:
        found = yield from fetch(GetRange(key, 0, kafs.INDEX_BYTES_MAX))
        return kafs.decode_index(found.body).position(offset)
    except (NotFoundError, CorruptError, UnsupportedError):
        return kafs.HEADER_BYTES


def _whole(data: bytes, offset: int) -> tuple[int, int, int]:
    """Return where the wanted batches begin and where the last whole one ends, and what is missing.

    With none of them whole the third is the size of the one that should be asked for.
    """
    skip = at = 0
    while len(data) - at >= HEADER_BYTES:
        header = decode_header(data, at)
        if len(data) - at < header.size:
            return skip, at, header.size
        at += header.size
        if header.next_offset <= offset:
            skip = at
    return skip, at, HEADER_BYTES
