"""Merge: small neighbouring segments become large ones.

    plan      the rows of a partition -> runs of neighbours that are worth it
    step      one run: an intent; read every segment and check it; one segment of all; read it back;
              then the manifest replaces the rows, all or none

A bundle holds a little of everything, so what is sealed soon is small. A reader pays for each
segment; a manifest has a row for each. Batches are copied as they are, unless whoever calls hands
in what makes fewer of them (``Repack``): a function of bytes that changes no record and no offset.
It is handed in because it is compiled, and brokers, which merge nothing, need not load that.

A step may be killed anywhere and run twice at once: rows are replaced only if all of them are still
there. Those that were replaced are deleted by the sweep, when every reader with an older manifest
has finished; what was written and not taken is swept as well.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from crc32c import crc32c

from lakelog.errors import CorruptError, NotFoundError
from lakelog.formats import kafs
from lakelog.manifests import (
    Intent,
    PartitionPath,
    SegmentRow,
    change_manifest,
    changes,
    make_segment,
    store_segment,
)
from lakelog.names import segment_stem
from lakelog.store import GetRange, Work, ask

__all__ = ["MergeSettings", "Repack", "Rewritten", "merge_run", "plan_merge", "read_segment"]

Repack = Callable[[bytes], bytes]
"""Batches in, and the same records in other batches out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeSettings:
    """What is worth merging."""

    segment_bytes: int = 128 << 20
    """About how large segments become. What has half of it is left alone."""
    rows_min: int = 8
    """So many neighbours are merged even if they are not enough for a segment of that size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewritten:
    """What a step has done."""

    before: int = 0
    """Segments that were replaced."""
    after: int = 0
    """Segments that replace them."""
    size_bytes: int = 0
    """Bytes of those that were replaced."""
    records: int = 0
    """Records of those that replace them."""
    abandoned: int = 0
    """Runs that somebody else changed first."""

    def __add__(self, other: "Rewritten") -> "Rewritten":
        return Rewritten(
            before=self.before + other.before,
            after=self.after + other.after,
            size_bytes=self.size_bytes + other.size_bytes,
            records=self.records + other.records,
            abandoned=self.abandoned + other.abandoned,
        )


def plan_merge(
    rows: Sequence[SegmentRow], settings: MergeSettings
) -> Iterator[tuple[SegmentRow, ...]]:
    """Yield runs of neighbours that are to become one segment each."""
    some: list[SegmentRow] = []
    size = 0
    for row in rows:
        small = 2 * row.length < settings.segment_bytes
        if some and (not small or size + row.length > settings.segment_bytes):
            yield from _worthy(some, size, settings)
            some, size = [], 0
        if small:
            some.append(row)
            size += row.length
    yield from _worthy(some, size, settings)


def _worthy(
    some: list[SegmentRow], size: int, settings: MergeSettings
) -> Iterator[tuple[SegmentRow, ...]]:
    full = 2 * size >= settings.segment_bytes and len(some) > 1
    if full or len(some) >= max(2, settings.rows_min):
        yield tuple(some)


def merge_run(
    where: PartitionPath,
    rows: tuple[SegmentRow, ...],
    write: bytes,
    *,
    since_ms: int,
    repack: Repack | None = None,
) -> Work[Rewritten]:
    """Merge neighbours into one segment; ``since_ms`` is now, by the store's clock.

    Raises:
        CorruptError: a segment is not what its row says, or repacking would have changed how many
            records there are. Nothing is changed.
    """
    id_ = write.hex()
    intent = Intent(id_, "merge", rows[0].base_offset, rows[-1].next_offset, since_ms)
    begun = yield from change_manifest(
        where, id_ + ":begin", lambda now: changes.begin(now, intent)
    )
    if intent not in begun.intents or not set(rows) <= set(begun.segments):
        return Rewritten(abandoned=1)
    try:
        bodies: list[memoryview] = []
        for row in rows:
            body = yield from read_segment(where, row)
            bodies.append(body)
        made = make_segment(
            bodies if repack is None else [repack(b"".join(bodies))],
            base_offset=rows[0].base_offset,
            next_offset=rows[-1].next_offset,
            appended_ms=max(row.appended_ms for row in rows),
            generation=max(row.generation for row in rows) + 1,
        )
        if repack is not None and made.row.records != (held := sum(row.records for row in rows)):
            what = f"{held} records would be repacked to {made.row.records}: verify the topic"
            raise CorruptError(what, at=0, where=f"{where.prefix}{rows[0].name}")
        name = segment_stem(rows[0].base_offset, write)
        new = yield from store_segment(where, made, name)
    except NotFoundError:
        return Rewritten(abandoned=1)  # The log moved on. The sweep takes what was written.
    after = yield from change_manifest(
        where, id_, lambda now: changes.rewrite(now, id_, rows, (new,))
    )
    if new not in after.segments and id_ not in after.writers:
        return Rewritten(abandoned=1)
    size = sum(row.length for row in rows)
    return Rewritten(before=len(rows), after=1, size_bytes=size, records=new.records)


def read_segment(where: PartitionPath, row: SegmentRow) -> Work[memoryview]:
    """Return the batches of a segment, which is checked against its row.

    Raises:
        NotFoundError: it is gone.
        CorruptError: it is another one.
    """
    key = f"{where.prefix}{row.name}{kafs.FORMAT.suffix}"
    found = yield from ask(GetRange(key, row.position, row.position + row.length))
    if len(found.body) != row.length or crc32c(found.body) != row.crc:
        what = f"{len(found.body)} bytes that are not what its manifest says: verify the topic"
        raise CorruptError(what, at=row.position, where=key)
    return memoryview(found.body)[kafs.HEADER_BYTES : -kafs.FOOTER_BYTES]
