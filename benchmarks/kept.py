"""What the pipeline does to a namespace: objects, bytes, and the requests it takes to read it all.

    appended    bundles, as brokers leave them: a little of every partition in each
    sealed      segments, one for a partition and a run; the journal is empty
    merged      few large segments instead of many small ones
    compacted   of a topic with a policy, the newest record of each key
    swept       what was replaced is deleted, after the grace

Two topics of eight partitions, ``events`` and ``state`` (compacted), in a folder, kept by the jobs
of the pipeline on Spark. ``--picture FILE`` draws it as SVG: docs/explanation/pipeline.svg is one.

The value is how many times fewer requests a reader needs in the end.
"""

import argparse
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import SparkSession

from benchmarks.measure import closing_line
from benchmarks.pipeline import records
from lakelog.catalog import Topic, create_topic, make_namespace
from lakelog.flows import items_of
from lakelog.host import THIS_HOST, SystemClock, new_id
from lakelog.journal import Lane, append, new_run, write_checkpoint
from lakelog.model import Rules
from lakelog.pipeline import plan_job
from lakelog.pipeline.frame import StoreRequest
from lakelog.pipeline.jobs import compact_job, merge_job, retain_job, seal_job
from lakelog.pipeline.sides import LogPiece, list_namespace, read_namespace
from lakelog.segments import Selection
from lakelog.spark.jobs import run_job
from lakelog.store import LocalStore, Meter, Perform, Work, metered, run, working
from tests.parts.spark import running_spark

BAR = 5.0
RULES = Rules(lanes=2, grace_ms=1_000, checkpoint_every=16)
PARTITIONS = 8
ROUNDS = 6
"""Between two of them the pipeline seals."""
KINDS = {
    ".bundle": "bundles",
    ".checkpoint": "checkpoints",
    ".kfs": "segments",
    ".index": "indexes",
    ".timeindex": "indexes",
}
COLOURS = {
    "bundles": "#d9822b", "checkpoints": "#f0c419", "segments": "#2f6db5", "indexes": "#8fb8de",
    "cells": "#777777",
}  # fmt: skip


class Moment(NamedTuple):
    """A namespace at one moment."""

    name: str
    objects: dict[str, int]
    sizes: dict[str, int]
    requests: int
    records: int


