"""`lakelog serve --workers`: one log, one health, one page of metrics, and who is started again."""

import asyncio
import fcntl
import io
import json
import os
import signal
import socket
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import structlog
from structlog.testing import LogCapture

from lakelog.broker import BrokerSettings
from lakelog.catalog import Namespace
from lakelog.cli.logs import make_log, make_relay
from lakelog.cli.running import Plan
from lakelog.cli.serve import _rules, _tell_namespace
from lakelog.cli.worker import EXIT_FENCED
from lakelog.cli.workers import Worker
from lakelog.model import Rules
from lakelog.names import STAGING
from lakelog.store import StoreSpec
from tests.parts.lakelog import Lakelog, running_lakelog
from tests.parts.process import FailedPartError, free_range
from tests.patience import until
from tests.unit.cli.making import run as lakelog
from tests.virtual_time import pass_time, run_virtually

HERE = "127.0.0.1"


def wait_until(is_so: Callable[[], object]) -> None:
    asyncio.run(until(is_so))


def events(machine: Lakelog) -> list[dict[str, Any]]:
    return [json.loads(line) for line in machine.log.read_text().splitlines()]


def started(machine: Lakelog) -> dict[int, int]:
    """Return the processes of its workers."""
    rows = [one for one in events(machine) if one["event"] == "started a worker"]
    return {one["worker"]: one["process"] for one in rows}


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def freeze(machine: Lakelog, pid: int) -> None:
    """Stop a process, but not while it holds the lock of the folder: all others would wait for it,
    also those that are to end.
    """
    path = Path(machine.storage.removeprefix("file://"), STAGING, "lock")
    with path.open("r+b") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        os.kill(pid, signal.SIGSTOP)


# ---------------------------------------------------------------------------- stories


def test_workers_have_one_log_one_health_and_one_page_of_metrics() -> None:
    with running_lakelog(arguments=("--log-format", "json"), workers=2) as machine:
        wait_until(lambda: machine.get("/readyz") == (200, "ok\n"))
        rows = machine.get("/metrics")[1].splitlines()
        lanes = {row for row in rows if row.startswith("lakelog_lanes{")}
        assert lanes == {f'lakelog_lanes{{worker="{one}"}} 8.0' for one in (0, 1)}
        assert 'lakelog_worker_up{worker="1"} 1.0' in rows

        # One that is asked to stop is started again, as one that dies.
        first = started(machine)
        os.kill(first[0], signal.SIGTERM)
        wait_until(lambda: started(machine)[0] != first[0])
        os.kill(started(machine)[0], signal.SIGSTOP)
        for path, status in (("/readyz", 503), ("/healthz", 200)):
            answered, why = machine.get(path)
            assert answered == status
            assert "worker 0: starting" in why
        assert 'lakelog_worker_up{worker="0"} 0.0' in machine.get("/metrics")[1]
        os.kill(started(machine)[0], signal.SIGCONT)
        wait_until(machine.is_ready)

        told = events(machine)  # Every line is JSON.
        ready = [(one["worker"], one["node"]) for one in told if one["event"] == "ready"]
        nodes = dict(ready[:2])
        assert (sorted(nodes), sorted(nodes.values())) == ([0, 1], [1, 2])
        assert ready[2:] == [(0, nodes[0])], "by its address it has its node id again"
        (all_ready,) = [one for one in told if one["event"] == "all workers are ready"]
        assert all_ready["bootstrap"] == machine.bootstrap
        (ended,) = [one for one in told if one["event"].startswith("a worker ended")]
        assert (ended["worker"], ended["code"], ended["node"]) == (0, 0, nodes[0])

        # To all of them, as systemd and a terminal do.
        machine.leave()
        wait_until(lambda: machine.ended() == 0)
        last = events(machine)[len(told) :]
        stopped = [one.get("worker") for one in last if one["event"] == "stopped"]
        assert set(stopped[:2]) == {0, 1}
        assert stopped[2:] == [None]


