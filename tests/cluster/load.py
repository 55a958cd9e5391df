"""Workers on a topic of a cluster, the history that they write, and how it ends.

with loaded(cluster, folder, kinds=("rdkafka", "java")) as load:
    load.wait_until_flowing()
    ...                              faults; ``load.tail()`` reads what was written meanwhile
    found = load.finish(healed)      quiet, read by all groups, and compared with the store
"""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from confluent_kafka.admin import AdminClient, NewTopic

from lakelog.catalog import open_namespace, read_topic
from lakelog.errors import LakelogError
from lakelog.host import SystemClock, new_id
from lakelog.journal import Lane
from lakelog.log import Known, OutOfRange, bounds, read
from lakelog.manifests import PartitionPath
from lakelog.records import decode_batches
from lakelog.store import open_store, retrying, run, working
from tests.cluster.checker import SEEN_S, Findings, check
from tests.cluster.history import STORE, Diary, History
from tests.cluster.workers import READERS, SENDERS, Plan, Worker
from tests.parts.walls import Walls
from tests.patience import LateError

__all__ = ["PARTITIONS", "TOPIC", "Load", "Served", "loaded", "read_log"]

TOPIC, PARTITIONS = Plan.topic, Plan.partitions
"""As they are if nobody says otherwise: three partitions in each lane."""

FLOWING_S = 120.0
SPARK, SPARK_S = "spark", 480.0
"""The worker that is started first, and waited for: it needs all of a machine to start."""
_LOOK_S = 0.1


