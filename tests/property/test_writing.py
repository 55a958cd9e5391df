"""Laws of writing segments from Arrow: however the columns come, the plain encoders agree."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.formats import FORMATS, Files, Format, kafs, rustlog
from lakelog.formats.batches import Frame, frames
from lakelog.formats.contract import run
from lakelog.formats.writing import SegmentFiles, SegmentWriter, new_segment, segment_of_batches
from lakelog.model import Header, Record
from lakelog.records import Codec
from lakelog.records.columns import arrow_schema
from tests.plain_encoders import encode, encode_kafka_log, encode_strm
from tests.property.drawing import Drawn, segments
from tests.property.drawing import raw as drawn_raw
from tests.property.test_record_batches import arrow_row
from tests.segments import buffers, decode
from tests.shorthands import encode_kafs
from tests.strategies import records

COPIES_MAX = 12
"""How often drawn records are repeated: RustLog has an index entry for each hundred."""

of_batches = pytest.mark.parametrize("name", ["kafs", "kafkalog"])


@st.composite
def partitions(draw: st.DrawFn, fmt: Format) -> list[Record]:
    """Records that a format can hold, and Arrow too; enough for several pieces."""
    carries, found = fmt.carries, draw(records())
    late_headers = draw(st.booleans())
    span = found[-1].offset + 1 - found[0].offset
    copies = range(draw(st.sampled_from((1, 2, COPIES_MAX))))
    made = [
        replace(
            record,
            offset=record.offset + copy * span,
            timestamp=max(0, record.timestamp) if carries.time_order else record.timestamp,
            key=record.key if carries.keys else None,
            value=record.value if carries.null_values else drawn_raw(record.value),
            headers=tuple(map(_utf8, record.headers)) if carries.headers else (),
        )
        for copy in copies
        for record in found
    ]
    if late_headers:
        made = [*(replace(record, headers=()) for record in made[:-1]), made[-1]]
    return made


def _utf8(header: Header) -> Header:
    raw = header.key.encode("utf-8", "surrogateescape")
    return Header(raw.decode("utf-8", "replace"), header.value)


@st.composite
def chunks(draw: st.DrawFn, found: Sequence[Record]) -> list[pa.RecordBatch]:
    """The records as Arrow batches, cut anywhere, some empty; sliced, so that bits are shifted."""
    rows = [arrow_row(record, 0) for record in found]
    whole = pa.RecordBatch.from_pylist([*rows[:3], *rows], schema=arrow_schema())
    whole = whole.slice(min(3, len(rows)))
    optional = {"timestampType"}
    optional |= {"key"} if all(record.key is None for record in found) else set()
    optional |= {"headers"} if not any(record.headers for record in found) else set()
    left_out = draw(st.sets(st.sampled_from(sorted(optional))))
    whole = whole.select([name for name in whole.schema.names if name not in left_out])
    cuts = draw(st.lists(st.integers(0, len(found)), max_size=4))
    edges = sorted((0, *cuts, len(found)))
    return [whole.slice(start, end - start) for start, end in pairwise(edges)]


def written(writer: SegmentWriter, columns: Sequence[pa.RecordBatch]) -> dict[str, bytes]:
    for batch in columns:
        writer.add(batch)
    assert writer.count == sum(batch.num_rows for batch in columns)
    at_most = writer.size
    files = as_bytes(writer.finish())
    assert at_most <= max(map(len, files.values()))
    return files


def as_bytes(files: SegmentFiles) -> dict[str, bytes]:
    return {suffix: bytes(memoryview(data)) for suffix, data in files.items()}


def estimated(found: Sequence[Record]) -> int:
    """What STRM's page takes a block to be as large as: 10 bytes and the fields, 4 a header."""
    fields = [field for one in found for field in (one.key, one.value)]
    pairs = [header for one in found for header in one.headers]
    fields += [part for key, value in pairs for part in (key.encode(), value)]
    return 10 * len(found) + 4 * len(pairs) + sum(len(field or b"") for field in fields)


settings_of_times = st.none() | st.integers(0, 1 << 40)


