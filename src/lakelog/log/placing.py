"""Batches as they leave the journal: checked, each with its offset and its leader epoch.

    place_batches   in bytes of their own, for whoever writes them elsewhere
    Pieces          for readers: sixteen bytes in front of the rest of each batch, which is a view
                    of what was fetched. Readers of the same bytes share them while they are sent

A view holds all of what it is a view of. So where little of it is wanted that is copied, and what
somebody holds is at most twice what he was given.
"""

from collections.abc import Iterator
from typing import NamedTuple

from crc32c import crc32c

from lakelog.errors import CorruptError
from lakelog.formats import Bytes
from lakelog.records import CRC_START, START_BYTES, decode_header, placed_start, rebase

__all__ = ["Pieces", "place_batches", "share"]

HELD_MAX = 2
"""What may be held for each byte that is shown."""

VIEW_BYTES_MIN = 4 << 10
"""A smaller batch is copied: two more pieces to send would cost more."""


class _Placed(NamedTuple):
    """A batch, and where it belongs."""

    base_offset: int
    next_offset: int
    body: memoryview
    """As it is in the journal."""


def _placed(body: Bytes, base_offset: int, *, where: str) -> Iterator[_Placed]:
    """Yield the batches of a run, the first of which is at ``base_offset``.

    Raises:
        CorruptError: they are not a run of good batches.
    """
    view = memoryview(body)
    at = 0
    while at < len(view):
        header = decode_header(view, at, where=where)
        batch = view[at : at + header.size]
        if len(batch) < header.size or crc32c(batch[CRC_START:]) != header.crc:
            raise CorruptError("a batch does not match its CRC", at=at, where=where)
        next_offset = base_offset + header.last_offset_delta + 1
        yield _Placed(base_offset, next_offset, batch)
        base_offset = next_offset
        at += header.size


def place_batches(body: Bytes, base_offset: int, epoch: int, *, where: str) -> bytearray:
    """Return batches as they leave the journal: checked, with their offsets and leader epoch.

    Raises:
        CorruptError: they are not a run of good batches.
    """
    copy = bytearray(body)
    for one in _placed(copy, base_offset, where=where):
        rebase(one.body, base_offset=one.base_offset, leader_epoch=epoch)
    return copy


def share(data: Bytes, start: int, end: int) -> Bytes:
    """Return some of what was fetched: a view, or a copy if that would hold much more."""
    view = memoryview(data)[start:end]
    return view if len(view) * HELD_MAX >= len(data) else bytes(view)


class Pieces:
    """The batches from the one that holds an offset on: one, or more up to so many bytes."""

    def __init__(self, offset: int, size_bytes_max: int) -> None:
        self._offset, self._most = offset, size_bytes_max
        self.base_offset = self.next_offset = offset
        self.is_full = False
        self.size_bytes = 0
        self.pieces: list[Bytes] = []

    def add(self, body: Bytes, base_offset: int, epoch: int, *, where: str) -> None:
        """Take what is wanted of a run of batches.

        Raises:
            CorruptError: they are not a run of good batches.
        """
        mine: list[Bytes] = []
        size = 0
        for one in _placed(body, base_offset, where=where):
            more = len(one.body)
            if one.next_offset <= self._offset:
                continue
            if self.size_bytes + size and self.size_bytes + size + more > self._most:
                self.is_full = True
                break
            if not self.size_bytes + size:
                self.base_offset = one.base_offset
            self.next_offset = one.next_offset
            start = placed_start(one.base_offset, more, epoch)
            if more < VIEW_BYTES_MIN:
                if not mine or type(mine[-1]) is not bytearray:
                    mine.append(bytearray())
                mine[-1] += start  # type: ignore[operator]
                mine[-1] += one.body[START_BYTES:]  # type: ignore[operator]
            else:
                mine += (start, one.body[START_BYTES:])
            size += more
        if size * HELD_MAX < len(body):
            mine = [b"".join(mine)] if mine else []
        self.pieces += mine
        self.size_bytes += size
