"""Metadata, CreateTopics, DeleteTopics: topics that this broker makes, and those of others."""

import asyncio
import time
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from lakelog.names import CLUSTER_KEY
from lakelog.store import Get, ListPage
from tests.patience import in_time
from tests.unit.broker.site import Client, Site, batch, broker, connect, story, virtual_story
from tests.virtual_time import pass_time

NONE = ErrorCode.none


async def create(client: Client, *topics: dict[str, Any], version: int = 7, **more: Any) -> Any:
    plain = {"num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
    rows = [{**plain, **topic} for topic in topics]
    found = await client.ask(
        19, version, topics=rows, timeout=1_000, **{"validate_only": False, **more}
    )
    return found.topics


async def all_topics(client: Client, version: int = 12) -> list[str]:
    found = await client.ask(
        3,
        version,
        topics=None,
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )
    return [topic.name for topic in found.topics]


@pytest.mark.parametrize("version", range(4, 14))
def test_metadata_of_any_version_names_brokers_and_partitions(version: int) -> None:
    async def run() -> None:
        site = Site(lanes=2)
        site.create("t", 3)
        async with broker(site, node_id=7) as running:
            client = await connect(running)
            (topic,) = await client.metadata("t", version=version)
            assert topic.error_code is NONE
            assert [part.partition_index for part in topic.partitions] == [0, 1, 2]
            assert {part.leader_id for part in topic.partitions} == {7}
            assert await all_topics(client, version) == ["t"]
            await client.close()

    asyncio.run(run())


@story
async def test_nobody_is_told_of_every_topic_when_asking_for_none() -> None:
    site = Site()
    site.create("t")
    async with broker(site) as running:
        client = await connect(running)
        assert await client.metadata() == ()
        found = await client.ask(3, 0, topics=[])
        assert [topic.name for topic in found.topics] == ["t"]
        found = await client.ask(3, 1, topics=[])
        assert found.topics == ()
        await client.close()


@story
async def test_a_topic_is_made_when_client_and_broker_allow_it() -> None:
    site = Site()
    async with broker(site, partitions=3) as running:
        client = await connect(running)
        (row,) = await client.metadata("new")
        assert row.error_code is ErrorCode.unknown_topic_or_partition
        (row,) = await client.metadata("new", create=True)
        assert (row.error_code, len(row.partitions)) == (NONE, 3)
        (row,) = await client.metadata("bad name", create=True)
        assert row.error_code is ErrorCode.invalid_topic_exception
        await client.close()
    async with broker(site, auto_create_topics=False) as running:
        client = await connect(running)
        (row,) = await client.metadata("other", create=True)
        assert row.error_code is ErrorCode.unknown_topic_or_partition
        await client.close()


@story
async def test_many_who_ask_for_a_new_topic_at_once_get_one() -> None:
    site = Site()
    async with broker(site) as running:
        clients = [await connect(running) for _ in range(10)]
        rows: list[Any] = []
        for _ in range(3):
            rows = await asyncio.gather(*(one.metadata("new", create=True) for one in clients))
        assert {row.error_code for (row,) in rows} == {NONE}
        assert len({row.topic_id for (row,) in rows}) == 1
        for client in clients:
            await client.close()


@story
async def test_topics_are_found_by_id() -> None:
    site = Site()
    id_ = UUID(bytes=site.create("t"))
    async with broker(site) as running:
        client = await connect(running)
        late = UUID(bytes=site.create("late"))
        found = await client.ask(
            3,
            12,
            topics=[{"topic_id": one, "name": None} for one in (id_, late, UUID(int=5))],
            allow_auto_topic_creation=True,
            include_topic_authorized_operations=False,
        )
        assert [(row.name, row.error_code) for row in found.topics] == [
            ("t", NONE),
            ("late", NONE),
            (None, ErrorCode.unknown_topic_id),
        ]
        await client.close()


@virtual_story
async def test_topics_that_another_process_makes_and_deletes_are_noticed() -> None:
    site = Site()
    site.create("old")
    async with broker(site, topics_refresh_ms=100) as running:
        client = await connect(running)
        assert await all_topics(client) == ["old"]
        site.create("new")
        site.delete("old")
        await pass_time(0.5)
        assert await all_topics(client) == ["new"]
        lists, gets = site.count(ListPage), site.count(Get)
        namespace = site.count(Get, CLUSTER_KEY)
        await pass_time(0.5)
        assert site.count(ListPage) - lists <= 6
        looks = site.count(Get, CLUSTER_KEY) - namespace
        assert looks <= 6, "lanes may have been added"
        assert site.count(Get) == gets + looks, "nothing has changed"
        again = UUID(bytes=site.create("old"))
        (row,) = await client.metadata("old")
        assert row.topic_id == again, "its next incarnation is asked for"
        await client.close()


@virtual_story
async def test_when_the_store_is_out_topics_that_are_not_known_are_not_said_to_be_absent() -> None:
    site = Site()
    site.create("t")
    async with broker(site) as running:
        client = await connect(running)
        site.fails = lambda op: isinstance(op, Get | ListPage)
        answers = asyncio.create_task(client.metadata("t", "other"))
        await pass_time(1)
        if answers.done():
            rows = answers.result()
            assert rows[0].error_code is NONE
            assert rows[1].error_code is not ErrorCode.unknown_topic_or_partition
        site.fails = lambda _: False
        await asyncio.wait_for(answers, 40)
        await client.close()


# ---------------------------------------------------------------------------- making


@pytest.mark.parametrize("version", range(2, 8))
def test_a_topic_is_made_by_any_version(version: int) -> None:
    async def run() -> None:
        site = Site()
        async with broker(site, partitions=2) as running:
            client = await connect(running)
            configs = [{"name": "retention.ms", "value": "1000"}]
            made = {"name": "t", "num_partitions": 3, "configs": configs}
            (row,) = await create(client, made, version=version)
            assert row.error_code is NONE
            if version >= 5:
                assert (row.num_partitions, row.replication_factor) == (3, 1)
                assert ("retention.ms", "1000") in {(one.name, one.value) for one in row.configs}
            (row,) = await create(client, {"name": "t"}, version=version)
            assert row.error_code is ErrorCode.topic_already_exists
            (row,) = await client.metadata("t")
            assert len(row.partitions) == 3
            made_ = await client.produce("t", 2, batch(b"x"))
            assert made_.error_code is NONE
            await client.close()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        ({"name": ""}, ErrorCode.invalid_topic_exception),
        ({"name": ".."}, ErrorCode.invalid_topic_exception),
        ({"name": "a b"}, ErrorCode.invalid_topic_exception),
        ({"name": "t", "num_partitions": 0}, ErrorCode.invalid_partitions),
        ({"name": "t", "num_partitions": 1_000_000}, ErrorCode.invalid_partitions),
        ({"name": "t", "replication_factor": 0}, ErrorCode.invalid_replication_factor),
        (
            {"name": "t", "num_partitions": -1, "replication_factor": 0},
            ErrorCode.invalid_replication_factor,
        ),
        (
            {"name": "t", "configs": [{"name": "retention.ms", "value": "soon"}]},
            ErrorCode.invalid_config,
        ),
        ({"name": "t", "configs": [{"name": "no.such", "value": "1"}]}, ErrorCode.invalid_config),
        (
            {"name": "t", "configs": [{"name": "retention.ms", "value": None}]},
            ErrorCode.invalid_config,
        ),
        (
            {
                "name": "t",
                "num_partitions": -1,
                "assignments": [{"partition_index": 1, "broker_ids": [1]}],
            },
            ErrorCode.invalid_replica_assignment,
        ),
    ],
)
def test_a_topic_that_may_not_be_is_refused_and_not_made(
    topic: dict[str, Any], code: ErrorCode
) -> None:
    async def run() -> None:
        site = Site()
        async with broker(site) as running:
            client = await connect(running)
            bad, good = await create(client, topic, {"name": "good"})
            assert (bad.error_code, good.error_code) == (code, NONE)
            assert bad.error_message
            assert await all_topics(client) == ["good"]
            await client.close()

    asyncio.run(run())


