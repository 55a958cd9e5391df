"""Copies: the directories that several brokers hold of one partition, as one log.

    broker-1/orders-0/   0 ........ 500 ....... 900           epoch 7: the log
    broker-2/orders-0/   0 ........ 500 ....... 900 ... 950   epoch 6: led once, and was cut off
    broker-3/orders-0/              500 ...... 880            epoch 7, a little behind

A leader epoch is what Kafka itself goes by: of two copies, the one that heard of the newer epoch is
right, however long the other is. So copies are ranked by the epoch of their last batch, or by that
of their leader-epoch-checkpoint if it is newer (a leader notes its epoch before it writes in it),
then by where they end. The first is the log. The others give only what lies below its beginning, in
the order of their rank, and a tail of an older epoch never shows.

Brokers roll segments at different offsets, so segments of different copies overlap: those of a
lower rank are cut at the offset where the better copy begins. All this takes a few small reads for
each copy, and none where there is one directory.

A broker deletes whole segments. When a client has records deleted up to an offset inside one, the
broker only notes that offset, once a minute, in a file at the root of its log directory:

    log-start-offset-checkpoint
        0                   version
        1                   how many lines follow
        orders 0 1042       topic, partition, first offset that is left

A partition that is not named begins with its first segment. Kafka makes an empty file before it has
anything to say, so an empty one is good.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter

from lakelog.errors import CorruptError, InvalidInputError, NotFoundError, UnsupportedError
from lakelog.flows import Items, asked_for
from lakelog.formats import Files, Range, Ranged, batches, fetch, kafkalog
from lakelog.records import OFFSET_MAX, BatchHeader, decode_header
from lakelog.segments.segments import SegmentRef, through_store
from lakelog.store import Flow, get

__all__ = [
    "Copy",
    "choose_copies",
    "decode_log_starts",
    "merge_copies",
    "note_roots",
    "rank_copy",
    "read_log_starts",
]

_INDEX = ".index"
_ENTRY_BYTES = 8
_INDEX_BLOCK_BYTES = 2048 * _ENTRY_BYTES
_PIECE_BYTES = 64 * 1024
_NO_EPOCH = -1
LOG_STARTS_NAME = "log-start-offset-checkpoint"
_VERSION = 0
_LINE = re.compile(rb"([a-zA-Z0-9._-]{1,249}) (0|[1-9][0-9]{0,9}) ([0-9]{1,19})")

Partition = tuple[str, int]
LogStarts = dict[tuple[str, str, int], int]
"""Root directory, topic, partition -> first offset that is left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """One directory of a partition: what it holds, and how new that is."""

    segments: tuple[SegmentRef, ...]
    epoch: int
    next_offset: int
    """Where it ends."""

    @property
    def directory(self) -> str:
        return self.segments[0].directory

    @property
    def base_offset(self) -> int:
        return self.segments[0].base_offset


def choose_copies(
    partitions: Mapping[Partition, list[SegmentRef]], starts: LogStarts
) -> Flow[dict[Partition, list[SegmentRef]]]:
    """Return the segments that make up the log of each partition, in the order of their offsets.

    Raises:
        InvalidInputError: directories of two topics that had the same name one after the other.
    """
    chosen: dict[Partition, list[SegmentRef]] = {}
    for topic_partition, segments in partitions.items():
        # A directory is listed in one go, so two of them show at the ends.
        if segments[0].directory == segments[-1].directory:
            log_start = starts.get((_root(segments[0].directory), *topic_partition), 0)
            chosen[topic_partition] = _begin_at(segments, log_start)
            continue
        copies: list[Copy] = []
        for _, group in groupby(segments, key=attrgetter("directory")):
            copies.append((yield from rank_copy(tuple(group))))
        yield from _check_topic(copies)
        best = max(copies, key=_rank)
        # A beginning behind the end of the log is from a history that did not become the log.
        noted = (starts.get((_root(copy.directory), *topic_partition), 0) for copy in copies)
        log_start = max((start for start in noted if start <= best.next_offset), default=0)
        chosen[topic_partition] = _begin_at(merge_copies(copies), log_start)
    return chosen


