"""All groups are moved: nothing is lost, whoever dies, and whoever wakes up in between."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any

import pytest

from lakelog.catalog import (
    BUCKET,
    ETCD,
    MetadataStores,
    Namespace,
    check_metadata,
    decode_backup,
    encode_backup,
    make_namespace,
    move_groups,
    open_namespace,
    restore_groups,
)
from lakelog.coordination import (
    GROUP_BYTES_MAX,
    ClaimedShard,
    Groups,
    decode_group,
    encode_group,
    groups_in,
    mirror_shard,
    read_mirror,
    shard_of,
    stored_shards,
)
from lakelog.errors import (
    ConflictError,
    CorruptError,
    FencedError,
    InvalidInputError,
    UnavailableError,
)
from lakelog.groups import Committed, Durable, Offsets, Roster, TopicIdPartition
from lakelog.model import Rules
from lakelog.names import CLUSTER_KEY
from lakelog.store import Delete, Get, ListPage, MemoryStore, Op, PutIfAbsent, Work, run, working

URL = "s3://bucket/folder"
TOPIC = b"0123456789abcdef"
NAMES = tuple(f"group-{number}" for number in range(40))


class Killed(BaseException):
    """The process has ended."""


@dataclass
class Site:
    """A bucket and an etcd, and a process that may be killed at any of its operations."""

    bucket: MemoryStore = field(default_factory=MemoryStore)
    etcd: MemoryStore = field(default_factory=MemoryStore)
    left: int = 1 << 30
    is_late: bool = False
    """Whether the operation at which the process dies is performed."""
    then: Callable[[], object] = lambda: None
    """What happens just before that."""

    def __post_init__(self) -> None:
        self.run(BUCKET, make_namespace(bytes(16), Rules(lanes=1)))

    def run(self, place: str, flow: Work[Any]) -> Any:
        store = self.bucket if place == BUCKET else self.etcd

        def perform(op: Op) -> Any:
            self.left -= 1
            if self.left == 0:
                self.then()
            if self.left <= 0 and not self.is_late:
                raise Killed
            answer = store.perform(op)
            if self.left <= 0:
                raise Killed
            return answer

        return run(flow, working(perform, sleep=lambda _: None))

    @property
    def stores(self) -> MetadataStores:
        return MetadataStores(
            URL, lambda flow: self.run(BUCKET, flow), lambda flow: self.run(ETCD, flow)
        )

    @property
    def namespace(self) -> Namespace:
        found: Namespace = self.run(BUCKET, open_namespace())
        return found

    def move(self, to: str | None = None, shards: int | None = None) -> Namespace:
        return move_groups(self.stores, to=to, shards=shards, note=lambda _: None)

    def groups(self, broker: bytes = b"r" * 16) -> Groups:
        namespace = self.namespace
        return groups_in(namespace.metadata, broker, move=namespace.moves)

    def here(self, flow: Work[Any]) -> Any:
        """Run a flow where the groups are."""
        return self.run(self.namespace.metadata, flow)

    def offsets(self) -> dict[str, int]:
        """Return what is committed, as anybody finds it."""
        shards = self.here(stored_shards(self.groups()))
        found = {}
        for number, shard in shards.items():
            for name, body in shard.groups.items():
                assert shard_of(name, len(shards)) == number
                found[name] = offset_of(body)
        return found

    def settle(self) -> None:
        self.left, self.then = 1 << 30, lambda: None


def committed(name: str, offset: int) -> bytes:
    rows = {TopicIdPartition(TOPIC, 0): Committed(offset, -1, "", 5)}
    return encode_group(Durable(id=name, roster=Roster(), offsets=Offsets.of(rows)))


def offset_of(body: bytes) -> int:
    (row,) = decode_group(body).offsets.rows.values()
    return row.offset


class Broker:
    """Has claims and commits, and knows of no move."""

    def __init__(self, site: Site, run_: bytes) -> None:
        self.site, self.place = site, site.namespace.metadata
        self.groups = site.groups(run_)
        self.held: dict[int, ClaimedShard] = {}

    def do(self, flow: Work[Any]) -> Any:
        store = self.site.bucket if self.place == BUCKET else self.site.etcd
        return run(flow, working(store.perform, sleep=lambda _: None))

    def claim(self) -> "Broker":
        first = self.do(self.groups.claim(0))
        self.held = {0: first}
        for number in range(1, first.shards):
            self.held[number] = self.do(self.groups.claim(number, first.shards))
        return self

    def commit(self, name: str, offset: int) -> None:
        shard = shard_of(name, len(self.held))
        saved = self.groups.save(self.held[shard], {name: committed(name, offset)})
        self.held[shard] = self.do(saved)


def a_site() -> tuple[Site, Broker, dict[str, int]]:
    site = Site()
    broker = Broker(site, b"a" * 16).claim()
    for number, name in enumerate(NAMES):
        broker.commit(name, number)
    return site, broker, dict(zip(NAMES, range(len(NAMES)), strict=True))


@pytest.mark.parametrize(
    ("ways", "metadata", "shards"),
    [
        ([(ETCD, None)], ETCD, 8),
        ([(None, 32)], BUCKET, 32),
        ([(ETCD, None), (BUCKET, None)], BUCKET, 8),
        ([(ETCD, None), (None, 32), (None, 3), (BUCKET, None), (ETCD, 7)], ETCD, 7),
    ],
)
def test_groups_are_where_they_were_moved_to(
    ways: list[tuple[str | None, int | None]], metadata: str, shards: int
) -> None:
    site, _, offsets = a_site()
    for to, count_ in ways:
        site.move(to, count_)
    assert (site.namespace.metadata, site.namespace.moves) == (metadata, len(ways))
    assert len(site.here(stored_shards(site.groups()))) == shards
    assert site.offsets() == offsets
    site.here(check_metadata(site.namespace))


def test_who_is_where_it_should_be_is_not_moved() -> None:
    site, _, _ = a_site()
    assert site.move(BUCKET, 8).moves == 0
    site.move(ETCD)
    assert site.move(ETCD).moves == 1


@pytest.mark.parametrize("way", [(ETCD, None), (None, 32)])
@pytest.mark.parametrize("is_late", [False, True])
def test_it_may_be_killed_anywhere_and_run_again(
    way: tuple[str | None, int | None], is_late: bool
) -> None:
    for steps in count(1):
        site, old, offsets = a_site()
        site.left, site.is_late = steps, is_late
        try:
            site.move(*way)
        except Killed:
            site.settle()
        else:
            assert steps > 60
            return
        try:  # A broker that has slept through all of it wakes up, and commits.
            old.commit(NAMES[0], 1000)
            offsets[NAMES[0]] = 1000
        except (FencedError, UnavailableError):
            pass
        site.move(*way)
        assert site.offsets() == offsets, steps
        with pytest.raises((FencedError, UnavailableError)):
            old.commit(NAMES[1], 1000)
        assert Broker(site, b"b" * 16).claim().held


def test_what_is_committed_at_any_moment_of_it_is_moved_or_refused() -> None:
    for steps in count(1):
        site, old, offsets = a_site()

        def commit(old: Broker = old, offsets: dict[str, int] = offsets) -> None:
            try:
                old.commit(NAMES[5], 77)
            except (FencedError, UnavailableError):
                return
            offsets[NAMES[5]] = 77

        site.left, site.then, site.is_late = steps, commit, True
        try:
            site.move(ETCD)
        except Killed:
            site.settle()
            site.move(ETCD)
        else:
            return
        assert site.offsets() == offsets, steps


def test_a_broker_of_before_can_neither_claim_nor_read_what_was_moved() -> None:
    site, _, _ = a_site()
    old = Broker(site, b"c" * 16)
    site.move(ETCD)
    for flow in (old.groups.claim(0), old.groups.read(0), old.groups.holder(3)):
        with pytest.raises(UnavailableError, match="have been"):
            old.do(flow)


def test_a_shard_that_nobody_ever_claimed_cannot_be_made_behind_the_move() -> None:
    site = Site()
    old = Broker(site, b"c" * 16)
    site.move(None, 4)
    with pytest.raises(UnavailableError, match="have been"):
        old.do(old.groups.claim(6, 8))


def test_who_changes_their_mind_is_heard() -> None:
    """It was to go to etcd, and that does not answer: it stays in the bucket."""
    site, old, offsets = a_site()
    site.left = 40
    with pytest.raises(Killed):
        site.move(ETCD)
    site.settle()
    assert site.namespace.moving is not None
    with pytest.raises((FencedError, UnavailableError)):
        old.commit(NAMES[0], 1)
    site.etcd = MemoryStore()
    after = site.move(BUCKET)
    assert (after.metadata, after.moves, after.moving) == (BUCKET, 2, None)
    assert site.offsets() == offsets


def test_two_at_once_do_the_same() -> None:
    for steps in range(1, 90, 3):
        site, _, offsets = a_site()
        second = MetadataStores(
            URL,
            lambda flow, site=site: run(flow, working(site.bucket.perform, sleep=lambda _: None)),
            lambda flow, site=site: run(flow, working(site.etcd.perform, sleep=lambda _: None)),
        )
        site.left, site.is_late = steps, True
        site.then = partial(move_groups, second, to=ETCD, shards=None, note=lambda _: None)
        with suppress(Killed):
            site.move(ETCD)
        site.settle()
        site.move(ETCD)
        assert (site.offsets(), site.namespace.moves) == (offsets, 1), steps


def test_what_was_moved_leaves_a_fence_and_no_groups() -> None:
    site, _, _ = a_site()
    site.move(None, 4)
    listed = site.bucket.perform(ListPage("_lakelog/groups/")).objects
    old_keys = {f"_lakelog/groups/{number:02}" for number in range(8)}
    new_keys = {f"_lakelog/groups/1-{number:02}" for number in range(4)}
    assert {one.key for one in listed} == old_keys | new_keys
    old = groups_in(BUCKET, b"x" * 16)
    for number in range(8):
        shard = site.run(BUCKET, old.read_moved(number))
        assert (shard.moved, shard.groups) == (1, {})


def test_a_group_that_etcd_does_not_take_stops_it_before_it_begins() -> None:
    site, old, _ = a_site()
    large = encode_group(
        Durable(
            id="large",
            roster=Roster(),
            offsets=Offsets.of(
                {
                    TopicIdPartition(TOPIC, number): Committed(number, -1, "m" * 1000, 5)
                    for number in range(GROUP_BYTES_MAX // 1000)
                }
            ),
        )
    )
    shard = shard_of("large", 8)
    old.held[shard] = old.do(old.groups.save(old.held[shard], {"large": large}))
    with pytest.raises(InvalidInputError, match="etcd takes"):
        site.move(ETCD)
    assert site.namespace.moving is None
    old.commit(NAMES[0], 5)


# ---------------------------------------------------------------------------- what is lost


def mirrored(site: Site, broker: Broker) -> None:
    for held in broker.held.values():
        site.run(BUCKET, mirror_shard(held, site.namespace.moves))


def restore(site: Site, groups: dict[str, bytes], *, is_lost: bool = True) -> Namespace:
    return restore_groups(
        site.stores,
        to=None,
        shards=8,
        groups=groups,
        source="mirror",
        is_lost=is_lost,
        note=lambda _: None,
    )


def from_mirror(site: Site) -> dict[str, bytes]:
    shards = site.run(BUCKET, read_mirror(site.namespace.moves)).values()
    return {name: body for one in shards for name, body in one.shard.groups.items()}


def in_etcd() -> tuple[Site, Broker, dict[str, int]]:
    site, _, offsets = a_site()
    site.move(ETCD)
    broker = Broker(site, b"e" * 16).claim()
    mirrored(site, broker)
    return site, broker, offsets


def run_again(site: Site, groups: dict[str, bytes]) -> None:
    if site.namespace.moves == 1:
        restore(site, groups)
        return
    with pytest.raises(ConflictError, match="already"):
        restore(site, groups)


def test_of_an_etcd_that_is_lost_the_mirror_is_what_is_left() -> None:
    for is_late in (False, True):
        for steps in count(1):
            site, broker, offsets = in_etcd()
            broker.commit(NAMES[3], 1_000_000)  # Since then nothing was mirrored.
            site.etcd = MemoryStore()
            groups = from_mirror(site)
            site.left, site.is_late = steps, is_late
            try:
                restore(site, groups)
            except Killed:
                site.settle()
                run_again(site, groups)
            else:
                break
            assert site.offsets() == offsets, steps
            assert site.namespace.moves == 2
            site.here(check_metadata(site.namespace))


def test_groups_that_are_there_are_not_taken_back_unasked() -> None:
    site, _, _ = in_etcd()
    with pytest.raises(ConflictError, match="use --lost"):
        restore(site, from_mirror(site), is_lost=False)
    assert site.namespace.moving is None


def test_while_it_is_restored_no_broker_begins_with_empty_groups() -> None:
    """etcd was made anew, and has a place: who starts now would find no offsets."""
    seen = set()
    for steps in count(1):
        site, _, _ = in_etcd()
        groups = from_mirror(site)
        site.etcd = MemoryStore()
        site.left = steps
        try:
            restore(site, groups)
        except Killed:
            site.settle()
        else:
            break
        is_placed = bool(site.etcd.perform(ListPage("_lakelog/")).objects)
        seen.add((is_placed, site.namespace.moves))
        if site.namespace.moves == 1:
            with pytest.raises(UnavailableError):
                site.here(check_metadata(site.namespace))
    assert seen == {(False, 1), (True, 1), (True, 2)}


def test_a_copy_of_a_bucket_leaves_the_etcd_of_the_original_alone() -> None:
    site, broker, offsets = in_etcd()
    copy = site.stores._replace(url="s3://copy/folder")
    before = {one.key: one.etag for one in site.etcd.perform(ListPage("_lakelog/")).objects}
    with pytest.raises(InvalidInputError, match="keeps the metadata of s3://bucket/folder"):
        restore_groups(
            copy,
            to=BUCKET,
            shards=8,
            groups=from_mirror(site),
            source="mirror 1",
            is_lost=True,
            note=lambda _: None,
        )
    with pytest.raises(InvalidInputError, match="and not of s3://copy/folder"):
        move_groups(copy, to=BUCKET, shards=None, note=lambda _: None)
    after = {one.key: one.etag for one in site.etcd.perform(ListPage("_lakelog/")).objects}
    assert (after, site.namespace.moving) == (before, None)
    broker.commit(NAMES[0], 50)
    assert site.offsets() == {**offsets, NAMES[0]: 50}


def test_a_mirror_is_replaced_by_a_later_one_only() -> None:
    site, broker, _ = in_etcd()
    early = dict(broker.held)
    broker.commit(NAMES[0], 500)
    mirrored(site, broker)
    broker.held = early
    mirrored(site, broker)
    assert offset_of(from_mirror(site)[NAMES[0]]) == 500


def test_a_mirror_that_cannot_be_read_is_written_anew() -> None:
    site, broker, offsets = in_etcd()
    keys = [one.key for one in site.bucket.perform(ListPage("_lakelog/mirror/")).objects]
    assert len(keys) == 8
    for key in keys:
        site.bucket.perform(Delete(key))
        site.bucket.perform(PutIfAbsent(key, b"{"))
    mirrored(site, broker)
    assert {name: offset_of(body) for name, body in from_mirror(site).items()} == offsets


def test_a_backup_is_what_was_committed_and_a_part_of_one_is_none() -> None:
    site, _, _ = a_site()
    shards = site.here(stored_shards(site.groups()))
    groups = {name: body for one in shards.values() for name, body in one.groups.items()}
    data = encode_backup(site.namespace, URL, 17, 8, groups)
    saved = decode_backup(data, "f")
    assert (saved.groups, saved.shards, saved.at_ms, saved.storage) == (groups, 8, 17, URL)
    assert saved.namespace == site.namespace.id
    for cut in range(0, len(data) - 1, 97):
        with pytest.raises(CorruptError):
            decode_backup(data[:cut], "f")
    assert site.bucket.perform(Get(CLUSTER_KEY)).body
