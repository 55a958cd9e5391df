"""What operators change: partitions, records, configs; and what they ask: sizes, producers."""

import asyncio
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from lakelog.catalog import read_topic
from lakelog.manifests import read_manifest
from lakelog.store import PutIfMatch
from tests.patience import until
from tests.unit.broker.site import (
    Client,
    Site,
    batch,
    broker,
    connect,
    records,
    story,
)

NONE = ErrorCode.none
TOPIC, BROKER = 2, 4
SET, DELETE, APPEND, SUBTRACT = range(4)


async def grow(
    client: Client, name: str, count: int, *, version: int = 3, **more: Any
) -> ErrorCode:
    given: dict[str, Any] = {"assignments": None, "validate_only": False, **more}
    row = {"name": name, "count": count, "assignments": given.pop("assignments")}
    found = await client.ask(37, version, topics=[row], timeout=1_000, **given)
    code = found.results[0].error_code
    assert isinstance(code, ErrorCode)
    return code


async def delete(client: Client, name: str, index: int, offset: int, version: int = 2) -> Any:
    part = {"partition_index": index, "offset": offset}
    found = await client.ask(
        21, version, topics=[{"name": name, "partitions": [part]}], timeout=1_000
    )
    return found.topics[0].partitions[0]


async def alter(client: Client, name: str, *rows: tuple[str, int, str | None], **more: Any) -> Any:
    configs = [
        {"name": config, "config_operation": operation, "value": value}
        for config, operation, value in rows
    ]
    given = {"resource_type": TOPIC, "version": 1, "validate_only": False, **more}
    resource = {
        "resource_type": given.pop("resource_type"), "resource_name": name, "configs": configs
    }  # fmt: skip
    found = await client.ask(44, given.pop("version"), resources=[resource], **given)
    return found.responses[0]


async def described(client: Client, name: str, *names: str) -> dict[str, tuple[str | None, int]]:
    resource = {
        "resource_type": TOPIC,
        "resource_name": name,
        "configuration_keys": list(names) or None,
    }
    found = await client.ask(
        32, 4, resources=[resource], include_synonyms=True, include_documentation=False
    )
    return {row.name: (row.value, row.config_source) for row in found.results[0].configs}


# ---------------------------------------------------------------------------- partitions


@pytest.mark.parametrize("version", range(4))
def test_a_topic_grows_and_its_new_partitions_are_written_and_read_at_once(version: int) -> None:
    async def run() -> None:
        site = Site(lanes=3)
        site.create("t", 2)
        async with broker(site) as running:
            client = await connect(running)
            await client.produce("t", 1, batch(b"before"))
            assert await grow(client, "t", 5, version=version) is NONE
            (topic,) = await client.metadata("t")
            assert len(topic.partitions) == 5
            row = await client.produce("t", 4, batch(b"after"))
            assert row.error_code is NONE
            found = await client.fetch_one("t", 4, 0)
            assert records(found.records) == [(0, b"after")]
            found = await client.fetch_one("t", 1, 0)
            assert records(found.records) == [(0, b"before")]
            await client.close()
        assert site.do(read_topic("t")).partitions == 5

    asyncio.run(run())


@story
async def test_a_topic_never_shrinks_and_says_so() -> None:
    site = Site()
    site.create("t", 3)
    async with broker(site) as running:
        client = await connect(running)
        assert await grow(client, "t", 3) is ErrorCode.invalid_partitions
        assert await grow(client, "t", 2) is ErrorCode.invalid_partitions
        assert await grow(client, "t", 100_001) is ErrorCode.invalid_partitions
        assert await grow(client, "no", 2) is ErrorCode.unknown_topic_or_partition
        assigned = [{"broker_ids": [1]}]
        code = await grow(client, "t", 5, assignments=assigned)
        assert code is ErrorCode.invalid_replica_assignment
        assert await grow(client, "t", 5, validate_only=True) is NONE
        assert site.do(read_topic("t")).partitions == 3
        assert await grow(client, "t", 4, assignments=assigned) is NONE
        await client.close()


