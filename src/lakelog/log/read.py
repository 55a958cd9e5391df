"""Reading the log: history and journal as one.

    journal first    look, walk to the end, look
    manifest second  then it covers all that is below the floor just seen
    below its sealed end -> a segment; else -> a bundle

The order matters. With the manifest first, what is sealed and trimmed between the two reads would
be in neither. A missing object means that the log moved on: start again, never skip. Bytes out of a
bundle are served only when the floor, looked at afterwards, has not passed it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from lakelog.errors import (
    CorruptError,
    LakelogError,
    NotFoundError,
    UnavailableError,
    UnsupportedError,
)
from lakelog.formats import Bytes, batches, kafs
from lakelog.formats.lanes import Slice
from lakelog.journal import (
    KnownBundle,
    Lane,
    LocatedSlice,
    Snapshot,
    batches_of,
    floor_holds,
    follow,
    learn,
    locate_run,
    read_bundle,
)
from lakelog.log.placing import Pieces, place_batches, share
from lakelog.manifests import (
    Manifest,
    PartitionPath,
    SegmentRow,
    find_row,
    read_manifest,
)
from lakelog.names import bundle_key, staged_key
from lakelog.records import HEADER_BYTES, decode_header
from lakelog.store import Fetched, GetRange, Wait, Work, ask, ask_all

__all__ = [
    "Bounds",
    "CatchUp",
    "Chunk",
    "Known",
    "OutOfRange",
    "bounds",
    "current",
    "read",
    "read_slice",
    "refresh",
]

STARTS_MAX = 20
"""How often a read starts again before it gives up."""

CHUNK_BYTES_MIN = 1 << 10

KNOWN_MS = 30_000
"""How long a manifest may serve for what it says is there."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Where a partition begins and ends."""

    log_start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Whole batches, with their offsets; empty at the end of the log."""

    base_offset: int
    """Of the first batch, which may lie before the offset that was asked for; behind it, if the
    records there were compacted away."""
    next_offset: int
    pieces: tuple[Bytes, ...] = field(default=(), repr=False)
    """They may be views of what others read as well."""
    bounds: Bounds
    """As far as they are known; as they are now, if there is nothing to read."""

    @property
    def body(self) -> bytes:
        """All of it in one."""
        return b"".join(self.pieces)


@dataclass(frozen=True, slots=True)
class OutOfRange:
    """There is no such offset, and there was none after the request came."""

    bounds: Bounds


def refresh(lane: Lane) -> Work[None]:
    """Bring what is known of a lane to its end, as it is now."""
    if not lane.is_sure or not (yield from follow(lane, lane.next_seq)):
        yield from learn(lane)


CatchUp = Callable[[Lane], Work[None]]
"""How what is known of a lane is brought to its end: ``refresh``, or what a broker has instead,
whose lanes have one driver each."""


def bounds(lane: Lane, path: PartitionPath) -> Work[Bounds]:
    """Return path a partition begins and ends now.

    Raises:
        NotFoundError: its topic was deleted.
    """
    return (yield from current(lane, path))[1]


def current(
    lane: Lane, path: PartitionPath, catch_up: CatchUp = refresh
) -> Work[tuple[Manifest, Bounds]]:
    """Return the manifest of a partition and its bounds: the journal first, then the manifest.

    Raises:
        NotFoundError: its topic was deleted.
    """
    yield from catch_up(lane)
    known = lane.known
    manifest = yield from read_manifest(path)
    if manifest.deleted or known.fold.is_deleted(path.topic):
        raise NotFoundError(f"{path}: the topic was deleted")
    return manifest, _bounds(known, path, manifest)


@dataclass(slots=True)
class Known:
    """What a reader remembers of a partition, so that reading on costs one request."""

    manifest: Manifest | None = None
    boot_ms: int = 0

    def get(self, lane: Lane) -> Manifest | None:
        """Return the manifest, if it is not too old to say that something is there."""
        old_ms = lane.clock.boot_ms() - self.boot_ms
        fresh = self.manifest is not None and old_ms < min(KNOWN_MS, lane.rules.grace_ms // 4)
        return self.manifest if fresh else None


def read(
    lane: Lane,
    path: PartitionPath,
    offset: int,
    size_bytes_max: int,
    known: Known | None = None,
    catch_up: CatchUp = refresh,
) -> Work[Chunk | OutOfRange]:
    """Return the batch that holds ``offset`` and those behind it, at least one.

    With something ``known`` an offset that is there is read without asking again whether it is;
    that it is not there is never said without asking.

    Raises:
        NotFoundError: the topic was deleted.
        UnavailableError: the log moved on, again and again.
    """
    for start in range(STARTS_MAX):
        manifest = known.get(lane) if known is not None and not start else None
        asked = False
        if manifest is None or not _is_in(lane.snapshot, path, manifest, offset):
            asked = True
            boot_ms = lane.clock.boot_ms()
            manifest, now = yield from current(lane, path, catch_up)
            if known is not None:
                known.manifest, known.boot_ms = manifest, boot_ms
        else:
            now = _bounds(lane.known, path, manifest)
        if not now.log_start <= offset <= now.end:
            return OutOfRange(now)
        found: _Run | None = None
        at = offset
        try:
            if at < manifest.sealed_end:
                at, body = yield from _sealed(path, manifest, at, size_bytes_max)
                found = _run(body)
            if at >= manifest.sealed_end:
                if at == now.end:
                    if not asked:
                        continue
                    return Chunk(base_offset=at, next_offset=at, bounds=now)
                found = yield from _unsealed(lane, path, at, size_bytes_max)
        except NotFoundError:
            found = None
        if found is not None:
            first, next_, pieces = found
            return Chunk(base_offset=first, next_offset=next_, pieces=tuple(pieces), bounds=now)
        lane.moved_on()
        yield Wait(10 << min(start, 8))
    raise UnavailableError(
        f"{path} at {offset}: the partition changed during "
        f"{STARTS_MAX} attempts to read it; try again"
    )


def _is_in(known: Snapshot | None, path: PartitionPath, manifest: Manifest, offset: int) -> bool:
    if known is None:
        return False
    now = _bounds(known, path, manifest)
    return now.log_start <= offset < now.end


def _bounds(known: Snapshot, path: PartitionPath, manifest: Manifest) -> Bounds:
    end = max(known.fold.end(path.topic_partition), manifest.sealed_end)
    return Bounds(min(manifest.log_start, end), end)


_Run = tuple[int, int, Sequence[Bytes]]
"""Where batches begin and end, and their bytes."""


def _run(body: Bytes) -> _Run | None:
    """Return batches that have their offsets as a run; None: there are none."""
    if not body:
        return None
    first = decode_header(body)
    at, last = first.size, first
    while at < len(body):
        last = decode_header(body, at)
        at += last.size
    return first.base_offset, last.next_offset, (body,)


# ---------------------------------------------------------------------------- journal


def _unsealed(
    lane: Lane, path: PartitionPath, offset: int, size_bytes_max: int
) -> Work[_Run | None]:
    placed = yield from locate_run(lane, path.topic_partition, offset, size_bytes_max)
    if not placed:
        return None
    first = placed[0]
    if first.slice.write >= 0 or first.slice.length > size_bytes_max:
        # Not all of it, or not from there: the directory says more.
        held = first.known or (yield from read_bundle(lane, first.seq))
        if held is None:
            return None
        body = yield from read_slice(lane.number, held, first.slice, offset, size_bytes_max)
        found = _run(body)
    else:
        found = yield from _whole_slices(lane, placed, offset, size_bytes_max)
    if not (yield from floor_holds(lane, first.seq)):
        return None
    return found


def _whole_slices(
    lane: Lane, placed: list[LocatedSlice], offset: int, size_bytes_max: int
) -> Work[_Run | None]:
    """Return the batches of several slices, from the one that holds ``offset`` on."""
    here = list(takewhile(lambda one: one.slice.write < 0, placed))
    ops = [
        GetRange(
            bundle_key(lane.number, one.seq),
            one.slice.position,
            one.slice.position + one.slice.length,
        )
        for one in here
    ]
    answers = yield from ask_all(ops)
    found = Pieces(offset, size_bytes_max)
    for one, answer in zip(here, answers, strict=True):
        if found.is_full:
            break
        if isinstance(answer, LakelogError):
            if found.pieces:
                break  # What came before it is good; whoever reads on finds out.
            raise answer
        body = _all_bytes(answer, one.slice.length)
        found.add(body, one.slice.base_offset, one.epoch, where=answer.info.key)
    return (found.base_offset, found.next_offset, found.pieces) if found.size_bytes else None


def read_slice(
    lane: int, held: KnownBundle, slice_: Slice, offset: int = 0, size_bytes_max: int = 1 << 62
) -> Work[bytearray]:
    """Return batches of a slice from the one that holds ``offset``, each with its offset and epoch.

    Whoever calls this keeps the head-check rule afterwards.

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
    body = _all_bytes((yield from ask(GetRange(key, start, end))), end - start)
    return place_batches(body, base, held.bundle.epoch, where=key)


