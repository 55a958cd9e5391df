"""Readiness, health and the log say what is true: of lanes, groups, topics, keeper and store."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from lakelog.broker import (
    BrokerStatus,
    HttpServer,
    Limits,
    MaintenancePass,
    MaintenanceProcess,
    MaintenanceSettings,
    Metrics,
)
from lakelog.broker.metrics.gauges import register_gauges
from lakelog.broker.server import Broker
from lakelog.cli.running import _health
from lakelog.errors import InvalidInputError
from lakelog.groups import Commit, NewOffset, TopicIdPartition
from lakelog.names import GROUPS_PREFIX, TOPICS_PREFIX
from lakelog.store import Op, PutIfAbsent, PutIfMatch, StoreSpec
from tests.patience import until
from tests.unit.broker.site import Site, batch, broker, connect, story, virtual_story
from tests.virtual_time import VirtualClock, pass_time, run_virtually

READY = (True, "ready")
SELDOM_MS = 60_000
"""Between beats: what a clock that is put forward shows is then not that there were none."""


class Clock(VirtualClock):
    """A clock that can be put forward."""

    ahead_ms = 0

    def boot_ms(self) -> int:
        return super().boot_ms() + self.ahead_ms


def is_bundle(op: Op) -> bool:
    return isinstance(op, PutIfAbsent) and op.key.endswith(".bundle")


def is_shard(op: Op) -> bool:
    return isinstance(op, PutIfMatch) and op.key.startswith(GROUPS_PREFIX)


def full(which: Callable[[Op], bool]) -> Callable[[Op], bool]:
    """A disk that refuses some of what is written, for good."""

    def fails(op: Op) -> bool:
        if which(op):
            raise InvalidInputError("No space left on device: make room")
        return False

    return fails


def commit(topic: bytes) -> Commit:
    return Commit(offsets=(NewOffset(TopicIdPartition(topic, 0), 1),))


@story
async def test_a_shard_that_cannot_be_stored_shows_until_it_can() -> None:
    site = Site()
    topic = site.create("t")
    async with broker(site) as running:
        assert running.is_ready() == READY
        site.fails = full(is_shard)
        waiting = running.services.coordinator.commit("g", commit(topic))
        await until(lambda: not running.is_ready()[0])
        why = running.is_ready()[1]
        assert "of the consumer groups cannot be stored: No space left on device" in why
        site.fails = lambda _: False
        await waiting
        assert running.is_ready() == READY


@story
async def test_a_shard_for_which_the_store_has_not_answered_for_long_shows() -> None:
    site, clock = Site(), Clock()
    topic = site.create("t")
    async with broker(site, clock=clock, heartbeat_ms=SELDOM_MS) as running:
        site.freezes = is_shard
        site.open.clear()
        waiting = running.services.coordinator.commit("g", commit(topic))
        await until(lambda: any(is_shard(op) for op in site.ops))
        assert running.is_ready() == READY
        clock.ahead_ms += 20_000
        assert "of the consumer groups has waited 20 s for the store" in running.is_ready()[1]
        site.open.set()
        await waiting
        assert running.is_ready() == READY


@virtual_story
async def test_topics_that_could_not_be_refreshed_for_long_show() -> None:
    site, clock = Site(), Clock()
    async with broker(site, clock=clock, heartbeat_ms=SELDOM_MS, topics_refresh_ms=20) as running:
        await pass_time(0.1)
        site.fails = lambda op: getattr(op, "prefix", "") == TOPICS_PREFIX
        clock.ahead_ms += 29_000
        assert running.is_ready() == READY
        clock.ahead_ms += 3_000
        assert "the list of topics could not be read for 3" in running.is_ready()[1]
        site.fails = lambda _: False
        await until(lambda: running.is_ready() == READY)


def test_a_lane_that_failed_is_tried_again_also_when_no_client_comes_any_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("lakelog.broker.all_lanes.FLOOR_MS", 20)

    async def main() -> None:
        site = Site()
        site.create("t")
        async with broker(site) as running:
            client = await connect(running)
            site.fails = full(is_bundle)
            assert (await client.produce("t", 0, batch(b"x"))).error_code == 7
            assert "lane 0 cannot store anything: No space left" in running.is_ready()[1]
            await pass_time(0.1)
            assert not running.is_ready()[0]
            site.fails = lambda _: False
            await until(lambda: running.is_ready() == READY)
            await client.close()

    run_virtually(main())


def test_a_task_that_is_dead_for_the_moment_is_named_and_clients_may_come() -> None:
    async def main() -> None:
        async with broker(Site()) as running:

            async def dies() -> None:
                raise ZeroDivisionError("a bug")

            running.services.tasks.keep("a watch", dies)
            await until(lambda: running.is_ready() != READY)
            ok, why = running.is_ready()
            assert ok
            assert why == "ready; a watch died: ZeroDivisionError('a bug'): see the log"

    asyncio.run(main())


# ---------------------------------------------------------------------------- over HTTP


async def get(address: tuple[str, int], path: str) -> tuple[int, str]:
    reader, writer = await asyncio.open_connection(*address)
    writer.write(f"GET {path} HTTP/1.1\r\n\r\n".encode())
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    return int(head.split()[1]), body.decode()


@story
async def test_what_is_wrong_shows_in_readiness_and_in_health() -> None:
    site = Site()
    topic = site.create("t")
    keeper = MaintenanceProcess(
        StoreSpec(url="/nowhere"), MaintenanceSettings(), Metrics(), led=lambda: range(4)
    )
    running: list[Broker] = []
    async with HttpServer(BrokerStatus(Metrics(), lambda: _health(running, [keeper]))) as server:
        assert await get(server.address, "/readyz") == (503, "starting\n")
        assert await get(server.address, "/healthz") == (200, "starting\n")
        async with broker(site) as started:
            running.append(started)
            assert await get(server.address, "/readyz") == (200, "ok\n")
            keeper._take(MaintenancePass(failures={"topic t": "it is damaged"}, failures_count=1))
            said = "ready; the last maintenance pass failed for 1: topic t: it is damaged\n"
            assert await get(server.address, "/readyz") == (200, said)
            assert await get(server.address, "/healthz") == (200, said)
            keeper._take(MaintenancePass())
            assert await get(server.address, "/readyz") == (200, "ok\n")
            site.fails = full(is_shard)
            waiting = started.services.coordinator.commit("g", commit(topic))
            await until(lambda: not started.is_ready()[0])
            for path, status in (("/readyz", 503), ("/healthz", 200)):
                answered, why = await get(server.address, path)
                assert answered == status
                assert "No space left on device" in why
            site.fails = lambda _: False
            await waiting


@story
async def test_a_bundle_without_an_answer_shows_in_readiness_and_in_its_gauge() -> None:
    site, clock = Site(), Clock()
    site.create("t")
    async with broker(site, clock=clock, heartbeat_ms=SELDOM_MS) as running:
        metrics = running.services.metrics
        register_gauges(metrics, running.services)
        client = await connect(running)
        async with HttpServer(BrokerStatus(metrics, lambda: _health([running], []))) as server:

            async def waited_s() -> float:
                _, shown = await get(server.address, "/metrics")
                (row,) = [line for line in shown.splitlines() if line.startswith(GAUGE)]
                return float(row.split()[-1])

            assert await waited_s() == 0
            site.freezes = is_bundle
            site.open.clear()
            client.send_produce({("t", 0): batch(b"x")}, timeout_ms=600_000)
            await until(lambda: any(is_bundle(op) for op in site.ops))
            assert (await get(server.address, "/readyz"))[0] == 200
            clock.ahead_ms += 20_000
            assert 20 <= await waited_s() < 80
            said = await get(server.address, "/readyz")
            assert said[0] == 503
            assert "lane 0 has waited 20 s for the store to take a bundle" in said[1]
            site.open.set()
            await client.answer()
            assert await get(server.address, "/readyz") == (200, "ok\n")
            assert await waited_s() == 0
        await client.close()


GAUGE = 'lakelog_lane_unanswered_put_seconds{lane="0"}'


def test_a_keeper_that_died_shows_until_a_pass_has_ended_well() -> None:
    async def main() -> None:
        keeper = MaintenanceProcess(
            StoreSpec(url="/nowhere"), MaintenanceSettings(), Metrics(), led=lambda: range(4)
        )
        lives: list[int] = []

        async def one() -> int:
            lives.append(1)
            return 9

        keeper._one = one  # type: ignore[method-assign]
        async with keeper:
            await until(lambda: lives)
            await until(keeper.trouble)
            assert "the maintenance process ended: it ended with 9" in keeper.trouble()
            keeper._take(MaintenancePass())
            assert keeper.trouble() == ""

    asyncio.run(main())


# ---------------------------------------------------------------------------- what clients are told


@story
async def test_the_log_says_what_producers_were_told_once_for_each_cause() -> None:
    site = Site()
    site.create("t")
    async with broker(site) as running:
        client = await connect(running)
        assert (await client.produce("t", 0, batch(b"fine"))).error_code == 0
        site.fails = full(is_bundle)
        for _ in range(5):
            told = await client.produce("t", 0, batch(b"x"))
            assert told.error_code == 7
            assert "No space left on device" in told.error_message
        site.fails = lambda _: False
        counters = running.services.metrics
        assert counters.apis["Produce"].errors == {"NONE": 1, "REQUEST_TIMED_OUT": 5}
        assert counters.topics["t"].failed_produce_requests == 5
        await client.close()
    said = [one for one in site.log if one["event"] == "batches were not stored"]
    assert sum(one["count"] for one in said) == 5
    assert len(said) <= 2
    assert {one["told"] for one in said} == {"REQUEST_TIMED_OUT"}
    assert all("No space left on device" in one["cause"] for one in said)


@virtual_story
async def test_a_broker_whose_store_fails_every_put_stops_soon_as_well() -> None:
    site = Site()
    site.create("t")
    async with broker(site, limits=Limits(drain_ms=30_000)) as running:
        client = await connect(running)
        site.fails = is_bundle
        client.send_produce({("t", 0): batch(b"y")}, timeout_ms=600_000)
        await until(lambda: running.services.lanes[0].health.unanswered_s)
        begun_s = asyncio.get_running_loop().time()
    assert asyncio.get_running_loop().time() - begun_s < 20
    (said,) = [one for one in site.log if "what was accepted" in one["event"]]
    assert (said["lane"], said["requests"]) == (0, 1)
    await client.close()


@virtual_story
async def test_a_broker_on_a_full_disk_stops_soon_and_says_what_was_not_stored() -> None:
    site = Site()
    topic = site.create("t")
    async with broker(site, limits=Limits(drain_ms=30_000)) as running:
        client = await connect(running)
        site.fails = full(lambda op: is_bundle(op) or is_shard(op))
        assert (await client.produce("t", 0, batch(b"x"))).error_code == 7
        waiting: Any = running.services.coordinator.commit("g", commit(topic))
        await until(lambda: "No space left" in running.services.coordinator.trouble())
        site.freezes = is_bundle
        site.open.clear()
        client.send_produce({("t", 0): batch(b"y")}, timeout_ms=600_000)
        await until(lambda: running.services.lanes[0].health.unanswered_s)
        begun_s = asyncio.get_running_loop().time()
    assert asyncio.get_running_loop().time() - begun_s < 15
    waiting.close()
    (said,) = [one for one in site.log if "what was accepted" in one["event"]]
    assert (said["lane"], said["requests"]) == (0, 1)
    assert "No space left" in said["why"]
    await client.close()