@story
async def test_validate_only_makes_nothing() -> None:
    site = Site()
    site.create("there")
    async with broker(site) as running:
        client = await connect(running)
        rows = await create(client, {"name": "t"}, {"name": "there"}, validate_only=True)
        assert [row.error_code for row in rows] == [NONE, ErrorCode.topic_already_exists]
        assert await all_topics(client) == ["there"]
        await client.close()


@virtual_story
async def test_a_topic_that_is_named_twice_is_refused_and_many_names_are_soon_looked_at() -> None:
    site = Site()
    async with broker(site) as running:
        client = await connect(running)
        rows = await create(client, {"name": "t"}, {"name": "u"}, {"name": "t"})
        codes = [row.error_code for row in rows]
        assert codes.count(ErrorCode.invalid_request) >= 1
        assert codes[1] is NONE
        other = await connect(running)
        took: dict[int, float] = {}
        for count in (1_250, 10_000):
            began = time.process_time()
            many = asyncio.create_task(
                create(client, *({"name": f"bad name {at}"} for at in range(count)))
            )
            await pass_time(0.1)
            await all_topics(other)
            await many
            took[count] = time.process_time() - began
        in_time(took[10_000] < 24 * took[1_250], "eight times the names, not the square of it")
        for one in (client, other):
            await one.close()


