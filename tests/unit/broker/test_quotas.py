"""Quotas in a broker: who is charged for what, what answers say, and who is not read meanwhile."""

import asyncio
import time
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from lakelog.broker import Broker, Limits
from lakelog.broker.client_quotas import QUOTAS_LOOK_S
from lakelog.broker.meters import METER, MUTE_S_MAX, Account, Meter
from lakelog.broker.metrics.quotas import QuotaCounters
from lakelog.broker.supervision import awaited
from lakelog.catalog import change_quotas
from lakelog.names import QUOTAS_KEY
from lakelog.security import Alteration, Bucket
from lakelog.store import Delete, Get, PutIfAbsent
from tests.unit.broker.site import Client, Site, batch, broker, connect, story, virtual_story
from tests.virtual_time import pass_time

ANY_CLIENT = (("client-id", None),)
THROTTLED = ErrorCode.throttling_quota_exceeded


def limit(site: Site, *entity: tuple[str, str | None], **rates: float) -> None:
    flaws = site.do(change_quotas([Alteration(entity, list(rates.items()))]))[1]
    assert not any(flaws.values()), flaws


def body(size: int) -> bytes:
    return batch(b"x" * size)


async def took(work: Any) -> tuple[float, Any]:
    loop = asyncio.get_running_loop()
    began = loop.time()
    found = await work
    return loop.time() - began, found


async def produce(client: Client, size: int, **options: Any) -> Any:
    number = client.send_produce({("t", 0): body(size)}, **options)
    answered, found = await client.answer()
    assert answered == number
    assert found.responses[0].partition_responses[0].error_code is ErrorCode.none
    return found


def ms(found: Any) -> float:
    return float(found.throttle_time.total_seconds() * 1000)


@virtual_story
async def test_a_producer_is_answered_at_once_and_not_read_for_as_long_as_it_was_told() -> None:
    site = Site()
    site.create("t")
    limit(site, *ANY_CLIENT, producer_byte_rate=10_000)
    async with broker(site) as running:
        client, other = await connect(running), await connect(running)
        assert ms(await produce(client, 5_000)) == 0
        waited_s, found = await took(produce(client, 25_000))
        assert waited_s < 0.1
        assert 2_000 <= ms(found) <= 2_300  # 30,000 and headers, of which 10,000 were there.
        assert running.services.metrics.quotas.muted == 1
        waited_s, _ = await took(produce(client, 1))
        assert waited_s == pytest.approx(ms(found) / 1000, abs=0.05)
        # Its client id has the quota, and so has the other connection: what it asks is told.
        await pass_time(5)
        assert running.services.metrics.quotas.muted == 0
        await produce(client, 15_000)
        assert ms(await produce(other, 1)) > 400
        await client.close()
        await other.close()


@virtual_story
async def test_over_a_minute_a_producer_gets_its_rate_and_others_wait_for_nothing() -> None:
    site = Site()
    site.create("t")
    limit(site, ("client-id", "site"), producer_byte_rate=50_000)
    async with broker(site) as running:
        client = await connect(running)
        loop = asyncio.get_running_loop()
        began, sent = loop.time(), 0
        while loop.time() < began + 60:
            # As clients do: they wait before the next request for as long as they were told.
            found = await produce(client, 8_000)
            sent += 8_000
            await pass_time(ms(found) / 1000)
        assert sent == pytest.approx(50_000 * 60, rel=0.05)
        await client.close()


@virtual_story
async def test_a_produce_without_answers_is_not_read_either() -> None:
    site = Site()
    site.create("t")
    limit(site, *ANY_CLIENT, producer_byte_rate=10_000)
    async with broker(site) as running:
        client = await connect(running)
        client.send_produce({("t", 0): body(40_000)}, acks=0)
        waited_s, _ = await took(client.metadata("t"))
        assert waited_s == pytest.approx(3, abs=0.2)
        await client.close()


@virtual_story
async def test_a_consumer_gets_what_its_bucket_holds_and_waits_for_more() -> None:
    site = Site()
    site.create("t")
    async with broker(site) as running:
        client = await connect(running)
        for _ in range(40):
            await produce(client, 5_000)
        await quota(client, ANY_CLIENT, consumer_byte_rate=20_000)
        loop = asyncio.get_running_loop()
        began, offset, told = loop.time(), 0, 0.0
        while offset < 40:
            found = await client.fetch({("t", 0): offset})
            (part,) = found.responses[0].partitions
            size = len(part.records)
            assert 0 < size <= 20_000
            offset += size // 5_000
            told = ms(found)
        # 200,000 bytes and headers, of which 20,000 were there at once.
        assert loop.time() - began + told / 1000 == pytest.approx(9.2, rel=0.05)
        await client.close()


def is_limited(running: Broker) -> bool:
    return running.services.quotas.is_set


