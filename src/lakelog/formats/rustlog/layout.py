"""Records and index of a RustLog segment.

    .log => record*                            .index => entry*
      at  field      type                        at  field     type
       0  length     u32   of the payload         0  offset    u64   of a record
       4  offset     u64                          8  position  u64   of its first byte in the log
      12  timestamp  u64   microseconds          16
      20  payload

Integers are big-endian. Offsets rise strictly and may have gaps; the first is not below the one in
the file's name. Times should not go down, but a wall clock does: a writer lifts such a time to the
one before it, a reader takes what it finds.

Entries of the index stand for records 0, 100, 200... of the file. The index holds nothing that the
log does not: it can be made again, always the same.

Code that goes by the name of RustLog writes records without the timestamp, 12 bytes of header
instead of 20. The files say nowhere which of the two they are, so ``looks_untimed`` judges by how
the first few read.
"""

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from lakelog.errors import CorruptError, InvalidInputError, UnsupportedError
from lakelog.formats.contract import OFFSET_MAX, Bytes, IndexEntry, Ranged, Window
from lakelog.formats.limits import B, fitting
from lakelog.formats.rustlog.envelope import decode_envelope, is_envelope

__all__ = [
    "INDEX_INTERVAL",
    "PAYLOAD_BYTES_MAX",
    "IndexEntry",
    "LogRecord",
    "RecordHeader",
    "decode_index",
    "decode_record_header",
    "encode_index",
    "encode_log",
    "fitting_index",
    "is_torn",
    "looks_untimed",
    "read_record_header",
    "refuse_untimed",
]

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"

PAYLOAD_BYTES_MAX = 10 * 1024 * 1024
"""The largest payload, written or read."""

INDEX_INTERVAL = 100
"""Records from one index entry to the next."""

INDEX_BYTES_MAX = 64 * 1024 * 1024
"""The largest index that is opened: 400 million records."""

U64_MAX = (1 << 64) - 1

RECORD = struct.Struct(">IQQ")
ENTRY = struct.Struct(">QQ")
_UNTIMED = struct.Struct(">IQ")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRecord:
    """A record as the file has it: the time is in microseconds, and there is no key."""

    offset: int
    timestamp_us: int
    payload: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordHeader:
    """The 20 bytes before a payload."""

    length: int
    offset: int
    timestamp_us: int

    @property
    def size(self) -> int:
        """Bytes of the whole record."""
        return RECORD.size + self.length


# ---------------------------------------------------------------------------- records -> bytes


def encode_log(
    records: Sequence[LogRecord], *, index_interval: int = INDEX_INTERVAL
) -> dict[str, bytes]:
    """Return log and index. A time that goes down is lifted to the one before it.

    Raises:
        InvalidInputError: offsets that do not rise, or something out of range, or an index that
            would not be read.
    """
    if index_interval < 1:
        raise InvalidInputError(f"an index entry every {index_interval} records")
    if any(a.offset >= b.offset for a, b in pairwise(records)):
        raise InvalidInputError("offsets must rise")
    log, index, latest = bytearray(), bytearray(), 0
    for number, record in enumerate(records):
        if not 0 <= record.offset <= OFFSET_MAX:
            raise InvalidInputError(f"offset {record.offset} is not within [0, 2^63 - 1)")
        if not 0 <= record.timestamp_us <= U64_MAX:
            raise InvalidInputError(
                f"time {record.timestamp_us} at offset {record.offset} does not fit 64 bits "
                "without a sign"
            )
        if len(record.payload) > PAYLOAD_BYTES_MAX:
            raise InvalidInputError(
                f"a payload of {len(record.payload)} bytes at offset {record.offset}, "
                f"the largest is {PAYLOAD_BYTES_MAX}"
            )
        if number % index_interval == 0:
            index += ENTRY.pack(record.offset, len(log))
        latest = max(latest, record.timestamp_us)
        _check_payload(record, latest)
        log += RECORD.pack(len(record.payload), record.offset, latest)
        log += record.payload
    return {LOG_SUFFIX: bytes(log), INDEX_SUFFIX: bytes(fitting_index(index))}


def _check_payload(record: LogRecord, timestamp_us: int) -> None:
    """See that a payload that begins like an envelope is this record's envelope.

    Raises:
        InvalidInputError: it is not, and readers would take it for damage.
    """
    if is_envelope(record.payload):
        try:
            decode_envelope(record.payload, offset=record.offset, timestamp_us=timestamp_us)
        except (CorruptError, UnsupportedError) as error:
            raise InvalidInputError(
                f"the payload at offset {record.offset} begins like an envelope, and is none: "
                f"{error.what}"
            ) from error


# ---------------------------------------------------------------------------- bytes -> records


def is_torn(head: Bytes, room: int) -> bool:
    """Whether the record that begins with ``head`` is one of which ``room`` bytes were written."""
    if len(head) < RECORD.size:
        return True
    length: int = RECORD.unpack_from(head)[0]
    return length <= PAYLOAD_BYTES_MAX and RECORD.size + length > room


