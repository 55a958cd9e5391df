"""What every store does alike: memory, a folder, and S3 as SeaweedFS speaks it.

Each test runs on each store, by the plain functions; the last ones again on an event loop. A store
of this suite has a folder of its own, so tests see only what they wrote.
"""

import asyncio
import itertools
import pickle
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from lakelog.errors import InvalidInputError, NotFoundError, UnavailableError, UnsupportedError
from lakelog.store import (
    Changed,
    Created,
    Delete,
    Exists,
    Flow,
    Get,
    GetRange,
    GetSuffix,
    Head,
    ListPage,
    LocalStore,
    Op,
    PutIfAbsent,
    PutIfMatch,
    Replaced,
    Store,
    ask,
    each_object,
    get,
    get_range,
    head,
    open_store,
    put_if_absent,
    run,
    run_async,
)
from tests.parts.seaweedfs import SeaweedFS

_numbers = itertools.count()


@pytest.fixture(
    params=["memory", "local", pytest.param("seaweedfs", marks=pytest.mark.seaweedfs)],
)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """An empty store of each kind."""
    if request.param == "memory":
        return open_store("memory:")
    if request.param == "local":
        (tmp_path / "root").mkdir()
        return open_store(f"file://{tmp_path}/root")
    seaweedfs: SeaweedFS = request.getfixturevalue("seaweedfs")
    bucket = seaweedfs.bucket("contract")
    return open_store(f"s3://{bucket}/test-{next(_numbers)}", seaweedfs.options)


def create(store: Store, *keys: str, body: bytes = b"x") -> None:
    for key in keys:
        assert isinstance(store.perform(PutIfAbsent(key, body)), Created)


def keys_of(store: Store, prefix: str = "", after: str = "", limit: int = 1000) -> list[str]:
    return [info.key for info in store.perform(ListPage(prefix, after, limit)).objects]


# ---------------------------------------------------------------------------- reading


def test_an_object_comes_back_as_it_was_put(store: Store) -> None:
    body = bytes(range(256)) * 5000
    created = store.perform(PutIfAbsent("a/b", body))
    fetched = store.perform(Get("a/b"))
    assert fetched.body == body
    assert fetched.start == 0
    assert fetched.info == store.perform(Head("a/b"))
    assert (fetched.info.key, fetched.info.size) == ("a/b", len(body))
    assert fetched.info.etag == created.etag != ""
    assert fetched.info.modified_ms > 1_600_000_000_000


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (0, 10, b"0123456789"),
        (3, 5, b"34"),
        (9, 10, b"9"),
        (5, 99, b"56789"),
        (10, 11, b""),
        (50, 60, b""),
        (4, 4, b""),
        (50, 50, b""),
        (0, 0, b""),
    ],
)
def test_a_range_is_shorter_only_where_the_object_ends(
    store: Store, start: int, end: int, expected: bytes
) -> None:
    create(store, "a/ten", body=b"0123456789")
    fetched = store.perform(GetRange("a/ten", start, end))
    assert fetched.body == expected
    assert fetched.start == min(start, 10)
    assert fetched.info.size == 10


@pytest.mark.parametrize(
    ("length", "expected"), [(0, b""), (1, b"9"), (4, b"6789"), (10, b"0123456789")]
)
def test_a_suffix_is_the_last_bytes(store: Store, length: int, expected: bytes) -> None:
    create(store, "a/ten", body=b"0123456789")
    fetched = store.perform(GetSuffix("a/ten", length))
    assert (fetched.start, fetched.body) == (10 - length, expected)
    assert fetched.info.size == 10


def test_a_suffix_longer_than_the_object_is_the_object(store: Store) -> None:
    create(store, "a/ten", body=b"0123456789")
    fetched = store.perform(GetSuffix("a/ten", 64 << 10))
    assert (fetched.start, fetched.body) == (0, b"0123456789")


