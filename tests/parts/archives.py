"""Archives of classes, with which the JVMs of the tests start in a third of the time.

    a first run   -XX:DumpLoadedClassList --> names of the classes that it loads
    java          -Xshare:dump            --> {cache}/classes-spark-{hash}/classes.jsa
    every test    -XX:SharedArchiveFile   --> classes as they are in memory, read and checked once

Half of what an end-to-end test of Spark costs is a JVM that reads, checks and links the same ten
thousand classes from jars. Java itself ignores an archive whose jars are not those on the class
path, and starts as if there were none; the hash is of all that matters, so that this happens to
nobody. Benchmarks do without, as without the other flags for short lives.

`python -m tests.parts.archives` makes them ahead of time.
"""

import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from functools import cache, partial
from pathlib import Path

from tests.parts.jars import entry, kafka_jars, run_tool
from tests.parts.jvm import QUICK, java
from tests.parts.process import FailedPartError

_NAME = "classes.jsa"


@cache
def quick_kafka() -> tuple[str, ...]:
    """Flags for a short-lived JVM whose class path begins with that of Kafka."""
    return _flags("kafka", sorted(kafka_jars().glob("*.jar")))


@cache
def quick_spark() -> tuple[str, ...]:
    """Flags for a short-lived JVM of Spark: driver, executor, master, worker."""
    import pyspark

    return _flags("spark", sorted(Path(pyspark.__file__).parent.glob("jars/*.jar")))


def quick_environment() -> dict[str, str]:
    """The environment of a child that starts a Spark of its own and will not live long."""
    inherited = dict(os.environ)  # noqa: TID251 (what a child inherits)
    return {**inherited, "JDK_JAVA_OPTIONS": " ".join(quick_spark())}


def _flags(kind: str, jars: list[Path]) -> tuple[str, ...]:
    said = subprocess.run([java(), "-version"], capture_output=True, text=True).stderr
    rows = [said, *QUICK, Path(__file__).read_text()]
    for jar in jars:
        about = jar.stat()
        rows.append(f"{jar} {about.st_size} {about.st_mtime_ns}")
    key = hashlib.sha256("\n".join(rows).encode()).digest()
    made = entry(f"classes-{kind}", key, partial(_make, kind))
    return (*QUICK, f"-XX:SharedArchiveFile={made / _NAME}")


def _make(kind: str, into: Path) -> None:
    """Note in a process of its own what is loaded, and make an archive of it."""
    with tempfile.TemporaryDirectory(prefix="lakelog-classes-") as home:
        argv = [sys.executable, "-m", "tests.parts.archives", kind, home]
        done = subprocess.run(argv, capture_output=True, text=True)
        if done.returncode != 0:
            raise FailedPartError(f"the classes of {kind} were not noted:\n{done.stderr}")
        lines: set[str] = set()
        for listed in Path(home).glob("*.lst"):
            lines.update(listed.read_text().splitlines())
        union = Path(home, "all")
        # Names before lambdas, which refer to them.
        union.write_text("\n".join(sorted(lines, key=lambda line: (line[:1] == "@", line))))
        run_tool(
            [
                java(),
                *QUICK,
                "-Xshare:dump",
                f"-XX:SharedClassListFile={union}",
                f"-XX:SharedArchiveFile={into / _NAME}",
                "-cp",
                Path(home, "classpath").read_text(),
            ]
        )


# ---------------------------------------------------------------------------- the first run


def _noting(home: Path, name: str) -> list[str]:
    return [*QUICK, f"-XX:DumpLoadedClassList={home / name}.lst"]


def _run_kafka(home: Path) -> None:
    from tests.parts.kafka import running_kafka, tool

    jars = kafka_jars()
    (home / "classpath").write_text(":".join(map(str, _as_java_does(jars))))
    with running_kafka(jvm=_noting(home, "server")) as kafka:
        where = ["--bootstrap-server", kafka.bootstrap]
        topic = ["--topic", "t"]
        for number, (name, args) in enumerate(
            [
                ("kafka-topics", ["--create", *topic]),
                ("kafka-console-producer", topic),
                ("kafka-console-consumer", [*topic, "--from-beginning", "--max-messages", "1"]),
                ("kafka-consumer-groups", ["--list"]),
                ("kafka-configs", ["--describe", "--entity-type", "topics"]),
            ]
        ):
            told = "one\n" if name == "kafka-console-producer" else ""
            done = tool(name, *where, *args, stdin=told, jvm=_noting(home, f"tool-{number}"))
            if done.rc != 0:
                raise FailedPartError(f"{name} failed:\n{done.stdout}{done.stderr}")


def _as_java_does(folder: Path) -> Iterable[Path]:
    """The jars of a folder in the order in which ``java -cp folder/*`` finds them."""
    with os.scandir(folder) as found:
        return [Path(one.path) for one in found if one.name.endswith(".jar")]


def _run_spark(home: Path) -> None:
    from pyspark import SparkContext

    from tests.parts.spark import running_spark

    with running_spark(jvm=_noting(home, "driver")) as spark:
        gateway = SparkContext._gateway
        assert gateway is not None
        path = gateway.jvm.java.lang.System.getProperty("java.class.path")
        (home / "classpath").write_text(path)
        rows = spark.range(100).selectExpr("id", "cast(id as string) text", "id % 3 part")
        rows.write.partitionBy("part").parquet(str(home / "rows"))
        read = spark.read.parquet(str(home / "rows"))
        read.createOrReplaceTempView("rows")
        spark.sql("select part, count(*), max(text) from rows group by part order by 1").collect()
        read.mapInArrow(lambda batches: batches, read.schema).join(rows, "id").toArrow()
        stream = spark.readStream.format("rate").load().writeStream.format("noop")
        stream.option("checkpointLocation", str(home / "checkpoint")).start().stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(60)


if __name__ == "__main__":
    if len(sys.argv) == 1:
        for _made in (quick_kafka(), quick_spark()):
            sys.stdout.write(f"{_made[-1]}\n")
    else:
        {"kafka": _run_kafka, "spark": _run_spark}[sys.argv[1]](Path(sys.argv[2]))
