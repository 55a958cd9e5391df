"""Runs of batches in memory: framing what is at hand, and writing records as a run."""

from collections.abc import Iterator, Sequence

from crc32c import crc32c

from lakelog.errors import CorruptError, InvalidInputError
from lakelog.formats.batches.run import Frame
from lakelog.formats.contract import Bytes
from lakelog.model import Record
from lakelog.records import (
    CRC_START,
    OFFSET_MAX,
    Codec,
    NewBatch,
    decode_header,
    encode_batch,
)

__all__ = ["BATCH_BYTES_GOAL", "BATCH_RECORDS_MAX", "encode_run", "frames"]

BATCH_RECORDS_MAX = 1000
BATCH_BYTES_GOAL = 1 << 20
"""``encode_run`` closes a batch at this many records or bytes, before compression."""

_SPAN_MAX = 1 << 31  # Offsets of one batch: its last offset delta is an i32.
_I64_MAX = (1 << 63) - 1
_RECORD_BYTES = 20  # About what a record takes besides its key, value and headers.


def frames(data: Bytes, *, after: int = 0, where: str = "") -> Iterator[Frame]:
    """Yield the batches that fill ``data`` exactly, each with a good CRC, in order of offset.

    Nothing in it may lie below ``after``.

    Raises:
        CorruptError: not such a run.
        UnsupportedError: a batch this reader cannot read.
    """
    view = memoryview(data)
    at, next_offset = 0, after
    while at < len(view):
        header = decode_header(view, at, where=where)
        if header.size > len(view) - at:
            raise CorruptError(
                f"a batch of {header.size} bytes, {len(view) - at} left", at=at, where=where
            )
        found = crc32c(view[at + CRC_START : at + header.size])
        if found != header.crc:
            what = f"CRC-32C is {found}, the batch says {header.crc}"
            raise CorruptError(what, at=at, where=where)
        if header.base_offset < next_offset:
            what = f"base offset {header.base_offset}, the batch before ends at {next_offset}"
            raise CorruptError(what, at=at, where=where)
        yield Frame(at, header)
        at += header.size
        next_offset = header.next_offset


def encode_run(records: Sequence[Record], codec: Codec) -> bytes:
    """Return ``records`` as a run of batches. Equal input gives equal bytes.

    A batch closes at 1000 records or 1 MiB, and where the next record would not fit its deltas:
    offsets 2^31 apart, or timestamps 2^63 apart.

    Raises:
        InvalidInputError: offsets that do not rise, or are out of range.
    """
    out: list[bytes] = []
    batch: list[Record] = []
    size = low = high = 0
    next_offset = 0
    for record in records:
        if not next_offset <= record.offset < OFFSET_MAX:
            raise InvalidInputError(f"offset {record.offset} where {next_offset} or more is due")
        next_offset = record.offset + 1
        grown = size + _record_bytes(record)
        low, high = min(low, record.timestamp), max(high, record.timestamp)
        if batch and (
            len(batch) == BATCH_RECORDS_MAX
            or grown > BATCH_BYTES_GOAL
            or record.offset - batch[0].offset >= _SPAN_MAX
            or high - low > _I64_MAX
        ):
            out.append(encode_batch(NewBatch(records=batch, codec=codec)))
            batch, grown = [], _record_bytes(record)
        if not batch:
            low = high = record.timestamp
        batch.append(record)
        size = grown
    if batch:
        out.append(encode_batch(NewBatch(records=batch, codec=codec)))
    return b"".join(out)


def _record_bytes(record: Record) -> int:
    size = _RECORD_BYTES + len(record.key or b"") + len(record.value or b"")
    return size + sum(len(key) + len(value or b"") + 4 for key, value in record.headers)
