"""Any format as Arrow columns, read by ranges and parsed by compiled kernels.

``scan_columns`` is a flow like a walk, but yields Arrow batches and stops at the first damage. It
checks every batch, block or record it reads, and agrees there with the plain readers. What only a
pass over a whole file can tell (its checksum, its counts, an index against its segment) is the
matter of a walk.
"""

from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from lakelog.errors import CorruptError, UnsupportedError
from lakelog.flows import Items, asked_for
from lakelog.formats import kernels as k
from lakelog.formats.batches import BatchSegment, Run, find_offset, first_batch, pieces
from lakelog.formats.contract import Files, Format, Range, Ranged, Window
from lakelog.formats.rustlog import RustLogSegment
from lakelog.formats.rustlog.layout import (
    PAYLOAD_BYTES_MAX,
    RECORD,
    decode_record_header,
    is_torn,
)
from lakelog.formats.rustlog.walk import to_record
from lakelog.formats.strm import FORMAT as STRM
from lakelog.formats.strm import RawBlock, StrmSegment
from lakelog.records import OFFSET_MAX
from lakelog.records.columns import COLUMNS, BatchDecoder, Columns, time_overflow
from lakelog.records.kernels import fields as f

__all__ = ["Scan", "scan_columns"]

PIECE_BYTES = 8 * 1024 * 1024
"""What a scan asks for at a time: some 65,000 records of a hundred bytes."""

SEEK_BYTES = 256 * 1024
"""About what it takes to find where an offset is, by an index and a few headers."""

LARGEST_RECORD_BYTES = RECORD.size + PAYLOAD_BYTES_MAX

Scan = Generator[Range | pa.RecordBatch, Any, None]


def scan_columns(
    fmt: Format,
    files: Files,
    columns: Iterable[str] = COLUMNS,
    *,
    byte_from: int = 0,
    byte_to: int = OFFSET_MAX,
    piece_bytes: int = PIECE_BYTES,
    saw: Callable[[memoryview], None] | None = None,
    **settings: Any,
) -> Scan:
    """Yield the records of a segment as Arrow; settings are those of records.columns.Columns.

    With ``offset_from`` the scan begins where the index says, with ``offset_to`` it ends early.
    ``[byte_from, byte_to)`` is a part of the data file: the records of the batches (blocks, single
    records) that begin in it. Parts that do not overlap share no record, and parts without a gap
    miss none, so a segment can be cut anywhere and read by many. ``saw`` is shown the batches, as
    they stand, before their records come; formats that have none do not call it.

    Raises:
        CorruptError, UnsupportedError: as the plain readers would, after what is before it.
    """
    part = _Part(
        low=settings.get("offset_from", 0),
        high=settings.get("offset_to", OFFSET_MAX),
        start=byte_from,
        end=byte_to,
        piece_bytes=piece_bytes,
        saw=saw,
    )
    return _SCANS[fmt.name](fmt, files, tuple(columns), part, settings)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """What of a segment is wanted: offsets, and positions at which batches begin."""

    low: int
    high: int
    start: int
    end: int
    piece_bytes: int
    saw: Callable[[memoryview], None] | None


def _scan_batches(
    fmt: Format, files: Files, columns: tuple[str, ...], part: _Part, settings: dict[str, Any]
) -> Scan:
    decoder = BatchDecoder(columns, **settings)
    segment = yield from fmt.open(files)
    assert isinstance(segment, BatchSegment)
    run: Run = segment.run
    at = segment.start(part.low) if part.low > segment.base_offset else run.start
    end = yield from _end_of_part(segment, run, part)
    if part.start >= end:
        return
    if part.start > at:
        near = max(at, segment.start_at(part.start))
        at = yield from first_batch(run, near, part.start)
    if end < run.end:
        # A batch stands behind the part, so nothing in it is an end: what looks so is damage.
        run = replace(run, end=end, torn_end=False, zeros_end=False)
    try:
        yield from _decode_run(decoder, run, at, part)
    except (CorruptError, UnsupportedError):
        yield from decoder.flush()
        raise
    yield from decoder.flush()


def _decode_run(decoder: BatchDecoder, run: Run, at: int, part: _Part) -> Scan:
    source = pieces(run, at=at, bytes_max=part.piece_bytes)
    found = Items(source, Range, asked_for)
    while (item := (yield from found.next())) is not None:
        if int.from_bytes(item.data[:8], "big", signed=True) >= part.high:
            return
        if part.saw is not None:
            part.saw(item.data)
        yield from decoder.feed(item.data, at=item.position, where=run.suffix)
        del item  # The next piece takes its memory.
        if decoder.next_offset >= part.high:
            return


