"""Reading a spool, beside its writer or in its process: by offset, by time, as it grows, as Arrow.

    records   one by one: keys and values are views of the mapped segment, nothing is copied
    batches   Arrow, by the kernel that reads every RustLog log
    follow    records, and then those that come

A reader needs no lock, and none keeps a writer waiting. What it reads is whole: records of a spool
carry a checksum, and where the last whole one ends, the log ends for now.
"""

import struct
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from crc32c import crc32c

from lakelog.errors import CorruptError, InvalidInputError
from lakelog.formats import rustlog
from lakelog.model import Header
from lakelog.records import decode_headers, decode_varint
from lakelog.records.schema import arrow_schema
from lakelog.spool.cells import read_recovery, read_spool_id
from lakelog.spool.disk import Disk, named_folder
from lakelog.spool.partition import PartitionLog
from lakelog.spool.recovery import (
    INDEX,
    SegmentFile,
    file_name,
    list_segments,
    read_checkpoint,
    scan,
)
from lakelog.spool.segments import position_of, read_columns

__all__ = ["RAW_END", "MappedSegment", "SpoolReader", "SpoolRecord"]

COLUMNS = ("key", "value", "offset", "timestamp", "headers")
RAW_END = (1 << 63) - 1
POLL_S = 0.02

_RECORD = struct.Struct(">IQQ")
_NOTHING = memoryview(b"")


class SpoolRecord(NamedTuple):
    """A record, where it stands: views are good as long as they are held."""

    offset: int
    timestamp_us: int
    key: memoryview | None
    value: memoryview | None
    headers: tuple[Header, ...]
    is_verified: bool
    """False: it is another writer's, and nothing tells whether it is right."""


class MappedSegment(NamedTuple):
    """A segment in memory."""

    base_offset: int
    log: memoryview
    entries: memoryview


class SpoolReader:
    """Reads the partitions of one folder."""

    def __init__(
        self, disk: Disk, find_log: Callable[[str, int], PartitionLog] | None = None
    ) -> None:
        """``find_log`` finds what the writer has, if it is of this process."""
        self._disk, self._find_log = disk, find_log

    def partitions(self) -> list[tuple[str, int]]:
        """Return the topics and partitions in the folder."""
        return self._disk.partitions()

    def bounds(self, topic: str, partition: int = 0, offset: int = 0) -> tuple[int, int]:
        """Return the first offset of a partition, and the one behind its last record.

        Segments that lie before ``offset`` are left out, and not looked at.
        """
        found = list(self.segments(topic, partition, offset))
        if not found:
            return 0, 0
        last, raw_end = found[-1], self.raw_end(named_folder(topic, partition))
        scanned = scan(last.log, base_offset=last.base_offset, raw_end=raw_end)
        return found[0].base_offset, scanned.next_offset

    # ------------------------------------------------------------------------ records

    def records(
        self, topic: str, partition: int = 0, *, offset: int = 0, limit: int | None = None
    ) -> Iterator[SpoolRecord]:
        """Yield records from ``offset`` on, as far as there are any.

        Raises:
            CorruptError: a sealed segment is damaged.
        """
        left = -1 if limit is None else limit
        for segment in self.segments(topic, partition, offset):
            at = position_of(segment.log, segment.entries, offset)
            while at < len(segment.log) and left:
                record, at = _record_at(segment.log, at)
                yield record
                left -= 1

    def follow(
        self,
        topic: str,
        partition: int = 0,
        *,
        offset: int = 0,
        wait: Callable[[float], object],
    ) -> Iterator[SpoolRecord]:
        """Yield records from ``offset`` on, and for ever those that come.

        ``wait`` is called with a part of a second when there is none; it ends this by raising, or
        by returning something that is true.
        """
        while True:
            before = offset
            for record in self.records(topic, partition, offset=offset):
                yield record
                offset = record.offset + 1
            if offset == before and wait(POLL_S):
                return

    def offset_at(self, topic: str, timestamp_us: int, partition: int = 0) -> int:
        """Return the first offset whose record is not older; the end, if all are."""
        end = 0
        for segment in self.segments(topic, partition, 0):
            log, end = segment.log, segment.base_offset
            at = _not_after(log, segment.entries, timestamp_us)
            while at < len(log):
                length, offset, time_us = _RECORD.unpack_from(log, at)
                if time_us >= timestamp_us:
                    return int(offset)
                at, end = at + _RECORD.size + length, offset + 1
        return end

    # ------------------------------------------------------------------------ Arrow

    def batches(
        self,
        topic: str,
        partition: int = 0,
        *,
        offset: int = 0,
        end: int | None = None,
        columns: Iterable[str] = COLUMNS,
    ) -> pa.RecordBatchReader:
        """Return the records from ``offset`` on, before ``end``, as a stream of Arrow batches.

        Raises:
            InvalidInputError: an unknown column. The stream raises CorruptError on damage.
        """
        chosen = tuple(columns)
        schema = arrow_schema(chosen)
        bounds = {"offset_from": offset} | ({} if end is None else {"offset_to": end})

        def found() -> Iterator[pa.RecordBatch]:
            for segment in self.segments(topic, partition, offset, ahead=True):
                if end is not None and segment.base_offset >= end:
                    return
                yield from read_columns(
                    segment.log,
                    segment.entries,
                    segment.base_offset,
                    chosen,
                    active=False,
                    **bounds,
                )

        return pa.RecordBatchReader.from_batches(schema, found())

    # ------------------------------------------------------------------------ segments

    def segments(
        self, topic: str, partition: int = 0, offset: int = 0, *, ahead: bool = False
    ) -> Iterator[MappedSegment]:
        """Yield the segments that hold ``offset`` and what follows, up to the end of now.

        ``ahead``: all of each will be read. A segment that is deleted meanwhile is passed over, as
        it would be a moment later.
        """
        if offset < 0:
            raise InvalidInputError(f"offset {offset}: use 0 or more")
        folder = named_folder(topic, partition)
        log = self._find_log(topic, partition) if self._find_log is not None else None
        active = log.active if log is not None else None
        found = list_segments(self._disk, folder)
        start = max(offset, log.start if log is not None else self._start(folder))
        for number, segment in enumerate(found):
            is_last = number + 1 == len(found)
            if not is_last and found[number + 1].base_offset <= start:
                continue
            try:
                if active is not None and segment.base_offset == active[0]:
                    name = file_name(segment.base_offset)
                    view = self._disk.view(folder, name, active[1], ahead=ahead)
                    yield MappedSegment(segment.base_offset, view, _NOTHING)
                elif is_last and active is None:
                    yield self._read_active(folder, segment)
                elif active is None or segment.base_offset < active[0]:
                    yield self._map_sealed(folder, segment, ahead=ahead)
            except FileNotFoundError:
                continue

    def _start(self, folder: str) -> int:
        """Return where the log begins. Of segments that retention was deleting, a power cut may
        leave some, with holes between them; a writer has deleted those when it begins.
        """
        checkpoint = read_checkpoint(self._disk, folder)
        return 0 if checkpoint is None else checkpoint.last_cleaned_offset

    def _map_sealed(self, folder: str, segment: SegmentFile, *, ahead: bool) -> MappedSegment:
        base = segment.base_offset
        try:
            index = self._disk.view(folder, file_name(base, INDEX))
        except FileNotFoundError:
            index = _NOTHING
        log = self._disk.view(folder, file_name(base), ahead=ahead)
        if len(index) % 16 or (len(index) and int.from_bytes(index[-8:], "big") >= len(log)):
            index = _NOTHING  # It is of the log before a compaction that came in between.
        return MappedSegment(base, log, index)

    def _read_active(self, folder: str, segment: SegmentFile) -> MappedSegment:
        """Read what another process is writing, up to its last whole record."""
        with self._disk.opened(folder, file_name(segment.base_offset)) as handle:
            size = self._disk.system.fstat(handle).st_size
            pieces, at = [], 0
            while at < size:
                piece = self._disk.system.pread(handle, size - at, at)
                if not piece:
                    break
                pieces.append(piece)
                at += len(piece)
        data = memoryview(b"".join(pieces))
        raw_end = self.raw_end(folder)
        found = scan(data, base_offset=segment.base_offset, raw_end=raw_end)
        return MappedSegment(segment.base_offset, data[: found.end], _NOTHING)

    def raw_end(self, folder: str) -> int:
        """Return the offset below which records may be raw."""
        point = read_recovery(self._disk, folder)
        if point is not None:
            return point.raw_end
        spool = read_spool_id(self._disk)
        return RAW_END if spool is None or spool.is_adopted else 0


