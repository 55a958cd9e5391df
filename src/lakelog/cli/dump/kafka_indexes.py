"""What kafka-dump-log says of indexes: their entries, and where they contradict the log."""

from collections.abc import Iterator
from typing import NamedTuple

from lakelog.cli.dump.side import OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES
from lakelog.cli.dump.sources import Sources
from lakelog.errors import CorruptError, UnsupportedError
from lakelog.formats.batches import IndexEntry
from lakelog.formats.kafkalog.index import TimeEntry
from lakelog.records import HEADER_BYTES, BatchHeader, decode_header
from lakelog_kafka_tools.thrown import Thrown

__all__ = ["TimeTrouble", "check_sanity", "last_offset_at", "time_trouble"]

_CORRUPT = "org.apache.kafka.storage.internals.log.CorruptIndexException"


class TimeTrouble(NamedTuple):
    """Something that is wrong with an entry of a time index."""

    kind: str
    """mismatch, order or missing."""
    entry: int
    found: int


def check_sanity(data: bytes, path: str, *, by_time: bool) -> None:
    """Check what a broker checks when it starts.

    Raises:
        Thrown: it would rebuild the index.
    """
    size = TIME_ENTRY_BYTES if by_time else OFFSET_ENTRY_BYTES
    name = f"Time index file {path}" if by_time else f"Index file {path}"
    if by_time and len(data) >= size:
        # Those that are not filled yet count as well, in Kafka's own check.
        at = len(data) // size * size - size
        first, last = int.from_bytes(data[:8]), int.from_bytes(data[at : at + 8])
        if last < first:
            raise Thrown(
                _CORRUPT,
                f"Corrupt time index found, time index file ({path}) has non-zero size but the last"
                f" timestamp is {last} which is less than the first timestamp {first}",
            )
    if len(data) % size:
        raise Thrown(
            _CORRUPT,
            f"{name} is corrupt, found {len(data)} bytes which is neither positive nor a multiple"
            f" of {size}",
        )


def last_offset_at(sources: Sources, log: str, position: int) -> int | None:
    """Return the last offset of the batch that stands at a position; None if none does."""
    header = _header(sources.read(log, position, position + HEADER_BYTES))
    return None if header is None else header.next_offset - 1


def _header(data: bytes) -> BatchHeader | None:
    try:
        return decode_header(data)
    except (CorruptError, UnsupportedError):
        return None


def _batches(sources: Sources, log: str, position: int) -> Iterator[BatchHeader]:
    while True:
        header = _header(sources.read(log, position, position + HEADER_BYTES))
        if header is None:
            return
        yield header
        position += header.size


def time_trouble(
    sources: Sources, log: str, entries: list[TimeEntry], offsets: list[IndexEntry]
) -> Iterator[TimeTrouble]:
    """Yield what is wrong with the entries of a time index, in their order."""
    previous = -1
    for _, timestamp, offset in entries:
        known = (one.position for one in offsets if one.offset <= offset and one.position > 0)
        position = max(known, default=0)
        found = next(
            (one for one in _batches(sources, log, position) if one.next_offset > offset), None
        )
        last = -1 if found is None else found.next_offset - 1
        if found is None or last != offset:
            yield TimeTrouble("missing", offset, last)
        else:
            if found.max_timestamp != timestamp:
                yield TimeTrouble("mismatch", timestamp, found.max_timestamp)
            if previous >= timestamp:
                yield TimeTrouble("order", timestamp, previous)
        previous = timestamp
