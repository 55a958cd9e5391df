"""Segments from Arrow: what is refused, and by whom; memory that must grow on the way."""

from typing import Any

import pyarrow as pa
import pytest

from lakelog.errors import CorruptError, InvalidInputError
from lakelog.formats import FORMATS, Format, growing, kafkalog, kafs, kernels_encode, strm
from lakelog.formats.strm import layout as strm_layout
from lakelog.formats.writing import SegmentFiles, SegmentWriter, new_segment, segment_of_batches
from lakelog.model import Header, Record
from lakelog.records import Codec, NewBatch, encode_batch
from lakelog.records.columns import arrow_schema
from lakelog.records.kernels.fields import BAD
from tests.plain_encoders import encode, encode_kafka_log, encode_strm
from tests.property.test_record_batches import arrow_row
from tests.segments import decode

KAFS, STRM, RUSTLOG, KAFKALOG = (FORMATS[name] for name in ("kafs", "strm", "rustlog", "kafkalog"))
every_format = pytest.mark.parametrize("fmt", FORMATS.values(), ids=lambda fmt: fmt.name)


def record(offset: int, **fields: Any) -> Record:
    return Record(**{"offset": offset, "timestamp": 1000, "key": None, "value": b"v", **fields})


def columns(*found: Record) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([arrow_row(one, 0) for one in found], schema=arrow_schema())


def begin(fmt: Format, **settings: Any) -> SegmentWriter:
    return new_segment(fmt, **{"topic": "orders", "partition": 0, **settings})


def as_bytes(files: SegmentFiles) -> dict[str, bytes]:
    return {suffix: bytes(memoryview(data)) for suffix, data in files.items()}


# ---------------------------------------------------------------------------- settings


@pytest.mark.parametrize(
    ("fmt", "settings", "message"),
    [
        (STRM, {"codec": Codec.GZIP}, "choose from: none, lz4, zstd"),
        (RUSTLOG, {"codec": Codec.ZSTD}, "choose from: none"),
        (KAFS, {"codec": Codec.ZSTD, "level": 99}, "level 99 of zstd"),
        (KAFS, {"codec": Codec.GZIP, "level": 99}, "level 99 of gzip"),
        (KAFS, {"block_bytes": 0}, "batch_bytes must be at least 1"),
        (STRM, {"block_bytes": 0}, "blocks of 0 bytes, choose from 1"),
        (STRM, {"block_bytes": 1 << 30}, "blocks of 1073741824 bytes"),
        (STRM, {"partition": -1}, "partition -1"),
        (STRM, {"created_ms": 1 << 63}, "creation time"),
    ],
)
def test_a_setting_is_refused_before_anything_is_written(
    fmt: Format, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidInputError, match=message):
        begin(fmt, **settings)


def test_strm_is_lz4_unless_another_codec_is_named() -> None:
    """By columns and by records alike."""
    found = [record(0, value=b"v" * 1000)]
    writer = begin(STRM, created_ms=0)
    writer.add(columns(*found))
    files = as_bytes(writer.finish())
    assert strm.decode_header(files[".seg"][:64]).codec is Codec.LZ4
    assert files == {".seg": encode_strm(found, topic="orders", created_ms=0)}


def test_batches_are_not_compressed_unless_a_codec_is_named() -> None:
    default, named = begin(KAFS, created_ms=0), begin(KAFS, created_ms=0, codec=Codec.NONE)
    for writer in (default, named):
        writer.add(columns(record(0, value=b"v" * 1000)))
    assert as_bytes(default.finish()) == as_bytes(named.finish())


def test_a_level_changes_the_bytes_and_not_the_records() -> None:
    found = tuple(record(at, value=b"%d abc " % at * 50) for at in range(2000))
    for codec, level in ((Codec.ZSTD, 15), (Codec.LZ4, 9), (Codec.LZ4, -20)):
        plain, other = begin(STRM, codec=codec), begin(STRM, codec=codec, level=level)
        plain.add(columns(*found))
        other.add(columns(*found))
        files = as_bytes(other.finish())
        assert files != as_bytes(plain.finish())
        assert decode(STRM, files, base_offset=0) == found


