"""Runs of record batches: what a KAFS segment and a Kafka log file have in common.

    run => batch*      one behind the other, in [start, end) of a file

A run has no frame of its own: each batch says how long it is, and the next one begins there. So one
wrong length loses everything behind it, unless the reader looks for the next batch. A walk does:
behind damage it goes on where the damaged batch says it ends, if a batch stands there; if not
it searches forward for a place where a plausible header carries a good CRC. The search does
work in proportion to the bytes it skips, plus at most ``SEARCH_BYTES_MAX`` bytes of checksums for
places that only looked like a batch; then it gives the rest up.

Offsets never go down from batch to batch. They may jump up by any amount: compaction takes records
and whole batches away. The CRC of a batch does not cover its base offset and its leader epoch, so
a changed base offset is noticed only when it makes the offsets go down.

At most one batch and one piece of the file are held at a time.
"""

import re
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, NamedTuple

from crc32c import crc32c

from lakelog.errors import CorruptError, UnsupportedError
from lakelog.formats.contract import CHUNK_BYTES, Range, Ranged, Window
from lakelog.model import Record
from lakelog.records import (
    BATCH_BYTES_MAX,
    CRC_START,
    HEADER_BYTES,
    LENGTH_END,
    MAGIC,
    MAGIC_AT,
    BatchHeader,
    Frame,
    check_crc,
    check_fits,
    decode_header,
    decode_records,
)

__all__ = [
    "SEARCH_BYTES_MAX",
    "Piece",
    "Reader",
    "Run",
    "find_offset",
    "find_time",
    "first_batch",
    "pieces",
    "read_records",
]

SEARCH_BYTES_MAX = 4 * BATCH_BYTES_MAX
"""How many bytes one walk checksums at places that turn out not to be batches."""

_SEARCH_PIECE_BYTES = 256 * 1024
_READ_PIECE_BYTES = 64 * 1024
_JUMP_MAX = 1 << 40  # How far ahead the search believes a base offset.

