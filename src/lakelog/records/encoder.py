"""Arrow columns to record batches, by a compiled kernel.

The columns are those of ``columns``. ``key`` and ``value`` may be binary or string, ``headers`` may
be missing. Timestamps lose what is finer than a millisecond, because the wire has no room for it.
A batch ends when it has enough records or bytes, when the timestamp type changes, and, with log
append time, when the time does: such a batch has one time for all its records.
"""

import ctypes
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from crc32c import crc32c

from lakelog.errors import InvalidInputError
from lakelog.records.batch import check_batch_size
from lakelog.records.columns import TYPES
from lakelog.records.compression import Codec, compressor
from lakelog.records.header import CRC_START, HEADER_BYTES, LENGTH_END, OFFSET_MAX
from lakelog.records.kernels import encode as k
from lakelog.records.kernels import source as s
from lakelog.records.kernels.fields import FULL, TIME_OVERFLOW
from lakelog.records.memory import Array, Pool

__all__ = ["BatchEncoder", "Source"]

RECORDS_MAX = 10_000
BATCH_BYTES = 1024 * 1024

_KNOWN = f"the columns are {', '.join(TYPES)}"
_NOTHING = pa.py_buffer(bytes(8))
_ROOM_PER_ROW = 16
_TABLE_ROWS = 1024
_U32 = struct.Struct(">I")


class BatchEncoder:
    """Turns Arrow columns into runs of record batches, one call after another."""

    def __init__(
        self,
        *,
        codec: Codec = Codec.NONE,
        level: int | None = None,
        records_max: int = RECORDS_MAX,
        batch_bytes: int = BATCH_BYTES,
        leader_epoch: int = 0,
    ) -> None:
        """``batch_bytes`` is the size of a batch before compression; a larger record has its own.

        Raises:
            InvalidInputError: a limit is less than one.
        """
        if records_max < 1 or batch_bytes < 1:
            raise InvalidInputError("records_max and batch_bytes must be at least 1")
        self._codec, self._compress = codec, compressor(codec, level=level)
        self._records_max, self._batch_bytes = records_max, batch_bytes
        self._leader_epoch = leader_epoch
        self._table = np.empty((_TABLE_ROWS, 2), np.int64)
        self._pool = Pool()

    def encode(self, columns: pa.RecordBatch, *, base_offset: int | None = None) -> pa.Buffer:
        """Return ``columns`` as a run of record batches.

        Offsets come from the column `offset`, or count up from ``base_offset`` when it is given.

        Raises:
            InvalidInputError: a column is missing, of another type, or holds what no batch can; or
                a record makes its batch larger than what is read.
        """
        source = Source(columns, base_offset)
        plan = source.plan
        plan[s.E_RECORDS_MAX], plan[s.E_BYTES_MAX] = self._records_max, self._batch_bytes
        plan[s.E_CODEC], plan[s.E_LEADER_EPOCH] = self._codec, self._leader_epoch
        room = columns.nbytes + _ROOM_PER_ROW * columns.num_rows + HEADER_BYTES * _TABLE_ROWS
        out = self._pool.lend(room)
        table, cursor = self._table, np.zeros(3, np.int64)
        pieces: list[bytes] = []
        while True:
            cursor[1] = 0
            status = k.encode_batches(plan, source.addresses, out.address, out.size, table, cursor)
            batches = table[: cursor[1]].tolist()
            if self._codec is Codec.NONE:
                _sign(out, batches)
            else:
                pieces += self._compressed(memoryview(out).cast("B"), batches)
                cursor[2] = 0
            if status == TIME_OVERFLOW:
                raise InvalidInputError("timestamps must lie within 64 bits of each other")
            if status != FULL:
                break
            if not batches:
                larger = self._pool.lend(2 * out.size)
                ctypes.memmove(larger.address, out.address, int(cursor[2]))
                out = larger
        if self._codec is Codec.NONE:
            return out.slice(0, int(cursor[2]))
        return pa.py_buffer(b"".join(pieces))

    def _compressed(self, out: memoryview, batches: list[list[int]]) -> Iterator[bytes]:
        """Yield each batch with its records compressed, its length and its CRC put right."""
        for start, end in batches:
            body = self._compress(out[start + HEADER_BYTES : end])
            check_batch_size(end - start - HEADER_BYTES, HEADER_BYTES + len(body))
            head = bytearray(out[start : start + HEADER_BYTES])
            _U32.pack_into(head, LENGTH_END - 4, HEADER_BYTES - LENGTH_END + len(body))
            _U32.pack_into(head, CRC_START - 4, crc32c(body, crc32c(head[CRC_START:])))
            yield bytes(head)
            yield body


def _sign(out: pa.Buffer, batches: list[list[int]]) -> None:
    """Write the CRC of each batch into it."""
    view = memoryview((ctypes.c_char * out.size).from_address(out.address)).cast("B")
    for start, end in batches:
        check_batch_size(end - start - HEADER_BYTES, end - start)
        _U32.pack_into(view, start + CRC_START - 4, crc32c(view[start + CRC_START : end]))


