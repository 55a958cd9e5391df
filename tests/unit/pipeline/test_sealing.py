"""seal as a job: tasks make segments, the driver lets them count."""

import re
from pathlib import Path
from typing import Any

import pytest

from lakelog.host import THIS_HOST, SystemClock, new_id
from lakelog.journal import Lane
from lakelog.log import read
from lakelog.maintenance import SealSettings
from lakelog.manifests import change_manifest, changes, read_manifest
from lakelog.pipeline import Seal, plan_job, run_here
from lakelog.store import StoreSpec
from tests.unit.pipeline.home import RULES, Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def test_what_is_sealed_reads_as_before(home: Home) -> None:
    topic, other = home.topic(), home.topic("other", partitions=5)
    home.fill(topic, 30)
    home.fill(other, 30)
    before = home.logs(topic), home.logs(other)
    report = run_here(home.seal())
    assert report.is_good
    assert report.records == 180
    assert (home.logs(topic), home.logs(other)) == before
    assert sum(home.ends(topic)) == sum(home.ends(other)) == 90
    assert run_here(home.seal()).records == 0
    home.fill(topic, 10)
    before = home.logs(topic), home.logs(other)
    assert run_here(home.seal()).records == 30
    assert (home.logs(topic), home.logs(other)) == before


def test_a_lane_that_is_not_due_is_left(home: Home) -> None:
    topic = home.topic()
    home.fill(topic, 5)
    assert run_here(Seal(host=THIS_HOST, target=StoreSpec(home.url))).records == 0
    assert run_here(Seal(host=THIS_HOST, target=StoreSpec(home.url), backlog_bytes=1)).records == 15


def test_with_no_time_to_wait_clocks_do_not_matter(home: Home) -> None:
    topic = home.topic()
    for lane in home.lanes.values():
        lane.clock = Ahead()
    home.fill(topic, 5)
    assert run_here(home.seal()).records == 15


class Ahead(SystemClock):
    """A clock that is an hour ahead of the store's."""

    def now_ms(self) -> int:
        return super().now_ms() + 3_600_000


def test_a_large_partition_is_shared_out(home: Home) -> None:
    topic = home.topic()
    home.fill(topic, 60, one=1)
    before = home.logs(topic)
    job = home.seal(settings=SealSettings(group_bytes=4_000, segment_bytes=1_500))
    plan, _ = plan_job(job)
    sizes = sorted(unit.size for unit in plan.units)
    assert len(sizes) > 4
    assert sizes[-1] <= 4_000
    assert run_here(job).records == 180
    assert home.logs(topic) == before
    assert sum(home.ends(topic)) == 180
    segments = home.run(read_manifest(topic.path_of(1))).segments
    assert len(segments) > 4


def test_the_floor_rises_over_what_was_sealed(home: Home) -> None:
    topic = home.topic(partitions=1)
    home.fill(topic, 20)
    run_here(home.seal(idle=True))
    lane = home.lanes[topic.lane(0)]
    fresh = Lane(number=lane.number, rules=RULES, clock=SystemClock(), ids=new_id, writer=new_id())
    home.run(read(fresh, topic.path_of(0), 0, 10))
    assert fresh.last_look is not None
    assert fresh.last_look.head.floor >= 20


class _Dead(Exception):  # noqa: N818 (it is no error)
    """The driver is gone."""


@pytest.mark.parametrize("moment", ["begun", "made", "committed"])
def test_a_run_that_was_killed_is_completed_by_the_next(home: Home, moment: str) -> None:
    topic = home.topic()
    home.fill(topic, 30)
    before = home.logs(topic)

    class Driver:
        def __init__(self, inner: Any) -> None:
            self.job, self._inner = inner.job, inner

        def commit(self, table: Any) -> Any:
            if moment == "committed":
                self._inner.commit(table)
            raise _Dead

        def end(self) -> Any: ...

    class Dying:
        def __init__(self, job: Seal) -> None:
            self._job = job

        def __getattr__(self, name: str) -> Any:
            return getattr(self._job, name)

        def begin(self, plan: Any, connect: Any) -> Any:
            driver = self._job.begin(plan, connect)
            if moment == "begun":
                raise _Dead
            return Driver(driver)

    with pytest.raises(_Dead):
        run_here(Dying(home.seal()))
    assert home.logs(topic) == before
    report = run_here(home.seal())
    assert report.records == (0 if moment == "committed" else 90)
    assert home.logs(topic) == before
    home.sweep(topic)
    assert home.stems() == home.named(topic)
    assert home.logs(topic) == before


