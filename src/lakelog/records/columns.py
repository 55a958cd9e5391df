"""Record batches to Arrow columns, by compiled kernels.

    runs of batches  --scan-->  table of headers  --CRC, decompress-->  bodies  --decode-->  columns

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

Batches come out with at most ``rows_max`` rows and about ``bytes_max`` bytes, across the borders of
record batches and of runs. They may be kept: their memory is used again only when they are gone.
"""

import ctypes
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum, IntEnum
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
from lakelog.records.memory import Pool

__all__ = [
    "BYTES_MAX",
    "COLUMNS",
    "ROWS_MAX",
    "BatchDecoder",
    "ColumnBuffers",
    "arrow_schema",
    "decode_columns",
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

_WANTED = {
    "key": k.W_KEY,
    "value": k.W_VALUE,
    "offset": k.W_OFFSET,
    "timestamp": k.W_TIMESTAMP,
    "timestampType": k.W_TIMESTAMP_TYPE,
    "headers": k.W_HEADERS,
}
_TABLE_ROWS = 4096
_GROUP_BYTES = 4 * 1024 * 1024

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


class ColumnBuffers:
    """The columns being filled: buffers that kernels write into, and that become Arrow batches."""

    def __init__(self, columns: Iterable[str], rows_max: int, bytes_max: int) -> None:
        if rows_max < 1 or bytes_max < 1:
            raise InvalidInputError("rows_max and bytes_max must be at least 1")
        self.schema = arrow_schema(columns)
        self._rows_max = rows_max
        self._wanted = sum(_WANTED[name] for name in set(self.schema.names))
        self.limits = np.zeros(k.LIMITS_WIDTH, np.int64)
        self.limits[k.L_WANTED] = self._wanted
        self.limits[k.L_BYTES_MAX] = bytes_max
        self.limits[k.L_OFFSET_TO] = OFFSET_MAX
        self.filled = np.zeros(k.FILLED_WIDTH, np.int64)
        self.room = np.zeros(len(_Room), np.int64)
        self.addresses = np.zeros(len(_BUFFERS), np.int64)
        self._pool = Pool()
        self._memory: dict[str, pa.Buffer] = {}
        self._clear()

    @property
    def rows(self) -> int:
        return int(self.filled[k.F_ROWS])

    def _clear(self) -> None:
        """Begin with fresh buffers, as large as the last batch found useful."""
        for name in _BUFFERS:
            self._allocate(name)
        self.filled[:] = 0

    def _allocate(self, name: str, kept: int = 0) -> None:
        """Make a buffer for the room there is now, and keep so many bytes of the old one."""
        spec = _BUFFERS[name]
        items = spec.items(int(self.room[spec.room]) if self._wanted & _WANTED[spec.column] else 0)
        memory = self._pool.lend(items * spec.width)
        if spec.shape is _Shape.BITS:
            ctypes.memset(memory.address, 0xFF, memory.size)
        elif spec.shape is _Shape.ENDS:
            ctypes.memset(memory.address, 0, spec.width)
        if kept:
            ctypes.memmove(memory.address, self._memory[name].address, kept)
        self._memory[name] = memory
        self.addresses[spec.index] = memory.address

    def make_room(self, status: int) -> bool:
        """Enlarge what a kernel found too small; False when the batch has all rows it may have."""
        if status == k.FULL or (status == k.NO_ROWS and self.room[_Room.ROWS] == self._rows_max):
            return False
        room = _Room(status - k.NO_ROWS)
        self.room[room] = max(2 * self.room[room], _ROOM_LEAST)
        if room is _Room.ROWS:
            self.room[room] = min(self.room[room], self._rows_max)
        for name, spec in _BUFFERS.items():
            if spec.room is room:
                # A block is often larger than was asked for; copying all of it is still right.
                self._allocate(name, kept=self._memory[name].size)
        return True

    def take(self) -> pa.RecordBatch:
        """Return what has been filled, and begin again."""
        self._mend_header_keys()
        batch = pa.RecordBatch.from_arrays(
            [self._column(name) for name in self.schema.names], schema=self.schema
        )
        # Room for an eighth more, because the next batch is rarely just as large as this one.
        used = self.filled[_FILLED_OF_ROOM]
        self.room[:] = used + used // 8
        self.room[_Room.ROWS] = min(self.room[_Room.ROWS], self._rows_max)
        self._clear()
        return batch

    def _column(self, name: str) -> pa.Array:
        rows, kind, memory = self.rows, TYPES[name], self._memory
        match name:
            case "key" | "value":
                nulls = int(self.filled[k.F_KEY_NULLS if name == "key" else k.F_VALUE_NULLS])
                bits = memory[f"{name}_bits"] if nulls else None
                parts = [bits, memory[f"{name}_ends"], memory[f"{name}s"]]
                return pa.Array.from_buffers(kind, rows, parts, nulls)
            case "offset":
                return pa.Array.from_buffers(kind, rows, [None, memory["offsets"]], 0)
            case "timestamp":
                return pa.Array.from_buffers(kind, rows, [None, memory["timestamps"]], 0)
            case "timestampType":
                return pa.Array.from_buffers(kind, rows, [None, memory["timestamp_types"]], 0)
            case _:
                return self._headers()

    def _headers(self) -> pa.Array:
        count, memory = int(self.filled[k.F_HEADERS]), self._memory
        nulls = int(self.filled[k.F_HEADER_VALUE_NULLS])
        keys = pa.Array.from_buffers(
            pa.string(), count, [None, memory["header_key_ends"], memory["header_keys"]], 0
        )
        bits = memory["header_value_bits"] if nulls else None
        values = pa.Array.from_buffers(
            pa.binary(), count, [bits, memory["header_value_ends"], memory["header_values"]], nulls
        )
        pairs = pa.StructArray.from_arrays([keys, values], fields=list(HEADER_TYPE))
        bare = int(self.filled[k.F_BARE_ROWS])
        parts = [memory["list_bits"] if bare else None, memory["lists"]]
        return pa.Array.from_buffers(TYPES["headers"], self.rows, parts, bare, 0, [pairs])

    def _mend_header_keys(self) -> None:
        """Replace what is not UTF-8 in header keys, as a Java consumer does."""
        if not self.filled[k.F_NOT_ASCII]:
            return
        count = int(self.filled[k.F_HEADERS])
        ends = np.frombuffer(self._memory["header_key_ends"], np.int32, count + 1).tolist()
        data = self._memory["header_keys"].to_pybytes()
        keys = [
            data[ends[i] : ends[i + 1]].decode("utf-8", "replace").encode() for i in range(count)
        ]
        self._memory["header_key_ends"] = pa.py_buffer(
            np.cumsum([0, *map(len, keys)], dtype=np.int32)
        )
        self._memory["header_keys"] = pa.py_buffer(b"".join(keys))


class _Shape(Enum):
    PLAIN = 0
    ENDS = 1
    """One more than there are items: where each ends, after a zero."""
    BITS = 2


class _Room(IntEnum):
    """What buffers are sized by, in the kernels' order."""

    ROWS = 0
    KEYS = 1
    VALUES = 2
    HEADERS = 3
    HEADER_KEYS = 4
    HEADER_VALUES = 5


_FILLED_OF_ROOM = [
    k.F_ROWS,
    k.F_KEY_BYTES,
    k.F_VALUE_BYTES,
    k.F_HEADERS,
    k.F_HEADER_KEY_BYTES,
    k.F_HEADER_VALUE_BYTES,
]
_ROOM_LEAST = 1024


@dataclass(frozen=True, slots=True)
class _Buffer:
    index: int
    column: str
    room: _Room
    width: int
    shape: _Shape = _Shape.PLAIN

    def items(self, room: int) -> int:
        match self.shape:
            case _Shape.ENDS:
                return room + 1
            case _Shape.BITS:
                return (room + 7) // 8
            case _:
                return room


_BUFFERS = {
    "offsets": _Buffer(k.C_OFFSETS, "offset", _Room.ROWS, 8),
    "timestamps": _Buffer(k.C_TIMESTAMPS, "timestamp", _Room.ROWS, 8),
    "timestamp_types": _Buffer(k.C_TIMESTAMP_TYPES, "timestampType", _Room.ROWS, 4),
    "key_ends": _Buffer(k.C_KEY_ENDS, "key", _Room.ROWS, 4, _Shape.ENDS),
    "keys": _Buffer(k.C_KEYS, "key", _Room.KEYS, 1),
    "key_bits": _Buffer(k.C_KEY_BITS, "key", _Room.ROWS, 1, _Shape.BITS),
    "value_ends": _Buffer(k.C_VALUE_ENDS, "value", _Room.ROWS, 4, _Shape.ENDS),
    "values": _Buffer(k.C_VALUES, "value", _Room.VALUES, 1),
    "value_bits": _Buffer(k.C_VALUE_BITS, "value", _Room.ROWS, 1, _Shape.BITS),
    "lists": _Buffer(k.C_LISTS, "headers", _Room.ROWS, 4, _Shape.ENDS),
    "list_bits": _Buffer(k.C_LIST_BITS, "headers", _Room.ROWS, 1, _Shape.BITS),
    "header_key_ends": _Buffer(k.C_HEADER_KEY_ENDS, "headers", _Room.HEADERS, 4, _Shape.ENDS),
    "header_keys": _Buffer(k.C_HEADER_KEYS, "headers", _Room.HEADER_KEYS, 1),
    "header_value_ends": _Buffer(k.C_HEADER_VALUE_ENDS, "headers", _Room.HEADERS, 4, _Shape.ENDS),
    "header_values": _Buffer(k.C_HEADER_VALUES, "headers", _Room.HEADER_VALUES, 1),
    "header_value_bits": _Buffer(k.C_HEADER_VALUE_BITS, "headers", _Room.HEADERS, 1, _Shape.BITS),
}


class BatchDecoder:
    """Turns runs of record batches, given one after another, into Arrow batches."""

    def __init__(
        self,
        columns: Iterable[str] = COLUMNS,
        *,
        rows_max: int = ROWS_MAX,
        bytes_max: int = BYTES_MAX,
        offset_from: int = 0,
        offset_to: int = OFFSET_MAX,
        control: bool = False,
        batch_bytes_max: int = BATCH_BYTES_MAX,
        decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX,
    ) -> None:
        """Records outside ``[offset_from, offset_to)`` are checked but left out.

        So are control records, which tell readers of transactions what was committed; consumers
        never see them. ``control`` lets them through.
        """
        self._buffers = ColumnBuffers(columns, rows_max, bytes_max)
        limits = self._buffers.limits
        limits[k.L_OFFSET_FROM], limits[k.L_OFFSET_TO] = offset_from, offset_to
        limits[k.L_CONTROL] = control
        self._batch_bytes_max = batch_bytes_max
        self._decompressed_bytes_max = decompressed_bytes_max
        self._table = np.empty((_TABLE_ROWS, k.TABLE_WIDTH), np.int64)

    @property
    def schema(self) -> pa.Schema:
        return self._buffers.schema

    def feed(self, run: Bytes, *, at: int = 0, where: str = "") -> Iterator[pa.RecordBatch]:
        """Take a run of whole batches that stands at ``at``; yield the Arrow batches that are full.

        Raises:
            CorruptError, UnsupportedError: as the reference codec would.
        """
        data = np.frombuffer(run, np.uint8)
        view = memoryview(run).cast("B")
        position, out = 0, np.zeros(2, np.int64)
        while position < len(data):
            status = k.scan_batches(
                data.ctypes.data, position, len(data), self._batch_bytes_max, self._table, out
            )
            count, position = int(out[0]), int(out[1])
            for first, last, body in self._groups(view, data, count, at, where):
                yield from self._decode(view, body, first, last, at, where)
            if status == k.BAD:
                self._judge(view, position, at, where)

    def finish(self) -> Iterator[pa.RecordBatch]:
        """Yield the last batch, which may be a small one; nothing if there are no rows."""
        if self._buffers.rows:
            yield self._buffers.take()

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
                if compressed:
                    try:
                        body = self._decompress(row, view)
                    except (CorruptError, UnsupportedError):
                        break
                    bodies.append(body)
                    table[last, k.T_BODY], table[last, k.T_BODY_END] = held, held + len(body)
                    held += len(body)
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
        self, view: memoryview, body: Array, first: int, last: int, at: int, where: str
    ) -> Iterator[pa.RecordBatch]:
        buffers = self._buffers
        table = self._table[first:last]
        cursor = np.zeros(4, np.int64)
        while True:
            status = k.decode_records(
                body.ctypes.data,
                table,
                last - first,
                buffers.limits,
                cursor,
                buffers.addresses,
                buffers.room,
                buffers.filled,
            )
            if status == k.DONE:
                return
            if status in (k.BAD, k.TIME_OVERFLOW):
                position = int(table[int(cursor[0]), k.T_POSITION])
                if status == k.BAD:
                    self._judge(view, position, at, where)
                raise UnsupportedError(
                    "a timestamp does not fit the microseconds of an Arrow column; "
                    "ask for columns without `timestamp`",
                    at=at + position,
                    where=where,
                )
            if not buffers.make_room(status):
                yield buffers.take()

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


def decode_columns(
    run: Bytes, columns: Iterable[str] = COLUMNS, **settings: Any
) -> Iterator[pa.RecordBatch]:
    """Yield the records of a run of whole batches as Arrow; settings are those of BatchDecoder."""
    decoder = BatchDecoder(columns, **settings)
    yield from decoder.feed(run)
    yield from decoder.finish()
