"""What one request can make the store do: little for nothing, and never without an end."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from lakelog.broker import Limits, allowance
from lakelog.broker.lookups import NAMES_MAX
from lakelog.catalog import list_topics
from lakelog.host import new_id
from lakelog.store import Get, GetRange, GetSuffix, Head, ListPage, Op, PutIfAbsent
from tests.patience import in_time
from tests.unit.broker.site import Client, Site, batch, broker, connect, story, virtual_story
from tests.virtual_time import pass_time

NONE = ErrorCode.none
EARLIEST = -2


@contextmanager
def asked(site: Site) -> Iterator[Counter[type[Op]]]:
    """Count what the store is asked for."""
    found: Counter[type[Op]] = Counter()
    before = len(site.ops)
    try:
        yield found
    finally:
        found.update(type(op) for op in site.ops[before:])


def reads(found: Counter[type[Op]]) -> int:
    return found[Get] + found[GetRange] + found[GetSuffix] + found[Head]


def parts(*indexes: int, **more: Any) -> list[dict[str, Any]]:
    return [{"partition_index": index, **more} for index in indexes]


# ---------------------------------------------------------------------------- topics


@story
async def test_a_request_for_three_hundred_unknown_ids_lists_topics_once() -> None:
    site = Site()
    async with broker(site) as running:
        client = await connect(running)
        with asked(site) as ops:
            found = await client.ask(
                3, 12,
                topics=[{"topic_id": UUID(bytes=new_id()), "name": None} for _ in range(300)],
                allow_auto_topic_creation=False,
                include_cluster_authorized_operations=False,
                include_topic_authorized_operations=False,
            )  # fmt: skip
        assert {row.error_code for row in found.topics} == {ErrorCode.unknown_topic_id}
        assert len(found.topics) == 300
        in_time(ops[ListPage] == 1, ops)
        client.ids = {f"t{at}": UUID(bytes=new_id()) for at in range(300)}
        wanted = {(name, 0): 0 for name in client.ids}
        with asked(site) as ops:
            answer = await client.fetch(wanted, version=13)
        codes = {row.error_code for topic in answer.responses for row in topic.partitions}
        assert codes == {ErrorCode.unknown_topic_id}
        in_time(ops[ListPage] <= 1, ops)
        await client.close()


@story
async def test_a_request_for_a_thousand_unknown_names_costs_a_listing() -> None:
    site = Site()
    async with broker(site) as running:
        client = await connect(running)
        with asked(site) as ops:
            rows = await client.metadata(*(f"no-{at}" for at in range(1_000)))
        assert {row.error_code for row in rows} == {ErrorCode.unknown_topic_or_partition}
        in_time(reads(ops) <= NAMES_MAX and ops[ListPage] == 1, ops)
        await client.close()


@story
async def test_a_name_that_is_said_twice_is_answered_once() -> None:
    site = Site()
    site.create("t")
    async with broker(site) as running:
        client = await connect(running)
        with asked(site) as ops:
            rows = await client.metadata("t", "no", "t", "no")
        assert [row.name for row in rows] == ["t", "no"]
        assert reads(ops) == 1
        await client.close()


@virtual_story
async def test_naming_topics_makes_few_of_them_and_the_rest_when_they_are_named_again() -> None:
    site = Site()
    limits = Limits(auto_created_per_s=5, drain_ms=1_000)
    async with broker(site, limits=limits) as running:
        client = await connect(running)
        names = [f"new-{at}" for at in range(50)]
        with asked(site) as ops:
            rows = await client.metadata(*names, create=True)
        codes = Counter(row.error_code for row in rows)
        assert set(codes) == {NONE, ErrorCode.leader_not_available}
        assert ops[PutIfAbsent] == codes[NONE] == 5, "so many in one request"
        for _ in range(100):
            rows = await client.metadata(*names[:8], create=True)
            if {row.error_code for row in rows} == {NONE}:
                break
            await pass_time(0.1)
        assert {row.error_code for row in rows} == {NONE}, "clients get there"
        clients = [await connect(running) for _ in range(10)]
        with asked(site) as ops:
            await asyncio.gather(
                *(one.metadata(f"n-{at}", create=True) for at, one in enumerate(clients))
            )
        in_time(ops[PutIfAbsent] <= 5, "so many in a second, whoever asks")
        for one in (client, *clients):
            await one.close()
    told = [event for event in site.log if event["event"] == "topics were not made"]
    assert any("5 topics were made in a second" in event["cause"] for event in told)


async def created(client: Client, name: str, partitions: int, **more: Any) -> Any:
    row = {
        "name": name, "num_partitions": partitions, "replication_factor": 1,
        "assignments": [], "configs": [],
    }  # fmt: skip
    found = await client.ask(19, 7, topics=[row], timeout=1_000, validate_only=False, **more)
    return found.topics[0]


@story
async def test_a_broker_makes_no_more_topics_than_its_limit() -> None:
    site = Site()
    site.create("t", 2)
    limits = Limits(topics=2, partitions=10, drain_ms=1_000)
    async with broker(site, limits=limits) as running:
        client = await connect(running)
        row = await created(client, "many", 9)
        assert row.error_code is ErrorCode.invalid_partitions
        assert row.error_message == (
            "all topics have 2 partitions, and 9 more would be too many: use fewer, or raise "
            "lakelog.partitions.max, which is 10"
        )
        assert (await created(client, "u", 8)).error_code is NONE
        row = await created(client, "v", 1)
        assert row.error_code is ErrorCode.policy_violation
        assert row.error_message == (
            "there are 2 topics, and a broker makes no more than 2: delete some, or raise "
            "lakelog.topics.max"
        )
        assert (await created(client, "u", 1)).error_code is ErrorCode.topic_already_exists
        (named,) = await client.metadata("w", create=True)
        assert named.error_code is ErrorCode.unknown_topic_or_partition
        grown = await client.ask(
            37, 3, timeout=1_000, validate_only=False,
            topics=[{"name": "t", "count": 3, "assignments": None}],
        )  # fmt: skip
        assert grown.results[0].error_code is ErrorCode.invalid_partitions
        await client.close()
    assert [topic.name for topic in site.do(list_topics())] == ["t", "u"]


# ---------------------------------------------------------------------------- partitions


@story
async def test_a_partition_that_is_fetched_a_thousand_times_in_a_request_is_read_once() -> None:
    site = Site()
    site.create("t")
    site.append("t", 0, batch(b"x"))
    async with broker(site) as running:
        client = await connect(running)
        row = {"partition": 0, "fetch_offset": 99, "partition_max_bytes": 1 << 20}
        with asked(site) as ops:
            found = await client.ask(
                1, 12, replica_id=-1, max_wait=0, min_bytes=1, max_bytes=1 << 20,
                isolation_level=0, session_id=0, session_epoch=-1, rack_id="",
                topics=[{"topic": "t", "partitions": [row] * 1_000}], forgotten_topics_data=[],
            )  # fmt: skip
        (topic,) = found.responses
        assert [one.error_code for one in topic.partitions] == [ErrorCode.offset_out_of_range]
        assert reads(ops) < 10, ops
        await client.close()


@story
async def test_a_partition_whose_producers_are_asked_for_a_thousand_times_is_looked_at_once() -> (
    None
):
    site = Site()
    site.create("t", 4)
    site.append("t", 1, batch(b"x", producer=(7, 0, 0)))
    async with broker(site) as running:
        client = await connect(running)
        with asked(site) as ops:
            found = await client.ask(
                61, 0, topics=[{"name": "t", "partition_indexes": [0, 1, 2, 3] * 250}]
            )
        (topic,) = found.topics
        assert [row.partition_index for row in topic.partitions] == [0, 1, 2, 3]
        assert [len(row.active_producers) for row in topic.partitions] == [0, 1, 0, 0]
        assert reads(ops) < 10, ops
        await client.close()


@story
async def test_the_end_of_an_epoch_is_told_as_often_as_it_is_asked_and_costs_nothing() -> None:
    site = Site()
    site.create("t")
    async with broker(site) as running:
        client = await connect(running)
        row = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": 3}
        with asked(site) as ops:
            found = await client.ask(
                23, 4, replica_id=-1, topics=[{"topic": "t", "partitions": [row] * 500}]
            )
        ends = [(one.leader_epoch, one.end_offset) for one in found.topics[0].partitions]
        assert ends == [(3, (1 << 63) - 1)] * 500
        assert reads(ops) < 10, ops
        await client.close()


@story
async def test_a_partition_that_is_listed_twice_is_refused_and_others_are_not() -> None:
    site = Site()
    site.create("t", 2)
    async with broker(site) as running:
        client = await connect(running)
        rows = parts(*[0] * 500, 1, timestamp=EARLIEST, current_leader_epoch=-1)
        with asked(site) as ops:
            found = await client.ask(
                2, 7, replica_id=-1, isolation_level=0,
                topics=[{"name": "t", "partitions": rows}, {"name": "t", "partitions": rows[:1]}],
            )  # fmt: skip
        (topic,) = found.topics
        codes = [(row.partition_index, row.error_code) for row in topic.partitions]
        assert codes == [(0, ErrorCode.invalid_request), (1, NONE)]
        assert reads(ops) < 10, ops
        await client.close()


@story
async def test_records_of_a_partition_that_is_named_twice_are_deleted_once() -> None:
    site = Site()
    site.create("t")
    site.append("t", 0, batch(b"a", b"b", b"c"))
    async with broker(site) as running:
        client = await connect(running)
        rows = [*parts(*[0] * 300, offset=3), *parts(0, offset=2)]
        with asked(site) as ops:
            found = await client.ask(
                21, 2, topics=[{"name": "t", "partitions": rows}], timeout=1_000
            )
        (row,) = found.topics[0].partitions
        assert (row.error_code, row.low_watermark) == (NONE, 2)
        assert sum(ops.values()) < 15, ops
        await client.close()


@story
async def test_the_size_of_a_partition_is_measured_once() -> None:
    site = Site()
    site.create("t")
    async with broker(site) as running:
        client = await connect(running)
        with asked(site) as ops:
            found = await client.ask(35, 4, topics=[{"topic": "t", "partitions": [0] * 300}] * 2)
        (topic,) = found.results[0].topics
        assert [row.partition_index for row in topic.partitions] == [0]
        assert reads(ops) < 10, ops
        await client.close()


@story
async def test_offsets_of_many_groups_are_confirmed_once_for_each_shard() -> None:
    site = Site()
    site.create("t")
    async with broker(site) as running:
        client = await connect(running)
        topics = [{"name": "t", "partition_indexes": [0]}]
        groups = [
            {"group_id": f"g{at}", "member_id": None, "member_epoch": -1, "topics": topics}
            for at in range(200)
        ]
        with asked(site) as ops:
            found = await client.ask(9, 9, groups=groups, require_stable=False)
        assert len(found.groups) == 200
        assert {group.error_code for group in found.groups} == {NONE}
        assert sum(ops.values()) < 20, ops
        await client.close()


@story
async def test_groups_and_resources_that_are_named_again_do_not_make_an_answer_longer() -> None:
    site = Site()
    site.create("t")
    async with broker(site) as running:
        client = await connect(running)
        found = await client.ask(
            15, 5, groups=["g", "h"] * 100, include_authorized_operations=False
        )
        assert [group.group_id for group in found.groups] == ["g", "h"]
        found = await client.ask(
            69, 1, group_ids=["g", "h"] * 100, include_authorized_operations=False
        )
        assert [group.group_id for group in found.groups] == ["g", "h"]
        found = await client.ask(42, 2, groups_names=["g", "h"] * 100)
        assert [group.group_id for group in found.results] == ["g", "h"]
        group = {"group_id": "g", "member_id": None, "member_epoch": -1, "topics": None}
        found = await client.ask(9, 9, groups=[group] * 100, require_stable=False)
        assert [group.group_id for group in found.groups] == ["g"]
        resource = {"resource_type": 2, "resource_name": "t", "configuration_keys": None}
        found = await client.ask(
            32, 4, resources=[resource] * 100, include_synonyms=True, include_documentation=True
        )
        assert [row.resource_name for row in found.results] == ["t"]
        await client.close()


# ---------------------------------------------------------------------------- in all


@story
async def test_a_request_that_has_asked_for_enough_is_told_to_ask_again() -> None:
    site = Site()
    site.create("t", 500)
    site.append("t", 0, batch(b"x"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(allowance, "OPERATIONS_MAX", 100)
        async with broker(site) as running:
            client = await connect(running)
            rows = parts(*range(500), timestamp=EARLIEST, current_leader_epoch=-1)
            with asked(site) as ops:
                found = await client.ask(
                    2, 7, replica_id=-1, isolation_level=0,
                    topics=[{"name": "t", "partitions": rows}],
                )  # fmt: skip
            codes = Counter(row.error_code for row in found.topics[0].partitions)
            assert set(codes) == {NONE, ErrorCode.leader_not_available}
            assert codes[NONE] >= 100
            assert reads(ops) < 200, ops
            with asked(site) as ops:
                sizes = await client.ask(35, 4, topics=None)
            assert sizes.results[0].error_code is ErrorCode.kafka_storage_error
            assert reads(ops) < 300, ops
            await client.close()


@story
async def test_a_fetch_that_has_asked_for_enough_leaves_the_rest_to_the_next_one() -> None:
    site = Site()
    site.create("t", 500)
    for at in range(0, 500, 50):
        site.append("t", at, batch(b"%d" % at))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(allowance, "OPERATIONS_MAX", 100)
        async with broker(site) as running:
            client = await connect(running)
            wanted = {("t", at): 0 for at in range(500)}
            got: set[int] = set()
            for count in range(20):
                with asked(site) as ops:
                    found = await client.fetch(dict(wanted), wait_ms=200, min_bytes=1 << 20)
                assert reads(ops) < 350, ops
                for row in found.responses[0].partitions:
                    assert row.error_code is NONE
                    if row.records:
                        got.add(row.partition_index)
                        wanted["t", row.partition_index] = 1
                assert count or len(got) < 10, "not all of it comes with the first"
                if len(got) == 10:
                    break
            assert got == set(range(0, 500, 50)), "it all comes"
            await client.close()


@story
async def test_a_request_makes_topics_until_it_has_asked_for_enough() -> None:
    site = Site()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(allowance, "OPERATIONS_MAX", 100)
        async with broker(site) as running:
            client = await connect(running)
            rows = [
                {
                    "name": f"t{at}", "num_partitions": 1, "replication_factor": 1,
                    "assignments": [], "configs": [],
                }
                for at in range(300)
            ]  # fmt: skip
            with asked(site) as ops:
                found = await client.ask(19, 7, topics=rows, timeout=1_000, validate_only=False)
            codes = Counter(row.error_code for row in found.topics)
            assert set(codes) == {NONE, ErrorCode.policy_violation}
            assert "ask for the rest in another one" in found.topics[-1].error_message
            assert sum(ops.values()) < 110, ops
            with asked(site) as ops:
                gone = await client.ask(
                    20, 6, topics=[{"name": f"t{at}", "topic_id": None} for at in range(300)],
                    timeout=1_000,
                )  # fmt: skip
            assert gone.responses[-1].error_code is ErrorCode.policy_violation
            assert sum(ops.values()) < 300, ops
            await client.close()
