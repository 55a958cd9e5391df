"""Claims without an answer: whoever may have one does not forget it."""

import pytest

from lakelog.coordination import (
    RELEASED,
    BucketGroups,
    BucketMembership,
    Member,
    Node,
    ShardClaims,
    State,
)
from lakelog.errors import UnavailableError
from lakelog.flows import run
from lakelog.names import group_shard_key
from lakelog.store import MemoryStore, Op, PutIfAbsent, PutIfMatch, Work, working
from tests.virtual_time import VirtualClock

SHARDS = 2
ME, OTHER = b"m" * 16, b"o" * 16


class Bucket:
    """A store that may lose the answer to what is put to a shard."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.loses = False

    def perform(self, op: Op) -> object:
        answer = self.store.perform(op)
        is_put = isinstance(op, PutIfAbsent | PutIfMatch) and op.key == group_shard_key(0)
        if is_put and self.loses:
            raise UnavailableError("the answer was lost")
        return answer

    def do(self, flow: Work[object]) -> object:
        return run(flow, working(self.perform, sleep=lambda _: None))

    def holder(self) -> bytes:
        found = self.do(BucketGroups(OTHER, SHARDS).read(0))
        return b"" if found is None else found.claim.broker  # type: ignore[attr-defined]


class Hands(VirtualClock):
    """A clock that is moved by hand."""

    passed_ms = 0

    def boot_ms(self) -> int:
        return self.passed_ms


def serving(bucket: Bucket, clock: Hands) -> Node:
    node = Node(BucketMembership(ME, 3_000), clock=clock, interval_ms=3_000, lanes=1)
    bucket.do(node.join(1, Member(node=1, run=ME)))
    bucket.do(node.change(State.SERVING))
    return node


def lost_claim(bucket: Bucket, node: Node, clock: Hands) -> ShardClaims:
    """Let a broker claim shard 0, and not hear that it has it."""
    claims = ShardClaims(BucketGroups(ME, SHARDS), node, clock, 3_000)
    bucket.loses = True
    with pytest.raises(UnavailableError):
        bucket.do(claims.claim(0, SHARDS))
    bucket.loses = False
    return claims


def test_a_claim_whose_answer_was_lost_is_used_if_the_shard_should_be_here() -> None:
    bucket, clock = Bucket(), Hands()
    node = serving(bucket, clock)
    claims = lost_claim(bucket, node, clock)
    assert bucket.holder() == ME
    held = bucket.do(claims.claim(0, SHARDS))
    assert held is not None


def test_a_claim_whose_answer_was_lost_is_given_up_if_the_shard_should_be_elsewhere() -> None:
    bucket, clock = Bucket(), Hands()
    node = serving(bucket, clock)
    claims = lost_claim(bucket, node, clock)
    node.state = State.DRAINING
    assert not claims.is_mine(0, SHARDS)
    assert claims.is_due(0, SHARDS)
    assert bucket.do(claims.claim(0, SHARDS)) is None
    assert bucket.holder() == RELEASED
    assert not claims.is_due(0, SHARDS)


def test_one_that_was_not_stored_is_looked_at_until_it_cannot_be_any_more() -> None:
    bucket, clock = Bucket(), Hands()
    node = serving(bucket, clock)
    bucket.do(BucketGroups(OTHER, SHARDS).claim(0, SHARDS))
    claims = ShardClaims(BucketGroups(ME, SHARDS), node, clock, 3_000)
    claims.doubt(0)
    node.state = State.DRAINING
    clock.passed_ms += 59_000
    bucket.do(claims.claim(0, SHARDS))
    assert claims.is_due(0, SHARDS)
    clock.passed_ms += 1_000
    bucket.do(claims.claim(0, SHARDS))
    assert not claims.is_due(0, SHARDS)
    assert bucket.holder() == OTHER


def test_one_that_was_thought_lost_and_is_not_is_given_up_if_it_should_be_elsewhere() -> None:
    bucket, clock = Bucket(), Hands()
    node = serving(bucket, clock)
    claims = ShardClaims(BucketGroups(ME, SHARDS), node, clock, 3_000)
    bucket.do(claims.claim(0, SHARDS))
    bucket.do(claims.fenced(0))
    node.state = State.DRAINING
    assert claims.is_due(0, SHARDS)
    bucket.do(claims.claim(0, SHARDS))
    assert bucket.holder() == RELEASED
