"""A segment on its way into a manifest: its bytes, its indexes, and the row that will name it.

    make_segment     runs of batches -> NewSegment: body, index, timeindex, row
    finish_segment   the body was put: read it back, put the indexes
    store_segment    put the body, then finish it

A row promises bytes. So before a manifest names a segment, it is read back and compared: a store
that lies is noticed while the source is still there.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from crc32c import crc32c

from lakelog.errors import CorruptError
from lakelog.formats import Bytes, kafkalog, kafs
from lakelog.manifests.cells import PartitionPath
from lakelog.manifests.manifest import SegmentRow
from lakelog.store import Get, Work, ask, put_advisory, put_named

__all__ = ["NewSegment", "finish_segment", "make_segment", "store_segment"]


@dataclass(frozen=True, slots=True)
class NewSegment:
    """A segment that has no name yet."""

    body: tuple[Bytes, ...]
    """In pieces: nothing of it was copied."""
    index: bytes
    timeindex: bytes
    row: SegmentRow


def make_segment(
    runs: Sequence[Bytes],
    *,
    base_offset: int,
    next_offset: int,
    appended_ms: int,
    generation: int = 0,
) -> NewSegment:
    """Return the segment that holds runs of batches, each with its offset.

    Raises:
        CorruptError, UnsupportedError: they are not runs of good batches, one behind the other.
    """
    body, placed = kafs.wrap(runs, created_ms=appended_ms, base_offset=base_offset)
    headers = [header for _, header in placed]
    _, times = kafkalog.encode_indexes(placed, base_offset=base_offset)
    row = SegmentRow(
        "",
        base_offset,
        next_offset,
        0,
        sum(map(len, body)),
        sum(header.count for header in headers),
        min(header.base_timestamp for header in headers),
        max(header.max_timestamp for header in headers),
        appended_ms,
        reduce(lambda crc, piece: crc32c(piece, crc), body, 0),
        sum({1 << header.codec for header in headers}),
        generation,
    )
    return NewSegment(body, kafs.encode_index(placed), times, row)


def store_segment(path: PartitionPath, made: NewSegment, name: str) -> Work[SegmentRow]:
    """Write a segment and its indexes under a name that only this write can have; return its row.

    Raises:
        CorruptError: what was put is not what is there.
        NotFoundError: it is gone.
        UnavailableError: no answer, time and again.
    """
    yield from put_named(f"{path.prefix}{name}.kfs", made.body)
    return (yield from finish_segment(path, made, name))


def finish_segment(path: PartitionPath, made: NewSegment, name: str) -> Work[SegmentRow]:
    """Read a segment back, put its indexes beside it, and return its row.

    Whoever reads it can do without the indexes, and reindex makes them again: one that the store
    does not take is left out.

    Raises:
        CorruptError: what was put is not what is there.
        NotFoundError: it is gone.
    """
    key = f"{path.prefix}{name}"
    found = yield from ask(Get(f"{key}.kfs", made.row.length))
    if crc32c(found.body) != made.row.crc:
        what = "it reads back as other bytes than were put: run lakelog doctor store"
        raise CorruptError(what, at=0, where=f"{key}.kfs")
    for suffix, index in ((".index", made.index), (".timeindex", made.timeindex)):
        yield from put_advisory(f"{key}{suffix}", index)
    return made.row._replace(name=name)
