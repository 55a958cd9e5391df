"""Control records: what brokers write into a log among the data.

    key    => version i16, type i16
    value  => by type
      0 ABORT, 1 COMMIT   version i16, coordinator epoch i32
      2 LEADER_CHANGE     version i16, leader i32, voters, granting voters; compact arrays of
                          voter i32, from version 1 on with a directory id of 16 bytes; tags

Of the types that only a controller's log holds (snapshot header and footer, KRaft version and
voters) the name is told and the value is not looked at.
"""

import struct
from base64 import urlsafe_b64encode
from typing import NamedTuple

from lakelog.errors import CorruptError
from lakelog.model import Record

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
_LEADER = struct.Struct(">hi")
_VOTER = struct.Struct(">i")
_ID_BYTES = 16


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
            return _leader_change(value)
    except (struct.error, CorruptError):
        pass
    return Control(name, type_id)


def _leader_change(value: bytes) -> Control:
    version, leader = _LEADER.unpack_from(value)
    voters, at = _voters(value, _LEADER.size, version)
    granting, _ = _voters(value, at, version)
    return Control("LEADER_CHANGE", 2, version, leader=leader, voters=voters, granting=granting)


def _voters(value: bytes, at: int, version: int) -> tuple[tuple[Voter, ...], int]:
    count, at = _unsigned(value, at)
    voters: list[Voter] = []
    for _ in range(count - 1):
        (voter,) = _VOTER.unpack_from(value, at)
        at += _VOTER.size
        directory: str | None = None
        if version > 0:
            directory = urlsafe_b64encode(value[at : at + _ID_BYTES]).rstrip(b"=").decode()
            at += _ID_BYTES
        tags, at = _unsigned(value, at)
        if tags:
            raise CorruptError(f"{tags} tags of a voter", at=at)
        voters.append(Voter(voter, directory))
    return tuple(voters), at


def _unsigned(value: bytes, at: int) -> tuple[int, int]:
    """Return an unsigned varint, which the protocol has where records have zigzag ones."""
    number = shift = 0
    while at < len(value) and shift < 35:
        number |= (value[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if value[at - 1] < 0x80:
            return number, at
    raise CorruptError("a varint is cut short", at=at)
