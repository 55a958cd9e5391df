"""What a producer feels of a bulk write: Spark writes to the same storage that its broker uses.

    broker      lakelog serve on SeaweedFS, as it comes: flushes every 250 ms
    producer    a record of 100 bytes every 5 ms, acks=all; how long until each is acknowledged
    Spark       format("lakelog") into another topic of the same namespace, values of 1 KB

Stretches without Spark's writes and stretches with them take turns. The figure is the 99th
percentile of the one over that of the other: at most 2 passes. A record counts where it was sent.

In a cluster Spark has machines of its own. Here it shares two cores with store, broker and
producer, so it runs at a lower priority: what is left to feel is the store, and the journal.
"""

import multiprocessing
import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from multiprocessing.connection import Connection

from pyspark.sql import DataFrame, SparkSession

from benchmarks.measure import arguments, closing_line
from lakelog.model import Rules
from lakelog.spark import write
from lakelog.store import StoreSpec
from tests.e2e.live.twins import create_topic, running_namespace
from tests.parts.seaweedfs import running_seaweedfs
from tests.parts.spark import running_spark

TIMES_MAX = 2.0
QUIET_S = 15.0
EVERY_S = 0.005
NICE = 15

Told = list[tuple[float, float]]
"""When each record was sent, and how many milliseconds passed until it was acknowledged."""


def produce(bootstrap: str, control: Connection) -> None:
    """Produce until told to end; in a process of its own."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "acks": "all"})
    told: Told = []

    def sent() -> Callable[..., None]:
        began = time.perf_counter()
        return lambda *_: told.append((began, 1000 * (time.perf_counter() - began)))

    due = time.perf_counter()
    while not control.poll():
        producer.produce("felt", b"v" * 100, on_delivery=sent())
        due = max(due + EVERY_S, time.perf_counter())
        while (left := due - time.perf_counter()) > 0:
            producer.poll(left)
    producer.flush(30)
    control.send(told)


def rows(spark: SparkSession, size: int) -> DataFrame:
    word = "sha2(cast(id as string), 512)"
    value = f"cast(substr(repeat({word}, 8), 1, 1000) as binary)"
    return spark.range(0, size // 1000, 1, 8).selectExpr(f"{value} as value")


def percentile(told: list[float], share: float) -> float:
    return round(sorted(told)[int(len(told) * share)], 1)


def felt(told: Told, spans: list[tuple[float, float]]) -> list[float]:
    return [took for at, took in told if any(begin <= at < end for begin, end in spans)]


def main() -> None:
    options = arguments(__doc__)
    size, rounds = (64 << 20, 2) if options.quick else (1 << 30, 5)
    quiet_s = 5.0 if options.quick else QUIET_S
    context = multiprocessing.get_context("spawn")
    spans: dict[str, list[tuple[float, float]]] = {"alone": [], "beside": []}
    with ExitStack() as stack:
        weed = stack.enter_context(running_seaweedfs())
        place = StoreSpec(f"s3://{weed.bucket('beside')}/log", weed.options)
        broker = stack.enter_context(running_namespace(rules=Rules(), place=place)).broker
        for topic in ("felt", "bulk"):
            create_topic(broker.bootstrap, topic, 4)
        ours, theirs = context.Pipe()
        there = {f"store.{name}": value for name, value in place.options.items()}
        producer = context.Process(target=produce, args=(broker.bootstrap, theirs), daemon=True)
        producer.start()
        os.nice(NICE)
        with running_spark() as spark:
            frame = rows(spark, size)
            write(rows(spark, 1 << 20), place.url, topic="bulk", **there)
            for _ in range(rounds):
                for name in spans:
                    began = time.perf_counter()
                    if name == "alone":
                        time.sleep(quiet_s)
                    else:
                        write(frame, place.url, topic="bulk", **there)
                    spans[name].append((began, time.perf_counter()))
        ours.send(None)
        told: Told = ours.recv()
        producer.join()
    took = {name: felt(told, some) for name, some in spans.items()}
    p99 = {name: percentile(some, 0.99) for name, some in took.items()}
    speed = rounds * size / sum(end - begin for begin, end in spans["beside"]) / 1e6
    times = p99["beside"] / p99["alone"]
    print(f"p99 {p99['alone']} ms alone, {p99['beside']} ms beside {speed:.0f} MB/s: x {times:.2f}")
    closing_line(
        name="beside",
        value=TIMES_MAX / times,
        bar=1.0,
        unit="the most that was allowed over what it was",
        times=round(times, 2),
        p99_ms=p99,
        p50_ms={name: percentile(some, 0.5) for name, some in took.items()},
        records={name: len(some) for name, some in took.items()},
        written_bytes=rounds * size,
        written_mb_s=round(speed, 1),
    )


if __name__ == "__main__":
    main()
