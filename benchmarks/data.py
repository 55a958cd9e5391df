"""The records that figures are measured on: short keys, values that look like JSON, real times."""

import json
import random
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa

from lakelog.records import Codec
from lakelog.records.columns import arrow_schema
from lakelog.records.encoder import encode_columns

__all__ = ["Shape", "columns_of", "run_of"]

START_MS = 1_760_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What a set of records looks like."""

    records: int
    value_bytes: int = 100
    headers: int = 0
    batch_records: int = 1000
    codec: Codec = Codec.NONE


def columns_of(shape: Shape) -> pa.RecordBatch:
    """Return the records as one Arrow batch."""
    return _columns(shape.records, shape.value_bytes, shape.headers)


@lru_cache(maxsize=2)
def _columns(records: int, value_bytes: int, headers: int) -> pa.RecordBatch:
    draw = random.Random(7)
    values = [_value(draw, value_bytes) for _ in range(min(records, 20_000))]
    rows = range(records)
    header = [{"key": f"h{i}", "value": b"trace-%08d" % i} for i in range(headers)] or None
    return pa.RecordBatch.from_pydict(
        {
            "key": [b"key-%08d" % draw.randrange(10**8) for _ in rows],
            "value": [values[i % len(values)] for i in rows],
            "offset": list(rows),
            "timestamp": [(START_MS + i // 10) * 1000 for i in rows],
            "timestampType": [0] * records,
            "headers": [header] * records,
        },
        schema=arrow_schema(),
    )


def run_of(shape: Shape, columns: pa.RecordBatch | None = None) -> bytes:
    """Return the same records as a run of record batches."""
    source = columns_of(shape) if columns is None else columns
    run = encode_columns(
        source, codec=shape.codec, records_max=shape.batch_records, batch_bytes=1 << 30
    )
    data: bytes = run.to_pybytes()
    return data


def _value(draw: random.Random, size: int) -> bytes:
    fields: dict[str, object] = {"id": draw.randrange(10**9), "user": f"u{draw.randrange(5000)}"}
    while True:
        text = json.dumps(fields).encode()
        if len(text) >= size:
            return text[: size - 1] + b"}"
        fields[f"f{len(fields)}"] = draw.choice(("paid", "open", "sent", "gone")) + str(
            draw.randrange(10**6)
        )
