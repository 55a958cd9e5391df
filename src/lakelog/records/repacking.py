"""Repacking of a run of record batches: many small ones become few large ones, under one codec.

    run --headers--> chains of neighbours that may be one batch --fill--> packs --> per pack
        one batch, of the codec          as it is, byte for byte
        one batch, of another codec      its records, compressed anew
        several                          a batch from the first base offset to the last last offset
        it would be larger, or too large the batches as they are

Every record keeps its offset, time, key, value and headers. Of a header nothing may be lost, so
neighbours become one only where one header can say what two have said (``may_join``): the same
producer and epoch, with sequences and offsets that go on without a gap, because the last sequence
of a batch follows from its offsets; without a producer offsets may have gaps. The same leader
epoch, the same bits. Where the time of the append counts, the maximum is the time of every record,
and must be the same; where the base timestamp is a horizon, that must be.

What is never touched: markers; batches without records, which stand for a producer or an offset;
and what cannot be read. A producer may have signed anything, and to say so is not this module's
business: verify does.

Packs are filled from the left, and what is measured is what is written. A pack ends where the next
batch does not fit, and then the batch that this one becomes a part of does not fit either. What has
half the size is left alone. So repacking twice is repacking once, and the second time is cheap.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from crc32c import crc32c

from lakelog.errors import CorruptError, InvalidInputError, UnsupportedError
from lakelog.records.compression import DECOMPRESSED_BYTES_MAX, Codec, compressor, decompress
from lakelog.records.header import (
    BATCH_BYTES_MAX,
    CODEC_MASK,
    CONTROL_BIT,
    CRC_START,
    DELETE_HORIZON_BIT,
    HEADER_BYTES,
    I32_MAX,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    Bytes,
    Frame,
    encode_header,
    frames,
)
from lakelog.records.kernels import repack as k
from lakelog.records.kernels.fields import DONE
from lakelog.records.memory import Array

__all__ = ["Repacked", "Repacker", "Shape", "may_join"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What batches are to become."""

    codec: Codec
    level: int | None = None
    """Of the codec; None: what it takes unless told."""
    batch_bytes_max: int = 1_048_588
    """The largest batch that is made, as it is compressed: ``max.message.bytes``."""
    records_bytes: int = 1 << 20
    """Up to so many bytes of records in a batch, before they are compressed, ..."""
    records_max: int = 1 << 14
    """... and so many records. What has half of either is left alone."""
    decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX
    """A batch that holds more is left as it is."""

    def __post_init__(self) -> None:
        if min(self.batch_bytes_max, self.records_bytes, self.records_max) < 0:
            raise InvalidInputError("sizes of batches are negative: use 0 or more")
        if self.batch_bytes_max > BATCH_BYTES_MAX:
            raise InvalidInputError(
                f"batches of {self.batch_bytes_max} bytes: readers take at most {BATCH_BYTES_MAX}"
            )

    @property
    def room(self) -> int:
        """Bytes of records in a batch that will not be too large, even if nothing compresses."""
        spare = HEADER_BYTES + (self.batch_bytes_max >> 6 if self.codec else 0)
        return max(0, min(self.records_bytes, self.batch_bytes_max - spare))


@dataclass(frozen=True, slots=True, kw_only=True)
class Repacked:
    """What became of a run."""

    run: bytes
    bytes_read: int
    batches_read: int
    batches_made: int
    """How many there are now, those that were left as they are included."""
    batches_left: int
    """How many were left as they are because they cannot be read."""
    records: int


def may_join(one: BatchHeader, two: BatchHeader) -> bool:
    """Whether the header of one batch can say what those of two neighbours say."""
    bits = one.attributes
    if (bits ^ two.attributes) & ~CODEC_MASK or bits & CONTROL_BIT:
        return False
    if not one.count or not two.count or one.next_offset > two.base_offset:
        return False
    if one.leader_epoch != two.leader_epoch:
        return False
    if (one.producer_id, one.producer_epoch) != (two.producer_id, two.producer_epoch):
        return False
    if bits & TIMESTAMP_TYPE_BIT and one.max_timestamp != two.max_timestamp:
        return False
    if bits & DELETE_HORIZON_BIT and one.base_timestamp != two.base_timestamp:
        return False
    if one.producer_id < 0:
        return one.base_sequence == two.base_sequence == -1 and not bits & TRANSACTIONAL_BIT
    goes_on = (one.last_sequence + 1) & I32_MAX == two.base_sequence
    return one.base_sequence >= 0 and goes_on and one.next_offset == two.base_offset


