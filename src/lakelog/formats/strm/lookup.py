"""A few records of an STRM segment, by ranges: two small requests to open it, one per block read.

The index gives a block's exact extent, so no request is ever wider than what it needs. Blocks do
not carry times, only the whole segment does: a lookup by time is answered from the header where
it can be, and else reads blocks from the first on.
"""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from lakelog.errors import CorruptError, UnsupportedError
from lakelog.formats.contract import Files, Ranged, fetch
from lakelog.formats.strm.blocks import RawBlock, check_times, decode_records, open_block
from lakelog.formats.strm.layout import (
    BLOCK,
    COMPRESSED_BYTES_MAX,
    FOOTER,
    HEADER,
    SIZE_MIN,
    SUFFIX,
    Footer,
    IndexEntry,
    SegmentHeader,
    decode_footer,
    decode_header,
)
from lakelog.formats.strm.tail import read_index, read_tail
from lakelog.model import Record

__all__ = ["StrmSegment", "open_segment"]


def open_segment(files: Files) -> Ranged["StrmSegment"]:
    """Read header, footer and index.

    The CRC of the file is not checked, for that would mean to read all of it; each block has its
    own, which is.

    Raises:
        CorruptError: no correct writer made these bytes.
        UnsupportedError: another version, codec or flag, a limit, or a StreamHouse segment.
    """
    size = files.sizes.get(SUFFIX, 0)
    if size < SIZE_MIN:
        raise CorruptError(f"{size} bytes, a segment has {SIZE_MIN}", at=size, where=SUFFIX)
    tail = yield from read_tail(size)
    footer = decode_footer(tail[-FOOTER.size :], size=size)
    header = decode_header((yield from fetch(SUFFIX, 0, HEADER.size)))
    if header.base_offset != files.base_offset:
        raise CorruptError(
            f"base offset {header.base_offset}, the name says {files.base_offset}",
            at=20,
            where=SUFFIX,
        )
    entries = yield from read_index(footer, tail, size)
    if entries[0].offset != header.base_offset:
        raise CorruptError(
            f"base offset {header.base_offset}, the index says {entries[0].offset}",
            at=20,
            where=SUFFIX,
        )
    return StrmSegment(header=header, footer=footer, entries=entries)


@dataclass(frozen=True, slots=True, kw_only=True)
class StrmSegment:
    """An opened segment."""

    header: SegmentHeader
    footer: Footer
    entries: tuple[IndexEntry, ...]
    """One for each block, in order."""

    @property
    def base_offset(self) -> int:
        return self.header.base_offset

    def read_from(self, offset: int, limit: int) -> Ranged[tuple[Record, ...]]:
        """Return at most ``limit`` records from the first one at or after ``offset``.

        Raises:
            CorruptError: a block is not what the index, its header or its checksum says.
            UnsupportedError: a block is over a limit.
        """
        found: list[Record] = []
        if offset > self.header.max_offset:
            return ()
        for number in self.numbers_from(offset):
            if len(found) >= limit:
                break
            records = yield from self._read_records(number)
            wanted = (record for record in records if record.offset >= offset)
            found += islice(wanted, limit - len(found))
        return tuple(found)

    def offset_at(self, timestamp: int) -> Ranged[int | None]:
        """Return the first offset whose record is not older than ``timestamp``, or None.

        Raises:
            CorruptError: a block is not what the index, its header or its checksum says.
            UnsupportedError: a block is over a limit.
        """
        if self.header.knows_times:
            if timestamp > self.header.max_timestamp:
                return None
            if timestamp <= self.header.min_timestamp:
                return self.base_offset
        for number in range(len(self.entries)):
            for record in (yield from self._read_records(number)):
                if record.timestamp >= timestamp:
                    return record.offset
        return None

    def read_block(self, number: int) -> Ranged[RawBlock]:
        """Return the block of index entry ``number``, decompressed, its checksum checked.

        Raises:
            CorruptError: it is not what the index, its header or its checksum says.
            UnsupportedError: it is over a limit.
        """
        start, end = self.entries[number].position, self._end_of(number)
        if end - start > BLOCK.size + COMPRESSED_BYTES_MAX:
            raise UnsupportedError(
                f"a block of {end - start} bytes is over the limit of {COMPRESSED_BYTES_MAX}",
                at=start,
                where=SUFFIX,
            )
        data = yield from fetch(SUFFIX, start, end)
        block = open_block(
            data, self.header, position=start, base_offset=self.entries[number].offset
        )
        if block.size != end - start:
            raise CorruptError(
                f"a block of {block.size} bytes, the index says {end - start}",
                at=start,
                where=SUFFIX,
            )
        return block

    def read_records(self, block: RawBlock, number: int) -> tuple[Record, ...]:
        """Return the records of a block, checked against the header and the next block's place.

        Raises:
            CorruptError: they are not what a writer makes, or not where they may be.
        """
        records = decode_records(block, self.header)
        check_times(records, self.header, position=block.position)
        end = self.end_offset(number)
        if records[-1].offset >= end:
            raise CorruptError(
                f"offset {records[-1].offset} in a block that ends before {end}",
                at=block.position,
                where=SUFFIX,
            )
        return records

    def end_offset(self, number: int) -> int:
        """Return the offset before which block ``number`` ends."""
        if number + 1 == len(self.entries):
            return self.header.max_offset + 1
        return self.entries[number + 1].offset

    def _read_records(self, number: int) -> Ranged[tuple[Record, ...]]:
        block = yield from self.read_block(number)
        return self.read_records(block, number)

    def numbers_from(self, offset: int) -> Iterator[int]:
        """Return the numbers of the blocks that may hold ``offset`` and later ones."""
        first = bisect_right(self.entries, offset, key=lambda entry: entry.offset) - 1
        return iter(range(max(first, 0), len(self.entries)))

    def _end_of(self, number: int) -> int:
        if number + 1 < len(self.entries):
            return self.entries[number + 1].position
        return self.footer.index_position
