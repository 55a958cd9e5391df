"""What the driver of the exactly-once story does: queries that pour files into a topic.

    in-7/*.parquet    key, value, pause_ms      made by whoever asks for the query
    checkpoint-7      where Spark keeps what it knows of it
    done-7            a file that appears: it is over
    failures-7        a line for each time that it failed and was started again

Some run at once, and the next begins when one is over. So one kill, which costs a JVM, hits many
queries, each at what it happens to be at. A driver that takes the place of a killed one is asked
the same. It passes over queries that are done, and goes on with those that are not from their
checkpoints.

**Rows pause, for a time that is drawn anew each time they are read.** Else all attempts of a task
would take equally long, and none that was started later would ever be the first.
"""

import time
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

__all__ = ["FILES_AT_ONCE", "fail_after_staging", "pour", "see"]

FILES_AT_ONCE = 3
"""Spark makes two tasks of them, or three."""
TRIES_MAX = 20
_MOMENT_S = 0.02
ROWS_FAILED = 25_000
"""Spark hands over 10,000 rows at a time: some are staged before one is refused."""

_COLUMNS = "key binary, value binary, pause_ms bigint"
_DRAWN = "cast(pause_ms * cast(reflect('java.lang.Math', 'random') as double) as bigint)"
_PAUSED = f"if(pause_ms > 0, nullif(reflect('java.lang.Thread', 'sleep', {_DRAWN}), 'null'), null)"


def pour(spark: SparkSession, home: str, queries: int, at_once: int, path: str, topic: str) -> None:
    """Run each query that is not done to its end; they begin in the order of their numbers."""
    # Not in threads: one that was not there from the start finds no source that is in Python.
    waiting = [n for n in range(queries) if not Path(home, f"done-{n}").exists()]
    running: dict[int, StreamingQuery] = {}
    while waiting or running:
        for number in waiting[: at_once - len(running)]:
            waiting.remove(number)
            frame = (
                spark.readStream.schema(_COLUMNS)
                .option("maxFilesPerTrigger", FILES_AT_ONCE)
                .parquet(f"{home}/in-{number}")
                # Nothing comes of a pause.
                .selectExpr(f"coalesce(cast({_PAUSED} as binary), key) as key", "value")
            )
            checkpoint = f"{home}/checkpoint-{number}"
            _tidy(Path(checkpoint, "offsets"))
            running[number] = _start(frame, path, topic, checkpoint)
        for number, query in [*running.items()]:
            if query.isActive:
                continue
            del running[number]
            error = query.exception()
            if error is None:
                Path(home, f"done-{number}").touch()
            else:
                _note(Path(home, f"failures-{number}"), str(error))
                waiting.insert(0, number)
        time.sleep(_MOMENT_S)  # noqa: TID251 (Spark can wait for one of them, or for all)


def _tidy(offsets: Path) -> None:
    """Take away what Spark has half written, if it has written nothing else.

    A driver that is killed while it writes down its first offsets leaves a temporary file, and
    Spark then refuses the checkpoint, which "should be empty on batch 0". Nothing of the query has
    happened by then. Whoever operates it would do just this.
    """
    left = list(offsets.glob("*"))
    if all(one.name.startswith(".") for one in left):
        for one in left:
            one.unlink()


def _note(failures: Path, error: str) -> None:
    with failures.open("a") as lines:
        lines.write(error.replace("\n", " | ") + "\n")
    said = failures.read_text()
    assert said.count("\n") < TRIES_MAX, f"{failures.name}: {said}"


def _start(
    frame: DataFrame, path: str, topic: str, checkpoint: str, **options: str
) -> StreamingQuery:
    """Start a query that ends when there are no more files."""
    return (
        frame.writeStream.format("lakelog")
        .options(path=path, topic=topic, checkpointLocation=checkpoint, **options)
        .trigger(availableNow=True)
        .start()
    )


def see(spark: SparkSession, path: str, topic: str, to: str) -> None:
    """Write down what Spark sees in a topic, as Parquet."""
    frame = spark.read.format("lakelog").options(path=path, subscribe=topic).load()
    frame.select("partition", "offset", "key", "value").write.parquet(to)


def fail_after_staging(spark: SparkSession, home: str, path: str, topic: str) -> list[str]:
    """Write rows of which late ones have no place: as a batch, then as a stream; say what came."""
    rows = spark.range(0, ROWS_FAILED, 1, 1)
    placed = ["'a' as value", f"if(id < {ROWS_FAILED - 1}, 0, 99) as partition"]
    said = []
    try:
        options = {"path": path, "topic": topic, "bufferBytes": "1"}
        rows.selectExpr(*placed).write.format("lakelog").mode("append").options(**options).save()
    except PySparkException as error:
        said.append(str(error))
    rows.write.parquet(f"{home}/late")
    late = spark.readStream.schema("id bigint").parquet(f"{home}/late").selectExpr(*placed)
    try:
        query = _start(late, path, topic, f"{home}/checkpoint-late", bufferBytes="1")
        query.awaitTermination()
    except PySparkException as error:
        said.append(str(error))
    return said
