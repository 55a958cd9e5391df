"""`group.protocol=consumer`: consumers of Java and librdkafka in a group whose coordinator dies.

The first half compares lakelog with a real Kafka, answer by answer, as a client without a will of
its own sees them. The second is a story: two members, then three, a broker that is killed and comes
back, then one. Each partition has one owner at any time, and no record is missed.
"""

import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic

from lakelog.host import new_id
from tests.e2e.clients.heartbeats import NO_TIMEOUT, Teller
from tests.parts.archives import quick_kafka
from tests.parts.jars import classpath
from tests.parts.jvm import java
from tests.parts.kafka import TOOL_CLASSES, Cluster, Kafka, running_kafka, tool
from tests.parts.lakelog import Lakelog, running_lakelog
from tests.parts.process import mortal
from tests.parts.wire import Wire
from tests.patience import HANGS_S, in_time

PATIENCE_S = 120
PARTITIONS = 6
WAVE = 30


@pytest.fixture(scope="module")
def oracle() -> Iterator[Kafka]:
    """A Kafka that assigns at once, and not a second later beside its other work."""
    settings = {
        "group.consumer.assignment.interval.ms": 0,
        "group.consumer.min.assignment.interval.ms": 0,
        "group.consumer.assignor.offload.enable": False,
    }
    with running_kafka(settings) as found:
        yield found


@pytest.fixture(scope="module")
def broker() -> Iterator[Lakelog]:
    """A broker that may be killed."""
    with running_lakelog() as found:
        yield found


