"""Bundles and checkpoints: where each byte stands; one case for each refusal; the golden files.

Every value that is refused is tried both ways: the encoder does not write it, and the decoder does
not read it, though its checksums are right.
"""

import re
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from crc32c import crc32c

from lakelog.errors import CorruptError, UnsupportedError
from lakelog.formats.lanes import (
    FOOTER_BYTES,
    KEPT_MAX,
    LEAD_BYTES,
    NO_ID,
    BatchRow,
    Bundle,
    Checkpoint,
    End,
    Event,
    EventKind,
    Kept,
    Mark,
    Producer,
    Rolled,
    Slice,
    Write,
    bundle_directory_start,
    decode_bundle,
    decode_checkpoint,
    decode_directory,
    encode_bundle,
    encode_checkpoint,
)
from lakelog.formats.lanes.bundle import encode_directory
from tests.golden.lanes.make import (
    ABORTED,
    BATCHES,
    BULK,
    BUNDLES,
    CHECKPOINT,
    CHECKPOINTS,
    DATA,
    EMPTY,
    GONE,
    HERE,
    ORDERS,
    PAYLOAD,
    QUERY,
    goldens,
)
from tests.unit.formats.forged_lanes import (
    bundle_directory,
    checkpoint_directory,
    forge_bundle,
    forge_checkpoint,
    producer_row,
    row,
    rows,
    seal,
)

PAGES = Path(__file__).parents[3] / "docs/reference/formats"

WHOLE = encode_bundle(DATA, [PAYLOAD])
START = LEAD_BYTES + len(PAYLOAD)
"""Where the directory of WHOLE begins."""
POINT = encode_checkpoint(CHECKPOINT)


def put(data: bytes, at: int, layout: str, *values: Any) -> bytes:
    made = bytearray(data)
    struct.pack_into(layout, made, at % len(made), *values)
    return bytes(made)


def read(data: bytes) -> tuple[Bundle, bytes]:
    bundle, payload = decode_bundle(data)
    return bundle, bytes(payload)


def number(data: bytes, at: int, size: int, *, signed: bool = False) -> int:
    return int.from_bytes(data[at : at + size], "big", signed=signed)


# ---------------------------------------------------------------------------- where each byte is

NAMED = tuple(bytes([65 + at]) * 16 for at in range(8))
"""Ids that can be told apart: AAAA..., BBBB..., and so on."""

STORED = Slice(NAMED[3], 0x31, 1, 0x32, 0x33 + 1, 8, 61, -0x34, 0x35)
AWAY = Slice(NAMED[4], 0x41, 0, 0x42, 0x43, 0x44, 0x45, 0x46, 0x47, 0, 0x48)
BATCH = BatchRow(0x51, 0x52, 61, 0x33, 0x55, -0x56, 0x57)
EVENT = Event(EventKind.WRITE_COMMITTED, NAMED[5], NAMED[6], 0x61)
DISTINCT = Bundle(
    lane=0x11,
    seq=0x12,
    created_ms=0x13,
    checkpoint=-1,
    epoch=0x14,
    writer=NAMED[0],
    nonce=NAMED[1],
    previous=NAMED[2],
    bulk=True,
    slices=(STORED, AWAY),
    batches=(BATCH,),
    events=(EVENT,),
)


def test_a_bundle_begins_with_its_magic_and_version() -> None:
    data = encode_bundle(DISTINCT, [b"p" * 61])
    assert data[:8] == b"KAFB\0\1\0\0"
    assert data[8:69] == b"p" * 61
    # 8 + 61, a head of 100, two slices of 80, a batch of 28, an event of 44, a footer of 24.
    assert len(data) == 69 + 100 + 160 + 28 + 44 + 24


def test_the_head_of_a_bundle_stands_where_it_is_drawn() -> None:
    head = encode_bundle(DISTINCT, [b"p" * 61])[69:169]
    assert number(head, 0, 4) == 0x11
    assert number(head, 4, 4) == 1
    assert number(head, 8, 8) == 0x12
    assert number(head, 16, 8) == 0x13
    assert head[24:32] == b"\xff" * 8
    assert number(head, 32, 4) == 0x14
    assert (head[36:52], head[52:68], head[68:84]) == NAMED[:3]
    assert [number(head, at, 4) for at in (84, 88, 92, 96)] == [2, 1, 1, 0]


