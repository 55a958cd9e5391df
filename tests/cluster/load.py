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
from typing import Protocol

from confluent_kafka.admin import AdminClient, NewTopic

from lakelog.catalog import open_namespace, read_topic
from lakelog.host import SystemClock, new_id
from lakelog.journal import Lane
from lakelog.log import Chunk, Known, read
from lakelog.records import decode_batches
from lakelog.store import open_store, retrying, run, working
from tests.cluster.checker import SEEN_S, Findings, check
from tests.cluster.history import Diary, History
from tests.cluster.workers import Plan, Worker
from tests.patience import LateError

__all__ = ["PARTITIONS", "TOPIC", "Load", "Served", "loaded", "read_log"]

TOPIC, PARTITIONS = Plan.topic, Plan.partitions
"""As they are if nobody says otherwise: three partitions in each lane."""

FLOWING_S = 120.0
_LOOK_S = 0.1


def create_topic(bootstrap: str, name: str, partitions: int) -> None:
    """Make a topic that keeps everything."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    topic = NewTopic(name, partitions, 1, config={"retention.ms": "-1"})
    for made in admin.create_topics([topic]).values():
        made.result(timeout=60)


def read_log(
    url: str, options: Mapping[str, str], name: str = TOPIC
) -> dict[int, list[tuple[int, str]]]:
    """Return every record of a topic, without a broker: offset and what it says."""
    perform = working(retrying(open_store(url, options).perform))
    rules = run(open_namespace(), perform).rules
    topic = run(read_topic(name), perform)
    lanes = {
        number: Lane(number=number, rules=rules, clock=SystemClock(), ids=new_id, writer=new_id())
        for number in topic.lanes_used()
    }
    log: dict[int, list[tuple[int, str]]] = {}
    for partition in range(topic.partitions):
        rows: list[tuple[int, str]] = []
        where, lane, known, offset = topic.path_of(partition), topic.lane(partition), Known(), 0
        while True:
            chunk = run(read(lanes[lane], where, offset, 4 << 20, known), perform)
            assert isinstance(chunk, Chunk), chunk
            if not chunk.body:
                break
            for batch in decode_batches(chunk.body):
                rows += [(one.offset, (one.value or b"").decode()) for one in batch.records]
            offset = chunk.next_offset
        log[partition] = rows
    return log


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
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        self.cluster, self.history = cluster, History()
        self._options = storage_options or cluster.options
        self._partitions = plan.partitions
        create_topic(cluster.bootstrap, plan.topic, plan.partitions)
        self.groups = [f"{kind}-group" for kind in kinds] if plan.members else []
        mine = replace(plan, bootstrap=cluster.bootstrap)
        self._workers = [
            Worker(kind, replace(mine, name=kind, group=f"{kind}-group"), folder) for kind in kinds
        ]

    def tail(self) -> History:
        """Read what was written since the last time; a worker that has ended is an error."""
        for worker in self._workers:
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
            committed = {(one.group, one.partition) for one in history.commits}
            return len(acked) == self._partitions * len(self._workers) and len(
                committed
            ) == self._partitions * len(self.groups)

        if not self.wait_until(is_flowing, FLOWING_S):
            raise LateError(f"clients were not served: {history.error_kinds()}")

    def finish(self, healed: float, patience_s: float = SEEN_S) -> Findings:
        """Send no more, wait until all is read, and say what is wrong with all of it."""
        for worker in self._workers:
            worker.tell("quiet")
        end = max(healed, Diary.now()) + patience_s
        self.wait_until(self._is_quiet, end - Diary.now())
        self.wait_until(self._is_seen, end - Diary.now())
        for worker in self._workers:
            worker.end()
            worker.diary.read_into(self.history)
        log = read_log(self.cluster.storage, self._options)
        return check(self.history, log, groups=self.groups, healed=healed)

    def _is_quiet(self) -> bool:
        return len(self.history.quiet) == len(self._workers)

    def _is_seen(self) -> bool:
        acked = self.history.acked.keys()
        return all(acked <= self.history.seen_by(group) for group in self.groups)

    def kill(self) -> None:
        """End all workers at once."""
        for worker in self._workers:
            worker.kill()


@contextlib.contextmanager
def loaded(
    cluster: Served,
    folder: Path,
    *,
    kinds: Sequence[str],
    plan: Plan = Plan(),  # noqa: B008 (frozen)
    storage_options: Mapping[str, str] | None = None,
) -> Iterator[Load]:
    """Workers that are served; none is left behind when a story fails.

    ``storage_options`` are for reading the store, if that is not done as the brokers do.
    """
    load = Load(cluster, folder, kinds=kinds, plan=plan, storage_options=storage_options)
    try:
        load.wait_until_flowing()
        yield load
    finally:
        load.kill()
