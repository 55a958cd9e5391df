"""What can be asked of a lane, and how it ends.

    Append        batches of one partition        Stored | Refused | Unknown
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
from lakelog.formats.lanes import BatchRow
from lakelog.records import CRC_START, BatchHeader, decode_header

_TRANSACTIONS = 0x30  # The bits of a batch that is transactional, or a marker.

__all__ = [
    "Append",
    "DeleteTopic",
    "Outcome",
    "Refusal",
    "Refused",
    "Request",
    "Stored",
    "Touch",
    "Unknown",
    "new_append",
]


class Append(NamedTuple):
    """Batches of one partition, sound and in order: see ``new_append``.

    A tuple, because a broker makes thousands of them in a second.
    """

    place: tuple[bytes, int]
    """The id of the topic, and the partition."""
    body: Bytes
    headers: tuple[BatchHeader, ...]
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
        return self.headers[0].producer_id < 0


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


Request = Append | DeleteTopic | Touch


class Refusal(Enum):
    """Why batches are not stored. Nothing of them is in the log because of this request."""

    OUT_OF_ORDER = "the sequence is not the next one of this producer"
    FENCED = "a newer epoch of this producer has written"
    TOPIC_DELETED = "the topic was deleted"


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


def new_append(topic: bytes, partition: int, body: Bytes) -> Append:
    """Return a request for batches as a producer sent them, checked.

    Raises:
        CorruptError, UnsupportedError: a batch is damaged, or of a kind we do not store.
        InvalidInputError: they are sound, and no producer may send them.
    """
    view = memoryview(body)
    headers: list[BatchHeader] = []
    at, end = 0, len(view)
    while at < end:
        header = decode_header(view, at)
        next_at = at + header.size
        if next_at > end:
            raise CorruptError(f"{end - at} bytes of a batch of {header.size}", at=at)
        if crc32c(view[at + CRC_START : next_at]) != header.crc:
            raise CorruptError("a batch does not match its CRC", at=at + 17)
        if header.attributes & _TRANSACTIONS:
            raise InvalidInputError("transactions are not offered: send plain batches")
        if header.count != header.last_offset_delta + 1:
            offsets = header.last_offset_delta + 1
            raise InvalidInputError(f"{header.count} records in {offsets} offsets: leave no gaps")
        if header.producer_id >= 0 and (header.base_sequence < 0 or header.producer_epoch < 0):
            # Two such batches would look like one, and the second be answered as a duplicate.
            raise InvalidInputError(
                f"an idempotent batch with sequence {header.base_sequence} "
                f"and epoch {header.producer_epoch}: count both from 0"
            )
        headers.append(header)
        at = next_at
    if not headers:
        raise InvalidInputError("no batch to append")
    if len(headers) > 1 and any(header.producer_id >= 0 for header in headers):
        raise InvalidInputError("an idempotent producer sends one batch at a time")
    rows = tuple([_row(header) for header in headers])
    return Append(
        (topic, partition),
        body,
        tuple(headers),
        rows,
        sum([header.last_offset_delta + 1 for header in headers]),
        min([header.base_timestamp for header in headers]),
        max([header.max_timestamp for header in headers]),
    )


def _row(header: BatchHeader) -> BatchRow:
    return BatchRow(
        header.producer_id,
        header.crc,
        header.size,
        header.last_offset_delta,
        header.base_sequence,
        header.producer_epoch,
        header.attributes,
    )
