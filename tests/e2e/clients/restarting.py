"""Three brokers of lakelog, each of which is restarted once: SIGTERM, end, start.

A broker dies with the thread that has started it, and so one thread starts all of them, again and
again, for as long as the clients need them.
"""

import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from tests.e2e.clients.clusters import LakelogCluster
from tests.parts.cluster import Cluster, running_cluster

__all__ = ["RestartedCluster", "restarted_cluster"]

HEARTBEAT_MS = 500
PAUSES_S = (1.0, 12.0, 12.0)
"""Before each restart. The quickest client is through with its stories in some seconds."""
_TOPIC = "__consumer_offsets"


class RestartedCluster(LakelogCluster):
    """Three brokers."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.restarts = 0
        """Brokers that were asked to end, and are started again."""


@contextmanager
def restarted_cluster() -> Iterator[RestartedCluster]:
    """Brokers that serve, and are restarted from now on."""
    begun: Future[RestartedCluster] = Future()
    end = threading.Event()

    def run(storage: Path) -> None:
        with running_cluster(f"file://{storage}/log", heartbeat_ms=HEARTBEAT_MS) as cluster:
            found = RestartedCluster(cluster)
            begun.set_result(found)
            for node, pause_s in zip(cluster.brokers, PAUSES_S, strict=True):
                if end.wait(pause_s):
                    return
                found.restarts += 1
                cluster.stop(node)
                cluster.start(node)
                cluster.wait_until_whole(_TOPIC)
            end.wait()

    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(1) as pool:
        restarting = pool.submit(run, Path(folder))
        restarting.add_done_callback(lambda _: begun.done() or begun.cancel())
        try:
            yield begun.result()
        finally:
            end.set()
            restarting.result()
