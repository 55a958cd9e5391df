"""Control records: what brokers write into a log among the data.

    key    => version i16, type i16
    value  => by type
      0 ABORT, 1 COMMIT   version i16, coordinator epoch i32
      2 LEADER_CHANGE     version i16, leader i32, voters, granting voters; compact arrays of
                          voter i32, from version 1 on with a directory id of 16 bytes; tags

Of the types that only a controller's log holds (snapshot header and footer, KRaft version and
voters) the name is shown and the value is not looked at.
"""

import struct
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from lakelog.errors import CorruptError
from lakelog.model import Record
from lakelog_kafka_tools.java import id_text
from lakelog_kafka_tools.schemas import decode, schema

__all__ = ["Control", "Voter", "read_control"]

_NAMES = {
    0: "ABORT",
    1: "COMMIT",
    2: "LEADER_CHANGE",
    3: "SNAPSHOT_HEADER",
    4: "SNAPSHOT_FOOTER",
    5: "KRAFT_VERSION",
    6: "KRAFT_VOTERS",
}
_KEY = struct.Struct(">hh")
_MARKER = struct.Struct(">hi")
_VOTER = "id:i32 directory_id:uuid@1"
_LEADER_CHANGE = f"version:i16 leader:i32 voters:[{_VOTER}] granting:[{_VOTER}]"


class Voter(NamedTuple):
    """A voter of a quorum."""

    id: int
    directory_id: str | None


class Control(NamedTuple):
    """A control record; what its type does not have is None."""

    type: str
    type_id: int
    version: int = 0
    coordinator_epoch: int | None = None
    leader: int | None = None
    voters: tuple[Voter, ...] = ()
    granting: tuple[Voter, ...] = ()


def read_control(record: Record) -> Control:
    """Return what a control record says; its type alone where the value cannot be read."""
    key, value = record.key or b"", record.value or b""
    if len(key) < _KEY.size:
        return Control("UNKNOWN", -1)
    type_id: int = _KEY.unpack_from(key)[1]
    name = _NAMES.get(type_id, "UNKNOWN")
    try:
        if name in ("ABORT", "COMMIT"):
            version, epoch = _MARKER.unpack_from(value)
            return Control(name, type_id, version, coordinator_epoch=epoch)
        if name == "LEADER_CHANGE":
            version = int.from_bytes(value[:2], signed=True)
            found = decode(schema(_LEADER_CHANGE), value, 0, max(version, 0), True)
            voters, granting = (_voters(found[one], version) for one in ("voters", "granting"))
            return Control(
                name, type_id, version, leader=found["leader"], voters=voters, granting=granting
            )
    except (struct.error, CorruptError):
        pass
    return Control(name, type_id)


def _voters(rows: Iterable[Mapping[str, Any]], version: int) -> tuple[Voter, ...]:
    return tuple(
        Voter(row["id"], id_text(row["directory_id"]) if version > 0 else None) for row in rows
    )
