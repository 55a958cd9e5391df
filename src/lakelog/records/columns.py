"""Record batches to Arrow columns, by compiled kernels.

    runs of batches --scan--> headers --CRC, decompress--> bodies --parse--> fields --> columns

The columns, in Spark's own types, because a Spark source must match them exactly:

    key            binary
    value          binary
    offset         int64
    timestamp      timestamp[us, UTC]     the wire's milliseconds, times 1000
    timestampType  int32                  0 create time, 1 log append time
    headers        list<element: struct<key: string, value: binary>>, null when there are none

Only the columns asked for are made, but every byte is checked whichever they are: the answer to
"is this run sound?" must not depend on who asks. Damage is found by the kernels and judged by the
reference codec, which raises the same error it would have raised by itself.

Arrow batches have at most ``rows_max`` rows and about ``bytes_max`` bytes; none reaches from one
run into the next. They may be kept: their memory is used again only when they are gone.
"""

import ctypes
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from crc32c import crc32c

from lakelog.errors import CorruptError, InvalidInputError, UnsupportedError
from lakelog.records.batch import decode_batch
from lakelog.records.compression import DECOMPRESSED_BYTES_MAX, Codec, decompress
from lakelog.records.header import BATCH_BYTES_MAX, CODEC_MASK, CRC_START, OFFSET_MAX, Bytes
from lakelog.records.kernels import decode as k
from lakelog.records.kernels import fields as f
from lakelog.records.kernels.gather import gather_bytes, gather_headers
from lakelog.records.memory import Pool

__all__ = [
    "BYTES_MAX",
    "COLUMNS",
    "ROWS_MAX",
    "BatchDecoder",
    "Columns",
    "arrow_schema",
    "decode_columns",
    "time_overflow",
]

ROWS_MAX = 65_536
BYTES_MAX = 16 * 1024 * 1024

HEADER_TYPE = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])

TYPES: dict[str, pa.DataType] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
    "headers": pa.list_(pa.field("element", HEADER_TYPE)),
}
COLUMNS = tuple(TYPES)

_TABLE_ROWS = 4096
_GROUP_BYTES = 8 * 1024 * 1024
_RECORD_BYTES_MIN = 7
_RUN_BYTES_MAX = (1 << 31) - 1

Array = npt.NDArray[Any]


def arrow_schema(columns: Iterable[str] = COLUMNS) -> pa.Schema:
    """Return the schema of ``columns``, in that order.

    Raises:
        InvalidInputError: one of them is not a column of records.
    """
    chosen = tuple(columns)
    for name in chosen:
        if name not in TYPES:
            raise InvalidInputError(f"no column {name!r}; there are {', '.join(COLUMNS)}")
    return pa.schema([pa.field(name, TYPES[name]) for name in chosen])