@given(data=st.data())
def test_an_strm_segment_is_that_of_the_plain_encoder(data: st.DataObject) -> None:
    fmt = FORMATS["strm"]
    found = data.draw(partitions(fmt))
    created = data.draw(settings_of_times)
    codec = data.draw(st.sampled_from(sorted(fmt.carries.codecs)))
    # Some records fill a block to its last byte.
    filling = data.draw(st.integers(1, min(8, len(found))))
    block_bytes = data.draw(st.sampled_from((1, 300, estimated(found[:filling]), 1 << 20)))
    writer = new_segment(
        fmt, topic="orders", partition=3, codec=codec, block_bytes=block_bytes, created_ms=created
    )
    newest = max(0, *(record.timestamp for record in found))
    assert written(writer, data.draw(chunks(found))) == {
        ".seg": encode_strm(
            found, topic="orders", partition=3, codec=codec, block_bytes=block_bytes,
            created_ms=newest if created is None else created,
        )
    }  # fmt: skip


@given(data=st.data())
def test_a_rustlog_segment_is_that_of_the_plain_encoder(data: st.DataObject) -> None:
    found = data.draw(partitions(FORMATS["rustlog"]))
    writer = new_segment(FORMATS["rustlog"], topic="orders", partition=3)
    assert written(writer, data.draw(chunks(found))) == encode(rustlog.FORMAT, found, Codec.NONE)


@pytest.mark.parametrize("fmt", FORMATS.values(), ids=lambda fmt: fmt.name)
@given(data=st.data())
def test_what_was_written_reads_as_what_was_given(fmt: Format, data: st.DataObject) -> None:
    """``decode`` stops at any damage, and an index that contradicts its segment is one."""
    found = data.draw(partitions(fmt))
    codec = data.draw(st.sampled_from(sorted(fmt.carries.codecs)))
    base = found[0].offset
    if fmt.name != "strm":
        base = max(0, base - data.draw(st.integers(0, 1000)))
    writer = new_segment(
        fmt, topic="orders", partition=3, codec=codec, base_offset=base,
        level=data.draw(st.sampled_from((None, 1, 4, 9))),
        block_bytes=data.draw(st.sampled_from((None, 100, 1000))),
    )  # fmt: skip
    files = written(writer, data.draw(chunks(found)))
    plain = encode(fmt, found, Codec.NONE)
    assert set(files) == set(plain)
    expected = decode(fmt, plain, base_offset=found[0].offset)
    assert decode(fmt, files, base_offset=base) == expected
    if not fmt.carries.time_order:
        assert expected == tuple(found)


@given(data=st.data())
def test_a_kafs_segment_was_made_when_its_newest_record_was(data: st.DataObject) -> None:
    found = data.draw(partitions(FORMATS["kafs"]))
    created = data.draw(settings_of_times)
    writer = new_segment(FORMATS["kafs"], topic="orders", partition=3, created_ms=created)
    files = written(writer, data.draw(chunks(found)))
    newest = max(0, *(record.timestamp for record in found))
    head = kafs.decode_head(files[".kfs"])
    assert head.created_ms == (newest if created is None else created)
    assert (head.base_offset, head.count) == (found[0].offset, len(found))


@of_batches
@given(data=st.data())
def test_an_index_leads_to_every_record(name: str, data: st.DataObject) -> None:
    found = data.draw(partitions(FORMATS[name]))
    writer = new_segment(FORMATS[name], topic="orders", partition=3, block_bytes=200)
    files = written(writer, data.draw(chunks(found)))
    sizes = {suffix: len(part) for suffix, part in files.items()}
    about = Files(base_offset=found[0].offset, sizes=sizes)
    segment = run(FORMATS[name].open(about), buffers(files))
    number = data.draw(st.integers(0, len(found) - 1))
    read = run(segment.read_from(found[number].offset, 1), buffers(files))
    assert read == (found[number],)


@of_batches
@given(data=st.data())
def test_batches_are_kept_byte_for_byte(name: str, data: st.DataObject) -> None:
    drawn: Drawn = data.draw(segments(name))
    run = drawn.data if name == "kafkalog" else drawn.data[32:-16]
    base = max(0, drawn.base_offset - data.draw(st.integers(0, 9)))
    created = data.draw(settings_of_times)
    as_kafs = as_bytes(
        segment_of_batches(FORMATS["kafs"], run, base_offset=base, created_ms=created)
    )
    newest = max(0, *(header.max_timestamp for _, header in frames(run)))
    placed = [Frame(kafs.HEADER_BYTES + at, header) for at, header in frames(run)]
    assert as_kafs == {
        ".kfs": encode_kafs(
            run, base_offset=base, created_ms=newest if created is None else created
        ),
        ".index": kafs.encode_index(placed),
    }
    as_kafka = segment_of_batches(FORMATS["kafkalog"], run, base_offset=base, created_ms=None)
    assert as_bytes(as_kafka) == encode_kafka_log(run, base_offset=base)
