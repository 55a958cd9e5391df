"""All groups are moved while clients work, and a coordinator sleeps through it.

with moved(seaweedfs, folder) as story:
    story.move("migrate", "--to", "etcd")      a broker is frozen before it, and thawed after it
    story.lose_etcd()                          and restore what the bucket has of it
"""

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tests.cluster.gaps import gaps, until_served
from tests.cluster.history import Diary
from tests.cluster.load import PARTITIONS, TOPIC, Load, loaded
from tests.cluster.story import BOTH, new_namespace
from tests.parts.cluster import Cluster, running_cluster
from tests.parts.etcd import Etcd, running_etcd
from tests.parts.seaweedfs import SeaweedFS
from tests.patience import LateError

__all__ = ["MovedStory", "moved", "run_meta"]

LANES = 12
ALL = range(PARTITIONS)
COMMAND_S, BACK_S = 120.0, 120.0


def run_meta(storage: str, options: Mapping[str, str], *argv: str) -> str:
    """Run `lakelog meta`, and return what it printed."""
    given = [f"--store-option={name}={value}" for name, value in options.items()]
    command = [sys.executable, "-m", "lakelog", "meta", *argv, "--storage", storage, *given]
    done = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


class MovedStory:
    """Three brokers, clients, and where their groups are."""

    def __init__(self, cluster: Cluster, load: Load, etcd: Etcd) -> None:
        self.cluster, self.load, self.etcd = cluster, load, etcd
        self._next = 0

    def status(self) -> dict[str, object]:
        """Return where the groups are."""
        shown = run_meta(self.cluster.storage, self.cluster.options, "status", "--json")
        found: dict[str, object] = json.loads(shown)
        return found

    def move(self, *argv: str) -> dict[str, float]:
        """Move all groups while a broker is frozen; wait until every group commits again."""
        node = sorted(self.cluster.brokers)[self._next % 3]
        self._next += 1
        self.cluster.freeze(node)
        begun = Diary.now()
        try:
            run_meta(self.cluster.storage, self.cluster.options, *argv)
            ended = Diary.now()
        finally:
            self.cluster.thaw(node)
        self.await_service(begun)
        self.cluster.wait_until_whole(TOPIC)
        return {
            "command_s": round(ended - begun, 2),
            "commits_again_s": round(self.await_commits(ended) - begun, 2),
            "longest_gap_s": round(max(gaps(self.load.history, begun, Diary.now(), ALL)), 2),
        }

    def await_service(self, since: float) -> None:
        """Wait until records that are sent from now on are acknowledged in every partition."""

        def is_served() -> bool:
            return max(until_served(self.load.history, since, ALL)) < float("inf")

        if not self.load.wait_until(is_served, BACK_S):
            raise LateError("producers are not served any more")

    def await_commits(self, since: float) -> float:
        """Wait until every group has committed in every partition, and return when it had."""
        wanted = {(group, one) for group in self.load.groups for one in ALL}

        def first() -> dict[tuple[str, int], float]:
            found: dict[tuple[str, int], float] = {}
            for one in self.load.history.commits:
                if one.at > since:
                    found.setdefault((one.group, one.partition), one.at)
            return found

        if not self.load.wait_until(lambda: first().keys() >= wanted, BACK_S):
            raise LateError(f"groups do not commit any more: {wanted - first().keys()}")
        return max(first().values())

    def lose_etcd(self) -> dict[str, float]:
        """Lose all of etcd, set up a new one, and restore what the bucket has of the groups."""
        deadline = time.monotonic() + BACK_S
        while self.status().get("mirrored_shards") != self.status()["shards"]:
            if time.monotonic() > deadline:
                raise LateError("the groups are not mirrored")
            self.load.wait_until(lambda: False, 1)
        self.etcd.stop()
        self.etcd.forget()
        self.load.wait_until(lambda: False, 5)
        self.etcd.start()
        begun = Diary.now()
        run_meta(self.cluster.storage, self.cluster.options, "restore", "--lost")
        ended = Diary.now()
        back = self.await_commits(ended)
        self.await_service(begun)
        return {"command_s": round(ended - begun, 2), "back_s": round(back - begun, 2)}


@contextlib.contextmanager
def moved(
    seaweedfs: SeaweedFS,
    home: Path,
    *,
    kinds: Sequence[str] = BOTH,
    heartbeat_ms: int | None = None,
    servers: int = 3,
) -> Iterator[MovedStory]:
    """Brokers whose groups are in the bucket, and which know an etcd."""
    with running_etcd(servers) as etcd:
        options = {**seaweedfs.options, "metadata": etcd.url("lake/moves")}
        url = new_namespace(seaweedfs, LANES)
        with (
            running_cluster(url, options, heartbeat_ms=heartbeat_ms, home=home) as cluster,
            loaded(cluster, home, kinds=kinds, storage_options=options) as load,
        ):
            yield MovedStory(cluster, load, etcd)
