"""A spool on this machine's disk, each figure beside the bare calls that it cannot do without.

    append       100 records of 100 bytes, never synced      a loop of os.write of the same bytes
    durable      one record, synced on every write           a loop of os.write and fsync
    scan         a mapped segment into Arrow                 the kernel alone, on memory
    recovery     an unclean end, every record read           reading the same bytes

What waits for the disk is measured by the wall, all else in the processor's time; each by turns
with what it is compared with. The value is the share of its bar
that the worst of the four reaches. Beside them: how long an append and a read take, by policy; how
long it takes to open a large folder that was not closed, and to build an index; and the memory of
it. These have no bar.
"""

import os
import resource
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.measure import arguments, closing_line
from lakelog.spool import NEVER, Spool, SpoolSettings, open_reader, open_with
from lakelog.spool.disk import Disk
from lakelog.spool.encoding import Encoder, NextRecord
from lakelog.spool.partition import PartitionLog
from lakelog.spool.recovery import build_index, scan
from lakelog.spool.segments import read_columns
from lakelog.store import LINUX

BATCH, RECORD_BYTES = 100, 100
BARS = {"append": 0.5, "durable": 0.9, "scan": 0.8, "recovery": 0.5}
COLUMNS = ("key", "value", "offset", "timestamp")


def opened(folder: Path, **settings: Any) -> Spool:
    return open_with(
        str(folder), SpoolSettings(**settings), system=LINUX, ids=lambda: os.urandom(16)
    )


def values(seed: int = 0) -> list[bytes]:
    draw = np.random.default_rng(seed)
    return [draw.bytes(RECORD_BYTES) for _ in range(BATCH)]


def cpu(act: Callable[[], object]) -> float:
    begun = time.process_time()
    act()
    return time.process_time() - begun


def wall(act: Callable[[], object]) -> float:
    begun = time.perf_counter()
    act()
    return time.perf_counter() - begun


def nothing() -> None: ...


def by_turns(
    turns: int,
    clock: Callable[[Callable[[], object]], float],
    bare: Callable[[], object],
    ours: Callable[[], object],
    prepare: Callable[[], object] = nothing,
) -> tuple[float, float, float]:
    """Return the median of what the bare call took by what ours took, and both medians."""
    pairs = []
    for turn in range(turns + 1):
        prepare()
        first, second = (bare, ours) if turn % 2 else (ours, bare)
        took = {first: clock(first)}
        took[second] = clock(second)
        if turn:
            pairs.append((took[bare], took[ours]))
    return (
        median(a / b for a, b in pairs),
        median(a for a, _ in pairs),
        median(b for _, b in pairs),
    )


