"""What a group has committed, as Kafka writes it into ``__consumer_offsets``.

    key    => version i16 = 1, group string, topic string, partition i32
    value  => version i16 = 3, offset i64, leader epoch i32, metadata string, commit time i64

    key    => version i16 = 2, group string
    value  => version i16 = 3, protocol type string, generation i32, protocol string?, leader
              string?, since i64, members [id string, instance string?, client string, host string,
              rebalance i32, session i32, subscription bytes, assignment bytes]

Strings have a length of 16 bits, bytes and arrays one of 32; ``?``: -1 says that there is none. A
group is in the partition that the hash of its name, Java's, leads to.
"""

import struct

from lakelog.groups import Committed, Roster

__all__ = ["group_key", "group_value", "offset_key", "offset_value", "partition_of_group"]

_I16, _I32, _I64 = struct.Struct(">h"), struct.Struct(">i"), struct.Struct(">q")
_VALUE = struct.Struct(">hqi")
_OFFSET_KEY, _GROUP_KEY, _VERSION = 1, 2, 3
STRING_BYTES_MAX = (1 << 15) - 1


def offset_key(group: str, topic: str, partition: int) -> bytes:
    """Return under what a commit stands."""
    return _I16.pack(_OFFSET_KEY) + _string(group) + _string(topic) + _I32.pack(partition)


def offset_value(row: Committed) -> bytes:
    """Return a commit."""
    start = _VALUE.pack(_VERSION, row.offset, row.leader_epoch)
    return start + _string(row.metadata) + _I64.pack(row.commit_ms)


def group_key(group: str) -> bytes:
    """Return under what a group stands."""
    return _I16.pack(_GROUP_KEY) + _string(group)


def group_value(roster: Roster) -> bytes:
    """Return a generation of a group."""
    out = [
        _I16.pack(_VERSION),
        _string(roster.protocol_type or ""),
        _I32.pack(roster.generation),
        _string(roster.protocol),
        _string(roster.leader),
        _I64.pack(roster.since_ms),
        _I32.pack(len(roster.members)),
    ]
    for one in roster.members:
        out += [
            _string(one.id),
            _string(one.instance_id),
            _string(one.client_id),
            _string(one.client_host),
            _I32.pack(one.rebalance_timeout_ms),
            _I32.pack(one.session_timeout_ms),
            _bytes(one.metadata),
            _bytes(one.assignment),
        ]
    return b"".join(out)


def partition_of_group(group: str, partitions: int) -> int:
    """Return where Kafka keeps a group: by the hash of a string of Java's."""
    data = group.encode("utf-16-be", errors="surrogatepass")
    hash_ = 0
    for (unit,) in struct.iter_unpack(">H", data):
        hash_ = (31 * hash_ + unit) & 0xFFFFFFFF
    return (hash_ & 0x7FFFFFFF) % partitions


def _string(text: str | None) -> bytes:
    if text is None:
        return _I16.pack(-1)
    data = text.encode(errors="replace")[:STRING_BYTES_MAX]
    return _I16.pack(len(data)) + data


def _bytes(data: bytes) -> bytes:
    return _I32.pack(len(data)) + data
