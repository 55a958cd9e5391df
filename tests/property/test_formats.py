"""Laws of the segment formats, over every row of FORMATS.

Each format's page states what it notices and what it cannot. The laws here hold the reader to its
page, in both directions: what the page promises to notice raises, and what it says cannot be
noticed is read as the page says. Where a format has no checksum, a few lines that read it by the
specification, without lakelog, are the judge.

``Store`` adds laws of its own to each test: a reader asks only for ranges that lie inside a file
and are not empty, and never in circles.
"""

import struct
from collections.abc import Iterable
from dataclasses import replace
from itertools import accumulate, pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lakelog.errors import CorruptError, InvalidInputError, UnsupportedError
from lakelog.formats import FORMATS, Format
from lakelog.model import Header, Record
from lakelog.records import OFFSET_MAX, Codec
from tests.plain_encoders import encode
from tests.property.drawing import Drawn, Piece, carried_records, fit, segments
from tests.segments import Store, decode, open_files, walk_files
from tests.strategies import base_offsets, records, timestamps

Refused = (CorruptError, UnsupportedError)

every_format = pytest.mark.parametrize("fmt", FORMATS.values(), ids=FORMATS)
sealed_formats = pytest.mark.parametrize(
    "fmt", [row for row in FORMATS.values() if row.sealed], ids=lambda row: row.name
)
every_codec = pytest.mark.parametrize(
    ("fmt", "codec"),
    [(row, codec) for row in FORMATS.values() for codec in sorted(row.carries.codecs)],
    ids=lambda one: one.name.lower(),
)
fewer = settings(max_examples=max(10, settings().max_examples // 8))
"""For laws that are tried on every format with every codec, or that have little to draw."""
half = settings(max_examples=settings().max_examples // 2)
"""For laws that are tried on every format, and have many ways to fail on each example."""

ACTIVE = ("rustlog", "kafkalog")
"""The formats that a writer appends to; the others are put whole."""

BATCHED = ("kafs", "kafkalog")


SEGMENTS = {(name, count): segments(name, min_pieces=count) for name in FORMATS for count in (1, 2)}
"""Made once: to make a strategy anew takes longer than to draw from it."""

CARRIED = {name: carried_records(fmt) for name, fmt in FORMATS.items()}


def segment_of(data: st.DataObject, fmt: Format, *, min_pieces: int = 1) -> Drawn:
    return data.draw(SEGMENTS[fmt.name, min_pieces], label="segment")


def flipped(data: bytes, bit: int) -> bytes:
    out = bytearray(data)
    out[bit // 8] ^= 1 << (bit % 8)
    return bytes(out)


def first_not_older(found: Iterable[Record], timestamp: int) -> int | None:
    return next((record.offset for record in found if record.timestamp >= timestamp), None)


# ---------------------------------------------------------------------------- good segments


@every_codec
@fewer
@given(data=st.data())
def test_decode_inverts_encode(fmt: Format, codec: Codec, data: st.DataObject) -> None:
    found = data.draw(CARRIED[fmt.name])
    files = encode(fmt, found, codec)
    assert decode(fmt, files, base_offset=found[0].offset) == found


@every_codec
@fewer
@given(data=st.data())
def test_equal_input_gives_equal_bytes(fmt: Format, codec: Codec, data: st.DataObject) -> None:
    found = data.draw(CARRIED[fmt.name])
    assert encode(fmt, list(found), codec) == encode(fmt, [replace(r) for r in found], codec)


@every_format
@half
@given(data=st.data())
def test_a_walk_yields_each_piece_where_it_lies(fmt: Format, data: st.DataObject) -> None:
    drawn = segment_of(data, fmt)
    walked = walk_files(fmt, Store(drawn.files), base_offset=drawn.base_offset)
    assert walked.damages == ()
    assert [(block.position, block.size, block.records) for block in walked.blocks] == [
        (piece.position, piece.size, piece.records) for piece in drawn.pieces
    ]


@every_format
def test_a_segment_without_records_is_refused_or_reads_as_one(fmt: Format) -> None:
    try:
        files = encode(fmt, [], Codec.NONE)
    except InvalidInputError:
        return
    assert decode(fmt, files, base_offset=7) == ()


@every_format
@fewer
@given(found=records(max_size=4), codec=st.sampled_from(Codec))
def test_what_a_format_does_not_carry_is_refused_not_dropped(
    fmt: Format, found: list[Record], codec: Codec
) -> None:
    carried = fit(fmt, found)
    untimely = any(record.timestamp < 0 for record in found) and fmt.name == "rustlog"
    times_differ = fmt.carries.time_order
    lost = any(
        (before.key, before.value, before.headers) != (after.key, after.value, after.headers)
        for before, after in zip(found, carried, strict=True)
    )
    if lost or untimely or codec not in fmt.carries.codecs:
        with pytest.raises(InvalidInputError):
            encode(fmt, found, codec)
    else:
        files = encode(fmt, found, codec)
        read = decode(fmt, files, base_offset=found[0].offset)
        assert read == carried
        assert times_differ or read == tuple(found)


@given(times=st.lists(st.integers(0, 5), min_size=1, max_size=6))
def test_a_format_that_keeps_times_in_order_lifts_those_that_go_down(times: list[int]) -> None:
    for fmt in FORMATS.values():
        if fmt.carries.time_order:
            found = [
                Record(offset=offset, timestamp=time, key=None, value=b"")
                for offset, time in enumerate(times)
            ]
            read = decode(fmt, encode(fmt, found, Codec.NONE), base_offset=0)
            assert [record.timestamp for record in read] == list(accumulate(times, max))


# ---------------------------------------------------------------------------- lookups


@every_format
@half
@given(data=st.data())
def test_read_from_is_a_filter_over_all_records(fmt: Format, data: st.DataObject) -> None:
    drawn = segment_of(data, fmt)
    known = [drawn.base_offset, *(record.offset for record in drawn.records)]
    offset = data.draw(st.sampled_from(known)) + data.draw(st.integers(-3, 3))
    limit = data.draw(st.integers(0, 7))
    active = data.draw(st.booleans()) and fmt.name in ACTIVE
    opened = open_files(fmt, Store(drawn.files), base_offset=drawn.base_offset, active=active)
    assert opened.segment.base_offset == drawn.base_offset
    wanted = [record for record in drawn.records if record.offset >= offset]
    assert opened.read_from(offset, limit) == tuple(wanted[:limit])


@every_format
@half
@given(data=st.data())
def test_offset_at_is_the_first_record_that_is_not_older(fmt: Format, data: st.DataObject) -> None:
    drawn = segment_of(data, fmt)
    known = st.sampled_from([record.timestamp for record in drawn.records])
    timestamp = data.draw(known) + data.draw(st.integers(-1, 1))
    opened = open_files(fmt, Store(drawn.files), base_offset=drawn.base_offset)
    assert opened.offset_at(timestamp) == first_not_older(drawn.records, timestamp)


@every_format
@half
@given(data=st.data())
def test_side_files_are_never_needed(fmt: Format, data: st.DataObject) -> None:
    drawn = segment_of(data, fmt)
    kept = data.draw(st.sets(st.sampled_from(sorted(drawn.files)))) | {fmt.suffix}
    store = Store({suffix: drawn.files[suffix] for suffix in kept})
    assert decode(fmt, store.files, base_offset=drawn.base_offset) == drawn.records
    opened = open_files(fmt, store, base_offset=drawn.base_offset)
    middle = drawn.records[len(drawn.records) // 2]
    assert opened.read_from(middle.offset, 1) == (middle,)
    timestamp = data.draw(timestamps)
    assert opened.offset_at(timestamp) == first_not_older(drawn.records, timestamp)


# ---------------------------------------------------------------------------- names


@every_format
@fewer
@given(offset=base_offsets | st.integers(0, OFFSET_MAX - 1))
def test_a_name_gives_back_its_base_offset(fmt: Format, offset: int) -> None:
    stem = fmt.file_stem(offset)
    assert fmt.base_offset(stem) == offset
    assert fmt.file_stem(offset + 1) > stem


@every_format
@fewer
@given(
    stem=st.text(max_size=30)
    | st.from_regex(r"(segment-)?[0-9]{19,21}(-[0-9a-z]{0,4}){0,2}.?", fullmatch=True)
)
@example(stem="٠" * 20)
@example(stem="9" * 20)
def test_only_names_of_the_format_have_a_base_offset(fmt: Format, stem: str) -> None:
    offset = fmt.base_offset(stem)
    if offset is not None:
        assert 0 <= offset <= OFFSET_MAX
        # A rewritten KAFS segment carries the id of the write behind its name.
        assert stem == fmt.file_stem(offset) or (
            fmt.name == "kafs" and stem.startswith(fmt.file_stem(offset) + "-")
        )


@every_format
@half
@given(data=st.data())
def test_exactly_one_format_of_a_suffix_recognises_a_file(fmt: Format, data: st.DataObject) -> None:
    drawn = segment_of(data, fmt)
    head = drawn.data[: data.draw(st.integers(64, 4096))]
    rows = [row for row in FORMATS.values() if row.suffix == fmt.suffix]
    found = [row.name for row in rows if row.sniff(head, drawn.base_offset)]
    if any(head):
        assert found == [fmt.name]
    else:
        # Nothing, at 1970, at offset 0, is to RustLog what space set aside is to Kafka.
        assert fmt.name in found
        assert drawn.base_offset == 0


# ---------------------------------------------------------------------------- damage: sealed


def is_free(fmt: Format, suffix: str, files: dict[str, bytes], bit: int) -> bool:
    """Whether the format's page says that nothing contradicts this bit. It changes no record."""
    byte = bit // 8
    if fmt.name != "kafs":
        return False
    if suffix == ".kfs":
        return 20 <= byte < 28 and bit != 20 * 8 + 7
    (interval,) = struct.unpack_from(">i", flipped(files[suffix], bit), 10)
    return 10 <= byte < 14 and interval > 0


def read_damaged(drawn: Drawn, suffix: str, damaged: bytes, *, free: bool = False) -> None:
    """Assert that damage is noticed, or, where nothing contradicts it, that it changes nothing.

    Damage in the data must be noticed without any help from the side files.
    """
    is_data = suffix == drawn.fmt.suffix
    files = drawn.alone(damaged) if is_data else drawn.with_file(suffix, damaged)
    if free:
        assert decode(drawn.fmt, files, base_offset=drawn.base_offset) == drawn.records
    else:
        with pytest.raises(Refused) as caught:
            decode(drawn.fmt, files, base_offset=drawn.base_offset)
        assert caught.value.where == suffix


@sealed_formats
@half
@given(data=st.data())
def test_a_sealed_format_refuses_every_cut(fmt: Format, data: st.DataObject) -> None:
    drawn = segment_of(data, fmt)
    suffix = data.draw(st.sampled_from(sorted(drawn.files)))
    whole = drawn.files[suffix]
    read_damaged(drawn, suffix, whole[: data.draw(st.integers(0, len(whole) - 1))])


@sealed_formats
@half
@given(data=st.data())
def test_a_sealed_format_refuses_every_flipped_bit(fmt: Format, data: st.DataObject) -> None:
    drawn = segment_of(data, fmt)
    suffix = data.draw(st.sampled_from(sorted(drawn.files)))
    for _ in range(5):
        bit = data.draw(st.integers(0, len(drawn.files[suffix]) * 8 - 1))
        free = is_free(fmt, suffix, drawn.files, bit)
        read_damaged(drawn, suffix, flipped(drawn.files[suffix], bit), free=free)


@pytest.mark.parametrize(
    ("fmt", "codec"),
    [(row, codec) for row in FORMATS.values() if row.sealed for codec in row.carries.codecs],
    ids=lambda one: one.name.lower(),
)
def test_no_cut_and_no_bit_of_one_sealed_segment_escapes(fmt: Format, codec: Codec) -> None:
    """The law again, with nothing left to chance."""
    found = (
        Record(offset=9, timestamp=5, key=b"k", value=b"v", headers=(Header("h", None),)),
        Record(offset=12, timestamp=3, key=None, value=None),
    )
    files = encode(fmt, found, codec)
    drawn = Drawn(
        fmt=fmt,
        base_offset=9,
        files=files,
        pieces=(Piece(position=0, size=0, records=found),),
    )
    for suffix, whole in files.items():
        for length in range(len(whole)):
            read_damaged(drawn, suffix, whole[:length])
        for bit in range(len(whole) * 8):
            free = is_free(fmt, suffix, files, bit)
            read_damaged(drawn, suffix, flipped(whole, bit), free=free)


@every_format
@half
@given(data=st.data())
def test_the_name_must_be_the_segments_own(fmt: Format, data: st.DataObject) -> None:
    drawn = segment_of(data, fmt)
    other = data.draw(base_offsets.filter(lambda base: base != drawn.base_offset))
    if fmt.sealed or other > drawn.records[0].offset:
        with pytest.raises(CorruptError):
            decode(fmt, drawn.files, base_offset=other)
    elif other < drawn.base_offset:
        # Without a header, a lower name says that compaction took what came first.
        assert decode(fmt, drawn.alone(drawn.data), base_offset=other) == drawn.records


# ---------------------------------------------------------------------------- damage: Kafka logs


@given(drawn=segments("kafkalog"), data=st.data())
def test_a_kafka_log_notices_every_flipped_bit_but_in_place_and_epoch(
    drawn: Drawn, data: st.DataObject
) -> None:
    number = data.draw(st.integers(0, len(drawn.pieces) - 1))
    piece = drawn.pieces[number]
    bit = piece.position * 8 + data.draw(
        st.integers(0, 16 * 8 - 1) | st.integers(0, piece.size * 8 - 1)
    )
    log = flipped(drawn.data, bit)
    byte = bit // 8 - piece.position
    expected: tuple[Record, ...] | None = None
    if 12 <= byte < 16:
        expected = drawn.records
    elif byte < 8 and _still_rises(log, drawn.base_offset, [p.position for p in drawn.pieces]):
        moved = _i64(log, piece.position) - _i64(drawn.data, piece.position)
        held = tuple(replace(r, offset=r.offset + moved) for r in piece.records)
        pieces = [p.records for p in drawn.pieces]
        pieces[number] = held
        expected = sum(pieces, ())
    if expected is None:
        with pytest.raises(Refused):
            decode(drawn.fmt, drawn.alone(log), base_offset=drawn.base_offset)
    else:
        assert decode(drawn.fmt, drawn.alone(log), base_offset=drawn.base_offset) == expected


def _i64(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 8], "big", signed=True)


def _still_rises(log: bytes, base_offset: int, positions: list[int]) -> bool:
    """Whether no batch begins below the end of the one before it, nor ends past the last offset."""
    end = base_offset
    for at in positions:
        base, (delta,) = _i64(log, at), struct.unpack_from(">i", log, at + 23)
        if base < end or base + delta + 1 > OFFSET_MAX:
            return False
        end = base + delta + 1
    return True


@given(drawn=segments("kafkalog"), data=st.data())
def test_a_kafka_log_notices_every_cut_but_between_batches(
    drawn: Drawn, data: st.DataObject
) -> None:
    length = data.draw(st.integers(0, len(drawn.data) - 1))
    whole = [piece for piece in drawn.pieces if piece.end <= length]
    rest = drawn.data[whole[-1].end if whole else 0 : length]
    log = drawn.data[:length]
    if any(rest):
        with pytest.raises(CorruptError) as caught:
            decode(drawn.fmt, drawn.alone(log), base_offset=drawn.base_offset)
        assert caught.value.where == ".log"
    else:
        # Zeros, with which a base offset begins, are read as space set aside.
        kept = tuple(record for piece in whole for record in piece.records)
        assert decode(drawn.fmt, drawn.alone(log), base_offset=drawn.base_offset) == kept


@given(drawn=segments("kafkalog"), zeros=st.integers(1, 200))
def test_zeros_behind_a_kafka_log_are_space_set_aside(drawn: Drawn, zeros: int) -> None:
    files = {
        suffix: data + bytes(zeros if suffix == ".log" else 24 if "ti" in suffix else 16)
        for suffix, data in drawn.files.items()
        if suffix in (".log", ".index", ".timeindex")
    }
    assert decode(drawn.fmt, files, base_offset=drawn.base_offset) == drawn.records
    opened = open_files(drawn.fmt, Store(files), base_offset=drawn.base_offset)
    assert opened.read_from(0, 100) == drawn.records
    assert opened.offset_at(1 << 62) is None


# ---------------------------------------------------------------------------- damage: RustLog


def rustlog_by_the_book(log: bytes, index: bytes, base_offset: int) -> tuple[Record, ...] | None:
    """Read a RustLog segment by its page, and nothing else; None when it tells of damage."""
    found: list[Record] = []
    places: set[tuple[int, int]] = set()
    at, due = 0, base_offset
    while at < len(log):
        if at + 20 > len(log):
            return None
        length, offset, microseconds = struct.unpack_from(">IQQ", log, at)
        end = at + 20 + length
        if end > len(log) or length > 10 << 20 or not due <= offset < (1 << 63) - 1:
            return None
        value = log[at + 20 : end]
        found.append(Record(offset=offset, timestamp=microseconds // 1000, key=None, value=value))
        places.add((offset, at))
        at, due = end, offset + 1
    if len(index) % 16 or any(entry not in places for entry in struct.iter_unpack(">QQ", index)):
        return None
    return tuple(found)


@given(drawn=segments("rustlog"), data=st.data())
def test_rustlog_notices_what_its_structure_tells_and_nothing_else(
    drawn: Drawn, data: st.DataObject
) -> None:
    log, index = drawn.data, drawn.files[".index"]
    match data.draw(st.sampled_from(("bit", "bit of a header", "cut", "index bit", "index cut"))):
        case "bit":
            log = flipped(log, data.draw(st.integers(0, len(log) * 8 - 1)))
        case "bit of a header":
            piece = data.draw(st.sampled_from(drawn.pieces))
            log = flipped(log, piece.position * 8 + data.draw(st.integers(0, 20 * 8 - 1)))
        case "cut":
            log = log[: data.draw(st.integers(0, len(log) - 1))]
        case "index bit":
            index = flipped(index, data.draw(st.integers(0, len(index) * 8 - 1)))
        case _:
            index = index[: data.draw(st.integers(0, len(index) - 1))]
    expected = rustlog_by_the_book(log, index, drawn.base_offset)
    files = {".log": log, ".index": index}
    if expected is None:
        with pytest.raises(Refused):
            decode(drawn.fmt, files, base_offset=drawn.base_offset)
    else:
        assert decode(drawn.fmt, files, base_offset=drawn.base_offset) == expected


@given(drawn=segments("rustlog"), data=st.data())
def test_every_flipped_bit_of_a_rustlog_index_is_noticed(drawn: Drawn, data: st.DataObject) -> None:
    index = drawn.files[".index"]
    damaged = flipped(index, data.draw(st.integers(0, len(index) * 8 - 1)))
    read_damaged(drawn, ".index", damaged)


# ---------------------------------------------------------------------------- damage: side files


@every_format
@half
@given(data=st.data())
def test_a_damaged_side_file_is_reported_or_harmless(fmt: Format, data: st.DataObject) -> None:
    """Harmless means more than that all records come: each is also found through it."""
    drawn = segment_of(data, fmt)
    suffixes = [suffix for suffix in fmt.side_suffixes if drawn.files.get(suffix)]
    if not suffixes:
        return
    suffix = data.draw(st.sampled_from(suffixes))
    whole = bytearray(drawn.files[suffix])
    if data.draw(st.booleans()):
        del whole[data.draw(st.integers(0, len(whole) - 1)) :]
    else:
        for _ in range(data.draw(st.integers(1, 2))):
            at = data.draw(st.integers(0, len(whole) - 1))
            whole[at] = data.draw(st.just(whole[at] ^ 1) | st.integers(0, 255))
    files = drawn.with_file(suffix, bytes(whole))
    walked = walk_files(fmt, Store(files), base_offset=drawn.base_offset)
    assert walked.records == drawn.records
    assert walked.where <= {suffix}
    if not walked.damages:
        opened = open_files(fmt, Store(files), base_offset=drawn.base_offset)
        for number, record in enumerate(drawn.records):
            assert opened.read_from(record.offset, 100) == drawn.records[number:]
            for time in (record.timestamp, record.timestamp + 1):
                assert opened.offset_at(time) == first_not_older(drawn.records, time)


@given(drawn=segments("kafkalog", min_pieces=3), data=st.data())
def test_a_forged_kafka_index_is_reported_or_harmless(drawn: Drawn, data: st.DataObject) -> None:
    """Entries that could be true, each by itself, beside a log that may still be written to."""
    log, active = drawn.data, data.draw(st.booleans())
    if active:
        log = log[: data.draw(st.sampled_from([0, 1, *(p.end for p in drawn.pieces)]))]
    whole = [piece for piece in drawn.pieces if piece.end <= len(log)]
    kept = tuple(record for piece in whole for record in piece.records)
    count = data.draw(st.integers(0, 2))
    reach = st.integers(0, drawn.records[-1].offset + 2 - drawn.base_offset)
    places = st.sampled_from([piece.position for piece in drawn.pieces[1:]])
    times = st.sampled_from([max(0, r.timestamp + at) for r in drawn.records for at in (-1, 0, 1)])

    def column(values: st.SearchStrategy[int]) -> list[int]:
        # In order, as columns are: nothing but the log can tell whether an entry is true.
        unique = values is not reach
        drawn_values = st.lists(values, min_size=count, max_size=count, unique=unique)
        return sorted(data.draw(drawn_values))

    index = zip(sorted(set(column(reach))), column(places), strict=False)
    entries = zip(column(times), column(reach), strict=True)
    files = {
        ".log": log,
        ".index": b"".join(struct.pack(">ii", *entry) for entry in index),
        ".timeindex": b"".join(struct.pack(">qi", *entry) for entry in entries),
    }
    walked = walk_files(drawn.fmt, Store(files), base_offset=drawn.base_offset, active=active)
    assert walked.records == kept
    if not walked.damages:
        opened = open_files(drawn.fmt, Store(files), base_offset=drawn.base_offset, active=active)
        for number, record in enumerate(kept):
            assert opened.read_from(record.offset, 100) == kept[number:]
            for time in (record.timestamp, record.timestamp + 1):
                assert opened.offset_at(time) == first_not_older(kept, time)


@half
@given(drawn=segments("kafkalog").filter(lambda drawn: ".snapshot" in drawn.files), data=st.data())
def test_every_flipped_bit_of_a_snapshot_is_noticed(drawn: Drawn, data: st.DataObject) -> None:
    whole = drawn.files[".snapshot"]
    damaged = flipped(whole, data.draw(st.integers(0, len(whole) * 8 - 1)))
    read_damaged(drawn, ".snapshot", damaged)


# ---------------------------------------------------------------------------- behind damage


@pytest.mark.parametrize(
    "fmt", [FORMATS[name] for name in (*BATCHED, "strm")], ids=lambda f: f.name
)
@given(data=st.data())
def test_damage_in_one_piece_leaves_the_others(fmt: Format, data: st.DataObject) -> None:
    """A base offset is not under the checksum of its batch. A wrong one costs the next batch, too:
    of two that contradict each other nobody can tell which is right."""
    drawn = segment_of(data, fmt, min_pieces=2)
    number = data.draw(st.integers(0, len(drawn.pieces) - 1))
    hit = drawn.pieces[number]
    whole = bytearray(drawn.data)
    places = data.draw(st.lists(st.integers(0, hit.size - 1), min_size=1, max_size=3))
    for at in places:
        whole[hit.position + at] = data.draw(st.integers(0, 255))
    if _leads_to_another(fmt, bytes(whole), hit, drawn.pieces):
        return
    lost = {hit.position}
    moved = fmt.name in BATCHED and min(places) < 8
    if moved:
        lost |= {piece.position for piece in drawn.pieces[number + 1 : number + 2]}
    files = drawn.with_file(fmt.suffix, bytes(whole))
    walked = walk_files(fmt, Store(files), base_offset=drawn.base_offset)
    others = [(p.position, p.records) for p in drawn.pieces if p.position not in lost]
    found = [(b.position, b.records) for b in walked.blocks if b.position not in lost]
    assert found == others
    if not moved:
        kept = [block.records for block in walked.blocks if block.position == hit.position]
        assert kept in ([], [hit.records])
        assert kept or any(damage.size for damage in walked.damages)


def _leads_to_another(fmt: Format, data: bytes, hit: Piece, pieces: Iterable[Piece]) -> bool:
    """Whether a damaged length happens to end where another piece begins: then it is believed."""
    head, at = (12, 8) if fmt.name in BATCHED else (16, 4)
    (length,) = struct.unpack_from(">I", data, hit.position + at)
    ends = {piece.position for piece in pieces} | {max(piece.end for piece in pieces)}
    return length + head != hit.size and hit.position + head + length in ends


@given(drawn=segments("rustlog", min_pieces=3), data=st.data())
def test_behind_damage_rustlog_goes_on_at_the_next_index_entry(
    drawn: Drawn, data: st.DataObject
) -> None:
    number = data.draw(st.integers(0, len(drawn.pieces) - 1))
    hit = drawn.pieces[number]
    # The highest bit of the length, or of the offset: neither can be right.
    log = flipped(drawn.data, (hit.position + data.draw(st.sampled_from((0, 4)))) * 8 + 7)
    walked = walk_files(
        drawn.fmt, Store(drawn.with_file(".log", log)), base_offset=drawn.base_offset
    )
    entries = struct.iter_unpack(">QQ", drawn.files[".index"])
    resumed = min((at for _, at in entries if at > hit.position), default=len(log))
    kept = [p for p in drawn.pieces if p.position < hit.position or p.position >= resumed]
    assert walked.records == tuple(record for piece in kept for record in piece.records)
    first = walked.damages[0]
    assert (first.error.where, first.size) == (".log", resumed - hit.position)


@pytest.mark.parametrize("fmt", [FORMATS[name] for name in ACTIVE], ids=lambda fmt: fmt.name)
@given(data=st.data())
def test_an_active_segment_cut_anywhere_is_a_shorter_one(fmt: Format, data: st.DataObject) -> None:
    """The index may be ahead of the log: it may have reached the disk first."""
    drawn = segment_of(data, fmt)
    length = data.draw(st.integers(0, len(drawn.data)))
    store = Store(drawn.with_file(fmt.suffix, drawn.data[:length]))
    kept = tuple(r for piece in drawn.pieces if piece.end <= length for r in piece.records)
    walked = walk_files(fmt, store, base_offset=drawn.base_offset, active=True)
    assert walked.damages == ()
    assert walked.records == kept
    opened = open_files(fmt, store, base_offset=drawn.base_offset, active=True)
    offset = data.draw(st.sampled_from([record.offset for record in drawn.records]))
    assert opened.read_from(offset, 9) == tuple(r for r in kept if r.offset >= offset)
    timestamp = data.draw(timestamps)
    assert opened.offset_at(timestamp) == first_not_older(kept, timestamp)


# ---------------------------------------------------------------------------- any bytes at all


@st.composite
def hostile_files(draw: st.DrawFn, fmt: Format) -> dict[str, bytes]:
    """Noise, damaged segments, and two segments in one."""
    drawn = draw(segments(fmt.name))
    files = dict(drawn.files)
    suffix = draw(st.sampled_from(sorted(files)))
    match draw(st.sampled_from(("noise", "bytes", "splice", "hole", "swap"))):
        case "noise":
            files[suffix] = draw(st.binary(max_size=200))
        case "bytes":
            whole = bytearray(files[suffix])
            for at in draw(st.lists(st.integers(0, max(0, len(whole) - 1)), max_size=8)):
                whole[at : at + 1] = draw(st.binary(min_size=1, max_size=2))
            files[suffix] = bytes(whole)
        case "splice":
            other = draw(segments(fmt.name)).files.get(suffix, b"")
            here = draw(st.integers(0, len(files[suffix])))
            files[suffix] = files[suffix][:here] + other[draw(st.integers(0, len(other))) :]
        case "hole":
            start = draw(st.integers(0, len(files[suffix])))
            files[suffix] = (
                files[suffix][:start] + files[suffix][start + draw(st.integers(1, 40)) :]
            )
        case _:
            values = draw(st.permutations(list(files.values())))
            files = dict(zip(files, values, strict=True))
    return files


@every_format
@given(data=st.data())
def test_any_bytes_give_records_or_an_error_of_ours(fmt: Format, data: st.DataObject) -> None:
    files = data.draw(hostile_files(fmt))
    base_offset = data.draw(st.just(int.from_bytes(files[fmt.suffix][8:16], "big") >> 1)
                            | base_offsets | st.integers(0, OFFSET_MAX))  # fmt: skip
    lies = {
        suffix: max(0, len(held) + data.draw(st.integers(-50, 50) | st.integers(0, 1 << 40)))
        for suffix, held in files.items()
        if data.draw(st.integers(0, 3)) == 0
    }
    sizes = {suffix: len(held) for suffix, held in files.items()} | lies
    active = data.draw(st.booleans())
    assert fmt.sniff(files[fmt.suffix][:4096], base_offset) in (True, False)
    walked = walk_files(fmt, Store(files, sizes), base_offset=base_offset, active=active)
    found = walked.records
    assert all(a.offset < b.offset for a, b in pairwise(found))
    assert all(a.position + a.size <= b.position for a, b in pairwise(walked.blocks))
    assert walked.where <= {fmt.suffix, *fmt.side_suffixes}
    try:
        opened = open_files(fmt, Store(files, sizes), base_offset=base_offset, active=active)
        offset = data.draw(base_offsets | st.sampled_from([0, *(r.offset for r in found)]))
        read = opened.read_from(offset, 3)
        assert len(read) <= 3
        assert all(record.offset >= offset for record in read)
        opened.offset_at(data.draw(timestamps))
    except Refused:
        assert walked.damages or active or lies


@every_format
@fewer
@given(head=st.binary(max_size=80), base_offset=base_offsets)
def test_sniffing_never_raises(fmt: Format, head: bytes, base_offset: int) -> None:
    assert fmt.sniff(head, base_offset) in (True, False)


# ---------------------------------------------------------------------------- cost


@every_format
def test_a_walk_reads_a_large_file_once_and_in_bounded_pieces(fmt: Format) -> None:
    value = bytes(range(256)) * 400
    found = fit(
        fmt,
        [Record(offset=at, timestamp=at, key=None, value=value) for at in range(60)],
    )
    store = Store(encode(fmt, found, Codec.NONE))
    size = len(store.files[fmt.suffix])
    assert size > 5 << 20
    assert walk_files(fmt, store, base_offset=0).records == found
    pieces = [wish.end - wish.start for wish in store.asked]
    assert max(pieces) <= 2 << 20
    assert sum(pieces) <= size + (64 << 10)
