"""Planning: many small segments become few tasks, soon, and in little memory.

A log of 100,000 segments of 10 KB, with their indexes, in 100 partitions of Kafka's layout on the
local disk, is listed, planned and pickled, as Spark's driver does for a read.

    tasks     no more than the bytes over 128 MiB, and one
    seconds   15 or less, on the clock; the best of three
    memory    what the plan holds when it is ready, for each segment: 600 bytes or less

The value is the worst of them, each as allowed over used: 1 or more passes. The quick form has
20,000 segments, and a fifth of the time. Beside it, without a bar: a million segments from a
listing that is made up (200,000 in the quick form).
"""

import pickle
import tempfile
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

from benchmarks.data import Shape, run_of
from benchmarks.measure import arguments, closing_line
from lakelog.records import rebase
from lakelog.segments import (
    LAYOUTS,
    SPLIT_BYTES,
    ReadTask,
    find_directories,
    plan_splits,
)
from lakelog.segments.scan import ScanRequest, plan_scan
from lakelog.store import LocalStore
from tests.plain_encoders import encode_kafka_log

SEGMENTS = 100_000
PARTITIONS = 100
SECONDS = 15.0
MEMORY_BYTES = 600
RECORDS = 80
"""Of a segment: about 10 KB."""


def write_segments(root: Path, count: int) -> int:
    """Write ``count`` small segments; return the bytes of their data files."""
    files = encode_kafka_log(run_of(Shape(records=RECORDS, batch_records=RECORDS)))
    log = bytearray(files.pop(".log"))
    for number in range(PARTITIONS):
        folder = root / f"small-{number}"
        folder.mkdir()
        for segment in range(count // PARTITIONS):
            base = segment * RECORDS
            rebase(log, base_offset=base, leader_epoch=0)
            (folder / f"{base:020}.log").write_bytes(log)
            for suffix, data in files.items():
                (folder / f"{base:020}{suffix}").write_bytes(data)
    return len(log) * count


def listing(count: int) -> Iterator[tuple[str, int]]:
    """What a store would say of ``count`` segments, in the order of keys."""
    for partition in sorted(f"many-{number}" for number in range(PARTITIONS)):
        for segment in range(count // PARTITIONS):
            stem = f"{partition}/{segment * RECORDS:020}"
            yield from ((stem + ".index", 8), (stem + ".log", 10_000), (stem + ".timeindex", 12))


def plan_listed(count: int) -> list[ReadTask]:
    directories = find_directories(LAYOUTS["kafka"], listing(count))
    return list(plan_splits(one for found in directories for one in found.segments))


def plan_and_pickle(folder: str) -> tuple[float, float, int]:
    """Seconds on the clock and of CPU, and the bytes that go to the tasks."""
    wall, cpu = time.perf_counter(), time.process_time()
    splits = plan_scan(LocalStore(folder), ScanRequest(layout="kafka"))
    pickled = sum(len(pickle.dumps(split)) for split in splits)
    return time.perf_counter() - wall, time.process_time() - cpu, pickled


def main() -> None:
    options = arguments(__doc__)
    count = SEGMENTS // 5 if options.quick else SEGMENTS
    allowed_s = SECONDS * count / SEGMENTS
    with tempfile.TemporaryDirectory() as folder:
        size = write_segments(Path(folder), count)
        took = [plan_and_pickle(folder) for _ in range(3)]
        tracemalloc.start()
        splits = plan_scan(LocalStore(folder), ScanRequest(layout="kafka"))
        held, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert sum(len(split.parts) for split in splits) == count
    tasks, tasks_max = len(splits), -(-size // SPLIT_BYTES) + 1
    seconds, cpu_s, pickled = min(took)
    print(f"{count} segments, {size >> 20} MiB: {tasks} tasks of {tasks_max} allowed")
    print(f"planned in {seconds:.2f} s ({cpu_s:.2f} s CPU); {pickled / count:.0f} bytes pickled,")
    print(f"{held / count:.0f} held and {peak / count:.0f} at the peak, for each segment")
    del splits
    many = 200_000 if options.quick else 1_000_000
    start = time.perf_counter()
    listed = len(plan_listed(many))
    listed_s = time.perf_counter() - start
    tracemalloc.start()
    some = plan_listed(many // 10)  # Being traced takes its time; a tenth tells as much.
    listed_bytes = tracemalloc.get_traced_memory()[0] * 10 / many
    tracemalloc.stop()
    del some
    print(f"{many} segments of a listing: {listed} tasks in {listed_s:.2f} s")
    print(f"{listed_bytes:.0f} bytes held for each segment of a listing")
    closing_line(
        name="plan",
        value=min(tasks_max / tasks, allowed_s / seconds, MEMORY_BYTES * count / held),
        bar=1.0,
        unit="allowed over used, the worst of tasks, seconds and memory",
        segments=count,
        tasks=tasks,
        tasks_max=tasks_max,
        seconds=round(seconds, 2),
        seconds_max=allowed_s,
        cpu_s=round(cpu_s, 2),
        bytes_held_per_segment=round(held / count),
        bytes_peak_per_segment=round(peak / count),
        bytes_pickled_per_segment=round(pickled / count),
        listed_segments=many,
        listed_s=round(listed_s, 2),
        listed_bytes_per_segment=round(listed_bytes),
    )


if __name__ == "__main__":
    main()
