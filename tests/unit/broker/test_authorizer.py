"""A broker with an authorizer: whose ACLs count from when on, and what is kept of a verdict.

Clients are told apart by their addresses on loopback; all of them are User:ANONYMOUS.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from lakelog.broker.metrics.counters import Metrics
from lakelog.broker.metrics.gauges import register_gauges
from lakelog.broker.security.authorizer import LOOK_S, STALE_MS
from lakelog.broker.settings import STANDARD_AUTHORIZER, AuthorizerSettings
from lakelog.catalog import add_acls, remove_acls
from lakelog.errors import (
    CorruptError,
    InvalidInputError,
    UnavailableError,
    UnsupportedError,
)
from lakelog.host import new_id
from lakelog.names import ACLS_KEY
from lakelog.security import (
    ACLS_MAX,
    CLUSTER_NAME,
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    Principal,
    ResourceType,
)
from lakelog.store import Get, Head, Op, PutIfAbsent, PutIfMatch
from tests.unit.broker.site import Client, Site, batch, broker, connect, records, story
from tests.unit.broker.site import virtual_story as virtual
from tests.virtual_time import pass_time

OFF = AuthorizerSettings()
ON = AuthorizerSettings(class_name=STANDARD_AUTHORIZER)
ADMIN, ALICE, STRANGER = "127.0.0.1", "127.0.0.2", "127.0.0.3"
NONE, DENIED = ErrorCode.none, ErrorCode.topic_authorization_failed
NO_CLUSTER = ErrorCode.cluster_authorization_failed


def allow(
    host: str,
    operation: Operation,
    name: str = "orders",
    kind: ResourceType = ResourceType.TOPIC,
    permission: Permission = Permission.ALLOW,
) -> Acl:
    return Acl(kind, PatternType.LITERAL, name, "User:*", host, operation, permission)


def admin(host: str = ADMIN) -> Acl:
    return allow(host, Operation.ALL, CLUSTER_NAME, ResourceType.CLUSTER)


def given(site: Site, *acls: Acl) -> None:
    """Let there be ACLs, by another process."""
    site.do(add_acls(acls, new_id()))


def row(acl: Acl) -> dict[str, Any]:
    return {
        "resource_type": acl.resource_type,
        "resource_name": acl.name,
        "resource_pattern_type": acl.pattern_type,
        "principal": acl.principal,
        "host": acl.host,
        "operation": acl.operation,
        "permission_type": acl.permission,
    }


def wanted(one: AclFilter) -> dict[str, Any]:
    return {
        "resource_type_filter": one.resource_type,
        "resource_name_filter": one.name,
        "pattern_type_filter": one.pattern_type,
        "principal_filter": one.principal,
        "host_filter": one.host,
        "operation": one.operation,
        "permission_type": one.permission,
    }


@asynccontextmanager
async def served(
    site: Site, *hosts: str, authorizer: AuthorizerSettings = ON
) -> AsyncIterator[tuple[Any, ...]]:
    """Run a broker, and clients of it at some addresses."""
    async with broker(site, authorizer=authorizer) as running:
        clients = [await connect(running, source=host) for host in hosts]
        yield running, *clients
        for client in clients:
            await client.close()


async def create(client: Client, *acls: Acl) -> list[ErrorCode]:
    found = await client.ask(30, 3, creations=[row(one) for one in acls])
    return [one.error_code for one in found.results]


async def delete(client: Client, *filters: AclFilter) -> Any:
    return (await client.ask(31, 3, filters=[wanted(one) for one in filters])).filter_results


async def describe(client: Client, one: AclFilter) -> Any:
    return await client.ask(29, 3, **wanted(one))


@story
async def test_without_an_authorizer_there_are_no_acls_to_be_asked_for() -> None:
    site = Site()
    site.create("orders")
    async with served(site, STRANGER, authorizer=OFF) as (_, client):
        off = ErrorCode.security_disabled
        assert await create(client, admin(), admin()) == [off, off]
        assert (await describe(client, AclFilter())).error_code is off
        assert [one.error_code for one in await delete(client, AclFilter())] == [off]
        assert (await client.produce("orders", 0, batch(b"a"))).error_code is NONE
        assert site.count(Head, ACLS_KEY) == site.count(Get, ACLS_KEY) == 0


@story
async def test_what_an_admin_creates_counts_at_once_and_what_is_deleted_no_more() -> None:
    site = Site()
    site.create("orders")
    given(site, admin())
    async with served(site, ADMIN, ALICE) as (_, boss, alice):
        assert (await alice.produce("orders", 0, batch(b"a"))).error_code is DENIED
        assert await create(alice, allow(ALICE, Operation.WRITE)) == [NO_CLUSTER]
        assert await create(boss, allow(ALICE, Operation.WRITE)) == [NONE]
        assert (await alice.produce("orders", 0, batch(b"b"))).error_code is NONE
        assert (await alice.fetch_one("orders", 0, 0)).error_code is DENIED
        found = await describe(boss, AclFilter(name="orders"))
        assert [
            (one.resource_name, [(acl.host, acl.operation) for acl in one.acls])
            for one in found.resources
        ] == [("orders", [(ALICE, Operation.WRITE)])]
        assert (await describe(alice, AclFilter())).error_code is NO_CLUSTER
        assert [one.error_code for one in await delete(alice, AclFilter())] == [NO_CLUSTER]
        gone, none = await delete(boss, AclFilter(name="orders"), AclFilter(name="x"))
        assert [(one.resource_name, one.host) for one in gone.matching_acls] == [("orders", ALICE)]
        assert (none.error_code, none.matching_acls) == (NONE, ())
        assert (await alice.produce("orders", 0, batch(b"c"))).error_code is DENIED
    assert site.stored("orders") == [b"b"]


@story
async def test_what_cannot_be_an_acl_is_refused_and_the_others_are_made() -> None:
    site = Site()
    given(site, admin())
    async with served(site, ADMIN) as (_, boss):
        good = allow(ALICE, Operation.READ)
        bad = good._replace(principal="alice"), good._replace(name=""), admin()._replace(name="x")
        codes = await create(boss, *bad, good)
        assert codes == [ErrorCode.invalid_request] * 3 + [NONE]
        assert len((await describe(boss, AclFilter())).resources) == 2
        boss.send(30, 3, creations=[row(good) | {"operation": 99}])
        assert await boss.is_closed()


@story
async def test_a_denial_is_looked_up_again_when_acls_change_also_for_what_is_repeated() -> None:
    """The verdict is kept with the shape of what a producer repeats, and with a fetch session."""
    site = Site()
    site.create("orders")
    given(site, admin(), allow(ALICE, Operation.WRITE), allow(ALICE, Operation.READ))
    async with served(site, ADMIN, ALICE) as (running, boss, alice):
        for number in range(4):
            assert (await alice.produce("orders", 0, batch(b"%d" % number))).error_code is NONE
        (connection,) = (one for one in running._connections if one.host == ALICE)
        assert connection.shape is not None
        begun = await alice.fetch({("orders", 0): 0}, session=(0, 0))
        assert records(begun.responses[0].partitions[0].records)[0] == (0, b"0")
        session = begun.session_id
        (kept,) = running.services.sessions._sessions.values()
        assert kept.judged == (running.services.authorizer.rules.mark, {"orders": True})
        await delete(boss, AclFilter(name="orders"))
        assert (await alice.produce("orders", 0, batch(b"x"))).error_code is DENIED
        again = await alice.fetch({}, session=(session, 1))
        assert again.responses[0].partitions[0].error_code is DENIED
        await create(boss, allow(ALICE, Operation.READ))
        last = await alice.fetch({}, session=(session, 2))
        assert last.responses[0].partitions[0].error_code is NONE
    assert site.stored("orders") == [b"0", b"1", b"2", b"3"]


@story
async def test_a_topic_that_was_not_known_by_its_id_is_judged_when_it_is() -> None:
    site = Site()
    given(site, allow(ALICE, Operation.WRITE, "others"))
    async with served(site, ALICE) as (_, alice):
        alice.ids = {"orders": UUID(bytes=site.create("orders"))}
        for _ in range(3):
            found = await alice.produce("orders", 0, batch(b"x"), version=13)
            assert found.error_code is DENIED
            assert (await alice.fetch_one("orders", 0, 0, version=17)).error_code is DENIED
    assert site.stored("orders") == []


@story
async def test_a_session_is_not_there_for_another_principal() -> None:
    site = Site()
    site.create("orders")
    async with served(site, ALICE, STRANGER, authorizer=OFF) as (running, alice, eve):
        session = (await alice.fetch({("orders", 0): 0}, session=(0, 0))).session_id
        (connection,) = (one for one in running._connections if one.host == STRANGER)
        connection.principal = Principal.user("eve")
        missing = ErrorCode.fetch_session_id_not_found
        assert (await eve.fetch({}, session=(session, 1))).error_code is missing
        await eve.fetch({}, session=(session, -1))  # It cannot be ended by others, either.
        assert (await alice.fetch({}, session=(session, 1))).error_code is NONE


@story
async def test_the_topic_of_offsets_is_denied_like_any_other() -> None:
    """It tells what every group reads."""
    site = Site()
    offsets = "__consumer_offsets"
    given(site, allow(ALICE, Operation.READ, offsets))
    async with served(site, ALICE, STRANGER) as (_, alice, stranger):
        assert (await alice.fetch_one(offsets, 0, 0)).error_code is NONE
        assert (await stranger.fetch_one(offsets, 0, 0)).error_code is DENIED
        assert (await stranger.list_offset(offsets, 0, -1)).error_code is DENIED
        assert [one.error_code for one in await stranger.metadata(offsets)] == [DENIED]


@story
async def test_only_who_may_act_as_a_broker_makes_one_list_the_members() -> None:
    site = Site()
    given(site, allow(ALICE, Operation.CLUSTER_ACTION, CLUSTER_NAME, ResourceType.CLUSTER))
    beat = {
        "broker_id": 7,
        "broker_epoch": 1,
        "current_metadata_offset": 1,
        "want_fence": False,
        "want_shut_down": False,
    }
    async with served(site, ALICE, STRANGER) as (running, alice, stranger):
        heard: list[None] = []
        running.services.cluster.hear = lambda: heard.append(None)
        assert (await stranger.ask(63, 0, **beat)).error_code is NO_CLUSTER
        assert heard == []
        assert (await alice.ask(63, 0, **beat)).error_code is NONE
        assert heard == [None]


@story
async def test_many_acls_are_read_beside_the_loop() -> None:
    site = Site()
    site.create("orders")
    others = (allow(ALICE, Operation.READ, f"t{number}") for number in range(2_000))
    given(site, allow(ALICE, Operation.WRITE), *others)
    async with served(site, ALICE) as (running, alice):
        assert len(running.services.authorizer.rules.acls) == 2_001
        assert (await alice.produce("orders", 0, batch(b"a"))).error_code is NONE


@story
async def test_many_acls_are_changed_beside_the_loop() -> None:
    """Most of what a change costs is not the loop's: the processor's time of its thread is."""
    site = Site()
    many = [allow(ALICE, Operation.READ, f"t{number}") for number in range(ACLS_MAX - 10)]
    given(site, *many)
    async with broker(site, authorizer=ON) as running:
        authorizer = running.services.authorizer
        assert authorizer is not None

        async def share_of(change: Any) -> float:
            """Return how much of the time of the processor the thread of the loop took."""
            on_loop_s, all_s = time.thread_time(), time.process_time()
            await change
            return (time.thread_time() - on_loop_s) / (time.process_time() - all_s)

        more = allow(ALICE, Operation.WRITE)
        assert await share_of(authorizer.add([more])) < 0.2
        assert more in authorizer.rules.acls
        assert await share_of(authorizer.remove([AclFilter(name="orders")])) < 0.2
        assert authorizer.rules.acls == tuple(many)
        too_many = [allow(ALICE, Operation.READ, f"u{number}") for number in range(11)]
        with pytest.raises(InvalidInputError, match="use prefixed ones"):
            await authorizer.add(too_many)
        lost = [None]
        site.fails = lambda op: isinstance(op, PutIfMatch) and bool(lost) and lost.pop() is None
        await authorizer.add([more])
        assert authorizer.rules.acls == (*many, more)


@pytest.mark.parametrize("body", [b"", b"{}", b'{"format": 9}'])
def test_a_broker_that_cannot_read_the_acls_does_not_start(body: bytes) -> None:
    async def told() -> None:
        site = Site()
        site.perform(PutIfAbsent(ACLS_KEY, body))
        async with broker(site, authorizer=ON):
            raise AssertionError("it serves")

    with pytest.raises((CorruptError, UnsupportedError), match="acls"):
        asyncio.run(told())


def test_a_broker_that_is_not_answered_does_not_start() -> None:
    async def told() -> None:
        site = Site()
        site.fails = lambda op: getattr(op, "key", "") == ACLS_KEY
        async with broker(site, authorizer=ON):
            raise AssertionError("it serves")

    with pytest.raises(UnavailableError):
        asyncio.run(told())


@virtual
async def test_acls_of_other_processes_are_seen_and_an_outage_changes_nothing() -> None:
    site = Site()
    given(site, allow(ALICE, Operation.WRITE))
    async with broker(site, authorizer=ON) as running:
        authorizer = running.services.authorizer
        assert authorizer is not None

        def may(operation: Operation) -> bool:
            who = Principal.user("ANONYMOUS"), ALICE
            return authorizer.rules.allows(*who, operation, ResourceType.TOPIC, "orders")

        gauges = Metrics()
        register_gauges(gauges, running.services)
        reads = site.count(Get, ACLS_KEY)
        before = authorizer.rules
        await pass_time(3 * LOOK_S)
        assert authorizer.rules is before
        assert site.count(Get, ACLS_KEY) == reads, "a look is a HEAD"
        given(site, allow(ALICE, Operation.READ))
        await pass_time(LOOK_S)
        assert may(Operation.READ)
        assert authorizer.trouble() == ""

        def out(op: Op) -> bool:
            return getattr(op, "key", "") == ACLS_KEY

        site.fails = out
        site.do(remove_acls([AclFilter()], new_id()))
        await pass_time(STALE_MS / 1000 + 2 * LOOK_S)
        assert may(Operation.READ)
        assert "those from before count" in authorizer.trouble()
        told = {one.name: one.read for one in gauges.gauges}
        assert told["lakelog_acls"]() == 2
        assert float(str(told["lakelog_acls_age_seconds"]())) > STALE_MS / 1000
        is_ready, words = running.is_ready()
        assert is_ready
        assert "ACLs" in words
        site.fails = lambda _: False
        await pass_time(LOOK_S)
        assert not may(Operation.READ)
        assert authorizer.trouble() == ""


@virtual
async def test_a_change_through_one_broker_is_hinted_to_the_other() -> None:
    site = Site()
    given(site, admin())
    async with broker(site, authorizer=ON) as one, broker(site, authorizer=ON) as other:
        first, second = one.services.authorizer, other.services.authorizer
        assert first is not None
        assert second is not None
        await first.add([allow(ALICE, Operation.READ)])
        for _ in range(100):
            await pass_time(0.1)
            if second.rules.version == first.rules.version:
                break
        assert second.rules.acls == first.rules.acls
