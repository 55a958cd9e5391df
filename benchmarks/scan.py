"""Spark reads segments: against the ceiling of its interface, and against its own Kafka source.

All reads are of seven columns (no headers) into a sink that keeps nothing, by two cores, from
uncompressed segments with indexes on the local disk, with values of 100 bytes and of 1 KB. The
segments lie in the directory of a running Apache Kafka, so both sources read the very same records;
that they do is checked first, by a count and a hash over every column.

    ceiling    CPU of a source that yields one Arrow batch over and over, over ours   0.8 or more
    kafka      wall clock of format("kafka") over ours, one partition                 2.0 or more
    kafka8     the same, eight partitions                                             2.0 or more
    columns    CPU of seven columns over that of offset and timestamp alone           1.3 or more
    bytes      share of all bytes read for 1 % of them, chosen by time                3 % or less
    tasks      tasks for one partition of 4 GiB                                       32 or more

The value is the worst of them, each over its bar: 1 or more passes. CPU is that of Spark, its
Python workers among it, and not of the broker. With Kafka it is the clock that counts, since a task
for each partition, and so an idle core, is what there is to be compared. ``--quick`` reads less,
and leaves out Kafka and the figures that have no bar.

The connector is not of Spark's version: the closing line says which it is, and
tests/parts/pom-spark.xml why.
"""

import contextlib
import statistics
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import DataFrame, SparkSession

from benchmarks.data import RECORDS_PER_MS, START_MS, Shape, columns_of, run_of, write_partition
from benchmarks.measure import arguments, closing_line
from benchmarks.spark import ConstantSource, Took, drain, rounds_of, write_constant
from lakelog.records import Codec, decode_batches
from lakelog.segments import OffsetSpec, Selection
from lakelog.segments.mend import read_split
from lakelog.segments.scan import ScanRequest, plan_scan, scan
from lakelog.store import LocalStore, Meter, Op, metered
from tests.parts.jars import spark_kafka_jars
from tests.parts.kafka import running_kafka
from tests.parts.spark import running_spark
from tests.plain_encoders import encode_strm

BARS = {"ceiling": 0.8, "kafka": 2.0, "kafka8": 2.0, "columns": 1.3, "bytes": 0.03, "tasks": 32.0}
MOST = {"bytes"}
"""Bars that must not be exceeded; the others must be reached."""

DDL = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
    "timestampType int"
)
COLUMNS = tuple(field.split()[0] for field in DDL.split(","))
SHAPES = {
    "100 B": Shape(records=20_000),
    "1 KB": Shape(records=5_000, value_bytes=1000, batch_records=250),
}
TASKS = 8
GIB = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """One topic of the broker, and how it is read."""

    name: str
    shape: Shape
    partitions: int
    records: int
    size: int