def test_an_empty_object_is_an_object(store: Store) -> None:
    create(store, "a/empty", body=b"")
    assert store.perform(Head("a/empty")).size == 0
    for op in (
        Get("a/empty"),
        GetRange("a/empty", 0, 5),
        GetRange("a/empty", 3, 5),
        GetSuffix("a/empty", 5),
        GetSuffix("a/empty", 0),
    ):
        fetched = store.perform(op)
        assert (fetched.start, fetched.body, fetched.info.size) == (0, b"", 0)
    assert keys_of(store) == ["a/empty"]
    assert store.perform(PutIfAbsent("a/empty", b"x")) == Exists()


@pytest.mark.parametrize(
    "op",
    [
        Head("a/missing"),
        Get("a/missing"),
        GetRange("a/missing", 0, 5),
        GetRange("a/missing", 5, 5),
        GetSuffix("a/missing", 5),
        GetSuffix("a/missing", 0),
        Head("nowhere/at/all"),
        Get("a"),
        Head("a/there/below"),
    ],
)
def test_what_is_not_there_is_not_found(store: Store, op: Op) -> None:
    create(store, "a/there")
    with pytest.raises(NotFoundError, match="check the"):
        store.perform(op)


def test_an_object_larger_than_allowed_is_not_fetched_whole(store: Store) -> None:
    create(store, "a/ten", body=b"0123456789")
    with pytest.raises(UnsupportedError, match="read it by ranges"):
        store.perform(Get("a/ten", size_bytes_max=9))
    assert store.perform(Get("a/ten", size_bytes_max=10)).body == b"0123456789"


# ---------------------------------------------------------------------------- listing


def test_a_listing_is_sorted_within_a_folder(store: Store) -> None:
    names = ["B", "a", "a-b", "a.txt", "a0", "b", "é", "日", "z", "_", "~", "00", "1", "01"]
    create(store, *(f"f/{name}" for name in names))
    assert keys_of(store, "f/") == sorted(f"f/{name}" for name in names)


def test_a_listing_is_of_whole_folders(store: Store) -> None:
    create(store, "a/1", "ab/2", "a/b/3", "c")
    assert keys_of(store, "a/") == ["a/1", "a/b/3"]
    assert keys_of(store, "a/b/") == ["a/b/3"]
    assert keys_of(store) == ["a/1", "a/b/3", "ab/2", "c"]
    assert keys_of(store, "nothing/") == []
    with pytest.raises(InvalidInputError, match="does not end in '/'"):
        ListPage("a")


def test_a_listing_of_nothing_is_empty(store: Store) -> None:
    page = store.perform(ListPage())
    assert (page.objects, page.more) == ((), False)


def test_a_listing_begins_behind_a_key_that_need_not_exist(store: Store) -> None:
    create(store, "f/1", "f/3", "f/5", "g/1")
    assert keys_of(store, "f/", "f/1") == ["f/3", "f/5"]
    assert keys_of(store, "f/", "f/2") == ["f/3", "f/5"]
    assert keys_of(store, "f/", "f/5") == []
    assert keys_of(store, "f/", "a") == ["f/1", "f/3", "f/5"]
    assert keys_of(store, "", "f/5") == ["g/1"]
    assert keys_of(store, "f/", "z") == []


def test_pages_end_at_their_limit_and_say_whether_to_go_on(store: Store) -> None:
    create(store, *(f"f/{number}" for number in range(5)))
    first = store.perform(ListPage("f/", "", 2))
    assert [info.key for info in first.objects] == ["f/0", "f/1"]
    assert first.more
    last = store.perform(ListPage("f/", "f/3", 2))
    assert [info.key for info in last.objects] == ["f/4"]
    assert not last.more


@pytest.mark.parametrize("limit", [1, 2, 3, 7])
def test_pages_of_a_tree_hold_every_key_once(store: Store, limit: int) -> None:
    # Names that sort differently with and without the slash of a folder.
    keys = ["a-b", "a.txt", "a/x", "a/y", "a/y-1", "a/z/1", "a0", "b/1", "b-1/1", "b.1/1", "c"]
    create(store, *keys)
    seen: list[str] = []
    while page := keys_of(store, "", seen[-1] if seen else "", limit):
        seen += page
    assert sorted(seen) == sorted(keys)
    if not store.url.startswith("s3:"):
        assert seen == sorted(keys)


