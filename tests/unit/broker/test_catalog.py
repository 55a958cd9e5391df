"""The topics that a broker knows: what is there comes from memory, what is not from the store."""

import asyncio

import pytest

from lakelog.errors import ConflictError, NotFoundError, UnavailableError
from lakelog.store import Get, ListPage
from tests.unit.broker.site import Site, broker, story


@story
async def test_a_known_topic_costs_nothing_and_an_unknown_one_a_question() -> None:
    site = Site()
    site.create("t")
    async with broker(site) as running:
        catalog = running.services.catalog
        before = len(site.ops)
        topic = await catalog.topic("t")
        assert topic is not None
        assert catalog.by_id(topic.id) == topic
        assert len(site.ops) == before
        for count in (1, 2):
            assert await catalog.topic("no") is None
            assert len(site.ops) == before + count, "that there is none is never remembered"
        for name in ("", "..", "a b", "x" * 250):
            assert await catalog.topic(name) is None
        assert len(site.ops) == before + 2, "there can be none"


@story
async def test_who_asks_in_the_same_turn_shares_a_question_and_who_comes_later_does_not() -> None:
    site = Site()
    async with broker(site) as running:
        catalog = running.services.catalog
        before = len(site.ops)
        assert set(await asyncio.gather(*(catalog.topic("no") for _ in range(10)))) == {None}
        assert len(site.ops) == before + 1
        site.freezes = lambda op: isinstance(op, Get)
        site.open.clear()
        early = asyncio.create_task(catalog.topic("new"))
        await asyncio.sleep(0.01)
        site.create("new")
        late = asyncio.create_task(catalog.topic("new"))
        await asyncio.sleep(0.01)
        site.open.set()
        assert await late is not None
        await early


@story
async def test_a_question_without_an_answer_is_no_answer() -> None:
    site = Site()
    async with broker(site) as running:
        site.fails = lambda op: isinstance(op, Get)
        with pytest.raises(UnavailableError):
            await running.services.catalog.topic("no")
        site.fails = lambda _: False
        assert await running.services.catalog.topic("no") is None


@story
async def test_a_new_incarnation_replaces_the_old_and_never_the_other_way_round() -> None:
    site = Site()
    old_id = site.create("t")
    async with broker(site) as running:
        catalog = running.services.catalog
        old = await catalog.topic("t")
        assert old is not None
        site.delete("t")
        new_id = site.create("t")
        assert (await catalog.topic("t")) == old, "known things are not asked for"
        await catalog.refresh()
        new = await catalog.topic("t")
        assert new is not None
        assert (new.id, new.incarnation) == (new_id, 1)
        assert catalog.known_id(old_id) is None
        catalog._take(old)
        assert await catalog.topic("t") == new


@story
async def test_a_topic_is_made_once_and_deleted_once() -> None:
    site = Site(lanes=3)
    async with broker(site) as running:
        catalog = running.services.catalog
        topic = await catalog.create("t", 3, {})
        with pytest.raises(ConflictError):
            await catalog.create("t", 3, {})
        await catalog.delete(topic)
        assert catalog.topics() == []
        assert await catalog.topic("t") is None
        for number in topic.lanes_used():
            fold = running.services.lanes[number].lane.fold
            assert fold is not None
            assert fold.is_deleted(topic.id)
        again = await catalog.create("t", 1, {})
        with pytest.raises(NotFoundError):
            await catalog.delete(topic)
        assert await catalog.topic("t") == again


@story
async def test_a_refresh_is_one_listing_and_a_read_for_each_topic_that_changed() -> None:
    site = Site()
    for at in range(30):
        site.create(f"t{at}")
    async with broker(site) as running:
        catalog = running.services.catalog
        assert len(catalog.topics()) == 30
        site.create("new")
        site.delete("t3")
        before = len(site.ops)
        await catalog.refresh()
        assert [type(op) for op in site.ops[before:]] == [ListPage, Get, Get]
        names = [topic.name for topic in catalog.topics()]
        assert "new" in names
        assert "t3" not in names


@story
async def test_metadata_is_made_again_when_epochs_change() -> None:
    site = Site()
    site.create("t", 2)
    async with broker(site) as running:
        catalog = running.services.catalog
        entry = catalog.known("t")
        assert entry is not None
        first = entry.metadata(12, (0,))
        assert entry.metadata(12, (0,)) is first
        assert entry.metadata(12, (1,)) != first
        assert entry.metadata(12, (0,)) == first
        assert entry.partition(1) is entry.partition(1)
        assert entry.partition(2) is None
        assert entry.partition(-1) is None
