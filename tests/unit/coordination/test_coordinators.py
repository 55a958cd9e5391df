"""Whom clients of a shard are sent to: nobody that would send them away again."""

from lakelog.coordination import (
    BucketGroups,
    BucketMembership,
    ClaimedShard,
    Member,
    Node,
    ShardClaims,
    State,
)
from lakelog.flows import run
from lakelog.store import MemoryStore, Work, working
from tests.virtual_time import VirtualClock

INTERVAL_MS, SHARDS = 3_000, 12


class Hands(VirtualClock):
    """A clock that is moved by hand."""

    passed_ms = 0

    def boot_ms(self) -> int:
        return self.passed_ms


class Broker:
    """One that serves, and looks for coordinators."""

    def __init__(self, cluster: "Three", number: int) -> None:
        self._cluster = cluster
        self.run = bytes([number]) * 16
        self.membership = BucketMembership(self.run, INTERVAL_MS)
        self.node = Node(self.membership, clock=cluster.clock, interval_ms=INTERVAL_MS, lanes=1)
        self.groups = BucketGroups(self.run, SHARDS)
        self.claims = ShardClaims(self.groups, self.node, cluster.clock, INTERVAL_MS)
        cluster.do(self.node.join(number, Member(node=number, run=self.run)))
        cluster.do(self.node.change(State.SERVING))

    def names(self, shard: int) -> object:
        self._cluster.clock.passed_ms += 1
        return self._cluster.do(self.claims.coordinator(shard, SHARDS))

    def should_have(self) -> list[int]:
        """Return the shards that are its own, as it sees the cluster."""
        return [shard for shard in range(SHARDS) if self.claims.is_mine(shard, SHARDS)]


class Three:
    """Three brokers on a bucket. What the third should own it has claimed."""

    def __init__(self) -> None:
        self.clock, store = Hands(), MemoryStore()
        self._perform = working(store.perform, sleep=self._wait)
        self.a, self.b, self.c = brokers = [Broker(self, number) for number in (1, 2, 3)]
        self.pass_time(brokers)
        self.of_c = self.c.should_have()
        assert self.of_c
        self.held = {shard: self.claimed(self.c, shard) for shard in self.of_c}

    def _wait(self, seconds: float) -> None:
        self.clock.passed_ms += int(1000 * seconds)

    def do(self, flow: Work[object]) -> object:
        return run(flow, self._perform)

    def claimed(self, broker: Broker, shard: int) -> ClaimedShard:
        held = self.do(broker.claims.claim(shard, SHARDS))
        assert isinstance(held, ClaimedShard)
        return held

    def pass_time(self, beating: list[Broker], looking: list[Broker] | None = None) -> None:
        """Let an interval pass, in which some beat, and look at the others."""
        self.clock.passed_ms += INTERVAL_MS
        for one in beating:
            self.do(one.membership.beat())
        for one in beating if looking is None else looking:
            self.do(one.node.look(self.clock.passed_ms))

    def lose_c(self, seen_by: list[Broker]) -> None:
        """Let the third die, and some of the others see it."""
        for _ in range(4):
            self.pass_time([self.a, self.b], seen_by)
        for one in seen_by:
            assert 3 not in one.node.view.living


def test_its_holder_is_named_while_that_lives() -> None:
    three = Three()
    assert {one.names(shard) for one in (three.a, three.b) for shard in three.of_c} == {3}


def test_of_a_dead_holder_only_the_broker_that_takes_over_is_named_and_by_itself() -> None:
    three = Three()
    three.lose_c([three.a, three.b])
    for shard in three.of_c:
        is_of_a = three.a.claims.is_mine(shard, SHARDS)
        assert three.b.claims.is_mine(shard, SHARDS) is not is_of_a
        assert three.a.names(shard) == (1 if is_of_a else None)
        assert three.b.names(shard) == (None if is_of_a else 2)


def test_nobody_is_sent_to_a_broker_that_has_not_seen_yet_that_the_holder_is_dead() -> None:
    three = Three()
    three.lose_c([three.a])
    others = set(three.of_c) - set(three.a.should_have())
    assert others
    assert {three.a.names(shard) for shard in others} == {None}
    assert {three.b.names(shard) for shard in others} == {3}, "it would send them to the dead"


def test_who_has_taken_it_is_named_by_all() -> None:
    three = Three()
    three.lose_c([three.a, three.b])
    shard = next(one for one in three.of_c if three.a.claims.is_mine(one, SHARDS))
    assert three.do(three.a.claims.claim(shard, SHARDS)) is None, "not at the first look"
    three.clock.passed_ms += 500
    three.claimed(three.a, shard)
    assert three.b.names(shard) == 1


def test_a_released_one_is_named_by_whom_it_goes_to() -> None:
    three = Three()
    three.do(three.c.node.change(State.DRAINING))
    for shard, held in three.held.items():
        three.do(three.c.claims.release(held))
        named = three.a.names(shard)
        assert named in (1, 2)
        assert three.b.names(shard) == named


def test_a_holder_that_seems_dead_and_writes_is_still_named() -> None:
    three = Three()
    three.lose_c([three.a, three.b])
    shard = next(one for one in three.of_c if three.a.claims.is_mine(one, SHARDS))
    three.do(three.a.claims.claim(shard, SHARDS))
    assert three.a.names(shard) == 1
    three.do(three.c.groups.save(three.held[shard], {"gone": None}))
    three.clock.passed_ms += 500
    assert three.do(three.a.claims.claim(shard, SHARDS)) is None, "it has given a sign of life"
    assert three.a.names(shard) == 3