def decode_record_header(head: Bytes, *, at: int, room: int, offset_min: int) -> RecordHeader:
    """Return the header of the record at ``at``, where ``room`` bytes are left for all of it.

    Raises:
        CorruptError: it does not fit, or its offset is below ``offset_min``.
        UnsupportedError: a payload over the limit.
    """
    if len(head) < RECORD.size:
        raise CorruptError(
            f"{len(head)} bytes left, a record header has {RECORD.size}", at=at, where=LOG_SUFFIX
        )
    length, offset, timestamp_us = RECORD.unpack_from(head)
    if RECORD.size + length > room:
        raise CorruptError(
            f"a record of {RECORD.size + length} bytes, {room} left", at=at, where=LOG_SUFFIX
        )
    if not offset_min <= offset <= OFFSET_MAX:
        raise CorruptError(
            f"offset {offset}, expected {offset_min} or above", at=at + 4, where=LOG_SUFFIX
        )
    if length > PAYLOAD_BYTES_MAX:
        raise UnsupportedError(
            f"a payload of {length} bytes is over the limit of {PAYLOAD_BYTES_MAX}",
            at=at,
            where=LOG_SUFFIX,
        )
    return RecordHeader(length=length, offset=offset, timestamp_us=timestamp_us)


def read_record_header(
    log: Window, at: int, *, offset_min: int, active: bool
) -> Ranged[RecordHeader | None]:
    """Return the header of the record at ``at``, or None where a writer is at work on it.

    Raises:
        CorruptError, UnsupportedError: as ``decode_record_header``.
    """
    room = log.size - at
    head = yield from log.read(at, at + RECORD.size)
    if active and is_torn(head, room):
        return None
    return decode_record_header(head, at=at, room=room, offset_min=offset_min)


def encode_index(entries: Iterable[IndexEntry]) -> bytes:
    """Return an index of these entries.

    Raises:
        InvalidInputError: there are more than are read.
    """
    return fitting_index(b"".join(ENTRY.pack(entry.offset, entry.position) for entry in entries))


def fitting_index(index: B) -> B:
    """Return an index, if it is read.

    Raises:
        InvalidInputError: it is too large.
    """
    return fitting(index, INDEX_BYTES_MAX, "an index", "use smaller segments, or a longer interval")


# ---------------------------------------------------------------------------- index


def decode_index(
    data: Bytes, *, base_offset: int, log_size: int, active: bool = False
) -> tuple[IndexEntry, ...]:
    """Return the entries of an index; with ``active``, those that already mean something.

    Raises:
        CorruptError: half an entry, or entries that do not rise or lie outside the log.
    """
    rest = len(data) % ENTRY.size
    if rest and not active:
        raise CorruptError(
            f"{rest} bytes behind the last entry", at=len(data) - rest, where=INDEX_SUFFIX
        )
    entries: list[IndexEntry] = []
    offset_min, position_min = base_offset, 0
    whole = memoryview(data)[: len(data) - rest]
    for number, (offset, position) in enumerate(ENTRY.iter_unpack(whole)):
        # The index of a live segment may have reached the disk before the log has.
        if active and position + RECORD.size > log_size:
            break
        at = number * ENTRY.size
        if not offset_min <= offset <= OFFSET_MAX:
            raise CorruptError(
                f"offset {offset}, expected {offset_min} or above", at=at, where=INDEX_SUFFIX
            )
        if not position_min <= position <= log_size - RECORD.size:
            raise CorruptError(
                f"position {position}, expected {position_min} or above in a log of {log_size} "
                "bytes",
                at=at + 8,
                where=INDEX_SUFFIX,
            )
        entries.append(IndexEntry(offset=offset, position=position))
        offset_min, position_min = offset + 1, position + RECORD.size
    return tuple(entries)


# ---------------------------------------------------------------------------- the other RustLog

SNIFF_BYTES = 4096
"""How much of a log is looked at to tell the two apart."""


def refuse_untimed(head: Bytes, base_offset: int) -> None:
    """Check that the log that begins with ``head`` is not of the kind without timestamps.

    Raises:
        UnsupportedError: it is.
    """
    if looks_untimed(head[:SNIFF_BYTES], base_offset):
        raise UnsupportedError(
            "a log of the RustLog program: records with a header of 12 bytes and no timestamp, "
            "not the documented 20",
            at=0,
            where=LOG_SUFFIX,
        )


def looks_untimed(head: Bytes, base_offset: int) -> bool:
    """Whether ``head`` reads well without timestamps, and does not with them.

    A log that is good as far as it goes always reads well, so that one cut short is never taken for
    the other kind.
    """
    return not _reads_well(head, RECORD.size, base_offset, gap_max=OFFSET_MAX) and _reads_well(
        head, _UNTIMED.size, base_offset, gap_max=0
    )


def _reads_well(head: Bytes, header_bytes: int, offset_min: int, *, gap_max: int) -> bool:
    at = 0
    while at + _UNTIMED.size <= len(head):
        length, offset = _UNTIMED.unpack_from(head, at)
        offset_max = min(OFFSET_MAX, offset_min + gap_max)
        if length > PAYLOAD_BYTES_MAX or not offset_min <= offset <= offset_max:
            return False
        at, offset_min = at + header_bytes + length, offset + 1
    return True
