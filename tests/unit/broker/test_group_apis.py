"""The APIs of groups, from bytes to bytes: every version of each tells the same story."""

import re
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import timedelta
from io import BytesIO
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer

from lakelog.broker.handlers import HANDLERS
from lakelog.broker.patterns import Patterns
from lakelog.broker.services import Call
from lakelog.broker.settings import CoordinatorSettings
from lakelog.catalog import Topic
from lakelog.coordination import SHARDS
from lakelog.errors import UnavailableError
from lakelog.groups import EXPRESSIONS_MAX, GroupRules
from lakelog.host import new_id
from lakelog.store import MemoryStore
from lakelog.wire import (
    APIS,
    ApiKey,
    MetadataBroker,
    control,
    decode_request,
    encode_response,
)
from tests.unit.broker.greedy_claims import NODE_ID, greedy_coordinator
from tests.virtual_time import run_virtually

ORDERS = Topic(name="orders", id=new_id(), partitions=2, lanes=1)
NAMES = ("orders", *(f"other-{at}" for at in range(999)))
QUICK = CoordinatorSettings(
    rules=GroupRules(initial_rebalance_delay_ms=0, offset_metadata_bytes_max=5),
    commit_interval_ms=0,
)


class Catalog:
    """One topic, and one whose answer never comes."""

    async def topic(self, name: str) -> Topic | None:
        if name == "lost":
            raise UnavailableError("no answer")
        return ORDERS if name == ORDERS.name else None

    def by_id(self, topic_id: bytes) -> Topic | None:
        return ORDERS if topic_id == ORDERS.id else None

    def known(self, name: str) -> Any:
        return SimpleNamespace(topic=ORDERS) if name == ORDERS.name else None

    def names(self) -> tuple[str, ...]:
        return NAMES


class Cluster:
    """One broker, with one listener."""

    def address(self, node: int, listener: str) -> MetadataBroker | None:
        there = MetadataBroker(NODE_ID, "broker.example", 9092)
        return there if (node, listener) == (NODE_ID, "PLAINTEXT") else None


class Client:
    """Somebody who speaks one version of everything, as far as there is one."""

    def __init__(self, services: Any, version: int) -> None:
        self.services = services
        self.version = version

    async def call(self, key: ApiKey, /, **fields: Any) -> Any:
        api = APIS[key]
        spoken = max(api.min_version, min(self.version, api.max_version))
        kind = load_request_schema(key, spoken)
        out = BytesIO()
        entity_writer(kind)(out, control._build(kind, fields))
        request = decode_request(key, spoken, memoryview(out.getvalue()))
        call = Call(spoken, "client", "127.0.0.1", "PLAINTEXT")
        given = await HANDLERS[key](self.services, call, request)
        given = given if isinstance(given, dict) else await given
        body = encode_response(key, spoken, given)
        answer, size = entity_reader(load_response_schema(key, spoken))(body, 0)
        assert size == len(body)
        return answer

    async def join(self, member_id: str = "", **fields: Any) -> Any:
        return await self.call(
            ApiKey.JOIN_GROUP,
            **{
                "group_id": "g",
                "session_timeout": 10_000,
                "rebalance_timeout": 10_000,
                "member_id": member_id,
                "protocol_type": "consumer",
                "protocols": [{"name": "range", "metadata": b"topics"}],
                **fields,
            },
        )

    async def beat(self, epoch: int, *, full: bool = False, **fields: Any) -> Any:
        whole = {
            "rebalance_timeout": 10_000,
            "subscribed_topic_names": ["orders", "nothing", "lost"],
            "topic_partitions": [],
        }
        quiet = {"rebalance_timeout": -1, "topic_partitions": None}
        return await self.call(
            ApiKey.CONSUMER_GROUP_HEARTBEAT,
            **{
                "group_id": "g",
                "member_id": "m",
                "member_epoch": epoch,
                **(whole if full or epoch == 0 else quiet),
                **fields,
            },
        )

    async def commit(self, **fields: Any) -> list[ErrorCode]:
        rows = [(0, "ok"), (1, "too long"), (2, "")]
        partitions = [
            {"partition_index": n, "committed_offset": 40 + n, "committed_metadata": said}
            for n, said in rows
        ]
        answer = await self.call(
            ApiKey.OFFSET_COMMIT,
            group_id="g",
            topics=[
                {"name": name, "partitions": partitions}
                for name in ("orders", "nothing", "lost", "no name!")
            ],
            **fields,
        )
        return [one.error_code for topic in answer.topics for one in topic.partitions]

    async def fetch(
        self, *names: str, group_id: str = "g", **fields: Any
    ) -> tuple[ErrorCode, dict[str, Any]]:
        topics = [{"name": name, "partition_indexes": [0, 1]} for name in names] or None
        many = APIS[ApiKey.OFFSET_FETCH].min_version <= 8 <= self.version
        one = {"group_id": group_id, "topics": topics, **fields}
        answer = await self.call(ApiKey.OFFSET_FETCH, **({"groups": [one]} if many else one))
        group = answer.groups[0] if many else answer
        code = getattr(group, "error_code", ErrorCode.none)
        return code, {topic.name: topic.partitions for topic in group.topics}


