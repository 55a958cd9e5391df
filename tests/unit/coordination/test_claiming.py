"""When a shard may be claimed: never from the living, politely from the dead."""

from lakelog.coordination import (
    LOOK_MS,
    RELEASED,
    Claim,
    ClaimedShard,
    Claiming,
    Member,
    State,
    Verdict,
    View,
)

A, B = b"a" * 16, b"b" * 16
INTERVAL_MS = 3_000
ALIVE = Member(node=1, run=A, state=State.SERVING)


def shard(run: bytes, *, epoch: int = 3, writes: int = 9) -> ClaimedShard:
    return ClaimedShard(shard=2, shards=8, claim=Claim(run, epoch), writes=writes)


def judge(claiming: Claiming, held: ClaimedShard, view: View, now_ms: int) -> Verdict:
    return claiming.judge(held, view, looked_ms=now_ms, now_ms=now_ms)


LIVING = View(living={1: ALIVE})
DEAD = View(dead={1: ALIVE})


def test_a_released_shard_is_taken_at_once() -> None:
    assert judge(Claiming(INTERVAL_MS), shard(RELEASED), LIVING, 0) is Verdict.TAKE


def test_nothing_is_taken_from_a_living_member() -> None:
    claiming = Claiming(INTERVAL_MS)
    for now_ms in range(0, 600_000, LOOK_MS):
        assert judge(claiming, shard(A), LIVING, now_ms) is Verdict.WAIT


def test_a_holder_that_nobody_knows_is_looked_for_before_it_is_replaced() -> None:
    claiming = Claiming(INTERVAL_MS)
    old = View(begun_ms=99)
    assert claiming.judge(shard(B), old, looked_ms=100, now_ms=200) is Verdict.LIST
    new = View(begun_ms=100)
    assert claiming.judge(shard(B), new, looked_ms=100, now_ms=200) is Verdict.TAKE


def test_from_the_dead_after_two_looks_that_show_the_same() -> None:
    claiming = Claiming(INTERVAL_MS)
    assert judge(claiming, shard(A), DEAD, 0) is Verdict.WAIT
    assert judge(claiming, shard(A), DEAD, LOOK_MS - 1) is Verdict.WAIT
    assert judge(claiming, shard(A), DEAD, LOOK_MS) is Verdict.TAKE


def test_a_dead_one_that_writes_is_left_alone_for_three_intervals() -> None:
    claiming = Claiming(INTERVAL_MS)
    judge(claiming, shard(A, writes=9), DEAD, 0)
    wrote_ms = LOOK_MS
    assert judge(claiming, shard(A, writes=10), DEAD, wrote_ms) is Verdict.WAIT
    for now_ms in range(wrote_ms + LOOK_MS, wrote_ms + 3 * INTERVAL_MS, LOOK_MS):
        assert judge(claiming, shard(A, writes=10), DEAD, now_ms) is Verdict.WAIT
    assert judge(claiming, shard(A, writes=10), DEAD, wrote_ms + 3 * INTERVAL_MS) is Verdict.TAKE


def test_whoever_fenced_me_is_left_alone_longer_each_time() -> None:
    claiming = Claiming(INTERVAL_MS)
    now_ms = 0
    for delay_ms in (60_000, 240_000, 600_000, 600_000):
        claiming.fenced(2, A, now_ms)
        claiming.took(2)
        judge(claiming, shard(A), DEAD, now_ms)
        assert judge(claiming, shard(A), DEAD, now_ms + delay_ms - 1) is Verdict.WAIT
        assert judge(claiming, shard(A), DEAD, now_ms + delay_ms) is Verdict.TAKE
        now_ms += delay_ms


def test_being_fenced_does_not_keep_from_what_is_released_or_left_by_another() -> None:
    claiming = Claiming(INTERVAL_MS)
    claiming.fenced(2, A, 0)
    assert judge(claiming, shard(RELEASED), DEAD, 1) is Verdict.TAKE
    other = View(dead={3: Member(node=3, run=B, state=State.SERVING)})
    judge(claiming, shard(B), other, 1)
    assert judge(claiming, shard(B), other, 1 + LOOK_MS) is Verdict.TAKE
