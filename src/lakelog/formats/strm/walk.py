"""Every byte of an STRM segment, in order: blocks that are good, damage where they are not.

The footer is read first, because only the index knows the offset at which a block begins; then
the file goes by once, from its header to its end. What can be damaged, and what the walk does:

    header   version or flags unknown   nothing can be read
             anything else              reported; blocks are read all the same
    footer   unreadable                 the index is looked for by what is left of the footer
    index    not to be found            offsets follow from one another, if the header says that
                                        none is missing; else blocks cannot be placed
    block    unreadable                 skipped: to where it says it ends, if a block begins there,
                                        else to the next block the index knows

A block outside the span is not decompressed. Its last offset is then known only if no offset is
missing in the segment; if some are, the header's last offset and its times go unjudged.

The CRC of the whole file is judged last, and only when nothing else was wrong: it then tells of
damage in fields that nothing else guards, such as the topic hash.
"""

from bisect import bisect_right
from collections.abc import Generator, Iterator
from typing import Any, TypeVar
from zlib import crc32

from lakelog.errors import CorruptError, UnsupportedError
from lakelog.formats.contract import (
    CHUNK_BYTES,
    EVERYTHING,
    SWEEP_BYTES,
    Block,
    Damage,
    Files,
    Range,
    Span,
    Walk,
    Window,
)
from lakelog.formats.strm.blocks import check_block, check_times, decode_records, open_block
from lakelog.formats.strm.layout import (
    BLOCK,
    COUNT,
    CRC_BYTES_BEHIND,
    ENTRY,
    FOOTER,
    HEADER,
    SIZE_MIN,
    SUFFIX,
    Footer,
    IndexEntry,
    SegmentHeader,
    decode_block_header,
    decode_footer,
    header_faults,
    unpack_header,
)
from lakelog.formats.strm.tail import find_index, read_index, read_tail

__all__ = ["walk"]

T = TypeVar("T")
_Step = Generator[Range | Block | Damage, Any, T]


def walk(files: Files, *, span: Span = EVERYTHING) -> Walk:
    """Yield every block of a segment, and what is wrong with it.

    Records are read of blocks that begin in ``span``.
    """
    size = files.sizes.get(SUFFIX, 0)
    if size < SIZE_MIN:
        error = CorruptError(f"{size} bytes, a segment has {SIZE_MIN}", at=size, where=SUFFIX)
        yield Damage(error=error, position=0, size=size)
        return
    yield from _Walker(files.base_offset, size, span).run()