def test_a_worker_that_cannot_start_ends_all_and_the_log_says_why(tmp_path: Path) -> None:
    port = free_range(2)
    with socket.create_server((HERE, port + 1)):
        machine = Lakelog(
            tmp_path,
            f"file://{tmp_path}/log",
            arguments=["--listen", f"{HERE}:{port}", "--no-keep"],
            workers=2,
        )
        with pytest.raises(FailedPartError, match="ended with status 1"):
            machine.start()
    lines = machine.log.read_text().splitlines()
    assert any(
        f"cannot listen on {HERE}:{port + 1}: " in one and "worker=1" in one for one in lines
    )
    assert all(map(is_gone, machine.worker_pids().values()))


def test_a_worker_whose_node_id_another_has_taken_stays_away_and_the_others_go_on(
    tmp_path: Path,
) -> None:
    arguments = ("--log-format", "json", "--node-id", "7", "--no-keep")
    with running_lakelog(f"file://{tmp_path}", arguments=arguments, workers=2) as machine:
        other = ("--node-id", "8", "--no-keep")
        with running_lakelog(f"file://{tmp_path}", arguments=other):
            said = "worker 1: another broker was started with its node id 8\n"
            wait_until(lambda: machine.get("/readyz") == (503, said))
            assert 'lakelog_lanes_led{worker="0"}' in machine.get("/metrics")[1]
        assert len([one for one in events(machine) if one["event"] == "started a worker"]) == 2
        assert machine.is_running


def test_a_second_signal_ends_workers_that_cannot_end() -> None:
    with running_lakelog(arguments=("--no-keep",), workers=2) as machine:
        pids = machine.worker_pids()
        freeze(machine, pids[1])
        assert "worker 1: it does not answer within 0.8 s" in machine.get("/healthz")[1]
        os.kill(machine.pid, signal.SIGTERM)
        wait_until(lambda: is_gone(pids[0]))
        assert machine.is_running
        os.kill(machine.pid, signal.SIGTERM)
        wait_until(lambda: machine.ended() == -signal.SIGTERM)
        wait_until(lambda: is_gone(pids[1]))


# ---------------------------------------------------------------------------- its lives


class Scripted(Worker):
    """A worker whose processes end as a story says: how, and after how many seconds."""

    def __init__(self, *ends: tuple[int, float], serves: bool = True) -> None:
        self.heard = LogCapture()
        log = structlog.wrap_logger(None, processors=[self.heard])
        super().__init__(0, Plan(spec=StoreSpec("memory:"), settings=BrokerSettings()), log, print)
        self._ends, self._serves = iter(ends), serves
        self.begun_s: list[float] = []

    async def _run(self) -> int:
        self.begun_s.append(asyncio.get_running_loop().time())
        if self._serves:
            self.served.set()
        code, lived_s = next(self._ends)
        await pass_time(lived_s)
        return code


def lives(worker: Scripted, stop_s: float = 1000.0) -> tuple[int, list[float]]:
    """Let a worker live until all stop; return how that ends, and the times between its lives."""

    async def main() -> int:
        stop = asyncio.Event()
        asyncio.get_running_loop().call_later(stop_s, stop.set)
        return await worker.live(stop)

    code = run_virtually(main())
    return code, [b - a for a, b in pairwise(worker.begun_s)]


def test_it_is_started_again_later_each_time_and_soon_if_it_has_lived_for_long() -> None:
    quick, long = [(1, 0.0)] * 9, (-9, 100.0)
    code, waited = lives(Scripted(*quick, long, (1, 0.0), (0, 10.0)), stop_s=225)
    assert code == 0
    assert waited[:9] == pytest.approx([0.5, 1, 2, 4, 8, 16, 30, 30, 30])
    assert waited[9:] == pytest.approx([100.5, 1])


@pytest.mark.parametrize(
    ("ends", "serves", "code"),
    [
        ([(1, 0.0)], False, 1),
        ([(-9, 0.0)], False, 1),
        ([(os.EX_IOERR, 5.0)], True, os.EX_IOERR),
        ([(1, 5.0), (os.EX_IOERR, 5.0)], True, os.EX_IOERR),
        ([(EXIT_FENCED, 5.0)], True, 0),
        ([(0, 5.0), (EXIT_FENCED, 5.0)], True, 0),
    ],
)
def test_it_is_not_started_again_after_what_would_come_again(
    ends: list[tuple[int, float]], serves: bool, code: int
) -> None:
    worker = Scripted(*ends, serves=serves)
    assert lives(worker)[0] == code
    assert len(worker.begun_s) == len(ends)
    assert worker.heard.entries[-1]["log_level"] == "error"


