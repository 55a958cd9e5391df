"""Seal: bundles become segments.

    a group of partitions   an intent in each manifest
                            one range of each bundle
                            look at the head
                            segments and their indexes, read back; several partitions at once
                            then each manifest names its own

``seal_batch`` is all of it. Where many tasks share the work, and a large partition too, whoever
leads it announces and commits (``begin_seal``, ``commit_seal``), and each task does what lies
between (``make_seal_batch``).

It may be killed anywhere and run twice at once: a manifest takes rows only where its history ends,
and what was written and not taken is left to the sweep. A key that exists is not adopted, even if
we made it ourselves a moment ago and lost the answer: another name is as good.
"""

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass

from lakelog.errors import CorruptError, LakelogError, NotFoundError, UnavailableError
from lakelog.journal import KnownBundle, Lane, TopicIdPartition, look, slices_of
from lakelog.log import place_batches, read_slice, refresh
from lakelog.maintenance.backlog import SealBatch, SealSettings
from lakelog.manifests import (
    Intent,
    Manifest,
    PartitionPath,
    SegmentRow,
    change_manifest,
    changes,
    finish_segment,
    make_segment,
    read_manifest,
)
from lakelog.names import bundle_key, segment_stem
from lakelog.store import (
    Body,
    Created,
    GetRange,
    Work,
    ask_all,
    put_if_absent,
    put_named,
    together,
)

__all__ = [
    "Sealed",
    "begin_seal",
    "commit_seal",
    "floor_unchanged",
    "make_seal_batch",
    "seal_batch",
]

