"""The small files of a spool: who it is, how far a partition is known to be good, what was shipped.

    .spool                               the id of the spool, and the number of this very file
    .shipped                             of each partition, what was shipped and what is under way
    topics/T/partitions/P/.recovery      up to where the active segment is on the disk

Each is JSON, replaced as a whole. A copy of a folder has another file ``.spool``, with another
number in the file system: so a spool knows that it was copied, and takes a new id.
"""

import json
from dataclasses import asdict, dataclass
from typing import NamedTuple

from lakelog.errors import CorruptError
from lakelog.formats import decode_fields, decoding, number
from lakelog.spool.disk import Disk

__all__ = [
    "RecoveryPoint",
    "Shipped",
    "ShippedRange",
    "SpoolId",
    "read_recovery",
    "read_shipped",
    "read_spool_id",
    "write_recovery",
    "write_shipped",
    "write_spool_id",
]

FORMAT = 1
CELL_BYTES_MAX = 16 << 20
"""Of a file: ``.shipped`` has a line for each partition."""

_SPOOL, _SHIPPED, _RECOVERY = ".spool", ".shipped", ".recovery"


class SpoolId(NamedTuple):
    """Who a spool is."""

    id: bytes
    """Empty: it is a copy, and has none of its own yet; then it is written as zeros."""
    is_adopted: bool
    """Whether the folder had logs of another writer when it became a spool."""


def read_spool_id(disk: Disk) -> SpoolId | None:
    """Return the id of a spool; None: the folder is no spool, or a copy of one.

    Raises:
        CorruptError, UnsupportedError: the file says something else.
    """
    data = disk.read("", _SPOOL, CELL_BYTES_MAX)
    if data is None:
        return None
    where = disk.path("", _SPOOL)
    with decoding("spool", where):
        fields = decode_fields(data, format_=FORMAT, where=where, known=("id", "file", "adopted"))
        id_, file = bytes.fromhex(fields["id"]), number(fields["file"])
        if len(id_) != 16:
            raise ValueError("an id has 16 bytes")
        adopted = bool(fields["adopted"])
    is_own = any(id_) and file == disk.number("", _SPOOL)
    return SpoolId(id_ if is_own else b"", adopted)


def write_spool_id(disk: Disk, spool: SpoolId) -> None:
    """Say who a spool is, in a file that says which file it is."""
    fields = {"format": FORMAT, "id": spool.id.hex(), "adopted": spool.is_adopted}
    aside = f"{_SPOOL}.new"
    disk.unlink("", aside)
    handle = disk.open("", aside, write=True, create=True)
    try:
        fields["file"] = disk.system.fstat(handle).st_ino
        disk.write(handle, json.dumps(fields).encode())
        disk.sync(handle, disk.path("", aside))
    finally:
        disk.system.close(handle)
    disk.rename("", aside, _SPOOL)
    disk.sync_folder("")


# ---------------------------------------------------------------------------- recovery points


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryPoint:
    """Up to where the active segment of a partition is on the disk, and where envelopes begin."""

    base_offset: int
    position: int
    raw_end: int = 0
    """Records below this offset may be raw."""


def read_recovery(disk: Disk, folder: str) -> RecoveryPoint | None:
    """Return the recovery point of a partition.

    Raises:
        CorruptError, UnsupportedError: the file says something else.
    """
    data = disk.read(folder, _RECOVERY, CELL_BYTES_MAX)
    if data is None:
        return None
    where = disk.path(folder, _RECOVERY)
    with decoding("recovery point", where):
        known = ("base_offset", "position", "raw_end")
        fields = decode_fields(data, format_=FORMAT, where=where, known=known)
        return RecoveryPoint(**{name: number(fields[name]) for name in known})


def write_recovery(disk: Disk, folder: str, point: RecoveryPoint) -> None:
    """Write a recovery point: what it says is on the disk already."""
    data = json.dumps({"format": FORMAT, **asdict(point)}).encode()
    disk.replace(folder, _RECOVERY, data)


# ---------------------------------------------------------------------------- shipping


class ShippedRange(NamedTuple):
    """Offsets ``[start, end)`` of a partition that are being shipped."""

    start: int
    end: int
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Shipped:
    """How far a partition was shipped."""

    end: int = 0
    """Everything below was, and that is confirmed."""
    pending: ShippedRange | None = None
    """What may have been, or not: it is shipped again exactly so."""


def read_shipped(disk: Disk) -> dict[tuple[str, int], Shipped]:
    """Return how far each partition was shipped.

    Raises:
        CorruptError, UnsupportedError: the file says something else.
    """
    data = disk.read("", _SHIPPED, CELL_BYTES_MAX)
    if data is None:
        return {}
    where = disk.path("", _SHIPPED)
    found: dict[tuple[str, int], Shipped] = {}
    with decoding("list of what was shipped", where):
        fields = decode_fields(data, format_=FORMAT, where=where, known=("partitions",))
        for topic, partition, end, pending in fields["partitions"]:
            range_ = None
            if pending is not None:
                start, stop, target = pending
                range_ = ShippedRange(number(start), number(stop), str(target))
            found[str(topic), number(partition)] = Shipped(end=number(end), pending=range_)
    return found


def write_shipped(disk: Disk, shipped: dict[tuple[str, int], Shipped]) -> None:
    """Write how far each partition was shipped."""
    rows = [
        [topic, partition, one.end, one.pending]
        for (topic, partition), one in sorted(shipped.items())
    ]
    data = json.dumps({"format": FORMAT, "partitions": rows}).encode()
    if len(data) > CELL_BYTES_MAX:
        raise CorruptError("more partitions than the list has room for", at=0, where=_SHIPPED)
    disk.replace("", _SHIPPED, data)
