"""Planning a read of the live log: what the driver does before the first task runs.

A local store is prepared as brokers and keepers would have left it, and ``LiveReader.partitions()``
is called without Spark, in a process that has planned nothing before.

    segments     a million segments over 10,000 partitions, none of them in the journal    15 s
    memory       what the process grew by for it, at its peak                              2 GiB
    bundles      100,000 bundles in four lanes, nothing sealed, each with batches of       10 s
                 ten partitions: a million slices, all of them wanted
    one of ten   the same journal, and one in ten partitions wanted                        10 s
    trigger      requests of a stream's trigger when nothing is new, for each lane; that   2
                 for the topic is among them
    stale        the same of the trigger that looks at the heads once more, every quarter  2
                 of the grace; that for the topic is not among them

Seconds are of CPU, of all threads, and of the best round: files are read from the cache, so that
there is nothing to wait for but neighbours on the machine. The clock is told beside it, and how
long it takes to pickle the plan, as Spark then does.

The value is the worst of all, allowed over used: 1 or more passes. ``--quick`` has a tenth of the
objects, and a tenth of what is allowed for them.
"""

import gc
import pickle
import resource
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql.streaming.datasource import ReadAllAvailable

from benchmarks import history
from benchmarks.data import START_MS
from benchmarks.measure import arguments, closing_line
from lakelog.catalog import Topic, create_topic, make_namespace
from lakelog.errors import ConflictError
from lakelog.host import SystemClock, new_id
from lakelog.journal import Lane, append, new_append, write_checkpoint
from lakelog.model import Record, Rules
from lakelog.records import NewBatch, encode_batch
from lakelog.segments.placed import PLACED_COLUMNS
from lakelog.spark.live import LiveReader, ReadPartition
from lakelog.spark.options import parse_options
from lakelog.spark.streams import LiveStreamReader
from lakelog.store import (
    Created,
    LocalStore,
    Meter,
    Op,
    PutIfAbsent,
    PutIfMatch,
    Replaced,
    join_body,
    metered,
    run,
    working,
)

BARS = {
    "segments": 15.0,
    "memory": 2.0,
    "bundles": 10.0,
    "one of ten": 10.0,
    "trigger": 2.0,
    "stale": 2.0,
}
SHRINK = ("segments", "memory", "bundles", "one of ten")
"""What there is less of in the quick form, and so less allowed."""

PARTITIONS = 10_000
BUNDLES = 100_000
LANES = 4
SLICES = 10
"""Of a bundle."""
GIB = 1 << 30
PICKLED = 10_000
"""Tasks, at the most: they tell how long all would take."""


class Planned(NamedTuple):
    """What a plan took, in a process that had planned nothing before."""

    wall: float
    cpu: float
    pickling: float
    grown_bytes: int
    spans: int
    tasks: int


# ---------------------------------------------------------------------------- preparing


class Unsynced:
    """A local store while it is prepared, by one process: no wait for the disk, no comparing."""

    def __init__(self, root: Path) -> None:
        self._root, self._store = root, LocalStore(str(root))
        self._made: set[str] = set()

    def perform(self, op: Op) -> Any:
        if not isinstance(op, PutIfAbsent | PutIfMatch):
            return self._store.perform(op)
        folder = f"{self._root}/{op.key.rpartition('/')[0]}"
        if folder not in self._made:
            Path(folder).mkdir(parents=True, exist_ok=True)
            self._made.add(folder)
        with open(f"{self._root}/{op.key}", "wb") as file:  # noqa: PTH123 (there are many)
            file.write(join_body(op.body))
        return Created(etag="") if isinstance(op, PutIfAbsent) else Replaced(etag="")


def make_topic(root: Path, name: str, *, partitions: int, rules: Rules) -> Topic:
    """Make a topic, and the namespace if there is none."""
    perform = working(Unsynced(root).perform)
    with suppress(ConflictError):
        run(make_namespace(new_id(), rules), perform)
    # The records are older than a log keeps them if it is not told otherwise.
    made = create_topic(
        name,
        topic_id=new_id(),
        partitions=partitions,
        lanes=rules.lanes,
        now_ms=0,
        configs={"retention.ms": "-1"},
    )
    return run(made, perform)


def write_history(root: Path, partitions: int) -> None:
    """A hundred segments a partition; of one partition in a hundred, half of them on a page."""
    topic = make_topic(root, "large", partitions=partitions, rules=Rules())
    for partition in range(partitions):
        history.write_partition(topic, root / topic.path / str(partition), partition)