def _wanted(
    held: KnownBundle, slice_: Slice, offset: int, size_bytes_max: int
) -> tuple[int, int, int]:
    """Return path the wanted batches begin and end, and the offset of the first."""
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


def _sealed(
    path: PartitionPath, manifest: Manifest, offset: int, size_bytes_max: int
) -> Work[tuple[int, Bytes]]:
    """Return batches from ``offset`` on, or from the next segment that has any, and from path."""
    while offset < manifest.sealed_end:
        row = yield from find_row(path, manifest, offset)
        body = yield from _in_segment(path, row, offset, size_bytes_max)
        if body:
            return offset, body
        offset = row.next_offset
    return offset, b""


def _in_segment(
    path: PartitionPath, row: SegmentRow, offset: int, size_bytes_max: int
) -> Work[Bytes]:
    """Return batches of a segment from ``offset`` on; none, if those at its end are gone."""
    at = yield from _position(path, row, offset)
    if kafs.HEADER_BYTES < at < row.length - kafs.FOOTER_BYTES:
        try:
            body = yield from _batches(path, row, at, offset, size_bytes_max)
            if body and decode_header(body).base_offset <= offset:
                return body
        except (CorruptError, UnsupportedError):
            pass  # It was the index that led there. If it was not, the next try tells.
    return (yield from _batches(path, row, kafs.HEADER_BYTES, offset, size_bytes_max))


