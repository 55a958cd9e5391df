"""What quotas cost those whom they do not limit: a plain listener with quotas set, over without.

requests   1 KB batches, 64 connections with 5 requests in flight each
bytes      100 KB batches

One broker on a store in memory, under one load; meanwhile quotas of every key, so large that they
never bind, are set and taken away again and again, every fifth of a second. A ratio is that of the
CPU time of the broker's loop for a request, between neighbours; that by the clock is told beside
it. The value is the least median of these, and the bar 0.95.
"""

import statistics
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.broker import PARTITIONS, TOPIC, Server, create_topic, served
from benchmarks.measure import arguments, closing_line
from lakelog_kafka_tools import quotas
from lakelog_kafka_tools.cluster import Cluster, open_cluster

BAR = 0.95
KEYS = (
    "producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate",
    "store_request_rate",
)  # fmt: skip
NEVER = "1000000000000"


SLICE_S = 0.2
SETTLE_S = 0.05
"""For every connection to have found its quotas: that is done once, and not for each request."""

WARM_S = 2.0
"""For the load to begin, which is another process, and for the broker to warm up."""

PAIRS_MAX = 12
"""With one broker: what is sent to it stays in its memory."""


class Slice(NamedTuple):
    """A while with quotas, or without."""

    cpu_us: float
    """Of the loop, for a request."""
    requests_s: float


def limit(cluster: Cluster, *, is_set: bool) -> None:
    """Set quotas of every key for all clients, or take them away."""
    added = dict.fromkeys(KEYS, NEVER) if is_set else {}
    quotas.alter(cluster, ["clients"], [""], added, [] if is_set else list(KEYS))


def look(server: Server) -> tuple[float, float, float]:
    """Return the time, the CPU seconds of a broker's loop, and how often it was produced to."""
    count = server.counted()["seconds"]["produce"][0]
    spent_ns = int(Path(f"/proc/{server.pid}/schedstat").read_text().split()[0])
    return time.perf_counter(), spent_ns / 1e9, count


def take(server: Server) -> Slice:
    begun_s, cpu_s, count = look(server)
    time.sleep(SLICE_S)
    ended_s, cpu_after_s, count_after = look(server)
    requests = max(count_after - count, 1)
    return Slice(1e6 * (cpu_after_s - cpu_s) / requests, requests / (ended_s - begun_s))


def compare(server: Server, size: int, pairs: int) -> list[dict[bool, Slice]]:
    """Return neighbouring slices with quotas and without, under one load."""
    seconds = 10 * (WARM_S + pairs * SLICE_S)  # Ended before, unless the machine is very slow.
    command = [sys.executable, "-m", "benchmarks.load", str(server.port), TOPIC, str(PARTITIONS)]
    found: list[dict[bool, Slice]] = []
    with (
        subprocess.Popen([*command, str(size), "64", "5", str(seconds)], stdout=-3) as load,
        closing(open_cluster(server.bootstrap, {}, lambda _: None)) as cluster,
    ):
        time.sleep(WARM_S)
        for turn in range(pairs):
            pair: dict[bool, Slice] = {}
            for is_set in (True, False) if turn % 2 else (False, True):
                if is_set:
                    limit(cluster, is_set=True)
                time.sleep(SETTLE_S)
                pair[is_set] = take(server)
                if is_set:
                    limit(cluster, is_set=False)
            assert load.poll() is None, "the load has ended"
            found.append(pair)
        load.kill()
    return found


def figures(*, quick: bool) -> dict[str, Any]:
    """Return what is left of each speed, and what it is made of."""
    pairs = 8 if quick else 60
    told: dict[str, Any] = {}
    for name, size in (("requests", 1_000), ("bytes", 100_000)):
        found: list[dict[bool, Slice]] = []
        while len(found) < pairs:
            # What is sent stays in memory: a new broker for every few.
            with served("broker", "memory:") as server:
                create_topic(server.bootstrap, TOPIC, PARTITIONS)
                found += compare(server, size, min(pairs, PAIRS_MAX))
        row = {
            "ratio": statistics.median(one[False].cpu_us / one[True].cpu_us for one in found),
            "by_the_clock": statistics.median(
                one[True].requests_s / one[False].requests_s for one in found
            ),
        }
        for is_set, word in ((True, "with"), (False, "without")):
            row[f"cpu_us_{word}"] = statistics.median(one[is_set].cpu_us for one in found)
            row[f"requests_s_{word}"] = statistics.median(one[is_set].requests_s for one in found)
        told[name] = {what: round(value, 3) for what, value in row.items()}
    return told


def main() -> None:
    found = figures(quick=arguments(__doc__).quick)
    value = min(one["ratio"] for one in found.values())
    closing_line(name="secure_quotas", value=value, bar=BAR, **found)


if __name__ == "__main__":
    main()
