"""Several `lakelog serve` on one storage: a cluster whose brokers are killed, stopped and started.

    with running_cluster(url, options, heartbeat_ms=300) as cluster:
        cluster.kill(1)        kill -9                   cluster.start(1)   under the same node id
        cluster.freeze(2)      SIGSTOP                   cluster.thaw(2)    SIGCONT
        cluster.leave(3)       SIGTERM, not waited for   cluster.stop(3)    SIGTERM, until it ended
        cluster.wait_until_whole(topic)     every broker that runs says the same of all of them

What a broker says of the others is asked of that very one (``Told``), because a client would ask
whichever it likes. A broker dies with the thread that has started it: see ``process``.
"""

import contextlib
import signal
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from kio.schema.errors import ErrorCode
from kio.schema.metadata.v12.request import MetadataRequestTopic
from kio.schema.types import TopicName

from tests.parts.lakelog import Lakelog
from tests.parts.process import LOOPBACK, free_ports
from tests.parts.walls import Walls
from tests.parts.wire import Wire
from tests.patience import LateError

__all__ = ["Cluster", "Site", "Told", "running_cluster"]

METADATA, FIND_COORDINATOR = 3, 10
GROUPS = 32
"""Names of groups that are asked for: so many that every shard has one, most likely."""

ASKED_S = 5.0
WHOLE_S = 60.0


class Told(NamedTuple):
    """What one broker says of all of them."""

    brokers: frozenset[int]
    leaders: tuple[int, ...]
    """By partition of the topic that was asked for; -1: nobody is known."""
    coordinators: tuple[int, ...]
    """Of groups by some names."""


@dataclass(frozen=True)
class Site:
    """Where a broker runs, and how it sees the world."""

    address: str = LOOPBACK
    within: Sequence[str] = ()
    """What is put before its command line."""
    env: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    """Of the store, besides or instead of those of all brokers."""
    walls: Walls | None = None
    """Clients come in through these; the address at which brokers are asked has none."""


