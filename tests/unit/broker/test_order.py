"""Requests of one connection that change something take effect in the order in which they came."""

import asyncio
from typing import Any

from kio.schema.errors import ErrorCode

from lakelog.broker.handlers import CHANGING, HANDLERS
from lakelog.names import topic_key
from lakelog.store import Get, PutIfMatch
from lakelog.wire import ApiKey
from tests.patience import HANGS_S, until
from tests.unit.broker.site import Client, Site, broker, connect, story, virtual_story
from tests.virtual_time import pass_time


def send_commit(client: Client, offset: int, *names: str, group: str = "g") -> int:
    row = {
        "partition_index": 0,
        "committed_offset": offset,
        "committed_leader_epoch": -1,
        "committed_metadata": "",
    }
    return client.send(
        ApiKey.OFFSET_COMMIT,
        8,
        group_id=group,
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=[{"name": name, "partitions": [row]} for name in names],
    )


def send_offset(client: Client, name: str = "orders", group: str = "g") -> int:
    topics = [{"name": name, "partition_indexes": [0]}]
    return client.send(ApiKey.OFFSET_FETCH, 7, group_id=group, topics=topics)


def offset_in(answer: Any) -> int:
    offset: int = answer.topics[0].partitions[0].committed_offset
    return offset


def send_join(client: Client, group: str, member_id: str = "") -> int:
    return client.send(
        ApiKey.JOIN_GROUP,
        3,
        group_id=group,
        session_timeout=10_000,
        rebalance_timeout=60_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[{"name": "range", "metadata": b""}],
    )


async def several(client: Client, count: int) -> list[Any]:
    async with asyncio.timeout(HANGS_S):
        return [(await client.answer())[1] for _ in range(count)]


def freeze_topic(site: Site, name: str) -> None:
    """Let nobody be told what there is to know of a topic."""
    site.freezes = lambda op: isinstance(op, Get) and op.key == topic_key(name)
    site.open.clear()


@virtual_story
async def test_an_older_commit_that_must_look_for_its_topic_does_not_undo_a_newer_one() -> None:
    site = Site()
    site.create("orders")
    async with broker(site) as running:
        client = await connect(running)
        site.create("new")  # By another process: this broker has to ask for it.
        freeze_topic(site, "new")
        send_commit(client, 5, "new", "orders")
        send_commit(client, 9, "orders")
        await pass_time(0.1)
        site.open.set()
        for answer in await several(client, 2):
            codes = [row.error_code for topic in answer.topics for row in topic.partitions]
            assert set(codes) == {ErrorCode.none}
        send_offset(client)
        (found,) = await several(client, 1)
        assert offset_in(found) == 9
        await client.close()


@story
async def test_what_is_read_behind_a_commit_is_what_was_committed() -> None:
    site = Site()
    site.create("orders")
    async with broker(site) as running:
        client = await connect(running)
        for offset in range(1, 6):
            send_commit(client, offset, "orders")
            send_offset(client)
            _, found = await several(client, 2)
            assert offset_in(found) == offset
        await client.close()


@virtual_story
async def test_commits_that_come_together_are_stored_together() -> None:
    """They take effect one after the other, and do not wait for the store one after the other."""
    site = Site()
    site.create("orders")
    async with broker(site) as running:
        client = await connect(running)
        send_commit(client, 1, "orders")
        await several(client, 1)
        before = site.count(PutIfMatch)
        site.freezes = lambda op: isinstance(op, PutIfMatch)
        site.open.clear()
        for offset in range(2, 52):
            send_commit(client, offset, "orders")
        await pass_time(0.2)
        site.open.set()
        await several(client, 50)
        assert site.count(PutIfMatch) - before <= 3
        send_offset(client)
        assert offset_in((await several(client, 1))[0]) == 51
        await client.close()


@story
async def test_who_waits_for_a_group_does_not_keep_its_own_commits_from_taking_effect() -> None:
    """A rebalance takes as long as its slowest member; answers wait, and nothing else does."""
    site = Site()
    site.create("orders")
    async with broker(site) as running:
        first, second = await connect(running), await connect(running)
        send_join(first, "busy")
        (joined,) = await several(first, 1)
        send_join(second, "busy")  # It waits until the first has joined again.
        send_commit(second, 7, "orders")

        async def is_committed() -> bool:
            send_offset(first)
            (found,) = await several(first, 1)
            return offset_in(found) == 7

        await until(is_committed)
        send_join(first, "busy", joined.member_id)
        await several(first, 1)
        assert len(await several(second, 2)) == 2
        await first.close()
        await second.close()


@virtual_story
async def test_a_topic_that_is_made_and_changed_in_one_breath_is_changed() -> None:
    site = Site()
    async with broker(site) as running:
        client = await connect(running)
        site.freezes = lambda op: "fresh" in getattr(op, "key", "")
        site.open.clear()
        wanted = {"name": "fresh", "num_partitions": 1, "replication_factor": 1}
        wanted |= {"assignments": [], "configs": []}
        client.send(
            ApiKey.CREATE_TOPICS,
            7,
            topics=[wanted],
            timeout=10_000,
            validate_only=False,
        )
        client.send(
            ApiKey.CREATE_PARTITIONS,
            3,
            topics=[{"name": "fresh", "count": 4, "assignments": None}],
            timeout=10_000,
            validate_only=False,
        )
        await pass_time(0.1)
        site.open.set()
        made, grown = await several(client, 2)
        assert made.topics[0].error_code is ErrorCode.none
        assert grown.results[0].error_code is ErrorCode.none
        await client.close()


def test_every_api_is_known_to_change_something_or_not() -> None:
    """Whoever adds one decides here: what is not listed may be overtaken."""
    assert {ApiKey(key) for key in HANDLERS.keys() - CHANGING} == {
        ApiKey.API_VERSIONS,
        ApiKey.BROKER_HEARTBEAT,
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        ApiKey.DESCRIBE_ACLS,
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        ApiKey.DESCRIBE_CLUSTER,
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.DESCRIBE_GROUPS,
        ApiKey.DESCRIBE_LOG_DIRS,
        ApiKey.DESCRIBE_PRODUCERS,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        ApiKey.FIND_COORDINATOR,
        ApiKey.INIT_PRODUCER_ID,  # A number that is drawn.
        ApiKey.LIST_GROUPS,
        ApiKey.LIST_OFFSETS,
        ApiKey.METADATA,  # It may make topics, which nobody can overtake before there are any.
        ApiKey.OFFSET_FETCH,
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        ApiKey.SASL_AUTHENTICATE,  # Where clients log in, their connection keeps the order.
        ApiKey.SASL_HANDSHAKE,
    }