def test_a_slice_stands_where_it_is_drawn() -> None:
    tables = encode_bundle(DISTINCT, [b"p" * 61])[169:]
    one, two = tables[:80], tables[80:160]
    assert (one[:16], two[:16]) == (NAMED[3], NAMED[4])
    assert [number(one, at, 4) for at in (16, 20)] == [0x31, 1]
    wide = [number(one, at, 8, signed=True) for at in (24, 32, 40, 48, 56, 64)]
    assert wide == [0x32, 0x34, 8, 61, -0x34, 0x35]
    assert one[72:] == b"\xff" * 8
    assert [number(two, at, 4) for at in (16, 20)] == [0x41, 0]
    wide = [number(two, at, 8) for at in (24, 32, 40, 48, 56, 64)]
    assert wide == [0x42, 0x43, 0x44, 0x45, 0x46, 0x47]
    assert [number(two, at, 4) for at in (72, 76)] == [0, 0x48]


def test_a_batch_and_an_event_stand_where_they_are_drawn() -> None:
    tables = encode_bundle(DISTINCT, [b"p" * 61])[329:]
    batch, event = tables[:28], tables[28:72]
    assert number(batch, 0, 8) == 0x51
    assert [number(batch, at, 4) for at in (8, 12, 16, 20)] == [0x52, 61, 0x33, 0x55]
    assert number(batch, 24, 2, signed=True) == -0x56
    assert number(batch, 26, 2) == 0x57
    assert number(event, 0, 4) == 2
    assert (event[4:20], event[20:36]) == (NAMED[5], NAMED[6])
    assert number(event, 36, 8) == 0x61


def test_a_footer_stands_where_it_is_drawn() -> None:
    data = encode_bundle(DISTINCT, [b"p" * 61])
    directory, footer = data[69:-24], data[-24:]
    assert number(footer, 0, 8) == 69
    assert number(footer, 8, 4) == crc32c(b"p" * 61)
    assert number(footer, 12, 4) == crc32c(directory + footer[:12])
    assert footer[16:] == b"\0\0\0\0BFAK"
    assert (LEAD_BYTES, FOOTER_BYTES) == (8, 24)


SINGLE = Checkpoint(
    lane=0x11,
    seq=0x12,
    epoch=0x13,
    created_ms=0x14,
    nonce=NAMED[0],
    leader=NAMED[1],
    first=0x10,
    ends=(End(NAMED[2], 0x21, 0x22),),
    producers=(
        Producer(
            NAMED[3], 0x31, 0x32, -0x33, 0x34, (Kept(0x35, 0x36, 0x37), Kept(0x38, 0x39, 0x3A))
        ),
    ),
    writes=(Write(NAMED[4], 0x41, NAMED[5], 0x42),),
    marks=(Mark(EventKind.TOPIC_DELETED, NAMED[6], 0x51),
           Mark(EventKind.WRITE_ABORTED, NAMED[6], 0x52)),
    slice_index=(Rolled(0x11, AWAY, 0x12),),
)  # fmt: skip


def test_the_head_of_a_checkpoint_stands_where_it_is_drawn() -> None:
    data = encode_checkpoint(SINGLE)
    # A lead of 8, a head of 92, rows of 28, 120, 48, 2 x 28 and 88, a footer of 24.
    assert len(data) == 8 + 92 + 28 + 120 + 48 + 56 + 92 + 24
    assert data[:8] == b"KAFC\0\1\0\0"
    assert data[-4:] == b"CFAK"
    assert number(data, len(data) - 24, 8) == 8
    assert number(data, len(data) - 16, 4) == 0
    assert number(data, len(data) - 12, 4) == crc32c(data[8:-12])
    head = data[8:100]
    assert [number(head, at, 4) for at in (0, 4)] == [0x11, 0x13]
    assert [number(head, at, 8) for at in (8, 16, 56, 84)] == [0x12, 0x14, 0x10, 0]
    assert (head[24:40], head[40:56]) == NAMED[:2]
    assert [number(head, at, 4) for at in (64, 68, 72, 76, 80)] == [1, 1, 1, 2, 1]


def test_the_rows_of_a_checkpoint_stand_where_they_are_drawn() -> None:
    data = encode_checkpoint(SINGLE)
    end, producer, write = data[100:128], data[128:248], data[248:296]
    marks, rolled = data[296:352], data[352:444]
    assert end == NAMED[2] + b"\0\0\0\x21" + bytes(7) + b"\x22"
    assert producer[:16] == NAMED[3]
    assert (number(producer, 16, 4), number(producer, 20, 8)) == (0x31, 0x32)
    assert number(producer, 28, 2, signed=True) == -0x33
    assert number(producer, 30, 2) == 2
    assert number(producer, 32, 8) == 0x34
    kept = [number(producer, at, size) for at, size in ((40, 4), (44, 4), (48, 8))]
    assert kept == [0x35, 0x36, 0x37]
    kept = [number(producer, at, size) for at, size in ((56, 4), (60, 4), (64, 8))]
    assert kept == [0x38, 0x39, 0x3A]
    assert producer[72:] == bytes(48)
    assert (write[:16], write[24:40]) == (NAMED[4], NAMED[5])
    assert (number(write, 16, 8), number(write, 40, 8)) == (0x41, 0x42)
    assert marks[:28] == b"\0\0\0\1" + NAMED[6] + bytes(7) + b"\x51"
    assert marks[28:] == b"\0\0\0\3" + NAMED[6] + bytes(7) + b"\x52"
    assert number(rolled, 0, 8) == 0x11
    assert rolled[8:88] == encode_bundle(DISTINCT, [b"p" * 61])[249:329]
    assert rolled[88:] == b"\0\0\0\x12"


