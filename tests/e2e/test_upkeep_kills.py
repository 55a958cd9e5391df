"""All verbs are killed inside of their work, at once, and the next round finishes it.

    here       the driver with its JVM, or all its Python workers; the runs fail
    cluster    all executors, or all Python workers; Spark tries again, the runs go on

A round runs the four verbs at once in one driver, each with something to do. The kill comes at a
random instant of the one that lacks most kills: of all the time that it usually takes for a driver,
of the time that its tasks take for who runs them. It counts for every verb whose run was begun and
not over, and, of workers or executors, of which a task was lost with them. After each kill of a
driver, or of what Spark does not try again, a round runs to its end, in the next driver, which was
started meanwhile. Kills go on until every verb has had its number.

Then nothing is lost, nothing is there twice, and the bucket holds nothing that nobody names.
``LAKELOG_UPKEEP_KILLS`` says how often each verb is killed here, half of it with the driver and
half with the workers; and half as often on the cluster.
"""

import contextlib
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from functools import partial
from itertools import cycle
from pathlib import Path
from random import Random  # noqa: TID251 (seeded)
from typing import TYPE_CHECKING, Any

import pytest

from lakelog.host import new_id
from lakelog.store import StoreSpec
from tests.e2e.live.engines import VERBS, Call, SparkThere
from tests.e2e.live.rounds import BEGUN, BUSY, IN_TURN, LOADED, OVER, get_ready, one_round
from tests.e2e.live.story import BRIEF, KEYED, PLAIN, RULES, Story
from tests.e2e.live.twins import running_namespace
from tests.parts.archives import quick_spark
from tests.parts.spark_cluster import (
    RunningJob,
    SparkCluster,
    SparkDriver,
    executors_in,
    processes_of,
    python_workers,
)
from tests.patience import in_time

if TYPE_CHECKING:
    from tests.parts.seaweedfs import SeaweedFS

pytestmark = pytest.mark.spark

