"""``verify`` on Spark against a bare loop that checks the same sums.

Both read the same KAFS segments with two processes. The bare side reads them with obstore, eight
mebibytes at a time, checks the CRC of every batch and that of each segment, and does nothing else.
Partitions are the same files by other names, each larger than the caches of the machine.

The value is the throughput of a whole run of ``verify`` (plan, tasks, report) as a share of that.
"""

import multiprocessing
import struct
import tempfile
from pathlib import Path
from typing import Any

import obstore
from crc32c import crc32c
from obstore.store import LocalStore

from benchmarks.data import Shape, write_kafs
from benchmarks.measure import arguments, closing_line
from benchmarks.spark import rounds_of, throughput
from tests.parts.spark import running_spark

SIZE = 256 << 20
PIECE_BYTES = 8 << 20
HEADER_BYTES, FOOTER_BYTES = 32, 16
_BATCH = struct.Struct(">qi5xI")


def check(root: str, keys: list[str]) -> int:
    """Check every sum of some segments; return how many batches there were."""
    store, batches = LocalStore(root), 0
    for key in keys:
        size = obstore.head(store, key)["size"]
        at, end = HEADER_BYTES, size - FOOTER_BYTES
        whole = 0
        while at < end:
            data = memoryview(
                obstore.get_range(store, key, start=at, end=min(end, at + PIECE_BYTES))
            )
            start = 0
            while len(data) - start >= _BATCH.size:
                _, length, crc = _BATCH.unpack_from(data, start)
                if start + 12 + length > len(data):
                    break
                assert crc32c(data[start + 21 : start + 12 + length]) == crc
                start += 12 + length
                batches += 1
            whole = crc32c(data[:start], whole)
            at += start
        footer = bytes(obstore.get_range(store, key, start=end, end=size))
        assert int.from_bytes(footer[:4], "big") == whole
    return batches


def main() -> None:
    options = arguments(__doc__)
    partitions, rounds = (16, 4) if options.quick else (32, 7)
    figures: dict[str, Any] = {}
    for value_bytes, batch_records in ((100, 1000), (1000, 250)):
        with tempfile.TemporaryDirectory(prefix="lakelog-bench-") as folder:
            shape = Shape(records=100_000, value_bytes=value_bytes, batch_records=batch_records)
            write_kafs(Path(folder), shape, partitions=partitions, size=SIZE, segments=4)
            figures[f"v{value_bytes}"] = compare(Path(folder), rounds)
        if options.quick:
            break
    closing_line(
        name="verify",
        value=min(figure["ratio"] for figure in figures.values()),
        bar=0.7,
        unit="of a bare two-process loop, whole runs by the wall clock",
        bytes=partitions * SIZE,
        **figures,
    )


def compare(root: Path, rounds: int) -> dict[str, float]:
    keys = sorted(str(path.relative_to(root)) for path in root.rglob("*.kfs"))
    size = sum((root / key).stat().st_size for key in keys)
    halves = [keys[::2], keys[1::2]]
    context = multiprocessing.get_context("spawn")
    with context.Pool(2) as pool, running_spark() as spark:
        from lakelog.spark import jobs

        def bare() -> None:
            assert sum(pool.starmap(check, [(str(root), half) for half in halves])) > 0

        def ours() -> None:
            report = jobs.verify(spark, str(root), layout="kafs")
            assert report.is_good

        took = rounds_of({"bare": bare, "ours": ours}, rounds=rounds, warm_up=1)
    return throughput(took, size)


if __name__ == "__main__":
    main()