# ---------------------------------------------------------------------------- offsets


@every_format
def test_offsets_rise_over_all_calls(fmt: Format) -> None:
    writer = begin(fmt)
    writer.add(columns(record(5), record(6)))
    with pytest.raises(InvalidInputError, match="offset 6 behind 6; sort the records"):
        writer.add(columns(record(6)))


@every_format
def test_offsets_rise_within_a_call(fmt: Format) -> None:
    with pytest.raises(InvalidInputError, match="offsets must rise"):
        begin(fmt).add(columns(record(6), record(6)))


@every_format
def test_no_record_lies_below_the_base_offset(fmt: Format) -> None:
    with pytest.raises(InvalidInputError, match="begin at 5, below base offset 6; name the segm"):
        begin(fmt, base_offset=6).add(columns(record(5)))


def test_an_strm_segment_is_named_after_its_first_record() -> None:
    writer = begin(STRM, base_offset=4)
    writer.add(columns(record(5)))
    with pytest.raises(InvalidInputError, match="begins at its first record, 5; leave out base"):
        writer.finish()


@every_format
def test_a_column_that_is_needed_is_missed(fmt: Format) -> None:
    with pytest.raises(InvalidInputError, match="column timestamp is missing"):
        begin(fmt).add(columns(record(5)).drop_columns(["timestamp"]))


# ---------------------------------------------------------------------------- sizes


@pytest.mark.parametrize("fmt", [KAFS, STRM], ids=lambda fmt: fmt.name)
def test_a_sealed_segment_holds_at_least_one_record(fmt: Format) -> None:
    writer = begin(fmt)
    writer.add(columns())
    with pytest.raises(InvalidInputError, match=r"at least one (record|batch)"):
        writer.finish()


@pytest.mark.parametrize("fmt", [RUSTLOG, KAFKALOG], ids=lambda fmt: fmt.name)
def test_a_log_may_be_empty(fmt: Format) -> None:
    writer = begin(fmt, base_offset=7)
    writer.add(columns())
    assert as_bytes(writer.finish()) == encode(fmt, [], Codec.NONE)


@pytest.mark.parametrize(
    ("fmt", "module", "limit"),
    [(KAFS, kafs.segment, "SEGMENT_BYTES_MAX"), (KAFKALOG, kafkalog.segment, "LOG_BYTES_MAX")],
    ids=["kafs", "kafkalog"],
)
def test_a_segment_that_is_too_large_is_refused(
    fmt: Format, module: Any, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, limit, 1000)
    writer = begin(fmt)
    writer.add(columns(record(0, value=bytes(1000))))
    with pytest.raises(InvalidInputError, match=r"\d+ bytes do not fit one .*; end it earlier"):
        writer.finish()


def test_an_strm_segment_of_too_many_blocks_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strm_layout, "INDEX_ENTRIES_MAX", 2)
    writer = begin(STRM, block_bytes=1)
    writer.add(columns(*map(record, range(3))))
    with pytest.raises(InvalidInputError, match="3 blocks, a segment holds 2; use larger blocks"):
        writer.finish()


def test_an_strm_record_that_fills_more_than_a_block_is_refused() -> None:
    writer = begin(STRM)
    writer.add(columns(record(3, value=bytes(strm.BLOCK_BYTES_MAX))))
    with pytest.raises(InvalidInputError, match="the record at offset 3 takes 671"):
        writer.finish()


@every_format
def test_memory_grows_as_it_must(fmt: Format, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growing, "_BYTES_AT_FIRST", 64)
    found = [record(at, value=bytes([at]) * (1000 * at)) for at in range(100)]
    found += [record(100, value=b"x" * 300_000), record(101)]
    writer = begin(fmt, block_bytes=2000)
    writer.add(columns(*found[:60]))
    writer.add(columns(*found[60:]))
    assert decode(fmt, as_bytes(writer.finish()), base_offset=0) == tuple(found)