def _compile(expression: str) -> Callable[[str], object] | None:
    """Python's own matcher: these expressions are harmless."""
    try:
        return re.compile(expression).fullmatch
    except re.error:
        return None


@asynccontextmanager
async def client(
    version: int,
    settings: CoordinatorSettings = QUICK,
    matches: Callable[[str], Callable[[str], object] | None] = _compile,
    store: MemoryStore | None = None,
) -> AsyncIterator[Client]:
    coordinator = greedy_coordinator(
        (store or MemoryStore()).perform_async, settings=settings, patterns=Patterns(matches)
    )
    async with coordinator:
        await coordinator.loaded()
        services = SimpleNamespace(coordinator=coordinator, catalog=Catalog(), cluster=Cluster())
        yield Client(services, version)


def play(story: Coroutine[Any, Any, None]) -> None:
    run_virtually(story)


every_version = pytest.mark.parametrize("version", range(10))


@every_version
def test_a_consumer_joins_commits_and_leaves(version: int) -> None:
    async def story(one: Client) -> None:
        joined = await one.join()
        if version >= 4:
            assert joined.error_code is ErrorCode.member_id_required
            joined = await one.join(joined.member_id)
        assert joined.error_code is ErrorCode.none
        assert (joined.generation_id, joined.protocol_name) == (1, "range")
        assert joined.leader == joined.member_id
        assert [(who.member_id, who.metadata) for who in joined.members] == [
            (joined.member_id, b"topics")
        ]
        me = {"group_id": "g", "member_id": joined.member_id, "generation_id": 1}
        mine = [{"member_id": joined.member_id, "assignment": b"orders 0 1"}]
        synced = await one.call(ApiKey.SYNC_GROUP, **me, assignments=mine)
        assert (synced.error_code, synced.assignment) == (ErrorCode.none, b"orders 0 1")
        beat = await one.call(ApiKey.HEARTBEAT, **me)
        assert beat.error_code is ErrorCode.none
        old = await one.call(ApiKey.HEARTBEAT, **{**me, "generation_id": 0})
        assert old.error_code is ErrorCode.illegal_generation

        # Before version 9 it is called so; the value is the same.
        generation = {"generation_id": 1, "generation_id_or_member_epoch": 1}
        unknown = ErrorCode.unknown_topic_or_partition
        codes = await one.commit(member_id=joined.member_id, **generation)
        assert codes[:3] == [ErrorCode.none, ErrorCode.offset_metadata_too_large, unknown]
        assert (
            codes[3:] == [unknown] * 3 + [ErrorCode.coordinator_not_available] * 3 + [unknown] * 3
        )
        code, topics = await one.fetch("orders", "nothing")
        assert code is ErrorCode.none
        rows = [(row.committed_offset, row.metadata) for row in topics["orders"]]
        assert rows == [(40, "ok"), (-1, "")]
        assert [row.committed_offset for row in topics["nothing"]] == [-1, -1]
        assert {row.error_code for row in topics["nothing"]} == {ErrorCode.none}
        if version >= 2:
            code, topics = await one.fetch()
            assert [(name, len(rows)) for name, rows in topics.items()] == [("orders", 1)]

        described = (await one.call(ApiKey.DESCRIBE_GROUPS, groups=["g"])).groups[0]
        assert (described.group_state, described.protocol_data) == ("Stable", "range")
        member = described.members[0]
        assert (member.client_id, member.client_host) == ("client", "/127.0.0.1")
        assert (member.member_metadata, member.member_assignment) == (b"topics", b"orders 0 1")
        listed = await one.call(ApiKey.LIST_GROUPS)
        assert [(group.group_id, group.protocol_type) for group in listed.groups] == [
            ("g", "consumer")
        ]

        leaving = {"member_id": joined.member_id}
        left = await one.call(ApiKey.LEAVE_GROUP, group_id="g", members=[leaving], **leaving)
        assert left.error_code is ErrorCode.none
        again = await one.call(ApiKey.LEAVE_GROUP, group_id="g", members=[leaving], **leaving)
        code = again.members[0].error_code if version >= 3 else again.error_code
        assert code is ErrorCode.unknown_member_id

    async def within() -> None:
        async with client(version) as one:
            await story(one)

    play(within())


