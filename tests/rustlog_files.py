"""RustLog's files as its program has them: what the product does not need to do."""

from collections.abc import Iterator
from pathlib import Path

from lakelog.formats import Bytes
from lakelog.formats.rustlog import INDEX_INTERVAL, LogRecord, encode_log, partition_path
from lakelog.formats.rustlog.layout import (
    ENTRY,
    RECORD,
    decode_record_header,
    fitting_index,
    is_torn,
    refuse_untimed,
)

__all__ = ["build_index", "decode_log", "raw_records"]


def decode_log(data: Bytes, *, base_offset: int = 0, active: bool = False) -> tuple[LogRecord, ...]:
    """Return the records of a log; with ``active``, all before an incomplete last one.

    Raises:
        CorruptError: no correct writer made these bytes, or some are missing.
        UnsupportedError: a payload over the limit, or a log without timestamps.
    """
    return tuple(record for _, record in _each_record(memoryview(data), base_offset, active))


def build_index(data: Bytes, base_offset: int, *, index_interval: int = INDEX_INTERVAL) -> bytes:
    """Return the index of a log, as the log's writer would have made it.

    An incomplete last record is left out, for a log whose index is lost often has one.

    Raises:
        CorruptError: no correct writer made these bytes.
        UnsupportedError: a payload over the limit, or a log without timestamps.
        InvalidInputError: it would not be read.
    """
    index = bytearray()
    records = _each_record(memoryview(data), base_offset, active=True)
    for number, (position, record) in enumerate(records):
        if number % index_interval == 0:
            index += ENTRY.pack(record.offset, position)
    return bytes(fitting_index(index))


def _each_record(
    data: memoryview, base_offset: int, active: bool
) -> Iterator[tuple[int, LogRecord]]:
    refuse_untimed(data, base_offset)
    at, offset_min = 0, base_offset
    while at < len(data):
        room = len(data) - at
        head = data[at : at + RECORD.size]
        if active and is_torn(head, room):
            return
        header = decode_record_header(head, at=at, room=room, offset_min=offset_min)
        payload = bytes(data[at + RECORD.size : at + header.size])
        yield at, LogRecord(offset=header.offset, timestamp_us=header.timestamp_us, payload=payload)
        at += header.size
        offset_min = header.offset + 1


def raw_records(root: Path) -> None:
    """Write the log of another writer, of two records, as partition 0 of topic ``t``."""
    records = [LogRecord(offset=n, timestamp_us=n, payload=b"raw") for n in range(2)]
    folder = root / partition_path("t", 0)
    folder.mkdir(parents=True)
    for suffix, data in encode_log(records).items():
        (folder / f"{0:020d}{suffix}").write_bytes(data)