def append(root: Path, turns: int, appends: int) -> dict[str, float]:
    batch = values()
    data = bytes(Encoder().encode(NextRecord(0, 0, 0, time.time_ns() // 1000), batch, None).data)
    handle = os.open(root / "bare", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    with opened(root / "append", sync=NEVER, segment_bytes=1 << 30) as spool:
        spool.append_many("t", batch)
        log = spool.log("t")

        def prepare() -> None:
            # Both write to a file that has no pages yet.
            os.ftruncate(handle, 0)
            spool.seal("t")
            forget(spool, log)

        def bare() -> None:
            for _ in range(appends):
                os.write(handle, data)

        def ours() -> None:
            for _ in range(appends):
                spool.append_many("t", batch)

        ratio, bare_s, ours_s = by_turns(turns, cpu, bare, ours, prepare)
    os.close(handle)
    each = {"bare_us": bare_s / appends * 1e6, "ours_us": ours_s / appends * 1e6}
    return {"ratio": ratio, **each, "megabytes_a_second": len(data) * appends / ours_s / 1e6}


def forget(spool: Spool, log: PartitionLog) -> None:
    """Delete what was sealed: the disk of a machine that measures is small."""
    for segment in log.sealed:
        stem = f"{segment.base_offset:020d}"
        spool.disk.unlink(log.folder, f"{stem}.log", f"{stem}.index")
    log.sealed.clear()


def durable(root: Path, appends: int) -> dict[str, float]:
    value = values()[0]
    data = bytes(Encoder().encode(NextRecord(0, 0, 0, time.time_ns() // 1000), [value], None).data)
    handle = os.open(root / "bare-durable", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    with opened(root / "durable") as spool:
        spool.append("t", value)

        def bare() -> None:
            os.write(handle, data)
            os.fsync(handle)

        # One by one: a disk that others use is slow for a while, and then fast again.
        _, bare_s, ours_s = by_turns(appends, wall, bare, lambda: spool.append("t", value))
    os.close(handle)
    return {"ratio": bare_s / ours_s, "bare_us": bare_s * 1e6, "ours_us": ours_s * 1e6}


def segment(root: Path, size: int) -> Path:
    """Write one segment of about so many bytes; return its log."""
    with opened(root, sync=NEVER, segment_bytes=1 << 30) as spool:
        batch = values()
        while spool.log("t").active[1] < size:
            spool.append_many("t", batch)
        spool.flush()
    return root / "topics/t/partitions/0/00000000000000000000.log"


def scan_columns(root: Path, turns: int, size: int) -> dict[str, float]:
    path = segment(root / "scan", size)
    data = memoryview(path.read_bytes())
    no_index = memoryview(b"")

    def bare() -> None:
        for _ in read_columns(data, no_index, 0, COLUMNS, active=False):
            pass

    def ours() -> None:
        for _ in open_reader(str(root / "scan")).batches("t", columns=COLUMNS):
            pass

    bare()
    with opened(root / "scan") as spool:
        spool.log("t")

        def mapped() -> None:
            for _ in spool.reader.batches("t", columns=COLUMNS):
                pass

        ratio, bare_s, ours_s = by_turns(turns, cpu, bare, mapped)
    other_process = median(cpu(ours) for _ in range(3))
    rate = {"gigabytes_a_second": len(data) / ours_s / 1e9}
    return {
        "ratio": ratio, "bare_s": bare_s, "ours_s": ours_s, **rate,
        "beside_the_writer_s": other_process,
    }  # fmt: skip


def recovery(root: Path, turns: int, size: int) -> dict[str, float]:
    """An active segment of which nothing is known: every record is read and checked."""
    path = segment(root / "recovery", size)
    size = path.stat().st_size

    def bare() -> None:
        with path.open("rb", buffering=0) as file:
            while file.read(1 << 20):
                pass

    def ours() -> None:
        view = Disk(str(path.parent), LINUX).view("", path.name, ahead=True)
        found = scan(view, base_offset=0, raw_end=0)
        assert found.is_whole

    ours()
    ratio, bare_s, ours_s = by_turns(turns, cpu, bare, ours)
    index_s = wall(
        lambda: build_index(
            Disk(str(root / "recovery"), LINUX), "topics/t/partitions/0/", 0, raw_end=0
        )
    )
    return {
        "ratio": ratio,
        "gigabytes_a_second": size / ours_s / 1e9,
        "reading_gigabytes_a_second": size / bare_s / 1e9,
        "index_rebuild_s": index_s,
    }


def folder(root: Path, size: int) -> dict[str, float]:
    """A large folder that was not closed: how long until it takes a record."""
    path, batch = root / "folder", values()
    spool = opened(path, sync=NEVER)
    written = 0
    while written < size:
        spool.append_many("t", batch)
        written += BATCH * (RECORD_BYTES + 32)
    spool.log("t").let_go()
    os.close(spool._lock_handle)  # noqa: SLF001 (it ends without a word)
    took = wall(lambda: opened(path).append("t", b"v"))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"bytes": written, "open_and_append_s": took, "process_mebibytes": memory}


def latency(root: Path) -> dict[str, dict[str, float]]:
    """How long one append, and one read of a record that is in memory, takes by policy."""
    found: dict[str, dict[str, float]] = {}
    value = values()[0]
    for name, settings in {
        "every-write": {},
        "never": {"sync": NEVER},
    }.items():
        count = 200 if name == "every-write" else 5000
        with opened(root / f"latency-{name}", **settings) as spool:
            spool.append("t", value)
            took = sorted(wall(lambda s=spool: s.append("t", value)) for _ in range(count))  # type: ignore[misc]
            reads = sorted(
                wall(lambda s=spool: next(s.reader.records("t", offset=100)))  # type: ignore[misc]
                for _ in range(100)
            )
        found[name] = {
            "append_p50_us": took[count // 2] * 1e6,
            "append_p99_us": took[count * 99 // 100] * 1e6,
            "read_p50_us": reads[50] * 1e6,
        }
    return found


def main() -> None:
    options = arguments(__doc__)
    quick = options.quick
    turns = 7 if quick else 15
    with tempfile.TemporaryDirectory(prefix="lakelog-bench-", dir=options_dir()) as name:
        root = Path(name)
        found: dict[str, Any] = {
            "append": append(root, turns, 2000 if quick else 5000),
            "durable": durable(root, 400 if quick else 3000),
            "scan": scan_columns(root, turns, (64 if quick else 256) << 20),
            "recovery": recovery(root, turns, (64 if quick else 512) << 20),
            "latency": latency(root),
            "folder": folder(root, (300 if quick else 10_000) << 20),
        }
        shutil.rmtree(root / "folder")
    for part, figures in found.items():
        print(part, {n: round(v, 3) if isinstance(v, float) else v for n, v in figures.items()})
    reached = {part: found[part]["ratio"] / bar for part, bar in BARS.items()}
    worst = min(reached, key=lambda part: reached[part])
    closing_line(
        name="spool",
        value=round(reached[worst], 3),
        bar=1.0,
        unit=f"of its bar, the worst of four: {worst}",
        **{f"{part}_ratio": round(found[part]["ratio"], 3) for part in BARS},
        bars=BARS,
    )


def options_dir() -> str | None:
    """Where the disk is: not a folder in memory, if this machine has another."""
    return "/var/tmp" if Path("/var/tmp").is_dir() else None


if __name__ == "__main__":
    main()