@pytest.mark.parametrize("codec", sorted(STRM.carries.codecs), ids=lambda codec: codec.name)
def test_the_first_headers_come_after_many_blocks(codec: Codec) -> None:
    headed = record(900, headers=(Header("h", None),))
    found = [*(record(at, key=b"k" * (at % 90), value=None) for at in range(900)), headed]
    writer = begin(STRM, codec=codec, block_bytes=500, created_ms=0)
    for at in range(0, len(found), 100):
        writer.add(columns(*found[at : at + 100]))
    plain = encode_strm(found, topic="orders", codec=codec, block_bytes=500)
    assert as_bytes(writer.finish()) == {".seg": plain}


# ---------------------------------------------------------------------------- RustLog


@pytest.mark.parametrize(
    "bad",
    [
        record(7, key=b""),
        record(7, value=None),
        record(7, headers=(Header("h", None),)),
        record(7, timestamp=-1),
        record(7, value=bytes(10 * 1024 * 1024 + 1)),
    ],
    ids=["key", "null value", "headers", "time", "payload"],
)
def test_rustlog_refuses_in_the_words_of_the_plain_encoder(bad: Record) -> None:
    with pytest.raises(InvalidInputError, match="at offset 7") as plain:
        encode(RUSTLOG, [bad], Codec.NONE)
    with pytest.raises(InvalidInputError) as compiled:
        begin(RUSTLOG).add(columns(record(5), bad, record(9)))
    assert str(compiled.value) == str(plain.value)


def test_rustlog_refuses_a_string_in_the_same_words() -> None:
    row = columns(record(7, key=b"k"))
    row = row.set_column(0, "key", row.column("key").cast(pa.string()))
    with pytest.raises(InvalidInputError, match="a key at offset 7"):
        begin(RUSTLOG).add(row)


def test_codecs_that_disagree_are_a_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels_encode, "encode_rustlog", lambda *_: BAD)
    with pytest.raises(AssertionError, match="disagree at offset 5"):
        begin(RUSTLOG).add(columns(record(5)))


# ---------------------------------------------------------------------------- batches as they are

BATCH = encode_batch(NewBatch(records=(record(5),)))


@pytest.mark.parametrize("fmt", [STRM, RUSTLOG], ids=lambda fmt: fmt.name)
def test_only_some_formats_hold_batches(fmt: Format) -> None:
    with pytest.raises(InvalidInputError, match="holds no record batches; decode and write them"):
        segment_of_batches(fmt, BATCH, base_offset=5, created_ms=None)


@pytest.mark.parametrize("fmt", [KAFS, KAFKALOG], ids=lambda fmt: fmt.name)
def test_batches_below_the_base_offset_are_refused(fmt: Format) -> None:
    with pytest.raises(InvalidInputError, match="begin at 5, below base offset 6; name the segm"):
        segment_of_batches(fmt, BATCH, base_offset=6, created_ms=None)


@pytest.mark.parametrize("fmt", [KAFS, KAFKALOG], ids=lambda fmt: fmt.name)
def test_batches_that_are_damaged_are_refused(fmt: Format) -> None:
    with pytest.raises(CorruptError, match="CRC-32C"):
        segment_of_batches(fmt, BATCH[:-1] + b"\xff", base_offset=5, created_ms=None)


def test_no_batches_are_no_kafs_segment_but_a_kafka_log() -> None:
    with pytest.raises(InvalidInputError, match=r"at least one (record|batch)"):
        segment_of_batches(KAFS, b"", base_offset=5, created_ms=None)
    files = segment_of_batches(KAFKALOG, b"", base_offset=5, created_ms=None)
    assert as_bytes(files) == encode_kafka_log(b"", base_offset=5)


def test_a_segment_made_before_1970_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="created at -1"):
        segment_of_batches(KAFS, BATCH, base_offset=5, created_ms=-1)