class Source:
    """The columns as the kernel sees them: addresses of buffers, and a plan of how to read them."""

    def __init__(self, columns: pa.RecordBatch, base_offset: int | None) -> None:
        self._columns = columns
        self._rows = columns.num_rows
        self._held: list[Any] = []  # What the addresses point into must outlive the kernel.
        self.plan = np.zeros(s.ENCODE_WIDTH, np.int64)
        self.addresses = np.full(s.SOURCE_WIDTH, _NOTHING.address, np.int64)
        for name in columns.schema.names:
            if name not in TYPES:
                raise InvalidInputError(f"no column {name!r} in a record; {_KNOWN}")
        self.plan[s.E_ROWS] = self._rows
        self._take_offsets(base_offset)
        self._take_numbers("timestamp", s.S_TIMESTAMPS)
        self._take_types()
        self._take_bytes("key", s.S_KEY_ENDS, s.E_KEY_NULLS, s.E_KEY_BIT)
        self._take_bytes("value", s.S_VALUE_ENDS, s.E_VALUE_NULLS, s.E_VALUE_BIT)
        self._take_headers()

    def _column(self, name: str) -> pa.Array | None:
        if name not in self._columns.schema.names:
            return None
        column = self._columns.column(name)
        if column.type != TYPES[name]:
            try:
                column = column.cast(TYPES[name])
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                raise InvalidInputError(
                    f"column {name} is {column.type}, not {TYPES[name]}: {error}"
                ) from error
        self._held.append(column)
        return column

    def _take_numbers(self, name: str, slot: int) -> Array:
        """Point at a column of numbers, none of which may be missing."""
        column = self._column(name)
        if column is None or column.null_count:
            raise InvalidInputError(f"column {name} is missing or has nulls; {_KNOWN}")
        width = column.type.bit_width // 8
        data, start = (column.buffers()[1], column.offset * width) if self._rows else (_NOTHING, 0)
        self.addresses[slot] = data.address + start
        kind = np.int64 if width == 8 else np.int32
        return np.frombuffer(data, kind, self._rows, start)

    def _take_offsets(self, base_offset: int | None) -> None:
        if base_offset is not None:
            if not 0 <= base_offset <= OFFSET_MAX - self._rows:
                raise InvalidInputError(f"base offset {base_offset}")
            self.plan[s.E_BASE_OFFSET] = base_offset
            return
        offsets = self._take_numbers("offset", s.S_OFFSETS)
        self.plan[s.E_HAS_OFFSETS] = 1
        if self._rows and not (
            offsets[0] >= 0 and offsets[-1] < OFFSET_MAX and bool(np.all(np.diff(offsets) > 0))
        ):
            raise InvalidInputError("offsets must rise, from 0 on")

    def _take_types(self) -> None:
        if "timestampType" in self._columns.schema.names:
            types = self._take_numbers("timestampType", s.S_TIMESTAMP_TYPES)
            self.plan[s.E_HAS_TYPES] = 1
            if bool(np.any((types < 0) | (types > 1))):
                raise InvalidInputError("timestampType is 0 (create time) or 1 (log append time)")

    def _take_bytes(self, name: str, slot: int, nulls: int, bit: int) -> None:
        column = self._column(name)
        if column is None:
            column = pa.nulls(self._rows, pa.binary())
            self._held.append(column)
        self._point(column, slot, nulls, bit)

    def _take_headers(self) -> None:
        lists = self._column("headers")
        if lists is None:
            return
        pairs = lists.values
        keys, values = pairs.field("key"), pairs.field("value")
        if pairs.null_count or keys.null_count:
            raise InvalidInputError("a header, and its key, cannot be null")
        self._held += [pairs, keys, values]
        self.plan[s.E_HAS_HEADERS] = 1
        bits, ends = lists.buffers()[:2]
        self._point_at_bits(bits, lists, s.S_LIST_BITS, s.E_LIST_NULLS, s.E_LIST_BIT)
        if ends is not None and ends.size:
            self.addresses[s.S_LISTS] = ends.address + 4 * lists.offset
        self._point(keys, s.S_HEADER_KEY_ENDS, None, None)
        self._point(values, s.S_HEADER_VALUE_ENDS, s.E_HEADER_VALUE_NULLS, s.E_HEADER_VALUE_BIT)

    def _point(self, column: pa.Array, slot: int, nulls: int | None, bit: int | None) -> None:
        """Point three slots at the ends, the bytes and the bits of a binary column."""
        bits, ends, data = column.buffers()
        if ends is not None and ends.size:
            self.addresses[slot] = ends.address + 4 * column.offset
        if data is not None and data.size:
            self.addresses[slot + 1] = data.address
        if nulls is not None and bit is not None:
            self._point_at_bits(bits, column, slot + 2, nulls, bit)

    def _point_at_bits(
        self, bits: pa.Buffer | None, column: pa.Array, slot: int, nulls: int, bit: int
    ) -> None:
        if bits is not None and column.null_count:
            self.addresses[slot] = bits.address + column.offset // 8
            self.plan[nulls], self.plan[bit] = 1, column.offset % 8
