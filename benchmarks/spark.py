"""Spark as the figures use it: sinks that keep nothing, a source that costs nothing, rounds.

The ceiling of Spark's interface for Python sources is a source that does no work: it yields the
same Arrow batch again and again, as many rows in as many tasks as the read it is compared with.
What is left is what Spark itself does with Arrow from Python, and no reader can be faster.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

__all__ = ["ConstantSource", "Took", "drain", "rounds_of", "throughput", "write_constant"]

_TICKS = 100
_BROKER = b"\0kafka.Kafka\0"


def drain(frame: DataFrame) -> None:
    """Read every row of a frame, and keep none."""
    frame.write.format("noop").mode("overwrite").save()


# ---------------------------------------------------------------------------- the ceiling


def write_constant(path: Path, batch: pa.RecordBatch) -> None:
    """Write the batch that a ConstantSource yields."""
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, batch.schema) as writer:
        writer.write_batch(batch)


class ConstantSource(DataSource):
    """``format("constant")``; options: ``file``, ``ddl``, ``rows`` in all, ``splits``."""

    @classmethod
    def name(cls) -> str:
        return "constant"

    def schema(self) -> str:
        return str(self.options["ddl"])

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 (Spark's signature)
        return _ConstantReader(dict(self.options))


class _ConstantReader(DataSourceReader):
    def __init__(self, options: Mapping[str, str]) -> None:
        self._file = options["file"]
        self._rows, self._splits = int(options["rows"]), int(options["splits"])

    def partitions(self) -> list[InputPartition]:
        at = [self._rows * number // self._splits for number in range(self._splits + 1)]
        return [InputPartition(end - start) for start, end in pairwise(at)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        with pa.OSFile(self._file) as file:
            batch = pa.ipc.open_file(file).get_batch(0)
        left: int = partition.value
        while left:
            piece = batch.slice(0, left)
            yield piece
            left -= piece.num_rows


# ---------------------------------------------------------------------------- taking time


@dataclass(frozen=True, slots=True)
class Took:
    """Seconds of one read: on the clock, and of CPU in this process and those below it."""

    wall: float
    cpu: float


def rounds_of(
    sides: Mapping[str, Callable[[], object]], *, rounds: int, warm_up: int
) -> dict[str, list[Took]]:
    """Take the sides in turn, so many rounds; each round begins with another side."""
    names = list(sides)
    took: dict[str, list[Took]] = {name: [] for name in names}
    for turn in range(warm_up + rounds):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            wall, cpu = time.perf_counter(), _cpu_of_tree()
            sides[name]()
            one = Took(time.perf_counter() - wall, _cpu_of_tree() - cpu)
            if turn >= warm_up:
                took[name].append(one)
    return took


def throughput(took: Mapping[str, list[Took]], size: int) -> dict[str, float]:
    """Return megabytes a second of ``bare`` and ``ours``, and the ratio of the two by round."""
    pairs = list(zip(took["bare"], took["ours"], strict=True))
    told = {
        "ratio": median(bare.wall / ours.wall for bare, ours in pairs),
        "cpu_ratio": median(bare.cpu / ours.cpu for bare, ours in pairs),
    }
    for side, rounds in took.items():
        told[f"{side}_mb_s"] = size / median(one.wall for one in rounds) / 1e6
    print(", ".join(f"{name} {value:.2f}" for name, value in told.items()))
    return {name: round(value, 3) for name, value in told.items()}


def _cpu_of_tree() -> float:
    """CPU seconds of this process and those below it, the JVM and its Python workers among them.

    A process that has ended is counted in the one that waited for it, so nothing is lost. A broker
    is left out: it would be on another machine.
    """
    parents, ticks = {}, {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
            if _BROKER in path.with_name("cmdline").read_bytes():
                continue
        except OSError:
            continue  # It has ended.
        parents[int(path.parent.name)] = int(fields[1])
        ticks[int(path.parent.name)] = sum(map(int, fields[11:15]))
    mine = {int(Path("/proc/self").resolve().name)}
    while more := {child for child, parent in parents.items() if parent in mine} - mine:
        mine |= more
    return sum(ticks[process] for process in mine) / _TICKS
