"""The same records in every format: how large they are, and how fast they become Arrow.

What the formats' own documents claim is that compression saves 80 % and more, that LZ4 is the best
balance, and that blocks of a megabyte compress better than batches. This measures it, on records
with 100-byte values that look like JSON, in batches of 1,000 records where the format has batches.

The bar is on the fastest of them: a KAFS segment, whose bytes are first fetched by ranges, becomes
columns at no less than a third of the speed of the bare record batches in it.
"""

import statistics
from collections.abc import Callable, Mapping
from functools import partial

from benchmarks.data import Shape, columns_of, run_of
from benchmarks.measure import arguments, closing_line, cpu_rounds, median_ratio
from lakelog.formats import FORMATS, Files, Format, drive_items
from lakelog.formats.columns import scan_columns
from lakelog.records import Codec, decode_batches
from tests.plain_encoders import encode_strm
from tests.segments import buffers
from tests.shorthands import decode_columns, encode_kafs

BAR = 0.33


def scan(fmt: Format, files: Mapping[str, bytes]) -> int:
    sizes = {suffix: len(data) for suffix, data in files.items()}
    flow = scan_columns(fmt, Files(base_offset=0, sizes=sizes))
    return sum(batch.num_rows for batch in drive_items(flow, buffers(files)))


def main() -> None:
    options = arguments(__doc__)
    shape = Shape(records=100_000 if options.quick else 1_000_000)
    columns, rounds = columns_of(shape), 5 if options.quick else 11
    bare = run_of(shape, columns)
    records = [record for batch in decode_batches(bare) for record in batch.records]
    made: dict[str, tuple[Format, Mapping[str, bytes]]] = {}
    for codec in (Codec.NONE, Codec.LZ4, Codec.ZSTD):
        run = run_of(Shape(records=shape.records, codec=codec), columns)
        segment = {".kfs": encode_kafs(run, created_ms=0)}
        made[f"kafs {codec.name.lower()}"] = FORMATS["kafs"], segment
    for codec in (Codec.LZ4, Codec.ZSTD):
        segment = {".seg": encode_strm(records, topic="t", partition=0, codec=codec)}
        made[f"strm {codec.name.lower()}"] = FORMATS["strm"], segment
    sides: dict[str, Callable[[], int]] = {name: partial(scan, *it) for name, it in made.items()}
    sides["bare batches"] = lambda: sum(batch.num_rows for batch in decode_columns(bare))
    assert {side() for side in sides.values()} == {shape.records}
    seconds = cpu_rounds(sides, rounds)
    table = {}
    for name, took in seconds.items():
        size = sum(map(len, made[name][1].values())) if name in made else len(bare)
        rate = shape.records / statistics.median(took) / 1e6
        table[name] = {
            "bytes_of_bare": round(size / len(bare), 3),
            "million_records_per_s": round(rate, 2),
        }
        print(f"{name:14} {size / len(bare):6.1%} of the bare bytes  {rate:7.2f} M records/s")
    value = median_ratio(seconds["bare batches"], seconds["kafs none"], slow_work=1, fast_work=1)
    closing_line(name="formats", value=value, bar=BAR, unit="x the bare batches", formats=table)


if __name__ == "__main__":
    main()
