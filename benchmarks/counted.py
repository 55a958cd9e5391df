"""Requests that a log makes, counted: real brokers on a clock of their own, in which hours pass.

    python -m benchmarks.counted [--hours 2] [--rate BYTES] [--policy POLICY] [--brokers 3] ...

Brokers run as ``lakelog serve`` runs them at S3's prices, with maintenance, on a store in memory
whose requests take no time, but for puts of bundles. Producers and consumers are plain clients on
real sockets; consumers wait for records as they come. Nothing takes time but waiting, so that an
hour of silence is counted in seconds. It prints requests a day by what they are for, by kind, and
what they cost.
"""

import argparse
import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import structlog

from lakelog.broker import (
    Broker,
    BrokerSettings,
    Listener,
    MaintenanceSettings,
    Metrics,
    maintain_by_prices,
    maintain_led,
    run_broker,
    server,
    spend_by_prices,
)
from lakelog.broker import broker as running_broker
from lakelog.broker.metrics.purposes import purpose_of
from lakelog.catalog import create_topic, make_namespace, open_namespace
from lakelog.host import new_id
from lakelog.journal import FlushPolicy, FlushSettings, StoreTime, new_lanes
from lakelog.model import Rules
from lakelog.store import (
    OPERATION_KINDS,
    S3_PRICES,
    MemoryStore,
    Op,
    PutIfAbsent,
    Usage,
    run,
    run_async,
    working,
    working_async,
)
from tests import virtual_time
from tests.unit.broker.site import Client, batch, connect
from tests.virtual_time import VirtualClock, run_virtually

TOPIC = "load"
DAY_S = 86_400
WARM_UP_S = 700.0
"""Brokers have found each other, and a pass of maintenance has come."""
FETCH_WAIT_MS = 5_000
LOOP_TICK_MS = 10_000
STEP_S = 0.5
"""What only watches the loop of a real machine comes seldom here: it asks the store for nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What is run."""

    hours: float = 1.0
    bytes_s: int = 0
    """What producers send in a second, of all partitions; 0: nothing, for ever."""
    request_bytes: int = 25_000
    """Of each produce request."""
    partitions: int = 4
    lanes: int = 4
    brokers: int = 1
    policy: FlushPolicy | None = None
    put_ms: int = 100
    consumes: bool = True


