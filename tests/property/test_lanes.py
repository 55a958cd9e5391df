"""Laws of the objects of a lane: bundles and checkpoints.

Both are sealed: a checksum covers the directory, another the payload. So every cut and every
flipped bit is noticed. The harder law is about what no checksum notices, because a writer made it
so: the decoder accepts exactly what the encoder can write. It is tried from both sides: values that
may be impossible, put into bytes by hand (``forged_lanes``, which judges nothing), and good bytes
that are damaged under good checksums.
"""

from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakelog.errors import CorruptError, UnsupportedError
from lakelog.formats.lanes import (
    FOOTER_BYTES,
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
from lakelog.records import OFFSET_MAX
from tests.fuzz.reseal import reseal_lane
from tests.golden.lanes.make import goldens
from tests.strategies import base_offsets
from tests.unit.formats.forged_lanes import TYPES, forge_bundle, forge_checkpoint

Refused = (CorruptError, UnsupportedError)
half = settings(max_examples=settings().max_examples // 2)

# ---------------------------------------------------------------------------- what is drawn


def edges(kind: str) -> tuple[int, int]:
    """The least and the greatest number of a type, such as ``i32``."""
    bits = int(kind[1:])
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if kind[0] == "i" else (0, (1 << bits) - 1)


def numbers(kind: str, least: int | None = None) -> st.SearchStrategy[int]:
    """Numbers of a type, from ``least`` on: small ones, and any."""
    low, high = edges(kind)
    low = low if least is None else least
    return st.integers(low, min(high, max(low, 0) + 9)) | st.integers(low, high)


_POOL = (NO_ID, b"\0" * 15 + b"\1", b"0123456789abcdef", b"\x80" + b"\0" * 15, b"\xff" * 16)
ids = st.sampled_from(_POOL) | st.binary(min_size=16, max_size=16)
some_ids = ids.filter(lambda found: found != NO_ID)
seqs = st.integers(0, 3) | numbers("u64")
places = st.tuples(ids, st.integers(0, 2) | numbers("i32", 0))

ROWS = st.builds(
    BatchRow,
    producer_id=numbers("i64"),
    crc=numbers("u32"),
    length=st.integers(61, 75),
    last_offset_delta=numbers("i32", 0),
    base_sequence=numbers("i32"),
    producer_epoch=numbers("i16"),
    attributes=numbers("u16"),
)
EVENTS = st.builds(
    Event,
    kind=st.sampled_from(sorted(set(EventKind) - {EventKind.PARTITION_BEGINS})),
    id=some_ids,
    query=ids,
    number=numbers("i64", 0),
).map(
    lambda event: (
        event._replace(query=NO_ID, number=0) if event.kind is EventKind.TOPIC_DELETED else event
    )
)
BEGINS = st.builds(
    Event.begins, some_ids, st.integers(0, 0x7FFFFFFF), st.integers(1, OFFSET_MAX - 1)
)


class Stored(NamedTuple):
    """A bundle and what it carries."""

    bundle: Bundle
    payload: bytes

    @property
    def data(self) -> bytes:
        return encode_bundle(self.bundle, [self.payload])


@st.composite
def bundles(draw: st.DrawFn) -> Stored:
    """Good bundles: any number of partitions, some of them in several slices, stored or staged."""
    seq = draw(seqs)
    events = tuple(draw(st.lists(EVENTS | BEGINS, max_size=3)))
    commits = [at for at, event in enumerate(events) if event.kind is EventKind.WRITE_COMMITTED]
    slices: list[Slice] = []
    batches: list[BatchRow] = []
    at = 8
    for place in sorted(draw(st.lists(places, max_size=4))):
        follows = bool(slices) and slices[-1].topic_partition == place
        base = slices[-1].next_offset if follows else draw(base_offsets)
        times = draw(numbers("i64")), draw(numbers("i64"))
        staged = draw(st.booleans())
        if commits and staged:
            offsets, position = draw(st.integers(1, 1 << 40)), draw(numbers("i64", 0))
            length, part = draw(numbers("i64", 61)), draw(numbers("i32", 0))
            write = draw(st.sampled_from(commits))
            slices.append(
                Slice(*place, 0, base, offsets, position, length, *times, write=write, part=part)
            )
            continue
        mine = draw(st.lists(ROWS, min_size=1, max_size=3))
        offsets = sum(row.last_offset_delta + 1 for row in mine)
        length = sum(row.length for row in mine)
        slices.append(Slice(*place, len(mine), base, offsets, at, length, *times))
        batches += mine
        at += length
    pattern = draw(st.binary(min_size=1, max_size=8))
    bundle = Bundle(
        lane=draw(numbers("u32")),
        seq=seq,
        created_ms=draw(numbers("i64", 0)),
        checkpoint=draw(st.integers(-1, min(seq - 1, edges("i64")[1]))),
        epoch=draw(numbers("i32", 0)),
        writer=draw(ids),
        nonce=draw(some_ids),
        previous=draw(some_ids) if seq else NO_ID,
        bulk=draw(st.booleans()),
        slices=tuple(slices),
        batches=tuple(batches),
        events=events,
    )
    return Stored(bundle, (pattern * at)[: at - 8])


KEPT = st.builds(Kept, numbers("i32"), numbers("i32"), numbers("i64"))
SLICES = st.builds(
    Slice,
    *(ids if kind == "id" else numbers(kind) for kind in TYPES["slice"].split()),
)


def table(rows: st.SearchStrategy[Any], *, key: Any) -> st.SearchStrategy[tuple[Any, ...]]:
    """Rows in the order of their key, none of them twice."""
    unique = st.lists(rows, max_size=3, unique_by=key)
    return unique.map(lambda found: tuple(sorted(found, key=key)))


@st.composite
def checkpoints(draw: st.DrawFn) -> Checkpoint:
    """Good checkpoints."""
    seq = draw(seqs)
    first = draw(st.integers(max(0, seq - 3), seq) | st.integers(0, seq))
    return Checkpoint(
        lane=draw(numbers("u32")),
        seq=seq,
        epoch=draw(numbers("i32", 0)),
        created_ms=draw(numbers("i64", 0)),
        nonce=draw(some_ids),
        leader=draw(ids),
        first=first,
        ends=draw(_ENDS),
        producers=draw(_PRODUCERS),
        writes=draw(_WRITES),
        marks=draw(_MARKS),
        slice_index=draw(
            table(
                st.builds(Rolled, st.integers(first, seq), SLICES, numbers("i32")),
                key=lambda row: (*row.slice.topic_partition, row.slice.base_offset),
            )
        ),
    )


_ENDS = table(
    st.builds(End, ids, numbers("i32", 0), numbers("i64", 0)), key=lambda row: row[:2]
)  # fmt: skip
_PRODUCERS = table(
    st.builds(
        Producer,
        topic=ids,
        partition=numbers("i32"),
        producer_id=numbers("i64"),
        epoch=numbers("i16"),
        seen_ms=numbers("i64"),
        kept=st.lists(KEPT, min_size=1, max_size=5).map(tuple),
    ),
    key=lambda row: row[:3],
)
_WRITES = table(
    st.builds(Write, ids, numbers("i64"), ids, numbers("i64")), key=lambda row: row[:1]
)  # fmt: skip
_MARKS = table(
    st.builds(
        Mark,
        st.sampled_from((EventKind.TOPIC_DELETED, EventKind.WRITE_ABORTED)),
        ids,
        numbers("i64"),
    ),
    key=lambda row: row[:2],
)

BUNDLES, CHECKPOINTS = bundles(), checkpoints()

objects = BUNDLES.map(lambda stored: stored.data) | CHECKPOINTS.map(encode_checkpoint)
"""The bytes of either kind."""


def read(data: bytes) -> Stored | Checkpoint:
    """Read an object as what its first bytes say it is."""
    if data[:4] == b"KAFC":
        return decode_checkpoint(data)
    bundle, payload = decode_bundle(data)
    return Stored(bundle, bytes(payload))


def written(value: Stored | Checkpoint) -> bytes:
    return value.data if isinstance(value, Stored) else encode_checkpoint(value)


def flipped(data: bytes, bit: int) -> bytes:
    out = bytearray(data)
    out[bit // 8] ^= 1 << (bit % 8)
    return bytes(out)


# ---------------------------------------------------------------------------- good objects


@given(stored=BUNDLES)
def test_decode_inverts_encode_of_bundles(stored: Stored) -> None:
    assert read(stored.data) == stored


@given(checkpoint=CHECKPOINTS)
def test_decode_inverts_encode_of_checkpoints(checkpoint: Checkpoint) -> None:
    assert read(encode_checkpoint(checkpoint)) == checkpoint


@given(stored=BUNDLES, data=st.data())
def test_equal_bundles_give_equal_bytes_in_however_many_pieces(
    stored: Stored, data: st.DataObject
) -> None:
    bundle, payload = stored
    again = replace(bundle, slices=tuple(row._replace() for row in bundle.slices))
    sizes = data.draw(st.lists(st.integers(0, len(payload)), max_size=3))
    cuts = sorted({0, *(cut for cut in accumulate(sizes) if cut < len(payload))})
    ends = [*cuts[1:], len(payload)]
    pieces = [payload[start:end] for start, end in zip(cuts, ends, strict=True)]
    assert encode_bundle(again, pieces) == stored.data


@given(checkpoint=CHECKPOINTS)
def test_equal_checkpoints_give_equal_bytes(checkpoint: Checkpoint) -> None:
    again = replace(checkpoint, ends=tuple(End(*row) for row in checkpoint.ends))
    assert encode_checkpoint(again) == encode_checkpoint(checkpoint)


@given(stored=BUNDLES)
def test_bundles_are_laid_out_as_the_page_says(stored: Stored) -> None:
    assert stored.data == forge_bundle(*stored)


@given(checkpoint=CHECKPOINTS)
def test_checkpoints_are_laid_out_as_the_page_says(checkpoint: Checkpoint) -> None:
    assert encode_checkpoint(checkpoint) == forge_checkpoint(checkpoint)


@given(stored=BUNDLES, data=st.data())
def test_an_end_that_holds_the_directory_is_enough_and_less_is_refused(
    stored: Stored, data: st.DataObject
) -> None:
    whole = stored.data
    start = bundle_directory_start(whole[-FOOTER_BYTES:], len(whole))
    assert start == 8 + len(stored.payload)
    enough = data.draw(st.integers(0, start))
    assert decode_directory(whole[enough:], len(whole)) == stored.bundle
    less = data.draw(st.integers(start + 1, len(whole)))
    with pytest.raises(CorruptError, match="of its bytes are here"):
        decode_directory(whole[less:], len(whole))


# ---------------------------------------------------------------------------- damage


@given(whole=objects, data=st.data())
def test_every_proper_prefix_is_refused(whole: bytes, data: st.DataObject) -> None:
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]
    for decode in (decode_bundle, decode_checkpoint):
        with pytest.raises(Refused):
            decode(cut)
    with pytest.raises(Refused):
        decode_directory(cut, len(cut))
    # As when an object was listed, and then overwritten by a shorter one.
    with pytest.raises(Refused):
        decode_directory(cut, len(whole))


@given(whole=objects, data=st.data())
def test_every_flipped_bit_is_noticed(whole: bytes, data: st.DataObject) -> None:
    for _ in range(5):
        bit = data.draw(st.integers(0, len(whole) * 8 - 1))
        with pytest.raises(Refused):
            read(flipped(whole, bit))


@given(stored=BUNDLES, data=st.data())
def test_every_flipped_bit_of_directory_and_footer_is_noticed_in_the_end_alone(
    stored: Stored, data: st.DataObject
) -> None:
    whole = stored.data
    for _ in range(5):
        bit = data.draw(st.integers((8 + len(stored.payload)) * 8, len(whole) * 8 - 1))
        damaged = flipped(whole, bit)
        with pytest.raises(Refused):
            decode_directory(damaged, len(damaged))


@given(stored=BUNDLES, wrong=st.integers(-99, 99).filter(bool))
def test_an_object_of_another_size_is_refused(stored: Stored, wrong: int) -> None:
    whole = stored.data
    with pytest.raises(Refused):
        decode_directory(whole, max(0, len(whole) + wrong))


@pytest.mark.parametrize("name", goldens())
def test_no_cut_and_no_bit_of_one_object_escapes(name: str) -> None:
    """The laws again, with nothing left to chance."""
    whole = goldens()[name]
    kind = whole[:4]
    decode = decode_checkpoint if kind == b"KAFC" else decode_bundle
    start = int.from_bytes(whole[-24:-16], "big")
    for length in range(len(whole)):
        with pytest.raises(Refused):
            decode(whole[:length])
    for bit in range(len(whole) * 8):
        damaged = flipped(whole, bit)
        with pytest.raises(Refused):
            decode(damaged)
        if kind == b"KAFB" and bit >= start * 8:
            with pytest.raises(Refused):
                decode_directory(damaged[start:], len(damaged))


def tried(data: bytes, size: int) -> None:
    """Read bytes in every way. Nothing but our own errors comes out."""
    for decode in (
        decode_bundle,
        decode_checkpoint,
        lambda noise: decode_directory(noise, size),
        lambda noise: bundle_directory_start(noise, size),
    ):
        with suppress(*Refused):
            decode(data)


@given(noise=st.binary(max_size=300), size=st.integers(0, 400))
def test_noise_is_refused_or_read_and_never_breaks_anything(noise: bytes, size: int) -> None:
    tried(noise, size)


@given(
    magic=st.sampled_from((b"KAFB", b"KAFC")),
    noise=st.binary(max_size=300),
    position=st.integers(8, 40),
    size=st.integers(0, 400),
)
def test_noise_in_a_good_frame_is_refused_or_read_and_never_breaks_anything(
    magic: bytes, noise: bytes, position: int, size: int
) -> None:
    start = min(position, 8 + len(noise)).to_bytes(8, "big")
    data = reseal_lane(magic + b"\0\1\0\0" + noise + start + bytes(12) + magic[::-1])
    tried(data, len(data))
    tried(data, size)


# ---------------------------------------------------------------------------- what cannot be


@given(whole=objects, data=st.data())
def test_what_is_accepted_under_good_checksums_could_have_been_written(
    whole: bytes, data: st.DataObject
) -> None:
    start = int.from_bytes(whole[-24:-16], "big")
    damaged = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(start, len(whole) - 1) | st.integers(start, start + 99))
        damaged[at % len(whole)] = data.draw(st.sampled_from((0, 1, 2, 3, 0x7F, 0x80, 0xFF)))
    resealed = reseal_lane(bytes(damaged))
    try:
        found = read(resealed)
    except Refused:
        return
    assert written(found) == resealed


@pytest.mark.parametrize("name", goldens())
def test_each_bit_under_good_checksums_is_refused_or_could_have_been_written(name: str) -> None:
    """The law again, with nothing left to chance."""
    whole = goldens()[name]
    start = int.from_bytes(whole[-24:-16], "big")
    for bit in range(start * 8, len(whole) * 8):
        resealed = reseal_lane(flipped(whole, bit))
        try:
            found = read(resealed)
        except Refused:
            continue
        assert written(found) == resealed


@dataclass(frozen=True)
class Place:
    """One field of a value: of the value itself, or of a row of one of its tables."""

    table: str
    row: int
    field: str
    kind: str

    def get(self, value: Any) -> Any:
        holder = getattr(value, self.table)[self.row] if self.table else value
        holder = holder.slice if self.table == "slice_index" and self.field != "seq" else holder
        return getattr(holder, self.field)

    def put(self, value: Any, new: Any) -> Any:
        """Return the value with another field."""
        if not self.table:
            return replace(value, **{self.field: new})
        rows = list(getattr(value, self.table))
        if self.table == "slice_index" and self.field != "seq":
            slice_ = rows[self.row].slice._replace(**{self.field: new})
            rows[self.row] = rows[self.row]._replace(slice=slice_)
        else:
            rows[self.row] = rows[self.row]._replace(**{self.field: new})
        return replace(value, **{self.table: tuple(rows)})


HEADS = {
    "bundle": "lane u32 seq u64 created_ms i64 checkpoint i64 epoch i32 writer id nonce id "
    "previous id",
    "checkpoint": "lane u32 epoch i32 seq u64 created_ms i64 nonce id leader id first u64",
}
TABLES: dict[str, tuple[str, tuple[str, ...]]] = {
    "slices": ("slice", Slice._fields),
    "batches": ("batch", BatchRow._fields),
    "events": ("event", Event._fields),
    "ends": ("end", End._fields),
    "producers": ("producer", ("topic", "partition", "producer_id", "epoch", "kept", "seen_ms")),
    "writes": ("write", Write._fields),
    "marks": ("mark", Mark._fields),
    "slice_index": ("rolled", ("seq", *Slice._fields)),
}


def fields(value: Bundle | Checkpoint) -> list[Place]:
    """Every field of a value."""
    words = HEADS["bundle" if isinstance(value, Bundle) else "checkpoint"].split()
    found = [Place("", 0, *pair) for pair in zip(words[::2], words[1::2], strict=True)]
    for name, (row, names) in TABLES.items():
        kinds = TYPES[row].split()[: len(names)]
        found += [
            # The batches of a producer, and how many there are, are one field of it.
            Place(name, at, field, "kept" if field == "kept" else kind)
            for at in range(len(getattr(value, name, ())))
            for field, kind in zip(names, kinds, strict=True)
        ]
    return found


def drawn_place(data: st.DataObject, value: Bundle | Checkpoint) -> Place:
    """A field of any kind of row, as likely of one kind as of the other."""
    found = fields(value)
    table = data.draw(st.sampled_from(sorted({place.table for place in found})))
    return data.draw(st.sampled_from([place for place in found if place.table == table]))


def changed(data: st.DataObject, value: Any) -> Any:
    """The value with a field that may be impossible, or with rows gone, doubled or moved."""
    names = [name for name in TABLES if getattr(value, name, ())]
    if names and data.draw(st.integers(0, 3), label="rows") == 0:
        name = data.draw(st.sampled_from(names))
        rows = list(getattr(value, name))
        at = data.draw(st.integers(0, len(rows) - 1))
        moves = {"gone": [], "twice": [rows[at]] * 2}
        rows[at : at + 1] = moves[data.draw(st.sampled_from(sorted(moves)))]
        if data.draw(st.booleans()):
            rows.reverse()
        return replace(value, **{name: tuple(rows)})
    place = drawn_place(data, value)
    if place.kind == "id":
        return place.put(value, data.draw(ids))
    if place.kind == "kept":
        return place.put(value, data.draw(st.just(()) | st.lists(KEPT, max_size=5).map(tuple)))
    old, (low, high) = place.get(value), edges(place.kind)
    new = data.draw(st.sampled_from((low, high, -2, -1, 0, 1, 2, 4, 60, old - 1, old + 1)))
    return place.put(value, min(max(new, low), high))


@given(stored=BUNDLES, data=st.data())
def test_bundles_that_are_not_written_are_not_read_either(
    stored: Stored, data: st.DataObject
) -> None:
    for _ in range(4):
        value = Stored(changed(data, stored.bundle), stored.payload)
        forged = forge_bundle(*value)
        try:
            made = value.data
        except CorruptError:
            with pytest.raises(Refused):
                decode_bundle(forged)
            with pytest.raises(Refused):
                decode_directory(forged, len(forged))
        else:
            assert made == forged
            assert read(forged) == value


@given(checkpoint=CHECKPOINTS, data=st.data())
def test_checkpoints_that_are_not_written_are_not_read_either(
    checkpoint: Checkpoint, data: st.DataObject
) -> None:
    for _ in range(4):
        value = changed(data, checkpoint)
        forged = forge_checkpoint(value)
        try:
            made = encode_checkpoint(value)
        except CorruptError:
            with pytest.raises(Refused):
                decode_checkpoint(forged)
        else:
            assert made == forged
            assert read(forged) == value


@half
@given(value=st.one_of(BUNDLES, CHECKPOINTS), data=st.data())
def test_a_field_that_does_not_fit_its_place_is_never_written(
    value: Stored | Checkpoint, data: st.DataObject
) -> None:
    holder = value.bundle if isinstance(value, Stored) else value
    place = drawn_place(data, holder)
    if place.kind == "id":
        unfit: Any = data.draw(st.binary(max_size=40).filter(lambda found: len(found) != 16))
    elif place.kind == "kept":
        unfit = tuple(data.draw(st.lists(KEPT, min_size=6, max_size=8)))
    else:
        low, high = edges(place.kind)
        unfit = data.draw(st.sampled_from((low - 1, high + 1, -(1 << 70), 1 << 70)))
    broken = place.put(holder, unfit)
    again = Stored(broken, value.payload) if isinstance(value, Stored) else broken
    with pytest.raises(CorruptError):
        written(again)
