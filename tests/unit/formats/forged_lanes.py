"""Bundles and checkpoints put together byte by byte, without the encoders, and never judged.

Checksums are right unless a test says otherwise: damage that a checksum already notices would
never reach the check that the test is about.

``TYPES`` says of every row which type each of its fields has, by the pages: it is a second reading
of them, and the judge of the first.
"""

import struct
from collections.abc import Iterable
from typing import Any

from crc32c import crc32c

from lakelog.formats.lanes import Bundle, Checkpoint, Producer

TYPES = {
    "bundle": "u32 u32 u64 i64 i64 i32 id id id u32 u32 u32 u32",
    "slice": "id i32 u32 i64 i64 i64 i64 i64 i64 i32 i32",
    "batch": "i64 u32 u32 i32 i32 i16 u16",
    "event": "u32 id id i64",
    "checkpoint": "u32 i32 u64 i64 id id u64 u32 u32 u32 u32 u32 u64",
    "end": "id i32 i64",
    "producer": "id i32 i64 i16 u16 i64" + " i32 i32 i64" * 5,
    "write": "id i64 id i64",
    "mark": "u32 id i64",
    "rolled": "u64 id i32 u32 i64 i64 i64 i64 i64 i64 i32 i32 i32",
}


def row(name: str, values: Iterable[Any]) -> bytes:
    """Return one row, field by field."""
    fields = []
    for kind, value in zip(TYPES[name].split(), values, strict=True):
        if kind == "id":
            assert len(value) == 16
            fields.append(bytes(value))
        else:
            signed, bits = kind[0] == "i", int(kind[1:])
            fields.append(int(value).to_bytes(bits // 8, "big", signed=signed))
    return b"".join(fields)


def rows(name: str, found: Iterable[Iterable[Any]]) -> bytes:
    return b"".join(row(name, one) for one in found)


def seal(
    magic: bytes,
    payload: bytes,
    directory: bytes,
    *,
    position: int | None = None,
    payload_crc: int | None = None,
) -> bytes:
    """Return a whole object; its end carries the magic backwards."""
    start = struct.pack(
        ">QI",
        8 + len(payload) if position is None else position,
        crc32c(payload) if payload_crc is None else payload_crc,
    )
    footer = start + struct.pack(">II4s", crc32c(directory + start), 0, magic[::-1])
    return magic + b"\0\1\0\0" + payload + directory + footer


def bundle_directory(bundle: Bundle, *, flags: int | None = None, reserved: int = 0) -> bytes:
    head = row(
        "bundle",
        (
            bundle.lane,
            int(bundle.bulk) if flags is None else flags,
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
            reserved,
        ),
    )
    tables = (("slice", bundle.slices), ("batch", bundle.batches), ("event", bundle.events))
    return head + b"".join(rows(name, table) for name, table in tables)


def forge_bundle(bundle: Bundle, payload: bytes = b"") -> bytes:
    return seal(b"KAFB", payload, bundle_directory(bundle))


def producer_row(producer: Producer) -> tuple[Any, ...]:
    """Return the fields of a producer in the order in which they are stored."""
    topic, partition, producer_id, epoch, seen_ms, kept = producer
    fields = [field for batch in kept for field in batch]
    zeros = (0,) * (15 - len(fields))
    return (topic, partition, producer_id, epoch, len(kept), seen_ms, *fields, *zeros)


def checkpoint_directory(checkpoint: Checkpoint, *, reserved: int = 0) -> bytes:
    head = row(
        "checkpoint",
        (
            checkpoint.lane,
            checkpoint.epoch,
            checkpoint.seq,
            checkpoint.created_ms,
            checkpoint.nonce,
            checkpoint.leader,
            checkpoint.first,
            len(checkpoint.ends),
            len(checkpoint.producers),
            len(checkpoint.writes),
            len(checkpoint.marks),
            len(checkpoint.slice_index),
            reserved,
        ),
    )
    return b"".join(
        (
            head,
            rows("end", checkpoint.ends),
            rows("producer", map(producer_row, checkpoint.producers)),
            rows("write", checkpoint.writes),
            rows("mark", checkpoint.marks),
            rows(
                "rolled", ((seq, *slice_, epoch) for seq, slice_, epoch in checkpoint.slice_index)
            ),
        )
    )


def forge_checkpoint(checkpoint: Checkpoint) -> bytes:
    return seal(b"KAFC", b"", checkpoint_directory(checkpoint))
