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

from collections.abc import Callable, Generator, Iterable, Iterator
from functools import partial
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from crc32c import crc32c

from lakelog.errors import CorruptError, InvalidInputError, UnsupportedError
from lakelog.records.batch import decode_batch
from lakelog.records.compression import DECOMPRESSED_BYTES_MAX, Codec, decompress
from lakelog.records.filling import TURN_ROWS, Filling
from lakelog.records.header import (
    BATCH_BYTES_MAX,
    CODEC_MASK,
    CRC_START,
    OFFSET_MAX,
    RECORD_BYTES_MIN,
    Bytes,
)
from lakelog.records.kernels import decode as k
from lakelog.records.kernels import fields as f
from lakelog.records.memory import Pool
from lakelog.records.schema import TYPES

__all__ = [
    "BYTES_MAX",
    "COLUMNS",
    "ROWS_MAX",
    "TYPES",
    "BatchDecoder",
    "Columns",
    "arrow_schema",
    "time_overflow",
]

ROWS_MAX = 65_536
BYTES_MAX = 16 * 1024 * 1024

COLUMNS = tuple(TYPES)

_TABLE_ROWS = 4096
_GROUP_BYTES = 1024 * 1024
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
    """Makes Arrow batches out of what parsers note."""

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
        self.notes = self._pool.lend(TURN_ROWS * 4 * f.NOTE_WIDTH)
        self._room = rows_max
        self._filling: Filling | None = None

    def expect(self, rows: int) -> None:
        """Prepare for so many records: batches will be of about the same size."""
        self._room = max(1, -(-rows // max(1, -(-rows // self._rows_max))))

    def collect(
        self, parse: Callable[[], int], address: int, largest: int
    ) -> Generator[pa.RecordBatch, None, int]:
        """Call a parser until it has ended, and yield the batches that become full.

        What it notes lies at ``address``, in pieces (batches, blocks) of ``largest`` bytes at the
        most. Returns what it ended with.
        """
        while True:
            if self._filling is None:
                room, bytes_room = self._room, max(self._bytes_max, largest)
                self._filling = Filling(self, self._pool.lend, room, self._bytes_max, bytes_room)
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
        self.next_offset = 0
        """Where the last batch that was fed ends."""

    @property
    def schema(self) -> pa.Schema:
        return self._columns.schema

    def feed(self, run: Bytes, *, at: int = 0, where: str = "") -> Iterator[pa.RecordBatch]:
        """Take a run of whole batches, which stands at ``at`` of its file.

        Yields Arrow batches as they become full; ``flush`` yields the last one. Large ones are
        worth waiting for: whoever takes them pays for each.

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
            if count:
                last = self._table[count - 1]
                self.next_offset = int(last[k.T_BASE_OFFSET] + last[k.T_LAST_DELTA]) + 1
            for first, last, body in self._groups(view, data, count):
                yield from self._decode(view, body, self._table[first:last], at, where)
            if status == f.BAD:
                yield from self._columns.flush()
                self._judge(view, position, at, where)

    def flush(self) -> Iterator[pa.RecordBatch]:
        """Yield what has been fed and not been yielded yet."""
        return self._columns.flush()

    def _groups(
        self, view: memoryview, data: Array, count: int
    ) -> Iterator[tuple[int, int, Array | None]]:
        """Check CRCs; yield ranges of table rows with the array their bodies lie in.

        A row of its own, without an array, is a batch to be judged: something is wrong with it.
        """
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
                if row[k.T_COUNT] * RECORD_BYTES_MIN > size:
                    break  # It cannot hold so many: nothing may be allocated on its word.
                held += size
                last += 1
            if last > first:
                body_array = np.frombuffer(b"".join(bodies), np.uint8) if compressed else data
                yield first, last, body_array
            elif last < count:
                last += 1
                yield first, last, None
            first = last

    def _decompress(self, row: list[int], view: memoryview) -> bytes:
        if row[k.T_COUNT] == 0:
            return b""  # A header alone, whatever codec it names.
        codec = Codec(row[k.T_ATTRIBUTES] & CODEC_MASK)
        body = view[row[k.T_BODY] : row[k.T_BODY_END]]
        return decompress(codec, body, size_max=self._decompressed_bytes_max)

    def _decode(
        self, view: memoryview, body: Array | None, table: Array, at: int, where: str
    ) -> Iterator[pa.RecordBatch]:
        columns, cursor = self._columns, np.zeros(4, np.int64)
        status = f.BAD
        if body is not None:
            parse = partial(
                k.parse_batches, body.ctypes.data, table,
                columns.limits, cursor, columns.arrays, columns.sums,
            )  # fmt: skip
            largest = int((table[:, k.T_BODY_END] - table[:, k.T_BODY]).max())
            status = yield from columns.collect(parse, body.ctypes.data, largest)
        if status != f.DONE:
            # What was read before the damage is handed out first.
            yield from columns.flush()
            position = int(table[int(cursor[0]), k.T_POSITION])
            if status == f.TIME_OVERFLOW:
                raise time_overflow(at + position, where)
            self._judge(view, position, at, where)

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
