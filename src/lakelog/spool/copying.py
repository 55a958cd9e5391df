"""A copy of a spool, for a backup, and back from one, up to an offset; and a look at every byte.

A copy holds the whole records of now, and is durable when this returns; the writer goes on. It is a
spool of its own, with an id of its own from its first use on: what the original has under way, the
copy does not. What was confirmed is confirmed in the copy, too.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from lakelog.errors import InvalidInputError
from lakelog.formats.rustlog import CHECKPOINT_NAME
from lakelog.spool.cells import (
    RecoveryPoint,
    SpoolId,
    read_recovery,
    read_shipped,
    read_spool_id,
    write_recovery,
    write_shipped,
    write_spool_id,
)
from lakelog.spool.disk import Disk, named_folder
from lakelog.spool.reading import RAW_END, SpoolReader
from lakelog.spool.recovery import (
    CHECKPOINT_BYTES_MAX,
    INDEX,
    LOG,
    file_name,
    list_segments,
    scan,
)
from lakelog.spool.segments import position_of

__all__ = ["Verified", "copy_spool", "verify"]


class Verified(NamedTuple):
    """What a look at a segment has shown."""

    topic: str
    partition: int
    base_offset: int
    records: int
    unverifiable: int
    """Records of other writers: nothing tells whether they are right."""
    bytes: int
    damage: str
    """What is wrong; empty: nothing is."""


def copy_spool(source: Disk, to: Disk, until: Mapping[tuple[str, int], int] | None = None) -> int:
    """Copy a spool; of the partitions in ``until``, only what is before that offset.

    Returns how many partitions it has.

    Raises:
        InvalidInputError: the target holds something.
    """
    to.make("")
    if to.files("") or to.folders(""):
        raise InvalidInputError(f"{to.root} is not empty: copy a spool into a new folder")
    spool, limits = read_spool_id(source), dict(until or {})
    partitions = source.partitions()
    for name in partitions:
        _copy_partition(source, to, name, limits.get(name, RAW_END))
    shipped = {
        name: replace(one, end=min(one.end, limits.get(name, RAW_END)), pending=None)
        for name, one in read_shipped(source).items()
    }
    write_shipped(to, shipped)
    # Without an id: whoever opens it to write draws one.
    write_spool_id(to, SpoolId(bytes(16), spool is None or spool.is_adopted))
    to.system.close(to.lock(".lock", "it was opened before it was whole"))
    return len(partitions)


def _copy_partition(source: Disk, to: Disk, name: tuple[str, int], limit: int) -> None:
    folder = named_folder(*name)
    to.make(folder)
    last, end, raw_end = 0, 0, 0
    for segment in SpoolReader(source).segments(*name):
        if segment.base_offset >= limit and segment.base_offset > last:
            break
        log = segment.log
        if limit < RAW_END:
            log = log[: position_of(log, segment.entries, limit)]
        to.replace(folder, file_name(segment.base_offset), bytes(log), durable=False)
        last, end = segment.base_offset, len(log)
    point = read_recovery(source, folder)
    raw_end = point.raw_end if point is not None else 0
    if point is not None:
        write_recovery(to, folder, RecoveryPoint(base_offset=last, position=end, raw_end=raw_end))
    checkpoint = source.read(folder, CHECKPOINT_NAME, CHECKPOINT_BYTES_MAX)
    if checkpoint is not None:
        to.replace(folder, CHECKPOINT_NAME, checkpoint)
    to.sync_folder(folder)


def verify(disk: Disk) -> Iterator[Verified]:
    """Read every record of every segment, and hold every index against its log."""
    reader = SpoolReader(disk)
    for topic, partition in disk.partitions():
        folder = named_folder(topic, partition)
        raw_end = reader.raw_end(folder)
        segments = list_segments(disk, folder)
        for number, segment in enumerate(segments):
            is_last = number + 1 == len(segments)
            view = disk.view(folder, file_name(segment.base_offset), ahead=True)
            found = scan(view, base_offset=segment.base_offset, raw_end=raw_end)
            damage = ""
            if not found.is_whole:
                what = "a torn end, which the next writer cuts off" if is_last else "damage"
                damage = f"{LOG} at byte {found.end}: {what}, {len(view) - found.end} bytes"
            elif not is_last:
                index = disk.read(folder, file_name(segment.base_offset, INDEX), 1 << 26)
                if index is not None and index != bytes(found.index):
                    damage = f"{INDEX} is not that of the log: it is built again when it is opened"
            yield Verified(
                topic, partition, segment.base_offset, found.count, found.raw, len(view), damage
            )
