"""Room in a folder that may have so many bytes and no more: what is deleted for it."""

import logging
from collections.abc import Callable, Iterable, Mapping

from lakelog.spool.cells import Shipped
from lakelog.spool.disk import Disk, named_folder
from lakelog.spool.partition import PartitionLog
from lakelog.spool.retention import Deleted, delete_oldest, protected_from
from lakelog.spool.segments import last_time_us

__all__ = ["bytes_used", "delete_for_room"]

_log = logging.getLogger("lakelog.spool")


def bytes_used(disk: Disk) -> int:
    """Return the bytes of all files of all partitions."""
    folders = [named_folder(*name) for name in disk.partitions()]
    return sum(sum(disk.files(folder).values()) for folder in folders)


def delete_for_room(
    disk: Disk,
    logs: Iterable[PartitionLog],
    shipped: Mapping[tuple[str, int], Shipped],
    *,
    drops: bool,
    clock_us: Callable[[], int],
) -> Deleted | None:
    """Delete the oldest segment of all that may go; None if there is none.

    What was shipped goes first, whatever its age; if ``drops``, what was not goes then.
    """
    all_logs = [one for one in logs if one.sealed]
    for keep_unshipped in (True, False) if drops else (True,):
        may_go = [
            (last_time_us(disk, one.folder, one.sealed[0]), one.name, one)
            for one in all_logs
            if one.end_of(0)
            <= protected_from(one, shipped.get(one.name, Shipped()), keep_unshipped=keep_unshipped)
        ]
        if may_go:
            _, name, oldest = min(may_go)
            now_us = clock_us()
            deleted = delete_oldest(
                disk, oldest, 1, shipped.get(name, Shipped()), now_us=now_us, horizon_ms=0
            )
            if deleted.unshipped:
                _log.warning(
                    "%s-%s: %s records were dropped before they were shipped: the spool is full",
                    *name, deleted.unshipped,
                )  # fmt: skip
            return deleted
    return None
