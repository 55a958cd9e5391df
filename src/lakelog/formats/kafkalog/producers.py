"""What a Kafka broker remembers of its producers, so that it can tell a retry from a new batch.

    {next offset:020}.snapshot => version crc count entry*
      version                   i16   1
      crc                       u32   CRC-32C of everything behind it
      count                     i32   entries
      entry, 46 bytes
         0  producer id         i64
         8  epoch               i16
        10  last sequence       i32   of its last batch; -1 when that is not known
        14  last offset         i64   of its last batch; -1 likewise
        22  offset delta        i32   last offset of that batch less its base offset
        26  timestamp           i64   of that batch, or of the marker behind it
        34  coordinator epoch   i32   of the last transaction marker; -1 without one
        38  open since          i64   first offset of the open transaction; -1 without one

Integers are big-endian. A snapshot is named by the offset up to which it covers the log: the one
that has the name of a segment says how things stood before that segment began.

Kafka writes entries in the order of its hash table; any order is read.
Specification: docs/reference/formats/kafka-log-directory.md
"""

import struct
from dataclasses import dataclass

from crc32c import crc32c

from lakelog.errors import CorruptError, UnsupportedError
from lakelog.formats.contract import Bytes

__all__ = ["SNAPSHOT_SUFFIX", "ProducerState", "decode_snapshot"]

SNAPSHOT_SUFFIX = ".snapshot"
VERSION = 1

_HEAD = struct.Struct(">hI")
_COUNT = struct.Struct(">i")
_ENTRY = struct.Struct(">qhiqiqiq")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerState:
    """One producer, as the broker last saw it."""

    producer_id: int
    epoch: int
    last_sequence: int = -1
    last_offset: int = -1
    offset_delta: int = 0
    timestamp: int = -1
    coordinator_epoch: int = -1
    open_since: int = -1


def decode_snapshot(data: Bytes, *, next_offset: int) -> tuple[ProducerState, ...]:
    """Return the producers in the snapshot that is named ``next_offset``.

    Raises:
        UnsupportedError: another version.
        CorruptError: no Kafka wrote this.
    """
    if len(data) < _HEAD.size + _COUNT.size:
        raise CorruptError(f"{len(data)} bytes, a header has 10", at=0, where=SNAPSHOT_SUFFIX)
    version, crc = _HEAD.unpack_from(data)
    if version != VERSION:
        raise UnsupportedError(
            f"version {version}, this reader knows {VERSION}", at=0, where=SNAPSHOT_SUFFIX
        )
    body = memoryview(data)[_HEAD.size :]
    found = crc32c(body)
    if found != crc:
        raise CorruptError(
            f"CRC-32C is {found}, the snapshot says {crc}", at=2, where=SNAPSHOT_SUFFIX
        )
    (count,) = _COUNT.unpack_from(body)
    entries = body[_COUNT.size :]
    if count * _ENTRY.size != len(entries):
        raise CorruptError(f"{count} entries in {len(entries)} bytes", at=6, where=SNAPSHOT_SUFFIX)
    states = []
    for number, fields in enumerate(_ENTRY.iter_unpack(entries)):
        producer_id, epoch, sequence, offset, delta, timestamp, coordinator, since = fields
        if producer_id < 0 or not -1 <= offset < next_offset or since >= next_offset:
            what = f"producer {producer_id} at offset {offset}, open since {since}"
            at = _HEAD.size + _COUNT.size + number * _ENTRY.size
            raise CorruptError(what, at=at, where=SNAPSHOT_SUFFIX)
        states.append(
            ProducerState(
                producer_id=producer_id,
                epoch=epoch,
                last_sequence=sequence,
                last_offset=offset,
                offset_delta=delta,
                timestamp=timestamp,
                coordinator_epoch=coordinator,
                open_since=since,
            )
        )
    return tuple(states)
