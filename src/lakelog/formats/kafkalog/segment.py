"""Segments of a Kafka log directory: a .log, and indexes beside it.

    {base offset:020}.log => batch* [zeros]
      batch      a Kafka record batch, magic 2
      zeros      space set aside for batches to come (log.preallocate); not part of the log

There is no header, no footer and no checksum over the whole: only each batch protects itself, and
not its base offset nor its leader epoch. So a file cut between two batches is a shorter good file,
and only its neighbour's name tells what is missing.

The last segment of a directory is being written to: what follows its last whole batch is a batch
on its way, not damage, unless a good batch stands behind it.

Message formats 0 and 1, which Kafka wrote before 0.11, are refused; Kafka 4 refuses them, too.
Specification: docs/reference/formats/kafka-log-directory.md
"""

import re
import struct
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from lakelog.errors import CorruptError, InvalidInputError, UnsupportedError
from lakelog.formats.batches import (
    IndexCheck,
    Run,
    encode_run,
    find_time,
    follow,
    frames,
    read_records,
    walk_run,
)
from lakelog.formats.contract import (
    EVERYTHING,
    Bytes,
    Carries,
    Damage,
    Files,
    Format,
    Found,
    Range,
    Ranged,
    Segment,
    Span,
    Walk,
)
from lakelog.formats.kafkalog.index import (
    INDEX_INTERVAL_BYTES,
    INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    OffsetIndex,
    TimeCheck,
    TimeIndex,
    decode_offset_index,
    decode_time_index,
    encode_indexes,
    read_side_file,
)
from lakelog.formats.kafkalog.producers import SNAPSHOT_SUFFIX, decode_snapshot
from lakelog.formats.kafkalog.transactions import TXN_INDEX_SUFFIX, decode_txn_index
from lakelog.model import Record
from lakelog.records import HEADER_BYTES, BatchHeader, Codec

__all__ = [
    "FORMAT",
    "LOG_BYTES_MAX",
    "LOG_SUFFIX",
    "KafkaSegment",
    "directory_name",
    "encode",
    "encode_segment",
    "open_segment",
    "parse_directory_name",
    "walk",
]

T = TypeVar("T")

LOG_SUFFIX = ".log"
LOG_BYTES_MAX = (1 << 31) - 1
"""A position is an i32."""

_DIRECTORY = re.compile(r"([a-zA-Z0-9._-]{1,249})-(0|[1-9][0-9]{0,9})")
_STEM = re.compile(r"[0-9]{20}")
_I32_MAX = (1 << 31) - 1
_I64_MAX = (1 << 63) - 1
_FIRST = struct.Struct(">qi4xb")
_SPAN = 1 << 31
_LENGTH_MIN = HEADER_BYTES - 12
_MAGIC = 2


def encode_segment(
    batches: Bytes,
    *,
    base_offset: int | None = None,
    interval_bytes: int = INDEX_INTERVAL_BYTES,
) -> dict[str, bytes]:
    """Return the files of a closed segment that holds a run of batches, kept byte for byte.

    ``base_offset`` is the first batch's, unless what stood before it was compacted away.

    Raises:
        CorruptError, UnsupportedError: ``batches`` is not a run of good batches.
        InvalidInputError: it is too large, or begins below ``base_offset``.
    """
    if len(batches) > LOG_BYTES_MAX:
        raise InvalidInputError(f"{len(batches)} bytes of batches do not fit one segment")
    placed = list(frames(batches))
    first = placed[0].header.base_offset if placed else 0
    base = first if base_offset is None else base_offset
    if placed and base > first:
        raise InvalidInputError(f"the batches begin at {first}, below {base}")
    offsets, times = encode_indexes(placed, base_offset=base, interval_bytes=interval_bytes)
    return {LOG_SUFFIX: bytes(batches), INDEX_SUFFIX: offsets, TIME_INDEX_SUFFIX: times}


def encode(records: Sequence[Record], codec: Codec) -> dict[str, bytes]:
    """Return the files of the segment that holds ``records``."""
    return encode_segment(encode_run(records, codec))


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSegment:
    """An opened segment."""

    base_offset: int
    run: Run
    index: OffsetIndex | None
    times: TimeIndex | None

    def start(self, offset: int) -> int:
        """Return where the index says to begin looking for ``offset``; no bytes are read."""
        return 0 if self.index is None else self.index.position(offset)

    def start_at(self, position: int) -> int:
        """Return where some batch begins that is not behind ``position``: the nearest known."""
        return 0 if self.index is None else self.index.position_at(position)

    def read_from(self, offset: int, limit: int) -> Ranged[tuple[Record, ...]]:
        """Return at most ``limit`` records from the first one at or after ``offset``."""
        return read_records(self.run, self.start(offset), offset, limit)

    def offset_at(self, timestamp: int) -> Ranged[int | None]:
        """Return the first offset whose record is not older, or None."""
        at = 0 if self.times is None else self.start(self.times.offset(timestamp))
        return find_time(self.run, at, timestamp)


