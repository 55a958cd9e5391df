"""The topics that a broker knows: what is there comes from memory, what is not from the store."""

import asyncio

import pytest

from lakelog.broker.lookups import FRESH_MS, NAMES_MAX
from lakelog.errors import ConflictError, NotFoundError, UnavailableError
from lakelog.store import Get, ListPage
from tests.patience import in_time
from tests.unit.broker.site import Site, broker, virtual_story
from tests.virtual_time import VirtualClock, pass_time


@virtual_story
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
        for _ in range(3):
            assert await catalog.topic("no") is None
            assert len(site.ops) == before + 1, "the answer is good for a second"
        for name in ("", "..", "a b", "x" * 250):
            assert await catalog.topic(name) is None
        assert len(site.ops) == before + 1, "there can be none"


class Hands(VirtualClock):
    """A clock that can be moved on."""

    passed_ms = 0

    def boot_ms(self) -> int:
        return super().boot_ms() + self.passed_ms


@virtual_story
async def test_a_topic_that_somebody_else_makes_is_seen_within_a_second() -> None:
    site, hands = Site(), Hands()
    async with broker(site, clock=hands) as running:
        catalog = running.services.catalog
        unknown = bytes(16)
        assert await catalog.topic("new") is None
        assert await catalog.find_entry("", unknown) is None
        id_ = site.create("new")
        other = site.create("other")
        assert await catalog.topic("new") is None, "it was asked for just now"
        assert await catalog.topic("other") is not None, "this one was not"
        assert await catalog.find_entry("", id_) is None
        hands.passed_ms += FRESH_MS + 1
        assert await catalog.topic("new") is not None
        site.delete("other")
        later = site.create("later")
        assert await catalog.find_entry("", later) is not None
        assert catalog.known_id(other) is None


@virtual_story
async def test_a_topic_that_is_made_here_is_seen_at_once() -> None:
    async with broker(Site()) as running:
        catalog = running.services.catalog
        assert await catalog.topic("new") is None
        made = await catalog.create("new", 1, {})
        assert await catalog.topic("new") == made


@virtual_story
async def test_names_that_are_made_up_cost_a_listing_and_not_a_read_each() -> None:
    site = Site()
    async with broker(site) as running:
        catalog = running.services.catalog
        before = len(site.ops)
        for at in range(5 * NAMES_MAX):
            assert await catalog.topic(f"no-{at}") is None
        asked = [type(op) for op in site.ops[before:]]
        in_time(asked.count(Get) == NAMES_MAX and asked.count(ListPage) == 1, asked)
        assert len(asked) <= 3 * (NAMES_MAX + 1), "however slow this machine is"


@virtual_story
async def test_ids_that_are_made_up_cost_one_listing() -> None:
    site = Site()
    async with broker(site) as running:
        catalog = running.services.catalog
        before = len(site.ops)
        for at in range(300):
            assert await catalog.find_entry("", at.to_bytes(16, "big")) is None
        in_time([type(op) for op in site.ops[before:]] == [ListPage], site.ops[before:])


@virtual_story
async def test_there_is_one_listing_on_its_way_at_most() -> None:
    site = Site()
    async with broker(site) as running:
        catalog = running.services.catalog
        before = site.count(ListPage)
        site.freezes = lambda op: isinstance(op, ListPage)
        site.open.clear()
        early = [
            asyncio.create_task(catalog.find_entry("", at.to_bytes(16, "big"))) for at in range(10)
        ]
        await pass_time(0.01)
        late = [asyncio.create_task(catalog.refresh()) for _ in range(10)]
        await pass_time(0.01)
        assert site.count(ListPage) == before + 1
        site.open.set()
        await asyncio.gather(*early, *late)
        assert site.count(ListPage) == before + 2, "who refreshes shares the next one"


@virtual_story
async def test_who_asks_for_a_name_within_a_second_shares_a_question() -> None:
    site, hands = Site(), Hands()
    async with broker(site, clock=hands) as running:
        catalog = running.services.catalog
        site.freezes = lambda op: isinstance(op, Get)
        site.open.clear()
        before = len(site.ops)
        early = [asyncio.create_task(catalog.topic("new")) for _ in range(10)]
        await pass_time(0.01)
        assert len(site.ops) == before + 1
        hands.passed_ms += FRESH_MS + 1
        late = asyncio.create_task(catalog.topic("new"))
        await pass_time(0.01)
        site.open.set()
        assert set(await asyncio.gather(*early, late)) == {None}
        assert len(site.ops) == before + 2, "who comes later needs a question that began later"


@virtual_story
async def test_a_question_without_an_answer_is_no_answer() -> None:
    site = Site()
    async with broker(site) as running:
        catalog = running.services.catalog
        site.fails = lambda op: isinstance(op, Get | ListPage)
        with pytest.raises(UnavailableError):
            await catalog.topic("no")
        with pytest.raises(UnavailableError):
            await catalog.find_entry("", bytes(16))
        site.fails = lambda _: False
        assert await catalog.topic("no") is None
        assert await catalog.find_entry("", bytes(16)) is None


@virtual_story
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


@virtual_story
async def test_a_topic_is_made_once_and_deleted_once() -> None:
    site = Site(lanes=3)
    async with broker(site) as running:
        catalog = running.services.catalog
        topic = await catalog.create("t", 3, {})
        with pytest.raises(ConflictError):
            await catalog.create("t", 3, {})
        await catalog.delete(topic)
        assert catalog.names() == ()
        assert await catalog.topic("t") is None
        for number in topic.lanes_used():
            fold = running.services.lanes[number].lane.fold
            assert fold is not None
            assert fold.is_deleted(topic.id)
        again = await catalog.create("t", 1, {})
        with pytest.raises(NotFoundError):
            await catalog.delete(topic)
        assert await catalog.topic("t") == again


@virtual_story
async def test_a_refresh_is_one_listing_and_a_read_for_each_topic_that_changed() -> None:
    site = Site()
    for at in range(30):
        site.create(f"t{at}")
    async with broker(site) as running:
        catalog = running.services.catalog
        assert len(catalog.names()) == 30
        site.create("new")
        site.delete("t3")
        before = len(site.ops)
        await catalog.refresh()
        assert [type(op) for op in site.ops[before:]] == [ListPage, Get, Get]
        names = list(catalog.names())
        assert "new" in names
        assert "t3" not in names


@virtual_story
async def test_names_are_one_tuple_until_a_topic_comes_or_goes() -> None:
    site = Site()
    for name in ("b", "a", "gone"):
        site.create(name)
    site.delete("gone")
    async with broker(site) as running:
        catalog = running.services.catalog
        first = catalog.names()
        assert first == ("a", "b")
        a = await catalog.topic("a")
        assert a is not None
        await catalog.grow(a, 2)
        assert await catalog.topic("gone") is None
        await catalog.refresh()
        assert catalog.names() is first
        made = await catalog.create("c", 1, {})
        assert catalog.names() == ("a", "b", "c")
        await catalog.delete(made)
        assert catalog.names() == ("a", "b")


@virtual_story
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
