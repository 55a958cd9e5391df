"""Files of a simulated disk, sector by sector: what an fsync writes, and what a power cut leaves.

A file is what processes see, what is on the disk, and which sectors differ because somebody wrote
there since. An fsync writes those sectors and the length, and no others: bytes that an earlier one
has lost are not written by the next. At a power cut each of these sectors is on the disk or not, by
itself and in no order, and the length is the old one, the new one, or one in between; where the
disk never had anything it has zeros.
"""

from random import Random  # noqa: TID251 (seeded)

__all__ = ["SECTOR_BYTES", "sectors_of", "synced", "torn"]

SECTOR_BYTES = 64
"""Disks write 512 bytes at once; records here are short, and are to be torn."""


def sectors_of(start: int, end: int) -> range:
    """Return the sectors that hold bytes ``[start, end)``."""
    return range(start // SECTOR_BYTES, -(-end // SECTOR_BYTES))


def synced(body: bytearray, kept: bytes, sectors: set[int]) -> bytes:
    """Return what is on the disk when these sectors of a file, and its length, were written."""
    return _written(body, kept, sectors, len(body))


def torn(random: Random, body: bytearray, kept: bytes, sectors: set[int]) -> bytes:
    """Return what is on the disk when some of it was."""
    some = random.choice((0.0, 0.5, 0.9, 1.0))
    chosen = {sector for sector in sorted(sectors) if random.random() < some}
    shorter, longer = sorted((len(body), len(kept)))
    size = random.choice((len(kept), len(body), random.randint(shorter, longer)))
    return _written(body, kept, chosen, size)


def _written(body: bytearray, kept: bytes, sectors: set[int], size: int) -> bytes:
    after = bytearray(kept[:size].ljust(size, b"\0"))
    for sector in sectors:
        start = sector * SECTOR_BYTES
        new = body[start : min(start + SECTOR_BYTES, size)]
        after[start : start + len(new)] = new
    return bytes(after)