@story
async def test_any_replication_factor_and_assignment_is_taken() -> None:
    site = Site()
    async with broker(site) as running:
        client = await connect(running)
        assignments = [{"partition_index": at, "broker_ids": [1, 2, 3]} for at in range(3)]
        rows = await create(
            client,
            {"name": "a", "num_partitions": 2, "replication_factor": 3},
            {"name": "b", "num_partitions": -1, "replication_factor": -1},
            {
                "name": "c",
                "num_partitions": -1,
                "replication_factor": -1,
                "assignments": assignments,
            },
        )
        assert [(row.error_code, row.num_partitions) for row in rows] == [
            (NONE, 2),
            (NONE, 1),
            (NONE, 3),
        ]
        await client.close()


# ---------------------------------------------------------------------------- deleting


@pytest.mark.parametrize("version", range(1, 7))
def test_a_topic_is_deleted_by_any_version(version: int) -> None:
    async def run() -> None:
        site = Site(lanes=3)
        site.create("t", 5)
        async with broker(site) as running:
            client = await connect(running)
            names: dict[str, Any] = {"topic_names": ["t", "no"]}
            if version >= 6:
                names = {"topics": [{"name": one, "topic_id": None} for one in ("t", "no")]}
            found = await client.ask(20, version, timeout=1_000, **names)
            codes = [row.error_code for row in found.responses]
            assert codes == [NONE, ErrorCode.unknown_topic_or_partition]
            assert await all_topics(client) == []
            await client.close()

    asyncio.run(run())


@story
async def test_a_topic_is_deleted_by_its_id_and_the_next_of_its_name_is_another() -> None:
    site = Site()
    id_ = UUID(bytes=site.create("t"))
    async with broker(site) as running:
        client = await connect(running)
        await client.produce("t", 0, batch(b"old"))
        ids = [id_, UUID(int=9)]
        found = await client.ask(
            20, 6, topics=[{"name": None, "topic_id": one} for one in ids], timeout=1_000
        )
        rows = [(row.error_code, row.name) for row in found.responses]
        assert rows == [(NONE, "t"), (ErrorCode.unknown_topic_id, None)]
        await create(client, {"name": "t"})
        (row,) = await client.metadata("t")
        assert row.topic_id != id_
        made = await client.produce("t", 0, batch(b"new"))
        assert made.base_offset == 0
        client.ids["t"] = id_
        made = await client.produce("t", 0, batch(b"lost"), version=13)
        assert made.error_code is ErrorCode.unknown_topic_id
        await client.close()
    assert site.stored("t") == [b"new"]


@story
async def test_assignments_make_no_more_partitions_than_a_number_may() -> None:
    site = Site()
    async with broker(site) as running:
        client = await connect(running)
        rows = [{"partition_index": at, "broker_ids": [1]} for at in range(10_001)]
        many = {"name": "t", "num_partitions": -1, "replication_factor": -1, "assignments": rows}
        (made,) = await create(client, many)
        assert made.error_code is ErrorCode.invalid_partitions
        (made,) = await create(client, {**many, "assignments": rows[:3]})
        assert made.error_code is NONE
        await client.close()
