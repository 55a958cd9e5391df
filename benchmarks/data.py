"""The records that figures are measured on: short keys, values that look like JSON, real times."""

import random
import struct
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import pyarrow as pa
from crc32c import crc32c

from lakelog.formats.batches import frames
from lakelog.host import THIS_HOST
from lakelog.records import Codec, rebase
from lakelog.records.columns import arrow_schema
from tests.plain_encoders import encode_kafka_log
from tests.shorthands import encode_columns

__all__ = [
    "RECORDS_PER_MS",
    "START_MS",
    "Shape",
    "columns_of",
    "run_of",
    "write_kafs",
    "write_partition",
]

START_MS = 1_760_000_000_000
RECORDS_PER_MS = 10

_CRC = struct.Struct(">I")
_CRC_AT, _CRC_START = 17, 21
_TIMES = struct.Struct(">qq")
_TIMES_AT = 27


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
            "timestamp": [(START_MS + i // RECORDS_PER_MS) * 1000 for i in rows],
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


def write_partition(
    folder: Path, shape: Shape, *, size: int, segment_bytes: int = 256 << 20
) -> int:
    """Write a partition in Kafka's layout, of at least ``size`` bytes; return its records.

    The records of ``shape`` again and again, each time with the offsets and times that come next.
    """
    folder.mkdir(parents=True, exist_ok=True)
    segment, held, records = bytearray(), 0, 0
    for batch in _batches_for_ever(shape):
        if len(segment) + len(batch) > segment_bytes or held >= size:
            for suffix, data in encode_kafka_log(segment).items():
                name = f"{int.from_bytes(segment[:8], 'big'):020}{suffix}"
                (folder / name).write_bytes(data)
            segment = bytearray()
        if held >= size:
            return records
        segment += batch
        held += len(batch)
        records += shape.batch_records
    raise AssertionError("unreachable")


def write_kafs(root: Path, shape: Shape, *, partitions: int, size: int, segments: int) -> None:
    """Write topic ``bench`` as KAFS segments; each partition has ``size`` bytes in ``segments``.

    The partitions hold the same records, in the very same files by other names.
    """
    from lakelog.pipeline import Convert, run_here
    from lakelog.store import StoreSpec

    with tempfile.TemporaryDirectory(prefix="lakelog-bench-") as folder:
        each = -(-size // segments)
        write_partition(Path(folder, "bench-0"), shape, size=size, segment_bytes=each)
        source, target = StoreSpec(folder), StoreSpec(str(root))
        job = Convert(
            host=THIS_HOST, source=source, layout="kafka", target=target, target_layout="kafs"
        )
        assert run_here(job).is_good
    for number in range(1, partitions):
        place = root / "bench" / str(number)
        place.mkdir()
        for path in (root / "bench" / "0").iterdir():
            (place / path.name).hardlink_to(path)


def _batches_for_ever(shape: Shape) -> Iterator[bytearray]:
    """Yield one batch after another; the caller is done with each before it takes the next."""
    run = run_of(shape)
    batches = [bytearray(run[at : at + header.size]) for at, header in frames(run)]
    offset, span = 0, (shape.batch_records - 1) // RECORDS_PER_MS
    while True:
        for batch in batches:
            time = START_MS + offset // RECORDS_PER_MS
            rebase(batch, base_offset=offset, leader_epoch=0)
            _TIMES.pack_into(batch, _TIMES_AT, time, time + span)
            _CRC.pack_into(batch, _CRC_AT, crc32c(memoryview(batch)[_CRC_START:]))
            yield batch
            offset += shape.batch_records


def _value(draw: random.Random, size: int) -> bytes:
    fields = [f'"id": {draw.randrange(10**9)}', f'"user": "u{draw.randrange(5000)}"']
    length = len(", ".join(fields)) + 2
    while length < size:
        state = draw.choice(("paid", "open", "sent", "gone")) + str(draw.randrange(10**6))
        fields.append(f'"f{len(fields)}": "{state}"')
        length += len(fields[-1]) + 2
    text = "{" + ", ".join(fields) + "}"
    return text[: size - 1].encode() + b"}"