def merge_copies(copies: list[Copy]) -> list[SegmentRef]:
    """Return the segments of one log: all of the best copy, and of the others what it lacks."""
    log: list[SegmentRef] = []
    end = OFFSET_MAX
    for copy in sorted(copies, key=_rank, reverse=True):
        log += _end_at(copy.segments, end)
        end = min(end, copy.base_offset)
    log.sort(key=attrgetter("base_offset"))
    return log


def _rank(copy: Copy) -> tuple[int, int, int, str]:
    # Equal copies: the longer one saves a change from copy to copy, then any order will do.
    return copy.epoch, copy.next_offset, -copy.base_offset, copy.directory


def _end_at(segments: tuple[SegmentRef, ...], end: int) -> Iterator[SegmentRef]:
    for segment in segments:
        if segment.next_offset_max <= end:
            yield segment
        elif segment.base_offset < end:
            yield replace(segment, next_offset_max=end)


def _begin_at(segments: list[SegmentRef], log_start: int) -> list[SegmentRef]:
    if log_start <= segments[0].base_offset:
        return segments
    return [
        replace(segment, offset_min=log_start) if segment.base_offset < log_start else segment
        for segment in segments
        if segment.next_offset_max > log_start
    ]


def _root(directory: str) -> str:
    return directory.rpartition("/")[0]


# ---------------------------------------------------------------------------- how new a copy is


def rank_copy(segments: tuple[SegmentRef, ...]) -> Flow[Copy]:
    """Read the end of a copy, and return how new it is.

    A torn end does not count, and what stands behind damage does not either: another copy that
    has it whole then goes first.
    """
    epoch, next_offset = _NO_EPOCH, segments[-1].base_offset
    for segment in reversed(segments):
        last = yield from _last_batch(segment)
        if last is not None:
            epoch, next_offset = last.leader_epoch, max(next_offset, last.next_offset)
            break
    noted = yield from _noted_epoch(segments[0].directory)
    return Copy(segments=segments, epoch=max(epoch, noted), next_offset=next_offset)


def _noted_epoch(directory: str) -> Flow[int]:
    data = yield from _optional(f"{directory}/{kafkalog.LEADER_EPOCHS_NAME}")
    try:
        epochs = kafkalog.decode_leader_epochs(data)
    except (CorruptError, UnsupportedError):
        return _NO_EPOCH  # The batches tell as much, but for an epoch without any.
    return epochs[-1].epoch if epochs else _NO_EPOCH


def _check_topic(copies: list[Copy]) -> Flow[None]:
    """Refuse copies of different topics: a broker that was away keeps one that was deleted."""
    seen: dict[object, str] = {}
    for copy in copies:
        data = yield from _optional(f"{copy.directory}/{kafkalog.METADATA_NAME}")
        # Without an id there is nothing to compare, and the records are as good.
        with suppress(CorruptError, UnsupportedError):
            seen.setdefault(kafkalog.decode_metadata(data), copy.directory)
    if len(seen) > 1:
        raise InvalidInputError(
            f"{' and '.join(seen.values())} belong to different topics of the same name, "
            "of which all but one were deleted; read the brokers one by one"
        )


def _optional(key: str) -> Flow[bytes]:
    try:
        return (yield from get(key))
    except NotFoundError:
        return b""


def _last_batch(segment: SegmentRef) -> Flow[BatchHeader | None]:
    """Return the header of the last good batch of a segment, or None."""
    if segment.size == 0:
        return None
    log = Files(
        base_offset=segment.base_offset,
        sizes={segment.fmt.suffix: segment.size},
        active=segment.active,
    )
    near = yield from through_store(segment, _last_position(segment.files))
    last = yield from through_store(segment, _last_header(log, near))
    if last is None and near > 0:
        # The index misleads, or the damage begins where it leads: look from the beginning.
        last = yield from through_store(segment, _last_header(log, 0))
    return last