async def quota(client: Client, entity: Any, **rates: float | None) -> None:
    found = await client.ask(
        49,
        1,
        entries=[
            {
                "entity": [{"entity_type": kind, "entity_name": name} for kind, name in entity],
                "ops": [
                    {"key": key, "value": value or 0.0, "remove": value is None}
                    for key, value in rates.items()
                ],
            }
        ],
        validate_only=False,
    )
    assert [row.error_code for row in found.entries] == [ErrorCode.none], found


async def create(client: Client, name: str, partitions: int, version: int = 7) -> Any:
    topic = {
        "name": name, "num_partitions": partitions, "replication_factor": 1,
        "assignments": [], "configs": [],
    }  # fmt: skip
    return await client.ask(19, version, topics=[topic], timeout=1_000, validate_only=False)


@virtual_story
async def test_topics_are_refused_by_those_who_know_the_code_and_delayed_for_others() -> None:
    site = Site()
    async with broker(site) as running:
        client = await connect(running)
        await quota(client, ANY_CLIENT, controller_mutation_rate=1)
        found = await create(client, "a", 21)
        assert (found.topics[0].error_code, ms(found)) == (ErrorCode.none, 0)
        found = await create(client, "b", 1)
        assert found.topics[0].error_code is THROTTLED
        assert ms(found) == pytest.approx(10_000, abs=50)
        waited_s, found = await took(create(client, "c", 11, version=5))
        assert waited_s == pytest.approx(10, abs=0.1)
        assert found.topics[0].error_code is ErrorCode.none
        assert ms(found) == pytest.approx(11_000, abs=50)
        waited_s, found = await took(client.ask(20, 5, topic_names=["a"], timeout=1_000))
        assert waited_s == pytest.approx(11, abs=0.1)
        assert found.responses[0].error_code is ErrorCode.none
        row = {"name": "c", "count": 12, "assignments": None}
        found = await client.ask(37, 3, topics=[row], timeout=1_000, validate_only=False)
        assert found.results[0].error_code is THROTTLED
        assert ms(found) == pytest.approx(21_000, abs=50)
        await client.close()


@virtual_story
async def test_operations_of_the_store_are_charged_to_who_asks_for_them() -> None:
    site = Site()
    async with broker(site) as running:
        client, other = await connect(running), await connect(running)
        await quota(other, ANY_CLIENT, store_request_rate=1)
        found = await create(client, "a", 4)
        assert ms(found) >= 1_000
        assert running.services.metrics.quotas.throttled_seconds["store_request_rate"] >= 1
        # Other brokers are told behind the answer, and that counts as well.
        waited_s, _ = await took(client.metadata("a"))
        assert ms(found) / 1000 - 0.05 <= waited_s <= 5
        # What costs the store nothing is not slowed.
        waited_s, _ = await took(other.metadata("a"))
        assert waited_s < 0.01
        await client.close()
        await other.close()


@virtual_story
async def test_the_time_that_requests_take_on_the_loop_is_charged() -> None:
    site = Site()
    for number in range(50):
        site.create(f"t{number}", 50)
    async with broker(site) as running:
        client = await connect(running)
        await quota(client, ANY_CLIENT, request_percentage=0.01)
        await client.metadata(*(f"t{number}" for number in range(50)))
        waited_s, _ = await took(client.metadata("t1"))
        assert waited_s > 0.1
        seconds = running.services.metrics.quotas.throttled_seconds["request_percentage"]
        assert seconds >= waited_s * 0.99
        await client.close()


@virtual_story
async def test_connections_of_an_address_wait_and_beyond_a_while_are_refused() -> None:
    site = Site()
    site.create("t")
    limit(site, ("ip", None), connection_creation_rate=1)
    limit(site, ("ip", "127.0.0.2"), connection_creation_rate=1000)
    async with broker(site) as running:
        one, two, three = [await connect(running) for _ in range(3)]
        for client, expected_s in (one, 0.0), (two, 1.0), (three, 1.0):
            waited_s, _ = await took(client.metadata("t"))
            assert waited_s == pytest.approx(expected_s, abs=0.1)
        free = await connect(running, source="127.0.0.2")
        waited_s, _ = await took(free.metadata("t"))
        assert waited_s < 0.1
        many = [await connect(running) for _ in range(int(MUTE_S_MAX) + 3)]
        assert await many[-1].is_closed()
        for client in (one, two, three, free, *many):
            await client.close()


@story
async def test_a_connection_waits_on_the_loop_of_real_brokers_as_well() -> None:
    site = Site()
    site.create("t")
    limit(site, ("ip", None), connection_creation_rate=5)
    async with broker(site) as running:
        clients = [await connect(running) for _ in range(6)]
        waited_s, _ = await took(clients[-1].metadata("t"))
        assert waited_s >= 0.1
        for client in clients:
            await client.close()


