"""What there is in a spool, as anybody can see from its folder."""

from collections.abc import Iterator
from typing import NamedTuple

from lakelog.spool.cells import Shipped, read_shipped
from lakelog.spool.disk import Disk, named_folder
from lakelog.spool.reading import SpoolReader
from lakelog.spool.recovery import list_segments

__all__ = ["PartitionStats", "stats_of"]


class PartitionStats(NamedTuple):
    """One partition."""

    topic: str
    partition: int
    start: int
    end: int
    segments: int
    bytes: int
    shipped: int
    """Everything below is shipped and confirmed."""
    pending: int
    """Offsets that are on their way."""


def stats_of(disk: Disk) -> Iterator[PartitionStats]:
    """Yield what is in each partition."""
    shipped, reader = read_shipped(disk), SpoolReader(disk)
    for name in disk.partitions():
        segments = list_segments(disk, named_folder(*name))
        start, end = reader.bounds(*name)
        of = shipped.get(name, Shipped())
        pending = of.pending.end - of.pending.start if of.pending is not None else 0
        size = sum(one.size + one.index_bytes for one in segments)
        yield PartitionStats(*name, start, end, len(segments), size, of.end, pending)
