"""Sixty runs, as they are planned, have every workload, and every kind of fault often enough.

What they would fire is found by the very code that fires it, on brokers that do nothing and by a
clock that does not wait. Brokers and Spark take as long to start as they did on two busy cores.
"""

from collections import Counter
from itertools import pairwise
from pathlib import Path
from random import Random  # noqa: TID251 (seeded)
from typing import cast

import pytest

from tests.chaos.faults import BESIDE, ETCD, KINDS, LEAST_S
from tests.chaos.plan import (
    BEATS_MS,
    DEFAULT_BEATS_MS,
    MEMBERS,
    Run,
    following,
    plan_kinds,
    planned,
)
from tests.chaos.workloads import WORKLOADS
from tests.cluster import faults
from tests.cluster.faults import Fault, Storm
from tests.parts.cluster import Cluster

RUNS, SECONDS = 60, 120.0
FIRED_MIN = 30
START_S, LEAVE_S, SPARK_S = 7.0, 2.0, 40.0


class Clock:
    """What time it is, for storms and brokers alike."""

    def __init__(self) -> None:
        self.at = 0.0

    def now(self) -> float:
        return self.at

    def sleep(self, seconds: float) -> None:
        self.at += seconds

    monotonic = now


class Broker:
    """One that starts and ends in time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ready_at, self._ended_at = clock.at, float("inf")

    @property
    def is_running(self) -> bool:
        return self._clock.at < self._ended_at

    def is_ready(self) -> bool:
        return self._ready_at <= self._clock.at < self._ended_at

    def start(self) -> None:
        self._ready_at, self._ended_at = self._clock.at + START_S, float("inf")

    def end(self, after_s: float = 0.0) -> None:
        self._ended_at = self._clock.at + after_s

    def ended(self) -> int | None:
        return None if self.is_running else 0


class Brokers:
    """As much of a cluster as storms need."""

    def __init__(self, clock: Clock) -> None:
        self.brokers = {node: Broker(clock) for node in (1, 2, 3)}
        self.frozen: set[int] = set()

    def launch(self, node: int) -> None:
        self.brokers[node].start()

    def kill(self, node: int) -> None:
        self.brokers[node].end()

    def leave(self, node: int) -> None:
        self.brokers[node].end(LEAVE_S)

    def freeze(self, node: int) -> None:
        self.frozen.add(node)

    def thaw(self, node: int) -> None:
        self.frozen.discard(node)

    def log(self, _: int) -> Path:
        return Path("/dev/null")


def fired(run: Run, clock: Clock) -> Counter[str]:
    """Return what a run would fire."""

    killed_at = [clock.at - SPARK_S]

    def begin(_: int, __: Random) -> None:
        pass

    def kill_spark(_: int, __: Random) -> None:
        killed_at.append(clock.at)

    def of(kind: str) -> Fault:
        return Fault(
            kill_spark if kind == "kill-pipeline" else begin,
            lambda _: None,
            LEAST_S[kind],
            is_beside=kind in BESIDE,
            may_begin=lambda: "pipeline" not in kind or clock.at >= killed_at[-1] + SPARK_S,
        )

    kinds = plan_kinds(run)
    more = {kind: of(kind) for kind in kinds if kind in LEAST_S}
    brokers = cast("Cluster", Brokers(clock))
    storm = Storm(brokers, run.faults, run.seed, run.heartbeat_ms / 1000, kinds, more)
    storm.rage(run.seconds, lambda: None)
    return storm.done


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    one = Clock()
    monkeypatch.setattr(faults, "Diary", one)
    monkeypatch.setattr(faults, "time", one)
    return one


def test_sixty_runs_have_every_workload_and_every_kind_of_fault_often_enough(clock: Clock) -> None:
    runs = following([], RUNS, SECONDS)
    found: Counter[str] = Counter()
    for run in runs:
        found += fired(run, clock)
    every = {*KINDS, *ETCD, *(kind for one in WORKLOADS.values() for kind in one.faults)}
    assert every == found.keys()
    assert {kind: count for kind, count in found.items() if count < FIRED_MIN} == {}
    assert {one.workload for one in runs} == WORKLOADS.keys()
    assert min(Counter(one.workload for one in runs).values()) >= 3


def test_members_take_turns_and_a_campaign_goes_on_where_it_ended() -> None:
    runs = following([], RUNS, SECONDS)
    assert all(before.members != after.members for before, after in pairwise(runs))
    assert Counter(one.members for one in runs) == {"bucket": 30, "etcd": 30}
    done = [(one.members, one.seed) for one in runs]
    assert following(done[:17], RUNS - 17, SECONDS) == runs[17:]
    assert following(done[:4] + done[5:17], 1, SECONDS) == [runs[4]], (
        "what broke down is made again"
    )


def test_a_campaign_may_go_on_with_one_kind_of_members() -> None:
    done = [("bucket", seed) for seed in (1, 2, 4)]
    assert [one.seed for one in following(done, 3, SECONDS, "bucket")] == [3, 5, 6]
    assert [one.members for one in following(done, 4, SECONDS)] == [
        "etcd", "etcd", "etcd", "bucket",
    ]  # fmt: skip


def test_a_campaign_may_go_on_with_one_workload_and_leaves_the_others_for_later() -> None:
    runs = following([], 4, SECONDS, workload="maintenance")
    assert {one.workload for one in runs} == {"maintenance"}
    assert len({(one.members, one.seed) for one in runs}) == 4
    assert {one.members for one in following([], 3, SECONDS, workload="upgrade")} == {"bucket"}
    with pytest.raises(ValueError, match="no runs of upgrade with members etcd"):
        following([], 1, SECONDS, "etcd", "upgrade")


def test_ten_of_sixty_runs_have_beats_as_they_come() -> None:
    runs = following([], RUNS, SECONDS)
    beats = [one for one in runs if one.heartbeat_ms == DEFAULT_BEATS_MS[one.members]]
    assert len(beats) == 10
    assert {one.heartbeat_ms for one in runs if one not in beats} == set(BEATS_MS.values())


def test_no_two_runs_with_the_same_members_are_the_same() -> None:
    for members in MEMBERS:
        runs = [planned(number, SECONDS, members) for number in range(64)]
        pairs = {(one.workload, one.faults) for one in runs}
        assert len(pairs) > 50
        assert len({one.seed for one in runs}) == len(runs)


def test_faults_of_etcd_befall_no_one_who_has_none() -> None:
    for number in range(64):
        assert not set(plan_kinds(planned(number, SECONDS, "bucket"))) & set(ETCD)