@virtual_story
async def test_the_time_of_work_is_counted_and_the_work_is_what_it_was() -> None:
    class Read:
        def adjust(self) -> None: ...

    async def busy(ends: str) -> str:
        began = time.perf_counter()
        while time.perf_counter() < began + 0.01:
            pass
        try:
            await pass_time(5)
        except asyncio.CancelledError:
            if ends != "stubborn":
                raise
            await pass_time(1)
        if ends == "badly":
            raise ValueError(ends)
        return ends

    counters, loop = QuotaCounters(), asyncio.get_running_loop()
    meter = Meter(Read(), counters)
    meter.account = Account({"request_percentage": Bucket(0.001, 0.0, loop.time())})
    METER.set(meter)
    assert await awaited(busy("well")) == "well"
    assert counters.throttled_seconds["request_percentage"] >= 5  # 10 ms, at a thousandth.
    with pytest.raises(ValueError, match="badly"):
        await awaited(busy("badly"))
    for ends, expected in ("well", None), ("stubborn", "stubborn"):
        task = awaited(busy(ends))
        await pass_time(1)
        task.cancel()
        if expected is None:
            with pytest.raises(asyncio.CancelledError):
                await task
        else:
            assert await task == expected
    meter.end()


@virtual_story
async def test_a_muted_connection_is_not_ended_for_its_silence_and_no_stop_waits_for_it() -> None:
    site = Site()
    site.create("t")
    limit(site, *ANY_CLIENT, producer_byte_rate=1_000)
    loop = asyncio.get_running_loop()
    async with broker(site, limits=Limits(drain_ms=3_000, idle_ms=2_000)) as running:
        client = await connect(running)
        found = await produce(client, 100_000)
        assert ms(found) == MUTE_S_MAX * 1000
        client.send(3, 12, topics=[], allow_auto_topic_creation=False,
                    include_topic_authorized_operations=False)  # fmt: skip
        client.writer.write(b"\0\0\1\0half of a frame")
        await pass_time(10)
        assert running.connections == 1
        waited_s, _ = await took(client.answer())
        assert waited_s == pytest.approx(MUTE_S_MAX - 10, abs=0.2)
        # What is still missing is told with the next request.
        other = await connect(running)
        assert ms(await produce(other, 1)) == MUTE_S_MAX * 1000
        began = loop.time()
    assert loop.time() - began < 3
    assert running.services.metrics.quotas.muted == 0
    await client.close()
    await other.close()


@virtual_story
async def test_a_change_is_known_here_at_once_and_elsewhere_when_brokers_look() -> None:
    site = Site()
    site.create("t")
    async with broker(site) as one, broker(site) as two:
        client, other = await connect(one), await connect(two)
        await quota(client, ANY_CLIENT, request_percentage=50, producer_byte_rate=10_000)
        assert [is_limited(one), is_limited(two)] == [True, False]
        await pass_time(QUOTAS_LOOK_S + 1)
        assert two.services.quotas.now == one.services.quotas.now
        await quota(other, ANY_CLIENT, request_percentage=None, producer_byte_rate=None)
        assert [is_limited(one), is_limited(two)] == [True, False]
        await pass_time(QUOTAS_LOOK_S + 1)
        assert not is_limited(one)
        reads = site.count(Get, QUOTAS_KEY)
        await pass_time(10 * QUOTAS_LOOK_S)
        assert site.count(Get, QUOTAS_KEY) - reads <= 2 * 11
        await client.close()
        await other.close()


@virtual_story
async def test_a_broker_whose_quotas_cannot_be_read_goes_on_with_those_it_knows() -> None:
    site = Site()
    site.create("t")
    limit(site, *ANY_CLIENT, producer_byte_rate=10_000)
    async with broker(site) as running:
        site.perform(Delete(QUOTAS_KEY))
        site.perform(PutIfAbsent(QUOTAS_KEY, b"{}"))
        await pass_time(3 * QUOTAS_LOOK_S)
        assert running.services.quotas.is_set
        assert running.services.metrics.quotas.unread >= 1
    async with broker(site) as running:
        assert not running.services.quotas.is_set
        client = await connect(running)
        await produce(client, 100)
        await client.close()


@virtual_story
async def test_a_client_has_the_quota_of_its_own_name() -> None:
    site = Site()
    site.create("t")
    limit(site, ("client-id", "another"), producer_byte_rate=1)
    limit(site, ("user", "ANONYMOUS"), consumer_byte_rate=1)
    async with broker(site) as running:
        client = await connect(running)
        assert ms(await produce(client, 10_000)) == 0
        found = await client.fetch({("t", 0): 0})
        assert ms(found) > 1_000
        await client.close()
