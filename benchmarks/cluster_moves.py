"""Lanes move, busy and idle ones: does a Java client follow without asking for Metadata?

Three brokers with 24 lanes and a partition in each. A broker says that it drains, and serves again
when its lanes are led by others; then the next one. A Java producer writes to all partitions, 20
times a second (busy) or once (idle). It waits half a minute before it asks for Metadata again, so
that there is one way only to learn soon where a lane went: what the former leader answers
(KIP-951). Such a redirect must be one that the Java client believes, or it waits. It has one
request in flight with a broker: with its usual five a batch may overtake another on its way to a
new leader, is refused as out of order, and is sent again after the same half minute. Moves during
which the client was answered with Metadata are left out, and counted as ``asked_for_metadata``.

A move counts when the partition was acknowledged by its new leader within five seconds, and no
broker answered a Metadata request of the client meanwhile. The value is the number of such moves,
less those that took longer.
"""

import argparse
import json
import re
import signal
import tempfile
from pathlib import Path

from benchmarks.measure import arguments, closing_line
from tests.cluster.gaps import until_served
from tests.cluster.history import Diary
from tests.cluster.load import TOPIC, Load, loaded
from tests.cluster.story import new_namespace
from tests.cluster.workers import Plan
from tests.parts.cluster import Cluster, running_cluster
from tests.parts.seaweedfs import running_seaweedfs

LANES = 24
RATES = {"busy": 20.0, "idle": 1.0}
RETRY_MS = 30_000
FOLLOWED_S = 5.0
MOVED_S = 30.0
METADATA = re.compile(r'^lakelog_requests_total\{api="Metadata".*\} (\S+)$', re.MULTILINE)
REDIRECTS = re.compile(r"^lakelog_redirects_total (\S+)$", re.MULTILINE)


def counted(cluster: Cluster, pattern: re.Pattern[str]) -> int:
    """Return the sum of a counter of all brokers."""
    texts = (one.get("/metrics")[1] for one in cluster.brokers.values())
    return int(sum(float(value) for text in texts for value in pattern.findall(text)))


class Moves:
    """Lets lanes move, and counts how."""

    def __init__(self, cluster: Cluster, load: Load) -> None:
        self._cluster, self._load = cluster, load
        self.waited: list[float] = []
        self.asked = 0
        """Moves during which the client was answered with Metadata, or may have been."""

    def go_and_come(self, node: int) -> None:
        """Let a broker lose its lanes, and get them back."""
        for what, has_some in ((signal.SIGUSR1, False), (signal.SIGUSR2, True)):
            before, told = self._cluster.leaders(TOPIC), self._asked()
            self._cluster.brokers[node].signal(what)
            leaders, since = before, Diary.now()
            while (node in leaders) != has_some and Diary.now() < since + MOVED_S:
                self._load.tail()
                leaders = self._cluster.leaders(TOPIC)
            self._follow([at for at, leader in enumerate(leaders) if leader != before[at]], told)

    def _follow(self, moved: list[int], told: int) -> None:
        """Wait until the client is answered by the new leaders."""
        since = Diary.now()

        def waited() -> list[float]:
            return until_served(self._load.history, since, moved)

        self._load.wait_until(lambda: max(waited(), default=0.0) <= FOLLOWED_S, 2 * FOLLOWED_S)
        if self._asked() > told:
            self.asked += len(moved)
        else:
            self.waited += waited()

    def _asked(self) -> int:
        """How often somebody else has asked for Metadata."""
        return counted(self._cluster, METADATA) - self._cluster.asked


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--moves", type=int, default=500, help="so many of busy and of idle lanes")
    parser.add_argument("--logs", type=Path, help="a folder for logs and diaries")


def main() -> None:
    asked = arguments(__doc__, options)
    wanted = 8 if asked.quick else asked.moves
    figures: dict[str, dict[str, float]] = {}
    wrong: dict[str, object] = {}
    with running_seaweedfs() as seaweedfs, tempfile.TemporaryDirectory() as folder:
        for name, rate in RATES.items():
            home = (asked.logs or Path(folder)) / name
            home.mkdir(parents=True)
            url = new_namespace(seaweedfs, LANES)
            plan = Plan(partitions=LANES, rate=rate * LANES, members=0, retry_ms=RETRY_MS)
            with (
                running_cluster(
                    url,
                    seaweedfs.options,
                    heartbeat_ms=300,
                    home=home,
                    module="tests.cluster.moving",
                ) as cluster,
                loaded(cluster, home, kinds=["java"], plan=plan) as load,
            ):
                moves, turn = Moves(cluster, load), 0
                while len(moves.waited) < wanted and moves.asked < wanted:
                    turn += 1
                    moves.go_and_come(turn % len(cluster.brokers) + 1)
                late = sum(one > FOLLOWED_S for one in moves.waited)
                figures[name] = {
                    "moves": len(moves.waited),
                    "late": late,
                    "asked_for_metadata": moves.asked,
                    "redirects": counted(cluster, REDIRECTS),
                    "p50_s": round(sorted(moves.waited)[len(moves.waited) // 2], 3),
                    "max_s": round(max(moves.waited), 3),
                }
                print(name, figures[name], flush=True)
                wrong |= load.finish(Diary.now()).shown()
                wrong |= load.history.error_kinds()
    print(json.dumps({"found": wrong}))
    followed = [min(wanted, one["moves"] - one["late"]) for one in figures.values()]
    value = 0 if wrong or any(one["late"] for one in figures.values()) else sum(followed)
    closing_line(
        name="cluster_moves", value=value, bar=wanted * len(RATES), unit="moves", **figures
    )


if __name__ == "__main__":
    main()
