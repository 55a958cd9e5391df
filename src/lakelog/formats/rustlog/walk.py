"""Every byte of a RustLog segment, in order, and its index beside it.

Nothing in a log marks where a record begins, so behind damage only the index can help: the walk
goes on at the next entry under which the promised record stands. Records in between are lost with
the damaged one. (Behind a record that is only too large, the walk goes on at once.)

Log and index go by once, side by side. Of the index only the first fault is reported: it can be
built again from the log, so to know of more would not help anybody.

Outside the span only headers are looked at, up to the next record that the index knows, or that is
not as it must be: that one is read with care.
"""

from collections.abc import Iterator

from lakelog.errors import CorruptError, UnsupportedError
from lakelog.formats.contract import (
    CHUNK_BYTES,
    EVERYTHING,
    OFFSET_MAX,
    SWEEP_BYTES,
    Block,
    Damage,
    Files,
    Ranged,
    Span,
    Walk,
    Window,
)
from lakelog.formats.rustlog.envelope import decode_envelope, is_envelope
from lakelog.formats.rustlog.layout import (
    ENTRY,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    PAYLOAD_BYTES_MAX,
    RECORD,
    SNIFF_BYTES,
    IndexEntry,
    RecordHeader,
    read_record_header,
    refuse_untimed,
)
from lakelog.model import Header, Record

__all__ = ["to_record", "walk"]

US_PER_MS = 1000
STRIDE_BYTES = 512 * 1024


def to_record(header: RecordHeader, payload: bytes, *, at: int) -> Record:
    """Return a record as the rest of the house knows it: the time is in whole milliseconds.

    Raises:
        CorruptError, UnsupportedError: its payload is an envelope that cannot be opened.
    """
    key: bytes | None = None
    value: bytes | None = payload
    headers: tuple[Header, ...] = ()
    if is_envelope(payload):
        key, value, headers = decode_envelope(
            payload, offset=header.offset, timestamp_us=header.timestamp_us, at=at
        )
    return Record(
        offset=header.offset,
        timestamp=header.timestamp_us // US_PER_MS,
        key=key,
        value=value,
        headers=headers,
    )


def walk(files: Files, *, span: Span = EVERYTHING) -> Walk:
    """Yield every record of a segment, and what is wrong with it.

    Payloads are read of records that begin in ``span``.
    """
    if LOG_SUFFIX not in files.sizes:
        error = CorruptError("there is no log", at=0, where=LOG_SUFFIX)
        yield Damage(error=error, position=0)
        return
    yield from _Walker(files, span).run()