@every_version
def test_groups_are_found_and_transactions_are_not(version: int) -> None:
    async def within() -> None:
        async with client(version) as one:
            found = await one.call(ApiKey.FIND_COORDINATOR, key="g", coordinator_keys=["g"])
            row = found.coordinators[0] if version >= 4 else found
            assert (row.node_id, row.host, row.port) == (NODE_ID, "broker.example", 9092)
            assert row.error_code is ErrorCode.none
            if version:
                found = await one.call(
                    ApiKey.FIND_COORDINATOR, key="t", coordinator_keys=["t"], key_type=1
                )
                row = found.coordinators[0] if version >= 4 else found
                assert row.error_code is ErrorCode.transactional_id_authorization_failed
                assert "transactions" in row.error_message

    play(within())


@every_version
def test_a_group_that_is_not_there_is_dead(version: int) -> None:
    async def within() -> None:
        async with client(version) as one:
            found = (await one.call(ApiKey.DESCRIBE_GROUPS, groups=["nobody", ""])).groups
            assert found[0].group_state == "Dead"
            is_told = version >= 6
            missing = ErrorCode.group_id_not_found if is_told else ErrorCode.none
            assert found[0].error_code is missing
            assert found[1].error_code is ErrorCode.invalid_group_id
            codes = await one.commit(
                member_id="m", generation_id=4, generation_id_or_member_epoch=4
            )
            gone = ErrorCode.group_id_not_found if version >= 9 else ErrorCode.illegal_generation
            assert codes[0] is gone
            assert (await one.call(ApiKey.LIST_GROUPS)).groups == ()

    play(within())


@every_version
def test_a_coordinator_that_is_closed_says_so_everywhere(version: int) -> None:
    async def within() -> None:
        async with client(version) as one:
            await one.services.coordinator.close()
            away = ErrorCode.coordinator_not_available
            assert (await one.join()).error_code is away
            code, topics = await one.fetch("orders")
            assert code is (away if version >= 2 else ErrorCode.none)
            if version < 8:
                assert {row.error_code for row in topics["orders"]} == {away}
            listed = await one.call(ApiKey.LIST_GROUPS)
            assert (listed.error_code, listed.groups) == (away, ())
            described = await one.call(ApiKey.DESCRIBE_GROUPS, groups=["g"])
            assert described.groups[0].error_code is away
            assert (await one.commit(member_id=""))[0] is away

    play(within())