def _end_of_part(segment: BatchSegment, run: Run, part: _Part) -> Ranged[int]:
    """Return where the first batch behind the part begins, or one behind that."""
    ends_within = segment.start(part.high) < segment.start(OFFSET_MAX)
    if ends_within and part.piece_bytes > SEEK_BYTES:
        # It pays to find the last batch that is wanted before the first is fetched.
        try:
            last = yield from find_offset(run, segment.start(part.high - 1), part.high - 1)
        except (CorruptError, UnsupportedError):
            last = None  # Whoever reads up to there says so.
        if last is not None and last.position + last.header.size < part.end:
            return last.position + last.header.size
    if part.end >= run.end:
        return run.end
    near = max(run.start, segment.start_at(part.end))
    return (yield from first_batch(run, near, part.end))


def _scan_strm(
    fmt: Format, files: Files, columns: tuple[str, ...], part: _Part, settings: dict[str, Any]
) -> Scan:
    made = Columns(columns, **settings)
    segment = yield from fmt.open(files)
    assert isinstance(segment, StrmSegment)
    made.expect(segment.header.count)
    for number in segment.numbers_from(part.low):
        entry = segment.entries[number]
        if entry.offset >= part.high or entry.position >= part.end:
            break
        if entry.position >= part.start:
            block = yield from segment.read_block(number)
            yield from _strm_block(segment, number, block, made)
    yield from made.flush()


def _strm_block(
    segment: StrmSegment, number: int, block: RawBlock, made: Columns
) -> Iterator[pa.RecordBatch]:
    header, raw = segment.header, np.frombuffer(block.raw, np.uint8)
    about = np.zeros(k.BLOCK_WIDTH, np.int64)
    about[k.B_END], about[k.B_COUNT] = len(raw), block.count
    about[k.B_BASE_OFFSET] = block.base_offset
    about[k.B_MIN_TIME], about[k.B_MAX_TIME] = header.min_timestamp, header.max_timestamp
    about[k.B_TOMBSTONES], about[k.B_HEADERS] = header.has_tombstones, header.has_headers
    cursor = np.array([0, 0, -1, 0, -(1 << 63)], np.int64)
    parse = partial(
        k.parse_strm, raw.ctypes.data, about, made.limits, cursor, made.arrays, made.sums
    )
    status = yield from made.collect(parse, raw.ctypes.data, len(raw))
    if status == f.DONE and block.base_offset + int(cursor[2]) < segment.end_offset(number):
        return
    yield from made.flush()
    if status == f.TIME_OVERFLOW:
        raise time_overflow(block.position, STRM.suffix)
    segment.read_records(block, number)  # It says what is wrong.
    raise AssertionError(f"the compiled and the plain codec disagree at {block.position}")


def _scan_rustlog(
    fmt: Format, files: Files, columns: tuple[str, ...], part: _Part, settings: dict[str, Any]
) -> Scan:
    segment = yield from fmt.open(files)
    assert isinstance(segment, RustLogSegment)
    made = Columns(columns, **settings)
    suffix, size = fmt.suffix, files.sizes[fmt.suffix]
    window = Window(suffix, size, chunk_bytes=part.piece_bytes)
    at, offset_min = yield from segment.seek(window, part.low)
    if part.start > at:
        at, offset_min = yield from segment.seek_record(window, part.start)
    reach = part.piece_bytes
    while at < min(size, part.end) and offset_min < part.high:
        data = yield from window.read(at, at + reach)
        view = np.frombuffer(data, np.uint8)
        cursor = np.array([0, offset_min], np.int64)
        made.expect(len(view) // RECORD.size)
        parse = partial(
            k.parse_rustlog, view.ctypes.data, len(view), min(part.end - at, len(view)),
            made.limits, cursor, made.arrays, made.sums,
        )  # fmt: skip
        status = yield from made.collect(parse, view.ctypes.data, LARGEST_RECORD_BYTES)
        yield from made.flush()
        at, offset_min = at + int(cursor[0]), int(cursor[1])
        if status == f.TIME_OVERFLOW:
            raise time_overflow(at, suffix)
        if status == f.DONE and cursor[0] == 0 and len(view) == reach < LARGEST_RECORD_BYTES:
            reach = LARGEST_RECORD_BYTES  # A record may be larger than a piece.
        elif status == f.BAD or cursor[0] == 0:
            head, room = view[int(cursor[0]) :][: RECORD.size].tobytes(), size - at
            if files.active and is_torn(head, room):
                return
            header = decode_record_header(head, at=at, room=room, offset_min=offset_min)
            start = int(cursor[0]) + RECORD.size
            payload = view[start : start + header.length].tobytes()
            if len(payload) == header.length:
                to_record(header, payload, at=at)  # It says what is wrong with an envelope.
            end = at - int(cursor[0]) + len(view)
            if end < size:
                raise CorruptError(f"the file ends here, not at {size}", at=end, where=suffix)
            raise AssertionError(f"the compiled and the plain codec disagree at {at}")


_SCANS: dict[str, Callable[..., Scan]] = {
    "kafs": _scan_batches,
    "kafkalog": _scan_batches,
    "strm": _scan_strm,
    "rustlog": _scan_rustlog,
}
