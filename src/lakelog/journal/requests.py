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
from typing import ClassVar, NamedTuple

from crc32c import crc32c

from lakelog.errors import CorruptError, InvalidInputError
from lakelog.formats import Bytes
from lakelog.formats.lanes import DIRECTORY_BYTES_MAX, BatchRow, Slice, directory_bytes
from lakelog.records import (
    CODEC_MASK,
    CRC_START,
    DECOMPRESSED_BYTES_MAX,
    HEADER_BYTES,
    LENGTH_END,
    RATIOS_MAX,
    RECORD_BYTES_MIN,
    BatchHeader,
    decode_header,
)

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
    "new_run",
    "request_bytes",
]

_TRANSACTIONS = 0x30  # The bits of a batch that is transactional, or a marker.
_LENGTH_EMPTY = HEADER_BYTES - LENGTH_END
_COUNT_MAX = DECOMPRESSED_BYTES_MAX // RECORD_BYTES_MIN
"""Records of a batch that a reader is ready to decompress."""


class Append(NamedTuple):
    """Batches of one partition, sound and in order: see ``new_append``.

    A tuple, because a broker makes thousands of them in a second.
    """

    topic_partition: tuple[bytes, int]
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
        return self.topic_partition[0]

    @property
    def partition(self) -> int:
        return self.topic_partition[1]

    @property
    def is_plain(self) -> bool:
        """Whether nothing in it tells a second copy from the first."""
        return self.rows[0].producer_id < 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Begin:
    """The first batch of a partition gets this offset, because history has what lies before."""

    topic_partition: tuple[bytes, int]
    offset: int
    is_plain: ClassVar[bool] = False


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
    is_plain: ClassVar[bool] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopic:
    """The end of a topic in this lane."""

    topic: bytes
    is_plain: ClassVar[bool] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Touch:
    """A bundle, also when it has nothing to carry: an idle lane is trimmed behind one."""

    is_plain: ClassVar[bool] = False


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
    """Return a request for one batch as a producer sent it, checked.

    One, as in Kafka since version 3 of Produce: so a request has as many rows in a directory as it
    names partitions, however many bytes it has.

    Raises:
        CorruptError, UnsupportedError: the batch is damaged, or of a kind we do not store.
        InvalidInputError: it is sound, and no producer may send it; or it is not alone.
    """
    view = body if type(body) is memoryview else memoryview(body)
    end = len(view)
    header = _checked(view, 0, end)
    row = _row(header)
    if row[2] != end:
        raise _not_alone(view, row[2], end)
    return tuple.__new__(
        Append, ((topic, partition), body, (row,), header[6] + 1, header[7], header[8])
    )


def new_run(topic: bytes, partition: int, body: Bytes) -> Append:
    """Return a request for a run of batches that no client sent: each as ``new_append`` wants it.

    Raises:
        CorruptError, UnsupportedError: a batch is damaged, or of a kind we do not store.
        InvalidInputError: they are sound, and may not be appended; or they are more than a bundle
            has room for.
    """
    view, at, headers = memoryview(body), 0, list[BatchHeader]()
    while at < len(view) or not headers:
        headers.append(_checked(view, at, len(view)))
        at += headers[-1].size
    rows = tuple(map(_row, headers))
    if len(rows) > 1 and any(row.producer_id >= 0 for row in rows):
        raise InvalidInputError("an idempotent producer sends one batch at a time")
    if directory_bytes(slices=1, batches=len(rows)) > DIRECTORY_BYTES_MAX:
        raise InvalidInputError(
            f"{len(rows)} batches at once, and a bundle has no room for so many: send fewer"
        )
    return Append(
        (topic, partition),
        body,
        rows,
        sum(header.last_offset_delta + 1 for header in headers),
        min(header.base_timestamp for header in headers),
        max(header.max_timestamp for header in headers),
    )


def _not_alone(view: memoryview, at: int, end: int) -> CorruptError | InvalidInputError:
    """Say what is wrong with bytes behind the one batch."""
    header = decode_header(view, at)
    if at + header.size > end:
        return CorruptError(f"a batch of {header.size} bytes, of which {end - at} came", at=at)
    return InvalidInputError(
        "a produce request has exactly one record batch for each partition: send the next one in "
        "another request"
    )


def _checked(view: memoryview, at: int, end: int) -> BatchHeader:
    """Return the header of the batch at ``at``, which a producer may send."""
    if at == end:
        raise InvalidInputError("no batch to append")
    header = decode_header(view, at)
    _, length, _, _, crc, attributes, last_delta, _, _, producer_id, epoch, sequence, count = header
    next_at = at + LENGTH_END + length
    if next_at > end:
        raise CorruptError(f"a batch of {header.size} bytes, of which {end - at} came", at=at)
    if crc32c(view[at + CRC_START : next_at]) != crc:
        raise CorruptError("a batch does not match its CRC", at=at + 17)
    if attributes & _TRANSACTIONS:
        raise InvalidInputError("transactions are not offered: send plain batches")
    if count != last_delta + 1:
        raise InvalidInputError(f"{count} records in {last_delta + 1} offsets: leave no gaps")
    size = (length - _LENGTH_EMPTY) * RATIOS_MAX[attributes & CODEC_MASK]
    if count * RECORD_BYTES_MIN > size or count > _COUNT_MAX:
        raise InvalidInputError(
            f"{count} records cannot be in {length - _LENGTH_EMPTY} bytes of {header.codec.name}: "
            "the producer counts them wrongly"
        )
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