def open_segment(files: Files) -> Ranged[Segment]:
    """Read the indexes.

    A damaged index raises. Indexes are advisory: leave one out of ``files`` to do without.
    """
    base = files.base_offset
    offsets = yield from read_side_file(files, INDEX_SUFFIX)
    times = yield from read_side_file(files, TIME_INDEX_SUFFIX)
    return KafkaSegment(
        base_offset=base,
        run=_run(files),
        index=None if offsets is None else decode_offset_index(offsets, base_offset=base),
        times=None if times is None else decode_time_index(times, base_offset=base),
    )


def walk(files: Files, *, span: Span = EVERYTHING) -> Walk:
    """Yield every batch, and every contradiction between the log and the files beside it.

    Records are read of batches that begin in ``span``.
    """
    base = files.base_offset
    offsets = yield from _side(
        files, INDEX_SUFFIX, lambda d: decode_offset_index(d, base_offset=base)
    )
    times = yield from _side(
        files, TIME_INDEX_SUFFIX, lambda d: decode_time_index(d, base_offset=base)
    )
    yield from _side(files, TXN_INDEX_SUFFIX, lambda d: decode_txn_index(d, base_offset=base))
    yield from _side(files, SNAPSHOT_SUFFIX, lambda d: decode_snapshot(d, next_offset=base))
    index_check = IndexCheck(INDEX_SUFFIX, offsets or (), _within)
    time_check = TimeCheck(times or ())
    note = partial(follow, checks=(index_check, time_check))
    yield from walk_run(_run(files), span=span, note=note)
    # While a segment is written to, its indexes may know of batches that we do not see yet.
    yield from index_check.end(active=files.active)
    yield from time_check.end(active=files.active)


def _run(files: Files) -> Run:
    return Run(
        suffix=LOG_SUFFIX,
        start=0,
        end=files.sizes.get(LOG_SUFFIX, 0),
        base_offset=files.base_offset,
        zeros_end=True,
        torn_end=files.active,
    )


def _side(
    files: Files, suffix: str, decode: Callable[[bytes], T]
) -> Generator[Range | Found, Any, T | None]:
    """Return what a side file holds; None, and a Damage on the way, when it is bad."""
    try:
        data = yield from read_side_file(files, suffix)
        return None if data is None else decode(data)
    except (CorruptError, UnsupportedError) as error:
        yield Damage(error=error, position=error.at)
        return None


def _within(header: BatchHeader, offset: int) -> bool:
    # Kafka 4 names the last offset of the batch. Older brokers, and followers, appended several
    # batches at a time and named the last offset of them all beside the position of the first.
    return header.base_offset <= offset


# ---------------------------------------------------------------------------- names


def directory_name(topic: str, partition: int) -> str:
    """Return the name of a partition's directory.

    Raises:
        InvalidInputError: no Kafka topic or partition is called so.
    """
    name = f"{topic}-{partition}"
    if parse_directory_name(name) != (topic, partition):
        raise InvalidInputError(f"topic {topic!r}, partition {partition}")
    return name


def parse_directory_name(name: str) -> tuple[str, int] | None:
    """Return topic and partition, or None when the directory holds no partition."""
    found = _DIRECTORY.fullmatch(name)
    if found is None or found[1] in (".", "..") or int(found[2]) > _I32_MAX:
        return None
    return found[1], int(found[2])


# ---------------------------------------------------------------------------- the row


def _file_stem(base_offset: int) -> str:
    return f"{base_offset:020}"


def _base_offset(stem: str) -> int | None:
    if _STEM.fullmatch(stem) is None or int(stem) > _I64_MAX:
        return None
    return int(stem)


def _sniff(data: bytes, base_offset: int) -> bool:
    """Tell a Kafka log from others that are called .log, too: by its first batch."""
    if not any(data):
        return True
    if len(data) < _FIRST.size:
        return False
    first, length, magic = _FIRST.unpack_from(data)
    if magic != _MAGIC or length < _LENGTH_MIN:
        return False
    # Compaction may have taken the first batches, but what is left is within reach of the index.
    ahead: int = first - base_offset
    return 0 <= ahead < _SPAN


FORMAT = Format(
    name="kafkalog",
    title="Kafka log segment",
    suffix=LOG_SUFFIX,
    side_suffixes=(INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX, SNAPSHOT_SUFFIX),
    carries=Carries(),
    sealed=False,
    checksums=True,
    file_stem=_file_stem,
    base_offset=_base_offset,
    sniff=_sniff,
    encode=encode,
    walk=walk,
    open=open_segment,
)
