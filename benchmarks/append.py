"""Appending through the journal against a bare loop that puts the same objects.

A flush is 256 batches of 16 KiB over 250 partitions: a bundle of 4 MiB. On the journal's side a
lane is driven as a broker drives it: every batch is checked when it comes, judged, put with its
bundle, and answered, and while one bundle is on its way the batches of the next one come. The bare
side puts objects of the same bytes, one at a time, through the same store: on local files with the
same fsyncs, on SeaweedFS by the same requests. Either has one put in flight. Rounds alternate.

The value is the lower of the two ratios, local files and SeaweedFS, of bytes per second.
"""

import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import uvloop

from benchmarks.measure import arguments, closing_line
from lakelog.broker import LaneWriter
from lakelog.catalog import make_namespace
from lakelog.host import SystemClock, new_id, tune_process
from lakelog.journal import FlushSettings, Lane, Stored, new_append
from lakelog.model import Record, Rules
from lakelog.records import NewBatch, encode_batch
from lakelog.store import Created, PutIfAbsent, Store, open_store, run, working
from tests.parts.seaweedfs import running_seaweedfs

BAR = 0.85
PARTITIONS = 250
BATCHES = 256
BATCH_BYTES = 16 << 10
AHEAD = 2
"""Bundles whose batches have come: the one that is put, and the next."""


def batches() -> list[bytes]:
    """Return 256 batches of 16 KiB, of records that do not compress."""
    value = BATCH_BYTES // 16 - 20
    return [
        encode_batch(
            NewBatch(
                records=[
                    Record(offset=at, timestamp=1, key=None, value=os.urandom(value))
                    for at in range(16)
                ]
            )
        )
        for _ in range(BATCHES)
    ]


def journal_side(store: Store, bodies: list[bytes], flushes: int) -> Callable[[], int]:
    """Return what appends so many bundles and returns how many bytes were acknowledged."""
    rules = Rules(lanes=1)
    run(make_namespace(new_id(), rules), working(store.perform))
    lane = Lane(number=0, rules=rules, clock=SystemClock(), ids=new_id, writer=new_id())
    size = sum(map(len, bodies))
    settings = FlushSettings(interval_ms=1000, size_bytes_goal=size, size_bytes_max=size)
    topic = new_id()

    async def story() -> int:
        acknowledged = left = flushes * BATCHES
        done = asyncio.Event()
        turn = asyncio.Semaphore(AHEAD * BATCHES)

        def answered(outcome: object) -> None:
            nonlocal left
            assert isinstance(outcome, Stored), outcome
            left -= 1
            turn.release()
            if not left:
                done.set()

        async with LaneWriter(lane, store.perform_async, settings) as writer:
            for _ in range(flushes):
                for number, body in enumerate(bodies):
                    await turn.acquire()
                    request = new_append(topic, number % PARTITIONS, body)
                    writer.submit(request, answered, 0)
            await done.wait()
        return acknowledged // BATCHES * size

    return lambda: uvloop.run(story())


def bare_side(store: Store, bodies: list[bytes], flushes: int) -> Callable[[], int]:
    """Return what puts as many objects of the same size."""
    directory = os.urandom(80 * PARTITIONS + 28 * BATCHES + 132)
    payload = b"".join(bodies)
    body = payload + directory
    count = [0]

    def side() -> int:
        for _ in range(flushes):
            count[0] += 1
            answer = store.perform(PutIfAbsent(f"bare/{count[0]:020}.bundle", body))
            assert isinstance(answer, Created)
        return flushes * len(payload)

    return side


def ratio(store: Store, bodies: list[bytes], rounds: int, flushes: int) -> dict[str, float]:
    """Return the median of the rounds' ratios, and both speeds."""
    sides = {
        "journal": journal_side(store, bodies, flushes),
        "bare": bare_side(store, bodies, flushes),
    }
    speeds: dict[str, list[float]] = {name: [] for name in sides}
    for turn in range(rounds + 1):
        for name in list(sides)[:: 1 if turn % 2 else -1]:
            began = time.perf_counter()
            size = sides[name]()
            if turn:
                speeds[name].append(size / (time.perf_counter() - began) / 1e6)
    pairs = zip(speeds["journal"], speeds["bare"], strict=True)
    return {
        "ratio": round(statistics.median(ours / theirs for ours, theirs in pairs), 3),
        "journal_mb_s": round(statistics.median(speeds["journal"]), 1),
        "bare_mb_s": round(statistics.median(speeds["bare"]), 1),
    }


def main() -> None:
    options = arguments(__doc__)
    rounds, flushes = (7, 8) if options.quick else (15, 32)
    tune_process()
    bodies = batches()
    figures = {}
    with tempfile.TemporaryDirectory(prefix="lakelog-append-") as folder:
        (Path(folder) / "store").mkdir()
        local = open_store(f"file://{folder}/store")
        figures["local"] = ratio(local, bodies, rounds, flushes)
    with running_seaweedfs() as seaweedfs:
        remote = open_store(f"s3://{seaweedfs.bucket('append')}/ns", seaweedfs.options)
        figures["seaweedfs"] = ratio(remote, bodies, rounds, flushes)
    value = min(figure["ratio"] for figure in figures.values())
    closing_line(name="append", value=value, bar=BAR, bundle_bytes=BATCHES * BATCH_BYTES, **figures)


if __name__ == "__main__":
    main()
