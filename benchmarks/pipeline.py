"""The pipeline on Spark, two cores, against the least that anybody could do.

    seal       bundles of a namespace on SeaweedFS -> segments, by a whole run of ``seal`` (plan,
               intents, tasks, read back, commit, trim); against two processes that copy the same
               bundles with obstore: get, put. As a share of their throughput: 0.6 or more
    compact    records of 100 bytes in four partitions, one key in twenty is new; a whole run of
               ``compact`` on local files, against the plain formulation in Spark: read, greatest
               offset by key, left-semi join, written as Parquet. 3 times as fast, or more
    growth     seal of ten times the bytes takes at most 11 times as long

Sides take turns, each on a namespace of its own; medians by round. The value is the worst of the
three, each over its bar: 1 or more passes. Peak memory of a Python worker is told beside it.
"""

import multiprocessing
import resource
import shutil
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as everybody writes it)

from benchmarks.measure import arguments, closing_line
from benchmarks.planning import Unsynced
from lakelog.catalog import Topic, create_topic, make_namespace
from lakelog.host import THIS_HOST, SystemClock, new_id
from lakelog.journal import Lane, append, new_run, write_checkpoint
from lakelog.maintenance import SealSettings, maintain
from lakelog.model import Rules
from lakelog.pipeline.jobs import compact_job, seal_job
from lakelog.spark.jobs import run_job
from lakelog.store import (
    Get,
    MemoryStore,
    PutIfAbsent,
    each_object,
    open_store,
    run,
    working,
)
from tests.parts.seaweedfs import SeaweedFS, running_seaweedfs
from tests.parts.spark import running_spark
from tests.shorthands import encode_columns

BARS = {"seal": 0.6, "compact": 3.0, "growth": 11.0}
RULES = Rules(lanes=2)
PARTITIONS = 16
SLICE_BYTES = 256 << 10
KEYS_EVERY = 20


# ---------------------------------------------------------------------------- preparing


def records(count: int, first: int, keys: int) -> bytes:
    """Batches of a thousand records of about 100 bytes, whose keys come again."""
    numbers = [(first + n) * 7919 % keys for n in range(count)]
    columns = {
        "key": pa.array([b"key-%012d" % n for n in numbers], pa.binary()),
        "value": pa.array([b"%080d" % n for n in range(first, first + count)], pa.binary()),
        "offset": pa.array(range(count), pa.int64()),
        "timestamp": pa.array([1_700_000_000_000_000] * count, pa.timestamp("us", "UTC")),
        "timestampType": pa.array([0] * count, pa.int32()),
    }
    batch = pa.record_batch(columns)
    return bytes(encode_columns(batch, records_max=1000, batch_bytes=1 << 30).to_pybytes())


def make_topic(perform: Callable[[Any], Any], **configs: str) -> Topic:
    run(make_namespace(new_id(), RULES), perform)
    made = create_topic(
        "bench", topic_id=new_id(), partitions=PARTITIONS, lanes=RULES.lanes, now_ms=0,
        configs={"retention.ms": "-1", **configs},
    )  # fmt: skip
    return run(made, perform)


