"""Three brokers on SeaweedFS are killed, frozen, stopped and restarted under real clients.

Beats come every 300 ms, so that all of it takes three minutes. With beats as they come, for longer
and with figures: ``benchmarks/cluster_faults.py``, ``cluster_failover.py``, ``cluster_rolling.py``.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cluster.gaps import until_served
from tests.cluster.history import Diary
from tests.cluster.load import PARTITIONS, TOPIC, Load, loaded
from tests.cluster.planted import environment
from tests.cluster.story import fault_run, new_namespace
from tests.parts.cluster import Cluster, Site, running_cluster
from tests.parts.seaweedfs import SeaweedFS
from tests.patience import in_time

pytestmark = pytest.mark.seaweedfs

HEARTBEAT_MS = 300
BUGS_AT_ONCE = ("ack-unstored", "stored-twice", "commit-forgotten")
SERVED_S = 60.0


@contextmanager
def three(seaweedfs: SeaweedFS, home: Path, kind: str) -> Iterator[tuple[Cluster, Load]]:
    """Three brokers, and clients of one kind that are served."""
    with (
        running_cluster(
            new_namespace(seaweedfs), seaweedfs.options, heartbeat_ms=HEARTBEAT_MS, home=home
        ) as cluster,
        loaded(cluster, home, kinds=[kind]) as load,
    ):
        yield cluster, load


def led_by(cluster: Cluster, node: int) -> list[int]:
    """Return the partitions that a broker leads."""
    return [at for at, one in enumerate(cluster.leaders(TOPIC)) if one == node]


def await_service(load: Load, since: float, partitions: list[int]) -> None:
    """Every producer is answered in some partitions, for what it sent since a moment."""

    def is_served() -> bool:
        return max(until_served(load.history, since, partitions)) < float("inf")

    in_time(load.wait_until(is_served, SERVED_S), f"not served after {SERVED_S} s")


@pytest.mark.parametrize("kind", ["rdkafka", "java"])
def test_clients_go_on_when_a_broker_is_killed_and_when_all_are_restarted(
    seaweedfs: SeaweedFS, tmp_path: Path, kind: str
) -> None:
    with three(seaweedfs, tmp_path, kind) as (cluster, load):
        lost, since = led_by(cluster, 2), Diary.now()
        assert lost, "every broker leads something"
        cluster.kill(2)
        await_service(load, since, lost)
        assert cluster.wait_until_whole(TOPIC).brokers == {1, 3}
        cluster.start(2)
        # They may agree before the last lane has moved.
        is_home = load.wait_until(lambda: set(cluster.leaders(TOPIC)) == {1, 2, 3}, SERVED_S)
        in_time(is_home, "broker 2 did not get its lanes back")

        given = len(load.tail().assignments)
        for node in cluster.brokers:
            cluster.stop(node)
            cluster.start(node)
            cluster.wait_until_whole(TOPIC)
        await_service(load, Diary.now(), list(range(PARTITIONS)))
        members = len({reader for _, reader, _ in load.tail().assignments})
        again = len(load.history.assignments) - given
        assert again <= members * len(cluster.brokers), "one rebalance for each broker at most"

        found = load.finish(Diary.now())
        assert not found, found.shown()
        assert not load.history.errors, load.history.error_kinds()


def test_under_faults_of_all_kinds_nothing_is_lost_twice_or_unseen(
    seaweedfs: SeaweedFS, tmp_path: Path
) -> None:
    outcome = fault_run(
        seaweedfs, tmp_path, faults="mixed", seed=1, seconds=15, heartbeat_ms=HEARTBEAT_MS
    )
    assert not outcome.findings, outcome.findings.shown()
    in_time(sum(outcome.faults.values()) >= 3, outcome.faults)


def test_brokers_that_forget_and_repeat_are_found_out(seaweedfs: SeaweedFS, tmp_path: Path) -> None:
    """The judge judges: brokers with planted bugs do not get away with them."""
    with (
        running_cluster(
            new_namespace(seaweedfs),
            seaweedfs.options,
            heartbeat_ms=HEARTBEAT_MS,
            home=tmp_path,
            module="tests.cluster.planted",
            sites=dict.fromkeys((1, 2, 3), Site(env=environment(BUGS_AT_ONCE))),
        ) as cluster,
        loaded(cluster, tmp_path, kinds=["rdkafka"]) as load,
    ):
        load.wait_until(lambda: len(load.history.commits) > 300, 15)
        # What is lost is never seen: nobody waits a minute for it.
        found = load.finish(Diary.now(), patience_s=3)
    assert found["lost-write"]
    assert found["duplicate"]
    assert found["commit-regress"]
