"""Streaming queries write a topic that producers write, too, and anybody is killed: all rows, once.

    queries      files -> topic, some at once, in a driver that is started again when killed
    killed       the driver with its JVM; Pythons of tasks and of the commit; all of these, as if
                 their machine had died; executors; workers of the cluster. With -9
    copies       on a cluster, Spark tries tasks twice at once, and takes whoever is first
    producers    two, to the same partitions, each through a broker of its own
    keeper       seals and sweeps meanwhile

A kill hits all queries that run, each at what it happens to be at. It comes at a random instant,
or at a moment of any of them that is waited for: random instants hardly ever hit the few
milliseconds in which a write is decided for and not everywhere. Kills are so far apart that a query
is hit once or twice. In the end each row of the files is there once, each record where its producer
was told, and nothing else; offsets have no gap; consumers at both brokers and Spark see the same.
``LAKELOG_ONCE_QUERIES`` says how many queries there are; a quarter of them is on a cluster.
"""

import os
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import cycle
from pathlib import Path
from random import Random  # noqa: TID251 (seeded)

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakelog.host import SystemClock, new_id
from lakelog.journal import Lane
from lakelog.maintenance import SealSettings, maintain
from lakelog.model import Rules
from lakelog.names import STAGED_PREFIX
from lakelog.store import retrying, run, working
from tests.e2e.live.endless import Endless, Told
from tests.e2e.live.once import FILES_AT_ONCE, fail_after_staging, pour, see
from tests.e2e.live.once_kills import Drivers, Moments, kill_some, speculations, two_hosts
from tests.e2e.live.twins import Namespace, create_topic, running_namespace
from tests.e2e.live.views import View
from tests.parts.lakelog import running_lakelog
from tests.parts.spark_cluster import RunningJob
from tests.patience import in_time

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

QUERIES = int(os.environ.get("LAKELOG_ONCE_QUERIES", "5"))  # noqa: TID251
QUERIES_THERE = QUERIES // 4
AT_ONCE, AT_ONCE_THERE = 8, 6
SEED = int(os.environ.get("LAKELOG_ONCE_SEED", "8"))  # noqa: TID251
PARTITIONS = 5
BATCHES, ROWS = 2, 40
PAUSE_MS = 400
RATE = 20
RULES = Rules(lanes=3, grace_ms=5_000, checkpoint_every=32)
PATIENT = replace(RULES, grace_ms=60_000)
"""While queries run. An attempt whose commit does not begin within a grace is barred, and on a slow
machine that would be all of them."""
NO_KEEPER = ("--flush-interval-ms", "200", "--no-keep")
OTHER = (*NO_KEEPER, "--node-id", "2")
WAIT_S = 400.0
KEEP_EVERY_S = 2.0
USUAL_S = 5.0
"""About how long a query takes beside the others, for the random instants."""
KNOWN_S = 0.5
"""For so long it is taken as known which Pythons there are."""

Kill = tuple[str, str]
"""Whom, and when."""
HERE: tuple[Kill, ...] = (
    ("machine", "staged"),
    ("pythons", "decided"),
    ("driver", "any"),
    ("pythons", "staged"),
    ("machine", "decided"),
    ("pythons", "any"),
    ("driver", "decided"),
    ("machine", "finished"),
    ("driver", "staged"),
    ("machine", "any"),
)
"""One after the other, and again."""
THERE: tuple[Kill, ...] = (
    ("machine", "staged"),
    ("worker", "staged"),
    ("pythons", "decided"),
    ("executors", "any"),
    ("driver", "any"),
    ("worker", "any"),
    ("pythons", "staged"),
    ("executors", "staged"),
    ("machine", "decided"),
)


@pytest.fixture(scope="module")
def namespace() -> Iterator[Namespace]:
    with running_namespace(NO_KEEPER, RULES) as made:
        yield made


@pytest.fixture(scope="module")
def drivers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Drivers]:
    made = Drivers(tmp_path_factory.mktemp("drivers"))
    try:
        yield made
    finally:
        made.stop()


@pytest.fixture
def drivers_there(tmp_path: Path) -> Iterator[Drivers]:
    """On a cluster."""
    home = tmp_path / "drivers"
    home.mkdir()
    with two_hosts() as cluster:
        made = Drivers(home, cluster)
        try:
            yield made
        finally:
            made.stop()


@dataclass(frozen=True)
class Plan:
    """How much there is to do, and who dies of it."""

    queries: int
    at_once: int
    kills: Sequence[Kill]