@every_version
def test_a_coordinator_that_was_replaced_and_does_not_know_it_tells_no_offsets(
    version: int,
) -> None:
    async def within() -> None:
        store = MemoryStore()
        async with client(version, store=store) as first:
            assert (await first.commit(member_id=""))[0] is ErrorCode.none
            code, topics = await first.fetch("orders")
            assert [row.committed_offset for row in topics["orders"]] == [40, -1]
            async with client(version, store=store) as second:
                assert first.services.coordinator.held() == list(range(SHARDS))
                code, topics = await first.fetch("orders")
                away = ErrorCode.not_coordinator
                assert code is (away if version >= 2 else ErrorCode.none)
                if version < 8:
                    assert {row.error_code for row in topics["orders"]} == {away}
                code, topics = await second.fetch("orders")
                assert [row.committed_offset for row in topics["orders"]] == [40, -1]

    play(within())


def test_a_listing_is_filtered_by_state_and_type() -> None:
    async def within() -> None:
        async with client(9) as one:
            await one.commit(member_id="")

            async def names(**filters: Any) -> list[str]:
                listed = await one.call(ApiKey.LIST_GROUPS, **filters)
                return [f"{group.group_id} {group.group_state}" for group in listed.groups]

            assert await names() == ["g Empty"]
            assert await names(states_filter=["empty"]) == ["g Empty"]
            assert await names(states_filter=["Stable"]) == []
            assert await names(types_filter=["Classic"]) == ["g Empty"]
            assert await names(types_filter=["consumer"]) == []

    play(within())


def test_static_members_and_skipped_assignments_reach_the_client() -> None:
    async def within() -> None:
        async with client(9) as one:
            joined = await one.join(group_instance_id="i")
            me = {"group_id": "g", "member_id": joined.member_id, "generation_id": 1}
            mine = [{"member_id": joined.member_id, "assignment": b"x"}]
            await one.call(ApiKey.SYNC_GROUP, **me, group_instance_id="i", assignments=mine)
            again = await one.join(group_instance_id="i")
            assert (again.skip_assignment, again.generation_id) == (True, 1)
            assert again.members[0].group_instance_id == "i"
            fenced = await one.call(ApiKey.HEARTBEAT, **me, group_instance_id="i")
            assert fenced.error_code is ErrorCode.fenced_instance_id
            gone = [{"member_id": "", "group_instance_id": "i"}]
            left = await one.call(ApiKey.LEAVE_GROUP, group_id="g", members=gone)
            assert left.members[0].error_code is ErrorCode.none

    play(within())


# ---------------------------------------------------------------------------- the newer protocol


def places(assignment: Any) -> dict[str, list[int]]:
    return {str(one.topic_id): list(one.partitions) for one in assignment.topic_partitions}


MINE = {str(UUID(bytes=ORDERS.id)): [0, 1]}


@pytest.mark.parametrize("version", [0, 1])
def test_a_member_is_assigned_by_its_coordinator(version: int) -> None:
    async def within() -> None:
        async with client(version) as one:
            joined = await one.beat(0, rack_id="r", server_assignor="range", instance_id="i")
            assert joined.error_code is ErrorCode.none
            assert (joined.member_id, joined.member_epoch) == ("m", 1)
            assert joined.heartbeat_interval == timedelta(seconds=5)
            assert places(joined.assignment) == MINE
            quiet = await one.beat(1)
            assert (quiet.error_code, quiet.assignment) == (ErrorCode.none, None)
            owned = [{"topic_id": UUID(bytes=ORDERS.id), "partitions": [0, 1]}]
            told = await one.beat(1, full=True, topic_partitions=owned)
            assert places(told.assignment) == MINE
            old = await one.beat(7)
            assert old.error_code is ErrorCode.fenced_member_epoch
            assert "join again" in old.error_message
            assert (old.member_id, old.assignment) == (None, None)

            described = await one.call(
                ApiKey.CONSUMER_GROUP_DESCRIBE, group_ids=["g", "nobody"],
                include_authorized_operations=False,
            )  # fmt: skip
            group, missing = described.groups
            assert missing.error_code is ErrorCode.group_id_not_found
            assert (group.group_state, group.assignor_name) == ("Stable", "range")
            assert (group.group_epoch, group.assignment_epoch) == (1, 1)
            (member,) = group.members
            assert (member.member_id, member.instance_id, member.rack_id) == ("m", "i", "r")
            assert (member.client_id, member.client_host) == ("client", "/127.0.0.1")
            assert (member.member_epoch, member.subscribed_topic_regex) == (1, None)
            assert member.subscribed_topic_names == ("lost", "nothing", "orders")
            assert places(member.assignment) == places(member.target_assignment) == MINE
            assert member.assignment.topic_partitions[0].topic_name == "orders"
            if version:
                assert member.member_type == 1

            left = await one.beat(-1)
            assert (left.error_code, left.member_epoch) == (ErrorCode.none, -1)
            assert (await one.beat(1)).error_code is ErrorCode.unknown_member_id

    play(within())