def _batches(path: PartitionPath, row: SegmentRow, at: int, offset: int, most: int) -> Work[Bytes]:
    """Return batches from the one that holds ``offset`` on; one of them begins at ``at``."""
    key = f"{path.prefix}{row.name}{kafs.FORMAT.suffix}"
    end = row.length - kafs.FOOTER_BYTES
    size = max(most, CHUNK_BYTES_MIN)
    while True:
        wanted = GetRange(key, row.position + at, row.position + min(at + size, end))
        data = _all_bytes((yield from ask(wanted)), wanted.end - wanted.start)
        skip, cut, more = _whole(data, offset, most)
        if cut > skip:
            body = share(data, skip, cut)
            for _ in batches.frames(body, where=key):
                pass  # Every batch matches its CRC, and their offsets rise.
            return body
        if at + len(data) >= end:
            if row.records < row.next_offset - row.base_offset:
                return b""
            raise CorruptError(
                f"it should hold offset {offset}, and does not: verify the topic", at=at, where=key
            )
        at, size = at + cut, max(more, size)


def _position(path: PartitionPath, row: SegmentRow, offset: int) -> Work[int]:
    """Return path to begin looking. An index is advisory: without a good one, at the beginning."""
    key = f"{path.prefix}{row.name}.index"
    try:
        found = yield from ask(GetRange(key, 0, kafs.INDEX_BYTES_MAX))
        return kafs.decode_index(found.body).position(offset)
    except (NotFoundError, CorruptError, UnsupportedError):
        return kafs.HEADER_BYTES


def _whole(data: bytes, offset: int, most: int) -> tuple[int, int, int]:
    """Return path the wanted batches begin and path the last whole one ends, and what is missing.

    They are one, or more if they fit into ``most`` bytes. With none of them whole the third is the
    size of the one that should be asked for.
    """
    skip = at = 0
    while len(data) - at >= HEADER_BYTES:
        header = decode_header(data, at)
        if len(data) - at < header.size:
            return skip, at, header.size
        if skip < at and at + header.size - skip > most:
            break
        at += header.size
        if header.next_offset <= offset:
            skip = at
    return skip, at, HEADER_BYTES


def _all_bytes(found: Fetched, length: int) -> bytes:
    """Return what was read, which must be so many bytes."""
    if len(found.body) != length:
        what = f"it has {len(found.body)} of the {length} bytes that the log has there: restore it"
        raise CorruptError(what, at=found.start, where=found.info.key)
    return found.body
