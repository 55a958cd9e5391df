"""Records to the bytes of a segment, in memory that is used again for every append.

    lists of bytes     read where CPython has them, if this Python has them there; else joined
    with headers       by the plain codec, record by record
    Arrow columns      by a kernel

All three give the same bytes. What is returned is good until the next call.
"""

import sys
import sysconfig
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lakelog.errors import InvalidInputError
from lakelog.formats import kernels_spool as k
from lakelog.formats import rustlog
from lakelog.formats.rustlog import LogRecord
from lakelog.model import Header
from lakelog.records.encoder import Source
from lakelog.records.kernels.fields import BAD
from lakelog.records.schema import TYPES

__all__ = ["BATCH_BYTES_MAX", "Encoded", "Encoder", "NextRecord"]

BATCH_BYTES_MAX = 64 << 20
"""Of one append: it is written at once, and into one segment."""

_BYTES_AT_FIRST = 1 << 20
_NONE, _BYTES = id(None), id(bytes)


class NextRecord(NamedTuple):
    """Where the next record goes."""

    offset: int
    number: int
    """How many records its segment has."""
    position: int
    time_us: int
    """Its time is not before this."""


class Encoded(NamedTuple):
    """Records as bytes."""

    data: memoryview
    entries: memoryview
    """Their entries of the index."""
    records: int
    time_us: int
    """Of the last one."""


def _knows_objects() -> bool:
    """Whether this Python lays lists and bytes out as ``encode_items`` reads them."""
    return (
        sys.implementation.name == "cpython"
        and sys.byteorder == "little"
        and not sysconfig.get_config_var("Py_GIL_DISABLED")
        and bytes.__basicsize__ == k.BYTES_DATA + 1
        and list.__basicsize__ == k.LIST_ITEMS + 16
    )


