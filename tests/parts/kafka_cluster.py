"""Three real brokers on loopback, so that partitions have replicas, leaders change, copies differ.

Node 1 is also the controller: it can be suspended, but a test that kills it stops the elections.
Each node has a folder of its own, and all of them lie in one: `KafkaCluster.home` is what a reader
of several brokers' disks is given.
"""

import contextlib
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from tests.parts.kafka import Kafka
from tests.parts.process import LOOPBACK
from tests.patience import LateError, heard

NODES = 3
_CONTROLLER = 1
# A test that kills a broker waits for the others to notice.
_HASTE = {
    "broker_heartbeat_interval_ms": 200,
    "broker_session_timeout_ms": 2000,
    "replica_fetch_wait_max_ms": 100,
    "log_initial_task_delay_ms": 500,
    "log_flush_start_offset_checkpoint_interval_ms": 500,
}


class Node(Kafka):
    """One of the brokers."""

    def __init__(self, number: int, home: Path, voters: str, jvm: Sequence[str]) -> None:
        self.number = number
        self._voters = voters
        home.mkdir()
        super().__init__(home, _HASTE, jvm)

    def _default_settings(self) -> dict[str, str]:
        settings = super()._default_settings() | {"node.id": str(self.number)}
        if self.number == _CONTROLLER:
            return settings
        return settings | {
            "process.roles": "broker",
            "listeners": f"PLAINTEXT://{self.bootstrap}",
            "controller.quorum.voters": self._voters,
        }

    @property
    def voters(self) -> str:
        return f"{_CONTROLLER}@{LOOPBACK}:{self._controller}"

    def kill(self) -> None:
        """End it with -9, as when its machine loses power."""
        assert self._process is not None
        self._process.stop(grace_s=0)
        self._process = None

    def suspend(self) -> None:
        """Let it neither run nor notice that it does not."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGCONT)


class KafkaCluster:
    """Brokers 1, 2 and 3."""

    def __init__(self, home: Path, jvm: Sequence[str] = ()) -> None:
        self.home = home
        first = Node(_CONTROLLER, home / "broker-1", "", jvm)

        def node(number: int) -> Node:
            return Node(number, home / f"broker-{number}", first.voters, jvm)

        # Only the formatting happens here, and that has ended when the threads do.
        with ThreadPoolExecutor() as threads:
            self.nodes = (first, *threads.map(node, range(2, NODES + 1)))
        self.bootstrap = ",".join(node.bootstrap for node in self.nodes)

    def node(self, number: int) -> Node:
        return self.nodes[number - 1]

    def start(self) -> None:
        for node in self.nodes:
            node.launch()
        for node in self.nodes:
            node.wait()
        self.wait_until(lambda: len(self._metadata().brokers) == NODES)

    def stop(self) -> None:
        """End them all; nothing of what they hold is needed any more."""
        for node in self.nodes:
            if node._process is not None:
                node.kill()

    def create_topic(self, name: str, replicas: Sequence[Sequence[int]], **configs: object) -> None:
        """Create a topic whose partitions have these replicas; the first of each leads."""
        config = {key.replace("_", "."): str(value) for key, value in configs.items()}
        topic = NewTopic(
            name, len(replicas), replica_assignment=[list(one) for one in replicas], config=config
        )
        admin = self.admin()  # A client that is garbage before the answer comes cancels it.
        heard(admin.create_topics([topic]).values())
        self.wait_until(lambda: all(self.leader(name, p) > 0 for p in range(len(replicas))))

    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def leader(self, topic: str, partition: int) -> int:
        """The node that leads a partition, -1 when there is none."""
        partitions = self._metadata(topic).topics[topic].partitions
        return partitions[partition].leader if partition in partitions else -1

    def in_sync(self, topic: str, partition: int) -> set[int]:
        return set(self._metadata(topic).topics[topic].partitions[partition].isrs)

    def wait_until(self, ready: Callable[[], bool], within_s: float = 60) -> None:
        deadline = time.monotonic() + within_s
        while True:
            with contextlib.suppress(KafkaException):
                if ready():
                    return
            if time.monotonic() > deadline:
                raise LateError(f"the brokers did not agree within {within_s:g} s")
            time.sleep(0.05)  # noqa: TID251 (nothing to wait on but the other processes)

    def _metadata(self, topic: str | None = None):  # type: ignore[no-untyped-def]
        return self.admin().list_topics(topic, timeout=10)


@contextlib.contextmanager
def running_kafka_cluster(jvm: Sequence[str] = ()) -> Iterator[KafkaCluster]:
    """Three started brokers in a temporary folder, gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="lakelog-brokers-") as home:
        cluster = KafkaCluster(Path(home), jvm)
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.stop()