def test_it_does_not_come_back_when_all_stop() -> None:
    waiting = Scripted((1, 0.1))
    assert lives(waiting, stop_s=0.3) == (0, [])
    assert lives(Scripted((1, 5.0)), stop_s=3.0) == (0, [])
    assert lives(Scripted((os.EX_IOERR, 5.0)), stop_s=3.0)[0] == os.EX_IOERR


# ---------------------------------------------------------------------------- before it starts


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--http", "127.0.0.1:9093"), "ports overlap"),
        (("--listen", "127.0.0.1:65535"), "choose a lower one"),
        (("--listen", "127.0.0.1:0"), "choose the first of them"),
    ],
)
def test_ports_that_overlap_are_refused_and_nothing_is_made(
    tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    done = lakelog("serve", "--storage", f"file://{tmp_path}/log", "--workers", "2", *words)
    assert done.exit_code == 2
    assert said in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_listeners_of_a_kafka_config_are_looked_at_as_well(tmp_path: Path) -> None:
    config = tmp_path / "server.properties"
    config.write_text(
        "listeners=A://127.0.0.1:9092,B://127.0.0.1:9093\n"
        "listener.security.protocol.map=A:PLAINTEXT,B:PLAINTEXT\n"
    )
    words = ("--kafka-config", str(config), "--workers", "2")
    done = lakelog("serve", "--storage", f"file://{tmp_path}/log", *words)
    assert done.exit_code == 2
    assert "listener A needs 9092 to 9093, and listener B needs 9093 to 9094" in done.stderr


def test_memory_cannot_be_shared() -> None:
    done = lakelog("serve", "--storage", "memory:", "--workers", "2")
    assert done.exit_code == 2
    assert "--workers 1" in done.stderr


def test_a_new_namespace_has_lanes_for_all_and_an_old_one_is_told_of() -> None:
    assert _rules(1) == Rules()
    assert _rules(8).lanes == 32
    heard = LogCapture()
    log = structlog.wrap_logger(None, processors=[heard])
    old = Namespace(id=bytes(16), rules=Rules(lanes=4))
    _tell_namespace(log, "s3://b", old, made=False, workers=4)
    assert heard.entries == []
    _tell_namespace(log, "s3://b", old, made=False, workers=5)
    (told,) = heard.entries
    assert told["log_level"] == "warning"
    assert told["next"] == "lakelog cluster lanes 20 --storage s3://b"


# ---------------------------------------------------------------------------- one log


@pytest.mark.parametrize("format_", ["text", "json"])
def test_a_line_of_a_worker_is_written_as_if_it_were_the_supervisors(format_: str) -> None:
    theirs, mine = io.StringIO(), io.StringIO()
    try:
        raise ValueError("a bug")
    except ValueError:
        make_log("json", theirs).exception("failed", what=Path("/x"))
    relay = make_relay(format_, mine)
    for line in theirs.getvalue().splitlines():
        relay(3, line)
    said = mine.getvalue()
    assert "ValueError: a bug" in said
    assert json.loads(theirs.getvalue())["timestamp"] in said
    if format_ == "json":
        assert json.loads(said) == {**json.loads(theirs.getvalue()), "worker": 3}
    else:
        assert "[error    ] failed" in said.splitlines()[0]
        assert "worker=3" in said.splitlines()[0]


@pytest.mark.parametrize("line", ["Fatal Python error: \x1b[2J", "[1]", "7", '{"a": 1}', "{"])
def test_what_is_no_line_of_a_log_becomes_one(line: str) -> None:
    out = io.StringIO()
    relay = make_relay("json", out)
    relay(1, line)
    relay(1, "")
    told = json.loads(out.getvalue())
    assert (told["event"], told["worker"], told["level"]) == ("a worker wrote", 1, "warning")
    assert "\x1b" not in told["line"]
