"""One damaged topic or lane stops only itself: the broker starts, and serves all others."""

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from lakelog.catalog import create_topic, list_topics, news_of_topics
from lakelog.errors import CorruptError, InvalidInputError, UnavailableError
from lakelog.names import TOPICS_PREFIX, head_key, topic_key
from lakelog.store import Delete, Get, Op, PutIfAbsent, run, working
from tests.unit.broker.site import Site, batch, broker, connect, records, story

STORAGE = ErrorCode.kafka_storage_error


def replace(site: Site, key: str, body: bytes) -> None:
    site.perform(Delete(key))
    site.perform(PutIfAbsent(key, body))


async def serves(client: Any, name: str) -> None:
    assert (await client.produce(name, 0, batch(b"x"))).error_code is ErrorCode.none
    found = await client.fetch_one(name, 0, 0)
    assert [value for _, value in records(found.records)] == [b"x"]


@pytest.mark.parametrize("name", ["a", "m", "z"])
def test_a_corrupt_topic_is_answered_for_as_such_and_the_others_are_served(name: str) -> None:
    @story
    async def told() -> None:
        site = Site()
        for one in ("a", "m", "z"):
            site.create(one)
        replace(site, topic_key(name), b"{not json")
        async with broker(site) as running:
            client = await connect(running)
            for other in {"a", "m", "z"} - {name}:
                await serves(client, other)
            (row,) = await client.metadata(name)
            assert row.error_code is STORAGE
            assert (await client.produce(name, 0, batch(b"x"))).error_code is STORAGE
            assert (await client.fetch_one(name, 0, 0)).error_code is STORAGE
            assert (await client.list_offset(name, 0, -1)).error_code is STORAGE
            ready, why = running.is_ready()
            assert ready, "clients of other topics should come here"
            assert topic_key(name) in why
            assert [e for e in site.log if name in str(e) and "cannot be read" in str(e)]
            await client.close()

    told()


@story
async def test_a_list_of_all_topics_names_one_that_cannot_be_read() -> None:
    site = Site()
    site.create("good")
    site.create("bad")
    replace(site, topic_key("bad"), b"{}")
    async with broker(site) as running:
        client = await connect(running)
        found = await client.ask(
            3, 12, topics=None, allow_auto_topic_creation=False,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
        )  # fmt: skip
        codes = {str(row.name): row.error_code for row in found.topics}
        assert codes == {"good": ErrorCode.none, "bad": STORAGE}
        await client.close()


@story
async def test_what_became_of_an_unknown_id_is_not_said_while_a_topic_cannot_be_read() -> None:
    site = Site()
    bad = site.create("bad")
    replace(site, topic_key("bad"), b"{}")
    async with broker(site) as running:
        with pytest.raises(UnavailableError, match="bad"):
            await running.services.catalog.find_entry("", bad)


@story
async def test_a_refresh_takes_in_what_stands_behind_a_topic_that_cannot_be_read() -> None:
    site = Site()
    async with broker(site) as running:
        catalog = running.services.catalog
        for name in ("a", "b", "c"):
            site.create(name)
        replace(site, topic_key("b"), b"{}")
        await catalog.refresh()
        assert list(catalog.names()) == ["a", "c"]
        assert list(catalog.damaged) == ["b"]
        complaints = len(site.log)
        await catalog.refresh()
        assert len(site.log) == complaints, "it is told once"
        replace(
            site, topic_key("b"), site.perform(Get(topic_key("a"))).body.replace(b'"a"', b'"b"')
        )
        await catalog.refresh()
        assert catalog.damaged == {}
        assert catalog.known("b") is not None


@story
async def test_a_refresh_takes_in_what_stands_behind_a_topic_that_has_no_answer() -> None:
    site = Site()
    async with broker(site) as running:
        catalog = running.services.catalog
        for name in ("a", "b", "c"):
            site.create(name)
        site.fails = lambda op: isinstance(op, Get) and op.key == topic_key("b")
        with pytest.raises(UnavailableError):
            await catalog.refresh()
        assert list(catalog.names()) == ["a", "c"]
        site.fails = lambda _: False
        await catalog.refresh()
        assert list(catalog.names()) == ["a", "b", "c"]


@story
async def test_a_lane_that_is_damaged_stops_no_other() -> None:
    site = Site(lanes=2)
    site.create("t", partitions=4)
    lanes = {site.do(list_topics())[0].lane(p): p for p in range(4)}
    bad, good = sorted(lanes)[:2]
    replace(site, head_key(bad), b"{}")
    async with broker(site) as running:
        client = await connect(running)
        found = await client.produce("t", lanes[good], batch(b"x"))
        assert found.error_code is ErrorCode.none
        assert (await client.produce("t", lanes[bad], batch(b"x"))).error_code is not ErrorCode.none
        ready, why = running.is_ready()
        assert not ready
        assert f"lane {bad} cannot" in why
        await client.close()


# ---------------------------------------------------------------------------- reserved names


def test_what_a_store_keeps_for_itself_is_no_name_of_a_topic() -> None:
    with pytest.raises(InvalidInputError, match="reserved"):
        Site().create(".lakelog-staging")


def with_reserved(site: Site) -> None:
    """Make a topic as it could be made before its name was reserved."""
    site.create("old")
    body = site.perform(Get(topic_key("old"))).body
    key = TOPICS_PREFIX + ".lakelog-staging"
    site.perform(PutIfAbsent(key, body.replace(b'"old"', b'".lakelog-staging"')))


def test_a_topic_of_a_reserved_name_is_reported_and_can_be_deleted() -> None:
    site = Site()
    with_reserved(site)
    news = site.do(news_of_topics({}))
    assert list(news.topics) == ["old"]
    assert "lakelog topic delete" in str(news.damaged[".lakelog-staging"])
    site.delete(".lakelog-staging")
    news = site.do(news_of_topics({}))
    assert news.damaged == {}
    assert news.topics[".lakelog-staging"].deleted


def test_a_topic_that_was_listed_and_is_gone_is_damaged() -> None:
    site = Site()
    site.create("a")

    def perform(op: Op) -> Any:
        if isinstance(op, Get):
            site.perform(Delete(op.key))
        return site.perform(op)

    with pytest.raises(CorruptError, match="is gone"):
        run(list_topics(), working(perform))


def test_a_topic_is_made_by_a_name_that_kafka_allows() -> None:
    made = create_topic("..", topic_id=bytes(16), partitions=1, lanes=1, now_ms=0)
    with pytest.raises(InvalidInputError, match="reserved"):
        Site().do(made)
