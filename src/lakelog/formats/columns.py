"""Any format as Arrow columns, read by ranges and parsed by compiled kernels.

``scan_columns`` is a flow like a walk, but yields Arrow batches and stops at the first damage. It
checks every batch, block or record it reads, and agrees there with the plain readers. What only a
pass over a whole file can tell (its checksum, its counts, an index against its segment) is the
matter of a walk.
"""

from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from lakelog.formats import kernels as k
from lakelog.formats.batches import Run, pieces
from lakelog.formats.contract import Files, Format, Range, Window
from lakelog.formats.kafkalog import KafkaSegment
from lakelog.formats.kafs import KafsSegment
from lakelog.formats.rustlog import RustLogSegment
from lakelog.formats.rustlog.layout import (
    PAYLOAD_BYTES_MAX,
    RECORD,
    decode_record_header,
    is_torn,
)
from lakelog.formats.strm import FORMAT as STRM
from lakelog.formats.strm import RawBlock, StrmSegment
from lakelog.records import OFFSET_MAX, decode_header
from lakelog.records.columns import COLUMNS, BatchDecoder, Columns, time_overflow
from lakelog.records.kernels import fields as f

__all__ = ["Scan", "scan_columns"]

PIECE_BYTES = 8 * 1024 * 1024
"""What a scan asks for at a time: some 65,000 records of a hundred bytes."""

LARGEST_RECORD_BYTES = RECORD.size + PAYLOAD_BYTES_MAX

Scan = Generator[Range | pa.RecordBatch, Any, None]


def scan_columns(
    fmt: Format,
    files: Files,
    columns: Iterable[str] = COLUMNS,
    *,
    piece_bytes: int = PIECE_BYTES,
    **settings: Any,
) -> Scan:
    """Yield the records of a segment as Arrow; settings are those of records.columns.Columns.

    With ``offset_from`` the scan begins where the index says, with ``offset_to`` it ends early.

    Raises:
        CorruptError, UnsupportedError: as the plain readers would, after what is before it.
    """
    return _SCANS[fmt.name](fmt, files, tuple(columns), piece_bytes, settings)


def _scan_batches(
    fmt: Format, files: Files, columns: tuple[str, ...], piece_bytes: int, settings: dict[str, Any]
) -> Scan:
    decoder = BatchDecoder(columns, **settings)
    segment = yield from fmt.open(files)
    assert isinstance(segment, KafsSegment | KafkaSegment)
    run: Run = segment.run
    start = segment.start(settings["offset_from"]) if settings.get("offset_from") else run.start
    offset_to = settings.get("offset_to", OFFSET_MAX)
    source = pieces(run, at=start, bytes_max=piece_bytes)
    answer: bytes | None = None
    while True:
        try:
            item = source.send(answer)
        except StopIteration:
            return
        answer = None
        if isinstance(item, Range):
            answer = yield item
        elif decode_header(item.data, where=run.suffix).base_offset >= offset_to:
            return
        else:
            yield from decoder.feed(item.data, at=item.position, where=run.suffix)


def _scan_strm(
    fmt: Format, files: Files, columns: tuple[str, ...], piece_bytes: int, settings: dict[str, Any]
) -> Scan:
    # A block is the piece here: it is compressed as one.
    del piece_bytes
    made = Columns(columns, **settings)
    segment = yield from fmt.open(files)
    assert isinstance(segment, StrmSegment)
    low, high = settings.get("offset_from", 0), settings.get("offset_to", OFFSET_MAX)
    for number in segment.numbers_from(low):
        if segment.entries[number].offset >= high:
            return
        block = yield from segment.read_block(number)
        yield from _strm_block(segment, number, block, made)


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
    status = f.FULL
    # A record takes four bytes at least, so no more are made room for than there can be.
    while status == f.FULL:
        made.begin(max(1, min(block.count, len(raw) // 4) - int(cursor[0])))
        status = k.parse_strm(raw.ctypes.data, about, made.limits, cursor, made.arrays, made.sums)
        if made.rows:
            yield made.take(raw.ctypes.data)
    if status == f.TIME_OVERFLOW:
        raise time_overflow(block.position, STRM.suffix)
    if status == f.BAD or block.base_offset + int(cursor[2]) >= segment.end_offset(number):
        segment.read_records(block, number)  # It says what is wrong.
        raise AssertionError(f"the compiled and the plain codec disagree at {block.position}")


def _scan_rustlog(
    fmt: Format, files: Files, columns: tuple[str, ...], piece_bytes: int, settings: dict[str, Any]
) -> Scan:
    segment = yield from fmt.open(files)
    assert isinstance(segment, RustLogSegment)
    made = Columns(columns, **settings)
    suffix, size = fmt.suffix, files.sizes[fmt.suffix]
    window = Window(suffix, size, chunk_bytes=piece_bytes)
    at, offset_min = yield from segment.seek(window, settings.get("offset_from", 0))
    while at < size and offset_min < settings.get("offset_to", OFFSET_MAX):
        data = yield from window.read(at, at + max(piece_bytes, LARGEST_RECORD_BYTES))
        view = np.frombuffer(data, np.uint8)
        cursor = np.array([0, offset_min], np.int64)
        status = f.FULL
        while status == f.FULL:
            made.begin(max(1, (len(view) - int(cursor[0])) // 20))
            status = k.parse_rustlog(
                view.ctypes.data, len(view), made.limits, cursor, made.arrays, made.sums
            )
            if made.rows:
                yield made.take(view.ctypes.data)
        if status == f.TIME_OVERFLOW:
            raise time_overflow(at + int(cursor[0]), suffix)
        at, offset_min = at + int(cursor[0]), int(cursor[1])
        if status == f.BAD or int(cursor[0]) == 0:
            head, room = view[int(cursor[0]) :][:20].tobytes(), size - at
            if files.active and is_torn(head, room):
                return
            decode_record_header(head, at=at, room=room, offset_min=offset_min)
            raise AssertionError(f"the compiled and the plain codec disagree at {at}")


_SCANS: dict[str, Callable[..., Scan]] = {
    "kafs": _scan_batches,
    "kafkalog": _scan_batches,
    "strm": _scan_strm,
    "rustlog": _scan_rustlog,
}
