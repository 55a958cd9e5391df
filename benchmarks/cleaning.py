"""Compaction on one core: noting the keys of a log, then dropping what is outdated.

The bar: a million records a core-second for both together, records of 100 bytes, a million keys (in
the quick form a quarter of that), each written twice, uncompressed, every CRC checked. The other
shapes are printed beside it.
"""

import random
import statistics
from functools import cache

import pyarrow as pa

from benchmarks.data import Shape, columns_of, run_of
from benchmarks.measure import arguments, closing_line, cpu_rounds
from lakelog.records import Codec
from lakelog.records.cleaning import Cleaned
from lakelog.records.cleaning_rules import CleaningRules
from lakelog.records.offset_map import OffsetMap
from tests.shorthands import clean

BAR = 1_000_000
WRITES_PER_KEY = 2
_VALUE_BYTES = 80
"""With its key, times and lengths that is a record of 100 bytes."""

_RULES = CleaningRules(now_ms=1_760_000_000_000)


def main() -> None:
    options = arguments(__doc__)
    records = 500_000 if options.quick else 2_000_000
    rounds = 3 if options.quick else 7
    shapes = {
        "100 B": Shape(records=records, value_bytes=_VALUE_BYTES),
        "100 B, 50 records a batch": Shape(
            records=records, value_bytes=_VALUE_BYTES, batch_records=50
        ),
        "100 B, lz4": Shape(records=records, value_bytes=_VALUE_BYTES, codec=Codec.LZ4),
        "100 B, zstd": Shape(records=records, value_bytes=_VALUE_BYTES, codec=Codec.ZSTD),
    }
    rates = {name: _rates(shape, rounds) for name, shape in shapes.items()}
    for name, rate in rates.items():
        told = "  ".join(f"{what} {each / 1e6:5.2f}" for what, each in rate.items())
        print(f"{name:28} {told}  M records/s")
    closing_line(
        name="cleaning",
        value=rates["100 B"]["both"],
        bar=BAR,
        unit="records a core-second, noted and cleaned",
        records=records,
        keys=records // WRITES_PER_KEY,
        records_per_s={
            name: {w: round(r) for w, r in rate.items()} for name, rate in rates.items()
        },
    )


def _rates(shape: Shape, rounds: int) -> dict[str, float]:
    run = _log(shape)
    newest = _noted(run)
    left: list[Cleaned] = []

    def cleaned() -> None:
        left[:] = [clean(run, newest, _RULES)]

    sides = {"note": lambda: _noted(run), "clean": cleaned}
    seconds = {name: statistics.median(s) for name, s in cpu_rounds(sides, rounds).items()}
    _check(left[0], len(newest), shape)
    seconds["both"] = seconds["note"] + seconds["clean"]
    return {name: shape.records / each for name, each in seconds.items()}


def _noted(run: bytes) -> OffsetMap:
    newest = OffsetMap(seed=1)
    assert not newest.note(run).is_full
    return newest


def _check(found: Cleaned, keys: int, shape: Shape) -> None:
    assert (found.records_read, found.records_kept) == (shape.records, keys)


def _log(shape: Shape) -> bytes:
    columns = columns_of(shape)
    at = columns.schema.names.index("key")
    return run_of(shape, columns.set_column(at, "key", _keys(shape.records)))


@cache
def _keys(records: int) -> pa.Array:
    """Every key is written twice, in an order of no kind."""
    keys = [b"key-%08d" % (i % (records // WRITES_PER_KEY)) for i in range(records)]
    random.Random(3).shuffle(keys)
    return pa.array(keys, pa.binary())


if __name__ == "__main__":
    main()