class Repacker:
    """Repacks runs into one shape, one after another, in memory that is used again."""

    def __init__(self, shape: Shape) -> None:
        self._shape, self._room = shape, shape.room
        self._compress = compressor(shape.codec, level=shape.level)
        self._memory: Array = np.empty(self._room, np.uint8)
        self._address = int(self._memory.ctypes.data)

    def repack(self, run: Bytes, *, where: str = "") -> Repacked:
        """Return a run of whole batches, repacked.

        Raises:
            CorruptError, UnsupportedError: it is not such a run. What is wrong inside of a batch
                is no reason: it is left as it is.
        """
        view = memoryview(run).cast("B")
        out = _Made(view)
        for chain in self._chains(frames(view, after=None, crc=False, where=where)):
            if len(chain) == 1 and self._is_done(chain[0].header):
                out.leave(chain)
            else:
                self._fill(chain, out)
        return out.total()

    def _chains(self, placed: Iterator[Frame]) -> Iterator[list[Frame]]:
        """Yield neighbours that may be joined, as far as headers tell."""
        chain: list[Frame] = []
        ends_here = False
        for one in placed:
            is_large = self._is_large(one.header)
            if chain and (ends_here or is_large or not may_join(chain[-1].header, one.header)):
                yield chain
                chain = []
            chain.append(one)
            ends_here = is_large
        if chain:
            yield chain

    def _is_large(self, header: BatchHeader) -> bool:
        """Whether a batch is left alone by its neighbours; its records may tell so later."""
        body = header.size - HEADER_BYTES
        return 2 * header.count >= self._shape.records_max or 2 * body >= self._room

    def _is_done(self, header: BatchHeader) -> bool:
        """Whether a batch without neighbours is what it should be, or must not be touched."""
        return header.codec is self._shape.codec or header.is_control or not header.count

    def _fill(self, chain: list[Frame], out: "_Made") -> None:
        """Make packs of a chain."""
        pack: list[Frame] = []
        count = end = 0
        for one in chain:
            header, records = one.header, _open(out.view, one, self._shape)
            alone = records is None or 2 * len(records) >= self._room
            added = -1
            if pack and records is not None and not alone:
                if count + header.count <= self._shape.records_max:
                    added = self._add(pack[0].header, header, records, end)
                if added >= 0:
                    pack.append(one)
                    count, end = count + header.count, added
                    continue
            if pack:
                self._close(pack, self._memory.data[:end], out)
                pack = []
            if records is None:
                out.leave([one], unread=1)
            elif alone:
                self._close([one], records.data, out)
            else:
                pack, count, end = [one], header.count, len(records)
                self._memory[:end] = records
        if pack:
            self._close(pack, self._memory.data[:end], out)

    def _add(self, first: BatchHeader, header: BatchHeader, records: Array, end: int) -> int:
        """Write records behind those of a pack; return where they end, -1 if they do not fit."""
        if header.next_offset - 1 - first.base_offset > I32_MAX:
            return -1
        return int(
            k.move_records(
                records, header.count, header.base_timestamp, first.base_timestamp,
                header.base_offset - first.base_offset, self._address, end, self._room,
            )
        )  # fmt: skip

    def _close(self, pack: list[Frame], records: memoryview, out: "_Made") -> None:
        """Turn a pack into a batch, unless that would be worse than what is there."""
        headers, codec = [one.header for one in pack], self._shape.codec
        first = headers[0]
        if len(pack) == 1 and first.codec is codec:
            out.leave(pack)
            return
        body = self._compress(records)
        size = HEADER_BYTES + len(body)
        # Whoever asks for no compression has asked for more bytes.
        is_larger = codec is not Codec.NONE and size > sum(header.size for header in headers)
        if is_larger or size > self._shape.batch_bytes_max:
            out.leave(pack)
            return
        header = first._replace(
            attributes=first.attributes & ~CODEC_MASK | codec,
            last_offset_delta=headers[-1].next_offset - 1 - first.base_offset,
            max_timestamp=max(header.max_timestamp for header in headers),
            count=sum(header.count for header in headers),
        )
        out.put(pack, encode_header(header, body), body)


def _open(view: memoryview, one: Frame, shape: Shape) -> Array | None:
    """Return the records of a batch, unpacked and checked; None if the plain codec refuses it."""
    at, header = one
    end = at + header.size
    if crc32c(view[at + CRC_START : end]) != header.crc:
        return None
    body: Bytes = view[at + HEADER_BYTES : end]
    if header.attributes & CODEC_MASK:
        try:
            body = decompress(header.codec, body, size_max=shape.decompressed_bytes_max)
        except (CorruptError, UnsupportedError):
            return None
    records = np.frombuffer(body, np.uint8)
    status = k.check_records(records, header.count, header.last_offset_delta, header.base_timestamp)
    return records if status == DONE else None


class _Made:
    """What was made of a run so far."""

    def __init__(self, view: memoryview) -> None:
        self.view = view
        self._pieces: list[Bytes] = []
        self._read = self._made = self._left = self._records = 0

    def leave(self, pack: list[Frame], *, unread: int = 0) -> None:
        """Take batches that follow one another as they are."""
        last = pack[-1]
        self._pieces.append(self.view[pack[0].position : last.position + last.header.size])
        self._made += len(pack)
        self._left += unread
        self._count(pack)

    def put(self, pack: list[Frame], *pieces: Bytes) -> None:
        """Take a batch in place of others."""
        self._pieces += pieces
        self._made += 1
        self._count(pack)

    def _count(self, pack: list[Frame]) -> None:
        self._read += len(pack)
        self._records += sum(one.header.count for one in pack)

    def total(self) -> Repacked:
        return Repacked(
            run=b"".join(self._pieces),
            bytes_read=len(self.view),
            batches_read=self._read,
            batches_made=self._made,
            batches_left=self._left,
            records=self._records,
        )