def test_numbers_without_a_sign_reach_their_last_bit() -> None:
    most = (1 << 64) - 1
    late = replace(DATA, lane=(1 << 32) - 1, seq=most, checkpoint=(1 << 63) - 1)
    assert decode_bundle(encode_bundle(late, [PAYLOAD]))[0] == late
    point = replace(CHECKPOINT, lane=(1 << 32) - 1, seq=most)
    assert decode_checkpoint(encode_checkpoint(point)) == point


def test_a_payload_may_come_in_pieces() -> None:
    assert encode_bundle(DATA, BATCHES) == WHOLE
    assert encode_bundle(DATA, [memoryview(PAYLOAD)[:5], b"", bytearray(PAYLOAD[5:])]) == WHOLE


def test_a_last_sequence_wraps_to_0() -> None:
    assert Kept((1 << 31) - 1, 1, 0).last_sequence == 0
    assert Kept(5, 2, 0).last_sequence == 7


# ---------------------------------------------------------------------------- the frame

FRAME_CASES: list[tuple[str, bytes, type[Exception], str, int]] = [
    ("nothing", b"", CorruptError, "0 bytes", 0),
    ("less than a lead", WHOLE[:7], CorruptError, "7 bytes", 7),
    ("another magic", put(WHOLE, 0, ">4s", b"KAFT"), CorruptError, "magic b'KAFT'", 0),
    ("a checkpoint", POINT, CorruptError, "magic b'KAFC', not b'KAFB'", 0),
    ("version 0", put(WHOLE, 4, ">H", 0), UnsupportedError, "version 0", 4),
    ("version 2", put(WHOLE, 4, ">H", 2), UnsupportedError, "version 2", 4),
    ("reserved in the lead", put(WHOLE, 6, ">H", 1), CorruptError, "reserved bytes hold 0x1", 6),
    ("less than a frame", WHOLE[:31], CorruptError, "31 bytes, an empty one has more", 31),
    ("another end", put(WHOLE, -4, ">4s", b"END!"), CorruptError, "ends with b'END!'",
     len(WHOLE) - 4),
    ("reserved in the footer", put(WHOLE, -8, ">I", 2), CorruptError, "reserved bytes hold 0x2",
     len(WHOLE) - 8),
    ("a directory in the lead", put(WHOLE, -24, ">Q", 7), CorruptError, "begins at 7",
     len(WHOLE) - 24),
    ("a directory in the footer", put(WHOLE, -24, ">Q", len(WHOLE) - 23), CorruptError, "begins at",
     len(WHOLE) - 24),
    ("a directory past the end", put(WHOLE, -24, ">Q", 1 << 63), CorruptError, "begins at",
     len(WHOLE) - 24),
    ("another byte in the directory", put(WHOLE, START, ">I", 8), CorruptError,
     "the directory does not match its CRC", len(WHOLE) - 12),
    ("another CRC of the payload", put(WHOLE, -16, ">I", 0), CorruptError,
     "the directory does not match its CRC", len(WHOLE) - 12),
    ("another byte in the payload", put(WHOLE, 8, ">B", 1), CorruptError,
     "the payload does not match its CRC", len(WHOLE) - 16),
    ("another payload under the directory's CRC",
     seal(b"KAFB", PAYLOAD, bundle_directory(DATA), payload_crc=1), CorruptError,
     "the payload does not match its CRC", len(WHOLE) - 16),
]  # fmt: skip


@pytest.mark.parametrize(
    ("data", "kind", "what", "at"),
    [case[1:] for case in FRAME_CASES],
    ids=[case[0] for case in FRAME_CASES],
)
def test_a_bad_frame_is_refused(data: bytes, kind: type[Exception], what: str, at: int) -> None:
    with pytest.raises(kind, match=re.escape(what)) as caught:
        decode_bundle(data)
    assert isinstance(caught.value, CorruptError | UnsupportedError)
    assert (caught.value.at, caught.value.where) == (at, ".bundle")