# The bytes of a header that have few values, as one pattern: the sign of the base offset, a length
# of at most 128 MiB, the magic, attributes below 128, the sign of the last offset delta. It says
# no to almost every position at the speed of the regular expression engine.
_MAYBE = re.compile(rb"[\x00-\x7f].{7}[\x00-\x08].{7}\x02.{4}\x00[\x00-\x7f][\x00-\x7f]", re.DOTALL)
assert MAGIC == 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Where a run lies, and how it may end."""

    suffix: str
    start: int
    end: int
    base_offset: int
    """No offset in the run is below it."""

    zeros_end: bool = False
    """Whether zeros up to the end are space set aside for batches to come."""

    torn_end: bool = False
    """Whether a writer may be at work, so that what follows the last whole batch is no damage."""


class Piece(NamedTuple):
    """Whole batches, one behind the other, as they stand in the file."""

    position: int
    data: memoryview


class Reader:
    """Reads a run batch by batch; holds the window, and what the search may still spend."""

    def __init__(self, run: Run, *, chunk_bytes: int = CHUNK_BYTES) -> None:
        self.run = run
        self.window = Window(run.suffix, run.end, chunk_bytes=chunk_bytes)
        self.next_offset = run.base_offset
        self.search_bytes = SEARCH_BYTES_MAX

    def header(self, at: int) -> Ranged[BatchHeader]:
        """Return the header at ``at``; the batch may reach past the end."""
        head = yield from self.window.read(at, at + HEADER_BYTES)
        try:
            return decode_header(head, where=self.run.suffix)
        except (CorruptError, UnsupportedError) as error:
            raise type(error)(error.what, at=at + error.at, where=error.where) from error

    def body(self, at: int, header: BatchHeader) -> Ranged[memoryview]:
        """Return the bytes of the batch at ``at``, whose CRC is right."""
        check_fits(header, self.run.end - at, at=at, where=self.run.suffix)
        data = yield from self.window.read(at, at + header.size)
        check_crc(header, data, at=at, where=self.run.suffix)
        return data

    def next(self, at: int) -> Ranged[BatchHeader | None]:
        """Return the header at ``at``, or None when the run ends there."""
        if at >= self.run.end:
            return None
        try:
            header = yield from self.header(at)
            check_fits(header, self.run.end - at, at=at, where=self.run.suffix)
        except (CorruptError, UnsupportedError) as error:
            if (yield from self.ends_at(at, error)):
                return None
            raise
        if header.base_offset < self.next_offset:
            raise self.corrupt(self.disorder(header), at)
        self.next_offset = header.next_offset
        return header

    def records(self, at: int, header: BatchHeader) -> Ranged[tuple[Record, ...] | None]:
        """Return the records of the batch at ``at``, or None when it is a torn end."""
        try:
            data = yield from self.body(at, header)
        except CorruptError as error:
            if (yield from self.ends_at(at, error)):
                return None
            raise
        return decode_records(header, data[HEADER_BYTES:], at=at, where=self.run.suffix)

    def is_torn(self, at: int, header: BatchHeader) -> Ranged[bool]:
        """Return whether the batch at ``at`` is on its way, and nothing good stands behind it."""
        try:
            yield from self.body(at, header)
        except CorruptError as error:
            return (yield from self.ends_at(at, error))
        return False

    def ends_at(self, at: int, error: CorruptError | UnsupportedError) -> Ranged[bool]:
        """Return whether the run simply ends at ``at``, where no good batch stands."""
        if (yield from self.zeros_from(at)):
            return True
        if not self.run.torn_end:
            return False
        if isinstance(error, UnsupportedError):
            # Of a batch on its way only the first bytes may be there, and zeros where its magic
            # will be. Any other magic, and a batch over the limit, is somebody's data.
            return (yield from self.zeros_from(at + MAGIC_AT))
        return (yield from self.search(at + 1)) == self.run.end

    def zeros_from(self, at: int) -> Ranged[bool]:
        """Return whether there is nothing but unused space from ``at`` on."""
        while self.run.zeros_end and at < self.run.end:
            piece = yield from self.window.read(at, at + _SEARCH_PIECE_BYTES)
            if not len(piece) or bytes(piece).strip(b"\0"):
                return False
            at += len(piece)
        return self.run.zeros_end

    def resume(self, at: int, header: BatchHeader | None) -> Ranged[int]:
        """Return where to go on behind a damaged batch at ``at``."""
        if header is not None:
            behind = at + header.size
            if behind == self.run.end:
                return behind
            if behind < self.run.end and (yield from self.plausible(behind)):
                return behind
        return (yield from self.search(at + 1))

    def plausible(self, at: int) -> Ranged[bool]:
        """Return whether a header, or unused space, stands at ``at``."""
        try:
            yield from self.header(at)
        except (CorruptError, UnsupportedError):
            return (yield from self.zeros_from(at))
        return True

    def search(self, at: int) -> Ranged[int]:
        """Return the first place from ``at`` on where a whole good batch stands, or the end."""
        end = self.run.end
        while at + HEADER_BYTES <= end:
            piece = yield from self.window.read(at, at + _SEARCH_PIECE_BYTES)
            if len(piece) < HEADER_BYTES:
                break
            whole = len(piece) - HEADER_BYTES + 1
            found = _MAYBE.search(piece)
            while found and found.start() < whole:
                if (yield from self.good(at + found.start())):
                    return at + found.start()
                if self.search_bytes <= 0:
                    return end
                found = _MAYBE.search(piece, found.start() + 1)
            at += whole
        return end

    def good(self, at: int) -> Ranged[bool]:
        """Return whether a whole batch with a good CRC and a likely base offset is at ``at``."""
        try:
            header = yield from self.header(at)
            if not 0 <= header.base_offset - self.next_offset < _JUMP_MAX:
                return False
            if header.size <= self.run.end - at:
                self.search_bytes -= header.size
            yield from self.body(at, header)
        except (CorruptError, UnsupportedError):
            return False
        self.search_bytes += header.size
        return True

    def corrupt(self, what: str, at: int) -> CorruptError:
        return CorruptError(what, at=at, where=self.run.suffix)

    def disorder(self, header: BatchHeader) -> str:
        return f"base offset {header.base_offset}, the batch before ends at {self.next_offset}"


def read_records(run: Run, at: int, offset: int, limit: int) -> Ranged[tuple[Record, ...]]:
    """Return at most ``limit`` records from ``offset`` on; ``at`` is where an index says to begin.

    Raises:
        CorruptError: what is read is damaged, or ``at`` is behind ``offset``.
        UnsupportedError: a batch this reader cannot read.
    """
    reader = _begin(run, at)
    led_to = at if at != run.start else None
    found: list[Record] = []
    while len(found) < limit:
        header = yield from reader.next(at)
        if header is None:
            break
        if at == led_to and header.base_offset > offset:
            raise reader.corrupt(
                f"the index leads here for offset {offset}, the batch begins at "
                f"{header.base_offset}",
                at,
            )
        if header.next_offset > offset:
            records = yield from reader.records(at, header)
            if records is None:
                break
            found += (record for record in records if record.offset >= offset)
        at += header.size
    return tuple(found[:limit])


def _begin(run: Run, at: int) -> Reader:
    reader = Reader(run, chunk_bytes=_READ_PIECE_BYTES)
    # The index of a run that still grows may know of batches that we do not see yet.
    if at >= run.end and at != run.start and not run.torn_end:
        raise reader.corrupt(f"the index leads here, the batches end at {run.end}", at)
    return reader


def first_batch(run: Run, at: int, position: int) -> Ranged[int]:
    """Return where the first batch begins that is not before ``position``, or the run's end.

    ``at`` is where some batch begins; only headers are read from there on.

    Raises:
        CorruptError, UnsupportedError: no batch stands where one must.
    """
    reader = _begin(run, at)
    while at < position:
        header = yield from reader.next(at)
        if header is None:
            return run.end
        at += header.size
    return at


def find_offset(run: Run, at: int, offset: int) -> Ranged[Frame | None]:
    """Return the first batch from ``at`` on that reaches past ``offset``, or None."""
    reader = _begin(run, at)
    while (header := (yield from reader.next(at))) is not None:
        if header.next_offset > offset:
            return Frame(at, header)
        at += header.size
    return None


def find_time(run: Run, at: int, timestamp: int) -> Ranged[int | None]:
    """Return the first offset from ``at`` on whose record is not older, or None.

    A batch is decoded only when its header claims a time that late.
    """
    reader = _begin(run, at)
    while (header := (yield from reader.next(at))) is not None:
        if header.max_timestamp >= timestamp:
            records = yield from reader.records(at, header)
            for record in records or ():
                if record.timestamp >= timestamp:
                    return record.offset
        at += header.size
    return None


def pieces(
    run: Run, *, at: int | None = None, bytes_max: int = CHUNK_BYTES
) -> Generator[Range | Piece, Any, None]:
    """Yield the run as pieces of whole batches, each of at most ``bytes_max`` bytes or one batch.

    Batches are framed and nothing more: neither CRC nor order nor records are looked at. This is
    the feed of a decoder that does all that itself. Only where the end may be torn are CRCs looked
    at, because nothing else tells such an end from a batch.

    Raises:
        CorruptError, UnsupportedError: no batch stands where one must; all before it was yielded.
    """
    reader = Reader(run, chunk_bytes=bytes_max)
    at = run.start if at is None else at
    while at < run.end:
        data = yield from reader.window.ahead(at, bytes_max)
        size, last = _framed(data, checked=run.torn_end)
        if run.torn_end and size:
            # What stands behind a torn end counts only if it goes on from here.
            reader.next_offset = decode_header(data, last).next_offset
        if size == 0:
            # One batch is larger than a piece, or this is no batch: the header knows.
            header = yield from reader.next(at)
            if header is None or (run.torn_end and (yield from reader.is_torn(at, header))):
                return
            size = header.size
            data = yield from reader.window.read(at, at + size)
        piece, data = Piece(at, data[:size]), memoryview(b"")
        yield piece
        del piece  # Nobody holds it when the next one is asked for, which takes its memory.
        at += size


def _framed(data: memoryview, *, checked: bool) -> tuple[int, int]:
    """Return how many bytes of ``data`` are whole batches, and where the last of them begins.

    With ``checked``, only those of a good CRC count.
    """
    at = last = 0
    while len(data) - at >= HEADER_BYTES:
        size = LENGTH_END + int.from_bytes(data[at + LENGTH_END - 4 : at + LENGTH_END], "big")
        if data[at + MAGIC_AT] != MAGIC or not HEADER_BYTES <= size <= len(data) - at:
            break
        if checked and not _is_sound(data[at : at + size]):
            break
        at, last = at + size, at
    return at, last


def _is_sound(batch: memoryview) -> bool:
    try:
        return decode_header(batch).crc == crc32c(batch[CRC_START:])
    except (CorruptError, UnsupportedError):
        return False
