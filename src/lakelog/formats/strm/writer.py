"""Arrow columns -> an STRM segment.

Whether the records of a segment carry a count of headers depends on all of them, but blocks are
written as they come, so that no more is held than what the file will be. So they are written
without a count, and the first record that has headers makes the blocks before it be written once
more. Nothing else that is known last stands in a block.

Blocks are cut where the format's first writer cut them: before a record whose estimated size
(10 bytes, key and value) would carry the block past its target. So the same records give the same
blocks as there.
"""

from zlib import crc32

import numpy as np
import pyarrow as pa

from lakelog.errors import InvalidInputError
from lakelog.formats import kernels_encode as k
from lakelog.formats.contract import Bytes
from lakelog.formats.growing import Growing, SegmentFiles
from lakelog.formats.strm.blocks import block_compressor, open_block, seal_block
from lakelog.formats.strm.layout import (
    BLOCK_TARGET_BYTES,
    HEADER,
    MAGIC,
    SUFFIX,
    IndexEntry,
    SegmentHeader,
    check_settings,
    encode_end,
    topic_hash,
    version_and_flags,
)
from lakelog.records import I64_MAX, I64_MIN, Codec
from lakelog.records.encoder import Source
from lakelog.records.kernels.fields import DONE, FULL
from lakelog.records.kernels.source import E_BYTES_MAX

__all__ = ["StrmWriter"]

_SPARE_BYTES = 64 * 1024  # A block is nearly always a little larger than was estimated.


class StrmWriter(Growing):
    """A segment of blocks, the last of which is open."""

    def __init__(
        self,
        base_offset: int | None,
        topic: str,
        partition: int,
        codec: Codec,
        level: int | None,
        block_bytes: int | None,
        created_ms: int | None,
    ) -> None:
        self._block_bytes = BLOCK_TARGET_BYTES if block_bytes is None else block_bytes
        check_settings(codec, partition, created_ms or 0, self._block_bytes)
        super().__init__(base_offset, head_bytes=HEADER.size)
        self._topic, self._partition = topic, partition
        self._codec, self._created_ms = codec, created_ms
        self._compress = block_compressor(codec, level=level)
        self._entries: list[IndexEntry] = []
        self._block = pa.allocate_buffer(self._block_bytes + _SPARE_BYTES, resizable=True)
        self._state = np.zeros(k.STRM_WIDTH, np.int64)
        self._state[k.W_MIN_TIME], self._state[k.W_MAX_TIME] = I64_MAX, I64_MIN

    def add(self, columns: pa.RecordBatch) -> None:
        source = Source(columns, None)
        if columns.num_rows == 0:
            return
        self.follow(columns)
        source.plan[E_BYTES_MAX] = self._block_bytes
        self._state[k.W_ROW] = 0
        while True:
            status = k.encode_strm(
                source.plan, source.addresses, self._block.address, self._block.size, self._state
            )
            if status == DONE:
                return
            if status == FULL:
                self._block.resize(2 * self._block.size)
            elif status == k.HEADED:
                self._widen()
            else:
                self._close()

    def _close(self) -> None:
        """Put the open block behind those that are closed, and open another."""
        state = self._state
        raw = memoryview(self._block).cast("B")[: int(state[k.W_AT])]
        self._append(raw, int(state[k.W_COUNT]), int(state[k.W_BASE_OFFSET]))
        state[k.W_AT] = state[k.W_ESTIMATE] = state[k.W_COUNT] = 0

    def _append(self, raw: Bytes, count: int, base_offset: int) -> None:
        head, body = seal_block(raw, self._compress, count=count, base_offset=base_offset)
        self._entries.append(IndexEntry(offset=base_offset, position=self.size))
        self.append(head)
        self.append(body)

    def _widen(self) -> None:
        """Write all blocks again, now with a count of headers in every record."""
        header = self._header()
        entries, self._entries = self._entries, []
        written, self.size = bytes(self.view()), HEADER.size
        for entry in entries:
            block = open_block(
                memoryview(written)[entry.position :], header, position=0, base_offset=entry.offset
            )
            wide, size = _widened(pa.py_buffer(block.raw), len(block.raw))
            self._append(memoryview(wide).cast("B")[:size], block.count, entry.offset)
        self._block, self._state[k.W_AT] = _widened(self._block, int(self._state[k.W_AT]))
        self._state[k.W_HEADERS] = 1

    def _header(self) -> SegmentHeader:
        state = self._state
        version, flags = version_and_flags(
            self._codec,
            has_tombstones=bool(state[k.W_TOMBSTONES] < 0),
            has_headers=bool(state[k.W_HEADERS]),
        )
        newest = int(state[k.W_MAX_TIME])
        return SegmentHeader(
            magic=MAGIC,
            version=version,
            flags=flags,
            topic_hash=topic_hash(self._topic),
            partition=self._partition,
            base_offset=self.first,
            max_offset=self.last,
            count=self.count,
            created_at=max(0, newest) if self._created_ms is None else self._created_ms,
            min_timestamp=int(state[k.W_MIN_TIME]),
            max_timestamp=newest,
        )

    def finish(self) -> SegmentFiles:
        if not self.count:
            raise InvalidInputError("an STRM segment holds at least one record: there is none")
        if self.base_offset not in (None, self.first):
            raise InvalidInputError(
                f"an STRM segment begins at its first record, {self.first}; leave out base_offset "
                f"{self.base_offset}"
            )
        self._close()
        self.view()[: HEADER.size] = self._header().encode()
        self.append(encode_end(self._entries, self.size, crc32(self.view())))
        return {SUFFIX: self.buffer()}


def _widened(block: pa.Buffer, end: int) -> tuple[pa.Buffer, int]:
    """Return a copy of ``[0, end)`` of a block in which records have a count of headers."""
    wide = pa.allocate_buffer(max(block.size, end + end // 4), resizable=True)
    return wide, k.widen_strm(block.address, end, wide.address)
