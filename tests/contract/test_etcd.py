"""A real etcd: what is so of a store of cells in memory is so of one in etcd."""

import asyncio
import itertools
from collections.abc import Callable, Iterator

import pytest

from lakelog.errors import NotFoundError, UnavailableError
from lakelog.names import METADATA_KEY
from lakelog.store import (
    Changed,
    Created,
    Delete,
    EtcdStore,
    Exists,
    Get,
    Head,
    ListPage,
    PutIfAbsent,
    PutIfMatch,
    PutTogether,
    Replaced,
)
from tests.parts.etcd import Etcd, running_etcd
from tests.unit.coordination import test_groups, test_membership
from tests.unit.coordination.test_groups import *  # noqa: F403
from tests.unit.coordination.test_keyed_groups import *  # noqa: F403
from tests.unit.coordination.test_membership import *  # noqa: F403

# A store whose lists tell times and no etags; lists of etcd tell etags and no times.
del test_a_store_whose_lists_have_no_etags_is_read_each_time  # noqa: F821

_folders = itertools.count()


@pytest.fixture(scope="module", params=[1, 3], ids=["one-server", "three-servers"])
def etcd(request: pytest.FixtureRequest) -> Iterator[Etcd]:
    with running_etcd(request.param) as running:
        yield running


def new_store(etcd: Etcd, now_ms: Callable[[], int] | None = None) -> EtcdStore:
    """Return a store that has a folder of its own."""
    url = etcd.url(f"tests/{next(_folders)}")
    store = EtcdStore(url) if now_ms is None else EtcdStore(url, now_ms=now_ms)
    store.perform(PutIfAbsent(METADATA_KEY, b"{}"))
    return store


@pytest.fixture(autouse=True)
def suites(etcd: Etcd, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the suites of groups and members, which are imported here, run on it."""
    monkeypatch.setattr(test_groups.Site, "open_store", staticmethod(lambda: new_store(etcd)))
    monkeypatch.setattr(
        test_membership.Cluster,
        "open_store",
        staticmethod(lambda now_ms: new_store(etcd, now_ms)),
    )


@pytest.fixture
def store(etcd: Etcd) -> EtcdStore:
    return new_store(etcd)


# ---------------------------------------------------------------------------- cells


def test_an_object_is_created_once(store: EtcdStore) -> None:
    made = store.perform(PutIfAbsent("a/b", b"1"))
    assert isinstance(made, Created)
    assert store.perform(PutIfAbsent("a/b", b"2")) == Exists()
    found = store.perform(Get("a/b"))
    assert (found.body, found.info.etag, found.info.size) == (b"1", made.etag, 1)
    assert store.perform(Head("a/b")) == found.info


def test_it_is_replaced_if_it_is_still_the_one(store: EtcdStore) -> None:
    made = store.perform(PutIfAbsent("a", b"1"))
    after = store.perform(PutIfMatch("a", b"2", made.etag))
    assert isinstance(after, Replaced)
    assert store.perform(PutIfMatch("a", b"3", made.etag)) == Changed()
    assert store.perform(PutIfMatch("a", b"4", after.etag)) != Changed()
    store.perform(Delete("a"))
    assert store.perform(PutIfMatch("a", b"5", after.etag)) == Changed()
    with pytest.raises(NotFoundError):
        store.perform(Get("a"))


def test_one_that_was_made_anew_is_another(store: EtcdStore) -> None:
    made = store.perform(PutIfAbsent("a", b"1"))
    store.perform(Delete("a"))
    store.perform(PutIfAbsent("a", b"1"))
    assert store.perform(PutIfMatch("a", b"2", made.etag)) == Changed()


def test_several_are_put_together_or_not_at_all(store: EtcdStore) -> None:
    made = store.perform(PutIfAbsent("c", b"1"))
    store.perform(PutIfAbsent("gone", b"x"))
    after = store.perform(PutTogether("c", b"2", made.etag, (("n/1", b"one"), ("gone", None))))
    assert isinstance(after, Replaced)
    assert store.perform(Get("n/1")).body == b"one"
    with pytest.raises(NotFoundError):
        store.perform(Get("gone"))
    late = PutTogether("c", b"3", made.etag, (("n/1", b"late"), ("n/2", b"late")))
    assert store.perform(late) == Changed()
    assert store.perform(Get("n/1")).body == b"one"
    assert [one.key for one in store.perform(ListPage("n/")).objects] == ["n/1"]


def test_a_list_is_whole_and_in_order_however_small_its_pages(store: EtcdStore) -> None:
    keys = sorted(f"l/{number:03}" for number in range(30))
    for key in (*reversed(keys), "l.", "l0/x", "k/x"):
        store.perform(PutIfAbsent(key, b""))
    found: list[str] = []
    more, after = True, ""
    while more:
        page = store.perform(ListPage("l/", after, 7))
        found += [one.key for one in page.objects]
        more, after = page.more, found[-1]
    assert found == keys


def test_it_does_the_same_on_a_loop(store: EtcdStore) -> None:
    async def story() -> None:
        made = await store.perform_async(PutIfAbsent("a", b"1"))
        answers = await asyncio.gather(
            *(store.perform_async(PutIfMatch("a", b"%d" % at, made.etag)) for at in range(8))
        )
        assert [isinstance(one, Replaced) for one in answers].count(True) == 1
        await store.close()

    asyncio.run(story())


# ---------------------------------------------------------------------------- the place


def test_where_nobody_has_put_metadata_nothing_is_known(etcd: Etcd) -> None:
    empty = EtcdStore(etcd.url("tests/empty"))
    for op in (Get("a"), ListPage("a/"), PutIfAbsent("a", b"1"), Delete("a")):
        with pytest.raises(UnavailableError, match="no metadata of a namespace"):
            empty.perform(op)


def test_who_knew_another_place_can_do_nothing_and_is_told_nothing(store: EtcdStore) -> None:
    made = store.perform(PutIfAbsent("a", b"1"))
    before = store.perform(Get(METADATA_KEY))
    store.perform(Get("a"))
    other = EtcdStore(store.url)
    other.perform(PutIfMatch(METADATA_KEY, b"another", before.info.etag))
    mine = PutIfMatch("a", b"2", made.etag)
    for op in (mine, Get("a"), ListPage("a/"), PutIfAbsent("b", b"1"), Delete("a")):
        with pytest.raises(UnavailableError, match="moved or restored"):
            store.perform(op)
    assert other.perform(mine) == Changed()
    found = other.perform(Get("a"))
    assert (found.body, found.info.etag == made.etag) == (b"1", False)
    assert isinstance(other.perform(PutIfMatch("a", b"2", found.info.etag)), Replaced)


def test_one_that_was_emptied_does_not_say_that_nobody_is_there(store: EtcdStore) -> None:
    store.perform(PutIfAbsent("a", b"1"))
    EtcdStore(store.url).perform(Delete(METADATA_KEY))
    with pytest.raises(UnavailableError):
        store.perform(ListPage("a/"))
