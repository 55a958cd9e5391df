"""Checkpoints: what a chain of bundles amounts to, and a slice index of the last of them.

    {seq:020}.checkpoint => lead directory footer                        (frame.py draws the frame)
      directory
        head, 92 bytes
             0  lane          u32
             4  epoch         i32
             8  seq           u64   of the last bundle that is in it
            16  created       i64   greatest time of any bundle so far
            24  nonce         16 bytes  of bundle seq, which the next one names
            40  leader        16 bytes  the last writer that was no bulk write; zeros: none
            56  first         u64   first bundle of the slice index
            64  ends          u32   rows that follow
            68  producers     u32
            72  writes        u32
            76  marks         u32
            80  slice index   u32
            84  reserved      u64   0
        ends, 28 bytes each         topic (16 bytes), partition i32, end offset i64
        producers, 120 bytes each   topic, partition i32, producer id i64, epoch i16, kept u16,
                                    last seen i64, then 5 x (base sequence i32, last delta i32,
                                    base offset i64), oldest first, the rest zeros
        writes, 48 bytes each       query (16 bytes), number i64, write (16 bytes), seen i64
        marks, 28 bytes each        kind u32 (1 topic deleted, 3 write aborted), id, seen i64
        slice index, 92 bytes each  seq u64, a slice's 80 bytes, epoch i32, by (topic, partition,
                                    offset)

A checkpoint is a function of the chain, but for how far back its slice index goes. Whoever writes
it, a race for its key is harmless. Every table is sorted and has no row twice. So whoever plans a
read finds the rows of some partitions in a thousand indexes by bisecting, and makes no others.
Specification: docs/reference/formats/checkpoint.md
"""

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import ge
from typing import NamedTuple

from lakelog.errors import CorruptError, InvalidInputError, UnsupportedError
from lakelog.formats.contract import Bytes
from lakelog.formats.lanes.frame import FOOTER_BYTES, LEAD_BYTES, Frame
from lakelog.formats.lanes.rows import NO_ID, SLICE, EventKind, Slice, pack_rows

__all__ = [
    "CHECKPOINT_BYTES_MAX",
    "CHECKPOINT_SUFFIX",
    "KEPT_MAX",
    "Checkpoint",
    "End",
    "Kept",
    "Mark",
    "Producer",
    "Rolled",
    "Write",
    "decode_checkpoint",
    "encode_checkpoint",
]

CHECKPOINT_SUFFIX = ".checkpoint"
CHECKPOINT_BYTES_MAX = 1 << 30
"""Of the object."""
KEPT_MAX = 5
"""Batches of a producer that are recognised when they come again: what Kafka keeps."""

_FRAME = Frame(b"KAFC", b"CFAK", CHECKPOINT_SUFFIX)
_HEAD = struct.Struct(">IiQq16s16sQIIIIIQ")
_END = struct.Struct(">16siq")
_PRODUCER = struct.Struct(">16siqhHq" + "iiq" * KEPT_MAX)
_WRITE = struct.Struct(">16sq16sq")
_MARK = struct.Struct(">I16sq")
_ROLLED = struct.Struct(">Q" + SLICE.format.removeprefix(">") + "i")
_ROLLED_PLACE = struct.Struct(">8x16si")
_MARKS = (EventKind.TOPIC_DELETED, EventKind.WRITE_ABORTED)


class End(NamedTuple):
    """Where a partition ends."""

    topic: bytes
    partition: int
    offset: int


class Kept(NamedTuple):
    """A batch of a producer that is known."""

    base_sequence: int
    last_offset_delta: int
    base_offset: int

    @property
    def last_sequence(self) -> int:
        """Sequences wrap from 2^31 - 1 to 0."""
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF


class Producer(NamedTuple):
    """What one idempotent producer has stored in one partition."""

    topic: bytes
    partition: int
    producer_id: int
    epoch: int
    seen_ms: int
    kept: tuple[Kept, ...]


class Write(NamedTuple):
    """The last bulk write of a query that was committed."""

    query: bytes
    number: int
    write: bytes
    seen_ms: int


class Mark(NamedTuple):
    """Something that stays so: a topic that was deleted, a write that was aborted."""

    kind: EventKind
    id: bytes
    seen_ms: int


class Rolled(NamedTuple):
    """A slice, the bundle it is in, and the leader epoch of that."""

    seq: int
    slice: Slice
    epoch: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """What bundles 0 to ``seq`` of a lane amount to."""

    lane: int
    seq: int
    epoch: int
    created_ms: int
    nonce: bytes
    leader: bytes = NO_ID
    first: int
    ends: tuple[End, ...] = ()
    producers: tuple[Producer, ...] = ()
    writes: tuple[Write, ...] = ()
    marks: tuple[Mark, ...] = ()
    slice_index: tuple[Rolled, ...] = ()


