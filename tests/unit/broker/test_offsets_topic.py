"""The topic of offsets that is not there: what groups commit, for tools that read it."""

import asyncio
import dataclasses
import struct
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints
from uuid import UUID

import pytest
from kio.index import load_request_schema
from kio.schema.errors import ErrorCode

from lakelog.broker.offset_records import partition_of_group
from lakelog.broker.offsets_topic import OFFSETS_TOPIC, PARTITIONS, TAIL_BYTES_MAX
from lakelog.broker.server import Broker
from lakelog.coordination import SHARDS
from lakelog.groups import Commit, NewOffset, TopicIdPartition
from lakelog.records import decode_batches
from lakelog.wire import APIS, Api
from tests.patience import until
from tests.unit.broker.site import Client, Site, batch, broker, connect, story

NONE = ErrorCode.none
HOME = partition_of_group("g", PARTITIONS)


@pytest.mark.parametrize(
    ("group", "hash_"),
    [("", 0), ("a", 97), ("billing-service", 1374429539), ("polygenelubricants", -(1 << 31))],
)
def test_a_group_is_where_java_would_put_it(group: str, hash_: int) -> None:
    assert partition_of_group(group, 50) == (hash_ & 0x7FFFFFFF) % 50


async def commit(running: Broker, group: str, name: str, *offsets: int) -> None:
    topic = await running.services.catalog.topic(name)
    assert topic is not None
    new = tuple(
        NewOffset(TopicIdPartition(topic.id, at), offset) for at, offset in enumerate(offsets)
    )
    await running.services.coordinator.commit(group, Commit(offsets=new))


def told(data: bytes | None) -> list[tuple[Any, ...]]:
    """Return commits as a tool reads them: group, topic, partition, offset; None: forgotten."""
    rows: list[tuple[Any, ...]] = []
    for one in decode_batches(data or b""):
        for record in one.records:
            key = bytes(record.key or b"")
            (version,) = struct.unpack_from(">h", key)
            group, at = text(key, 2)
            if version == 2:
                rows.append((group, record.value is not None))
                continue
            topic, at = text(key, at)
            (partition,) = struct.unpack_from(">i", key, at)
            offset = struct.unpack_from(">hq", record.value)[1] if record.value else None
            rows.append((group, topic, partition, offset))
    return rows


def text(data: bytes, at: int) -> tuple[str, int]:
    (size,) = struct.unpack_from(">h", data, at)
    return data[at + 2 : at + 2 + size].decode(), at + 2 + size


async def begin(client: Client) -> int:
    return int((await client.list_offset(OFFSETS_TOPIC, HOME, -2)).offset)


@story
async def test_what_was_committed_before_is_told_first_and_changes_follow() -> None:
    site = Site()
    site.create("t", 2)
    async with broker(site) as running:
        client = await connect(running)
        await commit(running, "g", "t", 3, 5)
        first = await begin(client)
        found = await client.fetch_one(OFFSETS_TOPIC, HOME, first)
        commits = [row for row in told(found.records) if len(row) == 4]
        assert sorted(commits) == [("g", "t", 0, 3), ("g", "t", 1, 5)]
        end = int((await client.list_offset(OFFSETS_TOPIC, HOME, -1)).offset)
        waiting = client.send_fetch({(OFFSETS_TOPIC, HOME): end}, wait_ms=20_000)
        await commit(running, "g", "t", 4)
        number, answer = await client.answer()
        assert number == waiting
        assert told(answer.responses[0].partitions[0].records) == [("g", "t", 0, 4)]
        await client.close()


@story
async def test_what_is_forgotten_is_told_as_well() -> None:
    site = Site()
    site.create("t")
    async with broker(site) as running:
        client, coordinator = await connect(running), running.services.coordinator
        await commit(running, "g", "t", 3)
        await begin(client)
        end = int((await client.list_offset(OFFSETS_TOPIC, HOME, -1)).offset)
        await coordinator.delete("g")
        found = await client.fetch_one(OFFSETS_TOPIC, HOME, end, wait_ms=20_000)
        assert ("g", "t", 0, None) in told(found.records)
        await client.close()


@story
async def test_it_is_internal_has_kafkas_partitions_and_is_not_listed() -> None:
    async with broker(Site()) as running:
        client = await connect(running)
        (topic,) = await client.metadata(OFFSETS_TOPIC)
        assert (topic.error_code, topic.is_internal) == (NONE, True)
        assert len(topic.partitions) == PARTITIONS
        found = await client.ask(3, 0, topics=[])
        assert found.topics == ()
        await client.close()


