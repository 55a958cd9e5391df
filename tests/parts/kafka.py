"""A real one-node Apache Kafka, its command line tools, and its Java consumer as an oracle.

The node can be stopped and started again on its directory, so that a test may swap segment files
in between. The tools and the oracle need no node of ours: they talk to whatever listens at the
address they are given, which is how lakelog is judged by Kafka's own clients.
"""

import contextlib
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from tests.parts.archives import quick_kafka
from tests.parts.jars import classpath
from tests.parts.jvm import java
from tests.parts.process import (
    LOOPBACK,
    START_S,
    FailedPartError,
    Finished,
    Process,
    accepts,
    free_ports,
    mortal,
)
from tests.patience import LateError, heard

_QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
_CLUSTER_ID = "bGFrZWxvZy10ZXN0cy0xIQ"

_COPIES_MAX = 20
_PASSING = frozenset({".deleted", ".cleaned", ".swap", ".tmp"})

_TOOLS = "org.apache.kafka.tools"
TOOL_CLASSES = {
    "kafka-acls": f"{_TOOLS}.AclCommand",
    "kafka-broker-api-versions": f"{_TOOLS}.BrokerApiVersionsCommand",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-console-consumer": f"{_TOOLS}.consumer.ConsoleConsumer",
    "kafka-console-producer": f"{_TOOLS}.ConsoleProducer",
    "kafka-consumer-groups": f"{_TOOLS}.consumer.group.ConsumerGroupCommand",
    "kafka-consumer-perf-test": f"{_TOOLS}.ConsumerPerformance",
    "kafka-delete-records": f"{_TOOLS}.DeleteRecordsCommand",
    "kafka-dump-log": f"{_TOOLS}.DumpLogSegments",
    "kafka-e2e-latency": f"{_TOOLS}.EndToEndLatency",
    "kafka-get-offsets": f"{_TOOLS}.GetOffsetShell",
    "kafka-log-dirs": f"{_TOOLS}.LogDirsCommand",
    "kafka-producer-perf-test": f"{_TOOLS}.ProducerPerformance",
    "kafka-storage": "kafka.tools.StorageTool",
    "kafka-topics": f"{_TOOLS}.TopicCommand",
    "kafka-transactions": f"{_TOOLS}.TransactionsCommand",
    "kafka-verifiable-consumer": f"{_TOOLS}.VerifiableConsumer",
    "kafka-verifiable-producer": f"{_TOOLS}.VerifiableProducer",
}


class Cluster(Protocol):
    """Anything that speaks the Kafka protocol at an address."""

    @property
    def bootstrap(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Record:
    """A record as the Java consumer saw it; timestamp type 0 is create time, 1 append time."""

    partition: int
    offset: int
    timestamp: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def tool(
    name: str,
    *args: str,
    stdin: str = "",
    within_s: float = 120,
    jvm: Sequence[str] | None = None,
) -> Finished:
    """Run one of Kafka's command line tools, by the name of its script without `.sh`."""
    argv = [*_quick_java(jvm), TOOL_CLASSES[name], *args]
    done = subprocess.run(argv, input=stdin, capture_output=True, text=True, timeout=within_s)
    return Finished(done.returncode, done.stdout, done.stderr)


class Kafka:
    """One node that is both broker and controller and keeps all it has in one folder."""

    tool = staticmethod(tool)

    def __init__(
        self,
        home: Path,
        settings: Mapping[str, object] | None = None,
        jvm: Sequence[str] = (),
    ):
        self._listener, self._controller = free_ports(2)
        self._home = home
        self._jvm = jvm
        self._process: Process | None = None
        self.bootstrap = f"{LOOPBACK}:{self._listener}"
        self.data_dir = home / "data"
        properties = {**self._default_settings(), **_dotted(settings or {})}
        self._properties = home / "server.properties"
        self._properties.write_text("".join(f"{k}={v}\n" for k, v in properties.items()))
        how = ["-t", _CLUSTER_ID, "-c", str(self._properties)]
        done = tool("kafka-storage", "format", *how, jvm=jvm or None)
        if done.rc != 0:
            raise FailedPartError(f"kafka-storage failed:\n{done.stdout}{done.stderr}")

    def _default_settings(self) -> dict[str, str]:
        controller = f"{LOOPBACK}:{self._controller}"
        one_replica = ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic")
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://{controller}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"1@{controller}",
            "log.dirs": str(self.data_dir),
            "auto.create.topics.enable": "false",
            "group.initial.rebalance.delay.ms": "0",
            **{f"{topic}.replication.factor": "1" for topic in one_replica},
            **{f"{topic}.num.partitions": "1" for topic in one_replica},
            **{f"{topic}.min.isr": "1" for topic in one_replica[1:]},
        }

    def start(self) -> None:
        self.launch()
        self.wait()

    def launch(self) -> None:
        """Start, without waiting: nodes of a cluster answer only when there are enough of them."""
        argv = [java(), "-Xmx512m", *self._jvm, _QUIET, "-cp", classpath(), "kafka.Kafka"]
        self._process = Process([*argv, str(self._properties)], self._home / "kafka.log")

    def wait(self) -> None:
        assert self._process is not None
        self._process.wait_until(self._answers, within_s=START_S)

    def stop(self) -> None:
        """Stop in good order, so that the node finds a clean shutdown when it starts again."""
        if self._process is not None:
            self._process.stop(grace_s=30)
            self._process = None

    def _answers(self) -> bool:
        if not accepts(self._listener):
            return False
        try:
            return bool(self._admin().list_topics(timeout=5).brokers)
        except KafkaException:
            return False

    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def create_topic(self, name: str, partitions: int = 1, **configs: object) -> None:
        """Create a topic; `segment_bytes=1048576` sets `segment.bytes`."""
        topic = NewTopic(name, partitions, 1, config=_dotted(configs))
        admin = self._admin()  # A client that is garbage before the answer comes cancels it.
        heard(admin.create_topics([topic]).values())

    def partition_dir(self, topic: str, partition: int) -> Path:
        return self.data_dir / f"{topic}-{partition}"


