"""Laws of walks that leave records out: over every row of FORMATS.

Such a walk takes bytes by large pieces and sweeps over what is good. Pieces here are drawn as small
as a few bytes, so that a handful of records already has batches across their edges.
"""

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

import pytest
from crc32c import crc32c
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lakelog.formats import EVERYTHING, FORMATS, NOTHING, Block, Damage, Format, Span, walk_blocks
from lakelog.formats.batches import Run, walk_run
from lakelog.model import Record
from lakelog.records import NewBatch, decode_header, encode_batch
from tests.property.drawing import Drawn, segments
from tests.segments import Store, Walked, walk_files

every_format = pytest.mark.parametrize("fmt", FORMATS.values(), ids=FORMATS)
half = settings(max_examples=settings().max_examples // 2)

SEGMENTS = {name: segments(name) for name in FORMATS}
SIZES = st.sampled_from((1, 16, 61, 90, 150, 400, 1 << 20))


@contextmanager
def small_pieces(data: st.DataObject) -> Iterator[None]:
    """Let walks ask for little at a time, and sweep over less."""
    with pytest.MonkeyPatch.context() as patch:
        piece, stride = data.draw(SIZES, label="piece"), data.draw(SIZES, label="stride")
        for name in ("batches", "rustlog", "strm"):
            module = import_module(f"lakelog.formats.{name}.walk")
            patch.setattr(module, "SWEEP_BYTES", piece)
            patch.setattr(module, "STRIDE_BYTES", stride, raising=name != "strm")
        yield


def walked(drawn: Drawn, files: dict[str, bytes], span: Span, *, active: bool = False) -> Walked:
    return walk_files(
        drawn.fmt, Store(files), base_offset=drawn.base_offset, active=active, span=span
    )


@every_format
@half
@given(data=st.data())
def test_records_are_read_inside_the_span_and_counted_outside(
    fmt: Format, data: st.DataObject
) -> None:
    drawn = data.draw(SEGMENTS[fmt.name])
    edges = [edge for piece in drawn.pieces for edge in (piece.position, piece.end)]
    near = st.sampled_from(edges).flatmap(lambda edge: st.integers(edge - 1, edge + 1))
    start, end = sorted((max(0, data.draw(near)), max(0, data.draw(near))))
    full = walked(drawn, drawn.files, EVERYTHING)
    with small_pieces(data):
        part = walked(drawn, drawn.files, (start, end))
    assert part.damages == ()
    assert part.blocks == tuple(
        block
        if start <= block.position < end
        else block._replace(records=(), next_offset=found.next_offset)
        for block, found in zip(full.blocks, part.blocks, strict=True)
    )
    assert [block.count for block in part.blocks] == [len(one.records) for one in drawn.pieces]


@every_format
@half
@given(data=st.data())
def test_where_a_segment_ends_is_told_without_its_records(fmt: Format, data: st.DataObject) -> None:
    drawn = data.draw(SEGMENTS[fmt.name])
    ends = [piece.records[-1].offset + 1 for piece in drawn.pieces if piece.records]
    if len(ends) < len(drawn.pieces):
        return  # A batch that compaction has emptied ends where its header says.
    full = walked(drawn, drawn.files, EVERYTHING)
    assert [block.next_offset for block in full.blocks] == ends
    with small_pieces(data):
        swept = walked(drawn, drawn.files, NOTHING)
    told = [block.next_offset for block in swept.blocks]
    assert told[-1:] == ends[-1:]
    assert all(one in (0, end) for one, end in zip(told, ends, strict=True))


def told(found: tuple[Damage, ...]) -> list[tuple[object, ...]]:
    return [(type(one.error), *one.error.args, one.position, one.size, one.header) for one in found]


def bare(found: tuple[Block, ...]) -> list[Block]:
    return [block._replace(records=(), next_offset=0) for block in found]


def needs_records(drawn: Drawn, at: int) -> bool:
    """Whether what is wrong with the byte at ``at`` of an STRM file shows first in its records.

    The codec, the last offset and the times in the header; in a block, its size and its count of
    records; an offset in the index.
    """
    if drawn.fmt.name != "strm":
        return False
    if at < 64:
        return at in (6, 7) or 28 <= at < 36 or at >= 48
    if at >= drawn.pieces[-1].end:
        return at < len(drawn.data) - 32
    block = next(piece for piece in drawn.pieces if piece.position <= at < piece.end)
    return at - block.position < 12 and not 4 <= at - block.position < 8


@every_format
@given(data=st.data())
def test_damage_is_the_same_whether_records_are_read_or_not(
    fmt: Format, data: st.DataObject
) -> None:
    drawn = data.draw(SEGMENTS[fmt.name])
    suffix = data.draw(st.sampled_from((fmt.suffix, *drawn.files)))
    whole = bytearray(drawn.files[suffix])
    if not whole:
        return
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] ^= data.draw(st.integers(1, 255))
    damaged = drawn.with_file(suffix, bytes(whole))
    full = walked(drawn, damaged, EVERYTHING)
    with small_pieces(data):
        shallow = walked(drawn, damaged, NOTHING)
    if suffix == fmt.suffix and needs_records(drawn, at):
        assert full.damages
        assert shallow.damages
    else:
        assert told(shallow.damages) == told(full.damages)
        assert bare(shallow.blocks) == bare(full.blocks)