def fill(perform: Callable[[Any], Any], topic: Topic, bundles: int, body: bytes, each: int) -> None:
    """Append bundles, each with a slice of ``each`` partitions of a lane."""
    lanes = [
        Lane(number=n, rules=RULES, clock=SystemClock(), ids=new_id, writer=new_id())
        for n in range(RULES.lanes)
    ]
    mine = {n: [p for p in range(PARTITIONS) if topic.lane(p) == n] for n in range(RULES.lanes)}
    for number in range(bundles):
        lane = lanes[number % RULES.lanes]
        some = [mine[lane.number][(number // 2 * each + k) % len(mine[lane.number])]
                for k in range(min(each, len(mine[lane.number])))]  # fmt: skip
        run(append(lane, [new_run(topic.id, p, body) for p in sorted(set(some))]), perform)
        run(write_checkpoint(lane), perform)


# ---------------------------------------------------------------------------- seal


def journal(size: int) -> dict[str, bytes]:
    """The objects of a namespace with so many bytes in bundles."""
    store = MemoryStore()
    perform = working(store.perform)
    topic = make_topic(perform)
    body = records(2000, 0, 1 << 40)
    while len(body) < SLICE_BYTES:
        body += body
    fill(perform, topic, max(2, size // (len(body) * 8)), body, 8)
    keys = [info.key for info in each_object(store.perform)]
    return {key: store.perform(Get(key, 1 << 30)).body for key in keys}


def upload(weed: SeaweedFS, url: str, objects: dict[str, bytes]) -> None:
    store = open_store(url, weed.options)
    for key, body in objects.items():
        store.perform(PutIfAbsent(key, body))


def copy_some(url: str, options: dict[str, str], keys: list[str]) -> None:
    """Copy objects of a namespace one after another to where it is not, in a process of its own."""
    import obstore
    from obstore.store import S3Store

    settings: Any = to_config(options)
    store = S3Store.from_url(url, config=settings, client_options={"allow_http": True})
    for key in keys:
        obstore.put(store, f"copy/{key}", obstore.get(store, f"large/{key}").bytes())


def to_config(options: dict[str, str]) -> dict[str, Any]:
    names = {
        "endpoint": "aws_endpoint",
        "region": "aws_region",
        "access_key_id": "aws_access_key_id",
        "secret_access_key": "aws_secret_access_key",
    }
    return {names[name]: value for name, value in options.items() if name in names}


def seal_figures(spark: SparkSession, weed: SeaweedFS, size: int, rounds: int) -> dict[str, float]:
    """Seconds of a copy and of a seal, by round, and of a seal of a tenth."""
    large, small = journal(size), journal(size // 10)
    bundles = [key for key in large if key.endswith(".bundle")]
    total = sum(len(large[key]) for key in bundles)
    context = multiprocessing.get_context("spawn")
    took: dict[str, list[float]] = {"copy": [], "seal": [], "small": []}
    with context.Pool(2) as pool:
        warm_up = f"s3://{weed.bucket('warm-up')}"
        upload(weed, f"{warm_up}/large", small)
        few = [key for key in small if key.endswith(".bundle")]
        pool.starmap(copy_some, [(warm_up, dict(weed.options), few[n::2]) for n in range(2)])
        sealed(spark, weed, f"{warm_up}/large")
        for turn in range(rounds):
            bucket = f"s3://{weed.bucket(f'turn-{turn}')}"
            upload(weed, f"{bucket}/large", large)
            upload(weed, f"{bucket}/small", small)
            halves = [(bucket, dict(weed.options), bundles[n::2]) for n in range(2)]
            sides: dict[str, Callable[[], object]] = {
                "copy": partial(pool.starmap, copy_some, halves),
                "seal": partial(sealed, spark, weed, f"{bucket}/large"),
                "small": partial(sealed, spark, weed, f"{bucket}/small"),
            }
            for name in list(sides)[:: 1 if turn % 2 else -1]:
                began = time.perf_counter()
                sides[name]()
                took[name].append(time.perf_counter() - began)
    ratio = median(c / s for c, s in zip(took["copy"], took["seal"], strict=True))
    growth = median(s / t for s, t in zip(took["seal"], took["small"], strict=True))
    speeds = {name: round(total / median(took[name]) / 1e6, 1) for name in ("copy", "seal")}
    print(f"seal {speeds['seal']} MB/s, copy {speeds['copy']} MB/s: {ratio:.2f}; x10: {growth:.1f}")
    return {"ratio": ratio, "growth": growth, **{f"{n}_mb_s": v for n, v in speeds.items()}}


def sealed(spark: SparkSession, weed: SeaweedFS, url: str) -> None:
    job = seal_job(url, host=THIS_HOST, backlog_ms=0, store_options=weed.options)
    report = run_job(spark, job)
    assert report.is_good
    assert report.records, report.outcomes


# ---------------------------------------------------------------------------- compact


def compacted_topic(root: Path, count: int) -> None:
    """A compacted topic, all of it sealed, in which one record in twenty has a new key."""
    perform = working(Unsynced(root).perform)
    run(make_namespace(new_id(), RULES), perform)
    made = create_topic(
        "bench", topic_id=new_id(), partitions=4, lanes=RULES.lanes, now_ms=0,
        configs={"cleanup.policy": "compact"},
    )  # fmt: skip
    topic = run(made, perform)
    lanes = {
        n: Lane(number=n, rules=RULES, clock=SystemClock(), ids=new_id, writer=new_id())
        for n in range(RULES.lanes)
    }
    each, keys = 20_000, max(1, count // 4 // KEYS_EVERY)
    for first in range(0, count // 4, each):
        body = records(each, first, keys)
        for partition in range(4):
            lane = lanes[topic.lane(partition)]
            run(append(lane, [new_run(topic.id, partition, body)]), perform)
            run(write_checkpoint(lane), perform)
    run(maintain(lanes, SealSettings(segment_bytes=64 << 20), idle=True), perform)


def compact_figures(spark: SparkSession, home: Path, count: int, rounds: int) -> dict[str, float]:
    """Seconds of the two ways, by round."""
    source = home / "source"
    source.mkdir()
    compacted_topic(source, count)
    took: dict[str, list[float]] = {"plain": [], "ours": []}
    for turn in range(rounds + 1):
        copy = home / f"copy-{turn}"
        shutil.copytree(source, copy)
        sides: dict[str, Callable[[], object]] = {
            "plain": partial(plain, spark, source, home / f"out-{turn}"),
            "ours": partial(compacted, spark, copy),
        }
        for name in list(sides)[:: 1 if turn % 2 else -1]:
            began = time.perf_counter()
            sides[name]()
            if turn:
                took[name].append(time.perf_counter() - began)
        shutil.rmtree(copy)
    ratio = median(p / o for p, o in zip(took["plain"], took["ours"], strict=True))
    speed = count / median(took["ours"]) / 2
    print(f"compact {ratio:.2f} times the plain way, {speed:,.0f} records a core-second")
    return {"ratio": ratio, "records_per_core_second": round(speed)}


def plain(spark: SparkSession, source: Path, out: Path) -> None:
    """Compaction as anybody would write it in Spark."""
    frame = spark.read.format("lakelog").options(path=str(source), subscribe="bench").load()
    newest = frame.groupBy("partition", "key").agg(F.max("offset").alias("offset"))
    kept = frame.join(newest, ["partition", "key", "offset"], "left_semi")
    kept.write.mode("overwrite").parquet(str(out))
    shutil.rmtree(out)


def compacted(spark: SparkSession, root: Path) -> None:
    report = run_job(spark, compact_job(str(root), host=THIS_HOST, always=True))
    assert report.outcomes == {"compacted": 4}, report.outcomes


def main() -> None:
    options = arguments(__doc__)
    size, count, rounds = (64 << 20, 200_000, 1) if options.quick else (1 << 30, 20_000_000, 3)
    with (
        running_seaweedfs() as weed,
        running_spark() as spark,
        tempfile.TemporaryDirectory(prefix="lakelog-bench-") as folder,
    ):
        seal = seal_figures(spark, weed, size, rounds)
        compact = compact_figures(spark, Path(folder), count, rounds)
    shares = {
        "seal": seal["ratio"] / BARS["seal"],
        "compact": compact["ratio"] / BARS["compact"],
        "growth": BARS["growth"] / seal["growth"],
    }
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10
    closing_line(
        name="pipeline", value=min(shares.values()), bar=1.0, seal=seal, compact=compact,
        shares={name: round(share, 2) for name, share in shares.items()}, peak_mib=peak,
    )  # fmt: skip


if __name__ == "__main__":
    main()