def copy_directory(source: Path, target: Path) -> None:
    """Copy a partition's directory, also while its broker runs.

    What is on its way out or in is left behind. A file that was renamed or deleted meanwhile means
    that the copy is of no one moment: it is begun again.
    """
    for _ in range(_COPIES_MAX):
        target.mkdir(parents=True)
        names = [path for path in sorted(source.iterdir()) if path.suffix not in _PASSING]
        # Index files are 10 MiB of holes.
        copied = subprocess.run(
            ["cp", "--sparse=always", "--recursive", *map(str, names), str(target)],
            check=False,
            capture_output=True,
        )
        if copied.returncode == 0:
            return
        shutil.rmtree(target)
        assert b"No such file" in copied.stderr, copied.stderr.decode()
    raise LateError(f"{source} does not stand still")


@contextlib.contextmanager
def running_kafka(
    settings: Mapping[str, object] | None = None, jvm: Sequence[str] = ()
) -> Iterator[Kafka]:
    """A started Kafka in a temporary folder, gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="lakelog-kafka-") as home:
        kafka = Kafka(Path(home), settings, jvm)
        try:
            kafka.start()
            yield kafka
        finally:
            kafka.stop()


def read_all(
    cluster: Cluster, topic: str, isolation: str = "read_uncommitted", within_s: float = 120
) -> list[Record]:
    """All records of a topic as the Java consumer sees them, by partition.

    Within a partition the records stay in the order in which they were delivered.
    """
    argv = [*_quick_java(), "ReadAll", cluster.bootstrap, topic, isolation]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=within_s)
    if done.returncode != 0:
        raise FailedPartError(f"the Java consumer failed:\n{done.stderr.decode(errors='replace')}")
    return sorted(_parse(done.stdout), key=lambda record: record.partition)


def _parse(output: bytes) -> Iterator[Record]:
    """Undo what ReadAll.java writes; its comment specifies the form."""
    at = 0

    def take() -> bytes | None:
        nonlocal at
        (length,) = _INT.unpack_from(output, at)
        at += 4 + max(length, 0)
        return None if length < 0 else output[at - length : at]

    while at < len(output):
        partition, offset, timestamp, timestamp_type = _FIXED.unpack_from(output, at)
        at += _FIXED.size
        key, value = take(), take()
        (count,) = _INT.unpack_from(output, at)
        at += 4
        headers = tuple([((take() or b"").decode(), take()) for _ in range(count)])
        yield Record(partition, offset, timestamp, timestamp_type, key, value, headers)


_INT = struct.Struct(">i")
_FIXED = struct.Struct(">iqqb")


def _quick_java(jvm: Sequence[str] | None = None) -> list[str]:
    flags = quick_kafka() if jvm is None else jvm
    return mortal([java(), *flags, "-Xmx1g", _QUIET, "-cp", classpath()])


def _dotted(settings: Mapping[str, object]) -> dict[str, str]:
    """Kafka's spelling of settings: dots in names, lower-case truth values."""
    return {
        name.replace("_", "."): str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in settings.items()
    }
