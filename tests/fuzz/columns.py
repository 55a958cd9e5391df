"""The compiled readers against the plain ones: on every input they must agree."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from lakelog.errors import CorruptError, UnsupportedError
from lakelog.formats import FORMATS, Files, Format, drive_items
from lakelog.formats.columns import scan_columns
from lakelog.model import Record
from lakelog.records.columns import COLUMNS, arrow_schema
from tests.fuzz.batches import DECOMPRESSED_BYTES_MAX, plain_outcome
from tests.fuzz.formats import BASE_OFFSET, unpack
from tests.fuzz.reseal import reseal_run
from tests.fuzz.targets import Target
from tests.segments import walk_files
from tests.shorthands import decode_columns

__all__ = ["TARGETS"]

_MILLIS_MAX = ((1 << 63) - 1) // 1000

Refused = CorruptError | UnsupportedError


def _columns(data: bytes) -> bool:
    """Three bytes say how to read; the rest is a run of batches."""
    if len(data) < 3:
        return False
    run = reseal_run(data[3:]) if data[0] & 1 else data[3:]
    wanted, settings = _settings(data[1], data[2])
    batches, error = plain_outcome(run)
    records = [r for batch in batches if not batch.header.is_control for r in batch.records]
    settings["decompressed_bytes_max"] = DECOMPRESSED_BYTES_MAX
    refused: Refused | None = None
    pieces: list[pa.RecordBatch] = []
    try:
        pieces += decode_columns(run, wanted, **settings)
    except (CorruptError, UnsupportedError) as found:
        refused = found
    if _is_absurd(refused):
        # Arrow cannot hold the time. The plain codec may not have come so far.
        assert "timestamp" in wanted
        assert error is not None or _has_absurd_time(records)
        return False
    assert (type(refused), str(refused)) == (type(error), str(error))
    if refused is not None:
        return False
    _compare(wanted, pieces, records)
    return bool(records)


def _scan(fmt: Format, data: bytes) -> bool:
    """Two bytes say how to read; the rest is a segment, see ``formats``.

    What a walk accepts, a scan gives. It may accept more, for it does not look at everything.
    """
    unpacked = unpack(fmt, data[2:])
    if unpacked is None:
        return False
    store, active = unpacked
    wanted, settings = _settings(data[0], data[1])
    walked = walk_files(fmt, store, base_offset=BASE_OFFSET, active=active)
    files = Files(base_offset=BASE_OFFSET, sizes=store.sizes, active=active)
    refused: Refused | None = None
    pieces: list[pa.RecordBatch] = []
    try:
        flow = scan_columns(fmt, files, wanted, piece_bytes=64 + data[0], **settings)
        pieces += drive_items(flow, store.give)
    except (CorruptError, UnsupportedError) as found:
        refused = found
    for piece in pieces:
        piece.validate(full=True)
    records = [
        record
        for block in walked.blocks
        if block.header is None or not block.header.is_control
        for record in block.records
    ]
    if _is_absurd(refused) and (walked.damages or _has_absurd_time(records)):
        return False
    if not walked.damages and store.is_honest:
        assert refused is None, refused
        _compare(wanted, pieces, records)
    return refused is None and bool(records)


def _settings(columns: int, limits: int) -> tuple[tuple[str, ...], dict[str, Any]]:
    wanted = tuple(name for bit, name in enumerate(COLUMNS) if columns >> bit & 1) or COLUMNS
    return wanted, {"rows_max": 1 + (limits & 0x0F), "bytes_max": 1 + 16 * (limits >> 4)}


def _is_absurd(refused: Refused | None) -> bool:
    return refused is not None and "microseconds" in refused.what


def _has_absurd_time(records: Sequence[Record]) -> bool:
    return any(abs(record.timestamp) > _MILLIS_MAX for record in records)


def _compare(
    wanted: tuple[str, ...], pieces: Sequence[pa.RecordBatch], records: Sequence[Record]
) -> None:
    for piece in pieces:
        piece.validate(full=True)
    table = pa.Table.from_batches(pieces, arrow_schema(wanted))
    assert table.num_rows == len(records)
    for name in wanted:
        if name in _EXPECTED:
            column = table.column(name)
            found = column.cast(pa.int64()) if name == "timestamp" else column
            assert found.to_pylist() == [_EXPECTED[name](record) for record in records], name


def _headers(record: Record) -> list[dict[str, object]] | None:
    pairs = [
        (key.encode("utf-8", "surrogateescape").decode("utf-8", "replace"), value)
        for key, value in record.headers
    ]
    return [{"key": key, "value": value} for key, value in pairs] or None


_EXPECTED = {
    "key": lambda record: record.key,
    "value": lambda record: record.value,
    "offset": lambda record: record.offset,
    "timestamp": lambda record: record.timestamp * 1000,
    "headers": _headers,
}

TARGETS: dict[str, Target] = {
    "columns": _columns,
    **{f"{name}-scan": partial(_scan, FORMATS[name]) for name in ("kafkalog", "rustlog", "strm")},
}
