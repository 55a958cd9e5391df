"""What quotas cost those whom they do not limit: a plain listener with quotas set, over without.

requests   1 KB batches, 64 connections with 5 requests in flight each
bytes      100 KB batches

One broker on a store in memory; quotas of every key, so large that they never bind, are set and
taken away between rounds. A ratio is that of the CPU time of its loop for a request; those by the
clock are told beside it. The value is the least ratio, and the bar 0.95.
"""

import statistics
from contextlib import closing
from pathlib import Path
from typing import Any

from benchmarks.broker import PARTITIONS, TOPIC, Server, create_topic, load, served
from benchmarks.measure import arguments, closing_line
from lakelog_kafka_tools import quotas
from lakelog_kafka_tools.cluster import open_cluster

BAR = 0.95
KEYS = (
    "producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate",
    "store_request_rate",
)  # fmt: skip
NEVER = "1000000000000"


def limit(server: Server, *, is_set: bool) -> None:
    """Set quotas of every key for all clients, or take them away."""
    added = dict.fromkeys(KEYS, NEVER) if is_set else {}
    with closing(open_cluster(server.bootstrap, {}, lambda _: None)) as cluster:
        quotas.alter(cluster, ["clients"], [""], added, [] if is_set else list(KEYS))


def loop_s(server: Server) -> float:
    """Return the CPU seconds of a broker's loop so far."""
    return int(Path(f"/proc/{server.pid}/schedstat").read_text().split()[0]) / 1e9


def measured(server: Server, size: int, seconds: float) -> dict[str, float]:
    """Return what one round has reached."""
    before = loop_s(server)
    found = load(server, size, seconds)
    found["cpu_us"] = 1e6 * (loop_s(server) - before) / (found["requests_s"] * seconds)
    return found


def compare(server: Server, size: int, seconds: float, rounds: int) -> list[dict[bool, Any]]:
    """Return what was reached in each round, with quotas and without."""
    found: list[dict[bool, Any]] = []
    for turn in range(rounds + 1):
        pair: dict[bool, Any] = {}
        for is_set in (True, False) if turn % 2 else (False, True):
            if is_set:
                limit(server, is_set=True)
            pair[is_set] = measured(server, size, seconds)
            if is_set:
                limit(server, is_set=False)
        if turn:  # The first one warms up.
            found.append(pair)
    return found


def main() -> None:
    options = arguments(__doc__)
    rounds, seconds = (6, 1.0) if options.quick else (15, 2.0)
    figures: dict[str, Any] = {}
    for name, size, key in (("requests", 1_000, "requests_s"), ("bytes", 100_000, "mb_s")):
        # What is sent stays in memory: a broker for each, and fewer seconds of large batches.
        with served("broker", "memory:") as server:
            create_topic(server.bootstrap, TOPIC, PARTITIONS)
            pairs = compare(server, size, seconds / (2 if size > 1_000 else 1), rounds)
        having, lacking = [one[True] for one in pairs], [one[False] for one in pairs]
        ratios = [b["cpu_us"] / a["cpu_us"] for a, b in zip(having, lacking, strict=True)]
        clock = [a[key] / b[key] for a, b in zip(having, lacking, strict=True)]
        row = {
            "ratio": statistics.median(ratios),
            "by_the_clock": statistics.median(clock),
            f"{key}_with": statistics.median(one[key] for one in having),
            f"{key}_without": statistics.median(one[key] for one in lacking),
            "cpu_us_with": statistics.median(one["cpu_us"] for one in having),
            "cpu_us_without": statistics.median(one["cpu_us"] for one in lacking),
        }
        figures[name] = {what: round(value, 3) for what, value in row.items()}
    value = min(one["ratio"] for one in figures.values())
    closing_line(name="secure_quotas", value=value, bar=BAR, **figures)


if __name__ == "__main__":
    main()
