"""Who owns tasks: none dies unnoticed, what can begin again does, and others go on meanwhile."""

import asyncio
import itertools
from typing import Any

import pytest
import structlog

from lakelog.broker import CoordinatorSettings, Metrics, Supervisor, awaited
from lakelog.broker.catalog import Catalog
from lakelog.broker.coordinator import Coordinator
from lakelog.broker.dispatch import Dispatcher
from lakelog.broker.handlers import HANDLERS
from lakelog.broker.http import BrokerStatus, HttpServer
from lakelog.broker.lanes import LaneWriter
from lakelog.broker.ledger import Ledger
from lakelog.broker.maintenance import (
    MaintenancePass,
    MaintenanceProcess,
    MaintenanceSettings,
)
from lakelog.broker.metrics.lags import Lags
from lakelog.broker.metrics.prometheus import encode, read_gauges
from lakelog.broker.offsets_topic import OffsetsTopic
from lakelog.broker.server import Broker
from lakelog.broker.timekeeper import Timekeeper
from lakelog.broker.watches import Watch
from lakelog.groups import Code, Commit, NewOffset, TopicIdPartition
from lakelog.journal import new_append
from lakelog.names import bundle_key
from lakelog.store import PutIfAbsent, StoreSpec
from lakelog.wire import ApiKey
from tests.patience import until
from tests.unit.broker.site import Client, Site, batch, broker, connect, story
from tests.virtual_time import run_virtually


def supervisor(seen: list[dict[str, Any]]) -> tuple[Supervisor, Metrics]:
    def note(_: Any, __: str, event: Any) -> Any:
        seen.append(dict(event))
        raise structlog.DropEvent

    log = structlog.wrap_logger(
        structlog.PrintLogger(),
        processors=[note],
        wrapper_class=structlog.make_filtering_bound_logger(0),
    )
    metrics = Metrics()
    return Supervisor(log, metrics), metrics


def deaths(site: Site) -> list[dict[str, Any]]:
    return [event for event in site.log if event["event"] == "a task died"]


# ---------------------------------------------------------------------------- the supervisor


def test_a_task_that_dies_begins_again_later_each_time_and_is_told_of_with_its_cause() -> None:
    seen: list[dict[str, Any]] = []
    lives: list[float] = []

    async def main() -> Metrics:
        tasks, metrics = supervisor(seen)

        async def work() -> None:
            lives.append(asyncio.get_running_loop().time())
            if len(lives) < 4:
                raise ZeroDivisionError("no parts")

        await tasks.keep("a task", work)
        assert tasks.troubles() == []
        return metrics

    metrics = run_virtually(main())
    assert metrics.task_deaths == {"a task": 3}
    assert [(one["task"], one["error"]) for one in seen] == [
        ("a task", "ZeroDivisionError('no parts')")
    ] * 3
    assert all(isinstance(one["exc_info"], ZeroDivisionError) for one in seen)
    pauses = [after - before for before, after in itertools.pairwise(lives)]
    assert pauses[0] >= 0.09
    assert pauses[1] >= 0.19
    assert pauses[2] >= 0.39


def test_a_task_whose_question_was_cancelled_by_somebody_else_begins_again() -> None:
    seen: list[dict[str, Any]] = []

    async def main() -> None:
        tasks, _ = supervisor(seen)
        lives: list[int] = []

        async def work() -> None:
            lives.append(1)
            if len(lives) == 1:
                asked: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                asked.cancel()
                await asked

        await tasks.keep("a task", work)
        assert len(lives) == 2

    run_virtually(main())
    assert "CancelledError" in seen[0]["error"]


def test_a_task_that_is_cancelled_ends_and_nobody_calls_it_a_death() -> None:
    seen: list[dict[str, Any]] = []

    async def main() -> None:
        tasks, _ = supervisor(seen)

        async def never() -> None:
            await asyncio.Event().wait()

        one = tasks.keep("a task", never)
        other = tasks.once("another", never())
        await asyncio.sleep(0)
        await tasks.close()
        assert (one.cancelled(), other.cancelled()) == (True, True)

    run_virtually(main())
    assert seen == []


def test_work_that_nobody_waits_for_is_told_of_when_it_dies() -> None:
    seen: list[dict[str, Any]] = []

    async def main() -> Metrics:
        tasks, metrics = supervisor(seen)

        async def work() -> None:
            raise ZeroDivisionError

        await asyncio.wait([tasks.once("an answer", work())])
        with pytest.raises(ZeroDivisionError):
            await awaited(work())
        await asyncio.sleep(0)
        return metrics

    assert run_virtually(main()).task_deaths == {"an answer": 1}
    assert len(seen) == 1