def encode_checkpoint(checkpoint: Checkpoint) -> bytes:
    """Return the bytes of a checkpoint. Equal checkpoints give equal bytes.

    Raises:
        CorruptError: it contradicts itself.
        InvalidInputError: it would be larger than what is read.
    """
    counts = tuple(map(len, _tables(checkpoint)))
    size = _EMPTY_BYTES + sum(row.size * rows for row, rows in zip(_ROWS, counts, strict=True))
    if size > CHECKPOINT_BYTES_MAX:
        raise InvalidInputError(
            f"a checkpoint of {size} bytes: readers take at most {CHECKPOINT_BYTES_MAX}; give it "
            "a shorter slice index, or the namespace more lanes"
        )
    _check(checkpoint)
    head = (
        checkpoint.lane,
        checkpoint.epoch,
        checkpoint.seq,
        checkpoint.created_ms,
        checkpoint.nonce,
        checkpoint.leader,
        checkpoint.first,
        *counts,
        0,
    )
    rolled = ((seq, *slice_, epoch) for seq, slice_, epoch in checkpoint.slice_index)
    tables = (
        pack_rows(_HEAD, (head,), CHECKPOINT_SUFFIX),
        pack_rows(_END, checkpoint.ends, CHECKPOINT_SUFFIX),
        pack_rows(_PRODUCER, map(_flat, checkpoint.producers), CHECKPOINT_SUFFIX),
        pack_rows(_WRITE, checkpoint.writes, CHECKPOINT_SUFFIX),
        pack_rows(_MARK, checkpoint.marks, CHECKPOINT_SUFFIX),
        pack_rows(_ROLLED, rolled, CHECKPOINT_SUFFIX),
    )
    directory = b"".join(tables)
    return b"".join((_FRAME.lead, directory, _FRAME.footer(LEAD_BYTES, 0, directory)))


def decode_checkpoint(
    data: Bytes, topic_partitions: Sequence[tuple[bytes, int]] | None = None
) -> Checkpoint:
    """Return the checkpoint in ``data``.

    With ``topic_partitions``, in their order, it is its head and what its slice index has of them:
    the other tables are empty, and were not looked at.

    Raises:
        CorruptError: no correct writer made it.
        UnsupportedError: a later version made it, or it is over the limit.
    """
    if len(data) > CHECKPOINT_BYTES_MAX:
        raise UnsupportedError(
            f"a checkpoint of {len(data)} bytes is over the limit of {CHECKPOINT_BYTES_MAX}",
            at=0,
            where=CHECKPOINT_SUFFIX,
        )
    _FRAME.check_lead(data)
    position, directory, payload_crc = _FRAME.open(data, len(data))
    if position != LEAD_BYTES or payload_crc or len(directory) < _HEAD.size:
        raise _bad("something stands before its head, or less than a head")
    (
        lane, epoch, seq, created_ms, nonce, leader, first,
        ends, producers, writes, marks, slice_index, reserved,
    ) = _HEAD.unpack_from(directory)  # fmt: skip
    if reserved:
        raise UnsupportedError(
            f"reserved bytes hold {reserved:#x}; use a newer reader",
            at=LEAD_BYTES + 84,
            where=CHECKPOINT_SUFFIX,
        )
    at = [_HEAD.size]
    for row, count in zip(_ROWS, (ends, producers, writes, marks, slice_index), strict=True):
        at.append(at[-1] + row.size * count)
    if at[-1] != len(directory):
        raise _bad(f"tables of {at[-1]} bytes in a directory of {len(directory)}")
    tables: list[Bytes] = [directory[start:end] for start, end in pairwise(at)]
    if topic_partitions is not None:
        tables = [b"", b"", b"", b"", b"".join(_runs(directory[at[-2] :], topic_partitions))]
    ends_, producers_, writes_, marks_, roll_ = (
        row.iter_unpack(table) for row, table in zip(_ROWS, tables, strict=True)
    )
    make = tuple.__new__
    checkpoint = Checkpoint(
        lane=lane,
        seq=seq,
        epoch=epoch,
        created_ms=created_ms,
        nonce=nonce,
        leader=leader,
        first=first,
        ends=tuple([make(End, row) for row in ends_]),
        producers=tuple(map(_producer, producers_)),
        writes=tuple([make(Write, row) for row in writes_]),
        marks=tuple(map(_mark, marks_)),
        slice_index=tuple(
            [make(Rolled, (row[0], make(Slice, row[1:-1]), row[-1])) for row in roll_]
        ),
    )
    _check(checkpoint)
    return checkpoint