def _last_position(files: Files) -> Ranged[int]:
    """Return a position near the end at which the index says that a batch begins, or 0.

    While a segment is written to, its index is a file of full size, of which only the beginning is
    used. So the last block in use is searched for, and the rest is not read.
    """
    size = files.sizes.get(_INDEX, 0)
    low, high = 0, -(-size // _INDEX_BLOCK_BYTES)
    if size < _ENTRY_BYTES:
        return 0
    while high - low > 1:
        middle = (low + high) // 2
        at = middle * _INDEX_BLOCK_BYTES
        entry = yield from fetch(_INDEX, at, min(at + _ENTRY_BYTES, size))
        low, high = (middle, high) if any(entry) else (low, middle)
    at = low * _INDEX_BLOCK_BYTES
    block = yield from fetch(_INDEX, at, min(at + _INDEX_BLOCK_BYTES, size))
    try:
        index = kafkalog.decode_offset_index(block, base_offset=files.base_offset)
    except CorruptError:
        return 0
    return index.position_at(files.sizes[kafkalog.FORMAT.suffix] - 1)


def _last_header(log: Files, at: int) -> Ranged[BatchHeader | None]:
    """Return the header of the last good batch from ``at`` on, or None."""
    opened = yield from kafkalog.FORMAT.open(log)
    assert isinstance(opened, batches.BatchSegment)
    feed = batches.pieces(opened.run, at=at, bytes_max=_PIECE_BYTES)
    last: BatchHeader | None = None
    found = Items(feed, Range, asked_for)
    with suppress(CorruptError, UnsupportedError):
        while (item := (yield from found.next())) is not None:
            position = 0
            while position < len(item.data):
                last = decode_header(item.data, position)
                position += last.size
    return last


# ---------------------------------------------------------------------------- where logs begin


def note_roots(objects: Iterable[tuple[str, int]], roots: set[str]) -> Iterator[tuple[str, int]]:
    """Pass a listing on, and add to ``roots`` the directories that hold a checkpoint."""
    for item in objects:
        directory, _, name = item[0].rpartition("/")
        if name == LOG_STARTS_NAME:
            roots.add(directory)
        yield item


def read_log_starts(roots: Iterable[str]) -> Flow[LogStarts]:
    """Return what the checkpoints of some roots say.

    Raises:
        CorruptError, UnsupportedError: one of them is no such file; ``where`` is its key.
    """
    starts: LogStarts = {}
    for root in sorted(roots):
        key = f"{root}/{LOG_STARTS_NAME}" if root else LOG_STARTS_NAME
        found = decode_log_starts((yield from get(key)), where=key)
        starts.update(
            ((root, *topic_partition), offset) for topic_partition, offset in found.items()
        )
    return starts


def decode_log_starts(data: bytes, *, where: str = LOG_STARTS_NAME) -> dict[tuple[str, int], int]:
    """Return the first offset that is left of each partition that is named.

    Raises:
        UnsupportedError: another version.
        CorruptError: no Kafka wrote this.
    """
    lines = data.splitlines()
    if not lines:
        return {}
    if len(lines) < 2 or not all(line.isdigit() for line in lines[:2]):
        raise CorruptError("no version and count on the first two lines", at=0, where=where)
    if int(lines[0]) != _VERSION:
        what = f"version {int(lines[0])}, this reader knows {_VERSION}"
        raise UnsupportedError(what, at=0, where=where)
    at = len(lines[0]) + len(lines[1]) + 2
    if int(lines[1]) != len(lines) - 2:
        raise CorruptError(f"{len(lines) - 2} lines, not {int(lines[1])}", at=at, where=where)
    starts: dict[tuple[str, int], int] = {}
    for line in lines[2:]:
        found = _LINE.fullmatch(line)
        if found is None:
            what = f"{line[:40]!r} is not a topic, a partition and an offset"
            raise CorruptError(what, at=at, where=where)
        starts[found[1].decode(), int(found[2])] = int(found[3])
        at += len(line) + 1
    return starts
