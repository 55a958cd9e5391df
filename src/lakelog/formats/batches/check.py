"""Holding a sparse index against the batches it speaks of, while they come by.

An index is advisory: it can be rebuilt, and records are read without it. But one that lies makes
a reader miss records, so a walk checks each entry against the batch it points to, and reports the
first that cannot be true.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from lakelog.errors import CorruptError
from lakelog.formats.contract import Block, Damage, Range, Walk
from lakelog.records import BatchHeader

__all__ = ["IndexCheck", "IndexEntry", "follow"]


class IndexEntry(NamedTuple):
    """Records from ``offset`` on stand at ``position`` or behind it."""

    at: int
    """Where in the index file the entry stands."""

    offset: int
    position: int


class IndexCheck:
    """The entries of one index, in order, against the batches of one run, in order.

    Entries that point into bytes that were skipped cannot be judged and are passed over.
    """

    def __init__(
        self,
        where: str,
        entries: Iterable[IndexEntry],
        agrees: Callable[[BatchHeader, int], bool],
    ) -> None:
        self._where = where
        self._entries = iter(entries)
        self._agrees = agrees
        self._entry = next(self._entries, None)
        self._skipped = False
        self._last: IndexEntry | None = None
        self._next_offset = 0

    def saw(self, found: Block | Damage) -> Iterator[Damage]:
        """Take note of a batch; yield a Damage when an entry contradicts it."""
        if isinstance(found, Damage):
            self._skipped = True
            return
        assert found.header is not None
        self._next_offset = found.header.next_offset
        while self._skipped and self._entry is not None and self._entry.position < found.position:
            self._entry = next(self._entries, None)
        self._skipped = False
        entry = self._entry
        if entry is None or entry.position > found.position:
            return
        if entry.position < found.position:
            yield self._lie(entry, "no batch begins there")
        elif not self._agrees(found.header, entry.offset):
            yield self._lie(entry, f"that batch begins at offset {found.header.base_offset}")
        elif self._last is not None and self._last.offset >= found.header.base_offset:
            yield self._lie(self._last, f"position {found.position} still holds older offsets")
        else:
            self._last, self._entry = entry, next(self._entries, None)

    def end(self, *, active: bool = False) -> Iterator[Damage]:
        """Yield a Damage when an entry leads behind the last batch.

        With ``active`` it may, for batches that are not seen yet; but not for offsets that are.
        """
        if self._skipped:
            return
        if self._entry is not None:
            if not active:
                yield self._lie(self._entry, "the batches end before it")
            elif self._entry.offset < self._next_offset:
                yield self._lie(self._entry, f"offset {self._next_offset} is still to come")
        elif not active and self._last is not None and self._last.offset >= self._next_offset:
            yield self._lie(self._last, f"the batches end at offset {self._next_offset}")

    def _lie(self, entry: IndexEntry, why: str) -> Damage:
        self._entries, self._entry, self._last = iter(()), None, None
        what = f"offset {entry.offset} -> position {entry.position}: {why}"
        return Damage(error=CorruptError(what, at=entry.at, where=self._where))


def follow(walk: Walk, then: Callable[[Block | Damage], Iterable[Damage]]) -> Walk:
    """Pass on what ``walk`` yields, and behind each finding what ``then`` makes of it."""
    answer: bytes | None = None
    while True:
        try:
            item = walk.send(answer)
        except StopIteration:
            return
        answer = yield item
        if not isinstance(item, Range):
            yield from then(item)
