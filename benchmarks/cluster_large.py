"""Three brokers with ten thousand partitions, a thousand groups and five thousand members.

    metadata  every broker is asked for all topics, by turns: the median of the slowest. Bar: 200 ms
    join      until all groups are balanced
    beat      a heartbeat of every member and a commit of every group, all at once: until answered
    failover  kill -9 of one broker, at beats as they come: from the kill to the first
              acknowledgement of a record that was sent after it, in each partition of a topic that
              the broker led. Bar: 15 s
    regroup   from the kill until every member of every group is served, and its group has committed

Offsets that coordinators tell afterwards are those that were acknowledged, and nothing is lost. The
value is the least of the bars over what was measured, and 0 if anything is wrong.
"""

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from contextlib import closing
from pathlib import Path

from benchmarks.measure import arguments, closing_line
from tests.cluster.crowd import Crowd
from tests.cluster.gaps import until_served
from tests.cluster.history import Diary
from tests.cluster.load import TOPIC, Load, create_topic, loaded
from tests.cluster.story import new_namespace
from tests.parts.cluster import METADATA, Cluster, running_cluster
from tests.parts.seaweedfs import running_seaweedfs
from tests.parts.wire import Wire

LANES, TOPICS, MEMBERS = 12, 10, 5
METADATA_MS, FAILOVER_S = 200.0, 15.0
PATIENCE_S = 120.0


def metadata_ms(cluster: Cluster, partitions: int, rounds: int) -> float:
    """Return how long the slowest broker takes to tell all topics, by the median."""
    medians: list[float] = []
    for broker in cluster.brokers.values():
        with closing(Wire(broker.bootstrap)) as wire:
            taken, frame = list[float](), b""
            for _ in range(rounds):
                begun = time.perf_counter()
                frame = wire.ask_raw(
                    METADATA,
                    12,
                    topics=None,
                    allow_auto_topic_creation=False,
                    include_topic_authorized_operations=False,
                )
                taken.append(1000 * (time.perf_counter() - begun))
            told = wire.read(METADATA, 12, frame).topics
            assert sum(len(one.partitions) for one in told) >= partitions
            medians.append(statistics.median(taken))
    return max(medians)


def addresses(cluster: Cluster) -> dict[int, tuple[str, int]]:
    hosts = {node: cluster.brokers[node].bootstrap.split(":") for node in cluster.running}
    return {node: (host, int(port)) for node, (host, port) in hosts.items()}


async def crowd_story(cluster: Cluster, load: Load, groups: int) -> tuple[dict[str, float], bool]:
    """Let groups live, kill a broker, and let them live on."""
    crowd = Crowd(addresses(cluster), groups=groups, members=MEMBERS, topic=TOPIC)
    try:
        join_s = await crowd.join(PATIENCE_S)
        beats = [max(await crowd.beat(PATIENCE_S)) for _ in range(5)]
        lost = [at for at, node in enumerate(cluster.leaders(TOPIC)) if node == 2]
        since = Diary.now()
        cluster.kill(2)
        crowd.brokers = addresses(cluster)
        await crowd.beat(PATIENCE_S)
        regroup_s = Diary.now() - since

        def waited() -> float:
            return max(until_served(load.history, since, lost))

        load.wait_until(lambda: waited() < float("inf"), PATIENCE_S)
        await crowd.beat(PATIENCE_S)
        wrong = await crowd.check(PATIENCE_S)
        print(json.dumps({"wrong_offsets": wrong[:10]}))
    finally:
        crowd.close()
    figures = {
        "join_s": join_s,
        "beat_s": statistics.median(beats),
        "failover_s": waited(),
        "regroup_s": regroup_s,
    }
    return figures, bool(wrong)


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--groups", type=int, default=1_000)
    parser.add_argument("--logs", type=Path, help="a folder for logs and diaries")


def main() -> None:
    asked = arguments(__doc__, options)
    partitions, groups = (1_000, 50) if asked.quick else (asked.partitions, asked.groups)
    with running_seaweedfs() as seaweedfs, tempfile.TemporaryDirectory() as folder:
        home = asked.logs or Path(folder)
        home.mkdir(parents=True, exist_ok=True)
        url = new_namespace(seaweedfs, LANES)
        with (
            running_cluster(url, seaweedfs.options, home=home) as cluster,
            loaded(cluster, home, kinds=["rdkafka"]) as load,
        ):
            for number in range(TOPICS):
                create_topic(cluster.bootstrap, f"many-{number}", partitions // TOPICS)
            # Whoever is asked for a topic by its name knows it from then on.
            for number in range(TOPICS):
                cluster.wait_until_whole(f"many-{number}")
            told_ms = metadata_ms(cluster, partitions, 5 if asked.quick else 20)
            figures, is_wrong = asyncio.run(crowd_story(cluster, load, groups))
            found = load.finish(Diary.now())
    errors = load.history.error_kinds()
    print(json.dumps({"found": found.shown(), "errors": errors}))
    room = min(METADATA_MS / told_ms, FAILOVER_S / figures["failover_s"])
    closing_line(
        name="cluster_large",
        value=0.0 if found or is_wrong else room,
        bar=1.0,
        partitions=partitions,
        groups=groups,
        members=groups * MEMBERS,
        metadata_ms=round(told_ms, 1),
        **{name: round(value, 2) for name, value in figures.items()},
    )


if __name__ == "__main__":
    main()
