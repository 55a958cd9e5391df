"""Arrow columns -> a RustLog log and its index, byte for byte as ``layout`` writes them.

The kernel stops at a record that RustLog cannot hold, and the plain encoder says why not.
"""

from typing import Any, NoReturn

import numpy as np
import pyarrow as pa

from lakelog.formats import kernels_encode as k
from lakelog.formats.growing import Growing, SegmentFiles
from lakelog.formats.rustlog.layout import (
    ENTRY,
    INDEX_INTERVAL,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    fitting_index,
)
from lakelog.formats.rustlog.row import encode_records
from lakelog.formats.rustlog.walk import US_PER_MS
from lakelog.model import Header, Record
from lakelog.records.columns import TYPES
from lakelog.records.encoder import Source
from lakelog.records.kernels.fields import BAD, DONE

__all__ = ["RustLogWriter"]


class RustLogWriter(Growing):
    """A log and its index."""

    def __init__(self, base_offset: int | None) -> None:
        super().__init__(base_offset)
        self._index = bytearray()
        self._state = np.zeros(k.RUSTLOG_WIDTH, np.int64)

    def add(self, columns: pa.RecordBatch) -> None:
        source = Source(columns, None)
        if columns.num_rows == 0:
            return
        self.follow(columns)
        state = self._state
        state[k.R_ROW] = state[k.R_INDEX_AT] = 0
        entries = bytearray(ENTRY.size * (columns.num_rows // INDEX_INTERVAL + 1))
        entries_address = np.frombuffer(entries, np.uint8).ctypes.data
        while True:
            memory = self.memory
            status = k.encode_rustlog(
                source.plan, source.addresses, memory.address, memory.size, entries_address, state
            )
            if status == DONE:
                break
            if status == BAD:
                _judge(columns.slice(int(state[k.R_ROW]), 1))
            self.grow(2 * memory.size)
        self.size = int(state[k.R_AT])
        self._index += entries[: int(state[k.R_INDEX_AT])]

    def finish(self) -> SegmentFiles:
        return {LOG_SUFFIX: self.buffer(), INDEX_SUFFIX: bytes(fitting_index(self._index))}


def _judge(row: pa.RecordBatch) -> NoReturn:
    """Let the plain encoder say what is wrong with a row."""

    def value(name: str) -> Any:
        if name not in row.schema.names:
            return None
        column = row.column(name).cast(TYPES[name])
        return (column.cast(pa.int64()) if name == "timestamp" else column)[0].as_py()

    record = Record(
        offset=value("offset"),
        timestamp=value("timestamp") // US_PER_MS,
        key=value("key"),
        value=value("value"),
        headers=tuple(Header(**header) for header in value("headers") or ()),
    )
    encode_records([record])
    raise AssertionError(f"the compiled and the plain encoder disagree at offset {record.offset}")