class _Walker:
    """One walk. State that lives from record to record, and nothing else."""

    def __init__(self, files: Files, span: Span) -> None:
        self.base_offset = files.base_offset
        self.active = files.active
        self.size = files.sizes[LOG_SUFFIX]
        self.span = span
        is_all = span[0] == 0 and self.size <= span[1]
        chunk_bytes = CHUNK_BYTES if is_all else SWEEP_BYTES
        self.log = Window(LOG_SUFFIX, self.size, chunk_bytes=chunk_bytes)
        self.at = 0
        self.offset_min = files.base_offset
        self.index = Window(INDEX_SUFFIX, files.sizes.get(INDEX_SUFFIX, 0))
        self.index_at = 0
        """Behind ``entry``, the one that the log has not reached yet."""
        self.entry: IndexEntry | None = None
        self.has_bad_index = False

    def run(self) -> Walk:
        head = yield from self.log.read(0, SNIFF_BYTES)
        try:
            refuse_untimed(head, self.base_offset)
        except UnsupportedError as error:
            yield Damage(error=error, position=0, size=self.size)
            return
        rest = self.index.size % ENTRY.size
        if rest and not self.active:
            what = f"{rest} bytes behind the last entry"
            yield from self._index_damage(what, self.index.size - rest)
        yield from self._next_entry()
        while self.at < self.size:
            if blocks := (yield from self._sweep()):
                yield from blocks
                continue
            start = self.at
            try:
                header = yield from read_record_header(
                    self.log, start, offset_min=self.offset_min, active=self.active
                )
                if header is None:
                    break
                block = yield from self._read_record(start, header)
            except (CorruptError, UnsupportedError) as error:
                yield from self._resume_behind(start, error)
                yield Damage(error=error, position=start, size=self.at - start)
                continue
            yield from self._check_entry(start, header.offset)
            yield block
            self.at, self.offset_min = start + block.size, header.offset + 1
        yield from self._check_rest()

    def _sweep(self) -> Ranged[list[Block]]:
        """Pass good records outside the span, as many as are at hand, and return them.

        None, where a record is to be read, or held against the index, or something is wrong.
        """
        start, end = self.at, min(self.size, self.at + STRIDE_BYTES)
        if self.span[0] <= start < self.span[1]:
            return []
        if start < self.span[0]:
            end = min(end, self.span[0])
        if self.entry is not None:
            end = min(end, self.entry.position)
        blocks: list[Block] = []
        if start >= end:
            return blocks
        data = yield from self.log.ahead(start, RECORD.size)
        at, room, offset_min = 0, len(data), self.offset_min
        stop = min(end - start, room - RECORD.size + 1)
        while at < stop:
            length, offset, _ = RECORD.unpack_from(data, at)
            size = RECORD.size + length
            if length > PAYLOAD_BYTES_MAX or size > room - at:
                break
            if not offset_min <= offset <= OFFSET_MAX:
                break
            # Block's own constructor would take as long as all else here.
            blocks.append(tuple.__new__(Block, (start + at, size, 1, (), None, offset + 1)))
            at += size
            offset_min = offset + 1
        self.at, self.offset_min = start + at, offset_min
        return blocks

    def _read_record(self, start: int, header: RecordHeader) -> Ranged[Block]:
        data = yield from self.log.read(start, start + header.size)
        if len(data) < header.size:
            raise CorruptError(
                f"the file ends here, not at {self.size}", at=start + len(data), where=LOG_SUFFIX
            )
        records: tuple[Record, ...] = ()
        if self.span[0] <= start < self.span[1]:
            records = (to_record(header, bytes(data[RECORD.size :]), at=start),)
        return Block(
            position=start,
            size=header.size,
            count=1,
            records=records,
            next_offset=header.offset + 1,
        )

    def _resume_behind(self, start: int, error: CorruptError | UnsupportedError) -> Walk:
        """Move to the next place where the index promises a record and one stands."""
        if isinstance(error, UnsupportedError):
            # The record is whole, only too large for us: the next one stands right behind it.
            head = yield from self.log.read(start, start + RECORD.size)
            length, offset, _ = RECORD.unpack(head)
            yield from self._check_entry(start, offset)
            self.at, self.offset_min = start + RECORD.size + length, offset + 1
            return
        while self.entry is not None:
            entry = self.entry
            yield from self._next_entry()
            if not start < entry.position <= self.size - RECORD.size:
                continue
            try:
                header = yield from read_record_header(
                    self.log, entry.position, offset_min=self.offset_min, active=False
                )
            except (CorruptError, UnsupportedError):
                continue
            if header is not None and header.offset == entry.offset:
                self.at = entry.position
                return
        self.at = self.size

    # ------------------------------------------------------------------------ index

    def _next_entry(self) -> Ranged[None]:
        self.entry = None
        data = yield from self.index.read(self.index_at, self.index_at + ENTRY.size)
        if len(data) == ENTRY.size:
            offset, position = ENTRY.unpack(data)
            self.entry = IndexEntry(offset=offset, position=position)
            self.index_at += ENTRY.size

    def _check_entry(self, position: int, offset: int) -> Walk:
        """Compare the index with the record at ``position``, which has one entry at most."""
        due = IndexEntry(offset=offset, position=position)
        while self.entry is not None and self.entry.position <= position:
            if self.entry != due:
                yield from self._wrong_entry(self.entry)
            due = IndexEntry(offset=-1, position=-1)
            yield from self._next_entry()

    def _check_rest(self) -> Walk:
        """Judge the entries that no record was found for."""
        while self.entry is not None:
            if not (self.active and (yield from self._is_ahead(self.entry))):
                yield from self._wrong_entry(self.entry)
                return
            yield from self._next_entry()

    def _is_ahead(self, entry: IndexEntry) -> Ranged[bool]:
        """Whether ``entry`` is of a record that has not reached the disk yet, or not all of it."""
        if entry.offset < self.offset_min:
            return False
        if entry.position >= self.size:
            return True
        head = yield from self.log.read(self.at, self.at + RECORD.size)
        torn = len(head) < RECORD.size or RECORD.unpack(head)[1] == entry.offset
        return entry.position == self.at and torn

    def _wrong_entry(self, entry: IndexEntry) -> Iterator[Damage]:
        what = f"no record with offset {entry.offset} begins at {entry.position} of the log"
        yield from self._index_damage(what, self.index_at - ENTRY.size)

    def _index_damage(self, what: str, at: int) -> Iterator[Damage]:
        if not self.has_bad_index:
            self.has_bad_index = True
            error = CorruptError(f"{what}; rebuild it", at=at, where=INDEX_SUFFIX)
            yield Damage(error=error, position=at)