KILLS = int(os.environ.get("LAKELOG_UPKEEP_KILLS", "2"))  # noqa: TID251
CLUSTER_KILLS = max(2, KILLS // 2)
ROUNDS_FEW = 12
"""That are made in vain at worst, where there are few kills..."""
ROUNDS_EACH = 4
"""... and for each kill that every verb must have."""
SLOTS = 4
"""One for each verb: so all of them have tasks at a time, on however many cores."""
START_S = 240.0
MOMENT_S = 0.1
LONGER = 1.1
RAISED = "thrown from the Python worker"
"""What Spark says of a task that has failed by itself. Of one that was killed it says EOF."""
NO_KEEPER = ("--flush-interval-ms", "100", "--no-keep")


@pytest.fixture
def story() -> Iterator[Story]:
    with running_namespace(NO_KEEPER, RULES) as namespace:
        yield Story(namespace)


@pytest.fixture
def story_on_s3(seaweedfs: "SeaweedFS") -> Iterator[Story]:
    place = StoreSpec(f"s3://{seaweedfs.bucket('kills')}/{new_id().hex()}", seaweedfs.options)
    with running_namespace(NO_KEEPER, RULES, place) as namespace:
        yield Story(namespace)


# ---------------------------------------------------------------------------- rounds


class Rounds:
    """Rounds of all verbs on a namespace, by whoever calls functions."""

    def __init__(self, call: Call, place: StoreSpec, home: Path, chance: Random) -> None:
        self.done: Counter[str] = Counter()
        self.chance = chance
        self._call, self._home = call, home
        self._place = {"url": place.url, "options": dict(place.options)}
        self._rounds = 0
        self._runs: dict[str, float] = {}
        self._tasks: dict[str, float] = {}
        """How long it runs, and how long its tasks do: at first as in a whole round. Then as verbs
        tell that were over before a kill; and a little longer after each hit, so that ends are hit,
        too."""

    def whole(self, *, is_usual: bool = False) -> None:
        """Let a round run to its end; if it is a usual one, that is how long verbs take."""
        told = self._ended(self._begin())
        for verb, one in told.items():
            assert not one["failure"], (verb, one)
            self._count(verb, one)
            if is_usual:
                self._runs[verb], self._tasks[verb] = one["seconds"], one["busy_s"]

    def kill_driver(self, kill: Callable[[], None], victim: str) -> set[str]:
        """Kill a driver while it runs a verb; return all that it hit."""
        job = self._begin()
        self._break_in(job, victim, BEGUN, self._runs[victim], kill)
        if job.is_over:
            self._ended(job)
        begun = {verb for verb in VERBS if self._mark(verb, BEGUN).exists()}
        over = {verb for verb in begun if self._mark(verb, OVER).exists()}
        for verb in over:
            self._runs[verb] = self._when(verb, OVER) - self._when(verb, BEGUN)
        for verb in begun - over:
            self._runs[verb] *= LONGER
        return begun - over

    def kill_tasks(self, kill: Callable[[], None], victim: str, *, tried_again: bool) -> set[str]:
        """Kill who runs tasks while a verb has some; return all verbs that have lost some.

        Their runs fail, and no others; then who runs those is killed again, and so on. Or, where
        tasks are tried again, none does.
        """
        job = self._begin()
        self._break_in(job, victim, BUSY, self._tasks[victim], kill)
        while not (tried_again or job.is_over):
            pause = self.chance.uniform(0, min(self._tasks.values())) + MOMENT_S
            time.sleep(pause)  # noqa: TID251 (a life)
            kill()
        told = self._ended(job)
        for verb, one in told.items():
            assert bool(one["failure"]) == (one["lost"] > 0 and not tried_again), (verb, one)
            assert RAISED not in one["failure"], (verb, one)
            self._count(verb, one)
            if one["lost"]:
                self._tasks[verb] *= LONGER
            elif verb == victim:
                self._tasks[verb] = one["busy_s"]
        return {verb for verb, one in told.items() if one["lost"]}

    def _break_in(
        self, job: RunningJob, victim: str, since: str, span_s: float, kill: Callable[[], None]
    ) -> None:
        """Kill at an instant of so many seconds since a verb has a mark."""
        marks = [self._mark(victim, mark) for mark in (since, OVER)]
        job.wait_until(lambda: job.is_over or any(mark.exists() for mark in marks), START_S)
        if self._mark(victim, since).exists():
            instant = self._when(victim, since) + self.chance.uniform(0, span_s)
            time.sleep(max(0.0, instant - time.time()))  # noqa: TID251 (a life)
        if not job.is_over:
            kill()

    def _begin(self) -> RunningJob:
        """Start a round, and wait until the verbs have begun."""
        self._rounds += 1
        self._marks.mkdir()
        job = self._call(one_round, {"place": self._place, "marks": str(self._marks)})
        job.wait_until(
            lambda: job.is_over or all(self._mark(verb, BEGUN).exists() for verb in VERBS),
            START_S,
        )
        return job

    @property
    def _marks(self) -> Path:
        return self._home / f"round-{self._rounds}"

    def _mark(self, verb: str, what: str) -> Path:
        return self._marks / f"{verb}.{what}"

    def _when(self, verb: str, what: str) -> float:
        return self._mark(verb, what).stat().st_mtime

    def _ended(self, job: RunningJob) -> dict[str, Any]:
        answer = job.result(START_S)
        in_time("late" not in answer, answer)
        assert "fault" not in answer, answer["fault"]
        told: dict[str, Any] = answer["verbs"]
        for verb, one in told.items():
            assert not one["fault"], f"{verb}: {one['fault']}"
        return told

    def _count(self, verb: str, one: Mapping[str, Any]) -> None:
        for outcome, count in one["outcomes"].items():
            self.done[f"{verb}: {outcome}"] += count


class Tally:
    """How often each verb was killed, with whom, and how often it must be."""

    def __init__(self, story: Story, done: Counter[str], wanted: Mapping[str, int]) -> None:
        self._story, self._done, self._wanted = story, done, wanted
        self._hits: Counter[tuple[str, str]] = Counter()
        self._kills: Counter[str] = Counter()
        self._announced: set[str] = set()
        self._began = time.monotonic()

    def lacks(self, whom: str) -> bool:
        return any(self._hits[verb, whom] < self._wanted[whom] for verb in VERBS)

    def turns(self) -> Iterator[tuple[str, str]]:
        """Yield who is killed next, and during which verb, until every verb has its number."""
        most = ROUNDS_FEW + ROUNDS_EACH * sum(self._wanted.values())
        for whom in cycle(self._wanted):
            if not any(map(self.lacks, self._wanted)):
                return
            if self.lacks(whom):
                in_time(self._kills.total() < most, f"hit too seldom: {self}")
                yield whom, min(VERBS, key=lambda verb: self._hits[verb, whom])

    def note(self, whom: str, hit: set[str]) -> None:
        """Count a kill, and what it has left half done: writes that were announced."""
        self._kills[whom] += 1
        self._hits.update((verb, whom) for verb in hit)
        print(self, flush=True)  # noqa: T201 (progress)
        for topic in (PLAIN, KEYED, BRIEF):
            for manifest in self._story.bucket.manifests(topic):
                new = {one.write: one.verb for one in manifest.intents}
                for write in new.keys() - self._announced:
                    self._done[f"{new[write]}: left half done"] += 1
                self._announced |= new.keys()

    def __str__(self) -> str:
        seconds = time.monotonic() - self._began
        of_verbs = (
            f"{verb} " + " + ".join(f"{self._hits[verb, whom]} {whom}" for whom in self._wanted)
            for verb in VERBS
        )
        kills = ", ".join(f"{count} times {whom}" for whom, count in self._kills.items())
        return f"killed in {seconds:.0f} s: {'; '.join(of_verbs)} (killed {kills})"


# ---------------------------------------------------------------------------- drivers


class Drivers:
    """A driver, and the one that takes its place after a kill, which was started before."""

    def __init__(self, home: Path, settings: Mapping[str, str], workers: int = 0) -> None:
        self._home, self._settings, self._workers = home, settings, workers
        self._drivers: list[SparkDriver] = []
        self._names = iter(range(sys.maxsize))

    def start(self, count: int) -> None:
        """Have so many, if there are fewer."""
        while len(self._drivers) < count:
            home = self._home / f"driver-{next(self._names)}"
            home.mkdir()
            self._drivers.append(SparkDriver(home, self._settings, quick_spark()))
            self._drivers[-1].call(get_ready, self._workers, {})

    def call(self, function: Callable[..., object], arguments: dict[str, Any]) -> RunningJob:
        return self._drivers[0].call(function, self._workers, arguments)

    def kill(self) -> None:
        """Kill the first of them, and go on with the next."""
        killed = self._drivers.pop(0)
        killed.kill()
        killed.stop()

    def kill_workers(self) -> None:
        """Kill all Pythons of the first: a daemon leads a group of its own, and they are in it."""
        session = self._drivers[0].pid
        for pid in processes_of(session):
            with contextlib.suppress(ProcessLookupError):
                if os.getpgid(pid) not in (pid, session):
                    os.kill(pid, signal.SIGKILL)

    def close(self) -> None:
        for driver in self._drivers:
            driver.stop()


@pytest.mark.long  # Many minutes of kills: make upkeep.
@pytest.mark.timeout(KILLS * 60 + 900)
def test_killed_verbs_are_finished_by_the_next_round(story: Story, tmp_path: Path) -> None:
    settings = {"spark.master": f"local[{SLOTS}]", "spark.driver.memory": "512m"}
    with closing(Drivers(tmp_path, {**settings, **IN_TURN, **LOADED})) as drivers:
        drivers.start(1)
        rounds = Rounds(drivers.call, story.place, tmp_path, Random(17))
        wanted = {"workers": KILLS // 2, "drivers": KILLS - KILLS // 2}
        tally = Tally(story, rounds.done, wanted)
        with story.writing():
            kill_here(tally, rounds, drivers)
        story.finish(SparkThere(drivers.call, story.place), rounds.done)
    print(tally)  # noqa: T201 (the figures)


def kill_here(tally: Tally, rounds: Rounds, drivers: Drivers) -> None:
    rounds.whole()
    rounds.whole(is_usual=True)
    for whom, victim in tally.turns():
        if whom == "drivers":
            hit = rounds.kill_driver(drivers.kill, victim)
        else:
            # On one machine Spark tries no task twice.
            hit = rounds.kill_tasks(drivers.kill_workers, victim, tried_again=False)
        tally.note(whom, hit)
        # The one that is killed next starts while this one works.
        drivers.start(1 + tally.lacks("drivers"))
        rounds.whole()


# ---------------------------------------------------------------------------- on a cluster


@pytest.mark.long
@pytest.mark.seaweedfs
@pytest.mark.timeout(CLUSTER_KILLS * 60 + 900)
def test_a_cluster_goes_on_when_executors_are_killed(
    spark_cluster: SparkCluster, story_on_s3: Story, tmp_path: Path
) -> None:
    story, chance = story_on_s3, Random(23)
    spark_cluster.stop_driver()
    crowded = {"spark.cores.max": str(SLOTS), "spark.executor.cores": str(SLOTS // 2)}
    settings = {**spark_cluster.settings, **crowded, **IN_TURN}
    with closing(Drivers(tmp_path, settings, len(spark_cluster.workers))) as drivers:
        drivers.start(1)
        rounds = Rounds(drivers.call, story.place, tmp_path, chance)
        half = CLUSTER_KILLS // 2
        tally = Tally(story, rounds.done, {"workers": half, "executors": CLUSTER_KILLS - half})
        engine = SparkThere(drivers.call, story.place)
        with story.writing():
            kill_there(tally, rounds, spark_cluster)
            story.compare(engine, PLAIN, story.some_range(chance))
        story.finish(engine, rounds.done)
        assert set(engine.run("verify")) <= {"good", "unclaimed"}
    print(tally)  # noqa: T201 (the figures)


def kill_there(tally: Tally, rounds: Rounds, cluster: SparkCluster) -> None:
    def kill(of: Callable[[int], list[int]]) -> None:
        for session in cluster.workers:
            for pid in of(session):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    rounds.whole()
    rounds.whole(is_usual=True)
    kinds = {"executors": executors_in, "workers": python_workers}
    for whom, victim in tally.turns():
        # The same runs try again, elsewhere.
        tally.note(whom, rounds.kill_tasks(partial(kill, kinds[whom]), victim, tried_again=True))
    rounds.whole()
