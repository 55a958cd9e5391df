"""The topics that a broker knows: what is there comes from memory, what is not from the store."""

import asyncio

import pytest

from lakelog.broker.allowance import begin_request
from lakelog.broker.lookups import NAMES_MAX, PACE_MS
from lakelog.errors import ConflictError, NotFoundError, UnavailableError
from lakelog.names import BROKERS_PREFIX
from lakelog.store import Get, ListPage, Op
from lakelog.wire import MetadataPartition
from tests.patience import in_time
from tests.unit.broker.site import Site, broker, virtual_story
from tests.virtual_time import VirtualClock, pass_time


def of_topics(site: Site, before: int) -> list[type[Op]]:
    """The operations since then that were not about members."""
    since = site.ops[before:]
    names = [(op, op.prefix if isinstance(op, ListPage) else op.key) for op in since]
    return [type(op) for op, name in names if not name.startswith(BROKERS_PREFIX)]


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
        assert of_topics(site, before) == []
        begin_request()
        for _ in range(3):
            assert await catalog.topic("no") is None
            assert of_topics(site, before) == [Get], "the answer is good for the request"
        for name in ("", "..", "a b", "x" * 250):
            assert await catalog.topic(name) is None
        assert of_topics(site, before) == [Get], "there can be none"


class Hands(VirtualClock):
    """A clock that can be moved on."""

    passed_ms = 0

    def boot_ms(self) -> int:
        return super().boot_ms() + self.passed_ms


@virtual_story
async def test_a_topic_that_somebody_else_makes_is_seen_by_the_next_request() -> None:
    site = Site()
    async with broker(site) as running:
        catalog = running.services.catalog
        loop = asyncio.get_running_loop()
        for at in range(5):
            assert await catalog.topic(f"new-{at}") is None
            assert await catalog.find_entry("", bytes(16)) is None
            id_ = site.create(f"new-{at}")
            asked_s = loop.time()
            assert await catalog.topic(f"new-{at}") is not None, "the store was asked just before"
            site.delete(f"new-{at}")
            later = site.create(f"later-{at}")
            assert await catalog.find_entry("", later) is not None
            assert catalog.known_id(id_) is None
            assert loop.time() - asked_s <= 2 * PACE_MS / 1000


@virtual_story
async def test_the_same_question_is_asked_four_times_a_second_however_often_it_is_put() -> None:
    site = Site()
    async with broker(site) as running:
        catalog = running.services.catalog
        before, end_s = len(site.ops), asyncio.get_running_loop().time() + 2

        async def ask_on() -> None:
            while asyncio.get_running_loop().time() < end_s:
                assert await catalog.topic("no") is None
                assert await catalog.find_entry("", bytes(16)) is None

        await asyncio.gather(*(ask_on() for _ in range(50)))
        asked = of_topics(site, before)
        assert 1 <= asked.count(Get) <= 10
        assert 1 <= asked.count(ListPage) <= 10


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
        begin_request()
        for at in range(5 * NAMES_MAX):
            assert await catalog.topic(f"no-{at}") is None
        asked = of_topics(site, before)
        in_time(asked.count(Get) == NAMES_MAX and asked.count(ListPage) == 1, asked)
        assert len(asked) <= 3 * (NAMES_MAX + 1), "however slow this machine is"


@virtual_story
async def test_ids_that_are_made_up_cost_one_listing() -> None:
    site = Site()
    async with broker(site) as running:
        catalog = running.services.catalog
        before = len(site.ops)
        begin_request()
        for at in range(300):
            assert await catalog.find_entry("", at.to_bytes(16, "big")) is None
        assert of_topics(site, before) == [ListPage]


@virtual_story
async def test_there_is_one_listing_on_its_way_at_most() -> None:
    site = Site()
    async with broker(site) as running:
        catalog = running.services.catalog
        await pass_time(PACE_MS / 1000)
        before = len(site.ops)
        site.freezes = lambda op: isinstance(op, ListPage)
        site.open.clear()
        early = [
            asyncio.create_task(catalog.find_entry("", at.to_bytes(16, "big"))) for at in range(10)
        ]
        await pass_time(0.01)
        late = [asyncio.create_task(catalog.refresh()) for _ in range(10)]
        await pass_time(0.01)
        assert of_topics(site, before) == [ListPage]
        site.open.set()
        await asyncio.gather(*early, *late)
        assert of_topics(site, before) == [ListPage] * 2, "who refreshes shares the next one"


@virtual_story
async def test_who_asks_for_a_name_at_the_same_time_shares_a_question() -> None:
    site = Site()
    async with broker(site) as running:
        catalog = running.services.catalog
        site.freezes = lambda op: isinstance(op, Get)
        site.open.clear()
        before = len(site.ops)
        early = [asyncio.create_task(catalog.topic("new")) for _ in range(10)]
        await pass_time(0.01)
        assert of_topics(site, before) == [Get]
        late = asyncio.create_task(catalog.topic("new"))
        await pass_time(0.01)
        site.open.set()
        assert set(await asyncio.gather(*early, late)) == {None}
        assert of_topics(site, before) == [Get] * 2, "who comes later needs a later question"


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
        with pytest.raises(NotFoundError):  # As at a broker that has not heard of it.
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
async def test_metadata_is_made_again_when_leaders_or_epochs_change() -> None:
    site = Site()
    site.create("t", 2)
    async with broker(site) as running:
        catalog = running.services.catalog
        entry = catalog.known("t")
        assert entry is not None
        lane, later, elsewhere = (
            MetadataPartition(leader, epoch, (leader,))
            for leader, epoch in ((1, 0), (1, 1), (2, 0))
        )
        first = entry.metadata(12, (lane,))
        assert entry.metadata(12, (lane,)) is first
        assert len({first, *(entry.metadata(12, (one,)) for one in (later, elsewhere))}) == 3
        assert entry.metadata(12, (lane,)) == first
        assert entry.partition(1) is entry.partition(1)
        assert entry.partition(2) is None
        assert entry.partition(-1) is None