def test_what_is_listed_is_what_head_says(store: Store) -> None:
    create(store, "f/1", body=b"one")
    create(store, "f/2", body=b"")
    listed = store.perform(ListPage("f/")).objects
    assert [store.perform(Head(info.key)) for info in listed] == list(listed)


def test_a_new_object_is_listed_at_once(store: Store) -> None:
    for number in range(10):
        create(store, f"f/{number}")
        assert len(keys_of(store, "f/", limit=5)) == min(5, number + 1)
        assert keys_of(store, "f/")[-1] == f"f/{number}"


def test_a_big_listing_comes_page_by_page(store: Store) -> None:
    keys = [f"f/{number // 1000}/{number:06}" for number in range(2500)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda key: create(store, key), keys))
    assert [info.key for info in each_object(store.perform, "f/")] == keys
    assert [info.key for info in each_object(store.perform, "f/", keys[1233])] == keys[1234:]


# ---------------------------------------------------------------------------- keys

ODD = [
    "a b", " lead", "trail ", "a+b", "a%b", "a%2Fb", "a%20b", "#?&=", "\"q'",
    "~*:;,@$!()[]{}|^`<>", "a=1,b=2",
    ".hidden", "..x", "...", "x.", "\u00e9", "e\u0301", "日本", "😀", "-", "=", "x" * 255,
]  # fmt: skip


def test_odd_keys_are_kept_as_they_are(store: Store) -> None:
    for name in ODD:
        create(store, f"odd/{name}/{name}", body=name.encode())
    for name in ODD:
        assert store.perform(Get(f"odd/{name}/{name}")).body == name.encode()
    assert sorted(keys_of(store)) == sorted(f"odd/{name}/{name}" for name in ODD)


def test_odd_keys_can_be_gone_on_from(store: Store) -> None:
    create(store, *(f"odd/{name}" for name in ODD))
    expected = sorted(f"odd/{name}" for name in ODD)
    for at, key in enumerate(expected):
        assert keys_of(store, "odd/", key) == expected[at + 1 :]


# ---------------------------------------------------------------------------- writing


def test_a_key_is_created_once(store: Store) -> None:
    assert isinstance(store.perform(PutIfAbsent("a/1", b"first")), Created)
    assert store.perform(PutIfAbsent("a/1", b"second")) == Exists()
    assert store.perform(PutIfAbsent("a/1", b"first")) == Exists()
    assert store.perform(Get("a/1")).body == b"first"


def race(store: Store, ops: Sequence[Op]) -> list[Any]:
    """Perform operations in threads that start together; an unknown outcome is one too."""
    start = threading.Barrier(len(ops))

    def one(op: Op) -> Any:
        start.wait()
        try:
            return store.perform(op)
        except UnavailableError as error:
            return error

    with ThreadPoolExecutor(len(ops)) as pool:
        return list(pool.map(one, ops))


def winner_of(outcomes: list[Any], won: type, body: bytes) -> None:
    """Check that one won, and that it is the one whose body is there."""
    winners = [number for number, outcome in enumerate(outcomes) if isinstance(outcome, won)]
    unknown = [n for n, outcome in enumerate(outcomes) if isinstance(outcome, UnavailableError)]
    assert len(winners) <= 1
    assert int(body) in (winners or unknown)


def test_one_of_many_racing_creators_wins(store: Store) -> None:
    for turn in range(5):
        key = f"race/{turn}"
        outcomes = race(store, [PutIfAbsent(key, b"%d" % number) for number in range(8)])
        winner_of(outcomes, Created, store.perform(Get(key)).body)


def test_one_of_many_racing_replacements_wins(store: Store) -> None:
    for turn in range(3):
        key = f"race/{turn}"
        etag = store.perform(PutIfAbsent(key, b"-1")).etag
        outcomes = race(store, [PutIfMatch(key, b"%d" % number, etag) for number in range(8)])
        winner_of(outcomes, Replaced, store.perform(Get(key)).body)


