"""Who is dead: three lists of one's own, an interval apart, and nothing else."""

from hypothesis import given
from hypothesis import strategies as st

from lakelog.coordination.liveness import DEAD_AFTER, Liveness

INTERVAL_MS = 3_000


def test_three_lists_that_show_the_same_beat_make_a_member_dead() -> None:
    liveness = Liveness(INTERVAL_MS)
    for number in range(DEAD_AFTER):
        assert liveness.listed(number * INTERVAL_MS, {1: "a"}) == frozenset()
    assert liveness.listed(DEAD_AFTER * INTERVAL_MS, {1: "a"}) == {1}


def test_lists_made_for_other_reasons_do_not_shorten_it() -> None:
    liveness = Liveness(INTERVAL_MS)
    for at_ms in range(0, DEAD_AFTER * INTERVAL_MS, 250):
        assert liveness.listed(at_ms, {1: "a"}) == frozenset()
    assert liveness.listed(DEAD_AFTER * INTERVAL_MS, {1: "a"}) == {1}


def test_a_beat_brings_back_to_life() -> None:
    liveness = Liveness(INTERVAL_MS)
    for number in range(DEAD_AFTER + 1):
        liveness.listed(number * INTERVAL_MS, {1: "a"})
    assert liveness.listed((DEAD_AFTER + 1) * INTERVAL_MS, {1: "b"}) == frozenset()


def test_after_a_pause_of_my_own_the_living_are_counted_anew() -> None:
    liveness = Liveness(INTERVAL_MS)
    liveness.listed(0, {1: "a"})
    liveness.listed(INTERVAL_MS, {1: "a"})
    woken_ms = 60_000
    for number in range(DEAD_AFTER):
        assert liveness.listed(woken_ms + number * INTERVAL_MS, {1: "a"}) == frozenset()
    assert liveness.listed(woken_ms + DEAD_AFTER * INTERVAL_MS, {1: "a"}) == {1}


def test_the_dead_stay_dead_through_a_pause_of_mine() -> None:
    liveness = Liveness(INTERVAL_MS)
    for number in range(DEAD_AFTER + 1):
        liveness.listed(number * INTERVAL_MS, {1: "a"})
    assert liveness.listed(100_000, {1: "a"}) == {1}


def test_a_member_that_a_late_list_does_not_show_is_silent_and_not_gone() -> None:
    liveness = Liveness(INTERVAL_MS)
    liveness.listed(0, {1: "a"})
    for number in range(1, DEAD_AFTER):
        assert liveness.listed(number * INTERVAL_MS, {}) == frozenset()
    assert liveness.listed(DEAD_AFTER * INTERVAL_MS, {}) == {1}
    assert liveness.listed((DEAD_AFTER + 1) * INTERVAL_MS, {}) == frozenset()


def test_another_sign_of_life_counts_for_the_living_alone() -> None:
    liveness = Liveness(INTERVAL_MS)
    for number in range(DEAD_AFTER):
        liveness.listed(number * INTERVAL_MS, {1: "a"})
    liveness.alive(1)
    assert liveness.listed(DEAD_AFTER * INTERVAL_MS, {1: "a"}) == frozenset()
    for number in range(DEAD_AFTER + 1, DEAD_AFTER + 3):
        liveness.listed(number * INTERVAL_MS, {1: "a"})
    assert liveness.listed((DEAD_AFTER + 3) * INTERVAL_MS, {1: "a"}) == {1}
    liveness.alive(1)
    assert liveness.listed((DEAD_AFTER + 4) * INTERVAL_MS, {1: "a"}) == {1}


@given(st.lists(st.tuples(st.integers(1, 10_000), st.sampled_from("aaaab")), max_size=40))
def test_nobody_is_dead_without_four_lists_of_one_beat_and_no_pause(
    steps: list[tuple[int, str]],
) -> None:
    """The law, computed from the whole past and not step by step."""
    liveness, now_ms = Liveness(INTERVAL_MS), 0
    counted: list[tuple[int, str]] = []
    was_dead = False
    for delay_ms, etag in steps:
        now_ms += delay_ms
        dead = bool(liveness.listed(now_ms, {1: etag}))
        if not counted or counted[-1][1] != etag or now_ms - counted[-1][0] >= INTERVAL_MS - 50:
            counted.append((now_ms, etag))
        last = counted[-DEAD_AFTER - 1 :]
        if dead and not was_dead:
            assert len(last) == DEAD_AFTER + 1
            assert {one for _, one in last} == {etag}
        was_dead = dead
