"""What kafka-dump-log says of indexes: their entries, and where they contradict the log."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from lakelog.cli.dump.sources import Sources
from lakelog.errors import CorruptError, UnsupportedError
from lakelog.formats import kafkalog
from lakelog.records import HEADER_BYTES, BatchHeader, decode_header
from lakelog_kafka_tools.thrown import Thrown

__all__ = ["TimeTrouble", "check_sanity", "last_offset_at", "offset_entries", "time_entries",
           "time_trouble"]  # fmt: skip

_CORRUPT = "org.apache.kafka.storage.internals.log.CorruptIndexException"
_OFFSET_ENTRY, _TIME_ENTRY = 8, 12
INDEX_BYTES_MAX = 64 * 1024 * 1024


class TimeTrouble(NamedTuple):
    """Something that is wrong with an entry of a time index."""

    kind: str
    """mismatch, order or missing."""
    entry: int
    found: int


def offset_entries(data: bytes, base: int) -> list[tuple[int, int]]:
    """Return offsets and positions, up to what a running broker has not filled yet."""
    whole = data[: len(data) - len(data) % _OFFSET_ENTRY]
    index = kafkalog.OffsetIndex(base_offset=base, data=whole)
    return _filled(((offset, position) for _, offset, position in index), base, at=0)


def time_entries(data: bytes, base: int) -> list[tuple[int, int]]:
    """Return timestamps and offsets, likewise."""
    whole = data[: len(data) - len(data) % _TIME_ENTRY]
    index = kafkalog.TimeIndex(base_offset=base, data=whole)
    return _filled(((timestamp, offset) for _, timestamp, offset in index), base, at=1)


def _filled(entries: Iterable[tuple[int, int]], base: int, *, at: int) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for entry in entries:
        if found and entry[at] == base:
            break
        found.append(entry)
    return found


def check_sanity(data: bytes, path: str, *, by_time: bool) -> None:
    """Check what a broker checks when it starts.

    Raises:
        Thrown: it would rebuild the index.
    """
    size = _TIME_ENTRY if by_time else _OFFSET_ENTRY
    name = f"Time index file {path}" if by_time else f"Index file {path}"
    if by_time and len(data) >= size:
        # Those that are not filled yet count as well, in Kafka's own check.
        at = len(data) // size * size - size
        first, last = int.from_bytes(data[:8]), int.from_bytes(data[at : at + 8])
        if last < first:
            found = f"Corrupt time index found, time index file ({path}) has non-zero size but the"
            less = f"which is less than the first timestamp {first}"
            raise Thrown(_CORRUPT, f"{found} last timestamp is {last} {less}")
    if len(data) % size:
        what = f"is corrupt, found {len(data)} bytes which is neither positive nor a multiple of"
        raise Thrown(_CORRUPT, f"{name} {what} {size}")


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
    sources: Sources, log: str, entries: list[tuple[int, int]], offsets: list[tuple[int, int]]
) -> Iterator[TimeTrouble]:
    """Yield what is wrong with the entries of a time index, in their order."""
    previous = -1
    for timestamp, offset in entries:
        position = max((at for known, at in offsets if known <= offset and at > 0), default=0)
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
