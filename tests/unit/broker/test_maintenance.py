"""The broker's keeper: a process that seals, that is capped, and that nobody need be sorry for."""

import asyncio
import multiprocessing
import os
import time
from pathlib import Path

import pytest

from lakelog.broker import maintenance
from lakelog.broker.maintenance import (
    MaintenancePass,
    MaintenanceProcess,
    MaintenanceSettings,
    work,
)
from lakelog.broker.metrics.counters import Metrics
from lakelog.catalog import create_topic, make_namespace
from lakelog.errors import InvalidInputError
from lakelog.host import SystemClock, new_id
from lakelog.journal import Lane, append, new_append
from lakelog.model import Rules
from lakelog.store import StoreSpec, run, working
from lakelog.testing import make_batch
from tests.patience import in_time, until
from tests.unit.broker.keepers import failing, greedy, sleeper

SOON = MaintenanceSettings(every_s=0.05)


@pytest.fixture
def log(tmp_path: Path) -> StoreSpec:
    """A namespace with ten records of one topic, nothing of it sealed."""
    spec = StoreSpec(f"file://{tmp_path}")
    perform = working(spec.open().perform)
    clock, rules = SystemClock(), Rules(lanes=1)
    run(make_namespace(new_id(), rules), perform)
    made = create_topic("t", topic_id=new_id(), partitions=2, lanes=1, now_ms=clock.now_ms())
    topic = run(made, perform)
    lane = Lane(number=0, rules=rules, clock=clock, ids=new_id, writer=new_id())
    for number in range(10):
        body = make_batch(number, 1, (-1, -1, -1), clock.now_ms())
        run(append(lane, [new_append(topic.id, number % 2, body)]), perform)
    return spec


def is_gone(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return True
    return False


def test_a_broker_has_its_namespace_kept(log: StoreSpec, tmp_path: Path) -> None:
    metrics, reports = Metrics(), list[MaintenancePass]()

    async def story() -> None:
        async with MaintenanceProcess(
            log, SOON, metrics, on_report=reports.append, led=lambda: range(4)
        ) as keeper:
            await until(lambda: len(reports) >= 2)
            assert keeper.process_id is not None
            assert os.getpriority(os.PRIO_PROCESS, keeper.process_id) >= 10

    asyncio.run(story())
    assert len(list(tmp_path.glob("t/*/*.kfs"))) == 2
    assert (reports[0].segments, reports[0].records, reports[0].failures) == (2, 10, {})
    assert (reports[1].segments, reports[1].records) == (0, 0)
    assert metrics.keep_passes == len(reports)
    assert metrics.sealed_records == 10
    assert metrics.usage.requests["put"] > 0


def test_what_a_pass_cannot_do_is_told_and_the_next_one_tries_again(tmp_path: Path) -> None:
    metrics, reports = Metrics(), list[MaintenancePass]()

    async def story() -> None:
        spec = StoreSpec(f"file://{tmp_path}")
        async with MaintenanceProcess(
            spec, SOON, metrics, on_report=reports.append, led=lambda: range(4)
        ):
            await until(lambda: len(reports) >= 2)

    asyncio.run(story())
    assert "lakelog init" in reports[1].failures["pass"]
    assert metrics.keep_failures == len(reports)
    assert metrics.keep_restarts == 0


def test_one_that_dies_is_started_again_later_each_time(
    log: StoreSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "DELAY_S_MIN", 0.01)
    metrics, said = Metrics(), list[str]()

    async def story() -> None:
        async with MaintenanceProcess(
            log, SOON, metrics, on_error=said.append, target=failing, led=lambda: range(4)
        ):
            await until(lambda: metrics.keep_restarts >= 2)

    asyncio.run(story())
    assert "ended with 3" in said[0]


def test_one_that_takes_too_much_is_ended_and_told(log: StoreSpec) -> None:
    said = list[str]()
    settings = MaintenanceSettings(memory_bytes=512 << 20)

    async def story() -> None:
        async with MaintenanceProcess(
            log, settings, Metrics(), on_error=said.append, target=greedy, led=lambda: range(4)
        ):
            await until(lambda: bool(said))

    asyncio.run(story())
    assert f"more than {512 << 20} bytes" in said[0]


def test_closing_takes_no_longer_than_a_second_and_secrets_are_not_arguments() -> None:
    spec = StoreSpec("s3://bucket/folder", {"secret_access_key": "do-not-tell"})
    metrics = Metrics()

    async def story() -> tuple[int, float]:
        async with MaintenanceProcess(
            spec, SOON, metrics, target=sleeper, led=lambda: range(4)
        ) as keeper:
            await until(lambda: metrics.keep_passes == 1)
            process_id = keeper.process_id
            assert process_id is not None
            assert b"do-not-tell" not in Path(f"/proc/{process_id}/cmdline").read_bytes()
            begun_s = time.monotonic()
        return process_id, time.monotonic() - begun_s

    process_id, took_s = asyncio.run(story())
    in_time(took_s < 1, took_s)
    assert is_gone(process_id)


def test_it_dies_with_its_broker(log: StoreSpec) -> None:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=work, args=(log, MaintenanceSettings(), theirs), daemon=True)
    process.start()
    theirs.close()
    ours.close()
    process.join(30)
    assert process.exitcode == 0


def test_what_is_in_memory_nobody_else_can_keep() -> None:
    with pytest.raises(InvalidInputError, match="--no-keep"):
        MaintenanceProcess(
            StoreSpec("memory:"), MaintenanceSettings(), Metrics(), led=lambda: range(4)
        )


@pytest.mark.parametrize(
    "wrong", [{"every_s": 0}, {"every_s_max": 59}, {"memory_bytes": 1}, {"nice": -1}]
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(InvalidInputError, match="use"):
        MaintenanceSettings(**wrong)


def test_where_requests_cost_something_a_pass_waits_until_there_is_enough_to_seal() -> None:
    """By bytes as well as by time: a busy log is sealed every minute, a quiet one every ten."""
    paid, free = MaintenanceSettings(every_s=60, every_s_max=600), MaintenanceSettings(every_s=60)
    gib = 1 << 30
    assert [paid.next_s(60, size) for size in (0, 1, gib // 4, gib, 9 * gib)] == [
        600,
        600,
        240,
        60,
        60,
    ]
    assert paid.next_s(600, 2 * gib) == 300
    assert {free.next_s(60, size) for size in (0, gib // 4, gib)} == {60}
    assert {one.next_s(60, 0, is_behind=True) for one in (paid, free)} == {1}, "many small bundles"
