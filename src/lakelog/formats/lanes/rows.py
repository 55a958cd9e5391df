"""The rows of bundles and checkpoints. All have a fixed width, so that a table is one unpacking.

    slice, 80 bytes      neighbouring offsets of one partition in one bundle
         0  topic           16 bytes  id of the topic
        16  partition       i32
        20  batches         u32   rows of the table of batches that are this slice's
        24  base offset     i64
        32  offsets         i64   how many
        40  position        i64   of the bytes, in the bundle or in the staged object
        48  length          i64
        56  min timestamp   i64   least base timestamp of its batches
        64  max timestamp   i64   greatest max timestamp of its batches
        72  write           i32   row of the event that commits the staged object; -1: in the bundle
        76  part            i32   number of the staged object; -1: in the bundle

    batch, 28 bytes      what a fold and a reader want to know of a batch without reading it
         0  producer id     i64   -1 without idempotence
         8  crc             u32   the batch's own
        12  length          u32   bytes of the batch
        16  last delta      i32   offsets of the batch, less one
        20  base sequence   i32
        24  producer epoch  i16
        26  attributes      u16

    event, 44 bytes      something else that happened in the lane
         0  kind            u32   1 topic deleted, 2 write committed, 3 write aborted,
                                  4 partition begins
         4  id              16 bytes  of the topic, or of the write
        20  query           16 bytes  whose write it is; the partition that begins; else zero
        36  number          i64   of the query's batch; where the partition begins; else zero

Integers are big-endian. Named tuples, because a reader makes thousands of them.
"""

import struct
from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import NamedTuple, TypeVar

from lakelog.errors import CorruptError

__all__ = [
    "BATCH",
    "EVENT",
    "ID_BYTES",
    "NO_ID",
    "SLICE",
    "BatchRow",
    "Event",
    "EventKind",
    "Slice",
    "pack_rows",
    "unpack_rows",
]

ID_BYTES = 16
NO_ID = bytes(ID_BYTES)

SLICE = struct.Struct(">16siIqqqqqqii")
BATCH = struct.Struct(">qIIiihH")
EVENT = struct.Struct(">I16s16sq")


class Slice(NamedTuple):
    """Offsets ``[base_offset, next_offset)`` of one partition, and where their batches are."""

    topic: bytes
    partition: int
    batches: int
    base_offset: int
    offsets: int
    position: int
    length: int
    min_timestamp: int
    max_timestamp: int
    write: int = -1
    part: int = -1

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.offsets

    @property
    def topic_partition(self) -> tuple[bytes, int]:
        """The partition it belongs to."""
        return self.topic, self.partition


class BatchRow(NamedTuple):
    """One batch of a slice."""

    producer_id: int
    crc: int
    length: int
    last_offset_delta: int
    base_sequence: int
    producer_epoch: int
    attributes: int


class EventKind(IntEnum):
    """What can happen in a lane, beside data."""

    TOPIC_DELETED = 1
    """No batch of this topic comes behind it."""
    WRITE_COMMITTED = 2
    """A bulk write whose staged objects are slices of this bundle."""
    WRITE_ABORTED = 3
    """A bulk write that never commits in this lane, unless it has before.

    Nothing writes it: an attempt is barred in the cell of its batch. It is read, and its number is
    taken, because the format has it.
    """
    PARTITION_BEGINS = 4
    """The first batch of a partition gets this offset: history has what lies before."""


class Event(NamedTuple):
    """One thing that happened."""

    kind: EventKind
    id: bytes
    query: bytes = NO_ID
    number: int = 0

    @classmethod
    def begins(cls, topic: bytes, partition: int, offset: int) -> "Event":
        """Return the event that lets a partition begin at an offset."""
        query = partition.to_bytes(ID_BYTES, "big")
        return cls(EventKind.PARTITION_BEGINS, topic, query, offset)

    @property
    def topic_partition(self) -> tuple[bytes, int]:
        """The partition that begins."""
        return self.id, int.from_bytes(self.query, "big")


R = TypeVar("R", bound=tuple[object, ...])


def pack_rows(row: struct.Struct, rows: Iterable[tuple[object, ...]], where: str) -> bytes:
    """Return the rows, one behind the other.

    Raises:
        CorruptError: a field does not fit its place.
    """
    pack, held = row.pack, list(rows)
    try:
        data = b"".join([pack(*one) for one in held])
    except struct.error as error:
        raise CorruptError(f"a field does not fit its place: {error}", at=0, where=where) from error
    # Bytes that are too many or too few are cut or filled up without a word.
    if list(row.iter_unpack(data)) != held:
        raise CorruptError(f"an id has not {ID_BYTES} bytes", at=0, where=where)
    return data


def unpack_rows(row: struct.Struct, kind: type[R], data: memoryview) -> Iterator[R]:
    """Return the rows in ``data``, which holds a whole number of them."""
    make = tuple.__new__
    return (make(kind, one) for one in row.iter_unpack(data))
