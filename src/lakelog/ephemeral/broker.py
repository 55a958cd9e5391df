"""A broker as a test holds it.

    with EphemeralBroker() as broker:
        broker.bootstrap_servers        for any client of Kafka
        broker.create_topic()           a name of its own
        broker.records(topic)           what is stored
        with broker.trouble(store="unavailable"): ...

What it keeps is in a temporary folder that nobody else uses, so nothing is probed and nothing is
synced. It listens on the loopback, on a port that was free, and keeps that for as long as it lives,
also when it is started again.
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import structlog

from lakelog.broker import Broker, BrokerSettings, Listener, Verdict, translate_kafka_config
from lakelog.catalog import make_namespace
from lakelog.ephemeral.answers import AnswerTroubles
from lakelog.ephemeral.disk import EphemeralDisk
from lakelog.ephemeral.folder import EphemeralFolder
from lakelog.ephemeral.reading import StoredRecord, stored_records
from lakelog.ephemeral.thread import BrokerThread
from lakelog.ephemeral.troubles import TroubledStore, Troubles
from lakelog.errors import InvalidInputError, NotFoundError
from lakelog.groups import Identity, Join, Leave, Offer
from lakelog.host import new_id
from lakelog.model import Rules
from lakelog.store import LocalStore, run, working
from lakelog_kafka_tools.admin import create_topic
from lakelog_kafka_tools.cluster import Cluster, open_cluster
from lakelog_kafka_tools.group_admin import committed_offsets, describe_groups, list_groups
from lakelog_kafka_tools.thrown import Thrown

__all__ = ["EphemeralBroker", "EphemeralGroup"]

HOST = "127.0.0.1"
PROPERTIES = {"group.initial.rebalance.delay.ms": "0", "offsets.commit.timeout.ms": "5000"}
"""By Kafka's names. A group of one test need not wait for others to come."""

OWN = frozenset(("listeners", "advertised.listeners"))

WAIT_S = 10.0
POLL_S = 0.02

_sleep: Callable[[float], None] = time.sleep  # noqa: TID251 (a driver: a test waits here)


class EphemeralGroup(NamedTuple):
    """A consumer group, as it is now."""

    state: str
    """By Kafka's names: Stable, Empty, PreparingRebalance, ..."""
    members: tuple[str, ...]
    """The client ids of its members."""
    offsets: dict[tuple[str, int], int]
    """What it has committed, by topic and partition."""