def test_a_checkpoint_is_told_from_a_bundle_by_both_its_ends() -> None:
    with pytest.raises(CorruptError, match="magic b'KAFB', not b'KAFC'"):
        decode_checkpoint(WHOLE)
    with pytest.raises(CorruptError, match="ends with b'CFAK', not b'BFAK'"):
        decode_directory(POINT, len(POINT))
    with pytest.raises(UnsupportedError, match="version 2"):
        decode_checkpoint(put(POINT, 4, ">H", 2))


# ---------------------------------------------------------------------------- the end alone


def test_the_directory_is_found_by_the_footer_alone() -> None:
    assert bundle_directory_start(WHOLE[-24:], len(WHOLE)) == START
    assert bundle_directory_start(WHOLE, len(WHOLE)) == START
    assert decode_directory(WHOLE[START:], len(WHOLE)) == DATA


def test_an_end_that_lacks_a_byte_of_the_directory_says_how_much_is_here() -> None:
    tail = WHOLE[START + 1 :]
    with pytest.raises(CorruptError, match=f"only {len(tail)} of its bytes are here"):
        decode_directory(tail, len(WHOLE))


def test_less_than_a_footer_says_how_much_is_here() -> None:
    with pytest.raises(CorruptError, match="only 23 of its bytes are here"):
        bundle_directory_start(WHOLE[-23:], len(WHOLE))


def test_the_payload_is_not_looked_at_by_who_wants_the_directory() -> None:
    assert decode_directory(put(WHOLE, 8, ">Q", 99), len(WHOLE)) == DATA


@pytest.mark.parametrize("wrong", [-80, -1, 1, 80])
def test_an_object_of_another_size_is_refused(wrong: int) -> None:
    with pytest.raises(CorruptError):
        decode_directory(WHOLE, len(WHOLE) + wrong)


# ---------------------------------------------------------------------------- a bundle's directory

