"""Faults begin, end and are counted; a broker ends by itself only when something befell it."""

from dataclasses import replace
from pathlib import Path
from random import Random  # noqa: TID251 (seeded)
from typing import Any, cast

import pytest

from tests.cluster import faults
from tests.cluster.faults import Fault, Storm
from tests.parts.cluster import Cluster


class Broker:
    """One that runs when it is launched, and is ready at once."""

    is_running = True

    def is_ready(self) -> bool:
        return self.is_running

    def ended(self) -> int | None:
        return None if self.is_running else 1


class Brokers:
    """As much of a cluster as faults need."""

    def __init__(self, home: Path) -> None:
        self.brokers = {1: Broker()}
        self.frozen: set[int] = set()
        self.launched: list[int] = []
        self._log = home / "log"
        self._log.write_text("the store did not answer")

    def launch(self, node: int) -> None:
        self.brokers[node].is_running = True
        self.launched.append(node)

    def log(self, _: int) -> Path:
        return self._log


class Clock:
    """A diary's clock that somebody sets."""

    def __init__(self) -> None:
        self.at = 100.0

    def now(self) -> float:
        return self.at


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    one = Clock()
    monkeypatch.setattr(faults, "Diary", one)
    return one


def storm(cluster: Brokers, told: list[str]) -> Any:
    def begin(node: int, _: Random) -> None:
        told.append(f"begin {node}")

    fault = Fault(begin, lambda node: told.append(f"end {node}"), least_s=5.0)
    found = Storm(cast("Cluster", cluster), "cuts", 1, 0.1, ["cut"], {"cut": fault})
    found._chance = Random(3)  # Whose first numbers strike a broker although it is the only one.
    return found


def strike(one: Any) -> None:
    while not one._befallen:
        one._strike()


def test_a_fault_begins_lasts_and_ends(tmp_path: Path, clock: Clock) -> None:
    told: list[str] = []
    one = storm(Brokers(tmp_path), told)
    strike(one)
    clock.at += 4.9
    one._step()
    assert told == ["begin 1"]
    clock.at += 0.2
    one._step()
    assert told == ["begin 1", "end 1"]
    assert one.done == {"cut": 1}
    (span,) = one.spans
    assert (span.begun, span.kind, span.node) == (100.0, "cut", 1)
    assert span.ended == pytest.approx(105.1)


def test_a_broker_that_something_befell_is_started_again(tmp_path: Path, clock: Clock) -> None:
    cluster, told = Brokers(tmp_path), list[str]()
    one = storm(cluster, told)
    strike(one)
    for _ in range(2):  # It may end again, while it lasts.
        cluster.brokers[1].is_running = False
        one._step()
        clock.at += faults.AGAIN_S
        one._step()
    assert cluster.launched == [1, 1]
    assert len(one.exits) == 2
    assert "did not answer" in one.exits[0]
    assert told == ["begin 1"]


def test_a_broker_that_ends_for_no_reason_is_an_error(tmp_path: Path, clock: Clock) -> None:
    cluster = Brokers(tmp_path)
    one = storm(cluster, [])
    cluster.brokers[1].is_running = False
    with pytest.raises(AssertionError, match="ended by itself"):
        one._step()


def test_what_all_brokers_need_may_end_each_of_them_while_it_lasts(
    tmp_path: Path, clock: Clock
) -> None:
    cluster, told = Brokers(tmp_path), list[str]()
    cluster.brokers[2] = Broker()
    one = storm(cluster, told)
    one._more["cut"] = replace(one._more["cut"], is_shared=True)
    strike(one)
    (struck,) = one._befallen
    other = 3 - struck
    one._launch(other)
    cluster.brokers[other].is_running = False
    one._step()
    assert len(one.exits) == 1


def test_what_befalls_somebody_else_leaves_brokers_free_and_comes_once_at_a_time(
    tmp_path: Path, clock: Clock
) -> None:
    cluster, told, may = Brokers(tmp_path), list[str](), list[bool]()
    one = storm(cluster, told)
    one._more["cut"] = replace(one._more["cut"], is_beside=True, may_begin=lambda: bool(may))
    for _ in range(50):
        one._strike()
    assert told == [], "it may not begin yet"
    may.append(True)
    for _ in range(50):
        one._strike()
    assert told == ["begin -1"]
    assert one.done == {"cut": 1}
    clock.at += 60
    one._step()
    assert told == ["begin -1", "end -1"]
    cluster.brokers[1].is_running = False
    with pytest.raises(AssertionError, match="ended by itself"):
        one._step()


def test_something_may_be_done_again_and_again_while_a_fault_lasts(
    tmp_path: Path, clock: Clock
) -> None:
    told = list[str]()
    one = storm(Brokers(tmp_path), told)
    one._more["cut"] = replace(one._more["cut"], meanwhile=lambda _: told.append("tick"))
    strike(one)
    for _ in range(2):
        one._step()
    clock.at += 60
    one._step()
    one._step()
    assert told == ["begin 1", "tick", "tick", "tick", "end 1"]
