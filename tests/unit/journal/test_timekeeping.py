"""What is stamped goes by the store's clock, and a machine whose clock is wrong appends nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.errors import UnavailableError
from lakelog.formats.lanes import decode_bundle
from lakelog.journal import (
    SKEW_MS_MAX,
    Lane,
    StampedClock,
    Stored,
    StoreTime,
    Unknown,
    compare,
    flush,
    stamp,
)
from lakelog.names import bundle_key, head_key
from lakelog.store import Op, PutIfAbsent
from tests.unit.journal.script import EPOCH_MS, Clock, Script, plain

YEARS_MS = 77 * 365 * 86_400_000
MINUTE_MS = 60_000


def guarded(script: Script, clock: Clock | None = None) -> Lane:
    """A lane of a process that compares its clock with the store's."""
    return Lane(
        number=0,
        rules=script.rules,
        clock=clock or script.clock,
        ids=script.ids,
        writer=script.ids(),
        time=StoreTime(),
    )


def created_ms(script: Script, seq: int) -> int:
    return decode_bundle(script.get(bundle_key(0, seq)))[0].created_ms


def bundles(script: Script) -> list[str]:
    return [key for key in script.store._objects if key.endswith(".bundle")]


def time_objects(ops: list[Op]) -> int:
    return sum(isinstance(op, PutIfAbsent) and op.body == b"" for op in ops)


# ---------------------------------------------------------------------------- appending


def test_a_process_with_a_clock_in_2100_appends_nothing_and_poisons_nothing() -> None:
    script = Script()
    right = guarded(script)
    script.append(right, plain(1))
    head = script.get(head_key(0))

    wrong = Clock()
    wrong.wall += YEARS_MS
    lane = guarded(script, wrong)
    ended = script.run(flush(lane, [plain(2)]))
    assert ended.outcomes == (Unknown(),)
    assert "says 2100-" in str(ended.error)
    assert "store 2023-11-14 22:13:20 UTC" in str(ended.error)
    assert bundles(script) == [bundle_key(0, 0)]
    assert script.get(head_key(0)) == head
    assert lane.fold is None or lane.fold.created_ms == EPOCH_MS

    script.pass_ms(1_000)
    (stored,) = script.append(right, plain(3))
    assert isinstance(stored, Stored)
    assert stored.created_ms == created_ms(script, 1) == EPOCH_MS + 1_000


@pytest.mark.parametrize("jump_ms", [YEARS_MS, -YEARS_MS, SKEW_MS_MAX + 1_001])
def test_nothing_is_stored_with_the_time_of_a_clock_that_has_jumped(jump_ms: int) -> None:
    script = Script()
    lane = guarded(script)
    script.append(lane, plain(1))
    script.clock.wall += jump_ms
    ended = script.run(flush(lane, [plain(2)]))
    assert "Set the clock" in str(ended.error)
    assert bundles(script) == [bundle_key(0, 0)]

    # Nobody asks the store for each request that is refused.
    asked = time_objects(script.asked)
    script.run(flush(lane, [plain(3)]))
    assert time_objects(script.asked) == asked

    # Set right again, it goes on by itself.
    script.clock.wall -= jump_ms
    script.pass_ms(6_000)
    (stored,) = script.append(lane, plain(4))
    assert isinstance(stored, Stored)
    assert created_ms(script, 1) == EPOCH_MS + 6_000


def test_a_clock_that_is_a_little_off_is_not_believed_and_not_refused() -> None:
    """A minute ahead: what is stored has the store's time, to the second."""
    script = Script()
    script.clock.wall += MINUTE_MS
    lane = guarded(script)
    script.append(lane, plain(1))
    assert EPOCH_MS <= created_ms(script, 0) < EPOCH_MS + 1_000
    script.pass_ms(30_000)
    script.append(lane, plain(2))
    assert EPOCH_MS + 30_000 <= created_ms(script, 1) < EPOCH_MS + 31_000


def test_a_lane_that_is_ahead_already_does_not_get_further_ahead() -> None:
    """It was appended to by a process that did not compare: times never go back."""
    script = Script()
    poisoned = script.lane()
    script.clock.wall += YEARS_MS
    script.append(poisoned, plain(1))
    script.clock.wall -= YEARS_MS
    lane = guarded(script)
    for number in range(3):
        script.pass_ms(MINUTE_MS)
        script.append(lane, plain(2 + number))
    assert {created_ms(script, seq) for seq in range(4)} == {EPOCH_MS + YEARS_MS}


