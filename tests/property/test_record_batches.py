"""Laws of the record batch codecs: the plain one, and the compiled one that must agree with it."""

import struct

import pyarrow as pa
import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from lakelog.errors import CorruptError, UnsupportedError
from lakelog.model import Record
from lakelog.records import (
    HEADER_BYTES,
    Codec,
    NewBatch,
    compress,
    decode_batch,
    decode_batches,
    decode_header,
    decompress,
    encode_batch,
    rebase,
)
from lakelog.records.columns import COLUMNS, arrow_schema
from tests.shorthands import decode_columns, encode_columns
from tests.strategies import base_offsets, new_batches

every_codec = pytest.mark.parametrize("codec", Codec, ids=lambda codec: codec.name.lower())


def to_arrow(batches: list[NewBatch], columns: tuple[str, ...] = COLUMNS) -> pa.Table:
    """What the compiled codec must give for these batches, made without it."""
    rows = [
        (record, batch.timestamp_type)
        for batch in batches
        if not batch.is_control
        for record in batch.records
    ]
    return pa.Table.from_pylist(
        [arrow_row(record, int(kind)) for record, kind in rows], schema=arrow_schema()
    ).select(list(columns))


def arrow_row(record: Record, kind: int) -> dict[str, object]:
    return {
        "key": record.key,
        "value": record.value,
        "offset": record.offset,
        "timestamp": record.timestamp * 1000,
        "timestampType": kind,
        "headers": [
            {
                "key": key.encode("utf-8", "surrogateescape").decode("utf-8", "replace"),
                "value": value,
            }
            for key, value in record.headers
        ]
        or None,
    }


def outcome(data: bytes) -> tuple[str, object]:
    """What the plain codec says of a run: its records, or its error."""
    try:
        return "records", [
            record
            for batch in decode_batches(data)
            if not batch.header.is_control
            for record in batch.records
        ]
    except (CorruptError, UnsupportedError) as error:
        return type(error).__name__, str(error)


def compiled_outcome(data: bytes, columns: tuple[str, ...]) -> tuple[str, object]:
    try:
        return "records", list(decode_columns(data, columns))
    except (CorruptError, UnsupportedError) as error:
        return type(error).__name__, str(error)


def reseal(batch: bytearray) -> bytearray:
    """Make the CRC right again, so that damage is found by what comes after it."""
    struct.pack_into(">I", batch, 17, crc32c(batch[21:]))
    return batch


@given(batch=new_batches())
def test_decode_inverts_encode(batch: NewBatch) -> None:
    found = decode_batch(encode_batch(batch))
    assert found.records == batch.records
    header = found.header
    assert (header.base_offset, header.next_offset) == (batch.base_offset, batch.next_offset)
    assert header.codec == (batch.codec if batch.records else Codec.NONE)
    assert header.timestamp_type == batch.timestamp_type
    assert header.is_transactional == batch.is_transactional
    assert header.is_control == batch.is_control
    assert header.delete_horizon == batch.delete_horizon
    assert (header.producer_id, header.producer_epoch) == (batch.producer_id, batch.producer_epoch)
    assert header.base_sequence == batch.base_sequence


@given(batch=new_batches(), data=st.data())
def test_every_proper_prefix_is_refused(batch: NewBatch, data: st.DataObject) -> None:
    whole = encode_batch(batch)
    with pytest.raises(CorruptError):
        decode_batch(whole[: data.draw(st.integers(0, len(whole) - 1))])