@story
async def test_batches_keep_their_order_while_a_topic_grows_and_is_configured() -> None:
    """What stands in the turn of a partition must stand in it afterwards."""
    site = Site()
    site.create("t", 1)
    async with broker(site) as running:
        client, other = await connect(running), await connect(running)
        await client.produce("t", 0, batch(b"0"))
        before = running.services.catalog.known("t")
        assert before is not None
        partition = before.partition(0)
        assert await grow(other, "t", 2) is NONE
        assert (await alter(other, "t", ("retention.ms", SET, "1"))).error_code is NONE
        after = running.services.catalog.known("t")
        assert after is not None
        assert after.partition(0) is partition
        assert (after.topic.partitions, after.configs.retention_ms) == (2, 1)
        await client.close()
        await other.close()


@story
async def test_what_was_read_before_a_topic_grew_does_not_shrink_it() -> None:
    site = Site()
    site.create("t", 1)
    async with broker(site) as running:
        client = await connect(running)
        old = site.do(read_topic("t"))
        assert await grow(client, "t", 2) is NONE
        running.services.catalog._take(old)
        entry = running.services.catalog.known("t")
        assert entry is not None
        assert entry.topic.partitions == 2
        await client.close()


# ---------------------------------------------------------------------------- records


@pytest.mark.parametrize("version", range(3))
def test_records_before_an_offset_go_at_once_and_stay_gone(version: int) -> None:
    async def run() -> None:
        site = Site()
        site.create("t")
        async with broker(site) as running:
            client = await connect(running)
            await client.produce("t", 0, batch(b"0", b"1"))
            await client.produce("t", 0, batch(b"2", b"3"))
            row = await delete(client, "t", 0, 2, version)
            assert (row.error_code, row.low_watermark) == (NONE, 2)
            assert (await client.list_offset("t", 0, -2)).offset == 2
            found = await client.fetch_one("t", 0, 1)
            assert found.error_code is ErrorCode.offset_out_of_range
            assert records((await client.fetch_one("t", 0, 2)).records) == [(2, b"2"), (3, b"3")]
            row = await delete(client, "t", 0, 1, version)
            assert (row.error_code, row.low_watermark) == (NONE, 2)
            row = await delete(client, "t", 0, -1, version)
            assert (row.error_code, row.low_watermark) == (NONE, 4)
            await client.close()
        async with broker(site) as again:
            client = await connect(again)
            assert (await client.list_offset("t", 0, -2)).offset == 4
            assert (await client.produce("t", 0, batch(b"4"))).base_offset == 4
            assert records((await client.fetch_one("t", 0, 4)).records) == [(4, b"4")]
            await client.close()

    asyncio.run(run())


@story
async def test_records_that_are_not_there_or_must_stay_are_not_deleted() -> None:
    site = Site()
    site.create("t")
    site.create("kept", cleanup_policy="compact")
    site.create("both", cleanup_policy="compact,delete")
    async with broker(site) as running:
        client = await connect(running)
        for name in ("t", "kept", "both"):
            await client.produce(name, 0, batch(b"0"))
        outside = ErrorCode.offset_out_of_range
        assert (await delete(client, "t", 0, 2)).error_code is outside
        assert (await delete(client, "t", 0, -2)).error_code is outside
        assert (await delete(client, "kept", 0, 1)).error_code is ErrorCode.policy_violation
        assert (await delete(client, "both", 0, 1)).error_code is NONE
        missing = ErrorCode.unknown_topic_or_partition
        assert (await delete(client, "t", 1, 0)).error_code is missing
        assert (await delete(client, "no", 0, 0)).error_code is missing
        topic = site.do(read_topic("t"))
        assert site.do(read_manifest(topic.path_of(0))).log_start == 0
        await client.close()


# ---------------------------------------------------------------------------- configs


