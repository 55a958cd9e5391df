"""The spool: RustLog as a storage engine, a log on a local disk that is shipped when it can be.

    spool = lakelog.spool.open("/var/spool/events")
    spool.append("orders", b"...", key=b"7")          on the disk when it returns
    for shipment in lakelog.spool.ship("/var/spool/events", "s3://..."):
        ...                                           offsets that are in the log now, and once

opening    one writer for a folder, or many readers
writing    the writer: appends of many threads, sync policies
spool      the same with all that is due: sealing, retention, room
partition  one log of it: the active segment, syncing, sealing
encoding   records -> bytes
recovery   what of a partition is good after its writer has ended
reading    by offset, by time, as it grows, as Arrow; segments: where records are in one
retention  by time and bytes, and compaction; fullness: when the folder is full
shipping   what it holds becomes part of a log elsewhere, once; namespace, kafka: of which
copying    backups, and back from them; every byte of it verified
cells      its small files; disk: its folder, and the kernel; settings; counters, stats

Everything here is imported when it is used: it brings NumPy, Numba and Arrow.
"""

from lakelog.spool.copying import Verified, copy_spool, verify
from lakelog.spool.counters import print_metrics
from lakelog.spool.disk import Disk
from lakelog.spool.opening import (
    disk_of,
    open_reader,
    open_with,
    partition_stats,
)
from lakelog.spool.opening import open_spool as open
from lakelog.spool.opening import ship_spool as ship
from lakelog.spool.reading import SpoolReader, SpoolRecord
from lakelog.spool.settings import EVERY_WRITE, NEVER, SpoolSettings, Sync, WhenFull, parse_sync
from lakelog.spool.shipping import Shipment, Target
from lakelog.spool.shipping import ship as ship_to
from lakelog.spool.spool import Spool

__all__ = [
    "EVERY_WRITE",
    "NEVER",
    "Disk",
    "Shipment",
    "Spool",
    "SpoolReader",
    "SpoolRecord",
    "SpoolSettings",
    "Sync",
    "Target",
    "Verified",
    "WhenFull",
    "copy_spool",
    "disk_of",
    "open",
    "open_reader",
    "open_with",
    "parse_sync",
    "partition_stats",
    "print_metrics",
    "ship",
    "ship_to",
    "verify",
]
