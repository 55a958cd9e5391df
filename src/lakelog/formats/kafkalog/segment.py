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
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from lakelog.errors import InvalidInputError
from lakelog.formats.batches import (
    BatchSegment,
    Frame,
    IndexCheck,
    Run,
    base_offset_of,
    follow,
    walk_run,
)
from lakelog.formats.contract import (
    EVERYTHING,
    Carries,
    Files,
    Format,
    Ranged,
    Segment,
    Span,
    Walk,
    damage_or,
)
from lakelog.formats.kafkalog.index import (
    INDEX_INTERVAL_BYTES,
    INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    TimeCheck,
    decode_offset_index,
    decode_time_index,
    encode_indexes,
    read_side_file,
)
from lakelog.formats.kafkalog.producers import SNAPSHOT_SUFFIX, ProducerState, decode_snapshot
from lakelog.formats.kafkalog.transactions import TXN_INDEX_SUFFIX, decode_txn_index
from lakelog.records import HEADER_BYTES, I32_MAX, LENGTH_END, MAGIC, BatchHeader

__all__ = [
    "FORMAT",
    "LOG_BYTES_MAX",
    "LOG_SUFFIX",
    "directory_name",
    "encode_side_files",
    "open_segment",
    "parse_directory_name",
    "walk",
]

T = TypeVar("T")

LOG_SUFFIX = ".log"
LOG_BYTES_MAX = I32_MAX
"""A position is an i32."""

_DIRECTORY = re.compile(r"([a-zA-Z0-9._-]{1,249})-(0|[1-9][0-9]{0,9})")
_FIRST = struct.Struct(">qi4xb")
_SPAN = 1 << 31
_LENGTH_MIN = HEADER_BYTES - LENGTH_END


def encode_side_files(
    placed: Sequence[Frame],
    size: int,
    *,
    base_offset: int | None = None,
    interval_bytes: int = INDEX_INTERVAL_BYTES,
) -> dict[str, bytes]:
    """Return the indexes of a log of ``size`` bytes that holds these batches.

    Raises:
        InvalidInputError: it is too large, or begins below ``base_offset``.
    """
    if size > LOG_BYTES_MAX:
        raise InvalidInputError(f"{size} bytes do not fit one Kafka log; end it earlier")
    base = base_offset_of(placed, base_offset)
    offsets, times = encode_indexes(placed, base_offset=base, interval_bytes=interval_bytes)
    return {INDEX_SUFFIX: offsets, TIME_INDEX_SUFFIX: times}


def open_segment(files: Files) -> Ranged[Segment]:
    """Read the indexes.

    A damaged index raises. Indexes are advisory: leave one out of ``files`` to do without.
    """
    index = yield from _read_side(files, INDEX_SUFFIX, decode_offset_index)
    times = yield from _read_side(files, TIME_INDEX_SUFFIX, decode_time_index)
    return BatchSegment(base_offset=files.base_offset, run=_run(files), index=index, times=times)


def walk(files: Files, *, span: Span = EVERYTHING) -> Walk:
    """Yield every batch, and every contradiction between the log and the files beside it.

    Records are read of batches that begin in ``span``.
    """
    offsets = yield from damage_or(_read_side(files, INDEX_SUFFIX, decode_offset_index))
    times = yield from damage_or(_read_side(files, TIME_INDEX_SUFFIX, decode_time_index))
    yield from damage_or(_read_side(files, TXN_INDEX_SUFFIX, decode_txn_index))
    yield from damage_or(_read_side(files, SNAPSHOT_SUFFIX, _decode_snapshot))
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


def _read_side(files: Files, suffix: str, decode: Callable[..., T]) -> Ranged[T | None]:
    """Return what a side file holds, or None when there is none."""
    data = yield from read_side_file(files, suffix)
    return None if data is None else decode(data, base_offset=files.base_offset)


def _decode_snapshot(data: bytes, *, base_offset: int) -> tuple[ProducerState, ...]:
    return decode_snapshot(data, next_offset=base_offset)


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
    if found is None or found[1] in (".", "..") or int(found[2]) > I32_MAX:
        return None
    return found[1], int(found[2])


# ---------------------------------------------------------------------------- the row


def _sniff(data: bytes, base_offset: int) -> bool:
    """Tell a Kafka log from others that are called .log, too: by its first batch."""
    if not any(data):
        return True
    if len(data) < _FIRST.size:
        return False
    first, length, magic = _FIRST.unpack_from(data)
    if magic != MAGIC or length < _LENGTH_MIN:
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
    sniff=_sniff,
    walk=walk,
    open=open_segment,
)