WINDOW = 16
PARTITIONS_MAX = 16
AT_ONCE_BYTES = 64 << 20
"""Partitions are written side by side, as many at most, and while their segments are not larger
than this together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sealed:
    """What a step has done."""

    segments: int = 0
    size_bytes: int = 0
    records: int = 0
    abandoned: int = 0
    """Partitions that somebody else sealed first."""

    def __add__(self, other: "Sealed") -> "Sealed":
        return Sealed(
            segments=self.segments + other.segments,
            size_bytes=self.size_bytes + other.size_bytes,
            records=self.records + other.records,
            abandoned=self.abandoned + other.abandoned,
        )


def seal_batch(
    lane: Lane, group: SealBatch, settings: SealSettings, *, floor: int, since_ms: int
) -> Work[Sealed]:
    """Seal what a group holds beyond each manifest's sealed end.

    ``floor`` is the backlog's; ``since_ms`` is now, by the store's clock.
    """
    write = lane.ids()
    begun: dict[TopicIdPartition, Manifest] = {}
    for where in group.wheres:
        manifest = yield from begin_seal(lane, group, where, write, since_ms)
        if manifest is not None:
            begun[where.topic_partition] = manifest
    if not begun:
        return Sealed()
    try:
        ends = {topic_partition: manifest.sealed_end for topic_partition, manifest in begun.items()}
        pieces = yield from _read(lane.number, group, ends)
    except NotFoundError:
        return Sealed(abandoned=len(begun))  # The floor has passed. The sweep cancels the intents.
    if not (yield from floor_unchanged(lane, floor)):
        lane.counters["seal passed"] += 1
        return Sealed(abandoned=len(begun))
    flows = (
        _write(lane, where, begun[where.topic_partition], mine, settings, write)
        for where in group.wheres
        if (mine := pieces.get(where.topic_partition))
    )
    return sum((yield from together(flows, _at_once(pieces, settings))), Sealed())


def floor_unchanged(lane: Lane, floor: int) -> Work[bool]:
    """The head-check rule, after the last read and before the first manifest changes."""
    return (yield from look(lane)).head.floor <= floor


# ---------------------------------------------------------------------------- reading


def begin_seal(
    lane: Lane, group: SealBatch, where: PartitionPath, write_id: bytes, since_ms: int
) -> Work[Manifest | None]:
    """Announce what will be sealed of a partition; None if there is nothing."""
    write = write_id.hex()
    manifest = yield from read_manifest(where)
    slices = [one for held in group.bundles for one in slices_of(held, where.topic_partition)]
    # The first slice says where those end that the floor has passed without a sealer.
    ends = [one.base_offset for one in slices[:1]] + [one.next_offset for one in slices]
    unread = max((end for end in ends if end <= manifest.log_start), default=0)
    if unread > manifest.sealed_end:
        # Nobody may read these any more: history ends behind them, without them.
        lane.counters["seal skips"] += 1
        manifest = yield from change_manifest(
            where, write + ":skip", lambda now: changes.skip(now, write + ":skip", unread)
        )
    left = [one for one in slices if one.next_offset > manifest.sealed_end]
    if manifest.deleted or not left:
        return None
    if left[0].base_offset != manifest.sealed_end:
        if not group.follows:
            yield from _explain_gap(lane, where, manifest.sealed_end, left[0].base_offset)
        return None
    intent = Intent(write, "seal", left[0].base_offset, left[-1].next_offset, since_ms)
    after = yield from change_manifest(
        where, write + ":begin", lambda now: changes.begin(now, intent)
    )
    same = after.sealed_end == manifest.sealed_end and intent in after.intents
    return after if same else None


def _explain_gap(lane: Lane, where: PartitionPath, end: int, base: int) -> Work[None]:
    """A floor passes a deleted topic, sealed or not; nothing else explains a gap.

    Raises:
        CorruptError: it is not that.
    """
    yield from refresh(lane)
    manifest = yield from read_manifest(where)
    deleted = lane.known.fold.is_deleted(where.topic)
    if deleted or manifest.deleted or manifest.sealed_end != end:
        lane.counters["seal of a deleted topic"] += 1
        return
    what = f"history ends at {end}, the journal begins at {base}: run verify"
    raise CorruptError(what, at=0, where=where.prefix + "manifest")


@dataclass(frozen=True, slots=True)
class _Piece:
    """What one bundle holds of a partition, as it leaves the journal."""

    base_offset: int
    next_offset: int
    body: bytearray
    created_ms: int


def _read(
    lane: int, group: SealBatch, ends: Mapping[TopicIdPartition, int]
) -> Work[dict[TopicIdPartition, list[_Piece]]]:
    """Return the pieces of every partition that was begun, by one range of each bundle.

    ``ends`` says where the history of each ends.
    """
    first, last = min(ends), max(ends)
    pieces: dict[TopicIdPartition, list[_Piece]] = {topic_partition: [] for topic_partition in ends}
    for at in range(0, len(group.bundles), WINDOW):
        some = [
            (held, span)
            for held in group.bundles[at : at + WINDOW]
            if (span := _span(held, first, last))
        ]
        ops = tuple(GetRange(bundle_key(lane, held.bundle.seq), *span) for held, span in some)
        answers = (yield from ask_all(ops)) if ops else ()
        for (held, span), answer in zip(some, answers, strict=True):
            if isinstance(answer, LakelogError):
                raise answer
            _cut(lane, held, span[0], answer.body, ends, pieces)
    for held in group.bundles:
        yield from _staged(lane, held, ends, pieces)
    return pieces


def _span(
    held: KnownBundle, first: TopicIdPartition, last: TopicIdPartition
) -> tuple[int, int] | None:
    """Return the range of a bundle that holds the partitions from ``first`` to ``last``."""
    mine = [
        one for one in held.bundle.slices if first <= one.topic_partition <= last and one.write < 0
    ]
    return (mine[0].position, mine[-1].position + mine[-1].length) if mine else None


def _cut(
    lane: int,
    held: KnownBundle,
    start: int,
    body: bytes,
    ends: Mapping[TopicIdPartition, int],
    pieces: dict[TopicIdPartition, list[_Piece]],
) -> None:
    view, bundle = memoryview(body), held.bundle
    key = bundle_key(lane, bundle.seq)
    for one in bundle.slices:
        if one.next_offset <= ends.get(one.topic_partition, one.next_offset) or one.write >= 0:
            continue
        run = view[one.position - start : one.position - start + one.length]
        placed = place_batches(run, one.base_offset, bundle.epoch, where=key)
        if len(placed) != one.length:
            raise CorruptError(f"{len(placed)} bytes of {one.length}", at=one.position, where=key)
        pieces[one.topic_partition].append(
            _Piece(one.base_offset, one.next_offset, placed, bundle.created_ms)
        )


def _staged(
    lane: int,
    held: KnownBundle,
    ends: Mapping[TopicIdPartition, int],
    pieces: dict[TopicIdPartition, list[_Piece]],
) -> Work[None]:
    for one in held.bundle.slices:
        if one.write < 0 or one.next_offset <= ends.get(one.topic_partition, one.next_offset):
            continue
        body = yield from read_slice(lane, held, one)
        piece = _Piece(one.base_offset, one.next_offset, body, held.bundle.created_ms)
        pieces[one.topic_partition].append(piece)
        pieces[one.topic_partition].sort(key=lambda piece: piece.base_offset)


# ---------------------------------------------------------------------------- writing


def _write(
    lane: Lane,
    where: PartitionPath,
    manifest: Manifest,
    pieces: list[_Piece],
    settings: SealSettings,
    write: bytes,
) -> Work[Sealed]:
    try:
        rows = yield from _put_segments(where, pieces, settings, write, plain=not manifest.burnt)
        done = yield from commit_seal(where, rows, write)
    except NotFoundError:
        # We slept for so long that our intent was cancelled and our objects were swept.
        lane.counters["seal swept"] += 1
        return Sealed(abandoned=1)
    lane.counters["seal abandoned" if done.abandoned else "seal committed"] += 1
    return done


def make_seal_batch(
    lane: int,
    group: SealBatch,
    settings: SealSettings,
    ends: Mapping[TopicIdPartition, int],
    write: bytes,
    *,
    burnt: Container[TopicIdPartition] = (),
) -> Work[list[tuple[PartitionPath, list[SegmentRow]]]]:
    """Write the segments of a group, of those partitions that ``ends`` has, and return their rows.

    Whoever leads has announced them, and looks at the head before he commits them. ``burnt`` are
    the partitions in which plain names were burnt when they were announced; of the others the sweep
    knows the announcement, and leaves plain names within it alone. A task that is run twice finds
    the plain name taken the second time, and the manifest names what the attempt that counts made.

    Raises:
        NotFoundError: a bundle is gone: the floor has passed.
    """
    wanted = {
        where.topic_partition: ends[where.topic_partition]
        for where in group.wheres
        if where.topic_partition in ends
    }
    if not wanted:
        return []
    pieces = yield from _read(lane, group, wanted)
    wheres = [where for where in group.wheres if pieces.get(where.topic_partition)]
    flows = (
        _put_segments(
            where,
            pieces[where.topic_partition],
            settings,
            write,
            plain=where.topic_partition not in burnt,
        )
        for where in wheres
    )
    made = yield from together(flows, _at_once(pieces, settings))
    return list(zip(wheres, made, strict=True))


def commit_seal(where: PartitionPath, rows: Sequence[SegmentRow], write: bytes) -> Work[Sealed]:
    """Let a manifest name rows that follow one another, if its history ends where they begin."""
    id_, base = write.hex(), rows[0].base_offset
    after = yield from change_manifest(
        where, id_, lambda now: changes.seal(now, id_, base, tuple(rows))
    )
    if not set(rows) <= set(after.segments) and id_ not in after.writers:
        return Sealed(abandoned=1)
    return Sealed(
        segments=len(rows),
        size_bytes=sum(row.length for row in rows),
        records=sum(row.records for row in rows),
    )


def _at_once(pieces: Mapping[TopicIdPartition, list[_Piece]], settings: SealSettings) -> int:
    """Return how many partitions are written at a time, so that they need not much memory."""
    sizes = (sum(len(piece.body) for piece in some) for some in pieces.values())
    largest = min(max(sizes, default=0), settings.segment_bytes)
    return max(1, min(PARTITIONS_MAX, AT_ONCE_BYTES // max(largest, 1)))


def _put_segments(
    where: PartitionPath, pieces: list[_Piece], settings: SealSettings, write: bytes, *, plain: bool
) -> Work[list[SegmentRow]]:
    rows: list[SegmentRow] = []
    for some in _segments(pieces, settings.segment_bytes):
        row = yield from _put_segment(where, some, write, plain=plain)
        rows.append(row)
    return rows


def _segments(pieces: Sequence[_Piece], segment_bytes: int) -> Iterator[list[_Piece]]:
    some: list[_Piece] = []
    size = 0
    for piece in pieces:
        some.append(piece)
        size += len(piece.body)
        if size >= segment_bytes:
            yield some
            some, size = [], 0
    if some:
        yield some


def _put_segment(
    where: PartitionPath, pieces: list[_Piece], write: bytes, *, plain: bool
) -> Work[SegmentRow]:
    """Write one segment and its indexes, read it back, and return its row."""
    made = make_segment(
        [piece.body for piece in pieces],
        base_offset=pieces[0].base_offset,
        next_offset=pieces[-1].next_offset,
        appended_ms=max(piece.created_ms for piece in pieces),
    )
    name = yield from _create(where, made.row.base_offset, made.body, write, plain=plain)
    return (yield from finish_segment(where, made, name))


def _create(where: PartitionPath, base: int, body: Body, write: bytes, *, plain: bool) -> Work[str]:
    """Create a segment under a name that nobody else can have made, and return the name."""
    if plain:
        name = segment_stem(base)
        try:
            answer = yield from put_if_absent(f"{where.prefix}{name}.kfs", body)
            if isinstance(answer, Created):
                return name
        except UnavailableError:
            pass  # It may be there. Whose it is we need not know.
    name = segment_stem(base, write)
    yield from put_named(f"{where.prefix}{name}.kfs", body)
    return name