class Story:
    """Queries with their files, and what becomes of them."""

    def __init__(self, namespace: Namespace, drivers: Drivers, home: Path, plan: Plan) -> None:
        self.namespace, self.drivers, self.home, self.plan = namespace, drivers, home, plan
        # A story that is told again has another folder, and so another topic.
        self.topic, queries = home.name, plan.queries
        self.done, self.hits, self.chance = Counter[str](), Counter[int](), Random(SEED)
        self.moments = Moments(namespace.folder, home, queries)
        create_topic(namespace.broker.bootstrap, self.topic, PARTITIONS, **{"retention.ms": "-1"})
        self.rows = [row for number in range(queries) for row in self._make_files(number)]

    def _make_files(self, number: int) -> Iterator[tuple[bytes | None, bytes]]:
        folder = self.home / f"in-{number}"
        folder.mkdir()
        for file in range(BATCHES * FILES_AT_ONCE):
            names = [f"{number}/{file}/{row}".encode() for row in range(ROWS)]
            keys = [name if at % 3 else None for at, name in enumerate(names)]
            pauses = [PAUSE_MS if at == ROWS - 1 else 0 for at in range(ROWS)]
            columns = {"key": keys, "value": names, "pause_ms": pauses}
            types = [("key", pa.binary()), ("value", pa.binary()), ("pause_ms", pa.int64())]
            pq.write_table(pa.table(columns, pa.schema(types)), folder / f"{file}.parquet")
            yield from zip(keys, names, strict=True)

    def pour(self) -> RunningJob:
        plan, arguments = self.plan, {"path": str(self.namespace.folder), "topic": self.topic}
        many = {"queries": plan.queries, "at_once": plan.at_once}
        return self.drivers.call(pour, home=str(self.home), **many, **arguments)

    def run(self) -> None:
        """Every query to its end, with whatever happens to it."""
        over, plan = threading.Event(), self.plan
        with ThreadPoolExecutor(1) as thread:
            keeping = thread.submit(self._keep, over)
            try:
                job = self.pour()
                # Whenever half of those that run at once are over, somebody is killed.
                opens = range(plan.queries, 0, -max(1, plan.at_once // 2))
                for most, kill in zip(opens, cycle(plan.kills), strict=False):
                    self._wait_for_some(job, most)
                    job = self._break_in(job, kill)
                job.result(WAIT_S)
            finally:
                over.set()
            self.done["kept"] = keeping.result()
        assert self.moments.open == 0
        for failures in self.home.glob("failures-*"):
            self.done["queries failed"] += len(failures.read_text().splitlines())

    def _keep(self, over: threading.Event) -> int:
        rounds = 0
        while not over.wait(KEEP_EVERY_S):
            keep_patiently(self.namespace)
            rounds += 1
        return rounds

    def _break_in(self, job: RunningJob, kill: Kill) -> RunningJob:
        """Kill somebody while queries run; return who goes on with them."""
        whom, when = kill
        pids = self._wait_for(job, when)
        if not self.moments.open:
            self.done["too late"] += 1
            return job
        if whom == "executors" and not kill_some(self.drivers.executors()[:1]):
            self.done["nobody to kill"] += 1
            return job
        if whom == "worker":
            self.drivers.lose_worker(self.chance)
        if whom in ("pythons", "machine"):
            # To look for processes takes longer than a commit, so some were known before.
            kill_some(pids)
            kill_some(self.drivers.pythons())
        if whom in ("driver", "machine"):
            self.drivers.kill()
        self._note(whom, self.moments.now())
        self.drivers.heal()
        if whom in ("driver", "machine"):
            self.moments.bury()
            self.drivers.replace()
            return self.pour()
        return job

    def _wait_for_some(self, job: RunningJob, most: int) -> None:
        """Wait until no more than so many queries are not over."""
        job.wait_until(lambda: self.moments.open <= most, WAIT_S)

    def _wait_for(self, job: RunningJob, when: str) -> list[int]:
        """Wait for a moment, or until all is over; return the Pythons there are then, about."""
        last = time.monotonic() + WAIT_S
        pids = self.drivers.pythons()
        while not self.moments.wait("staged" if when == "any" else when, KNOWN_S):
            pids = self.drivers.pythons()
            if job.is_over:
                job.result()  # Else its error would not be heard of.
                return []
            in_time(time.monotonic() < last, f"no query was {when} within {WAIT_S} s")
        if when == "any":
            time.sleep(self.chance.uniform(0, USUAL_S))  # noqa: TID251 (its life)
        return pids

    def _note(self, whom: str, moments: Mapping[int, str]) -> None:
        self.done["kills"] += 1
        self.done[f"killed {whom}"] += 1
        self.done += Counter(f"hit when {moment}" for moment in moments.values())
        self.hits.update(moments.keys())

    # ------------------------------------------------------------------------ what is seen

    def by_consumer(self, bootstrap: str) -> Told:
        with View(bootstrap, self.topic) as view:
            bounds = view.bounds(PARTITIONS)
            found = view.read(bounds)
        places = [(number, at) for number, ends in bounds.items() for at in range(*ends)]
        assert sorted(found) == places, "an offset is missing"
        assert all(first == 0 for first, _ in bounds.values())
        return found

    def by_spark(self) -> Told:
        to = self.home / f"seen-{time.monotonic_ns()}"
        self.drivers.call(
            see, path=str(self.namespace.folder), topic=self.topic, to=str(to)
        ).result(WAIT_S)
        rows = pq.read_table(to).to_pylist()
        found = {(row["partition"], row["offset"]): (row["key"], row["value"]) for row in rows}
        assert len(found) == len(rows), "some rows are there twice"
        return found


def keep_patiently(namespace: Namespace) -> None:
    """Seal all there is, and take away what nobody has touched for long."""
    lanes = {
        number: Lane(number=number, rules=PATIENT, clock=SystemClock(), ids=new_id, writer=new_id())
        for number in range(PATIENT.lanes)
    }
    perform = working(retrying(namespace.place.open().perform))
    kept = run(maintain(lanes, SealSettings(segment_bytes=20_000)), perform)
    assert not kept.failures


def staged(namespace: Namespace) -> list[Path]:
    """Every file that there is beside the log."""
    return [path for path in (namespace.folder / STAGED_PREFIX).rglob("*") if path.is_file()]


def pass_grace() -> None:
    time.sleep(RULES.grace_ms / 1000 + 0.5)  # noqa: TID251 (by the clock of the store)


def check_story(story: Story) -> Counter[str]:
    """Tell it, and see that all is as it must be; return what has happened."""
    namespace, began = story.namespace, time.monotonic()
    with ExitStack() as stack:
        # One that is started after the topic was made knows it.
        other = stack.enter_context(running_lakelog(namespace.place.url, arguments=OTHER))
        brokers = [namespace.broker.bootstrap, other.bootstrap]
        with ExitStack() as sending:
            producers = [
                Endless(number, broker, story.topic, partitions=PARTITIONS, rate=RATE)
                for number, broker in enumerate(brokers)
            ]
            for one in producers:
                sending.enter_context(one)
            story.run()
        acked = producers[0].acked | producers[1].acked
        assert len(acked) == sum(one.sent for one in producers), "two were told the same"

        seen = story.by_consumer(brokers[0])
        assert acked.items() <= seen.items(), "a record is not where its producer was told"
        poured = Counter(record for at, record in seen.items() if at not in acked)
        assert poured == Counter(story.rows)
        assert story.by_consumer(brokers[1]) == seen
        assert story.by_spark() == seen

        # Everything is sealed; then the floors pass it; then what was staged for it goes.
        for _ in range(2):
            namespace.keep(idle=True)
            pass_grace()
        namespace.keep(idle=True)
        assert staged(namespace) == []
        for broker in brokers:
            assert story.by_consumer(broker) == seen
        assert story.by_spark() == seen

    done = story.done + speculations(story.drivers.events)
    done += Counter(rows=len(story.rows), acked=len(acked), drivers=story.drivers.started)
    done += Counter({"queries hit": len(story.hits), "hits": story.hits.total()})
    seconds = time.monotonic() - began
    told = dict(sorted(done.items()))
    print(f"\n{story.plan.queries} queries in {seconds:.0f} s: {told}")  # noqa: T201 (the figures)
    in_time(done["hit when staged"] + done["hit when decided"] > 0, "nobody was hit at a write")
    in_time(2 * len(story.hits) >= story.plan.queries, "many queries were hit by nothing")
    return done


@pytest.mark.long  # Many minutes of kills: make once.
@pytest.mark.timeout(QUERIES * 20 + 600)
def test_every_row_is_there_once_whoever_is_killed(
    namespace: Namespace, drivers: Drivers, tmp_path: Path
) -> None:
    plan = Plan(QUERIES - QUERIES_THERE, AT_ONCE, HERE)
    check_story(Story(namespace, drivers, tmp_path, plan))


@pytest.mark.long
@pytest.mark.timeout(QUERIES * 20 + 600)
def test_every_row_is_there_once_though_tasks_are_tried_twice_at_once(
    namespace: Namespace, drivers_there: Drivers, tmp_path: Path
) -> None:
    plan = Plan(max(1, QUERIES_THERE), AT_ONCE_THERE, THERE)
    done = check_story(Story(namespace, drivers_there, tmp_path, plan))
    in_time(done["copies"] > 0, "Spark has tried no task twice at once")


def test_a_job_that_fails_after_staging_leaves_nothing(
    namespace: Namespace, drivers: Drivers, tmp_path: Path
) -> None:
    create_topic(namespace.broker.bootstrap, "aborted", 2)
    before = set(staged(namespace))
    arguments = {"home": str(tmp_path), "path": str(namespace.folder), "topic": "aborted"}
    said = drivers.call(fail_after_staging, **arguments).result(WAIT_S)
    assert len(said) == 2
    for words in said:
        assert "Partition 99 of topic aborted with partition count 2 is not present" in words
    left = set(staged(namespace)) - before
    # Of a batch and of a stream.
    assert len({path.parts[len(namespace.folder.parts) + 2] for path in left}) == 2
    with View(namespace.broker.bootstrap, "aborted") as view:
        assert view.bounds(2) == {0: (0, 0), 1: (0, 0)}
        pass_grace()
        namespace.keep(idle=True)
        assert not left & set(staged(namespace))
        assert view.bounds(2) == {0: (0, 0), 1: (0, 0)}
