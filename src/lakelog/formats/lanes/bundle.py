"""Bundles: what one flush of one lane stores, for any number of partitions.

    {seq:020}.bundle => lead payload directory footer                    (frame.py draws the frame)
      payload           slices, sorted by (topic, partition), each a run of record batches, magic 2,
                        as the producer sent them
      directory
        head, 100 bytes
             0  lane          u32
             4  flags         u32   1: a bulk write, which does not change the leader
             8  seq           u64
            16  created       i64   milliseconds since 1970; never less than the bundle's before
            24  checkpoint    i64   seq of the newest checkpoint its writer knew, -1: none
            32  epoch         i32   leader epoch of what it stores
            36  writer        16 bytes
            52  nonce         16 bytes  names the one attempt that made this object
            68  previous      16 bytes  nonce of bundle seq - 1; zeros for the first
            84  slices        u32   rows that follow
            88  batches       u32
            92  events        u32
            96  reserved      u32   0
        slices, batches, events                                          (rows.py draws the rows)

The base offset of a slice stands in the directory. A batch's own base offset and leader epoch lie
outside its CRC and are written when it leaves the journal; so a writer that has lost a race changes
the directory and not the payload.

What is stored is exactly what is described: slices tile the payload, and the batches of a slice
its bytes and its offsets. Specification: docs/reference/formats/bundle.md
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from crc32c import crc32c

from lakelog.errors import CorruptError, InvalidInputError, UnsupportedError
from lakelog.formats.contract import Bytes
from lakelog.formats.lanes.frame import FOOTER_BYTES, LEAD_BYTES, Frame, directory_start
from lakelog.formats.lanes.rows import (
    BATCH,
    EVENT,
    NO_ID,
    SLICE,
    BatchRow,
    Event,
    EventKind,
    Slice,
    pack_rows,
    unpack_rows,
)
from lakelog.records import OFFSET_MAX

__all__ = [
    "BUNDLE_BYTES_MAX",
    "BUNDLE_SUFFIX",
    "DIRECTORY_BYTES_MAX",
    "PAYLOAD_BYTES_MAX",
    "Bundle",
    "bundle_directory_start",
    "bundle_pieces",
    "decode_bundle",
    "decode_directory",
    "directory_bytes",
    "encode_bundle",
    "encode_directory",
]

BUNDLE_SUFFIX = ".bundle"
BULK = 1

DIRECTORY_BYTES_MAX = 64 << 20
"""Of the directory: so much is read and held by whoever follows the lane."""
PAYLOAD_BYTES_MAX = 192 << 20
"""Of the slices in a bundle: the largest batch, or a flush of many."""
BUNDLE_BYTES_MAX = LEAD_BYTES + PAYLOAD_BYTES_MAX + DIRECTORY_BYTES_MAX + FOOTER_BYTES
"""Of the object."""

_FRAME = Frame(b"KAFB", b"BFAK", BUNDLE_SUFFIX)
_HEAD = struct.Struct(">IIQqqi16s16s16sIIII")
_BATCH_BYTES_MIN = 61
_KINDS = frozenset(EventKind)
_PARTITION_MAX = 0x7FFFFFFF


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """A bundle without its payload."""

    lane: int
    seq: int
    created_ms: int
    checkpoint: int = -1
    epoch: int
    writer: bytes
    nonce: bytes
    previous: bytes = NO_ID
    bulk: bool = False
    slices: tuple[Slice, ...] = ()
    batches: tuple[BatchRow, ...] = ()
    """The batches of the first slice, of the second, and so on."""
    events: tuple[Event, ...] = ()


def bundle_directory_start(footer: Bytes, size: int) -> int:
    """Return where the directory of a bundle of ``size`` bytes begins; ``footer`` is its end.

    Raises:
        CorruptError: this is not the end of a bundle.
        UnsupportedError: a part of it is larger than any that is written.
    """
    position = directory_start(footer, size, magic=_FRAME.end, where=_FRAME.where)
    _check_sizes(position - LEAD_BYTES, size - FOOTER_BYTES - position)
    return position


def directory_bytes(*, slices: int = 0, batches: int = 0, events: int = 0) -> int:
    """Return how large a directory with so many rows is."""
    return _HEAD.size + slices * SLICE.size + batches * BATCH.size + events * EVENT.size


def encode_directory(bundle: Bundle) -> bytes:
    """Return the head and the tables.

    Raises:
        CorruptError: a field does not fit its place.
    """
    head = (
        bundle.lane,
        BULK if bundle.bulk else 0,
        bundle.seq,
        bundle.created_ms,
        bundle.checkpoint,
        bundle.epoch,
        bundle.writer,
        bundle.nonce,
        bundle.previous,
        len(bundle.slices),
        len(bundle.batches),
        len(bundle.events),
        0,
    )
    tables = (
        pack_rows(_HEAD, (head,), BUNDLE_SUFFIX),
        pack_rows(SLICE, bundle.slices, BUNDLE_SUFFIX),
        pack_rows(BATCH, bundle.batches, BUNDLE_SUFFIX),
        pack_rows(EVENT, bundle.events, BUNDLE_SUFFIX),
    )
    return b"".join(tables)


def encode_bundle(bundle: Bundle, payload: Sequence[Bytes] = ()) -> bytes:
    """Return the bytes of a bundle: see ``bundle_pieces``."""
    return b"".join(bundle_pieces(bundle, payload))


def bundle_pieces(bundle: Bundle, payload: Sequence[Bytes] = ()) -> tuple[Bytes, ...]:
    """Return what a bundle consists of, one behind the other, without copying the payload.

    ``payload`` is its slices' bytes, in pieces of any size.

    Raises:
        CorruptError: the directory contradicts itself or the payload.
        InvalidInputError: it would be larger than what is read.
    """
    length, crc = sum(map(len, payload)), 0
    rows = len(bundle.slices), len(bundle.batches), len(bundle.events)
    size = directory_bytes(slices=rows[0], batches=rows[1], events=rows[2])
    if length > PAYLOAD_BYTES_MAX or size > DIRECTORY_BYTES_MAX:
        raise InvalidInputError(
            f"a bundle with {length} bytes of batches and a directory of {size}: readers take at "
            f"most {PAYLOAD_BYTES_MAX} and {DIRECTORY_BYTES_MAX}; append less at once"
        )
    for piece in payload:
        crc = crc32c(piece, crc)
    _check(bundle, LEAD_BYTES + length)
    directory = encode_directory(bundle)
    footer = _FRAME.footer(LEAD_BYTES + length, crc, directory)
    return (_FRAME.lead, *payload, directory, footer)


def decode_directory(tail: Bytes, size: int) -> Bundle:
    """Return the bundle in an object of ``size`` bytes, whose end ``tail`` is.

    The payload is not looked at: every batch in it has a CRC of its own, also in the directory.

    Raises:
        CorruptError: no correct writer made it, or the directory begins before ``tail``.
        UnsupportedError: a later version made it, or it is over the limits.
    """
    return _open(tail, size)[0]


def decode_bundle(data: Bytes) -> tuple[Bundle, memoryview]:
    """Return a bundle and its payload; a slice's position counts from the start of the object.

    Raises:
        CorruptError: no correct writer made it.
        UnsupportedError: a later version made it, or it is over the limits.
    """
    _FRAME.check_lead(data)
    bundle, position, crc = _open(data, len(data))
    payload = memoryview(data)[LEAD_BYTES:position]
    if crc32c(payload) != crc:
        raise CorruptError(
            "the payload does not match its CRC",
            at=len(data) - FOOTER_BYTES + 8,
            where=BUNDLE_SUFFIX,
        )
    return bundle, payload


def _check_sizes(payload: int, directory: int) -> None:
    """Check that a bundle is no larger than one that ``bundle_pieces`` makes."""
    if payload > PAYLOAD_BYTES_MAX or directory > DIRECTORY_BYTES_MAX:
        raise UnsupportedError(
            f"a bundle with {payload} bytes of batches and a directory of {directory} is over the "
            f"limits of {PAYLOAD_BYTES_MAX} and {DIRECTORY_BYTES_MAX}",
            at=LEAD_BYTES + payload,
            where=BUNDLE_SUFFIX,
        )


def _open(tail: Bytes, size: int) -> tuple[Bundle, int, int]:
    """Return a bundle, where its directory begins, and the CRC of its payload."""
    position, directory, crc = _FRAME.open(tail, size)
    _check_sizes(position - LEAD_BYTES, len(directory))
    if len(directory) < _HEAD.size:
        raise CorruptError(
            f"a directory of {len(directory)} bytes, its head has {_HEAD.size}",
            at=position,
            where=BUNDLE_SUFFIX,
        )
    (
        lane, flags, seq, created_ms, checkpoint, epoch, writer, nonce, previous,
        slices, batches, events, reserved,
    ) = _HEAD.unpack_from(directory)  # fmt: skip
    if flags > BULK or reserved:
        raise UnsupportedError(
            f"flags {flags:#x} and {reserved:#x}; use a newer reader",
            at=position + 4,
            where=BUNDLE_SUFFIX,
        )
    ends = [_HEAD.size]
    for row, count in ((SLICE, slices), (BATCH, batches), (EVENT, events)):
        ends.append(ends[-1] + row.size * count)
    if ends[-1] != len(directory):
        raise CorruptError(
            f"tables of {ends[-1]} bytes in a directory of {len(directory)}",
            at=position + 84,
            where=BUNDLE_SUFFIX,
        )
    bundle = Bundle(
        lane=lane,
        seq=seq,
        created_ms=created_ms,
        checkpoint=checkpoint,
        epoch=epoch,
        writer=writer,
        nonce=nonce,
        previous=previous,
        bulk=bool(flags & BULK),
        slices=tuple(unpack_rows(SLICE, Slice, directory[ends[0] : ends[1]])),
        batches=tuple(unpack_rows(BATCH, BatchRow, directory[ends[1] : ends[2]])),
        events=tuple(_event(row, position) for row in EVENT.iter_unpack(directory[ends[2] :])),
    )
    _check(bundle, position)
    return bundle, position, crc


def _event(row: tuple[int, bytes, bytes, int], position: int) -> Event:
    kind, id_, query, number = row
    if kind not in _KINDS:
        raise UnsupportedError(
            f"an event of kind {kind}; use a newer reader", at=position, where=BUNDLE_SUFFIX
        )
    return Event(EventKind(kind), id_, query, number)


def _check(bundle: Bundle, end: int) -> None:
    """Check that a directory, which begins at ``end``, describes what can be."""
    why = _head_flaw(bundle) or _slice_flaw(bundle, end) or _batch_flaw(bundle)
    why = why or _event_flaw(bundle)
    if why:
        raise CorruptError(f"bundle {bundle.seq}: {why}", at=end, where=BUNDLE_SUFFIX)


def _head_flaw(bundle: Bundle) -> str:
    if bundle.nonce == NO_ID:
        return "no nonce"
    if (bundle.previous == NO_ID) != (bundle.seq == 0):
        return "the first bundle, and only it, follows none"
    if not -1 <= bundle.checkpoint < bundle.seq or bundle.epoch < 0 or bundle.created_ms < 0:
        return f"checkpoint {bundle.checkpoint}, epoch {bundle.epoch}, time {bundle.created_ms}"
    return ""


def _slice_flaw(bundle: Bundle, end: int) -> str:
    # Rows are unpacked, and not asked by name: a flush waits for this.
    at = LEAD_BYTES
    for slice_ in bundle.slices:
        _, partition, batches, base, offsets, position, length, _, _, write, part = slice_
        if partition < 0 or base < 0 or offsets < 1:
            return f"a slice of nothing: {slice_.topic_partition} at {base}"
        if base + offsets > OFFSET_MAX:
            return f"offsets up to {slice_.next_offset}: {slice_.topic_partition}"
        staged = write >= 0
        if staged != (part >= 0) or staged != (batches == 0) or write < -1:
            return f"neither staged nor stored: {slice_.topic_partition}"
        if length < _BATCH_BYTES_MIN or position < 0 or part < -1:
            return f"{length} bytes at {position}: {slice_.topic_partition}"
        if not staged:
            if position != at:
                return f"a slice at {position}, the one before ends at {at}"
            at += length
    if at != end:
        return f"slices end at {at}, the payload at {end}"
    for one, two in pairwise(bundle.slices):
        if one[:2] < two[:2]:
            continue
        if one[:2] > two[:2] or one.next_offset != two.base_offset:
            first, second = one.topic_partition, two.topic_partition
            return f"slices out of order: {first} at {one.base_offset}, then {second}"
    return ""


def _batch_flaw(bundle: Bundle) -> str:
    at, rows = 0, bundle.batches
    for slice_ in bundle.slices:
        if slice_.write >= 0:
            continue
        mine = rows[at : at + slice_.batches]
        at += slice_.batches
        length = offsets = 0
        for _, _, size, last_delta, _, _, _ in mine:
            if last_delta < 0 or size < _BATCH_BYTES_MIN:
                return f"a batch of {size} bytes and {last_delta + 1} offsets"
            length += size
            offsets += last_delta + 1
        if length != slice_.length or offsets != slice_.offsets:
            return f"batches of {length} bytes and {offsets} offsets: {slice_.topic_partition}"
    return "" if at == len(rows) else f"{at} of {len(rows)} batches belong to a slice"


def _event_flaw(bundle: Bundle) -> str:
    commits = set()
    for at, event in enumerate(bundle.events):
        if event.id == NO_ID or event.number < 0:
            return f"an event without an id, or number {event.number}"
        if event.kind not in _KINDS:
            return f"an event of kind {event.kind}"
        if event.kind == EventKind.TOPIC_DELETED and (event.query != NO_ID or event.number):
            return "a deletion that names a query"
        if event.kind == EventKind.PARTITION_BEGINS and not _can_begin(event):
            return f"partition {event.topic_partition[1]} begins at {event.number}"
        if event.kind == EventKind.WRITE_COMMITTED:
            commits.add(at)
    staged = {slice_.write for slice_ in bundle.slices if slice_.write >= 0}
    return "" if staged <= commits else "a staged slice without its commit"


def _can_begin(event: Event) -> bool:
    return event.topic_partition[1] <= _PARTITION_MAX and 0 < event.number < OFFSET_MAX
