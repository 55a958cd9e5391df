"""Records as a run of batches."""

from collections.abc import Sequence

from lakelog.errors import InvalidInputError
from lakelog.model import Record
from lakelog.records import I64_MAX, OFFSET_MAX, Codec, NewBatch, encode_batch

__all__ = ["BATCH_BYTES_GOAL", "BATCH_RECORDS_MAX", "encode_run"]

BATCH_RECORDS_MAX = 1000
BATCH_BYTES_GOAL = 1 << 20
"""``encode_run`` closes a batch at this many records or bytes, before compression."""

_SPAN_MAX = 1 << 31  # Offsets of one batch: its last offset delta is an i32.
_RECORD_BYTES = 20  # About what a record takes besides its key, value and headers.


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
            or high - low > I64_MAX
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
