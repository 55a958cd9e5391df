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

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from lakelog.errors import CorruptError, UnsupportedError
from lakelog.records.bodies import Bodies, Group
from lakelog.records.compression import DECOMPRESSED_BYTES_MAX
from lakelog.records.filling import BYTES_MAX, ROWS_MAX, Columns
from lakelog.records.header import BATCH_BYTES_MAX, Bytes
from lakelog.records.kernels import fields as f
from lakelog.records.kernels.decode import parse_batches
from lakelog.records.schema import COLUMNS, TYPES, arrow_schema

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
        self._open = partial(
            Bodies, batch_bytes_max=batch_bytes_max, decompressed_bytes_max=decompressed_bytes_max
        )
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
        bodies = self._open(run, at=at, where=where)
        try:
            for group in bodies:
                last = group.table[-1]
                self.next_offset = int(last[f.T_BASE_OFFSET] + last[f.T_LAST_DELTA]) + 1
                yield from self._decode(bodies, group)
        except (CorruptError, UnsupportedError):
            # What was read before the damage is handed out first.
            yield from self.flush()
            raise

    def flush(self) -> Iterator[pa.RecordBatch]:
        """Yield what has been fed and not been yielded yet."""
        return self._columns.flush()

    def _decode(self, bodies: Bodies, group: Group) -> Iterator[pa.RecordBatch]:
        columns, table, cursor = self._columns, group.table, np.zeros(4, np.int64)
        parse = partial(
            parse_batches, group.address, table,
            columns.limits, cursor, columns.arrays, columns.sums,
        )  # fmt: skip
        largest = int((table[:, f.T_BODY_END] - table[:, f.T_BODY]).max())
        status = yield from columns.collect(parse, group.address, largest)
        if status != f.DONE:
            position = int(table[int(cursor[0]), f.T_POSITION])
            if status == f.TIME_OVERFLOW:
                raise time_overflow(bodies.at + position, bodies.where)
            bodies.judge(position)


def time_overflow(at: int, where: str) -> UnsupportedError:
    """The error for a time that the wire can hold and a column cannot."""
    return UnsupportedError(
        "a timestamp does not fit the microseconds of an Arrow column; "
        "ask for columns without `timestamp`",
        at=at,
        where=where,
    )
