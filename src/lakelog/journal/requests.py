"""What can be asked of a lane, and how it ends.

    Append        batches of one partition        Stored | Refused | Unknown
    Begin         where a partition begins        Stored | Refused
    CommitWrite   what a bulk write has staged    Stored | Refused
    DeleteTopic   no batch of it comes behind     Stored
    Touch         a bundle, if an empty one       Stored

``Unknown`` is an answer of its own: the batches may be in the log, now or later, or not. A client
that was told so must not be told later that they are absent.
"""

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from crc32c import crc32c

from lakelog.errors import CorruptError, InvalidInputError
from lakelog.formats import Bytes
from lakelog.formats.lanes import BatchRow, Slice
from lakelog.records import CRC_START, LENGTH_END, BatchHeader, decode_header

_TRANSACTIONS = 0x30  # The bits of a batch that is transactional, or a marker.

__all__ = [
    "Append",
    "Begin",
    "CommitWrite",
    "DeleteTopic",
    "Outcome",
    "Refusal",
    "Refused",
    "Request",
    "Stored",
    "Touch",
    "Unknown",
    "new_append",
    "request_bytes",
]


class Append(NamedTuple):
    """Batches of one partition, sound and in order: see ``new_append``.

    A tuple, because a broker makes thousands of them in a second.
    """

    place: tuple[bytes, int]
    """The id of the topic, and the partition."""
    body: Bytes
    rows: tuple[BatchRow, ...]
    """What a directory says of the batches. Made here, before a flush waits for it."""
    offsets: int
    min_timestamp: int
    max_timestamp: int

    def __repr__(self) -> str:
        return f"Append({self.topic.hex()}/{self.partition}, {len(self.body)} bytes)"

    @property
    def topic(self) -> bytes:
        return self.place[0]

    @property
    def partition(self) -> int:
        return self.place[1]

    @property
    def is_plain(self) -> bool:
        """Whether nothing in it tells a second copy from the first."""
        return self.rows[0].producer_id < 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Begin:
    """The first batch of a partition gets this offset, because history has what lies before."""

    place: tuple[bytes, int]
    offset: int

    @property
    def is_plain(self) -> bool:
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitWrite:
    """What one attempt of a bulk write has staged for this lane becomes part of the log.

    It has a bundle to itself.
    """

    query: bytes
    number: int
    write: bytes
    decided_ms: int
    """When it was decided that this attempt counts, by the store's clock."""
    runs: tuple[Slice, ...]
    """Staged runs of batches, by partition, without their offsets."""

    @property
    def is_plain(self) -> bool:
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopic:
    """The end of a topic in this lane."""

    topic: bytes

    @property
    def is_plain(self) -> bool:
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Touch:
    """A bundle, also when it has nothing to carry: an idle lane is trimmed behind one."""

    @property
    def is_plain(self) -> bool:
        return False


Request = Append | Begin | CommitWrite | DeleteTopic | Touch


class Refusal(Enum):
    """Why batches are not stored. Nothing of them is in the log because of this request."""

    OUT_OF_ORDER = "the sequence is not the next one of this producer"
    FENCED = "a newer epoch of this producer has written"
    TOPIC_DELETED = "the topic was deleted"
    BEGUN = "the partition has begun, at another offset or with records"
    OVERTAKEN = "another attempt of this write was committed, or a later write of its query"
    TOO_LARGE = "the store does not take an object of this size"
    FORGOTTEN = "so many writes came since that nobody knows whether this was one of them"


class Stored(NamedTuple):
    """It is in the log, there."""

    base_offset: int
    seq: int
    epoch: int
    created_ms: int
    duplicate: bool = False
    """Whether an earlier request had stored it; then ``seq`` is -1."""


@dataclass(frozen=True, slots=True)
class Refused:
    """It is not in the log."""

    why: Refusal


@dataclass(frozen=True, slots=True)
class Unknown:
    """It may be in the log."""


Outcome = Stored | Refused | Unknown


def request_bytes(request: Request) -> int:
    """Return the bytes of payload that a request brings to a bundle."""
    return len(request.body) if isinstance(request, Append) else 0


def new_append(topic: bytes, partition: int, body: Bytes) -> Append:
    """Return a request for batches as a producer sent them, checked.

    Raises:
        CorruptError, UnsupportedError: a batch is damaged, or of a kind we do not store.
        InvalidInputError: they are sound, and no producer may send them.
    """
    view = body if type(body) is memoryview else memoryview(body)
    end = len(view)
    header = _checked(view, 0, end)
    row = _row(header)
    offsets, times = header[6] + 1, header[7:9]
    if row[2] == end:
        return tuple.__new__(Append, ((topic, partition), body, (row,), offsets, *times))
    rows, at = [row], row.length
    min_timestamp, max_timestamp = times
    while at < end:
        header = _checked(view, at, end)
        row = _row(header)
        rows.append(row)
        at += row.length
        offsets += header.last_offset_delta + 1
        min_timestamp = min(min_timestamp, header.base_timestamp)
        max_timestamp = max(max_timestamp, header.max_timestamp)
    if any(row.producer_id >= 0 for row in rows):
        raise InvalidInputError("an idempotent producer sends one batch at a time")
    return Append((topic, partition), body, tuple(rows), offsets, min_timestamp, max_timestamp)


def _checked(view: memoryview, at: int, end: int) -> BatchHeader:
    """Return the header of the batch at ``at``, which a producer may send."""
    if at == end:
        raise InvalidInputError("no batch to append")
    header = decode_header(view, at)
    _, length, _, _, crc, attributes, last_delta, _, _, producer_id, epoch, sequence, count = header
    next_at = at + LENGTH_END + length
    if next_at > end:
        raise CorruptError(f"{end - at} bytes of a batch of {header.size}", at=at)
    if crc32c(view[at + CRC_START : next_at]) != crc:
        raise CorruptError("a batch does not match its CRC", at=at + 17)
    if attributes & _TRANSACTIONS:
        raise InvalidInputError("transactions are not offered: send plain batches")
    if count != last_delta + 1:
        raise InvalidInputError(f"{count} records in {last_delta + 1} offsets: leave no gaps")
    if producer_id >= 0 and (sequence < 0 or epoch < 0):
        # Two such batches would look like one, and the second be answered as a duplicate.
        raise InvalidInputError(
            f"an idempotent batch with sequence {sequence} and epoch {epoch}: count both from 0"
        )
    return header


def _row(header: BatchHeader) -> BatchRow:
    _, length, _, _, crc, attributes, last_delta, _, _, producer_id, epoch, sequence, _ = header
    size = LENGTH_END + length
    fields = (producer_id, crc, size, last_delta, sequence, epoch, attributes)
    return tuple.__new__(BatchRow, fields)