HEAD_CASES: list[tuple[str, bytes, type[Exception], str]] = [
    ("no head", seal(b"KAFB", b"", bytes(99)), CorruptError,
     "a directory of 99 bytes, its head has 100"),
    ("an unknown flag", seal(b"KAFB", b"", bundle_directory(EMPTY, flags=2)), UnsupportedError,
     "flags 0x2 and 0x0; use a newer reader"),
    ("reserved in the head", seal(b"KAFB", b"", bundle_directory(EMPTY, reserved=9)),
     UnsupportedError, "flags 0x0 and 0x9; use a newer reader"),
    ("a row too few", seal(b"KAFB", PAYLOAD, bundle_directory(DATA)[:-28]), CorruptError,
     "tables of 344 bytes in a directory of 316"),
    ("a row too many", seal(b"KAFB", PAYLOAD, bundle_directory(DATA) + bytes(44)), CorruptError,
     "tables of 344 bytes in a directory of 388"),
    ("half a row", seal(b"KAFB", b"", bundle_directory(EMPTY) + b"\0"), CorruptError,
     "tables of 100 bytes in a directory of 101"),
    ("more rows than there is memory",
     seal(b"KAFB", b"", put(bundle_directory(EMPTY), 84, ">III", *[(1 << 32) - 1] * 3)),
     CorruptError, f"tables of {100 + 152 * ((1 << 32) - 1)} bytes in a directory of 100"),
    ("an unknown event",
     seal(b"KAFB", b"", put(bundle_directory(BULK), 100 + 160, ">I", 5)), UnsupportedError,
     "an event of kind 5; use a newer reader"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("data", "kind", "what"), [case[1:] for case in HEAD_CASES], ids=[c[0] for c in HEAD_CASES]
)
def test_a_bad_directory_is_refused(data: bytes, kind: type[Exception], what: str) -> None:
    with pytest.raises(kind, match=re.escape(what)):
        decode_bundle(data)
    with pytest.raises(kind, match=re.escape(what)):
        decode_directory(data[8:], len(data))


def sliced(*changes: dict[str, Any], of: Bundle = DATA) -> Bundle:
    """A bundle with other fields in its slices; a slice beyond the changes stays as it is."""
    rest: tuple[dict[str, Any], ...] = ({},) * (len(of.slices) - len(changes))
    pairs = zip(of.slices, (*changes, *rest), strict=True)
    return replace(of, slices=tuple(slice_._replace(**change) for slice_, change in pairs))


def batched(**change: Any) -> Bundle:
    """A bundle whose first batch is another."""
    return replace(DATA, batches=(DATA.batches[0]._replace(**change), *DATA.batches[1:]))


def evented(*events: Event) -> Bundle:
    return replace(EMPTY, events=events)


FIRST, SECOND = DATA.slices
LAST_OFFSET = (1 << 63) - 1

BUNDLE_CASES: list[tuple[str, Bundle, str]] = [
    ("no nonce", replace(DATA, nonce=NO_ID), "no nonce"),
    ("a first bundle behind another", replace(EMPTY, previous=QUERY), "follows none"),
    ("a later bundle behind none", replace(DATA, previous=NO_ID), "follows none"),
    ("checkpoint -2", replace(DATA, checkpoint=-2), "checkpoint -2, epoch 3"),
    ("a checkpoint of itself", replace(DATA, checkpoint=1), "checkpoint 1, epoch 3"),
    ("epoch -1", replace(DATA, epoch=-1), "checkpoint -1, epoch -1"),
    ("before 1970", replace(DATA, created_ms=-1), "epoch 3, time -1"),
    ("partition -1", sliced({"partition": -1}), "a slice of nothing"),
    ("base offset -1", sliced({"base_offset": -1}), "a slice of nothing"),
    ("no offsets", sliced({"offsets": 0}), "a slice of nothing"),
    ("offsets past the last one", sliced({"base_offset": LAST_OFFSET - 2}),
     f"offsets up to {LAST_OFFSET + 1}"),
    ("a write without a part", sliced({"part": -1}, of=BULK), "neither staged nor stored"),
    ("a part without a write", sliced({"part": 0}), "neither staged nor stored"),
    ("staged, with batches", sliced({"batches": 1}, of=BULK), "neither staged nor stored"),
    ("stored, without batches", sliced({"batches": 0}), "neither staged nor stored"),
    ("write -2", sliced({"write": -2}), "neither staged nor stored"),
    ("part -2", sliced({"part": -2}), f"{FIRST.length} bytes at 8"),
    ("60 bytes", sliced({"length": 60}), "60 bytes at 8"),
    ("staged before the start", sliced({"position": -1}, of=BULK), "4096 bytes at -1"),
    ("a slice in the lead", sliced({"position": 7}), "a slice at 7, the one before ends at 8"),
    ("a hole between slices", sliced({}, {"position": SECOND.position + 1}),
     f"a slice at {SECOND.position + 1}, the one before ends at {SECOND.position}"),
    ("a slice past the payload", sliced({}, {"length": SECOND.length + 1}),
     f"slices end at {START + 1}, the payload at {START}"),
    ("bytes of no slice", replace(DATA, slices=(FIRST,), batches=DATA.batches[:2]),
     f"slices end at {SECOND.position}, the payload at {START}"),
    ("partitions out of order", sliced({"partition": 2}), "slices out of order"),
    ("topics out of order", sliced({"topic": b"\xff" * 16}), "slices out of order"),
    ("a gap in the offsets", sliced({}, {"base_offset": 1104}, of=BULK), "slices out of order"),
    ("offsets twice", sliced({}, {"base_offset": 1102}, of=BULK), "slices out of order"),
    ("a batch without offsets", batched(last_offset_delta=-1), "a batch of"),
    ("a batch without a header", batched(length=60), "a batch of 60 bytes and 2 offsets"),
    ("more offsets than the batches have", sliced({"offsets": 4}), "bytes and 3 offsets"),
    ("longer than its batches", batched(length=DATA.batches[0].length - 1),
     f"batches of {FIRST.length - 1} bytes"),
    ("batches of nobody", replace(DATA, batches=(*DATA.batches, DATA.batches[0])),
     "3 of 4 batches belong to a slice"),
    ("a batch too few", sliced({}, {"batches": 2}), "4 of 3 batches belong to a slice"),
    ("an event without an id", evented(Event(EventKind.TOPIC_DELETED, NO_ID)),
     "an event without an id, or number 0"),
    ("number -1", evented(Event(EventKind.WRITE_ABORTED, ABORTED, QUERY, -1)),
     "an event without an id, or number -1"),
    ("a topic deleted by a query", evented(Event(EventKind.TOPIC_DELETED, GONE, QUERY)),
     "a deletion that names a query"),
    ("a topic deleted with a number", evented(Event(EventKind.TOPIC_DELETED, GONE, number=1)),
     "a deletion that names a query"),
    ("committed by no event", sliced({"write": 3}, of=BULK), "a staged slice without its commit"),
    ("committed by an abortion", sliced({"write": 2}, of=BULK),
     "a staged slice without its commit"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("bundle", "what"), [case[1:] for case in BUNDLE_CASES], ids=[c[0] for c in BUNDLE_CASES]
)
def test_a_bundle_that_cannot_be_is_neither_written_nor_read(bundle: Bundle, what: str) -> None:
    payload = PAYLOAD if bundle.batches else b""
    with pytest.raises(CorruptError, match=re.escape(what)) as caught:
        encode_bundle(bundle, [payload])
    assert caught.value.where == ".bundle"
    forged = forge_bundle(bundle, payload)
    with pytest.raises(CorruptError, match=re.escape(what)) as caught:
        decode_bundle(forged)
    assert f"bundle {bundle.seq}: " in caught.value.what
    with pytest.raises(CorruptError, match=re.escape(what)):
        decode_directory(forged, len(forged))


def test_the_last_offset_of_all_can_be_stored() -> None:
    high = sliced({"base_offset": LAST_OFFSET - 3})
    assert high.slices[0].next_offset == LAST_OFFSET
    assert read(forge_bundle(high, PAYLOAD)) == (high, PAYLOAD)


def test_an_event_of_no_kind_is_not_written() -> None:
    odd: Any = 5
    with pytest.raises(CorruptError, match="an event of kind 5"):
        encode_bundle(evented(Event(odd, GONE)))


def test_a_kind_is_known_by_its_number_alone() -> None:
    plain: Any = 1
    with pytest.raises(CorruptError, match="a deletion that names a query"):
        encode_bundle(evented(Event(plain, GONE, QUERY)))


UNFIT: list[tuple[str, Bundle]] = [
    ("lane", replace(EMPTY, lane=1 << 32)),
    ("lane below 0", replace(EMPTY, lane=-1)),
    ("seq", replace(DATA, seq=1 << 64)),
    ("created", replace(EMPTY, created_ms=1 << 63)),
    ("checkpoint", replace(DATA, seq=(1 << 64) - 1, checkpoint=1 << 63)),
    ("epoch", replace(EMPTY, epoch=1 << 31)),
    ("writer", replace(EMPTY, writer=b"short")),
    ("nonce", replace(EMPTY, nonce=b"longer than sixteen")),
    ("previous", replace(DATA, previous=b"")),
    ("partition", sliced({}, {"partition": 1 << 31})),
    ("topic", sliced({"topic": ORDERS[:15]}, {})),
    ("staged topic", sliced({"topic": ORDERS + b"\0"}, {"topic": ORDERS + b"\0"}, of=BULK)),
    ("timestamp", sliced({"min_timestamp": -(1 << 63) - 1})),
    ("part", sliced({"part": 1 << 31}, of=BULK)),
    ("crc", batched(crc=1 << 32)),
    ("producer epoch", batched(producer_epoch=1 << 15)),
    ("attributes", batched(attributes=-1)),
    ("event", evented(Event(EventKind.TOPIC_DELETED, b"id"))),
    ("query", evented(Event(EventKind.WRITE_ABORTED, ABORTED, b"query"))),
    ("number", evented(Event(EventKind.WRITE_ABORTED, ABORTED, QUERY, 1 << 63))),
]


@pytest.mark.parametrize("bundle", [case[1] for case in UNFIT], ids=[case[0] for case in UNFIT])
def test_a_field_that_does_not_fit_is_not_cut_to_fit(bundle: Bundle) -> None:
    refusal = "a field does not fit its place|an id has not 16 bytes"
    with pytest.raises(CorruptError, match=refusal) as caught:
        encode_bundle(bundle, [PAYLOAD] if bundle.batches else [])
    assert caught.value.where == ".bundle"
    with pytest.raises(CorruptError, match=refusal):
        encode_directory(bundle)


# ---------------------------------------------------------------------------- a checkpoint

EMPTY_POINT = Checkpoint(lane=7, seq=2, epoch=0, created_ms=0, nonce=QUERY, first=0)
PRODUCER = CHECKPOINT.producers[0]


def counted(count: int, *, rest: int = 0) -> bytes:
    """A checkpoint whose one producer says that it has ``count`` batches; it has two."""
    fields = list(producer_row(PRODUCER))
    fields[4], fields[-1] = count, rest
    head = checkpoint_directory(EMPTY_POINT)
    return seal(b"KAFC", b"", put(head, 68, ">I", 1) + row("producer", fields))


POINT_CASES: list[tuple[str, bytes, type[Exception], str]] = [
    ("a payload", seal(b"KAFC", b"\0", checkpoint_directory(EMPTY_POINT)), CorruptError,
     "something stands before its head, or less than a head"),
    ("a payload without a CRC",
     seal(b"KAFC", b"\0", checkpoint_directory(EMPTY_POINT), payload_crc=0), CorruptError,
     "something stands before its head, or less than a head"),
    ("a CRC of no payload",
     seal(b"KAFC", b"", checkpoint_directory(EMPTY_POINT), payload_crc=1), CorruptError,
     "something stands before its head, or less than a head"),
    ("no head", seal(b"KAFC", b"", bytes(91)), CorruptError,
     "something stands before its head, or less than a head"),
    ("reserved in the head",
     seal(b"KAFC", b"", checkpoint_directory(EMPTY_POINT, reserved=1)), UnsupportedError,
     "reserved bytes hold 0x1; use a newer reader"),
    ("half a row", seal(b"KAFC", b"", checkpoint_directory(EMPTY_POINT) + b"\0"), CorruptError,
     "tables of 92 bytes in a directory of 93"),
    ("a row too few", seal(b"KAFC", b"", checkpoint_directory(CHECKPOINT)[:-88]), CorruptError,
     "tables of 740 bytes in a directory of 652"),
    ("more rows than there is memory",
     seal(b"KAFC", b"", put(checkpoint_directory(EMPTY_POINT), 64, ">5I", *[(1 << 32) - 1] * 5)),
     CorruptError, f"tables of {92 + 316 * ((1 << 32) - 1)} bytes in a directory of 92"),
    ("a producer of nothing", counted(0), CorruptError, "a producer with 0 batches"),
    ("a producer of six", counted(6), CorruptError, "a producer with 6 batches"),
    ("a producer of many", counted((1 << 16) - 1), CorruptError, "a producer with 65535 batches"),
    ("fewer batches than there are", counted(1), CorruptError, "a producer with 1 batches"),
    ("something behind the batches", counted(2, rest=1), CorruptError,
     "a producer with 2 batches"),
    ("an unknown mark",
     seal(b"KAFC", b"", put(checkpoint_directory(EMPTY_POINT), 76, ">I", 1)
          + rows("mark", [(4, GONE, 0)])), CorruptError, "a mark of kind 4"),
    ("a mark of a commit",
     seal(b"KAFC", b"", put(checkpoint_directory(EMPTY_POINT), 76, ">I", 1)
          + rows("mark", [(2, GONE, 0)])), CorruptError, "a mark of kind 2"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("data", "kind", "what"), [case[1:] for case in POINT_CASES], ids=[c[0] for c in POINT_CASES]
)
def test_a_bad_checkpoint_is_refused(data: bytes, kind: type[Exception], what: str) -> None:
    with pytest.raises(kind, match=re.escape(what)) as caught:
        decode_checkpoint(data)
    assert isinstance(caught.value, CorruptError | UnsupportedError)
    assert caught.value.where == ".checkpoint"


UNSORTED = "a table that is not sorted, or holds a row twice"
END, WRITE, MARKS = CHECKPOINT.ends[0], CHECKPOINT.writes[0], CHECKPOINT.marks
ROLL = CHECKPOINT.slice_index

FLAWS: list[tuple[str, dict[str, Any], str]] = [
    ("no nonce", {"nonce": NO_ID}, "no nonce, or a slice index from 0"),
    ("a slice index from the future", {"first": 3}, "no nonce, or a slice index from 3"),
    ("epoch -1", {"epoch": -1}, "epoch -1, time 0"),
    ("before 1970", {"created_ms": -1}, "epoch 0, time -1"),
    ("ends out of order", {"ends": CHECKPOINT.ends[::-1]}, UNSORTED),
    ("two ends of a partition", {"ends": (END, END._replace(offset=2000))}, UNSORTED),
    ("a producer twice", {"producers": (PRODUCER, PRODUCER._replace(epoch=3))}, UNSORTED),
    ("two writes of a query", {"writes": (WRITE, WRITE._replace(number=13))}, UNSORTED),
    ("marks out of order", {"marks": MARKS[::-1]}, UNSORTED),
    ("a mark twice", {"marks": (MARKS[0], MARKS[0]._replace(seen_ms=1))}, UNSORTED),
    ("a slice index out of order", {"slice_index": ROLL[::-1]}, UNSORTED),
    ("offsets in two bundles", {"slice_index": (ROLL[0], ROLL[0]._replace(seq=2))}, UNSORTED),
    ("an end at -1", {"ends": (END._replace(offset=-1),)}, "an end below 0"),
    ("an end of partition -1", {"ends": (END._replace(partition=-1),)}, "an end below 0"),
    ("a bundle past the last", {"slice_index": (ROLL[0]._replace(seq=3),)},
     "a slice index with bundles that are not in it"),
    ("a bundle before the first", {"first": 1, "slice_index": (ROLL[0]._replace(seq=0),)},
     "a slice index with bundles that are not in it"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "what"), [case[1:] for case in FLAWS], ids=[case[0] for case in FLAWS]
)
def test_a_checkpoint_that_cannot_be_is_neither_written_nor_read(
    change: dict[str, Any], what: str
) -> None:
    checkpoint = replace(EMPTY_POINT, **change)
    for attempt in (
        lambda: encode_checkpoint(checkpoint),
        lambda: decode_checkpoint(forge_checkpoint(checkpoint)),
    ):
        with pytest.raises(CorruptError, match=re.escape(what)) as caught:
            attempt()
        assert "checkpoint 2: " in caught.value.what
        assert caught.value.where == ".checkpoint"


@pytest.mark.parametrize("count", [0, KEPT_MAX + 1])
def test_a_producer_is_written_with_one_to_five_batches(count: int) -> None:
    kept = tuple(Kept(at, 0, at) for at in range(count))
    with pytest.raises(CorruptError, match="a producer without batches, or with more than 5"):
        encode_checkpoint(replace(EMPTY_POINT, producers=(PRODUCER._replace(kept=kept),)))


@pytest.mark.parametrize("kind", [EventKind.WRITE_COMMITTED, 4])
def test_only_what_stays_so_is_written_as_a_mark(kind: Any) -> None:
    with pytest.raises(CorruptError, match="a mark of something that does not stay so"):
        encode_checkpoint(replace(EMPTY_POINT, marks=(Mark(kind, GONE, 0),)))


UNFIT_POINTS: list[tuple[str, dict[str, Any]]] = [
    ("lane", {"lane": -1}),
    ("seq", {"seq": 1 << 64}),
    ("seq below 0", {"seq": -1, "first": -1}),
    ("epoch", {"epoch": 1 << 31}),
    ("nonce", {"nonce": b"short"}),
    ("leader", {"leader": b"longer than sixteen"}),
    ("topic of an end", {"ends": (END._replace(topic=b""),)}),
    ("offset of an end", {"ends": (END._replace(offset=1 << 63),)}),
    ("topic of a producer", {"producers": (PRODUCER._replace(topic=b"topic"),)}),
    ("epoch of a producer", {"producers": (PRODUCER._replace(epoch=1 << 15),)}),
    ("sequence", {"producers": (PRODUCER._replace(kept=(Kept(1 << 31, 0, 0),)),)}),
    ("query", {"writes": (WRITE._replace(query=b"query"),)}),
    ("write", {"writes": (WRITE._replace(write=b"write"),)}),
    ("mark", {"marks": (MARKS[0]._replace(id=b"id"),)}),
    ("time of a mark", {"marks": (MARKS[0]._replace(seen_ms=1 << 63),)}),
    ("topic of a slice", {"slice_index": (Rolled(1, ROLL[0].slice._replace(topic=b"topic")),)}),
    ("length of a slice", {"slice_index": (Rolled(1, ROLL[0].slice._replace(length=1 << 63)),)}),
]


@pytest.mark.parametrize(
    "change", [case[1] for case in UNFIT_POINTS], ids=[case[0] for case in UNFIT_POINTS]
)
def test_a_field_of_a_checkpoint_that_does_not_fit_is_not_cut(change: dict[str, Any]) -> None:
    refusal = "a field does not fit its place|an id has not 16 bytes"
    with pytest.raises(CorruptError, match=refusal) as caught:
        encode_checkpoint(replace(EMPTY_POINT, **change))
    assert caught.value.where == ".checkpoint"


# ---------------------------------------------------------------------------- golden files


@pytest.mark.parametrize("name", BUNDLES)
def test_golden_bundles_decode_for_ever(name: str) -> None:
    bundle, payload = BUNDLES[name]
    data = (HERE / name).read_bytes()
    assert read(data) == (bundle, payload)
    assert decode_directory(data[8 + len(payload) :], len(data)) == bundle


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_golden_checkpoints_decode_for_ever(name: str) -> None:
    assert decode_checkpoint((HERE / name).read_bytes()) == CHECKPOINTS[name]


@pytest.mark.parametrize("name", goldens())
def test_golden_objects_are_what_the_encoders_make(name: str) -> None:
    assert (HERE / name).read_bytes() == goldens()[name]


def test_every_golden_object_is_read() -> None:
    kept = {path.name for path in HERE.iterdir() if path.suffix in (".bundle", ".checkpoint")}
    assert kept == {*BUNDLES, *CHECKPOINTS}


@pytest.mark.parametrize(
    ("page", "name"),
    [
        ("bundle", "00000000000000000001.bundle"),
        ("checkpoint", "00000000000000000002.checkpoint"),
    ],
)
def test_the_bytes_on_the_page_are_those_of_the_encoder(page: str, name: str) -> None:
    text = (PAGES / f"{page}.md").read_text()
    block = text.split(f"<!-- bytes of {name} -->")[1].split("```")[1]
    shown = b""
    for line in block.splitlines()[1:]:
        found = re.match(r"([0-9a-f]{4})  ((?:[0-9a-f]{2} ?)+)", line)
        assert found, line
        assert int(found[1], 16) == len(shown)
        shown += bytes.fromhex(found[2])
    assert shown == goldens()[name]