class Encoder:
    """Encodes appends, one after another."""

    def __init__(self, *, as_objects: bool | None = None) -> None:
        self._as_objects = _knows_objects() if as_objects is None else as_objects
        self._state = np.zeros(k.WRITE_WIDTH, np.int64)
        self._take(_BYTES_AT_FIRST)

    def _take(self, size: int) -> None:
        self._memory, self._room = np.empty(size, np.uint8), size
        self._view, self._address = self._memory.data, self._memory.ctypes.data
        entries = size // k.HEAD_BYTES // k.INDEX_INTERVAL + 1
        self._index = bytearray(16 * entries)
        self._entries = memoryview(self._index)
        self._index_address = np.frombuffer(self._index, np.uint8).ctypes.data

    def encode(
        self,
        next_record: NextRecord,
        values: Sequence[bytes | None],
        keys: Sequence[bytes | None] | None,
        headers: Sequence[Sequence[Header]] | None = None,
    ) -> Encoded:
        """Return records of these values, keys and headers.

        Raises:
            InvalidInputError: there are not as many keys as values, one of them is no bytes, or
                they are more than one append may have.
        """
        if keys is not None and len(keys) != len(values):
            raise InvalidInputError(f"{len(values)} values and {len(keys)} keys: give one for each")
        if headers is not None:
            return self._encode_plainly(next_record, values, keys, headers)
        if not self._as_objects:
            return self._encode_joined(next_record, values, keys)
        if type(values) is not list:
            values = list(values)
        if keys is not None and type(keys) is not list:
            keys = list(keys)
        state = self._state
        while True:
            state[k.W_OFFSET], state[k.W_NUMBER], state[k.W_POSITION], state[k.W_TIME] = next_record
            size = k.encode_items(
                id(values), 0 if keys is None else id(keys), _NONE, _BYTES,
                self._address, self._room, self._index_address, state,
            )  # fmt: skip
            if size >= 0:
                return self._encoded(next_record, size, len(values), next_record.time_us)
            if size == -BAD:
                _check(values)
                _check(keys or ())
                return self._encode_joined(next_record, values, keys)  # A subclass of bytes, say.
            self._grow()

    def encode_columns(
        self, next_record: NextRecord, columns: pa.RecordBatch, now_us: int
    ) -> Encoded:
        """Return the records of Arrow columns. A time that goes down is lifted.

        Without a column ``timestamp`` all have the time of now.

        Raises:
            InvalidInputError: a column is missing, of another type, or holds what no record can.
        """
        source, state = Source(_timed(columns, now_us), 0), self._state
        while True:
            state[k.W_OFFSET], state[k.W_NUMBER], state[k.W_POSITION], state[k.W_TIME] = next_record
            size = k.encode_columns(
                source.plan, source.addresses, self._address, self._room, self._index_address, state
            )
            if size >= 0:
                return self._encoded(next_record, size, columns.num_rows, int(state[k.W_TIME]))
            if size == -BAD:
                raise InvalidInputError(
                    f"row {int(state[k.W_ROW])}: a record over the limit of "
                    f"{rustlog.PAYLOAD_BYTES_MAX} bytes, or a time before 1970"
                )
            self._grow()

    def _encoded(self, next_record: NextRecord, size: int, count: int, time_us: int) -> Encoded:
        first = -next_record.number % k.INDEX_INTERVAL
        entries = (count - first - 1) // k.INDEX_INTERVAL + 1 if count > first else 0
        index = self._entries[: 16 * entries]
        # Its own constructor would take twice as long.
        return tuple.__new__(Encoded, (self._view[:size], index, count, time_us))

    def _grow(self) -> None:
        if self._room >= BATCH_BYTES_MAX:
            raise InvalidInputError(
                f"more than {BATCH_BYTES_MAX} bytes in one append: give it fewer records at a time"
            )
        self._take(min(4 * self._room, BATCH_BYTES_MAX))

    # ------------------------------------------------------------------------ other ways

    def _encode_joined(
        self,
        next_record: NextRecord,
        values: Sequence[bytes | None],
        keys: Sequence[bytes | None] | None,
    ) -> Encoded:
        joined, lengths = _join(values)
        joined_keys, key_lengths = _join(keys) if keys is not None else (b"\0", None)
        needed = len(joined) + len(joined_keys) + k.FRAME_BYTES * len(values)
        while self._room < needed:
            self._grow()
        state = self._state
        state[k.W_OFFSET], state[k.W_NUMBER], state[k.W_POSITION], state[k.W_TIME] = next_record
        size = k.encode_joined(
            pa.py_buffer(joined).address, lengths.ctypes.data, pa.py_buffer(joined_keys).address,
            0 if key_lengths is None else key_lengths.ctypes.data, len(values),
            self._address, self._index_address, state,
        )  # fmt: skip
        return self._encoded(next_record, size, len(values), next_record.time_us)

    def _encode_plainly(
        self,
        next_record: NextRecord,
        values: Sequence[bytes | None],
        keys: Sequence[bytes | None] | None,
        headers: Sequence[Sequence[Header]],
    ) -> Encoded:
        if len(headers) != len(values):
            raise InvalidInputError(
                f"{len(values)} values and headers for {len(headers)}: give some for each"
            )
        keys = keys if keys is not None else [None] * len(values)
        _check(values)
        _check(keys)
        out, index = bytearray(), bytearray()
        for row, (key, value, some) in enumerate(zip(keys, values, headers, strict=True)):
            offset = next_record.offset + row
            payload = rustlog.encode_envelope(
                key, value, some, offset=offset, timestamp_us=next_record.time_us
            )
            record = LogRecord(offset=offset, timestamp_us=next_record.time_us, payload=payload)
            if (next_record.number + row) % k.INDEX_INTERVAL == 0:
                entry = rustlog.IndexEntry(offset=offset, position=next_record.position + len(out))
                index += rustlog.encode_index([entry])
            out += rustlog.encode_log([record])[rustlog.FORMAT.suffix]
            if len(out) > BATCH_BYTES_MAX:
                raise InvalidInputError(
                    f"more than {BATCH_BYTES_MAX} bytes in one append: give it fewer records"
                )
        return Encoded(memoryview(out), memoryview(index), len(values), next_record.time_us)


def _timed(columns: pa.RecordBatch, now_us: int) -> pa.RecordBatch:
    if "timestamp" in columns.schema.names:
        return columns
    now = pa.scalar(now_us, pa.int64()).cast(TYPES["timestamp"])
    return columns.append_column("timestamp", pa.repeat(now, columns.num_rows))


def _check(fields: Sequence[bytes | None]) -> None:
    for field in fields:
        if field is not None and not isinstance(field, bytes):
            raise InvalidInputError(f"a {type(field).__name__} is no bytes: encode it first")
        if len(field or b"") + k.FRAME_BYTES > rustlog.PAYLOAD_BYTES_MAX:
            raise InvalidInputError(
                f"{len(field or b'')} bytes: a record has at most {rustlog.PAYLOAD_BYTES_MAX}"
            )


def _join(fields: Sequence[bytes | None]) -> tuple[bytes, "np.typing.NDArray[np.int32]"]:
    """Return fields in one piece, and their lengths, -1 where one is null."""
    _check(fields)
    lengths = np.fromiter((-1 if one is None else len(one) for one in fields), np.int32)
    return b"".join(one for one in fields if one is not None) + b"\0", lengths