def write_journal(root: Path, bundles: int, rules: Rules) -> None:
    """As many bundles over the lanes, by the flow that brokers use."""
    topics = [
        make_topic(root, name, partitions=LANES * count, rules=rules)
        for name, count in (("one", 1), ("others", SLICES - 1))
    ]
    record = Record(offset=0, timestamp=START_MS, key=b"key", value=b"value" * 20)
    body = encode_batch(NewBatch(records=[record]))
    perform = working(Unsynced(root).perform)
    for number in range(LANES):
        lane = Lane(number=number, rules=rules, clock=SystemClock(), ids=new_id, writer=new_id())
        requests = [
            new_append(topic.id, partition, body)
            for topic in topics
            for partition in range(topic.partitions)
            if topic.lane(partition) == number
        ]
        assert len(requests) == SLICES
        for _ in range(bundles // LANES):
            run(append(lane, requests), perform)
            run(write_checkpoint(lane), perform)


# ---------------------------------------------------------------------------- planning


def plan(root: str, pattern: str) -> Planned:
    """Plan a read of all that the topics hold, as Spark asks for it."""
    options = parse_options({"path": root, "subscribePattern": pattern})
    gc.collect()
    before = resident_bytes()
    wall, cpu = time.perf_counter(), time.process_time()
    shares = LiveReader(options, PLACED_COLUMNS).partitions()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
    some = shares[:: -(-len(shares) // PICKLED)]
    start = time.process_time()
    for share in some:
        pickle.dumps(share)
    pickling = (time.process_time() - start) * len(shares) / len(some)
    spans = sum(len(one.task) for one in shares if isinstance(one, ReadPartition))
    return Planned(wall, cpu, pickling, grown, spans, len(shares))


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def planned(root: Path, pattern: str, rounds: int) -> Planned:
    """The quickest of some rounds, each in a process of its own."""
    found = []
    for _ in range(rounds):
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            found.append(pool.submit(plan, str(root), pattern).result())
    best = min(found, key=lambda one: one.cpu)
    return best._replace(grown_bytes=max(one.grown_bytes for one in found))


# ---------------------------------------------------------------------------- triggers


def requests_of_a_trigger(root: Path) -> int:
    """How often a stream asks the store when nothing was appended since it asked last."""
    meter = Meter()
    options = parse_options({"path": str(root), "subscribe": "one"}, query="stream")
    perform = metered(LocalStore(str(root)).perform, meter)
    reader = LiveStreamReader(options, PLACED_COLUMNS, perform=perform)
    start = reader.initialOffset()
    counts = []
    for _ in range(5):
        before = sum(meter.usage.requests.values())
        assert reader.latestOffset(start, ReadAllAvailable()) == start
        counts.append(sum(meter.usage.requests.values()) - before)
    return max(counts)


def main() -> None:
    options = arguments(__doc__)
    share, rounds = (10, 2) if options.quick else (1, 3)
    plans: dict[str, Planned] = {}
    with tempfile.TemporaryDirectory(prefix="lakelog-planning-") as folder:
        root = Path(folder)
        began = time.perf_counter()
        write_history(root / "history", PARTITIONS // share)
        write_journal(root / "journal", BUNDLES // share, Rules(lanes=LANES))
        write_journal(root / "stale", LANES, Rules(lanes=LANES, grace_ms=4))
        print(f"prepared in {time.perf_counter() - began:.1f} s", flush=True)
        for name, place, pattern in (
            ("segments", "history", "large"),
            ("bundles", "journal", ".*"),
            ("one of ten", "journal", "one"),
        ):
            plans[name] = one = planned(root / place, pattern, rounds)
            print(
                f"{name:10} {one.wall:6.2f} s  {one.cpu:6.2f} s CPU  pickled in "
                f"{one.pickling:5.2f} s  {one.grown_bytes / GIB:5.2f} GiB  {one.spans} spans, "
                f"{one.tasks} tasks",
                flush=True,
            )
        triggers = {name: requests_of_a_trigger(root / name) for name in ("journal", "stale")}
    used = {name: one.cpu for name, one in plans.items()} | {
        "memory": plans["segments"].grown_bytes / GIB,
        "trigger": triggers["journal"] / LANES,
        "stale": (triggers["stale"] - 1) / LANES,
    }
    allowed = {name: bar / share if name in SHRINK else bar for name, bar in BARS.items()}
    closing_line(
        name="planning",
        value=min(allowed[name] / used[name] for name in BARS),
        bar=1.0,
        unit="allowed over used, the worst of all figures",
        used={name: round(used[name], 2) for name in BARS},
        allowed=allowed,
        clock={name: round(one.wall, 2) for name, one in plans.items()},
        pickling={name: round(one.pickling, 2) for name, one in plans.items()},
        spans={name: one.spans for name, one in plans.items()},
        triggers=triggers,
    )


if __name__ == "__main__":
    main()
