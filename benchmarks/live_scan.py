"""Spark reads the live log: against the very same segments without a log around them.

Three reads of seven columns (no headers) into a sink that keeps nothing, by two cores, from local
files, with values of 100 bytes and of 1 KB:

    bare       the segments, by layout kafs: a listing, and no manifest, lane or bundle
    sealed     a namespace in which all is sealed: those segments, which bare has by another name
    unsealed   a namespace in which nothing is: the same batches in bundles of 4 MiB, each with a
               slice of four partitions

All three give the same rows, by a count and a hash over every column, which is checked first. They
take turns. A figure is the CPU of bare over that of the other, the median of the rounds, and the
worse of the two sizes of values; CPU is that of Spark, its Python workers among it. The clock is
told beside it. Where Spark ends a worker in the middle of a round, on a machine that is too busy,
its CPU is lost and the figure means nothing: ``lost`` counts the reads in which that is certain.

    sealed     0.9 or more
    unsealed   0.6 or more

The value is the worse of the two, each over its bar: 1 or more passes.
"""

import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

from pyspark.sql import DataFrame, SparkSession

from benchmarks.data import Shape, run_of
from benchmarks.measure import arguments, closing_line
from benchmarks.planning import Unsynced, make_topic
from benchmarks.scan import COLUMNS, SHAPES, TASKS, ratio
from benchmarks.spark import drain, rounds_of
from lakelog.formats.batches import frames
from lakelog.host import SystemClock, new_id
from lakelog.journal import Lane, append, new_run, write_checkpoint
from lakelog.maintenance import SealSettings, maintain
from lakelog.model import Rules
from lakelog.store import run, working
from tests.parts.spark import running_spark

BARS = {"sealed": 0.9, "unsealed": 0.6}
RULES = Rules(lanes=4)
PARTITIONS = 16
SLICE_BYTES = 1 << 20


# ---------------------------------------------------------------------------- preparing


def slice_of(shape: Shape) -> bytes:
    """Whole batches, of about a mebibyte."""
    data = run_of(shape)
    ends = [at + header.size for at, header in frames(data)]
    return data[: next((end for end in ends if end >= SLICE_BYTES), ends[-1])]


def write_log(root: Path, shape: Shape, size: int) -> dict[int, Lane]:
    """Fill a namespace with topic ``bench``, by the flow that brokers use; return its lanes."""
    topic, body = make_topic(root, "bench", partitions=PARTITIONS, rules=RULES), slice_of(shape)
    perform, lanes = working(Unsynced(root).perform), {}
    for number in range(RULES.lanes):
        lanes[number] = lane = Lane(
            number=number, rules=RULES, clock=SystemClock(), ids=new_id, writer=new_id()
        )
        mine = [at for at in range(PARTITIONS) if topic.lane(at) == number]
        requests = [new_run(topic.id, partition, body) for partition in mine]
        for _ in range(-(-size // PARTITIONS // len(body))):
            run(append(lane, requests), perform)
            run(write_checkpoint(lane), perform)
    return lanes


def prepare(root: Path, shape: Shape, size: int) -> int:
    """Make the three sides; return how many bytes of segments there are."""
    write_log(root / "unsealed", shape, size)
    lanes = write_log(root / "sealed", shape, size)
    kept = run(maintain(lanes, SealSettings()), working(Unsynced(root / "sealed").perform))
    assert not kept.failures, kept.failures
    assert kept.sealed.segments == PARTITIONS
    for path in (root / "sealed" / "bench").glob("*/segment-*"):
        same = root / "bare" / "bench" / path.parent.name / path.name
        same.parent.mkdir(parents=True, exist_ok=True)
        same.hardlink_to(path)
    return kept.sealed.size_bytes


# ---------------------------------------------------------------------------- reading


def frame_of(spark: SparkSession, root: Path, side: str, size: int) -> DataFrame:
    layout = "kafs" if side == "bare" else "lakelog"
    reader = spark.read.format("lakelog").option("layout", layout).option("path", str(root / side))
    return reader.option("subscribe", "bench").option("splitBytes", size // TASKS).load()


def check(frames_: dict[str, DataFrame]) -> int:
    """Every side gives the same rows; return how many."""
    digest = f"xxhash64({', '.join(COLUMNS)}) % 1000000007"
    found = {
        tuple(frame.selectExpr("count(1)", f"sum({digest})").collect()[0])
        for frame in frames_.values()
    }
    assert len(found) == 1, found
    ((rows, _),) = found
    assert rows
    return int(rows)


def main() -> None:
    options = arguments(__doc__)
    size, rounds, warm_up = (128 << 20, 2, 1) if options.quick else (512 << 20, 7, 2)
    sides: dict[str, Callable[[], object]] = {}
    sizes: dict[str, int] = {}
    rows: dict[str, int] = {}
    with tempfile.TemporaryDirectory(prefix="lakelog-live-scan-") as folder:
        began = time.perf_counter()
        for name, shape in SHAPES.items():
            sizes[name] = prepare(Path(folder, name), shape, size)
        print(f"prepared in {time.perf_counter() - began:.1f} s", flush=True)
        with running_spark() as spark:
            for name in SHAPES:
                made = {
                    side: frame_of(spark, Path(folder, name), side, sizes[name])
                    for side in ("bare", *BARS)
                }
                rows[name] = check(made)
                sides |= {f"{side}, {name}": partial(drain, one) for side, one in made.items()}
            took = rounds_of(sides, rounds=rounds, warm_up=warm_up)
    told: dict[str, dict[str, float]] = {}
    for name in SHAPES:
        for side in BARS:
            told[f"{side}, {name}"] = {
                what: round(ratio(took, f"bare, {name}", f"{side}, {name}", what), 3)
                for what in ("cpu", "wall")
            }
        for side in ("bare", *BARS):
            each = took[f"{side}, {name}"]
            wall, cpu = median(one.wall for one in each), median(one.cpu for one in each)
            speed = sizes[name] / wall / 1e6
            print(f"{side:10} {name:6} {wall:6.2f} s  {cpu:6.2f} s CPU  {speed:6.0f} MB/s")
    figures = {side: min(told[f"{side}, {name}"]["cpu"] for name in SHAPES) for side in BARS}
    for name, by in told.items():
        print(f"{name:18} {by['cpu']:.2f} of bare by CPU, {by['wall']:.2f} by the clock")
    closing_line(
        name="live_scan",
        value=min(figures[side] / bar for side, bar in BARS.items()),
        bar=1.0,
        unit="the worse figure over its bar",
        figures=figures,
        bars=BARS,
        ratios=told,
        lost=sum(one.cpu <= 0 for each in took.values() for one in each),
        rows=rows,
        size_bytes=sizes,
    )


if __name__ == "__main__":
    main()
