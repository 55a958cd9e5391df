"""Records to segments of every format, written to be read: the judge of the compiled writers.

STRM and RustLog come out byte for byte as the product writes them. Of KAFS and Kafka, batches are
cut by another rule, and hold the same records. One cut of STRM blocks is only here: a timestamp
further than 63 bits from the block's first one begins a new block, so that every 64-bit timestamp
can be written; a column's times never lie so far apart.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from zlib import crc32

from lakelog.errors import InvalidInputError
from lakelog.formats import Bytes, Format, rustlog
from lakelog.formats.contract import OFFSET_MAX as STRM_OFFSET_MAX
from lakelog.formats.kafkalog import INDEX_INTERVAL_BYTES, encode_side_files
from lakelog.formats.kafs import encode_index, wrap
from lakelog.formats.strm.blocks import block_compressor, seal_block
from lakelog.formats.strm.layout import (
    BLOCK_TARGET_BYTES,
    HEADER,
    MAGIC,
    IndexEntry,
    SegmentHeader,
    check_settings,
    encode_end,
    topic_hash,
    version_and_flags,
)
from lakelog.model import Record
from lakelog.records import (
    I64_MAX,
    I64_MIN,
    OFFSET_MAX,
    Codec,
    NewBatch,
    encode_batch,
    encode_varint,
    frames,
)
from lakelog.records.varint import encode_field, encode_headers

__all__ = [
    "BATCH_BYTES_GOAL",
    "BATCH_RECORDS_MAX",
    "encode",
    "encode_block",
    "encode_kafka_log",
    "encode_run",
    "encode_strm",
]

BATCH_RECORDS_MAX = 1000
BATCH_BYTES_GOAL = 1 << 20
"""``encode_run`` closes a batch at this many records or bytes, before compression."""

_SPAN_MAX = 1 << 31  # Offsets of one batch: its last offset delta is an i32.
_RECORD_BYTES = 20  # About what a record takes besides its key, value and headers.
_RECORD_BYTES_ESTIMATED = 10
_HEADER_BYTES_ESTIMATED = 4


def encode(fmt: Format, records: Sequence[Record], codec: Codec) -> dict[str, bytes]:
    """Return the files of the segment that holds ``records``. Equal input gives equal bytes.

    A KAFS segment is said to be made when its newest record was.

    Raises:
        InvalidInputError: the format cannot hold them, or does not know the codec.
    """
    if codec not in fmt.carries.codecs:
        raise InvalidInputError(f"a {fmt.title} is not written with {codec.name.lower()}")
    match fmt.name:
        case "strm":
            return {".seg": encode_strm(records, codec=codec)}
        case "rustlog":
            return rustlog.encode_records(records)
        case "kafkalog":
            return encode_kafka_log(encode_run(records, codec))
    created_ms = max((record.timestamp for record in records), default=0)
    pieces, placed = wrap([encode_run(records, codec)], created_ms=max(created_ms, 0))
    return {".kfs": b"".join(pieces), ".index": encode_index(placed)}


# ---------------------------------------------------------------------------- batches


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


def encode_kafka_log(
    batches: Bytes,
    *,
    base_offset: int | None = None,
    interval_bytes: int = INDEX_INTERVAL_BYTES,
) -> dict[str, bytes]:
    """Return the files of a closed segment that holds a run of batches, kept byte for byte.

    ``base_offset`` is the first batch's, unless what stood before it was compacted away.

    Raises:
        CorruptError, UnsupportedError: ``batches`` is not a run of good batches.
        InvalidInputError: it is too large, or begins below ``base_offset``.
    """
    indexes = encode_side_files(
        list(frames(batches)), len(batches), base_offset=base_offset, interval_bytes=interval_bytes
    )
    return {".log": bytes(batches), **indexes}


# ---------------------------------------------------------------------------- STRM


def encode_strm(
    records: Sequence[Record],
    *,
    topic: str = "",
    partition: int = 0,
    created_ms: int = 0,
    codec: Codec = Codec.LZ4,
    block_bytes: int = BLOCK_TARGET_BYTES,
) -> bytes:
    """Return the bytes of a segment. Equal input gives equal bytes.

    Raises:
        InvalidInputError: no records, offsets that do not rise, or something out of range.
    """
    _check_records(records)
    check_settings(codec, partition, created_ms, block_bytes)
    has_headers = any(record.headers for record in records)
    timestamps = [record.timestamp for record in records]
    version, flags = version_and_flags(
        codec,
        has_tombstones=any(record.value is None for record in records),
        has_headers=has_headers,
    )
    header = SegmentHeader(
        magic=MAGIC,
        version=version,
        flags=flags,
        topic_hash=topic_hash(topic),
        partition=partition,
        base_offset=records[0].offset,
        max_offset=records[-1].offset,
        count=len(records),
        created_at=created_ms,
        min_timestamp=min(timestamps),
        max_timestamp=max(timestamps),
    )
    parts = [header.encode()]
    entries: list[IndexEntry] = []
    position = HEADER.size
    for run in _runs(records, block_bytes):
        block = encode_block(run, codec, has_headers=has_headers)
        entries.append(IndexEntry(offset=run[0].offset, position=position))
        parts.append(block)
        position += len(block)
    body = b"".join(parts)
    return body + encode_end(entries, position, crc32(body))


def _runs(records: Sequence[Record], block_bytes: int) -> Iterator[Sequence[Record]]:
    """Yield the records of each block."""
    start = size = 0
    for at, record in enumerate(records):
        estimate = _estimate(record)
        distance = record.timestamp - records[start].timestamp
        full = size + estimate > block_bytes or not I64_MIN <= distance <= I64_MAX
        if full and at > start:
            yield records[start:at]
            start, size = at, 0
        size += estimate
    yield records[start:]


def _estimate(record: Record) -> int:
    size = _RECORD_BYTES_ESTIMATED + len(record.key or b"") + len(record.value or b"")
    for key, value in record.headers:
        size += _HEADER_BYTES_ESTIMATED + len(key.encode("utf-8", "surrogateescape"))
        size += len(value or b"")
    return size


def _check_records(records: Sequence[Record]) -> None:
    if not records:
        # Its last offset would be the one before its first, which at offset 0 cannot be written.
        raise InvalidInputError("an STRM segment holds at least one record")
    if not 0 <= records[0].offset <= records[-1].offset <= STRM_OFFSET_MAX or any(
        a.offset >= b.offset for a, b in pairwise(records)
    ):
        raise InvalidInputError("offsets must rise within [0, 2^63 - 1)")
    if not all(I64_MIN <= record.timestamp <= I64_MAX for record in records):
        raise InvalidInputError("a timestamp must fit 64 bits")


def encode_block(records: Sequence[Record], codec: Codec, *, has_headers: bool) -> bytes:
    """Return a whole block. The caller has checked offsets and timestamps.

    Raises:
        InvalidInputError: the records take more than a block may hold.
    """
    base, origin = records[0].offset, records[0].timestamp
    parts: list[bytes] = []
    for number, record in enumerate(records):
        parts.append(encode_varint(record.offset - base))
        parts.append(encode_varint(record.timestamp - origin if number else origin))
        parts += encode_field(record.key)
        parts += encode_field(record.value)
        if has_headers:
            parts += encode_headers(record.headers)
    raw, compress = b"".join(parts), block_compressor(codec)
    return b"".join(seal_block(raw, compress, count=len(records), base_offset=base))