class Columns:
    """Makes Arrow batches out of what a parser notes."""

    def __init__(
        self,
        columns: Iterable[str] = COLUMNS,
        *,
        rows_max: int = ROWS_MAX,
        bytes_max: int = BYTES_MAX,
        offset_from: int = 0,
        offset_to: int = OFFSET_MAX,
        control: bool = False,
    ) -> None:
        if rows_max < 1 or bytes_max < 1:
            raise InvalidInputError("rows_max and bytes_max must be at least 1")
        self.schema = arrow_schema(columns)
        self._rows_max = rows_max
        self.limits = np.zeros(f.LIMITS, np.int64)
        self.limits[f.L_BYTES_MAX] = bytes_max
        self.limits[f.L_OFFSET_FROM], self.limits[f.L_OFFSET_TO] = offset_from, offset_to
        self.limits[f.L_CONTROL] = control
        self.limits[f.L_TIMES] = "timestamp" in self.schema.names
        self.arrays = np.zeros(f.ARRAYS, np.int64)
        self.sums = np.zeros(f.SUMS, np.int64)
        self._pool = Pool()
        self._memory: list[pa.Buffer] = []

    def begin(self, rows: int) -> None:
        """Make room for what remains: ``rows`` records, in pieces of about the same size."""
        pieces = -(-rows // self._rows_max)
        room = -(-rows // pieces)
        self.limits[f.L_ROWS_MAX] = room
        self.sums[:] = 0
        self._memory = [self._pool.lend(room * width) for width in _ARRAY_WIDTHS]
        self.arrays[:] = [memory.address for memory in self._memory]

    def take(self, address: int) -> pa.RecordBatch:
        """Return what has been noted, whose bytes are at ``address``, as one Arrow batch."""
        columns = [self._column(name, address) for name in self.schema.names]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    @property
    def rows(self) -> int:
        return int(self.sums[f.N_ROWS])

    def _column(self, name: str, address: int) -> pa.Array:
        match name:
            case "key":
                return self._bytes(address, f.NOTE_KEY, f.N_KEY_BYTES, f.N_KEYS)
            case "value":
                return self._bytes(address, f.NOTE_VALUE, f.N_VALUE_BYTES, f.N_VALUES)
            case "headers":
                return self._headers(address)
            case _:
                memory = self._memory[_ARRAY_OF[name]]
                return pa.Array.from_buffers(TYPES[name], self.rows, [None, memory], 0)

    def _ones(self, items: int) -> pa.Buffer:
        """A bitmap of ones, in which a kernel clears those of nulls."""
        bits = self._pool.lend((items + 7) // 8)
        ctypes.memset(bits.address, 0xFF, bits.size)
        return bits

    def _bytes(self, address: int, field: int, total: int, sign: int) -> pa.Array:
        rows = self.rows
        ends, data = self._pool.lend(4 * (rows + 1)), self._pool.lend(int(self.sums[total]))
        bits = self._ones(rows) if self.sums[sign] < 0 else None
        nulls = gather_bytes(
            address, rows, self._memory[f.A_NOTES].address, field,
            ends.address, data.address, bits.address if bits else 0,
        )  # fmt: skip
        return pa.Array.from_buffers(pa.binary(), rows, [bits, ends, data], nulls)

    def _headers(self, address: int) -> pa.Array:
        rows, count, headed = (int(self.sums[i]) for i in (f.N_ROWS, f.N_HEADERS, f.N_HEADED_ROWS))
        if headed == 0:
            return pa.nulls(rows, TYPES["headers"])
        lend = self._pool.lend
        lists, key_ends, value_ends = lend(4 * rows + 4), lend(4 * count + 4), lend(4 * count + 4)
        keys = lend(int(self.sums[f.N_HEADER_KEY_BYTES]))
        values = lend(int(self.sums[f.N_HEADER_VALUE_BYTES]))
        list_bits, value_bits = self._ones(rows), self._ones(count)
        nulls = gather_headers(
            address, rows, self._memory[f.A_NOTES].address,
            lists.address, list_bits.address, key_ends.address, keys.address,
            value_ends.address, values.address, value_bits.address,
        )  # fmt: skip
        key_parts = [None, key_ends, keys]
        if nulls < 0:
            nulls = -1 - nulls
            key_parts = [None, *_mend_utf8(key_ends, keys, count)]
        pairs = pa.StructArray.from_arrays(
            [
                pa.Array.from_buffers(pa.string(), count, key_parts, 0),
                pa.Array.from_buffers(pa.binary(), count, [value_bits, value_ends, values], nulls),
            ],
            fields=list(HEADER_TYPE),
        )
        parts = [list_bits, lists]
        return pa.Array.from_buffers(TYPES["headers"], rows, parts, rows - headed, 0, [pairs])


_ARRAY_WIDTHS = (8, 8, 4, 4 * f.NOTE_WIDTH)
_ARRAY_OF = {"offset": f.A_OFFSETS, "timestamp": f.A_TIMES, "timestampType": f.A_KINDS}


def _mend_utf8(ends: pa.Buffer, data: pa.Buffer, count: int) -> tuple[pa.Buffer, pa.Buffer]:
    """Replace what is not UTF-8 in strings, as a Java consumer does."""
    raw, at = data.to_pybytes(), np.frombuffer(ends, np.int32, count + 1).tolist()
    mended = [raw[a:b].decode("utf-8", "replace").encode() for a, b in pairwise(at)]
    return pa.py_buffer(np.cumsum([0, *map(len, mended)], dtype=np.int32)), pa.py_buffer(
        b"".join(mended)
    )


class BatchDecoder:
    """Turns runs of record batches, given one after another, into Arrow batches."""

    def __init__(
        self,
        columns: Iterable[str] = COLUMNS,
        *,
        batch_bytes_max: int = BATCH_BYTES_MAX,
        decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX,
        **settings: Any,
    ) -> None:
        """Settings are those of Columns.

        Records outside ``[offset_from, offset_to)`` are checked but left out. So are control
        records, which tell readers of transactions what was committed and which consumers never
        see; ``control`` lets them through.
        """
        self._columns = Columns(columns, **settings)
        self._batch_bytes_max = batch_bytes_max
        self._decompressed_bytes_max = decompressed_bytes_max
        self._table = np.empty((_TABLE_ROWS, k.TABLE_WIDTH), np.int64)

    @property
    def schema(self) -> pa.Schema:
        return self._columns.schema

    def feed(self, run: Bytes, *, at: int = 0, where: str = "") -> Iterator[pa.RecordBatch]:
        """Take a run of whole batches, which stands at ``at`` of its file; yield its records.

        Raises:
            CorruptError, UnsupportedError: as the reference codec would, after what is before it.
        """
        data = np.frombuffer(run, np.uint8)
        if len(data) > _RUN_BYTES_MAX:
            raise InvalidInputError(f"a run of {len(data)} bytes; feed at most {_RUN_BYTES_MAX}")
        view = memoryview(run).cast("B")
        position, out = 0, np.zeros(2, np.int64)
        while position < len(data):
            status = k.scan_batches(
                data.ctypes.data, position, len(data), self._batch_bytes_max, self._table, out
            )
            count, position = int(out[0]), int(out[1])
            for first, last, body in self._groups(view, data, count, at, where):
                yield from self._decode(view, body, self._table[first:last], at, where)
            if status == f.BAD:
                self._judge(view, position, at, where)

    def _groups(
        self, view: memoryview, data: Array, count: int, at: int, where: str
    ) -> Iterator[tuple[int, int, Array]]:
        """Check CRCs; yield ranges of table rows with the array their bodies lie in."""
        table = self._table
        rows = table[:count].tolist()
        first = 0
        while first < count:
            last, compressed = first, bool(rows[first][k.T_ATTRIBUTES] & CODEC_MASK)
            bodies: list[bytes] = []
            held = 0
            while last < count and held < _GROUP_BYTES:
                row = rows[last]
                if bool(row[k.T_ATTRIBUTES] & CODEC_MASK) != compressed:
                    break
                start, end = row[k.T_POSITION], row[k.T_BODY_END]
                if crc32c(view[start + CRC_START : end]) != row[k.T_CRC]:
                    # Rows before the damage still count, and are handed out first.
                    break
                size = end - row[k.T_BODY]
                if compressed:
                    try:
                        body = self._decompress(row, view)
                    except (CorruptError, UnsupportedError):
                        break
                    size = len(body)
                    bodies.append(body)
                    table[last, k.T_BODY], table[last, k.T_BODY_END] = held, held + size
                if row[k.T_COUNT] * _RECORD_BYTES_MIN > size:
                    break  # It cannot hold so many: nothing may be allocated on its word.
                held += size
                last += 1
            if last > first:
                body_array = np.frombuffer(b"".join(bodies), np.uint8) if compressed else data
                yield first, last, body_array
            if last < count and last == first:
                self._judge(view, rows[first][k.T_POSITION], at, where)
            first = last

    def _decompress(self, row: list[int], view: memoryview) -> bytes:
        if row[k.T_COUNT] == 0:
            return b""  # A header alone, whatever codec it names.
        codec = Codec(row[k.T_ATTRIBUTES] & CODEC_MASK)
        body = view[row[k.T_BODY] : row[k.T_BODY_END]]
        return decompress(codec, body, size_max=self._decompressed_bytes_max)

    def _decode(
        self, view: memoryview, body: Array, table: Array, at: int, where: str
    ) -> Iterator[pa.RecordBatch]:
        columns, cursor = self._columns, np.zeros(4, np.int64)
        left = int(table[:, k.T_COUNT].sum())
        address = body.ctypes.data
        status = f.FULL
        while status == f.FULL and left:
            columns.begin(left)
            status = k.parse_batches(
                address, table, columns.limits, cursor, columns.arrays, columns.sums
            )
            if columns.rows:
                yield columns.take(address)
            left = int(table[int(cursor[0]) :, k.T_COUNT].sum()) - int(cursor[1])
        position = int(table[min(int(cursor[0]), len(table) - 1), k.T_POSITION])
        if status == f.BAD:
            self._judge(view, position, at, where)
        if status == f.TIME_OVERFLOW:
            raise time_overflow(at + position, where)

    def _judge(self, view: memoryview, position: int, at: int, where: str) -> NoReturn:
        """Let the reference codec say what is wrong with the batch at ``position``."""
        try:
            decode_batch(
                view[position:],
                where=where,
                size_max=self._batch_bytes_max,
                decompressed_bytes_max=self._decompressed_bytes_max,
            )
        except (CorruptError, UnsupportedError) as error:
            place = at + position + error.at
            raise type(error)(error.what, at=place, where=error.where) from error
        raise AssertionError(f"the compiled and the plain codec disagree at byte {at + position}")


def time_overflow(at: int, where: str) -> UnsupportedError:
    """The error for a time that the wire can hold and a column cannot."""
    return UnsupportedError(
        "a timestamp does not fit the microseconds of an Arrow column; "
        "ask for columns without `timestamp`",
        at=at,
        where=where,
    )


def decode_columns(
    run: Bytes, columns: Iterable[str] = COLUMNS, **settings: Any
) -> Iterator[pa.RecordBatch]:
    """Yield the records of a run of whole batches as Arrow; settings are those of BatchDecoder."""
    decoder = BatchDecoder(columns, **settings)
    yield from decoder.feed(run)