def _record_at(log: memoryview, at: int) -> tuple[SpoolRecord, int]:
    """Return the record at a position, and where the next one begins.

    Raises:
        CorruptError: there is none, or its checksum is another.
    """
    if at + _RECORD.size > len(log):
        raise CorruptError("a record is cut off", at=at, where=".log")
    length, offset, time_us = _RECORD.unpack_from(log, at)
    end = at + _RECORD.size + length
    if length > rustlog.PAYLOAD_BYTES_MAX or end > len(log):
        raise CorruptError(
            f"a record of {end - at} bytes, {len(log) - at} left", at=at, where=".log"
        )
    payload = log[at + _RECORD.size : end]
    if not rustlog.is_envelope(payload):
        return SpoolRecord(offset, time_us, None, payload, (), False), end
    if length < rustlog.ENVELOPE_BYTES or crc32c(
        payload[rustlog.ENVELOPE_BYTES :], crc32c(log[at : at + _RECORD.size + 4])
    ) != int.from_bytes(payload[4:8], "big"):
        # It says what is wrong.
        rustlog.decode_envelope(payload, offset=offset, timestamp_us=time_us, at=at)
    key, next_ = _field(payload, rustlog.ENVELOPE_BYTES)
    value, next_ = _field(payload, next_)
    headers: tuple[Header, ...] = ()
    if payload[next_]:
        headers, _ = decode_headers(bytes(payload), next_, length)
    return SpoolRecord(offset, time_us, key, value, headers, True), end


def _field(payload: memoryview, at: int) -> tuple[memoryview | None, int]:
    length, at = decode_varint(payload, at, len(payload))
    if length < 0:
        return None, at
    return payload[at : at + length], at + length


def _not_after(log: memoryview, index: memoryview, timestamp_us: int) -> int:
    """Return the position of an indexed record before which all are older."""
    if not len(index):
        return 0
    positions = np.frombuffer(index, ">i8").reshape(-1, 2)[:, 1]
    low, high = 0, len(positions)
    while low < high:
        middle = (low + high) // 2
        at = int(positions[middle])
        if int.from_bytes(log[at + 12 : at + 20], "big") < timestamp_us:
            low = middle + 1
        else:
            high = middle
    return int(positions[low - 1]) if low else 0
