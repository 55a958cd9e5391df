"""`lakelog serve --workers 2` under real clients: a worker is killed, and the supervisor is.

Beats come every 300 ms, as in ``test_cluster``. That two workers are faster than one, and what it
costs, is measured by ``benchmarks/cluster.py``.
"""

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from tests.cluster.gaps import until_served
from tests.cluster.history import Diary
from tests.cluster.load import PARTITIONS, TOPIC, Load, loaded
from tests.cluster.story import new_namespace
from tests.parts.lakelog import Lakelog
from tests.parts.process import accepts
from tests.parts.seaweedfs import SeaweedFS
from tests.patience import LateError, in_time
from tests.unit.cli.making import run as lakelog

pytestmark = pytest.mark.seaweedfs

SERVED_S, SOON_S = 60.0, 5.0
FIRST_NODE = 5
KINDS = pytest.mark.parametrize("kind", ["rdkafka", "java"])


@contextmanager
def two_workers(storage: str, options: dict[str, str], home: Path) -> Iterator[Lakelog]:
    """A supervisor and two workers, ready."""
    settings = home / "server.properties"
    settings.write_text("cluster.heartbeat.ms=300\n")
    given = ["--node-id", str(FIRST_NODE), "--kafka-config", str(settings), "--init", "--no-keep"]
    machine = Lakelog(home, storage, options, given, workers=2)
    try:
        machine.start()
        yield machine
    finally:
        machine.kill()


def wait_until(is_so: Callable[[], object], what: str, within_s: float = SERVED_S) -> None:
    deadline = time.monotonic() + within_s
    while not is_so():
        if time.monotonic() > deadline:
            raise LateError(what)
        time.sleep(0.05)  # noqa: TID251 (nothing to wait on but other processes)


def leaders(machine: Lakelog) -> dict[int, int]:
    """Return who leads each partition, as clients are told."""
    admin = AdminClient({"bootstrap.servers": machine.bootstrap, "log_level": 0})
    told = admin.list_topics(TOPIC, timeout=10)
    return {one.id: one.leader for one in told.topics[TOPIC].partitions.values()}


def addresses(machine: Lakelog) -> dict[int, int]:
    """Return the port of each broker, as clients are told."""
    admin = AdminClient({"bootstrap.servers": machine.bootstrap, "log_level": 0})
    return {node: one.port for node, one in admin.list_topics(timeout=10).brokers.items()}


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def await_service(load: Load, since: float, partitions: list[int]) -> None:
    def is_served() -> bool:
        return max(until_served(load.history, since, partitions)) < float("inf")

    in_time(load.wait_until(is_served, SERVED_S), f"not served after {SERVED_S} s")


@KINDS
def test_a_worker_that_is_killed_comes_back_as_it_was_and_nothing_is_lost(
    seaweedfs: SeaweedFS, tmp_path: Path, kind: str
) -> None:
    storage = new_namespace(seaweedfs)
    with (
        two_workers(storage, seaweedfs.options, tmp_path) as machine,
        loaded(machine, tmp_path, kinds=[kind]) as load,
    ):
        wait_until(lambda: set(leaders(machine).values()) == {5, 6}, "one worker leads all")
        ports, lost = addresses(machine), [at for at, one in leaders(machine).items() if one == 6]
        assert ports[6] == ports[5] + 1

        before, since = machine.worker_pids()[1], Diary.now()
        os.kill(before, signal.SIGKILL)
        wait_until(lambda: not machine.is_ready(), "nobody noticed")
        assert "worker 1: " in machine.get("/readyz")[1]
        assert machine.get("/healthz")[0] == 200
        await_service(load, since, lost)

        wait_until(machine.is_ready, "the worker did not come back")
        wait_until(lambda: set(leaders(machine).values()) == {5, 6}, "it did not get its lanes")
        assert addresses(machine) == ports
        assert machine.worker_pids()[1] != before
        starts = [row for row in machine.get("/metrics")[1].splitlines() if "_starts_total{" in row]
        assert [row.split()[-1] for row in starts] == ["1.0", "2.0"]

        await_service(load, Diary.now(), list(range(PARTITIONS)))
        found = load.finish(Diary.now())
        assert not found, found.shown()
        assert not load.history.errors, load.history.error_kinds()


def test_all_workers_stop_together_and_clients_go_on_when_they_are_back(
    seaweedfs: SeaweedFS, tmp_path: Path
) -> None:
    storage = new_namespace(seaweedfs)
    with (
        two_workers(storage, seaweedfs.options, tmp_path) as machine,
        loaded(machine, tmp_path, kinds=["rdkafka"]) as load,
    ):
        workers = list(machine.worker_pids().values())
        os.kill(machine.pid, signal.SIGTERM)  # To the supervisor alone.
        wait_until(lambda: machine.ended() == 0, "it did not end in good order")
        assert not any(map(is_alive, workers))
        words = [f"--store-option={name}={value}" for name, value in machine.options.items()]
        told = lakelog("cluster", "brokers", "--storage", storage, *words, "--json").stdout
        assert {json.loads(row)["state"] for row in told.splitlines()} == {"left"}

        machine.start()
        await_service(load, Diary.now(), list(range(PARTITIONS)))
        found = load.finish(Diary.now())
        assert not found, found.shown()


def test_workers_die_with_a_supervisor_that_is_killed(tmp_path: Path) -> None:
    with two_workers(f"file://{tmp_path}/log", {}, tmp_path) as machine:
        workers = list(machine.worker_pids().values())
        ports = [int(one.rpartition(":")[2]) for one in machine.bootstrap.split(",")]
        assert all(map(accepts, ports))
        os.kill(machine.pid, signal.SIGKILL)
        wait_until(lambda: not any(map(is_alive, workers)), "workers have outlived it", SOON_S)
        # The kernel closes the sockets of a process when its last thread has ended.
        wait_until(lambda: not any(map(accepts, ports)), "somebody has their ports", SOON_S)
        assert machine.ended() == -signal.SIGKILL
        machine.start()  # Nobody has its ports.
