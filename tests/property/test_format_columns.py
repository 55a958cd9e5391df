"""Every format as Arrow: the compiled scan gives what the plain reader gives, damage included."""

from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.errors import CorruptError, UnsupportedError
from lakelog.formats import FORMATS, Files, Format, drive_items, kafs
from lakelog.formats.batches import Frame, frames
from lakelog.formats.columns import scan_columns
from lakelog.model import Record
from lakelog.records import Codec, NewBatch, encode_batch
from lakelog.records.columns import COLUMNS, arrow_schema
from tests.plain_encoders import encode, encode_block, encode_kafka_log, encode_strm
from tests.property.drawing import raw
from tests.property.test_record_batches import arrow_row
from tests.segments import buffers, decode
from tests.shorthands import encode_kafs
from tests.strategies import records
from tests.unit.formats.forged_strm import block, forge

every_format = pytest.mark.parametrize("fmt", FORMATS.values(), ids=lambda fmt: fmt.name)


def fit(fmt: Format, found: list[Record]) -> list[Record]:
    """The records, less what the format cannot carry."""
    fitted: list[Record] = []
    latest = 0
    for record in found:
        time = record.timestamp
        if fmt.carries.time_order:
            latest = time = max(latest, min(time, 1 << 50))
        fitted.append(
            Record(
                offset=record.offset,
                timestamp=time,
                key=record.key if fmt.carries.keys else None,
                value=record.value if fmt.carries.null_values else raw(record.value),
                headers=record.headers if fmt.carries.headers else (),
            )
        )
    return fitted


def scan(
    fmt: Format, data: dict[str, bytes], base: int, **settings: object
) -> list[pa.RecordBatch]:
    files = Files(base_offset=base, sizes={name: len(part) for name, part in data.items()})
    return list(drive_items(scan_columns(fmt, files, **settings), buffers(data)))  # type: ignore[arg-type]


@every_format
@given(found=records(), data=st.data())
def test_a_scan_gives_every_record(fmt: Format, found: list[Record], data: st.DataObject) -> None:
    found = fit(fmt, found)
    codec = data.draw(st.sampled_from(sorted(fmt.carries.codecs)))
    files = encode(fmt, found, codec)
    low = data.draw(st.sampled_from([0, *(r.offset for r in found)]))
    high = low + data.draw(st.integers(0, 30)) if data.draw(st.booleans()) else 1 << 62
    columns = data.draw(st.sampled_from((COLUMNS, ("offset", "key"), ("headers", "timestamp"))))
    pieces = scan(
        fmt, files, found[0].offset, columns=columns, offset_from=low, offset_to=high,
        rows_max=data.draw(st.integers(1, 20)), piece_bytes=data.draw(st.integers(100, 5000)),
    )  # fmt: skip
    expected = pa.Table.from_pylist(
        [arrow_row(record, 0) for record in found if low <= record.offset < high],
        schema=arrow_schema(),
    ).select(list(columns))
    got = pa.Table.from_batches(pieces, arrow_schema(columns))
    assert got.combine_chunks().equals(expected.combine_chunks())


@every_format
@given(found=records(max_size=40), data=st.data())
def test_parts_of_a_segment_miss_nothing_and_share_nothing(
    fmt: Format, found: list[Record], data: st.DataObject
) -> None:
    """Cut anywhere: Spark cuts by bytes, without knowing where a batch begins."""
    found = fit(fmt, found)
    files = segment_of(fmt, found, data)
    size = len(files[fmt.suffix])
    cuts = sorted(data.draw(st.lists(st.integers(0, size), max_size=5)))
    if data.draw(st.booleans()):
        files = {fmt.suffix: files[fmt.suffix]}
    read = [
        offset
        for start, end in pairwise([0, *cuts, size])
        for batch in scan(
            fmt, files, found[0].offset, columns=("offset",), byte_from=start, byte_to=end
        )
        for offset in batch.column(0).to_pylist()
    ]
    assert read == [record.offset for record in found]