@story
async def test_nobody_can_write_it_or_make_it() -> None:
    async with broker(Site()) as running:
        client = await connect(running)
        refused = (await client.produce(OFFSETS_TOPIC, 0, batch(b"x"))).error_code
        assert refused is ErrorCode.invalid_topic_exception
        plain = {"num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
        rows = [{"name": OFFSETS_TOPIC, **plain}]
        made = await client.ask(19, 7, topics=rows, timeout=1_000, validate_only=False)
        assert made.topics[0].error_code is ErrorCode.topic_already_exists
        gone = await client.ask(
            20, 6, topics=[{"name": OFFSETS_TOPIC, "topic_id": None}], timeout=1_000
        )
        assert gone.responses[0].error_code is ErrorCode.unknown_topic_or_partition
        await client.close()


@story
async def test_who_read_before_a_broker_started_again_reads_on() -> None:
    site = Site()
    site.create("t")
    async with broker(site) as running:
        client = await connect(running)
        await commit(running, "g", "t", 3)
        await begin(client)
        before = int((await client.list_offset(OFFSETS_TOPIC, HOME, -1)).offset)
        await client.close()
    async with broker(site) as running:
        client = await connect(running)
        found = await client.fetch_one(OFFSETS_TOPIC, HOME, before)
        assert ("g", "t", 0, 3) in told(found.records)
        assert all(one.records[0].offset > before for one in decode_batches(found.records or b""))
        await client.close()


@story
async def test_a_partition_without_records_ends_at_zero_and_wakes_who_waits_there() -> None:
    site = Site()
    site.create("t")
    async with broker(site) as running:
        client = await connect(running)
        for when in (-2, -1):
            assert (await client.list_offset(OFFSETS_TOPIC, HOME, when)).offset == 0
        waiting = client.send_fetch({(OFFSETS_TOPIC, HOME): 0}, wait_ms=20_000)
        await commit(running, "g", "t", 4)
        number, answer = await client.answer()
        assert number == waiting
        assert ("g", "t", 0, 4) in told(answer.responses[0].partitions[0].records)
        assert await begin(client) == 0
        await client.close()


@story
async def test_groups_that_another_broker_coordinates_are_told_as_well() -> None:
    site = Site()
    site.create("t")
    one, other = (broker(site, node_id=node, heartbeat_ms=100) for node in (1, 2))
    async with one as first, other as second:
        both = first.services.coordinator, second.services.coordinator
        await until(lambda: sum(len(each.held()) for each in both) == SHARDS and both[1].held())
        names = [f"g{at}" for at in range(30)]
        for name in names:
            homes = [each for each in (first, second) if await is_home(each, name)]
            await commit(homes[0], name, "t", 7)
        for running in (first, second):
            client = await connect(running)
            found = set()
            for index in range(PARTITIONS):
                start = int((await client.list_offset(OFFSETS_TOPIC, index, -2)).offset)
                row = await client.fetch_one(OFFSETS_TOPIC, index, start)
                found |= {one[0] for one in told(row.records) if len(one) == 4}
            assert found == set(names)
            await client.close()


async def is_home(running: Broker, group: str) -> bool:
    """Whether a broker coordinates a group."""
    return await running.services.coordinator.find(group) == running.services.cluster.node_id


@story
async def test_it_takes_a_bounded_part_of_the_memory() -> None:
    site = Site()
    site.create("t", 100)
    async with broker(site) as running:
        client = await connect(running)
        await begin(client)
        entry = running.services.catalog.known(OFFSETS_TOPIC)
        assert entry is not None
        for number in range(250):
            await commit(running, "g", "t", *([number] * 100))
            await entry.look()  # type: ignore[attr-defined]
        partition = entry.partition(HOME)
        assert partition is not None
        assert await partition.size_bytes() <= TAIL_BYTES_MAX
        start = await begin(client)
        found = await client.fetch_one(OFFSETS_TOPIC, HOME, start, part_bytes=1 << 22)
        assert told(found.records)[-1][3] == 249
        await client.close()


# ---------------------------------------------------------------------------- every API


def filled(kind: Any, named: str, id_: UUID) -> dict[str, Any]:
    """Return the fields of a message in which every text is a name, every list has one row, and
    the rest is the plainest there is.
    """
    hints = get_type_hints(kind)
    return {one.name: _filled(one, hints[one.name], named, id_) for one in dataclasses.fields(kind)}


def _filled(one: "dataclasses.Field[Any]", hint: Any, named: str, id_: UUID) -> Any:
    wire = str(one.metadata.get("kafka_type", ""))
    options = [part for part in get_args(hint) if part is not NoneType]
    inner = options[0] if NoneType in get_args(hint) and get_origin(hint) is not tuple else hint
    is_list = get_origin(inner) is tuple
    if one.name in PLAIN:
        value: Any = PLAIN[one.name]
    elif not wire:
        value = filled(get_args(inner)[0] if is_list else inner, named, id_)
    else:
        plain = {"string": named, "uuid": id_, "records": batch(b"x"), "bytes": b"", "bool": False}
        value = plain.get(wire, 0)
    return [value] if is_list else value


PLAIN = {"replica_id": -1, "acks": -1, "resource_type": 2, "transactional_id": None}
"""Where 0 or a text would say that somebody else asks, or about something else."""


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_every_api_answers_for_it(api: Api) -> None:
    async def main() -> None:
        site = Site()
        async with broker(site) as running:
            client = await connect(running)
            await client.metadata(OFFSETS_TOPIC)
            for version in range(api.min_version, api.max_version + 1):
                kind = load_request_schema(int(api.key), version)
                fields = filled(kind, OFFSETS_TOPIC, client.ids[OFFSETS_TOPIC])
                await client.ask(int(api.key), version, **fields)
            await client.close()
        failed = [one for one in site.log if one["event"] in ("a bug", "a request failed")]
        assert not failed

    asyncio.run(main())
