"""The two indexes beside a Kafka log file: offset to position, and time to offset.

    {base offset:020}.index => entry*
         0  relative offset  i32   last offset of a batch, less the base offset of the name
         4  position         i32   where that batch begins in the .log

    {base offset:020}.timeindex => entry*
         0  timestamp        i64   the latest time seen so far
         8  relative offset  i32   last offset of the batch that brought it

Integers are big-endian. There is no magic, no count and no checksum. While a segment is written to,
its indexes are files of full size whose unused rest is zero; closing the segment cuts that off.

The surprising part: an entry names the *last* offset of the batch it points to. A reader takes the
greatest entry that is not above its target and scans forward, so the name of the batch's end is as
good as that of its beginning. A time entry (T, o) promises only that records later than T lie
behind o. It says nothing of records up to T, since times may be out of order.

Entries are made as Kafka 4 makes them, so that the bytes are equal: a batch before which more than
``interval_bytes`` have passed since the last indexed batch gets an entry in the offset index, and
one in the time index if the latest time has grown; closing adds a last time entry by the same rule.
Specification: docs/reference/formats/kafka-log-directory.md
"""

import struct
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lakelog.errors import CorruptError, InvalidInputError
from lakelog.formats.batches import Frame, OffsetIndex, Told
from lakelog.formats.contract import Bytes, Damage, Files, Found, Ranged, fetch_file
from lakelog.formats.limits import fitting
from lakelog.records import I32_MAX

__all__ = [
    "INDEX_BYTES_MAX",
    "INDEX_INTERVAL_BYTES",
    "INDEX_SUFFIX",
    "TIME_INDEX_SUFFIX",
    "TimeCheck",
    "TimeEntry",
    "TimeIndex",
    "decode_offset_index",
    "decode_time_index",
    "encode_indexes",
    "read_side_file",
]

INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"

INDEX_INTERVAL_BYTES = 4096
"""Kafka's default of index.interval.bytes."""

INDEX_BYTES_MAX = 64 * 1024 * 1024
"""A side file is held whole while a segment is open; Kafka's default limit is 10 MiB."""

NO_TIMESTAMP = -1

_OFFSET_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")
_I64 = struct.Struct(">q")
_OFFSET_END = 1 << 64  # Above every offset there can be.


class TimeEntry(NamedTuple):
    """Records later than ``timestamp`` lie behind ``offset``."""

    at: int
    timestamp: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeIndex:
    """A time index, kept as its bytes, without the unused rest."""

    base_offset: int
    data: bytes

    def __len__(self) -> int:
        return len(self.data) // _TIME_ENTRY.size

    def __iter__(self) -> Iterator[TimeEntry]:
        for number, (timestamp, relative) in enumerate(_TIME_ENTRY.iter_unpack(self.data)):
            yield TimeEntry(number * _TIME_ENTRY.size, timestamp, self.base_offset + relative)

    def offset(self, timestamp: int) -> int:
        """Return an offset at or before which no record has ``timestamp`` or a later time."""
        # An entry for the very time we look for may have been made by the record we look for.
        number = bisect_left(range(len(self)), timestamp, key=self._timestamp) - 1
        if number < 0:
            return self.base_offset
        relative: int = _TIME_ENTRY.unpack_from(self.data, number * _TIME_ENTRY.size)[1]
        return self.base_offset + relative

    def _timestamp(self, number: int) -> int:
        timestamp: int = _I64.unpack_from(self.data, number * _TIME_ENTRY.size)[0]
        return timestamp


# ---------------------------------------------------------------------------- writing


def encode_indexes(
    batches: Iterable[Frame], *, base_offset: int, interval_bytes: int = INDEX_INTERVAL_BYTES
) -> tuple[bytes, bytes]:
    """Return the .index and the .timeindex of a closed segment.

    An offset more than 2^31 - 1 above the base offset has no place in either. Kafka would have
    begun a new segment before it; here, such batches are left to the scan behind the last entry.

    Raises:
        InvalidInputError: a negative interval, or one so short that an index would not be read.
    """
    if interval_bytes < 0:
        raise InvalidInputError(f"an index entry every {interval_bytes} bytes")
    offsets, times = bytearray(), bytearray()
    since = 0
    latest, latest_offset, last_written = NO_TIMESTAMP, base_offset, NO_TIMESTAMP
    for position, header in batches:
        last_offset = header.next_offset - 1
        if header.max_timestamp > latest:
            latest, latest_offset = header.max_timestamp, last_offset
        if since > interval_bytes and last_offset - base_offset <= I32_MAX:
            offsets += _OFFSET_ENTRY.pack(last_offset - base_offset, position)
            if latest > last_written:
                times += _TIME_ENTRY.pack(latest, latest_offset - base_offset)
                last_written = latest
            since = 0
        since += header.size
    if latest > last_written and latest_offset - base_offset <= I32_MAX:
        times += _TIME_ENTRY.pack(latest, latest_offset - base_offset)
    advice = "use a longer interval"
    fitting(offsets, INDEX_BYTES_MAX, "an offset index", advice)
    fitting(times, INDEX_BYTES_MAX, "a time index", advice)
    return bytes(offsets), bytes(times)


