"""Three brokers whose members and groups are in etcd, of three servers: how long clients wait.

kill       kill -9 of one of three brokers, at beats as they come with etcd: from the kill to the
           first acknowledgement of a record that was sent after it, for each producer and partition
           that the broker led. Bar: 5 s (p99)
cut        all servers of etcd are paused: producers and readers go on. Bar: no record is refused,
           and each partition is served to its end

Clients are librdkafka and Java, as in ``cluster_failover``. The value is the bar of kills over what
was measured, and 0 if a record was refused, lost or stored twice. The short form kills once, and
pauses etcd for some seconds.
"""

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.cluster_failover import RECONNECT_MS_MAX, Site, summary
from benchmarks.measure import arguments, closing_line
from tests.cluster.gaps import gaps, until_served
from tests.cluster.history import Diary
from tests.cluster.load import PARTITIONS, Load, loaded
from tests.cluster.story import BOTH, new_namespace
from tests.cluster.workers import Plan
from tests.parts.cluster import running_cluster
from tests.parts.etcd import Etcd, running_etcd
from tests.parts.seaweedfs import running_seaweedfs

KILL_S = 5.0
SERVED_S = 60.0
EVERYTHING = range(PARTITIONS)


def cut(etcd: Etcd, load: Load, seconds: float) -> dict[str, Any]:
    """Let no server of etcd answer for so long, and return what producers saw."""
    since = Diary.now()
    for one in etcd.servers:
        one.pause()
    try:
        load.wait_until(lambda: False, seconds)
    finally:
        for one in etcd.servers:
            one.resume()
    until = Diary.now()

    def is_served() -> bool:
        return max(until_served(load.history, until, EVERYTHING)) < float("inf")

    load.wait_until(is_served, SERVED_S)
    return {
        "seconds": seconds,
        "acked": sum(since <= one.at < until for one in load.history.acked.values()),
        "longest_gap_s": round(max(gaps(load.history, since, until, EVERYTHING)), 2),
        "refused": len(load.history.refused),
    }


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--times", type=int, default=20, help="how often a broker is killed")
    parser.add_argument("--seconds", type=float, default=600.0, help="how long etcd is cut off")


def main() -> None:
    asked = arguments(__doc__, options)
    times, seconds = (1, 6.0) if asked.quick else (asked.times, asked.seconds)
    with (
        running_seaweedfs() as seaweedfs,
        running_etcd(3) as etcd,
        tempfile.TemporaryDirectory() as folder,
    ):
        given = {**seaweedfs.options, "metadata": etcd.url("lake")}
        with (
            running_cluster(new_namespace(seaweedfs), given, home=Path(folder)) as cluster,
            loaded(
                cluster,
                Path(folder),
                kinds=("rdkafka",) if asked.quick else BOTH,
                plan=Plan(reconnect_ms_max=RECONNECT_MS_MAX),
                storage_options=given,
            ) as load,
        ):
            site = Site(cluster, load, comes_back=not asked.quick)
            waited: list[float] = []
            for _ in range(times):
                samples = site.kill()
                waited += samples
                print("kill", [round(one, 2) for one in samples], flush=True)
            found_cut = cut(etcd, load, seconds)
            found = load.finish(Diary.now())
    print(json.dumps({"found": found.shown(), "errors": load.history.error_kinds()}))
    figures = summary(waited)
    closing_line(
        name="cluster_etcd",
        value=0.0 if found or found_cut["refused"] else KILL_S / figures["p99"],
        bar=1.0,
        kill=figures,
        cut=found_cut,
    )


if __name__ == "__main__":
    main()
