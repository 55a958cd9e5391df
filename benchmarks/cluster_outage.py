"""The listing of the store is gone for two minutes, or the whole store: what do clients see?

Three brokers on SeaweedFS with default beats, behind a proxy that refuses lists, or answers nothing
at all. Producers and groups of librdkafka and Java go on all the while, with default settings.

    circles    partitions whose clients a broker sends to another which sends them elsewhere
    listing    while lists fail, records are acknowledged as ever: the longest time between two
               acknowledgements of a producer in a partition is printed
    back_s     from the end of the trouble until every producer is acknowledged in every partition
               for something that it sent since, and every group commits. Bar: 10 s

The value is the bar over the longer of both ways back, and 0 if there was a circle, or if anything
was lost, twice, moved or unseen.
"""

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.measure import arguments, closing_line
from tests.cluster.gaps import gaps, until_served
from tests.cluster.history import Diary
from tests.cluster.load import PARTITIONS, TOPIC, Load, loaded
from tests.cluster.story import BOTH, new_namespace
from tests.parts.cluster import Cluster, running_cluster
from tests.parts.flaky_proxy import FlakyProxy, running_flaky_proxy
from tests.parts.seaweedfs import running_seaweedfs

BACK_S = 10.0
PATIENCE_S = 60.0
EVERYTHING = range(PARTITIONS)


def way_back(load: Load, since: float) -> float:
    """Wait until all clients are served again, and return how long that took."""
    history = load.history

    def waited() -> float:
        committed = {
            group: min(
                (one.at for one in history.commits if one.group == group and one.begun >= since),
                default=float("inf"),
            )
            for group in load.groups
        }
        back = [at - since for at in committed.values()]
        return max(until_served(history, since, EVERYTHING) + back)

    load.wait_until(lambda: waited() < float("inf"), PATIENCE_S)
    return waited()


def trouble(
    kind: str, proxy: FlakyProxy, cluster: Cluster, load: Load, seconds: float
) -> dict[str, Any]:
    """Let trouble last for so long, and return what was seen."""
    since = Diary.now()
    if kind == "listing":
        proxy.refuse_lists()
    else:
        proxy.freeze()
    circles = 0
    while Diary.now() < since + seconds:
        circles += len(cluster.circles(TOPIC))
        load.wait_until(lambda: False, 1.0)
    until = Diary.now()
    proxy.heal()
    back_s = way_back(load, until)
    return {
        "circles": circles,
        "back_s": round(back_s, 2),
        "longest_gap_s": round(max(gaps(load.history, since, until, EVERYTHING), default=0.0), 2),
        "acked_meanwhile": sum(since <= one.at < until for one in load.history.acked.values()),
    }


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=120.0, help="how long each trouble lasts")
    parser.add_argument("--logs", type=Path, help="a folder for logs and diaries")


def main() -> None:
    asked = arguments(__doc__, options)
    seconds, kinds = (8.0, ("rdkafka",)) if asked.quick else (asked.seconds, BOTH)
    with (
        running_seaweedfs() as seaweedfs,
        running_flaky_proxy(seaweedfs.endpoint) as proxy,
        tempfile.TemporaryDirectory() as folder,
    ):
        home = asked.logs or Path(folder)
        home.mkdir(parents=True, exist_ok=True)
        given = {**seaweedfs.options, "endpoint": proxy.endpoint}
        with (
            running_cluster(new_namespace(seaweedfs), given, home=home) as cluster,
            loaded(cluster, home, kinds=kinds, storage_options=seaweedfs.options) as load,
        ):
            figures = {
                kind: trouble(kind, proxy, cluster, load, seconds) for kind in ("listing", "store")
            }
            found = load.finish(Diary.now())
    print(json.dumps({"found": found.shown(), "errors": load.history.error_kinds()}))
    circles = sum(one["circles"] for one in figures.values())
    longest = max(one["back_s"] for one in figures.values())
    closing_line(
        name="cluster_outage",
        value=0.0 if circles or found else BACK_S / longest,
        bar=1.0,
        seconds=seconds,
        **figures,
    )


if __name__ == "__main__":
    main()