@dataclass(slots=True)
class Counted:
    """What was counted while a load ran."""

    hours: float
    requests: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By what they are for, and by kind."""
    bytes_written: Counter[str] = field(default_factory=Counter)
    produced_bytes: int = 0
    waits_ms: list[float] = field(default_factory=list)

    def a_day(self) -> dict[tuple[str, str], float]:
        return {key: n * 24 / self.hours for key, n in self.requests.items()}

    def usd_a_day(self, *only: str) -> float:
        """Return dollars a day, in all or for some purposes."""
        usage = Counter[str]()
        for (what, kind), n in self.requests.items():
            if not only or what in only:
                usage[kind] += n
        return Usage(requests=usage).cost_usd(S3_PRICES) * 24 / self.hours

    def wait_ms(self, part: float) -> float:
        """Return within how many milliseconds a part of all requests was acknowledged."""
        waits = sorted(self.waits_ms)
        return waits[min(int(len(waits) * part), len(waits) - 1)] if waits else 0.0


class CountingStore(MemoryStore):
    """A store in memory that counts, and takes its time for bundles."""

    def __init__(self, put_ms: int) -> None:
        super().__init__(now_ms=VirtualClock().now_ms)
        self._put_s = put_ms / 1000
        self.requests: Counter[tuple[str, str]] = Counter()
        self.bytes_written: Counter[str] = Counter()

    def perform(self, op: Op) -> Any:
        self.requests[purpose_of(op), OPERATION_KINDS[type(op)]] += 1
        if isinstance(op, PutIfAbsent):
            self.bytes_written[purpose_of(op)] += op.size
        return super().perform(op)

    async def perform_async(self, op: Op) -> Any:
        if isinstance(op, PutIfAbsent) and op.key.endswith(".bundle"):
            await asyncio.sleep(self._put_s)
        return self.perform(op)


def count(load: Load) -> Counted:
    """Run a load for so many hours, and count."""
    kept = running_broker.TICK_MS, server.SWEEP_MS, virtual_time.STEP_S, virtual_time.LIMIT_S
    running_broker.TICK_MS, server.SWEEP_MS = LOOP_TICK_MS, 1_000
    virtual_time.STEP_S, virtual_time.LIMIT_S = STEP_S, 30.0 * DAY_S
    try:
        return run_virtually(_count(load))
    finally:
        running_broker.TICK_MS, server.SWEEP_MS, virtual_time.STEP_S, virtual_time.LIMIT_S = kept


async def _count(load: Load) -> Counted:
    store = CountingStore(load.put_ms)
    rules = Rules(lanes=load.lanes)
    run(make_namespace(new_id(), rules), working(store.perform))
    making = create_topic(
        TOPIC,
        topic_id=new_id(),
        partitions=load.partitions,
        lanes=load.lanes,
        now_ms=VirtualClock().now_ms(),
        configs={},
    )
    run(making, working(store.perform))
    found = Counted(load.hours)
    async with AsyncExitStack() as stack:
        brokers = [
            await stack.enter_async_context(_broker(store, load, node))
            for node in range(1, load.brokers + 1)
        ]
        await asyncio.sleep(10)
        tasks = [asyncio.create_task(_maintain(store, one, rules)) for one in brokers]
        tasks += [
            asyncio.create_task(one)
            for partition in range(load.partitions)
            for one in await _clients(load, brokers, partition, found)
        ]
        await asyncio.sleep(WARM_UP_S)
        before, before_bytes = store.requests.copy(), store.bytes_written.copy()
        found.produced_bytes, found.waits_ms = 0, []
        await asyncio.sleep(load.hours * 3600)
        found.requests = store.requests - before
        found.bytes_written = store.bytes_written - before_bytes
        for task in tasks:
            if task.done():
                task.result()
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return found


@asynccontextmanager
async def _broker(store: CountingStore, load: Load, node: int) -> AsyncIterator[Broker]:
    settings = BrokerSettings(
        node_id=node, listeners=(Listener(port=0),), flush=FlushSettings(policy=load.policy)
    )
    log = structlog.wrap_logger(
        structlog.PrintLogger(), wrapper_class=structlog.make_filtering_bound_logger(40)
    )
    priced = spend_by_prices(settings, S3_PRICES)
    metrics = Metrics(prices=S3_PRICES)
    async with run_broker(store, priced, log, metrics=metrics, clock=VirtualClock()) as running:
        yield running


async def _maintain(store: CountingStore, broker: Broker, rules: Rules) -> None:
    """Do what the maintenance process of a broker does, as often."""
    settings = maintain_by_prices(MaintenanceSettings(), S3_PRICES)
    lanes = new_lanes(rules, VirtualClock(), new_id, StoreTime())
    pause_s = settings.every_s
    while True:
        led = broker.services.cluster.led()
        await run_async(open_namespace(), working_async(store.perform_async))
        done = await run_async(
            maintain_led(lanes, settings.seal, led), working_async(store.perform_async)
        )
        assert not done.failures, done.failures
        sealed = done.sealed.size_bytes
        pause_s = settings.next_s(pause_s, sealed, is_behind=done.is_behind)
        await asyncio.sleep(pause_s)


async def _clients(load: Load, brokers: list[Broker], partition: int, found: Counted) -> list[Any]:
    """Return a producer and a consumer of a partition, at its leader."""
    (topic,) = [
        one.topic for one in brokers[0].services.catalog.entries() if one.topic.name == TOPIC
    ]
    lane = topic.lane(partition)
    (leader,) = [one for one in brokers if one.services.cluster.leads(lane)]
    flows: list[Any] = []
    if load.consumes:
        flows.append(_consume(await connect(leader), partition))
    if load.bytes_s:
        flows.append(_produce(await connect(leader), load, partition, found))
    return flows


async def _produce(client: Client, load: Load, partition: int, found: Counted) -> None:
    loop = asyncio.get_running_loop()
    every_s = load.request_bytes * load.partitions / load.bytes_s
    sent: dict[int, float] = {}
    body = batch(bytes(load.request_bytes - 80))

    async def answers() -> None:
        while True:
            number, _ = await client.answer()
            found.waits_ms.append((loop.time() - sent.pop(number)) * 1000)

    answering = asyncio.create_task(answers())
    await asyncio.sleep(every_s * partition / load.partitions)
    try:
        while True:
            sent[client.send_produce({(TOPIC, partition): body}, timeout_ms=60_000)] = loop.time()
            found.produced_bytes += len(body)
            await asyncio.sleep(every_s)
    finally:
        answering.cancel()


async def _consume(client: Client, partition: int) -> None:
    offset = 0
    while True:
        client.send_fetch({(TOPIC, partition): offset}, wait_ms=FETCH_WAIT_MS)
        _, answer = await client.answer()
        (one,) = answer.responses[0].partitions
        assert not one.error_code, one
        offset = max(offset, one.high_watermark)


def main() -> None:
    """Count, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=float, default=2.0)
    parser.add_argument("--rate", type=int, default=0, metavar="BYTES", help="a second")
    parser.add_argument("--policy", choices=[*FlushPolicy], default=None)
    for name, default in (("brokers", 3), ("lanes", 4), ("partitions", 12)):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    begun_s = time.perf_counter()
    load = Load(
        hours=given.hours,
        bytes_s=given.rate,
        policy=given.policy and FlushPolicy(given.policy),
        brokers=given.brokers,
        lanes=given.lanes,
        partitions=given.partitions,
    )
    found = count(load)
    for (what, kind), n in sorted(found.a_day().items()):
        usd = n * S3_PRICES[kind] / 1e9
        print(f"{what:12} {kind:7} {n:10.0f} a day   ${usd:.4f}")
    print(
        json.dumps(
            {
                "usd_a_day": round(found.usd_a_day(), 4),
                "p50_ms": round(found.wait_ms(0.5)),
                "p99_ms": round(found.wait_ms(0.99)),
                "took_s": round(time.perf_counter() - begun_s, 1),
            }
        )
    )


if __name__ == "__main__":
    main()
