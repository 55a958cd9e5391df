"""A read that goes on behind damage gives what the walk gives, however the segment is cut."""

from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from lakelog.formats import FORMATS, Damage, Format
from lakelog.records import OFFSET_MAX
from lakelog.segments import Mode, ReadTask, SegmentRange, SegmentRef
from lakelog.segments.mend import read_split
from lakelog.segments.placed import CORRUPT, PLACED_COLUMNS, placed_schema
from lakelog.store import MemoryStore, PutIfAbsent
from tests.property.drawing import Drawn, segments
from tests.segments import Store, Walked, walk_files

STEM = "disk/t-0/segment"
every_format = pytest.mark.parametrize("fmt", FORMATS.values(), ids=lambda fmt: fmt.name)


def read_cut(drawn: Drawn, files: dict[str, bytes], cuts: list[int], *, active: bool) -> pa.Table:
    columns = (*PLACED_COLUMNS, CORRUPT)
    store = MemoryStore()
    for suffix, data in files.items():
        store.perform(PutIfAbsent(STEM + suffix, data))
    segment = SegmentRef(
        topic="t", partition=3, base_offset=drawn.base_offset, next_offset_max=OFFSET_MAX,
        format=drawn.fmt.name, stem=STEM, sizes={name: len(data) for name, data in files.items()},
        active=active,
    )  # fmt: skip
    parts = tuple(
        SegmentRange(
            segment=segment, byte_from=low, byte_to=high, offset_from=0, offset_to=OFFSET_MAX
        )
        for low, high in pairwise([0, *cuts, segment.size])
    )
    found = read_split(ReadTask(parts=parts), store.perform, columns, mode=Mode.PERMISSIVE)
    return pa.Table.from_batches(list(found), placed_schema(columns, Mode.PERMISSIVE))


def told(damage: Damage) -> str:
    where = f"{STEM}{damage.error.where} at byte {damage.position}"
    return f"{where}: {damage.error.what}; {damage.size} bytes skipped"


def is_unguarded(drawn: Drawn, at: int) -> bool:
    """Whether a byte is one of those that no checksum covers: offsets, and lengths in RustLog.

    A walk holds each block against those before it. A scan begins in the middle of a segment.
    """
    width = {"kafs": 8, "kafkalog": 8, "rustlog": 12}.get(drawn.fmt.name, 0)
    return any(piece.position <= at < piece.position + width for piece in drawn.pieces)


@st.composite
def damaged(draw: st.DrawFn, fmt: Format) -> tuple[Drawn, dict[str, bytes], list[int]]:
    """A segment, the same with one byte changed, and where it is cut."""
    drawn = draw(segments(fmt.name))
    suffix = draw(st.sampled_from(sorted(name for name, data in drawn.files.items() if data)))
    data = bytearray(drawn.files[suffix])
    at = draw(st.integers(0, len(data) - 1))
    assume(suffix != fmt.suffix or not is_unguarded(drawn, at))
    data[at] ^= draw(st.sampled_from((1, 0x80, 0xFF)) | st.integers(1, 255))
    cuts = sorted(draw(st.sets(st.integers(1, len(drawn.data) - 1), max_size=3)))
    return drawn, drawn.with_file(suffix, bytes(data)), cuts


def rows_of(table: pa.Table) -> list[dict[str, object]]:
    """Rows as Python values; times as numbers, because some are later than any date."""
    at = table.schema.get_field_index("timestamp")
    times = table.column(at).cast(pa.int64())
    rows: list[dict[str, object]] = table.set_column(at, "timestamp", times).to_pylist()
    return rows


def expected_rows(found: Walked) -> list[dict[str, object]]:
    return [
        {
            "key": record.key,
            "value": record.value,
            "topic": "t",
            "partition": 3,
            "offset": record.offset,
            "timestamp": record.timestamp * 1000,
            "timestampType": 0,
            "headers": [{"key": k, "value": v} for k, v in record.headers] or None,
            CORRUPT: None,
        }
        for block in found.blocks
        if block.header is None or not block.header.is_control
        for record in block.records
    ]


@every_format
@given(data=st.data())
def test_every_cut_gives_the_records_and_the_losses_of_the_walk(
    fmt: Format, data: st.DataObject
) -> None:
    drawn, files, cuts = data.draw(damaged(fmt))
    active = data.draw(st.booleans())
    rows = rows_of(read_cut(drawn, files, cuts, active=active))
    expected = walk_files(fmt, Store(files), base_offset=drawn.base_offset, active=active)
    # Where the column cannot hold a time that a record can, that is told instead.
    assume(all(abs(record.timestamp) <= (1 << 53) + 9 for record in expected.records))
    assert [row for row in rows if row[CORRUPT] is None] == expected_rows(expected)
    tellings = [str(row[CORRUPT]) for row in rows if row[CORRUPT] is not None]
    assert len(tellings) == len(set(tellings))
    lost = [telling for telling in tellings if telling.endswith("bytes skipped")]
    assert lost == [told(damage) for damage in expected.damages if damage.size]
    # What costs no record is told by a walk of the whole, and by some of a part.
    assert bool(tellings) <= bool(expected.damages)