@story
async def test_a_config_that_is_changed_counts_from_then_on() -> None:
    site = Site()
    site.create("t", max_message_bytes="100000")
    async with broker(site) as running:
        client = await connect(running)
        assert (await client.produce("t", 0, batch(b"x" * 1000))).error_code is NONE
        row = await alter(client, "t", ("max.message.bytes", SET, "500"))
        assert row.error_code is NONE
        assert await described(client, "t", "max.message.bytes") == {
            "max.message.bytes": ("500", 1)
        }
        refused = (await client.produce("t", 0, batch(b"x" * 1000))).error_code
        assert refused is ErrorCode.message_too_large
        row = await alter(client, "t", ("max.message.bytes", DELETE, None))
        assert row.error_code is NONE
        assert await described(client, "t", "max.message.bytes") == {
            "max.message.bytes": ("1048588", 5)
        }
        row = await alter(client, "t", ("cleanup.policy", APPEND, "compact"), version=0)
        assert row.error_code is NONE
        assert site.do(read_topic("t")).configs == {"cleanup.policy": "delete,compact"}
        await client.close()


@story
async def test_two_brokers_that_change_different_configs_both_have_their_way() -> None:
    site = Site()
    site.create("t")
    async with broker(site) as one, broker(site) as two:
        first, second = await connect(one), await connect(two)
        site.open.clear()
        site.freezes = lambda op: isinstance(op, PutIfMatch)
        both = [
            asyncio.create_task(alter(first, "t", ("retention.ms", SET, "1"))),
            asyncio.create_task(alter(second, "t", ("retention.bytes", SET, "2"))),
        ]
        await until(lambda: site.count(PutIfMatch, "topics/t") == 2)
        site.open.set()
        assert [row.error_code for row in await asyncio.gather(*both)] == [NONE, NONE]
        configs = site.do(read_topic("t")).configs
        assert configs == {"retention.ms": "1", "retention.bytes": "2"}
        await first.close()
        await second.close()


@story
async def test_what_cannot_be_configured_is_refused_in_words_and_changes_nothing() -> None:
    site = Site()
    site.create("t")
    async with broker(site) as running:
        client = await connect(running)
        row = await alter(client, "t", ("retention.ms", SET, "soon"))
        assert row.error_code is ErrorCode.invalid_config
        assert "retention.ms" in row.error_message
        row = await alter(client, "t", ("retention.ms", 7, "1"))
        assert row.error_code is ErrorCode.invalid_config
        row = await alter(client, "t", ("retention.ms", SET, "1"), ("retention.ms", DELETE, None))
        assert row.error_code is ErrorCode.invalid_request
        row = await alter(client, "no", ("retention.ms", SET, "1"))
        assert row.error_code is ErrorCode.unknown_topic_or_partition
        row = await alter(client, "1", ("num.partitions", SET, "1"), resource_type=BROKER)
        assert row.error_code is ErrorCode.invalid_request
        assert "dynamically" in row.error_message
        row = await alter(client, "g", ("x", SET, "1"), resource_type=32)
        assert row.error_code is ErrorCode.invalid_request
        row = await alter(client, "t", ("retention.ms", SET, "1"), validate_only=True)
        assert row.error_code is NONE
        assert site.do(read_topic("t")).configs == {}
        await client.close()


@pytest.mark.parametrize("version", range(3))
def test_the_older_way_to_configure_replaces_everything(version: int) -> None:
    async def run() -> None:
        site = Site()
        site.create("t", retention_ms="1", retention_bytes="2")
        async with broker(site) as running:
            client = await connect(running)
            resource = {
                "resource_type": TOPIC,
                "resource_name": "t",
                "configs": [{"name": "retention.bytes", "value": "3"}],
            }
            found = await client.ask(33, version, resources=[resource], validate_only=False)
            assert found.responses[0].error_code is NONE
            found = await client.ask(33, version, resources=[resource] * 2, validate_only=False)
            assert found.responses[0].error_code is ErrorCode.invalid_request
            await client.close()
        assert site.do(read_topic("t")).configs == {"retention.bytes": "3"}

    asyncio.run(run())


# ---------------------------------------------------------------------------- asking