def segment_of(fmt: Format, found: list[Record], data: st.DataObject) -> dict[str, bytes]:
    """A segment of many small batches or blocks, where the format has such a thing."""
    codec = data.draw(st.sampled_from(sorted(fmt.carries.codecs)))
    size = data.draw(st.integers(1, 9))
    parts = [found[at : at + size] for at in range(0, len(found), size)]
    match fmt.name:
        case "kafs":
            run = b"".join(encode_batch(NewBatch(records=part, codec=codec)) for part in parts)
            placed = (Frame(32 + at, header) for at, header in frames(run))
            segment = encode_kafs(run, created_ms=0)
            return {".kfs": segment, ".index": kafs.encode_index(placed, interval=size)}
        case "kafkalog":
            run = b"".join(encode_batch(NewBatch(records=part, codec=codec)) for part in parts)
            return encode_kafka_log(run, interval_bytes=data.draw(st.integers(1, 500)))
        case "strm":
            block_bytes = data.draw(st.integers(1, 400))
            return {".seg": encode_strm(found, codec=codec, block_bytes=block_bytes)}
        case _:
            return encode(fmt, found, codec)


def outcomes(fmt: Format, data: bytes, base: int) -> tuple[object, object]:
    """What the plain reader and the compiled one make of the same data file: a count, or an error.

    There are no side files, so that both look at the same bytes.
    """
    files = {fmt.suffix: data}
    plain: object
    compiled: object
    try:
        plain = len(decode(fmt, files, base_offset=base))
    except (CorruptError, UnsupportedError) as error:
        plain = error
    try:
        compiled = sum(batch.num_rows for batch in scan(fmt, files, base))
    except (CorruptError, UnsupportedError) as error:
        compiled = error
    if isinstance(compiled, UnsupportedError) and "microseconds" in str(compiled):
        compiled = plain  # A column cannot hold such a time; a record can.
    return plain, compiled


@every_format
@given(found=records(), data=st.data())
def test_what_a_walk_accepts_a_scan_accepts(
    fmt: Format, found: list[Record], data: st.DataObject
) -> None:
    """Not the reverse: a scan does not see a file's own checksum, counts and order."""
    found = fit(fmt, found)
    codec = data.draw(st.sampled_from(sorted(fmt.carries.codecs)))
    damaged = spoil(bytearray(encode(fmt, found, codec)[fmt.suffix]), data)
    plain, compiled = outcomes(fmt, damaged, found[0].offset)
    if isinstance(plain, int) or fmt.name == "rustlog":
        assert str(compiled) == str(plain)


@given(found=records(), data=st.data())
def test_both_readers_agree_on_every_damaged_strm_block(
    found: list[Record], data: st.DataObject
) -> None:
    """All checksums are right again, so that the records themselves are on trial."""
    base, has_headers = found[0].offset, data.draw(st.booleans())
    whole = encode_block(found, Codec.NONE, has_headers=has_headers)
    raw = spoil(bytearray(whole[16:]), data)
    times = data.draw(st.booleans())
    header = {
        "version": 2,
        "flags": 8 | 16 * has_headers,
        "base_offset": base,
        "max_offset": found[-1].offset,
        "count": len(found),
        "min_timestamp": min(r.timestamp for r in found) if times else 0,
        "max_timestamp": max(r.timestamp for r in found) if times else 0,
    }
    segment = forge(block(raw, count=len(found)), header=header, entries=((base, 64),))
    plain, compiled = outcomes(FORMATS["strm"], segment, base)
    if isinstance(plain, CorruptError) and "the header says" in plain.what:
        return  # Counts and offsets of the whole file, which a scan does not add up.
    assert str(compiled) == str(plain)


def spoil(damaged: bytearray, data: st.DataObject) -> bytes:
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, len(damaged) - 1))
        damaged[at] = data.draw(st.sampled_from((0, 1, 0x7F, 0x80, 0xFF)) | st.integers(0, 255))
    return bytes(damaged)
