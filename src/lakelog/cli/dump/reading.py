"""A segment, from a file to what is shown of it.

    Shown     a batch or a block, with the records that were asked for
    Fault     something that is wrong, with the path of the file it is in

A batch whose CRC is wrong, or whose records cannot be trusted, is shown all the same, marked as
not valid, with what can be read of its records: who looks at a damaged file wants to see it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from crc32c import crc32c

from lakelog.cli.dump.files import OpenSegment
from lakelog.errors import CorruptError, UnsupportedError
from lakelog.formats import (
    EVERYTHING,
    NOTHING,
    Block,
    Damage,
    Range,
    Walk,
    batches,
    run,
    walk_blocks,
)
from lakelog.model import Record
from lakelog.records import (
    CRC_START,
    HEADER_BYTES,
    BatchHeader,
    decode_header,
    decode_records,
)

__all__ = ["Fault", "Shown", "Wanted", "read_segment"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What of a segment is asked for."""

    records: bool = True
    """Without them, batches are not looked into."""
    offset_from: int = 0
    offset_to: int | None = None
    """The first offset that is not asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A batch or a block."""

    position: int
    size: int
    base_offset: int
    next_offset: int
    count: int
    records: tuple[Record, ...]
    header: BatchHeader | None = None
    is_valid: bool = True
    """Whether the CRC is right, where there is one."""
    is_damaged: bool = False
    """Whether a Fault that tells what is wrong with it comes next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Something that is wrong with a file."""

    path: str
    position: int
    size: int
    """Bytes that are skipped because of it."""
    what: str
    is_end: bool = False
    """Whether it is a tail of the data file in which no whole batch stands."""


def read_segment(opened: OpenSegment, wanted: Wanted) -> Iterator[Shown | Fault]:
    """Yield what is asked for, in order, and all that is wrong with what was read."""
    for found in walk_blocks(_walk(opened, wanted), opened.give):
        if isinstance(found, Damage):
            yield from _damaged(opened, found, wanted)
            continue
        shown = _shown(found)
        if wanted.offset_to is not None and shown.base_offset >= wanted.offset_to:
            return
        if shown.next_offset > wanted.offset_from:
            yield _cut(shown, wanted)


def _walk(opened: OpenSegment, wanted: Wanted) -> Walk:
    """Return the cheapest walk that meets what is asked for."""
    has_batches = opened.file.format.name in ("kafkalog", "kafs")
    # Blocks that are not batches have no header that would tell of their records.
    span = EVERYTHING if wanted.records or not has_batches else NOTHING
    if has_batches and wanted.offset_from > opened.file.base_offset:
        found = _run_from(opened, wanted.offset_from)
        if found is not None:
            return batches.walk_run(found, span=span)
    return opened.file.format.walk(opened.files, span=span)


def _run_from(opened: OpenSegment, offset: int) -> batches.Run | None:
    """Return the batches from ``offset`` on; None when they are not to be found without a walk."""
    try:
        segment = run(opened.file.format.open(opened.files), opened.give)
        assert isinstance(segment, batches.BatchSegment)
        whole, at = segment.run, segment.start(offset)
        first = decode_header(opened.give(Range(whole.suffix, at, at + HEADER_BYTES)))
        # An index may lie. One that leads too far back only costs time.
        at = at if first.base_offset <= offset else whole.start
        frame = run(batches.find_offset(whole, at, offset), opened.give)
    except (CorruptError, UnsupportedError):
        return None
    if frame is None:
        return None
    return replace(whole, start=frame.position, base_offset=frame.header.base_offset)


def _shown(block: Block) -> Shown:
    header = block.header
    if header is None:
        base, following = block.records[0].offset, block.records[-1].offset + 1
    else:
        base, following = header.base_offset, header.next_offset
    return Shown(
        position=block.position,
        size=block.size,
        base_offset=base,
        next_offset=following,
        count=block.count,
        records=block.records,
        header=header,
    )


def _cut(shown: Shown, wanted: Wanted) -> Shown:
    """Leave out the records that are not asked for."""
    end = wanted.offset_to
    if shown.base_offset >= wanted.offset_from and (end is None or shown.next_offset <= end):
        return shown
    kept = tuple(
        record
        for record in shown.records
        if record.offset >= wanted.offset_from and (end is None or record.offset < end)
    )
    return replace(shown, records=kept)


def _damaged(opened: OpenSegment, damage: Damage, wanted: Wanted) -> Iterator[Shown | Fault]:
    """Yield what is left of a batch that is damaged, and then the damage."""
    header, at = damage.header, damage.position
    data = b""
    if header is not None:
        data = opened.give(Range(opened.file.format.suffix, at, at + header.size))
        if len(data) == header.size:
            yield _cut(_salvage(at, header, data, wanted), wanted)
    is_lost = header is None or len(data) < header.size
    is_end = is_lost and damage.size > 0 and at + damage.size == opened.size
    yield Fault(
        path=opened.file.beside(damage.error.where),
        position=damage.error.at,
        size=damage.size,
        what=damage.error.what,
        is_end=is_end,
    )


def _salvage(at: int, header: BatchHeader, data: bytes, wanted: Wanted) -> Shown:
    records: tuple[Record, ...] = ()
    if wanted.records:
        try:
            records = decode_records(header, data[HEADER_BYTES:])
        except (CorruptError, UnsupportedError):
            records = ()
    return Shown(
        position=at,
        size=header.size,
        base_offset=header.base_offset,
        next_offset=header.next_offset,
        count=header.count,
        records=records,
        header=header,
        is_valid=crc32c(data[CRC_START:]) == header.crc,
        is_damaged=True,
    )
