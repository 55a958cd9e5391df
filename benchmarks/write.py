"""Spark writes the log: Parquet in, against Parquet out and against Spark's own Kafka sink.

The same rows, read from Parquet by two cores, are written to

    log        a topic of twelve partitions, on local files: format("lakelog")
    parquet    files, by Spark's own writer, with snappy
    kafka      a topic of twelve partitions of Apache Kafka on this machine: format("kafka")

with values of 100 bytes and of 1 KB, keys of 16 bytes, uncompressed and with lz4. All take turns,
in one session. Figures are the clock of the other over that of the log, medians of the rounds, and
the worst of the sizes and codecs: much of Kafka's work is not Spark's, so CPU would not tell. The
CPU of Spark and its workers is told beside it. The log flushes its files before it says that they
are there; Parquet and Kafka leave that to the kernel.

    parquet    1 or more
    kafka      3 or more

The value is the worse of the two, each over its bar: 1 or more passes.
"""

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

from pyspark.sql import DataFrame, SparkSession

from benchmarks.measure import arguments, closing_line
from benchmarks.spark import Took, rounds_of
from lakelog.catalog import create_topic, make_namespace
from lakelog.host import new_id
from lakelog.model import Rules
from lakelog.spark import write
from lakelog.store import open_store, run, working
from tests.parts.jars import spark_kafka_jars
from tests.parts.kafka import Kafka, running_kafka
from tests.parts.spark import running_spark

BARS = {"parquet": 1.0, "kafka": 3.0}
VALUES = {"100 B": 100, "1 KB": 1000}
CODECS = ("none", "lz4")
PARTITIONS = 12
FILES = 4


def prepare(spark: SparkSession, root: Path, value_bytes: int, size: int) -> DataFrame:
    """Write rows whose values compress about as well as text does; return them."""
    word = "substr(sha2(cast(id as string), 256), 1, 64)"
    tail = "repeat('lakelog writes the log. ', 50)"
    value = f"cast(substr(concat({word}, {tail}), 1, {value_bytes}) as binary)"
    key = "unhex(md5(cast(id % 100000 as string)))"
    frame = spark.range(0, size // (value_bytes + 16), 1, FILES)
    frame.selectExpr(f"{key} as key", f"{value} as value").write.parquet(str(root / "in"))
    return spark.read.parquet(str(root / "in"))


def make_log(root: Path, name: str) -> str:
    """Make a namespace with a topic; return its address."""
    perform = working(open_store(str(root / name)).perform)
    rules = Rules(lanes=4)
    run(make_namespace(new_id(), rules), perform)
    run(
        create_topic(
            "bench", topic_id=new_id(), partitions=PARTITIONS, lanes=rules.lanes, now_ms=1,
            configs={},
        ),
        perform,
    )  # fmt: skip
    return str(root / name)


def to_kafka(frame: DataFrame, kafka: Kafka, topic: str, codec: str) -> None:
    writer = frame.write.format("kafka").option("kafka.bootstrap.servers", kafka.bootstrap)
    writer.option("kafka.compression.type", codec).option("topic", topic).save()


def to_parquet(frame: DataFrame, path: str) -> None:
    frame.write.mode("overwrite").option("compression", "snappy").parquet(path)


def sides_of(
    frame: DataFrame, root: Path, name: str, kafka: Kafka
) -> dict[str, Callable[[], object]]:
    sides: dict[str, Callable[[], object]] = {
        f"parquet, {name}": partial(to_parquet, frame, str(root / "out"))
    }
    for codec in CODECS:
        url = make_log(root, f"log-{codec}")
        topic = f"bench-{codec}-{name.replace(' ', '')}"
        kafka.create_topic(topic, PARTITIONS)
        sides[f"log {codec}, {name}"] = partial(write, frame, url, topic="bench", compression=codec)
        sides[f"kafka {codec}, {name}"] = partial(to_kafka, frame, kafka, topic, codec)
    return sides


def figures_of(took: dict[str, list[Took]]) -> dict[str, float]:
    """Return every ratio of medians by the clock."""
    walls = {side: median(one.wall for one in each) for side, each in took.items()}
    told: dict[str, float] = {}
    for name in {side.partition(", ")[2] for side in took}:
        for codec in CODECS:
            log = walls[f"log {codec}, {name}"]
            told[f"parquet, {codec}, {name}"] = walls[f"parquet, {name}"] / log
            told[f"kafka, {codec}, {name}"] = walls[f"kafka {codec}, {name}"] / log
    return told


def main() -> None:
    options = arguments(__doc__)
    size, rounds = (48 << 20, 1) if options.quick else (512 << 20, 5)
    names = ["100 B"] if options.quick else list(VALUES)
    jars = ",".join(map(str, spark_kafka_jars()))
    with (
        tempfile.TemporaryDirectory(prefix="lakelog-write-") as folder,
        running_kafka() as kafka,
        running_spark({"spark.jars": jars}) as spark,
    ):
        sides: dict[str, Callable[[], object]] = {}
        for name in names:
            root = Path(folder, name.replace(" ", ""))
            frame = prepare(spark, root, VALUES[name], size)
            sides |= sides_of(frame, root, name, kafka)
        took = rounds_of(sides, rounds=rounds, warm_up=1)
    for side, each in took.items():
        wall, cpu = median(one.wall for one in each), median(one.cpu for one in each)
        print(f"{side:18} {wall:6.2f} s  {cpu:6.2f} s CPU  {size / wall / 1e6:6.0f} MB/s")
    ratios = figures_of(took)
    figures = {
        bar: min(ratio for what, ratio in ratios.items() if what.startswith(bar)) for bar in BARS
    }
    closing_line(
        name="write",
        value=min(figures[what] / bar for what, bar in BARS.items()),
        bar=1.0,
        unit="the worse figure over its bar",
        figures=figures,
        bars=BARS,
        ratios={what: round(ratio, 3) for what, ratio in ratios.items()},
        size_bytes=size,
        rounds=rounds,
    )


if __name__ == "__main__":
    main()
