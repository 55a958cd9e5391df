"""The header of a Kafka record batch, magic 2: 61 bytes that say everything but the records.

      at  field               type  meaning
       0  base_offset         i64   offset of the first record the producer sent
       8  length              i32   bytes after this field: the whole batch less 12
      12  leader_epoch        i32   of the leader that stored it
      16  magic               i8    2
      17  crc                 u32   CRC-32C of everything from byte 21 on
      21  attributes          i16   0-2 codec, 3 timestamp type, 4 transactional, 5 control,
                                    6 the base timestamp is a delete horizon
      23  last_offset_delta   i32   last offset less base offset, also when the last record is gone
      27  base_timestamp      i64
      35  max_timestamp       i64
      43  producer_id         i64   -1 without idempotence, then also:
      51  producer_epoch      i16
      53  base_sequence       i32
      57  count               i32   records that follow
      61  records                   see ``batch``

Integers are big-endian. The CRC begins behind the base offset and the leader epoch, so a broker can
give a batch its place in the log (``rebase``) without touching what the producer signed. Much of
lakelog never looks past these bytes: a batch travels from producer to consumer still compressed.

``max_timestamp`` is what the writer claims: a broker that does not decode records cannot check it,
so neither does a reader. Specification: docs/reference/formats/record-batch.md
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from crc32c import crc32c

from lakelog.errors import CorruptError, UnsupportedError
from lakelog.model import TimestampType
from lakelog.records.compression import Codec

__all__ = [
    "BATCH_BYTES_MAX",
    "HEADER_BYTES",
    "RECORD_BYTES_MIN",
    "BatchHeader",
    "Frame",
    "check_crc",
    "check_fits",
    "decode_header",
    "encode_header",
    "frames",
    "placed_start",
    "rebase",
]

HEADER_BYTES = 61
RECORD_BYTES_MIN = 7
"""Of a record that has nothing: a byte each for its length, attributes, time, offset, key, value,
and headers."""
BATCH_BYTES_MAX = 128 * 1024 * 1024
"""The largest batch that is read, unless the caller says otherwise."""

START_BYTES = 16
LENGTH_END = 12  # Where the length field ends, and what it counts begins.
MAGIC_AT = 16
CRC_START = 21  # What the CRC covers begins with the attributes.

MAGIC = 2
CODEC_MASK = 0x07
TIMESTAMP_TYPE_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
DELETE_HORIZON_BIT = 0x40
KNOWN_BITS = 0x7F

I32_MAX = (1 << 31) - 1
I64_MIN, I64_MAX = -(1 << 63), (1 << 63) - 1
OFFSET_MAX = I64_MAX

HEADER = struct.Struct(">qiibIhiqqqhii")
_unpack = HEADER.unpack_from
_LENGTH_MIN = HEADER_BYTES - LENGTH_END
ATTRIBUTES = frozenset(bits for bits in range(KNOWN_BITS + 1) if bits & CODEC_MASK <= Codec.ZSTD)
"""All that a batch may have."""
_I64 = struct.Struct(">q")
_START = struct.Struct(">qii")
_I32 = struct.Struct(">i")

Bytes = bytes | bytearray | memoryview


class BatchHeader(NamedTuple):
    """The first 61 bytes of a batch, field by field, as they stand there.

    A tuple, because a reader makes one for every batch it passes: a frozen dataclass takes ten
    times as long to make.
    """

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int  # type: ignore[assignment]  # It hides a method of tuples that nobody needs.

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return LENGTH_END + self.length

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> Codec:
        return Codec(self.attributes & CODEC_MASK)

    @property
    def timestamp_type(self) -> TimestampType:
        return TimestampType(bool(self.attributes & TIMESTAMP_TYPE_BIT))

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_BIT)

    @property
    def delete_horizon(self) -> int | None:
        """When tombstones and markers in a compacted batch may go."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_BIT else None

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record; sequences wrap from 2^31 - 1 to 0."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF


def decode_header(
    data: Bytes, at: int = 0, *, where: str = "", size_max: int = BATCH_BYTES_MAX
) -> BatchHeader:
    """Return the header at ``at``. The CRC is not checked; the batch may end behind ``data``.

    Raises:
        CorruptError: fewer than 61 bytes, or fields that contradict each other.
        UnsupportedError: another magic, an unknown codec or attribute, or over ``size_max``.
    """
    if len(data) - at >= HEADER_BYTES:
        fields = _unpack(data, at)
        base, length, _, magic, _, attributes, last_delta, _, _, _, _, _, count = fields
        if (
            magic == MAGIC
            and _LENGTH_MIN <= length <= size_max - LENGTH_END
            and attributes in ATTRIBUTES
            and base >= 0
            and 0 <= last_delta <= OFFSET_MAX - 1 - base
            and 0 <= count <= last_delta + 1
        ):
            return tuple.__new__(BatchHeader, fields)
    raise _refusal(data, at, where, size_max)