def test_in_version_0_a_member_may_get_its_id_from_the_broker() -> None:
    async def within() -> None:
        async with client(0) as one:
            joined = await one.beat(0, member_id="")
            assert joined.error_code is ErrorCode.none
            assert str(UUID(joined.member_id)) == joined.member_id
        async with client(1) as one:
            refused = await one.beat(0, member_id="")
            assert refused.error_code is ErrorCode.invalid_request

    play(within())


def test_members_of_the_newer_protocol_commit_and_fetch_in_their_epoch() -> None:
    async def within() -> None:
        async with client(9) as one:
            await one.beat(0)
            stale = await one.commit(member_id="m", generation_id_or_member_epoch=4)
            assert stale[:3:2] == [
                ErrorCode.stale_member_epoch, ErrorCode.unknown_topic_or_partition
            ]  # fmt: skip
            other = await one.commit(member_id="x", generation_id_or_member_epoch=1)
            assert other[0] is ErrorCode.unknown_member_id
            mine = await one.commit(member_id="m", generation_id_or_member_epoch=1)
            assert mine[0] is ErrorCode.none
            old = Client(one.services, 8)
            refused = await old.commit(member_id="m", generation_id=1)
            assert refused[0] is ErrorCode.unsupported_version

            code, topics = await one.fetch("orders", member_id="m", member_epoch=1)
            assert code is ErrorCode.none
            assert [row.committed_offset for row in topics["orders"]] == [40, -1]
            code, _ = await one.fetch("orders", member_id="m", member_epoch=2)
            assert code is ErrorCode.stale_member_epoch
            code, _ = await one.fetch("orders", member_id="x", member_epoch=1)
            assert code is ErrorCode.unknown_member_id
            code, topics = await one.fetch("orders")  # An operator is no member.
            assert code is ErrorCode.none

    play(within())


@every_version
def test_a_group_of_the_newer_protocol_is_listed_and_dead_to_the_older_one(version: int) -> None:
    async def within() -> None:
        async with client(version) as one:
            await one.beat(0)
            described = (await one.call(ApiKey.DESCRIBE_GROUPS, groups=["g"])).groups[0]
            assert (described.group_state, described.members) == ("Dead", ())
            if version >= 6:
                assert described.error_code is ErrorCode.group_id_not_found
                assert described.error_message == "Group g is not a classic group."
            (listed,) = (await one.call(ApiKey.LIST_GROUPS)).groups
            assert (listed.group_id, listed.protocol_type) == ("g", "consumer")
            if version >= 5:
                assert (listed.group_type, listed.group_state) == ("consumer", "Stable")
                for filters in ({"types_filter": ["classic"]}, {"states_filter": ["Empty"]}):
                    assert (await one.call(ApiKey.LIST_GROUPS, **filters)).groups == ()
                for filters in ({"types_filter": ["Consumer"]}, {"states_filter": ["stable"]}):
                    assert len((await one.call(ApiKey.LIST_GROUPS, **filters)).groups) == 1
            refused = await one.join()
            assert refused.error_code is ErrorCode.inconsistent_group_protocol

    play(within())