@every_format
@given(data=st.data())
def test_much_damage_is_the_same_whether_records_are_read_or_not(
    fmt: Format, data: st.DataObject
) -> None:
    """Cuts, zeros and noise. Of an STRM file only records tell what some of it does to the rest."""
    drawn = data.draw(SEGMENTS[fmt.name])
    active = data.draw(st.booleans()) and not fmt.sealed
    files = dict(drawn.files)
    log = bytearray(drawn.data)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(log)))
        new = data.draw(st.sampled_from((b"", bytes(70), b"\xff", log[at // 2 : at])))
        log[at : data.draw(st.integers(at, len(log)))] = new
    files[fmt.suffix] = bytes(log)
    full = walked(drawn, files, EVERYTHING, active=active)
    with small_pieces(data):
        shallow = walked(drawn, files, NOTHING, active=active)
    if fmt.name == "strm":
        assert bool(shallow.damages) == bool(full.damages)
    else:
        assert told(shallow.damages) == told(full.damages)
        assert bare(shallow.blocks) == bare(full.blocks)


@every_format
@half
@given(data=st.data())
def test_what_is_skipped_lies_behind_what_went_before(fmt: Format, data: st.DataObject) -> None:
    """Blocks and what is skipped share no byte, and come in order."""
    drawn = data.draw(SEGMENTS[fmt.name])
    log = bytearray(drawn.data)
    for _ in range(3):
        log[data.draw(st.integers(0, len(log) - 1))] ^= data.draw(st.integers(1, 255))
    span = data.draw(st.sampled_from((EVERYTHING, NOTHING)))
    found = walked(drawn, drawn.with_file(fmt.suffix, bytes(log)), span)
    lost = [one for one in found.damages if one.size]
    assert all(one.position <= one.error.at <= one.position + one.size for one in lost)
    assert all(one.position == one.error.at for one in found.damages if not one.size)
    taken = [(block.position, block.size) for block in found.blocks]
    taken += [(one.position, one.size) for one in lost]
    at = 0
    for position, size in sorted(taken):
        # Where a header says that nothing can be read, all of the file is skipped, once or twice.
        assert position >= at or (position, size) == (0, len(log))
        at = position + size
    assert at <= len(log)


BATCH = encode_batch(
    NewBatch(records=[Record(offset=5 + i, timestamp=i, key=None, value=b"v") for i in range(3)])
)
FIELDS = [*range(8), 16, *range(21, 61)]
"""All of a header but the length, the leader epoch and the CRC."""


@given(
    changes=st.lists(
        st.tuples(st.sampled_from(FIELDS), st.sampled_from((0, 1, 2, 5, 0x7F, 0x80, 0xFF))),
        min_size=1,
        max_size=4,
    )
)
@example(changes=[(16, 1)])
@example(changes=[(22, 5)])
@example(changes=[(21, 1)])
@example(changes=[(23, 0x80)])
@example(changes=[(60, 0), *((at, 0xFF) for at in range(23, 27))])
@example(changes=[(60, 4)])
@example(changes=[(57, 0x80)])
@example(changes=[(0, 0x7F), *((at, 0xFF) for at in range(1, 8))])
def test_a_header_is_good_exactly_if_it_decodes(changes: list[tuple[int, int]]) -> None:
    """With a good CRC, so that only its fields are on trial."""
    made = bytearray(BATCH)
    for at, value in changes:
        made[at] = value
    struct.pack_into(">I", made, 17, crc32c(made[21:]))
    run = Run(suffix=".log", start=0, end=len(made), base_offset=0)
    (found,) = walk_blocks(walk_run(run, span=NOTHING), Store({".log": bytes(made)}).give)
    if isinstance(found, Block):
        header = decode_header(made)
        assert found == Block(0, len(made), header.count, (), header, header.next_offset)
    else:
        with pytest.raises(type(found.error)) as caught:
            decode_header(made, where=".log")
        assert caught.value.args == found.error.args