class Town:
    """A namespace in a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.perform: Perform = LocalStore(str(root)).perform
        self.run(make_namespace(new_id(), RULES))
        self.topics = [self._topic("events"), self._topic("state", **{"cleanup.policy": "compact"})]
        self.lanes = [
            Lane(number=n, rules=RULES, clock=SystemClock(), ids=new_id, writer=new_id())
            for n in range(RULES.lanes)
        ]

    def run(self, flow: Work[object]) -> object:
        return run(flow, working(self.perform))

    def _topic(self, name: str, **configs: str) -> Topic:
        made = create_topic(
            name, topic_id=new_id(), partitions=PARTITIONS, lanes=RULES.lanes, now_ms=0,
            configs={"retention.ms": "-1", **configs},
        )  # fmt: skip
        return run(made, working(self.perform))

    def append(self, bundles: int, first: int) -> None:
        """Append bundles, each with a batch for every partition of a lane."""
        for number in range(bundles):
            lane = self.lanes[number % 2]
            body = records(40, first + number * 40, 500)
            requests = [
                new_run(topic.id, partition, body)
                for topic in self.topics
                for partition in range(PARTITIONS)
                if topic.lane(partition) == lane.number
            ]
            self.run(append(lane, requests))
            self.run(write_checkpoint(lane))

    def look(self, name: str) -> Moment:
        """Count what is there, and read all of it."""
        objects: Counter[str] = Counter()
        sizes: Counter[str] = Counter()
        for path in self.root.rglob("*"):
            if path.is_file() and ".lakelog-staging" not in path.parts:
                kind = KINDS.get(path.suffix, "cells")
                objects[kind] += 1
                sizes[kind] += path.stat().st_size
        meter = Meter()
        perform = working(metered(self.perform, meter))
        count = 0
        for piece in list_namespace(perform, Selection(), THIS_HOST):
            for batch in _batches(piece, perform):
                count += batch
        moment = Moment(name, objects, sizes, sum(meter.usage.requests.values()), count)
        total = sum(objects.values())
        print(f"{name:10} {total:5} objects, {sum(sizes.values()):9,} bytes, "
              f"{moment.requests:5} requests for {count:,} records")  # fmt: skip
        return moment


def _batches(piece: LogPiece, perform: Callable[[Any], Any]) -> Iterator[int]:
    """Read a piece; give the rows of each batch."""
    stream = read_namespace(piece, "here", ("offset",), 0, 1 << 62)
    for batch in items_of(stream, StoreRequest, lambda request: perform(request.op)):
        yield batch.num_rows


def story(spark: SparkSession, root: Path) -> list[Moment]:
    town, url, moments = Town(root), str(root), []
    for number in range(ROUNDS):
        town.append(40, number * 1600)
        if number < ROUNDS - 1:
            run_job(spark, seal_job(url, host=THIS_HOST, backlog_ms=0))
    moments.append(town.look("appended"))
    run_job(spark, seal_job(url, host=THIS_HOST, backlog_ms=0, idle=True))
    moments.append(town.look("sealed"))
    run_job(spark, merge_job(url, host=THIS_HOST, rows_min=2))
    moments.append(town.look("merged"))
    run_job(spark, compact_job(url, host=THIS_HOST, always=True))
    moments.append(town.look("compacted"))
    for _ in range(3):
        time.sleep(1.2)
        run_job(spark, seal_job(url, host=THIS_HOST, backlog_ms=0, idle=True))
        run_job(spark, retain_job(url, host=THIS_HOST))
    moments.append(town.look("swept"))
    assert not plan_job(merge_job(url, host=THIS_HOST, rows_min=2))[0].units
    return moments


# ---------------------------------------------------------------------------- the picture


def draw(moments: list[Moment]) -> str:
    """Return the moments as bars, objects to the left and bytes to the right."""
    width, height, left, bar = 860, 80 + 46 * len(moments), 100, 300
    most = max(sum(moment.objects.values()) for moment in moments)
    largest = max(sum(moment.sizes.values()) for moment in moments)
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            'font-family="sans-serif" font-size="13">'
        ),
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="{left}" y="20" font-weight="bold">objects</text>',
        f'<text x="{left + bar + 50}" y="20" font-weight="bold">bytes</text>',
        (
            f'<text x="{width - 10}" y="20" text-anchor="end" font-weight="bold">'
            "requests to read it all</text>"
        ),
    ]
    for row, moment in enumerate(moments):
        y = 34 + 46 * row
        parts.append(f'<text x="{left - 8}" y="{y + 19}" text-anchor="end">{moment.name}</text>')
        for x, held, scale in (
            (left, moment.objects, bar / most),
            (left + bar + 50, moment.sizes, (bar - 60) / largest),
        ):
            total, at = sum(held.values()), float(x)
            for kind, colour in COLOURS.items():
                wide = held[kind] * scale
                parts.append(
                    f'<rect x="{at:.1f}" y="{y}" width="{wide:.1f}" height="28" fill="{colour}"/>'
                )
                at += wide
            told = f"{total:,}" if total < 100_000 else f"{total / 1e6:.1f} MB"
            parts.append(f'<text x="{at + 5:.1f}" y="{y + 19}">{told}</text>')
        parts.append(
            f'<text x="{width - 10}" y="{y + 19}" text-anchor="end">{moment.requests:,}</text>'
        )
    legend, y = left, height - 22
    for kind, colour in COLOURS.items():
        parts.append(f'<rect x="{legend}" y="{y}" width="12" height="12" fill="{colour}"/>')
        parts.append(f'<text x="{legend + 17}" y="{y + 11}">{kind}</text>')
        legend += 30 + 8 * len(kind)
    return "\n".join([*parts, "</svg>\n"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the same: it is small")
    parser.add_argument("--picture", type=Path, help="draw it there")
    options = parser.parse_args()
    with (
        running_spark() as spark,
        tempfile.TemporaryDirectory(prefix="lakelog-bench-") as folder,
    ):
        moments = story(spark, Path(folder))
    if options.picture is not None:
        options.picture.write_text(draw(moments))
    told = {
        moment.name: {
            "objects": sum(moment.objects.values()),
            "bytes": sum(moment.sizes.values()),
            "requests": moment.requests,
        }
        for moment in moments
    }
    closing_line(
        name="kept", value=moments[0].requests / moments[-1].requests, bar=BAR, moments=told
    )


if __name__ == "__main__":
    main()