def test_topics_are_subscribed_to_by_expression_where_one_is_understood() -> None:
    async def within() -> None:
        async with client(1) as one:
            given: dict[str, Any] = {
                "subscribed_topic_names": None,
                "subscribed_topic_regex": "ord.*",
            }
            joined = await one.beat(0, **given)
            assert joined.error_code is ErrorCode.none
            assert places(joined.assignment) == MINE
            for wrong in ("(", "x" * 2000):
                refused = await one.beat(1, subscribed_topic_regex=wrong)
                assert refused.error_code is ErrorCode.invalid_regular_expression
        async with client(1, matches=lambda _: None) as one:
            refused = await one.beat(0, **given)
            assert refused.error_code is ErrorCode.invalid_regular_expression

    play(within())


def test_a_heartbeat_tries_no_expression_again_and_a_group_has_few_of_them() -> None:
    tried = 0

    def counting(expression: str) -> Callable[[str], object]:
        found = re.compile(expression)

        def fits(name: str) -> object:
            nonlocal tried
            tried += 1
            return found.fullmatch(name)

        return fits

    async def within() -> None:
        async with client(1, matches=counting) as one:
            epochs: dict[str, int] = {}
            for at in range(EXPRESSIONS_MAX + 1):
                given: dict[str, Any] = {
                    "member_id": f"m{at}",
                    "subscribed_topic_regex": f"ord.*|{at}",
                }
                joined = await one.beat(0, subscribed_topic_names=None, **given)
                if at == EXPRESSIONS_MAX:
                    assert joined.error_code is ErrorCode.group_max_size_reached
                    assert joined.error_message == (
                        "The group has 32 different SubscribedTopicRegex: use one of them."
                    )
                else:
                    assert joined.error_code is ErrorCode.none
                    epochs[f"m{at}"] = joined.member_epoch
            again: dict[str, Any] = {"member_id": "again", "subscribed_topic_regex": "ord.*|0"}
            joined = await one.beat(0, subscribed_topic_names=None, **again)
            assert joined.error_code is ErrorCode.none
            before = tried
            for member_id, epoch in epochs.items():
                lives = await one.beat(epoch, member_id=member_id, subscribed_topic_names=None)
                assert lives.error_code is ErrorCode.none
            assert before == tried == len(NAMES) * (EXPRESSIONS_MAX + 1)

    play(within())


@pytest.mark.parametrize("version", range(3))
def test_a_group_goes_when_its_members_have(version: int) -> None:
    async def within() -> None:
        async with client(version) as one:
            await one.beat(0)
            for code in (ErrorCode.non_empty_group, ErrorCode.none, ErrorCode.group_id_not_found):
                done = await one.call(ApiKey.DELETE_GROUPS, groups_names=["g"])
                assert done.results[0].error_code is code
                await one.beat(-1)

    play(within())


def test_offsets_are_deleted_by_operators_unless_a_member_reads_the_topic() -> None:
    async def within() -> None:
        async with client(9) as one:
            await one.beat(0)
            await one.commit(member_id="m", generation_id_or_member_epoch=1)
            topics = [{"name": "orders", "partitions": [{"partition_index": 0}]}]
            for code in (ErrorCode.group_subscribed_to_topic, ErrorCode.none):
                done = await one.call(ApiKey.OFFSET_DELETE, group_id="g", topics=topics)
                assert done.topics[0].partitions[0].error_code is code
                await one.beat(-1)
            done = await one.call(ApiKey.OFFSET_DELETE, group_id="nobody", topics=topics)
            assert done.error_code is ErrorCode.group_id_not_found
            _, found = await one.fetch("orders")
            assert [row.committed_offset for row in found["orders"]] == [-1, -1]

    play(within())
