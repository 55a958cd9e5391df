"""All brokers of a cluster are restarted, one after another, under load, and nobody notices.

Each broker gets SIGTERM, ends by itself, is started again under its id and serves; then the next.
Clients are librdkafka and Java, with settings as they come. No error may reach them, nothing may be
lost, twice or out of its place, no commit goes back, and a group is given its partitions anew once
for each broker that was restarted, at most.

The value is the number of rounds after which all of that is so. The bar is all of them.
"""

import argparse
import json
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.measure import arguments, closing_line
from tests.cluster.history import Diary, History
from tests.cluster.load import TOPIC, loaded
from tests.cluster.story import BOTH, new_namespace
from tests.parts.cluster import Cluster, running_cluster
from tests.parts.seaweedfs import running_seaweedfs


def restart_all(cluster: Cluster) -> None:
    """Restart every broker in good order."""
    for node in cluster.brokers:
        cluster.stop(node)
        cluster.start(node)
        cluster.wait_until_whole(TOPIC)


def rebalances(history: History, since: float) -> dict[str, int]:
    """Return how often a member of each group was given partitions, at most, since a moment."""
    given = Counter(reader for at, reader, _ in history.assignments if at >= since)
    groups: dict[str, int] = {}
    for reader, count in given.items():
        group = reader.partition("/")[0]
        groups[group] = max(count, groups.get(group, 0))
    return groups


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--times", type=int, default=20, help="how often all are restarted")
    parser.add_argument("--heartbeat-ms", type=int)
    parser.add_argument("--logs", type=Path, help="a folder for logs and diaries")


def main() -> None:
    asked = arguments(__doc__, options)
    times, kinds = (1, ("rdkafka",)) if asked.quick else (asked.times, BOTH)
    brokers = 2 if asked.quick else 3
    rounds: list[dict[str, Any]] = []
    with running_seaweedfs() as seaweedfs, tempfile.TemporaryDirectory() as folder:
        home = asked.logs or Path(folder)
        home.mkdir(parents=True, exist_ok=True)
        with (
            running_cluster(
                new_namespace(seaweedfs),
                seaweedfs.options,
                brokers=brokers,
                heartbeat_ms=asked.heartbeat_ms,
                home=home,
            ) as cluster,
            loaded(cluster, home, kinds=kinds) as load,
        ):
            told = 0
            for _ in range(times):
                since = Diary.now()
                restart_all(cluster)
                history = load.tail()
                errors = [what for _, _, what in history.errors[told:]]
                told = len(history.errors)
                moved = rebalances(history, since)
                is_good = not errors and max(moved.values(), default=0) <= brokers
                took = round(Diary.now() - since, 1)
                row = {"seconds": took, "errors": errors, "rebalances": moved, "good": is_good}
                rounds.append(row)
                print(json.dumps(row), flush=True)
            findings = load.finish(Diary.now())
            late = load.history.error_kinds() if len(load.history.errors) > told else {}
    good = 0 if findings or late else sum(one["good"] for one in rounds)
    print(json.dumps({"found": findings.shown(), "late": late}))
    closing_line(
        name="cluster_rolling",
        value=good,
        bar=times,
        brokers=brokers,
        acked=len(load.history.acked),
        errors=load.history.error_kinds(),
        rebalances=max((max(one["rebalances"].values(), default=0) for one in rounds), default=0),
        **findings.counts(),
    )


if __name__ == "__main__":
    main()