def _runs(
    slice_index: memoryview, topic_partitions: Sequence[tuple[bytes, int]]
) -> Iterator[memoryview]:
    """Yield the rows of some partitions. Either side is passed over by bisecting the other."""
    size, rows = _ROLLED.size, range(len(slice_index) // _ROLLED.size)

    def topic_partition(row: int) -> tuple[bytes, int]:
        return _ROLLED_PLACE.unpack_from(slice_index, row * size)

    at = number = 0
    while number < len(topic_partitions):
        at = bisect_left(rows, topic_partitions[number], at, key=topic_partition)
        if at == len(rows):
            return
        found = topic_partition(at)
        if found == topic_partitions[number]:
            start, at = at, bisect_right(rows, found, at, key=topic_partition)
            yield slice_index[start * size : at * size]
        number = bisect_left(topic_partitions, found, number + 1)


_ROWS = (_END, _PRODUCER, _WRITE, _MARK, _ROLLED)
_EMPTY_BYTES = LEAD_BYTES + _HEAD.size + FOOTER_BYTES


def _tables(checkpoint: Checkpoint) -> tuple[tuple[object, ...], ...]:
    """Return what the rows of a checkpoint are made of, in the order of ``_ROWS``."""
    return (
        checkpoint.ends,
        checkpoint.producers,
        checkpoint.writes,
        checkpoint.marks,
        checkpoint.slice_index,
    )


def _flat(producer: Producer) -> tuple[object, ...]:
    kept = [field for batch in producer.kept for field in batch]
    rest = (0,) * (3 * KEPT_MAX - len(kept))
    return (*producer[:4], len(producer.kept), producer.seen_ms, *kept, *rest)


def _producer(row: tuple[object, ...]) -> Producer:
    topic, partition, producer_id, epoch, count, seen_ms, *kept = row
    assert isinstance(count, int)
    if not 1 <= count <= KEPT_MAX or any(kept[3 * count :]):
        raise _bad(f"a producer with {count} batches")
    batches = tuple([Kept(*kept[at : at + 3]) for at in range(0, 3 * count, 3)])  # type: ignore[arg-type]
    return Producer(topic, partition, producer_id, epoch, seen_ms, batches)  # type: ignore[arg-type]


def _mark(row: tuple[int, bytes, int]) -> Mark:
    kind, id_, seen_ms = row
    if kind not in _MARKS:
        raise _bad(f"a mark of kind {kind}")
    return Mark(EventKind(kind), id_, seen_ms)


def _check(checkpoint: Checkpoint) -> None:
    flaw = _flaw(checkpoint)
    if flaw:
        raise _bad(f"checkpoint {checkpoint.seq}: {flaw}")


def _flaw(checkpoint: Checkpoint) -> str:
    if checkpoint.nonce == NO_ID or checkpoint.first > checkpoint.seq:
        return f"no nonce, or a slice index from {checkpoint.first}"
    if checkpoint.epoch < 0 or checkpoint.created_ms < 0:
        return f"epoch {checkpoint.epoch}, time {checkpoint.created_ms}"
    tables: tuple[tuple[tuple[object, ...], ...], ...] = (
        tuple([row[:2] for row in checkpoint.ends]),
        tuple([row[:3] for row in checkpoint.producers]),
        tuple([row[:1] for row in checkpoint.writes]),
        tuple([row[:2] for row in checkpoint.marks]),
        tuple([(row[0], row[1], row[3]) for _, row, _ in checkpoint.slice_index]),
    )
    for table in tables:
        if any(map(ge, table, table[1:])):
            return "a table that is not sorted, or holds a row twice"
    if any(end.offset < 0 or end.partition < 0 for end in checkpoint.ends):
        return "an end below 0"
    if not all(1 <= len(producer.kept) <= KEPT_MAX for producer in checkpoint.producers):
        return f"a producer without batches, or with more than {KEPT_MAX}"
    if any(mark.kind not in _MARKS for mark in checkpoint.marks):
        return "a mark of something that does not stay so"
    seqs = [row[0] for row in checkpoint.slice_index]
    if seqs and not checkpoint.first <= min(seqs) <= max(seqs) <= checkpoint.seq:
        return "a slice index with bundles that are not in it"
    return ""


def _bad(what: str) -> CorruptError:
    return CorruptError(what, at=LEAD_BYTES, where=CHECKPOINT_SUFFIX)