# ---------------------------------------------------------------------------- reading


def decode_offset_index(data: Bytes, *, base_offset: int) -> OffsetIndex:
    """Return the entries of an offset index. Whether they fit the log is for a walk to say.

    Raises:
        CorruptError: no Kafka wrote this.
    """
    used = _used(data, _OFFSET_ENTRY.size, INDEX_SUFFIX)
    index = OffsetIndex(base_offset=base_offset, data=used)
    index.check_order(1, INDEX_SUFFIX)
    return index


def decode_time_index(data: Bytes, *, base_offset: int) -> TimeIndex:
    """Return the entries of a time index. Whether they fit the log is for a walk to say.

    Raises:
        CorruptError: no Kafka wrote this.
    """
    used = _used(data, _TIME_ENTRY.size, TIME_INDEX_SUFFIX)
    index = TimeIndex(base_offset=base_offset, data=used)
    last = TimeEntry(0, NO_TIMESTAMP, base_offset)
    for entry in index:
        if entry.timestamp <= last.timestamp or entry.offset < last.offset:
            raise CorruptError(
                f"entry {entry[1:]} behind {last[1:]}", at=entry.at, where=TIME_INDEX_SUFFIX
            )
        last = entry
    return index


def read_side_file(files: Files, suffix: str) -> Ranged[bytes | None]:
    """Return a side file whole, or None when there is none.

    Raises:
        UnsupportedError: it is too large.
    """
    return (yield from fetch_file(files, suffix, INDEX_BYTES_MAX))


def _used(data: Bytes, entry_bytes: int, where: str) -> bytes:
    """Return the entries in use: what stands before a tail of zeros."""
    if len(data) % entry_bytes:
        raise CorruptError(
            f"{len(data)} bytes are not a multiple of {entry_bytes}",
            at=len(data) - len(data) % entry_bytes,
            where=where,
        )
    used = -(-len(bytes(data).rstrip(b"\0")) // entry_bytes)
    return bytes(memoryview(data)[: used * entry_bytes])


class TimeCheck:
    """Holds a time index against the batches that come by; stops at the first wrong entry.

    An entry (T, o) is wrong when a batch that ends at o or before it claims a time after T: a
    search for that time would begin behind the batch. Too late a T only makes a search longer.
    """

    def __init__(self, index: Iterable[TimeEntry]) -> None:
        self._entries = iter(index)
        self._entry = next(self._entries, None)
        self._latest = NO_TIMESTAMP
        self._next_offset = 0
        self._skipped = False

    def saw(self, found: Sequence[Found]) -> list[Told]:
        """Take note of batches; tell of an entry that contradicts one."""
        told: list[Told] = []
        for number, one in enumerate(found):
            if isinstance(one, Damage):
                self._skipped = True
                continue
            assert one.header is not None
            self._next_offset = one.header.next_offset
            if self._entry is not None:
                told += ((number, damage) for damage in self._pass(self._next_offset - 1))
            self._latest = max(self._latest, one.header.max_timestamp)
        return told

    def end(self, *, active: bool = False) -> Iterator[Damage]:
        """Yield a Damage when an entry leads behind the last batch.

        With ``active`` it may, for batches that are not seen yet; but it speaks of these, too.
        """
        yield from self._pass(_OFFSET_END if active else self._next_offset)
        if self._entry is not None and not self._skipped:
            yield self._wrong(self._entry, f"the batches end at offset {self._next_offset}")

    def _pass(self, offset: int) -> Iterator[Damage]:
        """Judge the entries below ``offset``: every batch they speak of has come by."""
        while self._entry is not None and self._entry.offset < offset:
            if self._latest > self._entry.timestamp:
                yield self._wrong(self._entry, f"a batch before it reaches time {self._latest}")
            else:
                self._entry = next(self._entries, None)

    def _wrong(self, entry: TimeEntry, why: str) -> Damage:
        self._entries, self._entry = iter(()), None
        error = CorruptError(
            f"time {entry.timestamp} -> offset {entry.offset}: {why}",
            at=entry.at,
            where=TIME_INDEX_SUFFIX,
        )
        return Damage(error=error, position=entry.at)
