"""One Arrow batch on its way: buffers that parsers and gatherers fill, turn by turn.

A turn is a few thousand records: a parser noted them, then their keys, values and headers are
copied behind those of the turns before. Buffers of bytes are as large as the batch may become,
which costs address space and no memory: what is not touched is not there.
"""

import ctypes
from collections.abc import Callable, Generator, Iterable, Iterator
from itertools import pairwise

import numpy as np
import pyarrow as pa

from lakelog.errors import InvalidInputError
from lakelog.records.header import OFFSET_MAX
from lakelog.records.kernels import fields as f
from lakelog.records.kernels.gather import gather_bytes, gather_headers
from lakelog.records.memory import Array, Pool
from lakelog.records.schema import COLUMNS, HEADER_TYPE, TYPES, arrow_schema

__all__ = ["BYTES_MAX", "ROWS_MAX", "Columns"]

ROWS_MAX = 65_536
BYTES_MAX = 16 * 1024 * 1024
TURN_ROWS = 16384

Lend = Callable[[int], pa.Buffer]


class Columns:
    """Makes Arrow batches out of what parsers note: what these read and write, and where to."""

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
        self._rows_max, self._bytes_max = rows_max, bytes_max
        self.limits = np.zeros(f.LIMITS, np.int64)
        self.limits[f.L_OFFSET_FROM], self.limits[f.L_OFFSET_TO] = offset_from, offset_to
        self.limits[f.L_CONTROL] = control
        self.limits[f.L_TIMES] = "timestamp" in self.schema.names
        self.arrays = np.zeros(f.ARRAYS, np.int64)
        self.sums = np.zeros(f.SUMS, np.int64)
        self._pool = Pool()
        self.noted = self._pool.lend(TURN_ROWS * 4 * f.NOTE_WIDTH)
        self._room = rows_max
        self._filling: _Filling | None = None

    def expect(self, rows: int) -> None:
        """Prepare for so many records: batches will be of about the same size."""
        self._room = max(1, -(-rows // max(1, -(-rows // self._rows_max))))

    def collect(
        self, parse: Callable[[], int], address: int, largest: int
    ) -> Generator[pa.RecordBatch, None, int]:
        """Call a parser until it has ended, and yield the batches that become full.

        What it noted lies at ``address``, in pieces (batches, blocks) of ``largest`` bytes at the
        most. Returns what it ended with.
        """
        while True:
            if self._filling is None:
                room, bytes_room = self._room, max(self._bytes_max, largest)
                self._filling = _Filling(self, self._pool.lend, room, self._bytes_max, bytes_room)
            filling = self._filling
            turn = filling.begin_turn()
            status = parse()
            filling.end_turn(address)
            if status != f.FULL:
                return status
            if int(self.sums[f.N_ROWS]) < turn or filling.rows == filling.room:
                yield from self.flush()

    def flush(self) -> Iterator[pa.RecordBatch]:
        """Yield what has been collected so far, if there is anything."""
        filling, self._filling = self._filling, None
        if filling is not None and filling.rows:
            yield filling.batch()


class _Filling:
    """One Arrow batch on its way: buffers that are filled turn by turn."""

    def __init__(
        self, columns: Columns, lend: Lend, room: int, bytes_max: int, bytes_room: int
    ) -> None:
        self.room = room
        self.rows = 0
        self._columns, self._lend = columns, lend
        self._taken, self._bytes_max = 0, bytes_max
        names = columns.schema.names
        self._arrays = {name: lend(room * _WIDTHS[name]) for name in _WIDTHS}
        self._bytes = {
            name: _BytesColumn(lend, field, total, sign, room, bytes_room)
            for name, field, total, sign in _BYTES_COLUMNS
            if name in names
        }
        # Turns of which no record had headers stand here as a number of rows.
        self._headers: list[pa.Array | int] = []

    def begin_turn(self) -> int:
        """Tell the parser where to write, and how much; return how many records that is."""
        columns, limits, rows = self._columns, self._columns.limits, self.rows
        turn = min(TURN_ROWS, self.room - rows)
        limits[f.L_ROWS_MAX], limits[f.L_HELD] = turn, rows
        limits[f.L_BYTES_MAX] = self._bytes_max - self._taken
        for at, name in enumerate(_WIDTHS):
            columns.arrays[at] = self._arrays[name].address + rows * _WIDTHS[name]
        columns.arrays[f.A_NOTES] = columns.noted.address
        columns.sums[:] = 0
        return turn

    def end_turn(self, address: int) -> None:
        """Copy what the parser noted."""
        sums, noted = self._columns.sums, self._columns.noted.address
        rows = int(sums[f.N_ROWS])
        if not rows:
            return
        for column in self._bytes.values():
            column.gather(address, noted, self.rows, rows, sums)
        if sums[f.N_HEADED_ROWS] and "headers" in self._columns.schema.names:
            self._headers.append(_gather_headers(self._lend, address, noted, sums))
        else:
            self._headers.append(rows)
        self.rows += rows
        self._taken += int(sums[f.N_TAKEN])

    def batch(self) -> pa.RecordBatch:
        schema = self._columns.schema
        return pa.RecordBatch.from_arrays([self._column(n) for n in schema.names], schema=schema)

    def _column(self, name: str) -> pa.Array:
        if name in self._bytes:
            return self._bytes[name].array(self.rows)
        if name == "headers":
            return _join_headers(self._headers)
        return pa.Array.from_buffers(TYPES[name], self.rows, [None, self._arrays[name]], 0)


class _BytesColumn:
    """Keys or values on their way."""

    def __init__(
        self,
        lend: Lend,
        field: int,
        total: int,
        sign: int,
        room: int,
        bytes_room: int,
    ) -> None:
        self._lend, self._room = lend, room
        self._field, self._total, self._sign = field, total, sign
        self._ends, self._data = lend(4 * (room + 1)), lend(bytes_room)
        self._bits: pa.Buffer | None = None
        self._size = self._nulls = 0

    def gather(self, address: int, noted: int, first_row: int, rows: int, sums: Array) -> None:
        if sums[self._sign] < 0 and self._bits is None:
            self._bits = _ones(self._lend, self._room)
        self._nulls += gather_bytes(
            address, rows, noted, self._field, self._ends.address, self._data.address,
            self._bits.address if self._bits else 0, first_row, self._size,
        )  # fmt: skip
        self._size += int(sums[self._total])

    def array(self, rows: int) -> pa.Array:
        parts = [self._bits, self._ends, self._data.slice(0, self._size)]
        return pa.Array.from_buffers(pa.binary(), rows, parts, self._nulls)


def _ones(lend: Lend, items: int) -> pa.Buffer:
    """A bitmap of ones, in which a kernel clears those of nulls."""
    bits = lend((items + 7) // 8)
    ctypes.memset(bits.address, 0xFF, bits.size)
    return bits


def _gather_headers(lend: Lend, address: int, noted: int, sums: Array) -> pa.Array:
    rows, count, headed = (int(sums[i]) for i in (f.N_ROWS, f.N_HEADERS, f.N_HEADED_ROWS))
    lists, key_ends, value_ends = lend(4 * rows + 4), lend(4 * count + 4), lend(4 * count + 4)
    keys = lend(int(sums[f.N_HEADER_KEY_BYTES]))
    values = lend(int(sums[f.N_HEADER_VALUE_BYTES]))
    list_bits, value_bits = _ones(lend, rows), _ones(lend, count)
    nulls = gather_headers(
        address, rows, noted, lists.address, list_bits.address, key_ends.address, keys.address,
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


def _join_headers(turns: list[pa.Array | int]) -> pa.Array:
    if all(isinstance(turn, int) for turn in turns):
        return pa.nulls(sum(turns), TYPES["headers"])
    pieces = [pa.nulls(turn, TYPES["headers"]) if isinstance(turn, int) else turn for turn in turns]
    return pieces[0] if len(pieces) == 1 else pa.concat_arrays(pieces)


# Columns that a parser writes by itself, in the order of its arrays.
_WIDTHS = {"offset": 8, "timestamp": 8, "timestampType": 4}
_BYTES_COLUMNS = (
    ("key", f.NOTE_KEY, f.N_KEY_BYTES, f.N_KEYS),
    ("value", f.NOTE_VALUE, f.N_VALUE_BYTES, f.N_VALUES),
)


def _mend_utf8(ends: pa.Buffer, data: pa.Buffer, count: int) -> tuple[pa.Buffer, pa.Buffer]:
    """Replace what is not UTF-8 in strings, as a Java consumer does."""
    raw, at = data.to_pybytes(), np.frombuffer(ends, np.int32, count + 1).tolist()
    mended = [raw[a:b].decode("utf-8", "replace").encode() for a, b in pairwise(at)]
    return pa.py_buffer(np.cumsum([0, *map(len, mended)], dtype=np.int32)), pa.py_buffer(
        b"".join(mended)
    )