def wait_until(is_so: Callable[[], bool], what: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    pause = threading.Event()
    while not is_so():
        in_time(time.monotonic() < deadline, what())
        pause.wait(0.1)


def create(cluster: Cluster, partitions: int) -> str:
    topic = f"t-{new_id().hex()[:8]}"
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for done in admin.create_topics([NewTopic(topic, partitions, 1)]).values():
        done.result(timeout=HANGS_S)
    wait_until(lambda: topic in admin.list_topics(timeout=10).topics, lambda: f"no {topic}")
    return topic


# ---------------------------------------------------------------------------- answer by answer


def members(teller: Teller) -> None:
    """Two members, of which the first must let go."""
    teller.beat("a joins", "a", 0, rack_id="r")
    teller.look("one member")
    teller.beat("a lives", "a", 1)
    teller.commit("a commits", "a", 1)
    teller.commit("a stranger commits", "x", 1)
    teller.commit("nobody commits", "", -1)
    teller.fetch("a fetches", "a", 1)
    teller.fetch("a fetches too early", "a", 2)
    teller.fetch("a stranger fetches", "x", 1)
    teller.fetch("nobody fetches", None, -1)
    teller.beat("b joins", "b", 0)
    teller.look("two members")
    teller.beat("b waits", "b", 2)
    teller.beat("a is told to let go", "a", 1)
    kept = list(teller.has["a"])
    teller.beat("a has not", "a", 1)
    teller.beat("b still waits", "b", 2)
    teller.beat("a has", "a", 1, owned=kept)
    teller.beat("b gets its share", "b", 2)
    teller.look("two with their own")
    teller.beat("a comes with the epoch before", "a", 1, owned=kept)
    teller.beat("a comes so without saying what it owns", "a", 1)
    teller.beat("a comes with a later one", "a", 9)
    teller.beat("a joins again", "a", 0)
    teller.beat("a stranger lives", "x", 1)
    teller.commit("a commits too early", "a", 9)
    teller.join_classic("an older one joins")
    teller.delete("an operator deletes")
    teller.beat("b leaves", "b", -1)
    teller.look("one is left")
    teller.beat("b lives", "b", 2)
    teller.beat("a leaves", "a", -1)
    teller.look("nobody is left")
    teller.commit("nobody commits again", "", -1)
    teller.commit("a commits after all", "a", 3)
    teller.delete("an operator deletes the empty one")
    teller.delete("and again")
    teller.look("it is gone")
    teller.beat("a lives in none", "a", 1)
    teller.beat("a leaves none", "a", -1)


def statics(teller: Teller) -> None:
    """A static member leaves for a while."""
    teller.beat("a joins", "a", 0, instance_id="i")
    teller.beat("another joins in its name", "x", 0, instance_id="i")
    teller.beat("another lives in its name", "x", 1, instance_id="i")
    teller.beat("a lives in another name", "a", 1, instance_id="j")
    teller.beat("a lives", "a", 1, instance_id="i")
    teller.beat("a goes away", "a", -2, instance_id="i")
    teller.look("away")
    teller.commit("a commits, away", "a", 1)
    teller.beat("c comes in its name", "c", 0, instance_id="i")
    teller.look("back")
    teller.beat("a lives in a name that is not its own", "a", 1, instance_id="i")
    teller.beat("a lives without a name", "a", 1)
    teller.beat("c leaves for good", "c", -1, instance_id="i")
    teller.look("nobody")


def refusals(teller: Teller) -> None:
    """What is wrong with a request."""
    teller.beat("no id", "", 0)
    teller.beat("no epoch", "a", -3)
    teller.beat("no timeout", "a", 0, rebalance_timeout=NO_TIMEOUT)
    teller.beat("owns before it joins", "a", 0, owned=[0])
    teller.beat("no subscription", "a", 0, subscribed_topic_names=None)
    teller.beat("no such assignor", "a", 0, server_assignor="best")
    teller.beat("an empty instance", "a", 0, instance_id="")
    teller.beat("an empty rack", "a", 0, rack_id="")
    teller.beat("away without a name", "a", -2)
    teller.beat("lives in none", "a", 1)
    teller.beat("no expression", "a", 0, subscribed_topic_regex="(")
    teller.beat("an empty subscription", "a", 0, subscribed_topic_names=())
    teller.look("one without topics")
    teller.beat("no id, and version 0", "", 0, version=0, server_assignor="range")


def kinds(teller: Teller) -> None:
    """A group is of one kind as long as it has members."""
    member = teller.join_classic("an older one asks for an id")
    teller.join_classic("an older one joins", member)
    teller.beat("a joins", "a", 0)
    teller.beat("a lives", "a", 1)
    teller.beat("a leaves", "a", -1)
    teller.leave_classic("the older one leaves", member)
    teller.commit("nobody commits", "", -1)
    teller.beat("a lives in an empty one", "a", 1)
    teller.beat("a joins the empty one", "a", 0)
    teller.fetch("a finds the offset", "a", 1)
    teller.beat_classic("the older one lives", member, 1)
    teller.leave_classic("the older one leaves again", member)
    teller.join_classic("the older one joins again")
    teller.beat("a leaves what it has joined", "a", -1)
    member = teller.join_classic("the older one asks for another id")
    teller.join_classic("the older one joins with it", member)
    teller.beat("a joins once more", "a", 0)


@pytest.mark.parametrize("script", [members, statics, refusals, kinds])
def test_lakelog_answers_as_kafka_does(
    oracle: Kafka, broker: Lakelog, script: Callable[[Teller], None]
) -> None:
    told: list[list[str]] = []
    clusters: list[Cluster] = [oracle, broker]
    for cluster in clusters:
        topic = create(cluster, 4)
        with closing(Wire(cluster.bootstrap)) as wire:
            wait_for_coordinator(cluster, topic, wire)
            teller = Teller(wire, topic, f"g-{topic}")
            script(teller)
            told.append(teller.told)
    assert told[1] == told[0]


def wait_for_coordinator(cluster: Cluster, topic: str, wire: Wire) -> None:
    """Kafka makes the topic of groups when the first one is asked for, and a coordinator learns of
    a new topic a little later than those who list topics.
    """
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": topic})
    refused: list[str] = []

    def answers() -> bool:
        """Kafka may still be electing leaders, and librdkafka hands on that there is none yet."""
        try:
            consumer.committed([TopicPartition(topic, 0)], timeout=PATIENCE_S)
        except KafkaException as error:
            refused.append(str(error))
            return False
        return True

    try:
        wait_until(answers, lambda: refused[-1])
    finally:
        consumer.close()
    probe = Teller(wire, topic, f"probe-{topic}")

    def is_known() -> bool:
        probe.beat("probe", "probe", 0)
        return len(probe.has.get("probe", ())) == 4

    wait_until(is_known, lambda: probe.told[-1])


# ---------------------------------------------------------------------------- a story


class Seen(NamedTuple):
    """Something that a member told, and when."""

    at_ms: int
    member: str
    what: str
    """``assigned``, ``revoked`` or ``read``."""
    partition: int
    offset: int = -1


class Notes:
    """What all members tell."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rows: list[Seen] = []

    def add(self, row: Seen) -> None:
        with self._lock:
            self._rows.append(row)

    def rows(self) -> list[Seen]:
        with self._lock:
            return sorted(self._rows)

    def owners(self) -> dict[int, list[str]]:
        """Who owns what now; fails if somebody ever got what another still had."""
        owned: dict[int, list[str]] = {partition: [] for partition in range(PARTITIONS)}
        # What was let go in the same millisecond was let go first.
        order = {"revoked": 0, "assigned": 1}
        changes = [row for row in self.rows() if row.what in order]
        for row in sorted(changes, key=lambda row: (row.at_ms, order[row.what])):
            if row.what == "assigned":
                assert owned[row.partition] in ([], [row.member]), f"{row}: {owned}"
                owned[row.partition] = [row.member]
            elif row.member in owned[row.partition]:
                owned[row.partition].remove(row.member)
        return owned

    def read(self) -> set[tuple[int, int]]:
        return {(row.partition, row.offset) for row in self.rows() if row.what == "read"}


class JavaMember:
    """Kafka's own VerifiableConsumer."""

    def __init__(self, name: str, cluster: Cluster, topic: str, notes: Notes, home: Path) -> None:
        config = home / f"{name}.properties"
        config.write_text("auto.offset.reset=earliest\n")
        argv = [
            java(), *quick_kafka(), "-Xmx128m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
            "-cp", classpath(), TOOL_CLASSES["kafka-verifiable-consumer"],
            "--bootstrap-server", cluster.bootstrap, "--topic", topic, "--group-id", topic,
            "--group-protocol", "consumer", "--verbose", "--reset-policy", "earliest",
        ]  # fmt: skip
        self._name, self._notes = name, notes
        self._log = (home / f"{name}.log").open("w")
        self._process = subprocess.Popen(
            mortal(argv), stdout=subprocess.PIPE, stderr=self._log, text=True
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            event = json.loads(line)
            at_ms, name = event["timestamp"], event["name"]
            if name == "record_data":
                row = Seen(at_ms, self._name, "read", event["partition"], event["offset"])
                self._notes.add(row)
            elif name in ("partitions_assigned", "partitions_revoked"):
                for one in event["partitions"]:
                    what = name.removeprefix("partitions_")
                    self._notes.add(Seen(at_ms, self._name, what, one["partition"]))

    def close(self) -> None:
        """Let it leave in good order."""
        self._process.terminate()
        self._process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._log.close()


class ConfluentMember:
    """A consumer of librdkafka, in a thread."""

    def __init__(self, name: str, cluster: Cluster, topic: str, notes: Notes) -> None:
        self._name, self._notes = name, notes
        self._consumer = Consumer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "group.id": topic,
                "group.protocol": "consumer",
                "auto.offset.reset": "earliest",
                "log_level": 0,
            }
        )
        self._ends = threading.Event()
        self._consumer.subscribe([topic], on_assign=self._assigned, on_revoke=self._revoked)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _note(self, what: str, partition: int, offset: int = -1) -> None:
        self._notes.add(Seen(time.time_ns() // 1_000_000, self._name, what, partition, offset))

    def _assigned(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        for one in partitions:
            self._note("assigned", one.partition)

    def _revoked(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        for one in partitions:
            self._note("revoked", one.partition)

    def _run(self) -> None:
        while not self._ends.is_set():
            message: Message | None = self._consumer.poll(0.1)
            if message is not None and message.error() is None:
                self._note("read", message.partition() or 0, message.offset() or 0)
            elif message is not None:
                error: KafkaError | None = message.error()
                assert error is not None
                assert not error.fatal(), error
        self._consumer.close()

    def close(self) -> None:
        """Let it leave in good order."""
        self._ends.set()
        self._thread.join(PATIENCE_S)


def produce(cluster: Cluster, topic: str) -> set[tuple[int, int]]:
    """Send a wave to every partition, and return where it is."""
    acked: set[tuple[int, int]] = set()

    def note(error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        acked.add((message.partition() or 0, message.offset() or 0))

    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for number in range(WAVE * PARTITIONS):
        value = str(number)
        producer.produce(topic, value, partition=number % PARTITIONS, on_delivery=note)
    assert producer.flush(PATIENCE_S) == 0
    assert len(acked) == WAVE * PARTITIONS
    return acked


def test_members_come_and_go_the_broker_dies_and_nothing_is_read_by_two_or_by_none(
    broker: Lakelog, tmp_path: Path
) -> None:
    topic, notes = create(broker, PARTITIONS), Notes()
    written: set[tuple[int, int]] = set()

    def settle(*names: str) -> None:
        """Wait until these share the partitions, and have read a new wave."""

        def is_shared() -> bool:
            owners = notes.owners()
            counts = {name: list(owners.values()).count([name]) for name in names}
            most, least = max(counts.values()), min(counts.values())
            return sum(counts.values()) == PARTITIONS and most - least <= 1

        wait_until(is_shared, lambda: f"{names} do not share: {notes.owners()}")
        written.update(produce(broker, topic))
        wait_until(lambda: notes.read() >= written, lambda: sorted(written - notes.read()))

    with ExitStack() as stack:
        first = stack.enter_context(closing(JavaMember("a", broker, topic, notes, tmp_path)))
        stack.enter_context(closing(ConfluentMember("b", broker, topic, notes)))
        settle("a", "b")
        third = stack.enter_context(closing(JavaMember("c", broker, topic, notes, tmp_path)))
        settle("a", "b", "c")

        before = notes.owners()
        broker.restart()
        settle("a", "b", "c")
        assert notes.owners() == before, "the death of a broker is no rebalance"
        told = tool(
            "kafka-consumer-groups", "--bootstrap-server", broker.bootstrap, "--describe",
            "--group", topic, "--members", "--verbose",
        )  # fmt: skip
        assert told.rc == 0, told
        rows = [line.split() for line in told.stdout.splitlines() if line.startswith(topic)]
        assert len(rows) == 3, told.stdout
        assert sum(int(row[4]) for row in rows) == PARTITIONS, told.stdout
        listed = tool("kafka-consumer-groups", "--bootstrap-server", broker.bootstrap,
                      "--list", "--type", "consumer")  # fmt: skip
        assert topic in listed.stdout.split(), listed

        first.close()
        third.close()
        settle("b")
    assert notes.read() == written
