"""Record batches to Arrow: the compiled decoder against aiokafka's compiled reader.

The bar: at least 10 times the records per CPU second, for 100-byte values, uncompressed, all
columns, every CRC checked on both sides. The other shapes are printed beside it.
"""

import statistics

import pyarrow as pa
from aiokafka.record.memory_records import MemoryRecords

from benchmarks.data import Shape, run_of
from benchmarks.measure import arguments, closing_line, cpu_rounds, median_ratio
from lakelog.records import Codec
from lakelog.records.columns import COLUMNS, TYPES
from tests.shorthands import decode_columns

BAR = 10.0


def by_lakelog(run: bytes, columns: tuple[str, ...] = COLUMNS) -> int:
    return sum(batch.num_rows for batch in decode_columns(run, columns))


def by_aiokafka(run: bytes) -> int:
    """What a Python program does without us: iterate, collect, convert."""
    key, value, offset, time, kind, headers = [], [], [], [], [], []
    batches = MemoryRecords(run)
    while batches.has_next():
        batch = batches.next_batch()
        if not batch.validate_crc():
            raise ValueError("CRC")
        for record in batch:
            key.append(record.key)
            value.append(record.value)
            offset.append(record.offset)
            time.append(record.timestamp * 1000)
            kind.append(record.timestamp_type)
            headers.append(record.headers or None)
    columns = pa.RecordBatch.from_arrays(
        [
            pa.array(column, TYPES[name])
            for name, column in zip(COLUMNS, (key, value, offset, time, kind, headers), strict=True)
        ],
        names=list(COLUMNS),
    )
    return int(columns.num_rows)


def main() -> None:
    options = arguments(__doc__)
    records = 200_000 if options.quick else 1_000_000
    rounds = 7 if options.quick else 15
    run, sample = run_of(Shape(records=records)), run_of(Shape(records=records // 10))
    assert by_lakelog(sample) == by_aiokafka(sample) == records // 10
    seconds = cpu_rounds(
        {"lakelog": lambda: by_lakelog(run), "aiokafka": lambda: by_aiokafka(sample)}, rounds
    )
    ratio = median_ratio(
        seconds["aiokafka"], seconds["lakelog"], slow_work=records / 10, fast_work=records
    )
    shapes = {
        "100 B": (Shape(records=records), COLUMNS),
        "100 B, offset and timestamp only": (Shape(records=records), ("offset", "timestamp")),
        "100 B, 16 KB batches": (Shape(records=records, batch_records=130), COLUMNS),
        "100 B, lz4": (Shape(records=records, codec=Codec.LZ4), COLUMNS),
        "100 B, zstd": (Shape(records=records, codec=Codec.ZSTD), COLUMNS),
        "100 B, 2 headers": (Shape(records=records, headers=2), COLUMNS),
        "1 KB": (Shape(records=records // 8, value_bytes=1000, batch_records=250), COLUMNS),
    }
    more = {name: _speed(shape, columns, 5) for name, (shape, columns) in shapes.items()}
    for name, (rate, megabytes) in more.items():
        print(f"{name:34} {rate:7.2f} M records/s  {megabytes:7.0f} MB/s uncompressed")
    theirs = records / 10 / statistics.median(seconds["aiokafka"]) / 1e6
    print(f"{'aiokafka, 100 B':34} {theirs:7.2f} M records/s")
    closing_line(
        name="decode",
        value=ratio,
        bar=BAR,
        unit="x aiokafka into Arrow, CPU time",
        million_records_per_s={name: round(rate, 2) for name, (rate, _) in more.items()},
    )


def _speed(shape: Shape, columns: tuple[str, ...], rounds: int) -> tuple[float, float]:
    run = run_of(shape)
    plain = len(run) if shape.codec is Codec.NONE else shape.records * (shape.value_bytes + 22)
    seconds = cpu_rounds({"it": lambda: by_lakelog(run, columns)}, rounds)["it"]
    median = statistics.median(seconds)
    return shape.records / median / 1e6, plain / median / 1e6


if __name__ == "__main__":
    main()