def test_an_object_is_replaced_only_by_whom_knows_it(store: Store) -> None:
    first = store.perform(PutIfAbsent("a/1", b"one")).etag
    second = store.perform(PutIfMatch("a/1", b"two", first)).etag
    assert store.perform(PutIfMatch("a/1", b"three", first)) == Changed()
    assert store.perform(Get("a/1")).body == b"two"
    assert store.perform(Head("a/1")).etag == second != first
    assert isinstance(store.perform(PutIfMatch("a/1", b"three", second)), Replaced)
    assert store.perform(Get("a/1")).body == b"three"


def test_what_is_not_there_is_not_replaced(store: Store) -> None:
    etag = store.perform(PutIfAbsent("a/1", b"one")).etag
    assert store.perform(PutIfMatch("a/2", b"two", etag)) == Changed()
    store.perform(Delete("a/1"))
    assert store.perform(PutIfMatch("a/1", b"two", etag)) == Changed()
    assert keys_of(store) == []


def test_what_was_deleted_is_gone_and_may_come_again(store: Store) -> None:
    create(store, "a/1", "a/2")
    assert store.perform(Delete("a/1")) is None
    assert store.perform(Delete("a/1")) is None
    assert store.perform(Delete("never/was")) is None
    with pytest.raises(NotFoundError):
        store.perform(Get("a/1"))
    assert keys_of(store) == ["a/2"]
    create(store, "a/1", body=b"again")


# ---------------------------------------------------------------------------- driving


def _story() -> Flow[tuple[object, ...]]:
    assert isinstance((yield from put_if_absent("a/1", b"0123456789")), Created)
    info = yield from head("a/1")
    whole = yield from get("a/1")
    part = yield from get_range("a/1", 2, 4)
    last = (yield from ask(GetSuffix("a/1", 2))).body
    again = yield from ask(GetSuffix("a/1", 3))
    page = yield from ask(ListPage("a/"))
    try:
        yield from get("a/2")
    except NotFoundError:
        return info.size, whole, part, last, again.start, page.objects[0].key
    return ()


def test_flows_run_on_every_store(store: Store) -> None:
    expected = (10, b"0123456789", b"23", b"89", 7, "a/1")
    assert run(_story(), store.perform) == expected
    store.perform(Delete("a/1"))
    assert asyncio.run(run_async(_story(), store.perform_async)) == expected


def test_the_loop_sees_what_threads_see(store: Store) -> None:
    async def story() -> None:
        puts = [store.perform_async(PutIfAbsent(f"f/{n:04}", b"%d" % n)) for n in range(50)]
        assert all(isinstance(answer, Created) for answer in await asyncio.gather(*puts))
        assert await store.perform_async(PutIfAbsent("f/0001", b"")) == Exists()
        gets = [store.perform_async(GetRange(f"f/{n:04}", 0, 99)) for n in range(50)]
        assert [int(fetched.body) for fetched in await asyncio.gather(*gets)] == list(range(50))
        listed = await store.perform_async(ListPage("f/"))
        assert listed.objects == tuple(each_object(store.perform, "f/"))
        empty = await store.perform_async(ListPage("g/"))
        assert empty.objects == ()
        with pytest.raises(NotFoundError):
            await store.perform_async(Head("g/1"))
        await store.perform_async(Delete("f/0001"))
        assert (await store.perform_async(GetRange("f/0002", 50, 60))).body == b""

    asyncio.run(story())
    assert len(keys_of(store)) == 49


def test_a_store_that_was_pickled_is_the_same_store(store: Store) -> None:
    create(store, "a/1")
    if store.url == "memory:":
        with pytest.raises(InvalidInputError, match="cannot leave its process"):
            pickle.dumps(store)
        return
    copy = pickle.loads(pickle.dumps(store))
    assert keys_of(copy) == ["a/1"]
    assert copy.url == store.url
    if isinstance(store, LocalStore):
        assert copy.root == store.root


def test_pieces_become_one_object(store: Store) -> None:
    signed = memoryview(b" four").cast("b")  # As Arrow shows its memory.
    pieces = (b"one", bytearray(b" two"), memoryview(b" three"), signed)
    assert isinstance(store.perform(PutIfAbsent("pieces", pieces)), Created)
    assert store.perform(Get("pieces")).body == b"one two three four"
    assert isinstance(store.perform(PutIfAbsent("pieces", pieces)), Exists)
