"""The compiled codec against the plain one: on every input they must agree."""

import pyarrow as pa

from lakelog.errors import CorruptError, UnsupportedError
from lakelog.model import Record
from lakelog.records.columns import COLUMNS, arrow_schema, decode_columns
from tests.fuzz.batches import DECOMPRESSED_BYTES_MAX, plain_outcome
from tests.fuzz.reseal import reseal_run
from tests.fuzz.targets import Target

__all__ = ["TARGETS"]

_MILLIS_MAX = ((1 << 63) - 1) // 1000


def _columns(data: bytes) -> bool:
    """Three bytes say how to read; the rest is a run of batches."""
    if len(data) < 3:
        return False
    run = reseal_run(data[3:]) if data[0] & 1 else data[3:]
    wanted = tuple(name for bit, name in enumerate(COLUMNS) if data[1] >> bit & 1) or COLUMNS
    batches, error = plain_outcome(run)
    records = [r for batch in batches if not batch.header.is_control for r in batch.records]
    try:
        pieces = list(
            decode_columns(
                run,
                wanted,
                rows_max=1 + (data[2] & 0x0F),
                bytes_max=1 + 16 * (data[2] >> 4),
                decompressed_bytes_max=DECOMPRESSED_BYTES_MAX,
            )
        )
    except (CorruptError, UnsupportedError) as refused:
        if "microseconds" in refused.what:
            # Arrow cannot hold the time. The plain codec may not have come so far.
            absurd = any(abs(record.timestamp) > _MILLIS_MAX for record in records)
            assert "timestamp" in wanted
            assert absurd or error is not None
        else:
            assert error is not None, refused
            assert (type(refused), str(refused)) == (type(error), str(error))
        return False
    assert error is None, error
    for piece in pieces:
        piece.validate(full=True)
    table = pa.Table.from_batches(pieces, arrow_schema(wanted))
    for name in wanted:
        if name in _EXPECTED:
            column = table.column(name)
            found = column.cast(pa.int64()) if name == "timestamp" else column
            assert found.to_pylist() == [_EXPECTED[name](record) for record in records], name
    return bool(records)


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

TARGETS: dict[str, Target] = {"columns": _columns}
