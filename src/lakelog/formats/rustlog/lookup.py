"""A few records of a RustLog segment: through the index to the nearest record, then forward.

The index is read whole when the segment is opened; it is a thousandth of the log. From the
greatest entry at or below the offset asked for, at most 99 records lie in between. Offsets may
have gaps, so what is returned begins with the first record at or after that offset.

The index knows no times, and times may go down: a lookup by time reads headers from the start.
"""

from bisect import bisect_right
from dataclasses import dataclass

from lakelog.errors import CorruptError
from lakelog.formats.contract import Files, Ranged, Window, fetch, fetch_file
from lakelog.formats.rustlog.layout import (
    ENTRY,
    INDEX_BYTES_MAX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    RECORD,
    SNIFF_BYTES,
    IndexEntry,
    RecordHeader,
    decode_index,
    read_record_header,
    refuse_untimed,
)
from lakelog.formats.rustlog.walk import US_PER_MS, to_record
from lakelog.model import Record

__all__ = ["RustLogSegment", "open_segment"]

READ_BYTES = 64 * 1024
"""What a lookup asks for at a time: about 100 records of half a kilobyte."""


def open_segment(files: Files) -> Ranged["RustLogSegment"]:
    """Read the index, if there is one, and the first bytes of the log.

    Raises:
        CorruptError: there is no log, or an index that cannot be the log's.
        UnsupportedError: a log without timestamps, or an index over the limit.
    """
    if LOG_SUFFIX not in files.sizes:
        raise CorruptError("there is no log", at=0, where=LOG_SUFFIX)
    size = files.sizes[LOG_SUFFIX]
    refuse_untimed((yield from fetch(LOG_SUFFIX, 0, min(size, SNIFF_BYTES))), files.base_offset)
    index = (yield from fetch_file(files, INDEX_SUFFIX, INDEX_BYTES_MAX)) or b""
    entries = decode_index(index, base_offset=files.base_offset, log_size=size, active=files.active)
    return RustLogSegment(
        base_offset=files.base_offset, size=size, active=files.active, entries=entries
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RustLogSegment:
    """An opened segment."""

    base_offset: int
    size: int
    """Bytes of the log when it was opened."""

    active: bool
    entries: tuple[IndexEntry, ...]

    def read_from(self, offset: int, limit: int) -> Ranged[tuple[Record, ...]]:
        """Return at most ``limit`` records from the first one at or after ``offset``.

        Raises:
            CorruptError: what it met is no record, or not the one the index promised.
            UnsupportedError: a payload over the limit.
        """
        found: list[Record] = []
        log = Window(LOG_SUFFIX, self.size, chunk_bytes=READ_BYTES)
        at, offset_min = yield from self.seek(log, offset)
        while len(found) < limit:
            header = yield from self._header(log, at, offset_min)
            if header is None:
                break
            if header.offset >= offset:
                payload = yield from log.read(at + RECORD.size, at + header.size)
                if len(payload) < header.length:
                    raise self._cut(at + RECORD.size + len(payload))
                found.append(to_record(header, bytes(payload), at=at))
            at, offset_min = at + header.size, header.offset + 1
        return tuple(found)

    def seek(self, log: Window, offset: int) -> Ranged[tuple[int, int]]:
        """Return where to begin looking for ``offset``, and the least offset that may stand there.

        Raises:
            CorruptError: the index promises a record there, and another one stands there.
        """
        number = bisect_right(self.entries, offset, key=lambda entry: entry.offset) - 1
        return (yield from self._start(log, number))

    def seek_record(self, log: Window, position: int) -> Ranged[tuple[int, int]]:
        """Return where the first record begins that is not before ``position``, and its least
        offset; the end of the log when there is none.

        Raises:
            CorruptError: what it met is no record, or not the one the index promised.
        """
        number = bisect_right(self.entries, position, key=lambda entry: entry.position) - 1
        at, offset_min = yield from self._start(log, number)
        while at < position:
            header = yield from self._header(log, at, offset_min)
            if header is None:
                return self.size, offset_min
            at, offset_min = at + header.size, header.offset + 1
        return at, offset_min

    def offset_at(self, timestamp: int) -> Ranged[int | None]:
        """Return the first offset whose record is not older than ``timestamp``, or None.

        Raises:
            CorruptError: what it met is no record.
            UnsupportedError: a payload over the limit.
        """
        log = Window(LOG_SUFFIX, self.size, chunk_bytes=READ_BYTES)
        at, offset_min = 0, self.base_offset
        while (header := (yield from self._header(log, at, offset_min))) is not None:
            if header.timestamp_us // US_PER_MS >= timestamp:
                return header.offset
            at, offset_min = at + header.size, header.offset + 1
        return None

    def _header(self, log: Window, at: int, offset_min: int) -> Ranged[RecordHeader | None]:
        """Return the header at ``at``, or None behind the last whole record."""
        if at == self.size:
            return None
        return (yield from read_record_header(log, at, offset_min=offset_min, active=self.active))

    def _start(self, log: Window, number: int) -> Ranged[tuple[int, int]]:
        """Return where entry ``number`` leads, and the offset there; -1: to the first record."""
        if number < 0:
            return 0, self.base_offset
        entry = self.entries[number]
        head = yield from log.read(entry.position, entry.position + RECORD.size)
        if len(head) < RECORD.size:
            raise self._cut(entry.position + len(head))
        if RECORD.unpack(head)[1] != entry.offset:
            raise CorruptError(
                f"no record with offset {entry.offset} begins at {entry.position} of the log; "
                "rebuild it",
                at=number * ENTRY.size,
                where=INDEX_SUFFIX,
            )
        return entry.position, entry.offset

    def _cut(self, at: int) -> CorruptError:
        return CorruptError(f"the file ends here, not at {self.size}", at=at, where=LOG_SUFFIX)
