"""ListOffsets and its kin: where partitions begin and end, now and not a moment ago."""

import asyncio
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from lakelog.host import SystemClock
from lakelog.journal import FlushSettings
from lakelog.store import GetSuffix
from tests.patience import in_time
from tests.unit.broker.site import Site, batch, broker, connect, story

NOW_MS = SystemClock().now_ms()


@pytest.mark.parametrize("version", range(1, 12))
def test_every_version_finds_beginning_end_and_times(version: int) -> None:
    async def run() -> None:
        site = Site()
        site.create("t")
        times = [NOW_MS - 50, NOW_MS - 10, NOW_MS - 40, NOW_MS - 30]
        site.append("t", 0, batch(b"a", b"b", times=times[:2]))
        site.append("t", 0, batch(b"c", b"d", times=times[2:]))
        async with broker(site) as running:
            client = await connect(running)
            options: dict[str, Any] = {"replica_id": -1, "timeout": 1_000}
            if version >= 2:
                options["isolation_level"] = 0
            for asked, offset, timestamp in (
                (-1, 4, -1),
                (-2, 0, -1),
                (-3, 1, NOW_MS - 10),
                (0, 0, NOW_MS - 50),
                (NOW_MS - 50, 0, NOW_MS - 50),
                (NOW_MS - 49, 1, NOW_MS - 10),
                (NOW_MS - 10, 1, NOW_MS - 10),
                (NOW_MS - 9, -1, -1),
            ):
                part = {"partition_index": 0, "timestamp": asked, "current_leader_epoch": -1}
                topics = [{"name": "t", "partitions": [part]}]
                found = await client.ask(2, version, topics=topics, **options)
                row = found.topics[0].partitions[0]
                assert row.error_code is ErrorCode.none
                assert (row.offset, row.timestamp) == (offset, timestamp), asked
            await client.close()

    asyncio.run(run())


@story
async def test_the_end_is_the_end_now_also_of_what_others_append() -> None:
    site = Site()
    site.create("t")
    async with broker(site) as running:
        client = await connect(running)
        for count in range(1, 4):
            site.append("t", 0, batch(b"x"))
            assert (await client.list_offset("t", 0, -1)).offset == count
        await client.close()


@story
async def test_one_look_serves_everybody_who_asks_at_the_same_time() -> None:
    site = Site()
    site.create("t", 100)
    async with broker(site) as running:
        client = await connect(running)
        before = site.count(GetSuffix)
        parts = [
            {"partition_index": at, "timestamp": -1, "current_leader_epoch": -1}
            for at in range(100)
        ]
        found = await client.ask(
            2, 7, replica_id=-1, isolation_level=0, topics=[{"name": "t", "partitions": parts}]
        )
        assert {row.error_code for row in found.topics[0].partitions} == {ErrorCode.none}
        assert site.count(GetSuffix) - before <= 2
        await client.close()


@story
async def test_an_empty_partition_begins_and_ends_at_0_and_has_no_newest() -> None:
    site = Site()
    site.create("t")
    async with broker(site) as running:
        client = await connect(running)
        rows = [await client.list_offset("t", 0, asked) for asked in (-1, -2, -3, 0, -4)]
        assert [row.offset for row in rows] == [0, 0, -1, -1, 0]
        for name, index in (("t", 9), ("no", 0), ("bad name", 0)):
            row = await client.list_offset(name, index, -1)
            assert row.error_code is ErrorCode.unknown_topic_or_partition
        assert (await client.list_offset("t", 0, -99)).error_code is not ErrorCode.none
        await client.close()


@story
async def test_a_look_does_not_wait_for_the_company_that_batches_wait_for() -> None:
    site = Site()
    site.create("t")
    # A put at these prices is worth an hour of waiting, when the lane has spent what it had saved.
    async with broker(site, flush=FlushSettings(put_nano_usd=72_000_000)) as running:
        client, other = await connect(running), await connect(running)
        for _ in range(7):
            await client.produce("t", 0, batch(b"x"))
        client.send_produce({("t", 0): batch(b"x")})
        await client.writer.drain()
        loop = asyncio.get_running_loop()
        began = loop.time()
        assert (await other.list_offset("t", 0, -1)).offset == 7
        in_time(loop.time() - began < 1, loop.time() - began)
        for one in (client, other):
            await one.close()


@story
async def test_an_epoch_of_a_leader_ends_behind_everything_that_a_consumer_can_have() -> None:
    site = Site()
    site.create("t")
    site.append("t", 0, batch(b"x", b"y"))
    async with broker(site) as running:
        client = await connect(running)
        parts = [{"partition": at, "leader_epoch": 0, "current_leader_epoch": -1} for at in (0, 5)]
        for version in (2, 3, 4):
            replica = {} if version < 3 else {"replica_id": -1}
            topics = [{"topic": "t", "partitions": parts}]
            found = await client.ask(23, version, topics=topics, **replica)
            good, bad = found.topics[0].partitions
            assert (good.error_code, good.end_offset) == (ErrorCode.none, (1 << 63) - 1)
            assert bad.error_code is ErrorCode.unknown_topic_or_partition
        await client.close()


@story
async def test_producers_get_ids_and_transactions_a_clear_no() -> None:
    async with broker(Site()) as running:
        client = await connect(running)
        ids = set()
        for version in range(7):
            more: dict[str, Any] = {"producer_id": -1, "producer_epoch": -1} if version >= 3 else {}
            found = await client.ask(
                22, version, transactional_id=None, transaction_timeout=1_000, **more
            )
            assert (found.error_code, found.producer_epoch) == (ErrorCode.none, 0)
            assert found.producer_id >= 0
            ids.add(found.producer_id)
        assert len(ids) == 7
        found = await client.ask(22, 1, transactional_id="tx", transaction_timeout=1_000)
        assert found.error_code is ErrorCode.transactional_id_authorization_failed
        await client.close()


@pytest.mark.parametrize(("given", "node_id"), [(4, 4), (None, 1)])
def test_the_cluster_and_its_configs_are_described(given: int | None, node_id: int) -> None:
    async def run() -> None:
        site = Site()
        site.create("t", retention_ms="1000")
        async with broker(site, node_id=given) as running:
            client = await connect(running)
            for version in range(3):
                more: dict[str, Any] = {"endpoint_type": 1} if version >= 1 else {}
                if version >= 2:
                    more["include_fenced_brokers"] = False
                found = await client.ask(
                    60, version, include_cluster_authorized_operations=False, **more
                )
                (one,) = found.brokers
                assert (one.broker_id, one.port) == (node_id, running.ports["PLAINTEXT"])
                assert found.controller_id == node_id
            for version in range(1, 5):
                docs = {"include_documentation": True} if version >= 3 else {}
                asked = [
                    ("t", 2, None),
                    ("t", 2, ["retention.ms"]),
                    (str(node_id), 4, None),
                    ("no", 2, None),
                ]
                resources = [
                    {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
                    for name, kind, keys in asked
                ]
                found = await client.ask(
                    32, version, resources=resources, include_synonyms=True, **docs
                )
                full, few, node, gone = found.results
                assert {one.name: one.value for one in full.configs}["retention.ms"] == "1000"
                assert [one.name for one in few.configs] == ["retention.ms"]
                assert {one.name: one.value for one in node.configs}["node.id"] == str(node_id)
                assert gone.error_code is ErrorCode.unknown_topic_or_partition
            await client.close()

    asyncio.run(run())