def test_a_callback_of_the_loop_that_raises_is_logged_and_counted() -> None:
    seen: list[dict[str, Any]] = []

    async def main() -> Metrics:
        tasks, metrics = supervisor(seen)
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(tasks.unhandled)
        loop.call_soon(lambda: 1 // 0)
        await asyncio.sleep(0)
        return metrics

    assert run_virtually(main()).callback_failures == {"loop": 1}
    assert isinstance(seen[0]["exc_info"], ZeroDivisionError)


# ---------------------------------------------------------------------------- a broker's tasks

PERIODIC = [
    ("sweep", Broker, "sweep"),
    ("loop watch", Broker, "watch_loop"),
    ("clock watch", Timekeeper, "look"),
    ("topics watch", Catalog, "watch"),
    ("lag watch", Lags, "look"),
    ("offsets topic", OffsetsTopic, "watch"),
    ("lane 0 floor", LaneWriter, "look_at_floor"),
    ("groups sweep", Coordinator, "_sweep"),
]


@pytest.mark.parametrize(("name", "owner", "method"), PERIODIC, ids=[one[0] for one in PERIODIC])
def test_every_task_of_a_broker_lives_again_and_the_others_never_noticed(
    name: str, owner: Any, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    really, lives = getattr(owner, method), []

    async def dies_once(*args: Any) -> None:
        lives.append(1)
        if len(lives) == 1:
            await asyncio.sleep(0)
            raise ZeroDivisionError("a bug")
        await really(*args)

    async def main() -> None:
        site = Site()
        site.create("t")
        monkeypatch.setattr(owner, method, dies_once)
        monkeypatch.setattr("lakelog.broker.all_lanes.FLOOR_MS", 1_000)
        groups = CoordinatorSettings(commit_interval_ms=0, sweep_interval_ms=1_000)
        async with broker(site, groups=groups, topics_refresh_ms=1_000) as running:
            client = await connect(running)
            await until(lambda: len(lives) >= 2)
            assert (await client.produce("t", 0, batch(b"x"))).error_code == 0
            metrics = running.services.metrics
            assert metrics.task_deaths == {name: 1}
            text = encode(metrics, await read_gauges(metrics))[0].decode()
            assert f'lakelog_task_deaths_total{{task="{name}"}} 1.0' in text
            await client.close()
        (death,) = deaths(site)
        assert (death["task"], death["error"]) == (name, "ZeroDivisionError('a bug')")
        assert isinstance(death["exc_info"], ZeroDivisionError)

    run_virtually(main())


@story
async def test_a_bug_in_a_flush_is_answered_as_unknown_and_the_lane_goes_on() -> None:
    site = Site(lanes=2)
    site.create("t", 4)

    async with broker(site) as running:
        client = await connect(running)
        (topic,) = [entry.topic for entry in running.services.catalog.entries()]
        lanes = {topic.lane(index): index for index in range(4)}
        site.fails = lambda op: _is_bundle_of(op, 0) and _raise()
        refused = await client.produce("t", lanes[0], batch(b"lost"))
        assert refused.error_code != 0, refused
        assert "lane 0 stopped, and begins again" in running.is_ready()[1]
        other = await client.produce("t", lanes[1], batch(b"other"))
        assert other.error_code == 0
        site.fails = lambda _: False
        again = await client.produce("t", lanes[0], batch(b"again"))
        assert again.error_code == 0
        assert running.is_ready() == (True, "ready")
        assert running.services.metrics.task_deaths == {"lane 0": 1}
        await client.close()
    assert sorted(site.stored("t")) == [b"again", b"other"]


def _is_bundle_of(op: object, lane: int) -> bool:
    stem = bundle_key(lane, 0).rpartition("/")[0]
    return isinstance(op, PutIfAbsent) and op.key.startswith(stem)


def _raise(*_: object) -> Any:
    raise ZeroDivisionError("a bug")


@story
async def test_a_callback_that_raises_stops_neither_the_lane_nor_the_callbacks_behind_it() -> None:
    site = Site()
    topic = site.create("t")
    async with broker(site) as running:
        (writer,) = running.services.lanes.values()
        await running.services.catalog.refresh()
        answered: list[Any] = []
        woken: list[int] = []

        writer._stored = _raise
        writer.watch(Watch((topic, 0), 0, _raise))
        writer.watch(Watch((topic, 0), 0, lambda: woken.append(1)))
        now_ms = running.services.clock.boot_ms()
        for done in (_raise, answered.append):
            writer.submit(new_append(topic, 0, batch(b"x")), done, now_ms)
        await until(lambda: answered and woken)
        client = await connect(running)
        assert (await client.produce("t", 0, batch(b"y"))).error_code == 0
        failures = running.services.metrics.callback_failures
        assert failures["lane 0"] >= 3
        assert failures["watch"] == 1
        assert not running.services.metrics.task_deaths
        await client.close()
    said = [one for one in site.log if one["event"] == "a callback failed"]
    assert all(isinstance(one["exc_info"], ZeroDivisionError) for one in said)
    assert {one["callback"] for one in said} == {"lane 0", "watch"}


def test_a_shard_whose_writer_dies_is_loaded_again_and_the_others_never_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    really = Ledger._save
    died: list[int] = []

    async def dies_once(self: Ledger, changed: Any) -> None:
        if not died:
            died.append(1)
            raise ZeroDivisionError("a bug")
        await really(self, changed)

    async def main() -> None:
        site = Site()
        topic = site.create("t")
        async with broker(site) as running:
            coordinator = running.services.coordinator
            monkeypatch.setattr(Ledger, "_save", dies_once)
            new = (NewOffset(TopicIdPartition(topic, 0), 7),)
            refused = await coordinator.commit("g", Commit(offsets=new))
            assert refused.codes == (Code.COORDINATOR_NOT_AVAILABLE,)
            assert (await coordinator.commit("other", Commit(offsets=new))).codes == (Code.NONE,)

            async def commits() -> bool:
                return (await coordinator.commit("g", Commit(offsets=new))).codes == (Code.NONE,)

            await until(commits)
            deaths_ = running.services.metrics.task_deaths
            assert sum(deaths_.values()) == 1
            assert all(name.startswith("shard ") for name in deaths_)
        assert "ZeroDivisionError" in deaths(site)[0]["error"]

    run_virtually(main())


# ---------------------------------------------------------------------------- connections


@pytest.mark.parametrize("key", [ApiKey.METADATA, ApiKey.PRODUCE, ApiKey.FETCH], ids=str)
def test_a_bug_in_a_handler_ends_one_connection_and_says_who_asked_for_what(
    key: ApiKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        site = Site()
        site.create("t")

        def bug(*_: Any) -> Any:
            raise ZeroDivisionError("a bug")

        async with broker(site) as running:
            client, other = await connect(running), await connect(running)
            await other.metadata("t")
            with monkeypatch.context() as patch:
                patch.setitem(HANDLERS, ApiKey.METADATA, bug)
                patch.setattr(Dispatcher, "_produce", bug)
                patch.setattr("lakelog.broker.api.fetch.Fetching._begin", bug)
                send(client, key)
                assert await client.is_closed()
            assert (await other.produce("t", 0, batch(b"x"))).error_code == 0
            for one in (client, other):
                await one.close()
            (said,) = [one for one in site.log if one["event"] == "a bug"]
            assert (said["api_key"], said["client_id"]) == (key, "site")
            assert isinstance(said["exc_info"], ZeroDivisionError)
            api = running.services.metrics.apis[said["api"]]
            assert api.errors["UNKNOWN_SERVER_ERROR"] == 1
            site.log.remove(said)

    run_virtually(main())


def send(client: Client, key: ApiKey) -> None:
    match key:
        case ApiKey.PRODUCE:
            client.send_produce({("t", 0): batch(b"x")})
        case ApiKey.FETCH:
            client.send_fetch({("t", 0): 0})
        case _:
            client.send(int(key), 0, topics=[])


def test_a_bug_behind_http_ends_one_answer_and_the_next_is_given() -> None:
    seen: list[dict[str, Any]] = []

    async def main() -> None:
        tasks, metrics = supervisor(seen)
        asked: list[int] = []

        def ready() -> tuple[bool, str]:
            asked.append(1)
            if len(asked) == 1:
                raise ZeroDivisionError("a bug")
            return True, "ready"

        async with HttpServer(BrokerStatus(metrics, ready), tasks=tasks) as server:
            assert await get(server.address) == b""
            assert (await get(server.address)).startswith(b"HTTP/1.1 200")
        assert metrics.task_deaths == {"HTTP": 1}

    run_virtually(main())
    assert seen[0]["task"] == "HTTP"


async def get(address: tuple[str, int]) -> bytes:
    reader, writer = await asyncio.open_connection(*address)
    writer.write(b"GET /readyz HTTP/1.1\r\n\r\n")
    try:
        return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


def test_a_bug_beside_the_keeper_starts_it_again() -> None:
    seen: list[dict[str, Any]] = []

    async def main() -> None:
        tasks, metrics = supervisor(seen)
        keeper = MaintenanceProcess(
            StoreSpec(url="/nowhere"),
            MaintenanceSettings(),
            metrics,
            tasks=tasks,
            led=lambda: range(4),
        )
        lives: list[int] = []

        async def one() -> int:
            lives.append(1)
            if len(lives) == 1:
                raise ZeroDivisionError("a bug")
            await asyncio.Event().wait()
            return 0

        keeper._one = one  # type: ignore[method-assign]
        async with keeper:
            await until(lambda: len(lives) == 2)
        assert metrics.task_deaths == {"keeper": 1}

    run_virtually(main())


def test_whoever_is_told_of_a_pass_and_raises_does_not_end_the_keeper() -> None:
    seen: list[dict[str, Any]] = []

    async def main() -> None:
        tasks, metrics = supervisor(seen)

        def told(_: MaintenancePass) -> None:
            raise ZeroDivisionError("a bug")

        keeper = MaintenanceProcess(
            StoreSpec(url="/nowhere"),
            MaintenanceSettings(),
            metrics,
            on_report=told,
            tasks=tasks,
            led=lambda: range(4),
        )
        keeper._take(MaintenancePass())
        assert metrics.callback_failures == {"keeper": 1}

    run_virtually(main())