@given(batch=new_batches(), data=st.data())
def test_every_flipped_bit_the_crc_covers_is_noticed(batch: NewBatch, data: st.DataObject) -> None:
    damaged = bytearray(encode_batch(batch))
    bit = data.draw(st.integers(16 * 8, len(damaged) * 8 - 1))
    damaged[bit // 8] ^= 1 << (bit % 8)
    with pytest.raises((CorruptError, UnsupportedError)):
        decode_batch(damaged)


@given(batch=new_batches(), base_offset=base_offsets, leader_epoch=st.integers(0, 1 << 30))
def test_rebase_moves_a_batch_and_changes_nothing_else(
    batch: NewBatch, base_offset: int, leader_epoch: int
) -> None:
    before = encode_batch(batch)
    after = bytearray(before)
    rebase(after, base_offset=base_offset, leader_epoch=leader_epoch)
    assert after[8:12] == before[8:12]
    assert after[16:] == before[16:]
    moved = decode_batch(after)
    assert (moved.header.base_offset, moved.header.leader_epoch) == (base_offset, leader_epoch)
    assert [r.offset - base_offset for r in moved.records] == [
        r.offset - (batch.base_offset or 0) for r in batch.records
    ]


@given(noise=st.binary(max_size=200))
def test_noise_never_crashes_the_decoders(noise: bytes) -> None:
    kind, found = outcome(noise)
    assert kind == "records" if not noise else kind in ("CorruptError", "UnsupportedError"), found
    assert compiled_outcome(noise, COLUMNS)[0] == kind


@every_codec
@given(data=st.binary(max_size=3000), repeats=st.integers(1, 40))
def test_decompress_inverts_compress(codec: Codec, data: bytes, repeats: int) -> None:
    whole = data * repeats
    assert decompress(codec, compress(codec, whole)) == whole


@every_codec
@given(noise=st.binary(max_size=300), data=st.data())
def test_a_damaged_stream_raises_only_our_errors(
    codec: Codec, noise: bytes, data: st.DataObject
) -> None:
    stream = bytearray(compress(codec, noise * 3))
    for _ in range(data.draw(st.integers(1, 3))):
        if stream:
            at = data.draw(st.integers(0, len(stream) - 1))
            stream[at] = data.draw(st.integers(0, 255))
    try:
        found = decompress(codec, stream, size_max=4096)
    except (CorruptError, UnsupportedError):
        return
    assert len(found) <= 4096


# ------------------------------------------------------------------ the compiled codec


@given(batches=st.lists(new_batches(), max_size=4), data=st.data())
def test_columns_hold_what_the_plain_codec_reads(
    batches: list[NewBatch], data: st.DataObject
) -> None:
    run = b"".join(map(encode_batch, batches))
    columns = tuple(data.draw(st.lists(st.sampled_from(COLUMNS), unique=True, min_size=1)))
    rows_max = data.draw(st.integers(1, 30))
    bytes_max = data.draw(st.integers(1, 3000))
    pieces = list(decode_columns(run, columns, rows_max=rows_max, bytes_max=bytes_max))
    assert all(0 < piece.num_rows <= rows_max for piece in pieces)
    for piece in pieces:
        piece.validate(full=True)
    found = pa.Table.from_batches(pieces, arrow_schema(columns))
    assert found.combine_chunks().equals(to_arrow(batches, columns).combine_chunks())


@given(batches=st.lists(new_batches(), min_size=1, max_size=3), data=st.data())
def test_both_codecs_agree_on_every_damaged_run(
    batches: list[NewBatch], data: st.DataObject
) -> None:
    """Damage anywhere, with the CRC resealed, so that the records themselves are on trial."""
    pieces = [bytearray(encode_batch(batch)) for batch in batches]
    chosen = data.draw(st.integers(0, len(pieces) - 1))
    piece = pieces[chosen]
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(piece) - 1))
        piece[at] = data.draw(st.sampled_from((0, 1, 2, 0x7F, 0x80, 0xFF)) | st.integers(0, 255))
    if data.draw(st.booleans()):
        del piece[data.draw(st.integers(HEADER_BYTES, len(piece))) :]
        struct.pack_into(">i", piece, 8, len(piece) - 12)
    if data.draw(st.integers(0, 9)):
        reseal(piece)
    run = b"".join(pieces)
    columns = data.draw(st.sampled_from((COLUMNS, ("offset",), ("headers",), ("key", "value"))))
    kind, found = outcome(run)
    compiled_kind, compiled = compiled_outcome(run, columns)
    if compiled_kind == "UnsupportedError" and "microseconds" in str(compiled):
        assert "timestamp" in columns
        assert _has_absurd_time(run)
    else:
        assert compiled_kind == kind
        if kind == "records":
            assert isinstance(compiled, list)
            assert isinstance(found, list)
            assert sum(piece.num_rows for piece in compiled) == len(found)
        else:
            assert compiled == found


def _has_absurd_time(run: bytes) -> bool:
    """Whether a record before the first damage has a time no Arrow timestamp can hold."""
    try:
        for batch in decode_batches(run):
            if any(abs(record.timestamp) > (1 << 63) // 1000 for record in batch.records):
                return True
    except (CorruptError, UnsupportedError):
        # The compiled codec meets the time first when both are in one batch.
        return True
    return False


@given(batches=st.lists(new_batches(), max_size=3), data=st.data())
def test_offsets_outside_the_range_are_left_out(
    batches: list[NewBatch], data: st.DataObject
) -> None:
    run = b"".join(map(encode_batch, batches))
    offsets = [r.offset for b in batches if not b.is_control for r in b.records]
    low = data.draw(st.sampled_from(offsets) if offsets else st.just(0))
    high = low + data.draw(st.integers(0, 20))
    pieces = decode_columns(run, ("offset",), offset_from=low, offset_to=high)
    found = [offset for piece in pieces for offset in piece.column(0).to_pylist()]
    assert found == [offset for offset in offsets if low <= offset < high]


@given(batch=new_batches(), data=st.data())
def test_columns_survive_a_round_trip(batch: NewBatch, data: st.DataObject) -> None:
    columns = to_arrow([batch]).combine_chunks()
    if not columns.num_rows:
        return
    source = columns.to_batches()[0]
    start = data.draw(st.integers(0, source.num_rows - 1))
    source = source.slice(start)
    run = encode_columns(
        source,
        codec=data.draw(st.sampled_from(Codec)),
        records_max=data.draw(st.integers(1, 20)),
        batch_bytes=data.draw(st.integers(1, 2000)),
    )
    plain = [record for found in decode_batches(run) for record in found.records]
    assert [r.offset for r in plain] == source.column("offset").to_pylist()
    found = pa.Table.from_batches(decode_columns(run), arrow_schema())
    assert found.combine_chunks().equals(pa.Table.from_batches([source]).combine_chunks())


@given(batch=new_batches())
def test_the_compiled_encoder_writes_the_plain_encoders_bytes(batch: NewBatch) -> None:
    if not batch.records or batch.is_control:
        return
    plain = NewBatch(
        records=[
            Record(offset=r.offset, timestamp=r.timestamp, key=r.key, value=r.value)
            for r in batch.records
        ],
        codec=batch.codec,
        timestamp_type=batch.timestamp_type,
    )
    source = to_arrow([plain]).combine_chunks().to_batches()[0]
    assert encode_columns(source, codec=batch.codec).to_pybytes() == encode_batch(plain)


@given(batch=new_batches(), data=st.data())
def test_a_header_says_what_its_batch_says(batch: NewBatch, data: st.DataObject) -> None:
    whole = encode_batch(batch)
    before = data.draw(st.binary(max_size=5))
    assert decode_header(before + whole, len(before)) == decode_batch(whole).header