class _Walker:
    """One walk. State that lives from block to block, and nothing else."""

    def __init__(self, base_offset: int, size: int, span: Span) -> None:
        self.base_offset = base_offset
        self.size = size
        self.span = span
        is_all = span[0] <= HEADER.size and size <= span[1]
        self.window = Window(SUFFIX, size, chunk_bytes=CHUNK_BYTES if is_all else SWEEP_BYTES)
        self.header: SegmentHeader
        self.footer: Footer | None = None
        self.entries: tuple[IndexEntry, ...] = ()
        self.offsets: dict[int, int] = {}
        """Of the first record, by position of the block."""
        self.end = size
        """Where blocks end: at the index, where it is known."""
        self.at = HEADER.size
        self.seen: set[int] = set()
        self.count = 0
        self.next_offset: int | None = None
        """Where the next block begins, as far as it follows from the one before."""
        self.last_offset = -1
        """Of the last block; where its records are not looked at, the least it can be."""
        self.is_exact = True
        self.claimed_end: int | None = None
        self.crc = self.crc_at = 0
        self.is_damaged = self.has_lost = self.has_wrong_times = False

    def run(self) -> Walk:
        if not (yield from self._read_tail()) or not (yield from self._read_header()):
            return
        while self.at < self.end and not self._is_past_blocks():
            yield from self._next_block()
        yield from self._check_totals()
        yield from self._check_crc()

    def _damage(self, error: CorruptError | UnsupportedError) -> Damage:
        self.is_damaged = True
        return Damage(error=error, position=error.at)

    def _loss(self, error: CorruptError | UnsupportedError, start: int, end: int) -> Damage:
        self.is_damaged = self.has_lost = True
        return Damage(error=error, position=start, size=end - start)

    # ------------------------------------------------------------------------ both ends

    def _read_tail(self) -> _Step[bool]:
        """Read footer and index; return whether there is any point in going on."""
        tail = yield from read_tail(self.size)
        try:
            self.footer = decode_footer(tail[-FOOTER.size :], size=self.size)
            self.end = self.footer.index_position
            self.entries = yield from read_index(self.footer, tail, self.size)
        except UnsupportedError as error:
            yield self._loss(error, 0, self.size)
            return False
        except CorruptError as error:
            yield self._damage(error)
            found = yield from find_index(tail, self.size)
            if found is not None:
                self.end, self.entries = found
        self.offsets = {entry.position: entry.offset for entry in self.entries}
        return True

    def _read_header(self) -> _Step[bool]:
        data = yield from self.window.read(0, HEADER.size)
        if len(data) < HEADER.size:
            yield self._loss(self._cut(len(data)), 0, self.size)
            return False
        self.header = header = unpack_header(data)
        yield from self._add_to_crc(HEADER.size)
        for fault in header_faults(header):
            if isinstance(fault, UnsupportedError):
                # Another version or flag means that no block can be read.
                yield self._loss(fault, 0, self.size)
            else:
                yield self._damage(fault)
        if header.is_readable and header.base_offset != self.base_offset:
            yield self._damage(
                CorruptError(
                    f"base offset {header.base_offset}, the name says {self.base_offset}",
                    at=20,
                    where=SUFFIX,
                )
            )
        self.next_offset = header.base_offset
        return header.is_readable

    def _cut(self, at: int) -> CorruptError:
        return CorruptError(f"the file ends here, not at {self.size}", at=at, where=SUFFIX)

    # ------------------------------------------------------------------------ blocks

    def _is_past_blocks(self) -> bool:
        """Whether only a lost index can follow: where it begins, only the header's count tells."""
        return self.end == self.size and self.count >= self.header.count

    def _next_block(self) -> Walk:
        start = self.at
        self.seen.add(start)
        try:
            block = yield from self._read_block(start)
        except (CorruptError, UnsupportedError) as error:
            self.at = self._resume_at(start)
            self.next_offset = None
            yield self._loss(error, start, self.at)
        else:
            self.at = start + block.size
            self.count += block.count
            self.next_offset = self.last_offset + 1 if self.header.is_dense else None
            yield block
            yield from self._check_times(block)
        yield from self._add_to_crc(self.at)

    def _read_block(self, start: int) -> _Step[Block]:
        self.claimed_end = None
        room = self.end - start
        head = yield from self.window.read(start, start + BLOCK.size)
        size = decode_block_header(head, at=start, room=room).size
        self.claimed_end = start + size
        data = yield from self.window.read(start, start + size)
        base = self.offsets.get(start)
        if base is None:
            base = self.next_offset
            if self.entries:
                yield self._damage(
                    CorruptError(
                        "the index does not know of the block that begins here",
                        at=start,
                        where=SUFFIX,
                    )
                )
        if base is None:
            raise CorruptError(
                "the offsets of this block cannot be told without the index", at=start, where=SUFFIX
            )
        if base <= self.last_offset:
            raise CorruptError(
                f"a block with offset {base} after {self.last_offset}", at=start, where=SUFFIX
            )
        self.is_exact = self.span[0] <= start < self.span[1]
        if not self.is_exact:
            count = check_block(data, position=start, room=room).count
            self.last_offset = base + count - 1
            next_offset = self.last_offset + 1 if self.header.is_dense else 0
            if start + size == self.end:
                next_offset = self.header.max_offset + 1  # The CRC of the file covers it.
            return Block(position=start, size=size, count=count, next_offset=next_offset)
        raw = open_block(data, self.header, position=start, base_offset=base, room=room)
        records = decode_records(raw, self.header)
        self.last_offset = records[-1].offset
        return Block(
            position=start,
            size=size,
            count=len(records),
            records=records,
            next_offset=self.last_offset + 1,
        )

    def _resume_at(self, start: int) -> int:
        """Return where to go on behind a bad block."""
        claimed = self.claimed_end
        if claimed is not None and (
            not self.entries or claimed in self.offsets or claimed == self.end
        ):
            return claimed
        later = bisect_right(self.entries, start, key=lambda entry: entry.position)
        return self.entries[later].position if later < len(self.entries) else self.end

    def _check_times(self, block: Block) -> Iterator[Damage]:
        if self.has_wrong_times:
            return
        try:
            check_times(block.records, self.header, position=block.position)
        except CorruptError as error:
            self.has_wrong_times = True
            yield self._damage(error)

    # ------------------------------------------------------------------------ the whole

    def _check_totals(self) -> Iterator[Damage]:
        header = self.header
        for number, entry in enumerate(self.entries):
            if entry.position not in self.seen:
                what = f"no block begins at {entry.position}"
                at = self.end + COUNT.size + number * ENTRY.size
                yield self._damage(CorruptError(what, at=at, where=SUFFIX))
        if self.has_lost:
            return
        if self.entries and self.entries[0].offset != header.base_offset:
            yield self._damage(
                CorruptError(
                    f"base offset {header.base_offset}, the index says {self.entries[0].offset}",
                    at=20,
                    where=SUFFIX,
                )
            )
        # The least that the last offset can be is also what it is, if none is missing.
        is_known = self.is_exact or header.is_dense or self.last_offset > header.max_offset
        if is_known and self.last_offset != header.max_offset:
            yield self._damage(
                CorruptError(
                    f"last offset {header.max_offset}, the last record has {self.last_offset}",
                    at=28,
                    where=SUFFIX,
                )
            )
        if self.count != header.count:
            yield self._damage(
                CorruptError(
                    f"{header.count} records are promised, {self.count} are there",
                    at=36,
                    where=SUFFIX,
                )
            )

    def _add_to_crc(self, end: int) -> _Step[None]:
        while self.crc_at < end:
            data = yield from self.window.read(self.crc_at, min(end, self.crc_at + CHUNK_BYTES))
            if not data:
                return
            self.crc = crc32(data, self.crc)
            self.crc_at += len(data)

    def _check_crc(self) -> Walk:
        if self.is_damaged or self.footer is None:
            return
        at = self.size - CRC_BYTES_BEHIND
        yield from self._add_to_crc(at)
        if self.crc != self.footer.crc:
            yield self._damage(
                CorruptError(
                    f"CRC-32 of the file is {self.crc}, the footer says {self.footer.crc}",
                    at=at,
                    where=SUFFIX,
                )
            )