def test_two_at_once_seal_once(home: Home) -> None:
    topic = home.topic()
    home.fill(topic, 30)
    before = home.logs(topic)

    class Meeting:
        """Begins, and then another run does everything."""

        def __init__(self, job: Seal) -> None:
            self._job = job

        def __getattr__(self, name: str) -> Any:
            return getattr(self._job, name)

        def begin(self, plan: Any, connect: Any) -> Any:
            driver = self._job.begin(plan, connect)
            assert run_here(home.seal()).records == 90
            return driver

    run_here(Meeting(home.seal()))
    assert home.logs(topic) == before
    assert sum(home.ends(topic)) == 90


# ---------------------------------------------------------------------------- names

PLAIN = re.compile(r".*segment-\d{20}")
OWN = re.compile(r".*segment-\d{20}-[0-9a-f]{32}")


def test_segments_get_the_key_without_a_write_id_where_it_is_free(home: Home) -> None:
    topic = home.topic()
    home.fill(topic, 60, one=1)
    settings = SealSettings(group_bytes=4_000, segment_bytes=1_500)
    assert run_here(home.seal(settings=settings)).records == 180
    named = home.named(topic)
    assert len(named) > 4
    assert all(PLAIN.fullmatch(name) for name in named)
    assert home.stems() == named


def test_a_key_that_a_killed_run_left_behind_is_not_adopted(home: Home) -> None:
    topic = home.topic()
    home.fill(topic, 30)
    before = home.logs(topic)
    job = home.seal()
    plan, _ = plan_job(job)
    killed = job.begin(plan, lambda _: home.perform).job
    for unit in plan.units:
        home.run_step(killed.step(unit))
    left = home.stems()
    assert left
    assert all(PLAIN.fullmatch(name) for name in left)
    assert run_here(home.seal()).records == 90
    assert all(OWN.fullmatch(name) for name in home.named(topic))
    assert home.logs(topic) == before
    home.sweep(topic)
    assert home.stems() == home.named(topic)
    assert home.logs(topic) == before
    home.fill(topic, 10)
    run_here(home.seal())
    # The sweep has deleted plain names, and a request to delete may come late.
    assert all(OWN.fullmatch(name) for name in home.named(topic))


def test_of_a_task_that_ran_twice_one_attempt_is_named_and_the_other_swept(home: Home) -> None:
    topic = home.topic()
    home.fill(topic, 30)
    before = home.logs(topic)

    class Twice:
        """Runs every step two times; the second attempt counts."""

        def __init__(self, job: Seal) -> None:
            self._job = job

        def __getattr__(self, name: str) -> Any:
            return getattr(self._job, name)

        def begin(self, plan: Any, connect: Any) -> Any:
            driver = self._job.begin(plan, connect)
            for unit in plan.units:
                home.run_step(driver.job.step(unit))
            return driver

    assert run_here(Twice(home.seal())).records == 90
    assert home.logs(topic) == before
    assert all(OWN.fullmatch(name) for name in home.named(topic))
    assert len(home.stems()) == 2 * len(home.named(topic))
    home.sweep(topic)
    assert home.stems() == home.named(topic)
    assert home.logs(topic) == before


def test_where_plain_names_are_burnt_no_task_uses_one(home: Home) -> None:
    topic = home.topic()
    home.fill(topic, 30)
    write = new_id().hex()
    home.run(change_manifest(topic.path_of(1), write, lambda now: changes.burn(now, write)))
    run_here(home.seal())
    for partition in range(topic.partitions):
        (row,) = home.run(read_manifest(topic.path_of(partition))).segments
        assert (OWN if partition == 1 else PLAIN).fullmatch(row.name)
