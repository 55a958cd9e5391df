"""Sparse indexes of batches: looking up in one, and holding it against the batches.

An index is advisory: it can be rebuilt, and records are read without it. But a wrong one makes
a reader miss records, so a walk checks each entry against the batch it points to, and reports the
first that cannot be true.
"""

import struct
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import NamedTuple, Protocol

from lakelog.errors import CorruptError
from lakelog.formats.contract import Block, Damage, Found
from lakelog.records import BatchHeader

__all__ = ["BatchEntry", "Check", "IndexCheck", "OffsetIndex", "Told", "follow"]

_KAFKA_ENTRY = struct.Struct(">ii")


class BatchEntry(NamedTuple):
    """Records from ``offset`` on stand at ``position`` or behind it."""

    at: int
    """Where in the index file the entry stands."""

    offset: int
    position: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetIndex:
    """Offsets to positions, kept as bytes: millions of entries are not worth an object each.

    Without more, it is Kafka's.
    """

    data: bytes
    """The entries."""
    base_offset: int = 0
    """What the offsets of the entries are counted from."""
    entry: struct.Struct = _KAFKA_ENTRY
    """An offset and a position."""
    entries_at: int = 0
    """Where in its file the entries begin."""
    first_position: int = 0
    """Where the first batch begins, whether or not it has an entry."""

    def __len__(self) -> int:
        return len(self.data) // self.entry.size

    def __iter__(self) -> Iterator[BatchEntry]:
        for number, (offset, position) in enumerate(self.entry.iter_unpack(self.data)):
            at = self.entries_at + number * self.entry.size
            yield BatchEntry(at, self.base_offset + offset, position)

    def position(self, offset: int) -> int:
        """Return where to begin looking for ``offset``."""
        return self._last(0, offset - self.base_offset)

    def position_at(self, position: int) -> int:
        """Return the last position of an entry that is not behind ``position``, or the first."""
        return self._last(1, position)

    def _last(self, field: int, value: int) -> int:
        """Return the position of the last entry whose field is not above a value."""
        data, unpack, size = self.data, self.entry.unpack_from, self.entry.size
        count = bisect_right(range(len(self)), value, key=lambda n: unpack(data, n * size)[field])
        if count == 0:
            return self.first_position
        position: int = unpack(data, (count - 1) * size)[1]
        return position

    def check_order(self, position_min: int, where: str) -> None:
        """Check that entries rise, in offset and in position.

        Raises:
            CorruptError: no correct writer made them.
        """
        last_offset, last_position = -1, position_min - 1
        for number, (offset, position) in enumerate(self.entry.iter_unpack(self.data)):
            if offset <= last_offset or position <= last_position:
                one, other = self.base_offset + offset, self.base_offset + last_offset
                what = f"offset {one} -> position {position} behind {other} -> {last_position}"
                at = self.entries_at + number * self.entry.size
                raise CorruptError(what, at=at, where=where)
            last_offset, last_position = offset, position


Told = tuple[int, Damage]
"""A damage, and the number of the finding behind which it stands."""


class Check(Protocol):
    """Holds something against the batches that come by."""

    def saw(self, found: Sequence[Found]) -> Sequence[Told]:
        """Take note of what a walk found; tell what contradicts it."""
        ...


class IndexCheck:
    """The entries of one index, in order, against the batches of one run, in order.

    Entries that point into bytes that were skipped cannot be judged and are passed over.
    """

    def __init__(
        self,
        where: str,
        entries: Iterable[BatchEntry],
        agrees: Callable[[BatchHeader, int], bool],
    ) -> None:
        self._where = where
        self._entries = iter(entries)
        self._agrees = agrees
        self._entry = next(self._entries, None)
        self._skipped = False
        self._last: BatchEntry | None = None
        self._seen: BatchHeader | None = None

    def saw(self, found: Sequence[Found]) -> list[Told]:
        """Take note of batches; tell of an entry that contradicts one."""
        told: list[Told] = []
        for number, one in enumerate(found):
            if isinstance(one, Damage):
                self._skipped = True
                continue
            self._seen = one.header
            while self._skipped and self._entry is not None and self._entry.position < one.position:
                self._entry = next(self._entries, None)
            self._skipped = False
            if self._entry is not None and self._entry.position <= one.position:
                damage = self._judge(self._entry, one)
                if damage is not None:
                    told.append((number, damage))
        return told

    def _judge(self, entry: BatchEntry, batch: Block) -> Damage | None:
        """Hold an entry against the first batch that does not begin before it."""
        header = batch.header
        assert header is not None
        if entry.position < batch.position:
            return self._wrong(entry, "no batch begins there")
        if not self._agrees(header, entry.offset):
            return self._wrong(entry, f"that batch begins at offset {header.base_offset}")
        if self._last is not None and self._last.offset >= header.base_offset:
            return self._wrong(self._last, f"position {batch.position} still holds older offsets")
        self._last, self._entry = entry, next(self._entries, None)
        return None

    def end(self, *, active: bool = False) -> Iterator[Damage]:
        """Yield a Damage when an entry leads behind the last batch.

        With ``active`` it may, for batches that are not seen yet; but not for offsets that are.
        """
        if self._skipped:
            return
        next_offset = 0 if self._seen is None else self._seen.next_offset
        if self._entry is not None:
            if not active:
                yield self._wrong(self._entry, "the batches end before it")
            elif self._entry.offset < next_offset:
                yield self._wrong(self._entry, f"offset {next_offset} is still to come")
        elif not active and self._last is not None and self._last.offset >= next_offset:
            yield self._wrong(self._last, f"the batches end at offset {next_offset}")

    def _wrong(self, entry: BatchEntry, why: str) -> Damage:
        self._entries, self._entry, self._last = iter(()), None, None
        error = CorruptError(
            f"offset {entry.offset} -> position {entry.position}: {why}",
            at=entry.at,
            where=self._where,
        )
        return Damage(error=error, position=entry.at)


def follow(found: Sequence[Found], checks: Sequence[Check]) -> Sequence[Found]:
    """Return what a walk found, and behind each finding what the checks make of it."""
    told = [one for check in checks for one in check.saw(found)]
    if not told:
        return found
    return [one for _, one in sorted([*enumerate(found), *told], key=itemgetter(0))]