# ---------------------------------------------------------------------------- when it asks


def test_the_store_is_asked_before_the_first_append_and_every_ten_minutes() -> None:
    script = Script()
    lane = guarded(script)
    asked: list[int] = []
    for _ in range(23):
        script.append(lane, plain(1))
        asked.append(time_objects(script.asked))
        script.pass_ms(MINUTE_MS)
    assert asked == [1] * 10 + [2] * 10 + [3] * 3
    assert [key for key in script.store._objects if "time" in key] == []


def test_without_an_answer_what_is_known_is_good_enough() -> None:
    script = Script()
    time = StoreTime()
    script.run(stamp(time, script.clock, script.ids))
    script.pass_ms(11 * MINUTE_MS)
    kind, perform = PutIfAbsent, script.store.perform

    def away(op: Op) -> object:
        if isinstance(op, kind):
            raise UnavailableError("the store is away")
        return perform(op)

    script._counted = away
    stamped_ms = script.run(stamp(time, script.clock, script.ids))
    assert 0 < stamped_ms - EPOCH_MS - 11 * MINUTE_MS < 1_500, "it has asked five times"
    script.clock.wall += YEARS_MS
    with pytest.raises(UnavailableError, match="is away"):
        script.run(stamp(time, script.clock, script.ids))


def test_without_an_answer_nothing_is_appended_at_first() -> None:
    script = Script()
    lane = guarded(script)
    script._counted = script.lose_request
    with pytest.raises(UnavailableError, match="lost"):
        script.run(stamp(lane.time, lane.clock, lane.ids))


def test_a_suspended_machine_whose_clocks_slept_is_found_out() -> None:
    """Frozen with its clocks, and its wall clock then set right: the other one is behind."""
    script = Script()
    lane = guarded(script)
    script.append(lane, plain(1))
    script.store_clock.pass_ms(60 * MINUTE_MS)
    script.clock.wall += 60 * MINUTE_MS
    script.append(lane, plain(2))
    assert created_ms(script, 1) == EPOCH_MS + 60 * MINUTE_MS


# ---------------------------------------------------------------------------- what it believes


@given(
    skew_ms=st.integers(-10_000, 10_000),
    within_ms=st.integers(0, 999),
    put_ms=st.integers(0, 3_000),
    rest_ms=st.integers(0, 3_000),
)
def test_the_stamp_is_as_near_to_the_stores_clock_as_the_answer_tells(
    skew_ms: int, within_ms: int, put_ms: int, rest_ms: int
) -> None:
    """The store says the second in which it stored; nothing is known of where in the question."""
    wall_ms, time, clock = EPOCH_MS, StoreTime(), Clock()
    store_ms = EPOCH_MS + skew_ms + within_ms  # When the question begins.
    told_ms = (store_ms + put_ms) // 1000 * 1000
    took_ms = put_ms + rest_ms
    time.take(told_ms, wall_ms, clock.boot_ms(), clock.boot_ms() + took_ms)
    clock.pass_ms(took_ms)
    assert abs(time.stamp_ms(clock) - (store_ms + took_ms)) <= took_ms + 999
    if skew_ms + within_ms == 0:
        assert time.stamp_ms(clock) == clock.now_ms()  # No reason to differ.


def test_a_clock_far_beyond_any_calendar_is_told_in_milliseconds() -> None:
    time = StoreTime()
    time.take(EPOCH_MS, 1 << 60, 0, 0)
    assert f"says {1 << 60} ms after 1970" in time.problem


def test_a_stamped_clock_shows_the_stores_time() -> None:
    script = Script()
    time = StoreTime()
    shown = StampedClock(time, script.clock)
    script.clock.wall += MINUTE_MS
    assert shown.now_ms() == EPOCH_MS + MINUTE_MS
    script.run(compare(time, script.clock, script.ids))
    assert EPOCH_MS <= shown.now_ms() < EPOCH_MS + 1_000
    assert shown.boot_ms() == script.clock.boot_ms()