@pytest.mark.parametrize("version", range(1, 5))
def test_a_partition_is_as_large_as_what_was_sent(version: int) -> None:
    async def run() -> None:
        site = Site(lanes=2)
        site.create("t", 2)
        site.create("u")
        body = batch(b"x" * 5000)
        async with broker(site) as running:
            client = await connect(running)
            for _ in range(3):
                await client.produce("t", 1, body)
            found = await client.ask(35, version, topics=None)
            (result,) = found.results
            sizes = {
                (topic.name, part.partition_index): part.partition_size
                for topic in result.topics
                for part in topic.partitions
            }
            assert sizes == {("t", 0): 0, ("t", 1): 3 * len(body), ("u", 0): 0}
            await delete(client, "t", 1, 3)
            wanted = [{"topic": "t", "partitions": [1, 7]}, {"topic": "no", "partitions": [0]}]
            found = await client.ask(35, version, topics=wanted)
            (result,) = found.results
            (topic,) = result.topics
            rows = [(part.partition_index, part.partition_size) for part in topic.partitions]
            assert rows == [(1, 0)]
            await client.close()

    asyncio.run(run())


@story
async def test_producers_of_a_partition_are_told() -> None:
    site = Site()
    site.create("t", 2)
    async with broker(site) as running:
        client = await connect(running)
        await client.produce("t", 0, batch(b"a", b"b", producer=(7, 2, 0)))
        await client.produce("t", 0, batch(b"c", producer=(7, 2, 2)))
        await client.produce("t", 0, batch(b"d", producer=(3, 0, 0)))
        await client.produce("t", 0, batch(b"e"))
        found = await client.ask(61, 0, topics=[{"name": "t", "partition_indexes": [0, 1, 2]}])
        first, second, third = found.topics[0].partitions
        assert [
            (one.producer_id, one.producer_epoch, one.last_sequence)
            for one in first.active_producers
        ] == [(3, 0, 0), (7, 2, 2)]
        assert (second.error_code, second.active_producers) == (NONE, ())
        assert third.error_code is ErrorCode.unknown_topic_or_partition
        await client.close()


@story
async def test_topics_are_described_page_by_page_and_none_is_left_out() -> None:
    site = Site(lanes=2)
    for name, partitions in (("a", 3), ("b", 1), ("c", 4)):
        site.create(name, partitions)
    async with broker(site, node_id=5) as running:
        client = await connect(running)
        for limit in (1, 2, 3, 4, 2_000):
            seen: list[tuple[str, int]] = []
            cursor: dict[str, Any] | None = None
            while True:
                found = await client.ask(
                    75, 0, topics=[], response_partition_limit=limit, cursor=cursor
                )
                page = [
                    (topic.name, part.partition_index)
                    for topic in found.topics
                    for part in topic.partitions
                ]
                assert len(page) <= limit
                seen += page
                if found.next_cursor is None:
                    break
                cursor = {
                    "topic_name": found.next_cursor.topic_name,
                    "partition_index": found.next_cursor.partition_index,
                }
            assert seen == [
                *(("a", index) for index in range(3)), ("b", 0),
                *(("c", index) for index in range(4)),
            ]  # fmt: skip
        names = [{"name": "c"}, {"name": "no"}, {"name": "a"}]
        found = await client.ask(75, 0, topics=names, response_partition_limit=9, cursor=None)
        assert [(topic.name, topic.error_code) for topic in found.topics] == [
            ("a", NONE),
            ("c", NONE),
            ("no", ErrorCode.unknown_topic_or_partition),
        ]
        assert found.topics[0].partitions[0].leader_id == 5
        await client.close()


@story
async def test_nobody_is_authorized_by_rules() -> None:
    async with broker(Site()) as running:
        client = await connect(running)
        found = await client.ask(
            29, 3, resource_type_filter=1, resource_name_filter=None, pattern_type_filter=1,
            principal_filter=None, host_filter=None, operation=1, permission_type=1,
        )  # fmt: skip
        assert found.error_code is ErrorCode.security_disabled
        assert found.resources == ()
        await client.close()
