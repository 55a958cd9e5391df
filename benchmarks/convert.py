"""``convert`` on Spark, KAFS to STRM with zstd, against a bare loop of the same kernels.

Both read the same segments with two processes, decode and encode them with the same compiled code,
and write what comes out. The bare side is a loop in two processes that are there already. The value
is the throughput of a whole run of ``convert`` (plan, tasks, report) as a share of that.
"""

import multiprocessing
import shutil
import tempfile
from itertools import count
from pathlib import Path
from typing import Any

from benchmarks.data import Shape, write_kafs
from benchmarks.measure import arguments, closing_line
from benchmarks.spark import rounds_of, throughput
from tests.parts.spark import running_spark

SIZE = 128 << 20
WARM_UP = 8
COLUMNS = ("key", "value", "offset", "timestamp", "timestampType", "headers")


def convert(root: str, keys: list[str], target: str) -> int:
    """Convert some segments; return how many records there were."""
    from lakelog.formats import FORMATS, Files
    from lakelog.formats.columns import scan_columns
    from lakelog.formats.contract import Range, drive_items
    from lakelog.formats.writing import new_segment
    from lakelog.records import Codec

    records = 0
    for key in keys:
        path = Path(root, key)
        base = int(path.stem.rpartition("-")[2])
        sizes = {one.suffix: one.stat().st_size for one in path.parent.glob(f"{path.stem}.*")}

        def give(wish: Range, path: Path = path) -> bytes:
            with path.with_suffix(wish.suffix).open("rb") as file:
                file.seek(wish.start)
                return file.read(wish.end - wish.start)

        writer = new_segment(FORMATS["strm"], topic="bench", partition=0, codec=Codec.ZSTD)
        scan = scan_columns(FORMATS["kafs"], Files(base_offset=base, sizes=sizes), COLUMNS)
        for batch in drive_items(scan, give):
            writer.add(batch)
        records += writer.count
        with Path(target, key.replace("/", "-")).open("wb") as file:
            file.write(writer.finish()[".seg"])
    return records


def main() -> None:
    options = arguments(__doc__)
    partitions, rounds = (5, 2) if options.quick else (12, 5)
    with tempfile.TemporaryDirectory(prefix="lakelog-bench-") as folder:
        root = Path(folder, "source")
        shape = Shape(records=100_000, value_bytes=100)
        write_kafs(root, shape, partitions=partitions, size=SIZE, segments=4)
        figure = compare(root, Path(folder), rounds)
    closing_line(
        name="convert",
        value=figure["ratio"],
        bar=0.7,
        unit="of a bare two-process loop of the same kernels, whole runs by the wall clock",
        bytes=partitions * SIZE,
        **figure,
    )


def compare(root: Path, scratch: Path, rounds: int) -> dict[str, Any]:
    keys = sorted(str(path.relative_to(root)) for path in root.rglob("*.kfs"))
    size = sum((root / key).stat().st_size for key in keys)
    halves = [keys[::2], keys[1::2]]
    numbers = count()
    small = scratch / "small"
    write_kafs(small, Shape(records=1000), partitions=8, size=1 << 20, segments=1)
    context = multiprocessing.get_context("spawn")
    with context.Pool(2) as pool, running_spark() as spark:
        from lakelog.spark import jobs

        def bare() -> None:
            target = scratch / f"bare-{next(numbers)}"
            target.mkdir()
            work = [(str(root), half, str(target)) for half in halves]
            assert sum(pool.starmap(convert, work)) > 0
            shutil.rmtree(target)

        def ours(source: Path = root) -> None:
            target = scratch / f"ours-{next(numbers)}"
            report = jobs.convert(
                spark, str(source), layout="kafs", target=str(target), target_layout="strm",
                codec="zstd",
            )  # fmt: skip
            assert report.is_good, report.findings(3)
            shutil.rmtree(target)

        # Spark needs many queries to get warm, and they may be small.
        for _ in range(WARM_UP):
            ours(small)
        took = rounds_of({"bare": bare, "ours": ours}, rounds=rounds, warm_up=1)
    return throughput(took, size)


if __name__ == "__main__":
    main()
