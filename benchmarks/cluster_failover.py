"""How long producers wait when a broker dies, comes back, or leaves; requests take 30 ms longer.

kill       kill -9 of one of three brokers, at beats as they come: from the kill to the first
           acknowledgement of a record that was sent after it, for each producer and partition that
           the broker led. Bar: 15 s (p99)
restart    kill -9, and started again at once under the same id, of three brokers and of one: the
           longest time without an acknowledgement in the partitions that it led. Bar: 6 s. What was
           sent before comes first, one batch of a partition after another; until something that was
           sent after the kill is acknowledged takes longer, and is printed as "behind it"
leave      SIGTERM: the longest time without an acknowledgement in the partitions that it led.
           Bar: 1.5 s in nine of ten, 2.5 s at most

Clients are librdkafka and Java, with settings as they come, but that librdkafka waits for a second
at most before it connects again, as Java does: its own ten seconds would be most of a restart. No
error may reach them, and nothing may be lost. The value is the least of the bars over what was
measured, and 0 after an error. The short form has no restart: it leaves brokers where they are.
"""

import argparse
import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import ceil
from pathlib import Path
from typing import Any

from benchmarks.measure import arguments, closing_line
from tests.cluster.gaps import gaps, until_served
from tests.cluster.history import Diary
from tests.cluster.load import TOPIC, Load, loaded
from tests.cluster.story import BOTH, new_namespace
from tests.cluster.workers import Plan
from tests.parts.cluster import Cluster, running_cluster
from tests.parts.flaky_proxy import FlakyProxy, running_flaky_proxy
from tests.parts.seaweedfs import SeaweedFS, running_seaweedfs

DELAY_S = 0.03
BARS = (
    ("kill", "p99", 15.0),
    ("restart", "max", 6.0),
    ("restart_one", "max", 6.0),
    ("leave", "p90", 1.5),
    ("leave", "max", 2.5),
)
SERVED_S = 60.0
RECONNECT_MS_MAX = 1_000


class Site:
    """A cluster under load, and what befell it."""

    def __init__(self, cluster: Cluster, load: Load, *, comes_back: bool) -> None:
        self.cluster, self.load = cluster, load
        self._comes_back = comes_back
        self._turn = 0

    def next_node(self) -> tuple[int, list[int]]:
        """Return a broker, by turns, and the partitions that it leads."""
        leaders = self.cluster.leaders(TOPIC)
        nodes = sorted(self.cluster.running)
        self._turn += 1
        node = nodes[self._turn % len(nodes)]
        return node, [at for at, one in enumerate(leaders) if one == node]

    def wait_until_served(self, since: float, partitions: Sequence[int]) -> list[float]:
        """Return how long each producer has waited in each of some partitions."""

        def waited() -> list[float]:
            return until_served(self.load.history, since, partitions)

        self.load.wait_until(lambda: max(waited(), default=0) < float("inf"), SERVED_S)
        return waited()

    def kill(self) -> list[float]:
        node, partitions = self.next_node()
        since = Diary.now()
        self.cluster.kill(node)
        waited = self.wait_until_served(since, partitions)
        self.come_back(node)
        return waited

    def come_back(self, node: int) -> None:
        """Start a broker again, if brokers are to come back."""
        if self._comes_back:
            self.cluster.start(node)
            self.cluster.wait_until_whole(TOPIC)

    def restart(self) -> list[float]:
        node, partitions = self.next_node()
        since = Diary.now()
        self.cluster.kill(node)
        self.cluster.launch(node)
        waited = self.wait_until_served(since, partitions)
        print("behind it", [round(one, 2) for one in waited], flush=True)
        found = gaps(self.load.history, since, Diary.now(), partitions)
        self.cluster.brokers[node].wait()
        self.cluster.wait_until_whole(TOPIC)
        return found

    def leave(self) -> list[float]:
        node, partitions = self.next_node()
        since = Diary.now()
        self.cluster.leave(node)
        self.wait_until_served(since + 0.5, partitions)
        self.cluster.await_end(node)
        self.load.wait_until(lambda: Diary.now() > since + 4, 5)
        found = gaps(self.load.history, since, since + 4, partitions)
        self.come_back(node)
        return found


@contextmanager
def site(
    seaweedfs: SeaweedFS, proxy: FlakyProxy, home: Path, brokers: int, *, quick: bool
) -> Iterator[Site]:
    kinds = ("rdkafka",) if quick else BOTH
    home.mkdir(parents=True)
    options = {**seaweedfs.options, "endpoint": proxy.endpoint}
    url = new_namespace(seaweedfs)
    with (
        running_cluster(url, options, brokers=brokers, home=home) as cluster,
        loaded(
            cluster,
            home,
            kinds=kinds,
            plan=Plan(reconnect_ms_max=RECONNECT_MS_MAX),
            storage_options=seaweedfs.options,
        ) as load,
    ):
        yield Site(cluster, load, comes_back=not quick)


def summary(samples: list[float]) -> dict[str, float]:
    ordered = sorted(samples)
    ranks = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
    # Nine of ten are at most p90: the smallest that so many do not exceed.
    found = {
        name: round(ordered[max(ceil(len(ordered) * at) - 1, 0)], 2) for name, at in ranks.items()
    }
    return {**found, "samples": len(ordered)}


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--times", type=int, default=10, help="how often each of them happens")
    parser.add_argument("--logs", type=Path, help="a folder for logs and diaries")


def main() -> None:
    asked = arguments(__doc__, options)
    times = 1 if asked.quick else asked.times
    told: dict[str, list[float]] = {"kill": [], "restart": [], "leave": [], "restart_one": []}
    errors: dict[str, int] = {}
    wrong: dict[str, Any] = {}
    with (
        running_seaweedfs() as seaweedfs,
        running_flaky_proxy(seaweedfs.endpoint) as proxy,
        tempfile.TemporaryDirectory() as folder,
    ):
        home = asked.logs or Path(folder)
        proxy.delay(DELAY_S)
        sizes = {3: ["leave", "restart", "kill"], 1: ["restart_one"]}
        if asked.quick:
            sizes = {3: ["leave", "kill"]}
        for brokers, names in sizes.items():
            folder_of = home / f"of-{brokers}"
            with site(seaweedfs, proxy, folder_of, brokers, quick=asked.quick) as one:
                for name in names:
                    for _ in range(times):
                        samples = getattr(one, name.removesuffix("_one"))()
                        told[name] += [max(samples)] if name == "leave" else samples
                        print(name, [round(seconds, 2) for seconds in samples], flush=True)
                findings = one.load.finish(Diary.now())
                errors |= one.load.history.error_kinds()
                wrong |= findings.shown()
    figures = {name: summary(samples) for name, samples in told.items() if samples}
    ratios = [
        bar / figures[name][rank]
        for name, rank, bar in BARS
        # Nine of fewer than ten are all of them, and those have a bar of their own.
        if name in figures and (rank != "p90" or times >= 10)
    ]
    value = 0.0 if errors or wrong else min(ratios)
    print(json.dumps({"found": wrong}))
    closing_line(name="cluster_failover", value=value, bar=1.0, errors=errors, **figures)


if __name__ == "__main__":
    main()