def create_topic(
    bootstrap: str,
    name: str,
    partitions: int,
    settings: Mapping[str, str] | None = None,
    **configs: str,
) -> None:
    """Make a topic that keeps everything, if its configs do not say otherwise."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0, **(settings or {})})
    topic = NewTopic(name, partitions, 1, config={"retention.ms": "-1", **configs})
    for made in admin.create_topics([topic]).values():
        made.result(timeout=60)


def read_log(
    url: str, options: Mapping[str, str], name: str = TOPIC
) -> tuple[dict[int, list[tuple[int, str]]], dict[int, int], list[str]]:
    """Return every record of a topic, without a broker: offset and what it says; where each
    partition begins; and why some cannot be read.
    """
    perform = working(retrying(open_store(url, options).perform))
    rules = run(open_namespace(), perform).rules
    topic = run(read_topic(name), perform)
    lanes = {
        number: Lane(number=number, rules=rules, clock=SystemClock(), ids=new_id, writer=new_id())
        for number in topic.lanes_used()
    }
    log: dict[int, list[tuple[int, str]]] = {}
    starts: dict[int, int] = {}
    unreadable: list[str] = []
    for partition in range(topic.partitions):
        where, lane = topic.path_of(partition), lanes[topic.lane(partition)]
        try:
            log[partition], starts[partition] = _read_partition(lane, where, perform)
        except LakelogError as error:
            unreadable.append(f"unreadable: {str(error)[:200]}")
    return log, starts, unreadable


def _read_partition(
    lane: Lane, where: PartitionPath, perform: Callable[..., Any]
) -> tuple[list[tuple[int, str]], int]:
    rows: list[tuple[int, str]] = []
    known = Known()
    offset = start = run(bounds(lane, where), perform).log_start
    while True:
        chunk = run(read(lane, where, offset, 4 << 20, known), perform)
        if isinstance(chunk, OutOfRange):  # It was retained away meanwhile.
            assert chunk.bounds.log_start > offset, chunk
            offset = start = chunk.bounds.log_start
            rows = []
            continue
        if not chunk.body:
            return rows, start
        for batch in decode_batches(chunk.body):
            rows += [
                (one.offset, (one.value or b"").decode().rstrip())
                for one in batch.records
                if one.offset >= offset
            ]
        offset = chunk.next_offset


class Served(Protocol):
    """Brokers, as far as clients need them, and what they store."""

    @property
    def bootstrap(self) -> str: ...

    @property
    def storage(self) -> str: ...

    @property
    def options(self) -> dict[str, str]: ...


class Load:
    """What all workers do, and have seen so far."""

    def __init__(
        self,
        cluster: Served,
        folder: Path,
        *,
        kinds: Sequence[str],
        plan: Plan = Plan(),  # noqa: B008 (frozen)
        configs: Mapping[str, str] | None = None,
        storage_options: Mapping[str, str] | None = None,
        walls: Walls | None = None,
    ) -> None:
        self.cluster, self.history = cluster, History()
        self._options = storage_options or cluster.options
        self._plan = plan
        self._last: list[list[Any]] = []
        if walls is not None:
            plan = replace(plan, librdkafka=walls.librdkafka(), java=walls.java())
        settings = plan.librdkafka
        create_topic(cluster.bootstrap, plan.topic, plan.partitions, settings, **(configs or {}))
        self._senders = [kind for kind in kinds if kind in SENDERS]
        readers = [kind for kind in kinds if kind in READERS]
        self.groups = [f"{kind}-group" for kind in readers] if plan.members else []
        mine = replace(
            plan,
            bootstrap=cluster.bootstrap,
            storage=cluster.storage,
            options=dict(self._options),
        )
        self.workers: dict[str, Worker] = {}
        for kind in sorted(kinds, key=lambda one: one != SPARK):
            mine = replace(mine, name=kind, group=f"{kind}-group")
            self.workers[kind] = Worker(kind, mine, folder)
            if kind == SPARK and not self.wait_until(lambda: self.history.scans, SPARK_S):
                self.kill()
                raise LateError(f"Spark has read nothing after {SPARK_S:g} s")

    def tail(self) -> History:
        """Read what was written since the last time; a worker that has ended is an error."""
        for worker in self.workers.values():
            worker.check()
            worker.diary.read_into(self.history)
        return self.history

    def wait_until(self, is_so: Callable[[], object], within_s: float) -> bool:
        """Read on until something is so; False: it is not in time."""
        deadline = time.monotonic() + within_s
        while True:
            self.tail()
            if is_so():
                return True
            if time.monotonic() > deadline:
                return False
            time.sleep(_LOOK_S)  # noqa: TID251 (nothing to wait on but other processes)

    def wait_until_flowing(self) -> None:
        """Wait until every producer is heard in all partitions, and every group commits."""
        history = self.history

        def is_flowing() -> bool:
            acked = {
                (value.partition(":")[0], one.partition) for value, one in history.acked.items()
            }
            served = {(one.group, one.partition) for one in history.commits}
            if self._plan.assign:
                served = {(one.group, one.partition) for one in history.reads}
            partitions = self._plan.partitions
            return len(acked) >= partitions * len(self._senders) and len(
                served
            ) >= partitions * len(self.groups)

        if not self.wait_until(is_flowing, FLOWING_S):
            raise LateError(f"clients were not served: {history.error_kinds()}")

    def finish(
        self,
        healed: float,
        patience_s: float = SEEN_S,
        audit: Callable[[], Sequence[str]] = lambda: (),
    ) -> Findings:
        """Send no more, wait until all is read, and say what is wrong with all of it.

        An ``audit`` of the store tells what it finds there, a rule and a colon before each.
        """
        for worker in self.workers.values():
            worker.tell("quiet")
        end = max(healed, Diary.now()) + patience_s
        self.wait_until(self._is_quiet, end - Diary.now())
        self.wait_until(self._is_seen, end - Diary.now())
        # Spark reads once more when all others have ended.
        for worker in reversed(self.workers.values()):
            worker.end()
            worker.diary.read_into(self.history)
        return self._judged(healed, audit())

    def _judged(self, healed: float, audited: Sequence[str]) -> Findings:
        begun = Diary.now()
        log, starts, unreadable = read_log(self.cluster.storage, self._options, self._plan.topic)
        now = Diary.now()
        known = [["starts", begun, now, STORE, starts]]
        known += [["error", now, STORE, what] for what in (*unreadable, *audited)]
        for line in known:
            self.history.take(line)
        self._last = [*known, ["polled", begun, now, STORE, log]]
        return check(
            self.history,
            log,
            groups=self.groups,
            healed=healed,
            repeating=() if self._plan.idempotent else self._senders,
        )

    def lines(self) -> Iterator[list[Any]]:
        """Yield what all workers wrote, and what was in the store in the end."""
        for worker in self.workers.values():
            yield from worker.diary.lines()
        yield from self._last

    def _is_quiet(self) -> bool:
        return len(self.history.quiet) == len(self.workers)

    def _is_seen(self) -> bool:
        starts: dict[int, int] = {}
        for one in self.history.starts:
            starts[one.partition] = max(one.offset, starts.get(one.partition, 0))
        awaited = {
            value
            for value, acked in self.history.acked.items()
            if acked.partition < self._plan.partitions
            and (acked.offset is None or acked.offset >= starts.get(acked.partition, 0))
        }
        return all(awaited <= self.history.seen_by(group) for group in self.groups)

    def kill(self) -> None:
        """End all workers at once."""
        for worker in self.workers.values():
            worker.kill()


@contextlib.contextmanager
def loaded(
    cluster: Served,
    folder: Path,
    *,
    kinds: Sequence[str],
    plan: Plan = Plan(),  # noqa: B008 (frozen)
    configs: Mapping[str, str] | None = None,
    storage_options: Mapping[str, str] | None = None,
    walls: Walls | None = None,
) -> Iterator[Load]:
    """Workers that are served; none is left behind when a story fails.

    ``storage_options`` are for reading the store, if that is not done as the brokers do.
    """
    load = Load(
        cluster,
        folder,
        kinds=kinds,
        plan=plan,
        configs=configs,
        storage_options=storage_options,
        walls=walls,
    )
    try:
        load.wait_until_flowing()
        yield load
    finally:
        load.kill()