def _refusal(data: Bytes, at: int, where: str, size_max: int) -> CorruptError | UnsupportedError:
    """Say what is wrong with a header in which something is."""
    left = len(data) - at
    if left > MAGIC_AT and data[at + MAGIC_AT] != MAGIC:
        return _other_magic(data[at + MAGIC_AT], at, where)
    if left < HEADER_BYTES:
        return CorruptError(
            f"{left} bytes left, a batch header has {HEADER_BYTES}", at=at, where=where
        )
    header = BatchHeader._make(HEADER.unpack_from(data, at))
    if header.length < _LENGTH_MIN:
        return CorruptError(
            f"batch length {header.length}, a header has more", at=at + 8, where=where
        )
    if header.size > size_max:
        return UnsupportedError(
            f"a batch of {header.size} bytes is over the limit of {size_max}",
            at=at + 8,
            where=where,
        )
    if header.attributes not in ATTRIBUTES:
        return UnsupportedError(
            f"batch attributes {header.attributes:#06x}", at=at + 21, where=where
        )
    if header.base_offset < 0:
        return CorruptError(f"base offset {header.base_offset} is negative", at=at, where=where)
    last_delta = header.last_offset_delta
    if not 0 <= last_delta <= OFFSET_MAX - 1 - header.base_offset:
        return CorruptError(f"last offset delta {last_delta}", at=at + 23, where=where)
    return CorruptError(
        f"{header.count} records in {last_delta + 1} offsets", at=at + 57, where=where
    )


def _other_magic(magic: int, at: int, where: str) -> UnsupportedError:
    if magic in (0, 1):
        what = (
            f"message format v{magic} (Kafka before 0.11), which Kafka 4 cannot read either; "
            "let a Kafka 3.x broker rewrite the topic first"
        )
    else:
        what = f"magic {magic}, this reader knows {MAGIC}"
    return UnsupportedError(what, at=at + MAGIC_AT, where=where)


class Frame(NamedTuple):
    """Where a batch begins, and its header."""

    position: int
    header: BatchHeader


def frames(
    data: Bytes, *, after: int | None = 0, crc: bool = True, where: str = ""
) -> Iterator[Frame]:
    """Yield the batches that fill ``data`` exactly.

    With ``crc``, each has a good one. Offsets rise from batch to batch, and none lies below
    ``after``; None: their order is not looked at.

    Raises:
        CorruptError: not such a run.
        UnsupportedError: a batch this reader cannot read.
    """
    view = memoryview(data).cast("B")
    at = 0
    while at < len(view):
        header = decode_header(view, at, where=where)
        end = at + header.size
        if end > len(view) or (crc and crc32c(view[at + CRC_START : end]) != header.crc):
            # Asked for only now, because there may be millions of batches: one of them raises.
            check_fits(header, len(view) - at, at=at, where=where)
            check_crc(header, view[at:end], at=at, where=where)
        if after is not None:
            if header.base_offset < after:
                raise CorruptError(
                    f"base offset {header.base_offset}, the batch before ends at {after}",
                    at=at,
                    where=where,
                )
            after = header.next_offset
        yield Frame(at, header)
        at = end


def check_fits(header: BatchHeader, left: int, *, at: int, where: str) -> None:
    """Check that ``left`` bytes are enough for the batch at ``at``.

    Raises:
        CorruptError: they are not.
    """
    if header.size > left:
        raise CorruptError(f"a batch of {header.size} bytes, {left} left", at=at, where=where)


def check_crc(header: BatchHeader, batch: memoryview, *, at: int, where: str) -> None:
    """Check that a whole batch, which stands at ``at``, has the CRC that its header says.

    Raises:
        CorruptError: it has another.
    """
    found = crc32c(batch[CRC_START:])
    if found != header.crc:
        raise CorruptError(f"CRC-32C is {found}, the batch says {header.crc}", at=at, where=where)


def encode_header(header: BatchHeader, body: Bytes) -> bytearray:
    """Return the bytes of a header; its length and its CRC are those that ``body`` gives it."""
    length = HEADER_BYTES - LENGTH_END + len(body)
    head = bytearray(HEADER.pack(header[0], length, *header[2:4], 0, *header[5:]))
    crc = crc32c(body, crc32c(head[CRC_START:]))
    head[CRC_START - 4 : CRC_START] = crc.to_bytes(4, "big")
    return head


def placed_start(base_offset: int, size: int, leader_epoch: int) -> bytes:
    """Return the first 16 bytes of a batch of such a size that has its place in a log. All of it
    that ``rebase`` changes is in there: with the rest as it is they are the batch.
    """
    return _START.pack(base_offset, size - LENGTH_END, leader_epoch)


def rebase(batch: bytearray | memoryview, *, base_offset: int, leader_epoch: int) -> None:
    """Give a batch its place in a log, in these very bytes; what the CRC covers stays as it is."""
    _I64.pack_into(batch, 0, base_offset)
    _I32.pack_into(batch, LENGTH_END, leader_epoch)
