"""Arrow to record batches: the compiled encoder against aiokafka's builder.

The bar: at least 15 times the records per CPU second, for 100-byte values, uncompressed, with CRC.
Both sides begin with the same Arrow columns, in batches of the same number of records.
"""

import statistics

import pyarrow as pa
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from benchmarks.data import Shape, columns_of
from benchmarks.measure import arguments, closing_line, cpu_rounds, median_ratio
from lakelog.records import Codec, decode_batches
from lakelog.records.columns import ROWS_MAX
from lakelog.records.encoder import BatchEncoder
from tests.shorthands import encode_columns

BAR = 15.0
BATCH_RECORDS = 1000


def by_lakelog(columns: list[pa.RecordBatch], codec: Codec = Codec.NONE) -> int:
    encoder = BatchEncoder(codec=codec, records_max=BATCH_RECORDS, batch_bytes=1 << 30)
    return sum(encoder.encode(piece).size for piece in columns)


def by_aiokafka(columns: pa.RecordBatch) -> bytes:
    """What a Python program does without us: to Python objects, append each, build."""
    run = bytearray()
    keys, values = columns.column("key").to_pylist(), columns.column("value").to_pylist()
    times = columns.column("timestamp").cast(pa.int64()).to_pylist()
    for start in range(0, columns.num_rows, BATCH_RECORDS):
        builder = DefaultRecordBatchBuilder(
            magic=2, compression_type=0, is_transactional=0,
            producer_id=-1, producer_epoch=-1, base_sequence=-1, batch_size=1 << 30,
        )  # fmt: skip
        for i in range(start, min(start + BATCH_RECORDS, columns.num_rows)):
            builder.append(i - start, times[i] // 1000, keys[i], values[i], [])
        run += builder.build()
    return bytes(run)


def main() -> None:
    options = arguments(__doc__)
    records = 200_000 if options.quick else 1_000_000
    rounds = 7 if options.quick else 15
    columns = columns_of(Shape(records=records)).drop_columns(["headers", "timestampType"])
    sample = columns.slice(0, records // 10)
    theirs = [r.value for b in decode_batches(by_aiokafka(sample)) for r in b.records]
    run = encode_columns(sample, records_max=BATCH_RECORDS)
    assert theirs == [r.value for b in decode_batches(run) for r in b.records]
    # Columns come in pieces of this size from Spark and from our own decoder.
    pieces = [columns.slice(at, ROWS_MAX) for at in range(0, records, ROWS_MAX)]
    seconds = cpu_rounds(
        {"lakelog": lambda: by_lakelog(pieces), "aiokafka": lambda: by_aiokafka(sample)}, rounds
    )
    ratio = median_ratio(
        seconds["aiokafka"], seconds["lakelog"], slow_work=records / 10, fast_work=records
    )
    rates = {"none": records / statistics.median(seconds["lakelog"]) / 1e6}
    for codec in (Codec.LZ4, Codec.ZSTD):
        took = cpu_rounds({"it": lambda codec=codec: by_lakelog(pieces, codec)}, 3)["it"]  # type: ignore[misc]
        rates[codec.name.lower()] = records / statistics.median(took) / 1e6
    rates["aiokafka"] = records / 10 / statistics.median(seconds["aiokafka"]) / 1e6
    for name, rate in rates.items():
        print(f"{name:10} {rate:7.2f} M records/s")
    closing_line(
        name="encode",
        value=ratio,
        bar=BAR,
        unit="x aiokafka's builder from Arrow, CPU time",
        million_records_per_s={name: round(rate, 2) for name, rate in rates.items()},
    )


if __name__ == "__main__":
    main()