class EphemeralBroker:
    """A broker in a thread of this process, on a temporary folder. Use it as a context."""

    def __init__(self, properties: Mapping[str, str] | None = None) -> None:
        """Start it. ``properties`` are those of Kafka's server.properties.

        Raises:
            InvalidInputError: one of them has no effect here.
            LakelogError: it cannot start.
        """
        settings = _settings(properties or {})
        self._folder = EphemeralFolder()
        try:
            self._disk = EphemeralDisk()
            self._store = TroubledStore(
                LocalStore(str(self._folder.path / "store"), self._disk.as_system())
            )
            self._answers = AnswerTroubles()
            self._log = _make_log()
            # Each lane is looked at when the broker starts, and one is enough for one broker.
            run(make_namespace(new_id(), Rules(lanes=1)), working(self._store.perform))
            self._thread = self._start(settings)
        except BaseException:
            self._folder.close()
            raise
        self._settings = replace(settings, listeners=(Listener(host=HOST, port=self.port),))

    def _start(self, settings: BrokerSettings) -> BrokerThread:
        return BrokerThread(self._store, settings, self._log, self._answers.watch)

    def __enter__(self) -> "EphemeralBroker":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop it, and remove all that it kept."""
        try:
            self._heal()
            self._thread.stop()
        finally:
            self._folder.close()

    @property
    def port(self) -> int:
        return self._thread.port

    @property
    def bootstrap_servers(self) -> str:
        """What clients of Kafka want to be told."""
        return f"{HOST}:{self.port}"

    # ------------------------------------------------------------------------ what is in it

    def create_topic(
        self,
        name: str = "",
        *,
        partitions: int = 1,
        configs: Mapping[str, str] | None = None,
    ) -> str:
        """Create a topic, and return its name; one that no other topic has, unless it is given.

        Raises:
            InvalidInputError: the broker refuses it.
        """
        name = name or f"topic-{new_id().hex()[:12]}"
        try:
            with self._cluster() as cluster:
                create_topic(cluster, name, partitions, None, (), configs or {})
        except Thrown as thrown:
            raise InvalidInputError(f"topic {name}: {thrown}") from thrown
        return name

    def records(self, topic: str) -> list[StoredRecord]:
        """Return all records of a topic, by partition and offset: as they are in the store.

        Raises:
            NotFoundError: there is no such topic.
        """
        return stored_records(self._store.below, topic)

    def wait_for(self, topic: str, count: int, *, timeout_s: float = WAIT_S) -> list[StoredRecord]:
        """Return all records of a topic, as soon as there are so many.

        Raises:
            TimeoutError: there are fewer still.
        """
        until_s = time.monotonic() + timeout_s
        while True:
            try:
                found = self.records(topic)
            except NotFoundError:  # A client may be about to create it.
                found = []
            if len(found) >= count:
                return found
            if time.monotonic() >= until_s:
                raise TimeoutError(
                    f"topic {topic} has {len(found)} records and not {count}, after {timeout_s} s: "
                    "has the producer been flushed?"
                )
            _sleep(POLL_S)

    def groups(self) -> dict[str, EphemeralGroup]:
        """Return all consumer groups, by their ids."""
        with self._cluster() as cluster:
            names = [one.group_id for one in list_groups(cluster)]
            found: dict[str, EphemeralGroup] = {}
            for name, group in describe_groups(cluster, names).items():
                if isinstance(group, Thrown):
                    continue  # It went while it was asked for.
                offsets = committed_offsets(cluster, name)
                found[name] = EphemeralGroup(
                    group.state,
                    tuple(member.client_id for member in group.members),
                    {at: one.offset for at, one in offsets.items() if one is not None},
                )
        return found

    @contextmanager
    def _cluster(self) -> Iterator[Cluster]:
        cluster = open_cluster(self.bootstrap_servers, {}, warn=lambda _: None)
        with closing(cluster):
            yield cluster

    # ------------------------------------------------------------------------ what goes wrong

    @contextmanager
    def trouble(self, **kinds: Any) -> Iterator[None]:
        """Have something go wrong until the end of the context: see ``Troubles``.

        Raises:
            InvalidInputError: there is no such trouble, or there is one already.
        """
        wanted = Troubles(**kinds)
        if self._store.trouble or self._disk.is_full or self._answers.now is not None:
            raise InvalidInputError(
                "there is a trouble already: name all that go together in one trouble()"
            )
        self._store.trouble, self._store.delay_s = wanted.store, wanted.delay_s
        self._disk.is_full = wanted.disk == "full"
        if wanted.answers:
            self._answers.begin(wanted)
        if wanted.broker:
            self._thread.stop()
        try:
            yield
        finally:
            self._heal()
            if wanted.broker:
                self._thread = self._start(self._settings)

    def _heal(self) -> None:
        self._store.trouble, self._disk.is_full, self._answers.now = "", False, None

    def restart(self) -> None:
        """Stop it as an operator would, and start it again on the same port."""
        with self.trouble(broker="down"):
            pass

    def rebalance(self, group: str) -> None:
        """Have all members of a group join it again, as if one more had come and gone.

        Raises:
            NotFoundError: there is no such group with members, of the classic protocol.
        """
        self._thread.call(_rebalance(self._thread.broker, group))


def _settings(properties: Mapping[str, str]) -> BrokerSettings:
    own = sorted(OWN & properties.keys())
    if own:
        raise InvalidInputError(f"{', '.join(own)}: this broker has its own: leave that out")
    given = {**PROPERTIES, **properties}
    kafka = translate_kafka_config(given, BrokerSettings())
    for line in kafka.lines:
        if line.verdict is Verdict.IGNORED and line.name in properties:
            raise InvalidInputError(f"{line.name}={line.value} has no effect: {line.words}")
    return replace(
        kafka.settings,
        listeners=(Listener(host=HOST, port=0),),
        groups=replace(kafka.settings.groups, commit_interval_ms=0),
    )


async def _rebalance(broker: Broker, group: str) -> None:
    coordinator = broker.services.coordinator
    found = coordinator.describe(group)
    members = getattr(found, "members", ())
    if not members or isinstance(found, int) or not found.protocol:
        raise NotFoundError(
            f"group {group} has no members of the classic protocol in a stable generation: look "
            "with broker.groups(), and start a second consumer for a group of the newer protocol"
        )
    join = Join(
        session_timeout_ms=broker.services.settings.groups.rules.session_timeout_ms_min,
        protocol_type=found.protocol_type,
        offers=(Offer(found.protocol, members[0].metadata),),
        client_id="lakelog-rebalance",
        needs_id=False,
    )
    coming = coordinator.join(group, join)
    try:
        now = coordinator.describe(group)
        new = {one.member_id for one in getattr(now, "members", ())}
        new -= {one.member_id for one in members}
        await coordinator.leave(group, Leave(members=tuple(map(Identity, new))))
    finally:
        coming.close()


def _make_log() -> Any:
    """Return a log whose warnings go to Python's own, where pytest shows them with what failed."""
    return structlog.wrap_logger(
        logging.getLogger("lakelog"),
        processors=[structlog.processors.KeyValueRenderer(key_order=["event"])],
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
        cache_logger_on_first_use=True,
    )
