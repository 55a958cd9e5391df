"""Membership: the contract, for every maker of it; and what only the bucket can go through."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from lakelog.coordination import (
    BucketMembership,
    Member,
    Membership,
    Node,
    State,
    View,
    encode_member,
)
from lakelog.errors import ConflictError, CorruptError, FencedError, LakelogError, UnavailableError
from lakelog.names import BROKERS_PREFIX, beat_key, member_key
from lakelog.store import (
    Delete,
    Get,
    ListPage,
    MemoryStore,
    Op,
    Page,
    PutIfAbsent,
    PutIfMatch,
    Store,
    Work,
    run,
    working,
)
from tests.unit.coordination.memory_members import Board, MemoryMembership
from tests.virtual_time import VirtualClock

INTERVAL_MS = 3_000
HOUR_MS = 3_600_000
Perform = Callable[[Op], Any]


class Cluster:
    """A store, a clock, and brokers that come and go."""

    open_store: Callable[[Callable[[], int]], Store] = staticmethod(
        lambda now_ms: MemoryStore(now_ms=now_ms)
    )

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.now_ms = 1_700_000_000_000
        self.store = type(self).open_store(lambda: self.now_ms)
        self.board = Board()
        self._runs = 0

    def broker(self) -> Membership:
        self._runs += 1
        run_ = self._runs.to_bytes(16, "big")
        if self.kind == "memory":
            return MemoryMembership(self.board, run_, INTERVAL_MS)
        return BucketMembership(run_, INTERVAL_MS)

    def do(self, flow: Work[Any], perform: Perform | None = None) -> Any:
        return run(flow, working(perform or self.store.perform, sleep=lambda _: None))

    def started(self, node: int | None = None) -> tuple[Membership, Member]:
        broker = self.broker()
        member = replace(self.do(broker.take(node, self.now_ms)), state=State.SERVING)
        self.do(broker.announce(member))
        return broker, member

    def view(self, broker: Membership) -> View:
        found: View = self.do(broker.look(self.now_ms))
        return found

    def pass_interval(self, *beating: Membership) -> None:
        self.now_ms += INTERVAL_MS
        for one in beating:
            self.do(one.beat())


@pytest.fixture(params=["memory", "bucket"])
def cluster(request: pytest.FixtureRequest) -> Cluster:
    return Cluster(request.param)


@pytest.fixture
def bucket() -> Cluster:
    return Cluster("bucket")


# ---------------------------------------------------------------------------- every maker


def test_members_see_each_other_as_they_announced_themselves(cluster: Cluster) -> None:
    a, mine = cluster.started(3)
    _, other = cluster.started(7)
    told = replace(
        mine,
        listeners={"PLAINTEXT": "a:9092"},
        rack="r1",
        version="1",
        epochs={0: 5, 1023: 0},
        past={7: 2},
        hint="x",
    )
    cluster.do(a.announce(told))
    b, _ = cluster.started(9)
    view = cluster.view(b)
    assert view.living[3] == told
    assert view.living[7] == other
    assert view.serving == (3, 7, 9)


def test_without_a_wish_the_lowest_free_node_id_is_taken(cluster: Cluster) -> None:
    taken = [cluster.started()[1].node for _ in range(3)]
    assert taken == [1, 2, 3]
    cluster.started(5)
    assert [cluster.started()[1].node for _ in range(2)] == [4, 6]


def test_a_node_id_that_was_left_is_free_at_once(cluster: Cluster) -> None:
    cluster.started()
    broker, member = cluster.started()
    cluster.do(broker.announce(replace(member, state=State.LEFT)))
    assert cluster.started()[1].node == 2


def test_whoever_has_the_addresses_of_another_is_that_one_again(cluster: Cluster) -> None:
    """Two processes cannot listen at the same place: the other one was killed."""
    addresses = {"PLAINTEXT": "here:9092", "OUTSIDE": "there:9093"}
    cluster.started()
    former, member = cluster.started()
    cluster.do(former.announce(replace(member, listeners=addresses, epochs={3: 7})))
    for listeners, node in ((addresses, 2), ({"PLAINTEXT": "here:9092"}, 3), ({}, 4)):
        again = cluster.broker()
        taken = cluster.do(again.take(None, cluster.now_ms, listeners))
        assert taken.node == node
        assert taken.past == ({3: 7} if node == 2 else {})
    with pytest.raises(FencedError):
        cluster.do(former.beat())


def test_whoever_has_left_is_in_no_view(cluster: Cluster) -> None:
    a, _ = cluster.started(0)
    b, member = cluster.started(1)
    assert cluster.view(a).serving == (0, 1)
    cluster.do(b.announce(replace(member, state=State.LEFT)))
    view = cluster.view(a)
    assert view.serving == (0,)
    assert 1 not in view.dead


def test_a_given_node_id_is_taken_at_once_and_the_former_run_is_told(cluster: Cluster) -> None:
    former, member = cluster.started(5)
    now, _ = cluster.started(5)
    with pytest.raises(FencedError, match="node id 5"):
        cluster.do(former.beat())
    with pytest.raises(FencedError, match="node id 5"):
        cluster.do(former.announce(member))
    cluster.do(now.beat())


def test_a_new_run_keeps_the_epochs_that_its_node_id_ever_announced(cluster: Cluster) -> None:
    broker, member = cluster.started(5)
    cluster.do(broker.announce(replace(member, epochs={0: 9, 1: 4}, past={1: 6, 2: 1})))
    _, now = cluster.started(5)
    assert now.past == {0: 9, 1: 6, 2: 1}
    assert now.epochs == {}


def test_who_is_silent_for_three_lists_is_dead_until_it_beats(cluster: Cluster) -> None:
    a, _ = cluster.started(0)
    b, _ = cluster.started(1)
    number = cluster.view(a).number
    for _ in range(2):
        cluster.pass_interval(a)
        assert cluster.view(a).serving == (0, 1)
    cluster.pass_interval(a)
    view = cluster.view(a)
    assert (view.serving, list(view.dead)) == ((0,), [1])
    assert view.number == number + 1
    cluster.pass_interval(a, b)
    assert cluster.view(a).serving == (0, 1)


def test_a_broker_never_thinks_itself_dead(cluster: Cluster) -> None:
    a, _ = cluster.started(0)
    for _ in range(10):
        cluster.pass_interval()
        assert cluster.view(a).serving == (0,)


def test_a_frozen_observer_does_not_declare_the_living_dead(cluster: Cluster) -> None:
    a, _ = cluster.started(0)
    b, _ = cluster.started(1)
    cluster.view(a)
    cluster.pass_interval(b)
    cluster.view(a)
    cluster.now_ms += 20 * INTERVAL_MS
    assert cluster.view(a).serving == (0, 1)


def test_the_number_of_a_view_rises_with_changes_alone(cluster: Cluster) -> None:
    a, mine = cluster.started(0)
    first = cluster.view(a).number
    cluster.pass_interval(a)
    assert cluster.view(a).number == first
    cluster.do(a.announce(replace(mine, hint="new")))
    assert cluster.view(a).number == first + 1


# ---------------------------------------------------------------------------- the bucket


def losing(cluster: Cluster, kind: type[Op], key: str, *, lands: bool = True) -> Perform:
    """Perform all operations; the answer to the first of a kind for a key is lost."""
    lost: list[Op] = []

    def perform(op: Op) -> Any:
        is_it = isinstance(op, kind) and getattr(op, "key", "") == key and not lost
        if is_it:
            lost.append(op)
            if not lands:
                raise UnavailableError("no answer; try again")
        answer = cluster.store.perform(op)
        if is_it:
            raise UnavailableError("no answer; try again")
        return answer

    return perform


@pytest.mark.parametrize("lands", [True, False])
def test_a_beat_without_an_answer_is_resolved_by_the_next(bucket: Cluster, lands: bool) -> None:
    broker, _ = bucket.started(0)
    with pytest.raises(UnavailableError):
        bucket.do(broker.beat(), losing(bucket, PutIfMatch, beat_key(0), lands=lands))
    for _ in range(3):
        bucket.do(broker.beat())


@pytest.mark.parametrize("lands", [True, False])
def test_an_announcement_without_an_answer_is_made_again(bucket: Cluster, lands: bool) -> None:
    broker, member = bucket.started(0)
    told = replace(member, epochs={1: 2})
    with pytest.raises(UnavailableError):
        bucket.do(broker.announce(told), losing(bucket, PutIfMatch, member_key(0), lands=lands))
    bucket.do(broker.announce(told))
    bucket.do(broker.announce(replace(told, epochs={1: 3})))
    other, _ = bucket.started(1)
    assert bucket.view(other).living[0].epochs == {1: 3}


@pytest.mark.parametrize("lands", [True, False])
@pytest.mark.parametrize("node", [None, 0])
def test_a_node_id_is_taken_though_answers_get_lost(
    bucket: Cluster, node: int | None, lands: bool
) -> None:
    broker = bucket.broker()
    perform = losing(bucket, PutIfAbsent, beat_key(0), lands=lands)
    try:
        member = bucket.do(broker.take(node, bucket.now_ms), perform)
    except UnavailableError:
        member = bucket.do(broker.take(node, bucket.now_ms), perform)
    bucket.do(broker.announce(member))
    bucket.do(broker.beat())
    assert bucket.view(broker).living.keys() == {member.node}


def test_a_run_that_was_replaced_before_it_announced_itself_stops(bucket: Cluster) -> None:
    slow = bucket.broker()
    member = bucket.do(slow.take(0, bucket.now_ms))
    quick, _ = bucket.started(0)
    with pytest.raises(FencedError):
        bucket.do(slow.announce(member))
    bucket.do(quick.beat())


def test_a_run_that_replaced_another_wins_over_its_late_announcement(bucket: Cluster) -> None:
    former = bucket.broker()
    old = bucket.do(former.take(0, bucket.now_ms))
    now = bucket.broker()
    new = bucket.do(now.take(0, bucket.now_ms))
    # The former one has not noticed yet: it announces itself behind the new one's back.
    late = replace(old, epochs={3: 7, 4: 1}, past={4: 2, 5: 5})
    bucket.store.perform(PutIfAbsent(member_key(0), encode_member(late)))
    stored = bucket.do(now.announce(replace(new, past={5: 6, 6: 0})))
    assert stored.past == {3: 7, 4: 2, 5: 6, 6: 0}  # What it told clients is never told lower.
    assert bucket.view(now).living[0] == stored
    assert bucket.view(bucket.started(1)[0]).living[0] == stored
    with pytest.raises(FencedError):
        bucket.do(former.beat())


def test_a_beat_that_somebody_deleted_is_made_anew(bucket: Cluster) -> None:
    broker, _ = bucket.started(0)
    bucket.store.perform(Delete(beat_key(0)))
    bucket.do(broker.beat())
    bucket.do(broker.beat())
    bucket.store.perform(Get(beat_key(0)))


def test_only_members_that_changed_are_read(bucket: Cluster) -> None:
    observer, _ = bucket.started(0)
    others = [bucket.started(node) for node in range(1, 6)]
    bucket.view(observer)
    asked: list[Op] = []

    def perform(op: Op) -> Any:
        asked.append(op)
        return bucket.store.perform(op)

    bucket.pass_interval(*(one for one, _ in others))
    bucket.do(others[2][0].announce(replace(others[2][1], hint="new")))
    bucket.do(observer.look(bucket.now_ms), perform)
    assert [type(op) for op in asked].count(ListPage) == 1
    assert [op.key for op in asked if isinstance(op, Get)] == [member_key(3)]


def test_a_member_that_cannot_be_read_hides_nobody_else(bucket: Cluster) -> None:
    a, _ = bucket.started(0)
    bucket.started(1)
    bucket.started(2)
    found = bucket.store.perform(Get(member_key(1)))
    bucket.store.perform(PutIfMatch(member_key(1), b'{"format":1}', found.info.etag))
    for _ in range(2):
        view = bucket.view(a)
        assert view.serving == (0, 2)
        assert isinstance(view.unreadable[1], CorruptError)


def test_a_store_whose_lists_have_no_etags_is_read_each_time(bucket: Cluster) -> None:
    a, _ = bucket.started(0)
    b, member = bucket.started(1)

    def perform(op: Op) -> Any:
        answer = bucket.store.perform(op)
        if isinstance(op, ListPage):
            bare = tuple(replace(one, etag="") for one in answer.objects)
            return Page(objects=bare, more=answer.more)
        return answer

    bucket.do(a.look(bucket.now_ms), perform)
    bucket.do(b.announce(replace(member, hint="new")))
    view = bucket.do(a.look(bucket.now_ms), perform)
    assert view.living[1].hint == "new"
    for _ in range(4):
        bucket.pass_interval(a, b)
        assert bucket.do(a.look(bucket.now_ms), perform).serving == (0, 1)


def test_a_list_that_is_late_or_without_order_is_survived(bucket: Cluster) -> None:
    a, _ = bucket.started(0)
    b, _ = bucket.started(1)
    bucket.view(a)
    before = bucket.store.perform(ListPage(BROKERS_PREFIX))
    for _ in range(2):
        bucket.pass_interval(a, b)
        # It shows what was there long ago, last things first.
        bucket.do(a.look(bucket.now_ms), lambda op: _old(bucket, before, op))
    assert bucket.view(a).serving == (0, 1)


def _old(cluster: Cluster, before: Page, op: Op) -> Any:
    if isinstance(op, ListPage):
        return Page(objects=before.objects[::-1], more=False)
    return cluster.store.perform(op)


def test_a_node_id_without_a_beat_for_an_hour_is_free(bucket: Cluster) -> None:
    bucket.started()
    bucket.now_ms += HOUR_MS - 1
    assert bucket.started()[1].node == 2
    bucket.now_ms += 2
    assert bucket.started()[1].node == 1


def test_of_two_that_want_the_same_free_id_one_gets_the_next(bucket: Cluster) -> None:
    first, second = bucket.broker(), bucket.broker()
    raced: list[Member] = []

    def perform(op: Op) -> Any:
        if isinstance(op, PutIfAbsent) and op.key == beat_key(1) and not raced:
            raced.append(bucket.do(second.take(None, bucket.now_ms)))
        return bucket.store.perform(op)

    mine = bucket.do(first.take(None, bucket.now_ms), perform)
    assert (raced[0].node, mine.node) == (1, 2)


@pytest.mark.parametrize("node", [-1, 2**31])
def test_a_node_id_that_kafka_could_not_name_is_refused(bucket: Cluster, node: int) -> None:
    with pytest.raises(LakelogError, match="use one from 0"):
        bucket.do(bucket.broker().take(node, bucket.now_ms))


def test_a_broker_knows_what_its_former_run_announced_late(bucket: Cluster) -> None:
    """It was on its way when the new one took the node id, and read what the former one had said.

    Else the broker would lead lane 3 by an epoch below the one that clients have been told.
    """
    former = bucket.broker()
    late = replace(bucket.do(former.take(0, bucket.now_ms)), epochs={3: 7})
    node = Node(bucket.broker(), clock=VirtualClock(), interval_ms=INTERVAL_MS, lanes=4)

    def perform(op: Op) -> Any:
        if isinstance(op, PutIfAbsent) and op.key == member_key(0):
            with suppress(ConflictError):
                bucket.store.perform(PutIfAbsent(member_key(0), encode_member(late)))
        return bucket.store.perform(op)

    bucket.do(node.join(0, Member(node=-1, run=b"")), perform)
    assert node.leadership.past == {3: 7}
    assert node.stored.past == {3: 7}
