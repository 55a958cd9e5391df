"""The batches of a partition, as they are compared: where each is, and by its CRC which it is."""

from collections.abc import Iterable
from typing import NamedTuple

from lakelog.records import Frame

__all__ = ["Entry", "entries_of"]


class Entry(NamedTuple):
    """A batch of the log."""

    base_offset: int
    next_offset: int
    crc: int
    epoch: int


def entries_of(found: Iterable[Frame]) -> list[Entry]:
    """Return batches as entries of a log."""
    return [
        Entry(header.base_offset, header.next_offset, header.crc, header.leader_epoch)
        for _, header in found
    ]