class Bench:
    """A broker with topics in it, a Spark, and the sides that are measured."""

    def __init__(self, spark: SparkSession, data: Path, bootstrap: str, scratch: Path) -> None:
        self.spark, self.data, self.scratch = spark, data, scratch
        self.bootstrap = bootstrap
        spark.dataSource.register(ConstantSource)

    def lakelog(self, path: Path, topic: str, layout: str = "kafka", **options: Any) -> DataFrame:
        reader = self.spark.read.format("lakelog").option("layout", layout)
        reader = reader.option("path", str(path)).option("subscribe", topic)
        return reader.options(**options).load()

    def ours(self, topic: Topic, **options: Any) -> DataFrame:
        split_bytes = max(1, topic.size // TASKS)
        return self.lakelog(self.data, topic.name, splitBytes=split_bytes, **options)

    def theirs(self, topic: Topic, **options: Any) -> DataFrame:
        reader = self.spark.read.format("kafka").option("subscribe", topic.name)
        reader = reader.option("kafka.bootstrap.servers", self.bootstrap)
        return reader.option("startingOffsets", "earliest").options(**options).load()

    def constant(self, topic: Topic) -> DataFrame:
        """The ceiling: the first batch of ours, as many rows, as many tasks."""
        file = self.scratch / f"{topic.name}.arrow"
        if not file.exists():
            wanted = Selection(topics=frozenset([topic.name]))
            request = ScanRequest(layout="kafka", selection=wanted)
            stream = scan(LocalStore(str(self.data)), request, COLUMNS)
            write_constant(file, stream.read_next_batch())
        splits = self.ours(topic).rdd.getNumPartitions()
        reader = self.spark.read.format("constant").option("file", str(file)).option("ddl", DDL)
        return reader.options(rows=topic.records, splits=splits).load()

    def check(self, topic: Topic) -> None:
        """Both sources give every record, and the same."""
        digest = f"xxhash64({', '.join(COLUMNS)}) % 1000000007"
        found = {
            tuple(frame.selectExpr("count(1)", f"sum({digest})").collect()[0])
            for frame in (self.ours(topic), self.theirs(topic))
        }
        assert {count for count, _ in found} == {topic.records}, (topic.name, found)
        assert len(found) == 1, (topic.name, found)


@contextlib.contextmanager
def prepared(topics: dict[str, tuple[Shape, int, int]]) -> Iterator[tuple[Bench, dict[str, Topic]]]:
    """A Spark, and a Kafka that finds segments of ours in its directory when it starts again."""
    jars = ",".join(map(str, spark_kafka_jars()))
    with running_kafka() as kafka, tempfile.TemporaryDirectory() as scratch:
        for name, (_, partitions, _) in topics.items():
            # The records are older than a broker keeps them if it is not told otherwise.
            kafka.create_topic(name, partitions, retention_ms=-1, segment_bytes=GIB)
        kafka.stop()
        made = {name: _fill(kafka.data_dir, name, *topic) for name, topic in topics.items()}
        kafka.start()
        with running_spark({"spark.jars": jars, "spark.driver.memory": "4g"}) as spark:
            yield Bench(spark, kafka.data_dir, kafka.bootstrap, Path(scratch)), made


@contextlib.contextmanager
def without_kafka(
    topics: dict[str, tuple[Shape, int, int]],
) -> Iterator[tuple[Bench, dict[str, Topic]]]:
    """The same segments, and no broker."""
    with tempfile.TemporaryDirectory() as scratch, running_spark() as spark:
        data = Path(scratch, "data")
        made = {name: _fill(data, name, *topic) for name, topic in topics.items()}
        yield Bench(spark, data, "", Path(scratch)), made


def _fill(data: Path, name: str, shape: Shape, partitions: int, size: int) -> Topic:
    each = size // partitions
    records = 0
    for number in range(partitions):
        folder = data / f"{name}-{number}"
        for empty in folder.glob("0*"):
            empty.unlink()
        records += write_partition(folder, shape, size=each, segment_bytes=-(-each // 4))
    return Topic(name=name, shape=shape, partitions=partitions, records=records, size=size)


# ---------------------------------------------------------------------------- without Spark's clock


class _Metered:
    """A store that counts what is read of it."""

    def __init__(self, root: Path) -> None:
        self._store, self.meter = LocalStore(str(root)), Meter()
        self.url, self._perform = self._store.url, metered(self._store.perform, self.meter)

    def perform(self, op: Op) -> Any:
        return self._perform(op)

    async def perform_async(self, op: Op) -> Any:
        raise NotImplementedError


def share_of_bytes(size: int) -> float:
    """How much of a partition is read for a hundredth of its records, chosen by time."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        records = write_partition(root / "log-0", SHAPES["1 KB"], size=size)
        total = sum(path.stat().st_size for path in root.rglob("*") if path.is_file())
        low = records * 6 // 10
        places = [
            OffsetSpec(timestamp=START_MS + offset // RECORDS_PER_MS)
            for offset in (low, low + records // 100)
        ]
        store = _Metered(root)
        request = ScanRequest(layout="kafka", starting=places[0], ending=places[1])
        found = sum(
            batch.num_rows
            for split in plan_scan(store, request)
            for batch in read_split(split, store.perform, COLUMNS)
        )
        assert abs(found - records // 100) <= 2 * RECORDS_PER_MS, (found, records)
        return store.meter.usage.bytes_read / total


def tasks_of_4_gib(bench: Bench) -> int:
    """Spark's own count, over files of that size that hold nothing: a plan reads none of them."""
    folder = bench.scratch / "sparse" / "log-0"
    folder.mkdir(parents=True)
    for number in range(4):
        stem = f"{number * 1_000_000:020}"
        with (folder / f"{stem}.log").open("wb") as file:
            file.truncate(GIB)
        for suffix in (".index", ".timeindex"):
            (folder / f"{stem}{suffix}").write_bytes(b"")
    return int(bench.lakelog(folder.parent, "log").rdd.getNumPartitions())


# ---------------------------------------------------------------------------- rounds


def ratio(took: dict[str, list[Took]], slow: str, fast: str, what: str) -> float:
    """How many times faster ``fast`` is: the median of the rounds."""
    pairs = zip(took[slow], took[fast], strict=True)
    return float(statistics.median(getattr(s, what) / getattr(f, what) for s, f in pairs))


def measure(
    bench: Bench, topics: dict[str, Topic], *, rounds: int, warm_up: int
) -> tuple[dict[str, list[Took]], dict[str, Topic]]:
    """Take every side in turn."""
    sides: dict[str, Callable[[], object]] = {}
    of: dict[str, Topic] = {}
    for name, topic in topics.items():
        made = {"ours": bench.ours(topic)}
        if bench.bootstrap:
            bench.check(topic)
            made["kafka"] = bench.theirs(topic)
        if topic.partitions == 1:
            made["constant"] = bench.constant(topic)
            made["two columns"] = bench.ours(topic, columns="offset,timestamp")
        for kind, frame in made.items():
            sides[f"{kind}, {name}"] = partial(drain, frame)
            of[f"{kind}, {name}"] = topic
    return rounds_of(sides, rounds=rounds, warm_up=warm_up), of


def report(took: dict[str, list[Took]], of: dict[str, Topic]) -> dict[str, dict[str, float]]:
    table = {}
    for name, rounds in took.items():
        wall = statistics.median(one.wall for one in rounds)
        cpu = statistics.median(one.cpu for one in rounds)
        rate = of[name].records / wall / 1e6
        print(f"{name:28} {wall:6.2f} s  {cpu:6.2f} s CPU  {rate:6.2f} M rows/s", flush=True)
        table[name] = {"wall_s": round(wall, 3), "cpu_s": round(cpu, 3), "m_rows_s": round(rate, 2)}
    return table


def figures_of(took: dict[str, list[Took]], topics: dict[str, Topic]) -> dict[str, float]:
    """The figures that have bars, each the worse of the two sizes of values."""
    single = [name for name, topic in topics.items() if topic.partitions == 1]
    many = [name for name in topics if name not in single]
    figures = {
        "ceiling": min(ratio(took, f"constant, {n}", f"ours, {n}", "cpu") for n in single),
        "columns": min(ratio(took, f"ours, {n}", f"two columns, {n}", "cpu") for n in single),
    }
    if f"kafka, {single[0]}" in took:
        figures["kafka"] = min(ratio(took, f"kafka, {n}", f"ours, {n}", "wall") for n in single)
    if many:
        figures["kafka8"] = min(ratio(took, f"kafka, {n}", f"ours, {n}", "wall") for n in many)
    return figures


# ---------------------------------------------------------------------------- figures without a bar


def more_figures(bench: Bench, topics: dict[str, Topic], size: int) -> dict[str, Any]:
    """Parquet of the same rows, compressed segments, and twice to eight times as much."""
    sides: dict[str, Callable[[], object]] = {}
    of: dict[str, Topic] = {}
    for name in SHAPES:
        topic = topics[name]
        sides[f"ours, {name}"] = partial(drain, bench.ours(topic))
        # Kafka's source can be told to cut partitions, too.
        sides[f"kafka, {name}, cut"] = partial(drain, bench.theirs(topic, minPartitions=TASKS))
        for kind in ("uncompressed", "snappy"):
            path = str(bench.scratch / f"{topic.name}-{kind}")
            bench.ours(topic).write.option("compression", kind).parquet(path)
            sides[f"parquet {kind}, {name}"] = partial(drain, bench.spark.read.parquet(path))
        of |= {side: topic for side in sides if side not in of}
    shape = SHAPES["100 B"]
    for codec in (Codec.LZ4, Codec.ZSTD):
        packed = Shape(records=shape.records, codec=codec)
        name = codec.name.lower()
        records = write_partition(bench.scratch / name / f"{name}-0", packed, size=size // 3)
        made = Topic(name=name, shape=packed, partitions=1, records=records, size=size // 3)
        frame = bench.lakelog(bench.scratch / name, name, splitBytes=size // 3 // TASKS)
        sides[f"ours, 100 B, {name}"], of[f"ours, 100 B, {name}"] = partial(drain, frame), made
    of["ours, 100 B, STRM zstd"], frame = _strm(bench, Shape(records=100_000))
    sides["ours, 100 B, STRM zstd"] = partial(drain, frame)
    took = rounds_of(sides, rounds=5, warm_up=2)
    table: dict[str, Any] = report(took, of)
    for name in SHAPES:
        share = ratio(took, f"parquet uncompressed, {name}", f"ours, {name}", "cpu")
        print(f"{name}: {share:.2f} of the speed of uncompressed Parquet, by CPU")
        table[f"of parquet, {name}"] = round(share, 2)
    table["growth"] = _growth(bench)
    return table


def _strm(bench: Bench, shape: Shape) -> tuple[Topic, DataFrame]:
    """Eight partitions with the same segment each."""
    records = [record for batch in decode_batches(run_of(shape)) for record in batch.records]
    root = bench.scratch / "strm"
    for number in range(TASKS):
        folder = root / "strm" / str(number)
        folder.mkdir(parents=True)
        segment = encode_strm(records, topic="strm", partition=number, codec=Codec.ZSTD)
        (folder / f"{0:020}.seg").write_bytes(segment)
    rows = TASKS * columns_of(shape).num_rows
    made = Topic(name="strm", shape=shape, partitions=TASKS, records=rows, size=0)
    return made, bench.lakelog(root, "strm", layout="strm", splitBytes=1)


def _growth(bench: Bench) -> dict[str, float]:
    """Seconds for each GiB, when there are one and eight of them."""
    sides: dict[str, Callable[[], object]] = {}
    for gib in (1, 8):
        root = bench.scratch / f"grown-{gib}"
        write_partition(root / "log-0", SHAPES["1 KB"], size=gib * GIB)
        sides[str(gib)] = partial(drain, bench.lakelog(root, "log"))
    took = rounds_of(sides, rounds=2, warm_up=1)
    each = {n: statistics.median(t.cpu for t in took[n]) / int(n) for n in sides}
    print("CPU seconds for a GiB:", {f"{n} GiB": round(s, 2) for n, s in each.items()})
    return {f"cpu_s_per_gib_of_{n}": round(s, 2) for n, s in each.items()}


def main() -> None:
    options = arguments(__doc__)
    size = 192 << 20 if options.quick else 512 << 20
    wanted = {name: (shape, 1, size) for name, shape in SHAPES.items()}
    if not options.quick:
        wanted["100 B, 8 partitions"] = SHAPES["100 B"], 8, size
    named = {name: f"t{number}" for number, name in enumerate(wanted)}
    share = share_of_bytes(GIB // 8 if options.quick else 4 * GIB)
    more: dict[str, Any] = {}
    prepare = without_kafka if options.quick else prepared
    with prepare({named[name]: topic for name, topic in wanted.items()}) as (bench, made):
        topics = {name: made[named[name]] for name in wanted}
        rounds, warm_up = (2, 1) if options.quick else (5, 3)
        took, of = measure(bench, topics, rounds=rounds, warm_up=warm_up)
        table = report(took, of)
        figures = {**figures_of(took, topics), "bytes": share, "tasks": tasks_of_4_gib(bench)}
        if not options.quick:
            more = more_figures(bench, topics, size)
    normal = {
        name: BARS[name] / figure if name in MOST else figure / BARS[name]
        for name, figure in figures.items()
    }
    for name, figure in figures.items():
        print(f"{name:10} {figure:8.3f}   bar {BARS[name]:g}   {normal[name]:.2f} of it")
    closing_line(
        name="scan",
        value=min(normal.values()),
        bar=1.0,
        unit="the worst figure over its bar",
        figures={name: round(figure, 3) for name, figure in figures.items()},
        bars={name: BARS[name] for name in figures},
        spark=pyspark.__version__,
        connector=[jar.stem for jar in spark_kafka_jars()],
        sides=table,
        more=more,
    )


if __name__ == "__main__":
    main()