class Cluster:
    """Brokers 1 to N."""

    def __init__(
        self,
        home: Path,
        storage: str,
        options: Mapping[str, str] | None = None,
        *,
        brokers: int = 3,
        heartbeat_ms: int | None = None,
        arguments: Sequence[str] = ("--no-keep",),
        module: str = "lakelog",
        sites: Mapping[int, Site] | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        beats = {} if heartbeat_ms is None else {"cluster.heartbeat.ms": str(heartbeat_ms)}
        self.storage, self.options = storage, dict(options or {})
        self.brokers: dict[int, Lakelog] = {}
        doors: list[str] = []
        for node in range(1, brokers + 1):
            folder = home / f"broker-{node}"
            folder.mkdir()
            settings = folder / "server.properties"
            given = ["--node-id", str(node), "--kafka-config", str(settings), "--init", *arguments]
            site = (sites or {}).get(node, Site())
            one = self.brokers[node] = Lakelog(
                folder,
                storage,
                {**self.options, **site.options},
                given,
                site.env,
                module=module,
                host=site.address,
                within=site.within,
                listens=site.walls is None,
            )
            doors.append(one.bootstrap)
            mine = {**beats, **(properties or {})}
            if site.walls is not None:
                doors[-1] = f"{site.address}:{free_ports(1)[0]}"
                mine |= site.walls.properties(one.bootstrap, doors[-1])
            settings.write_text("".join(f"{name}={value}\n" for name, value in mine.items()))
        self.bootstrap = ",".join(doors)
        """Where clients come in."""
        self.frozen: set[int] = set()
        self.asked = 0
        """How many Metadata requests of this object were answered."""

    @property
    def running(self) -> list[int]:
        """The brokers that run, also those that are frozen."""
        return [node for node, one in self.brokers.items() if one.is_running]

    def start_all(self) -> None:
        """Start all brokers at once, and wait until each of them serves and knows the others.

        librdkafka fails a request that waits for a broker which the next answer does not list, as
        it may be while some brokers have not seen all yet.
        """
        for one in self.brokers.values():
            one.launch()
        for one in self.brokers.values():
            one.wait()
        self._wait_until_known()

    def launch(self, node: int) -> None:
        """Start a broker under its node id, without waiting."""
        self.brokers[node].launch()

    def start(self, node: int) -> None:
        """Start a broker under its node id, and wait until it serves."""
        self.brokers[node].start()

    def kill(self, node: int) -> None:
        """End it with -9."""
        self.frozen.discard(node)
        self.brokers[node].kill()

    def freeze(self, node: int) -> None:
        """Let it neither run nor notice that it does not."""
        self.brokers[node].signal(signal.SIGSTOP)
        self.frozen.add(node)

    def thaw(self, node: int) -> None:
        """Let it run again, as if no time had passed."""
        self.frozen.discard(node)
        self.brokers[node].signal(signal.SIGCONT)

    def leave(self, node: int) -> None:
        """Ask it to end in good order, without waiting."""
        self.brokers[node].leave()

    def stop(self, node: int, within_s: float = 60) -> None:
        """Ask it to end in good order, and wait until it has."""
        self.leave(node)
        self.await_end(node, within_s)

    def await_end(self, node: int, within_s: float = 60) -> None:
        """Wait for one that was asked to end, which it does with a status of 0."""
        deadline = time.monotonic() + within_s
        while (status := self.brokers[node].ended()) is None:
            if time.monotonic() > deadline:
                raise LateError(f"broker {node} did not end within {within_s:g} s")
            time.sleep(0.01)  # noqa: TID251 (nothing to wait on but the other process)
        assert status == 0, f"broker {node} ended with status {status}: see {self.log(node)}"

    def stop_all(self) -> None:
        """End them all; nothing of what they hold is needed any more."""
        for node in self.brokers:
            self.kill(node)

    def log(self, node: int) -> Path:
        """Return where a broker has written its log."""
        return self.brokers[node].log

    # ------------------------------------------------------------------------ what they say

    def ask(self, node: int, topic: str) -> Told | None:
        """Ask one broker who there is and who leads; None: it does not answer."""
        try:
            with contextlib.closing(Wire(self.brokers[node].bootstrap, ASKED_S)) as wire:
                found = wire.ask(
                    METADATA,
                    12,
                    topics=(MetadataRequestTopic(topic_id=None, name=TopicName(topic)),),
                    allow_auto_topic_creation=False,
                    include_topic_authorized_operations=False,
                )
                self.asked += 1
                keys = tuple(f"group-{number}" for number in range(GROUPS))
                groups = wire.ask(FIND_COORDINATOR, 4, key_type=0, coordinator_keys=keys)
        except OSError:
            return None
        (told,) = found.topics
        rows = sorted(told.partitions, key=lambda row: row.partition_index)
        return Told(
            frozenset(int(one.node_id) for one in found.brokers),
            tuple(int(row.leader_id) for row in rows),
            tuple(
                int(one.node_id) if one.error_code is ErrorCode.none else -1
                for one in groups.coordinators
            ),
        )

    def leaders(self, topic: str) -> tuple[int, ...]:
        """Return who leads each partition, as all brokers say."""
        told = self.wait_until_whole(topic)
        return told.leaders

    def is_whole(self, topic: str) -> Told | None:
        """Return what every running broker says alike, of nobody but all of them."""
        nodes = frozenset(self.running) - self.frozen
        all_told = {self.ask(node, topic) for node in nodes}
        if len(all_told) != 1:
            return None
        (told,) = all_told
        if told is None or told.brokers != nodes or not told.leaders:
            return None
        return told if nodes.issuperset({*told.leaders, *told.coordinators}) else None

    def circles(self, topic: str) -> list[int]:
        """Return the partitions whose clients are sent to a broker that sends them elsewhere."""
        all_told = {node: self.ask(node, topic) for node in self.running}
        leaders = {node: told.leaders for node, told in all_told.items() if told is not None}
        count = max((len(one) for one in leaders.values()), default=0)

        def is_right(node: int, partition: int) -> bool:
            named = leaders[node][partition]
            return named not in leaders or leaders[named][partition] == named

        return [at for at in range(count) if not all(is_right(node, at) for node in leaders)]

    def _wait_until_known(self, within_s: float = WHOLE_S) -> None:
        nodes, deadline = frozenset(self.brokers), time.monotonic() + within_s
        while any((told := self.ask(node, "")) is None or told.brokers != nodes for node in nodes):
            if time.monotonic() > deadline:
                raise LateError(f"the brokers do not know each other after {within_s:g} s")
            time.sleep(0.05)  # noqa: TID251 (nothing to wait on but the other processes)

    def wait_until_whole(self, topic: str, within_s: float = WHOLE_S) -> Told:
        """Wait until every running broker says the same, and return it.

        The topic has a partition in each lane, or leaders of lanes are not asked for.
        """
        deadline = time.monotonic() + within_s
        while (told := self.is_whole(topic)) is None:
            if time.monotonic() > deadline:
                said = {node: self.ask(node, topic) for node in self.running}
                raise LateError(f"the brokers do not agree after {within_s:g} s: {said}")
            time.sleep(0.05)  # noqa: TID251 (nothing to wait on but the other processes)
        return told


@contextlib.contextmanager
def running_cluster(
    storage: str,
    options: Mapping[str, str] | None = None,
    *,
    brokers: int = 3,
    heartbeat_ms: int | None = None,
    arguments: Sequence[str] = ("--no-keep",),
    module: str = "lakelog",
    home: Path | None = None,
    sites: Mapping[int, Site] | None = None,
    properties: Mapping[str, str] | None = None,
) -> Iterator[Cluster]:
    """Brokers that serve, gone afterwards; their logs are in ``home`` if that is given.

    ``module`` is what Python runs, if it is not lakelog itself. Brokers are on loopback, unless
    ``sites`` says where else. ``properties`` are of Kafka's server.properties.
    """
    with tempfile.TemporaryDirectory(prefix="lakelog-cluster-") as folder:
        cluster = Cluster(
            home or Path(folder),
            storage,
            options,
            brokers=brokers,
            heartbeat_ms=heartbeat_ms,
            arguments=arguments,
            module=module,
            sites=sites,
            properties=properties,
        )
        try:
            cluster.start_all()
            yield cluster
        finally:
            cluster.stop_all()
