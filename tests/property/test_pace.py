"""When a lane flushes: the law, over histories of requests and puts that are drawn.

A history is played with the queue that brokers have, by a loop of ten lines that knows nothing of
pauses and budgets: it begins a flush when the queue says that one is due and none is in flight. The
oracles are in the units of whoever pays and waits: milliseconds from a request to its flush, and
dollars in an hour, or in any other time.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from lakelog.journal import FlushPolicy, FlushSettings, Queue, new_append
from lakelog.testing import make_batch

S3_PUT_NANO_USD = 5_000
DAY_MS = 86_400_000
USD_A_DAY = {FlushPolicy.BALANCED: 1.728, FlushPolicy.COST: 0.0864}
SAVED_PUTS = 8
GOAL = 1_000
ONE = new_append(b"a topic of tests", 0, make_batch(0, 1, (-1, -1, -1), 0))


class Flush(NamedTuple):
    """A flush: when it began and ended, and when each request in it had come."""

    begun_ms: int
    ended_ms: int
    came_ms: tuple[int, ...]
    is_full: bool
    """Whether so much had come that it did not wait, or did not fit."""
    put_ms: int
    """What the median of puts was."""


def play(settings: FlushSettings, gaps: Sequence[int], puts: Sequence[int]) -> list[Flush]:
    """Let a request come after each gap; puts take what is drawn, by turns."""
    queue: Queue[int] = Queue(settings)
    coming, now_ms, flushes = list[int](), 10**9, list[Flush]()
    for gap in gaps:
        coming.append((coming[-1] if coming else now_ms) + gap)
    put_ms = 0
    while coming or len(queue):
        due_ms = queue.due_ms(put_ms)
        if coming and (due_ms is None or coming[0] <= max(due_ms, now_ms)):
            came_ms = coming.pop(0)
            queue.push(ONE, came_ms, came_ms)
            continue
        assert due_ms is not None
        now_ms = max(due_ms, now_ms)
        is_full = queue.size_bytes >= GOAL or len(queue) >= settings.requests_max
        taken = [came_ms for _, came_ms in queue.take()]
        put_ms = puts[len(flushes) % len(puts)]
        queue.flush_begins(now_ms, len(taken))
        flush = Flush(now_ms, now_ms + put_ms, tuple(taken), is_full or bool(len(queue)), put_ms)
        flushes.append(flush)
        now_ms = flush.ended_ms
        queue.flush_ends(now_ms)
    return flushes


policies = st.sampled_from([None, *FlushPolicy])
prices = st.sampled_from([0, 400, S3_PUT_NANO_USD, 12_345])
intervals = st.one_of(st.none(), st.integers(0, 20_000))
gaps_ms = st.one_of(st.integers(0, 3), st.integers(0, 400), st.integers(0, 10_000))
histories = st.lists(st.tuples(gaps_ms, st.integers(1, 40)), max_size=6).map(
    lambda runs: [gap for gap, count in runs for _ in range(count)]
)
durations = st.lists(st.integers(0, 600), min_size=1, max_size=5)


def settings_of(
    policy: FlushPolicy | None, price: int, interval_ms: int | None, requests_max: int
) -> FlushSettings:
    return FlushSettings(
        policy=policy,
        put_nano_usd=price,
        interval_ms=interval_ms,
        size_bytes_goal=GOAL,
        requests_max=requests_max,
    )


@given(policies, prices, intervals, st.integers(1, 200), histories, durations)
def test_nobody_waits_longer_than_the_bound_and_no_time_costs_more_than_the_policy_allows(
    policy: FlushPolicy | None,
    price: int,
    interval_ms: int | None,
    requests_max: int,
    gaps: list[int],
    puts: list[int],
) -> None:
    settings = settings_of(policy, price, interval_ms, requests_max)
    flushes = play(settings, gaps, puts)
    assert sum(len(one.came_ms) for one in flushes) == len(gaps), "each is flushed once"
    _nobody_waits(flushes, settings.bound_ms)
    usd_a_day = USD_A_DAY.get(settings.policy_in_force)
    if usd_a_day is not None and price:
        _no_time_costs_more(flushes, settings, usd_a_day)


def _nobody_waits(flushes: Sequence[Flush], bound_ms: int) -> None:
    free_ms = 0
    was_full = False
    for one in flushes:
        # Who did not fit into a bundle is in one of the next; it goes at once when its time is up.
        oldest = one.came_ms[0] if not was_full else one.begun_ms - bound_ms
        assert one.begun_ms <= max(oldest + bound_ms, free_ms)
        assert one.begun_ms >= free_ms, "one put is in flight"
        free_ms, was_full = one.ended_ms, one.is_full


def _no_time_costs_more(
    flushes: Sequence[Flush], settings: FlushSettings, usd_a_day: float
) -> None:
    """In an hour and in any other time: the budget, and what a quiet lane has saved. Beyond it goes
    only what the bound asks for, and what is full.
    """
    puts_a_ms = usd_a_day * 1e9 / settings.put_nano_usd / DAY_MS
    if settings.interval_ms is not None:
        puts_a_ms = max(puts_a_ms, 1 / settings.interval_ms if settings.interval_ms else 1e9)
    for first, one in enumerate(flushes):
        full = 0
        for last in range(first, len(flushes)):
            full += flushes[last].is_full
            # Cells are whole milliseconds, and so a little shorter than the budget says.
            allowed = 1.01 * puts_a_ms * (flushes[last].begun_ms - one.begun_ms)
            assert last + 1 - first <= allowed + SAVED_PUTS + 2 * full + 1


@given(policies, prices, durations, st.integers(1, 20))
def test_who_comes_alone_to_a_quiet_lane_does_not_wait(
    policy: FlushPolicy | None, price: int, puts: list[int], count: int
) -> None:
    """Nothing is in flight, nobody waits, and the lane has spent less than it may."""
    settings = FlushSettings(policy=policy, put_nano_usd=price)
    flushes = play(settings, [max(settings.cell_ms, *puts) + 1] * count, puts)
    assert [one.begun_ms for one in flushes] == [one.came_ms[0] for one in flushes]


@given(histories, durations)
def test_where_requests_are_free_the_pause_is_a_quarter_of_a_put(
    gaps: list[int], puts: list[int]
) -> None:
    flushes = play(FlushSettings(requests_max=1_000), gaps, puts)
    for before, one in pairwise(flushes):
        pause_ms = max(1, before.put_ms // 4) if len(before.came_ms) > 1 else 0
        assert one.begun_ms <= max(one.came_ms[0], before.ended_ms + pause_ms)


def test_a_producer_that_resends_what_it_had_in_flight_is_not_kept_waiting_for_each() -> None:
    """One batch after the other, as librdkafka does when a leader has moved; by S3's prices."""
    settings = FlushSettings(put_nano_usd=S3_PUT_NANO_USD)
    queue: Queue[None] = Queue(settings)
    now_ms = 10**9
    for _ in range(5):
        queue.push(ONE, now_ms, None)
        assert queue.due_ms(30) == now_ms
        queue.take()
        queue.flush_begins(now_ms, 1)
        now_ms += 30
        queue.flush_ends(now_ms)


def test_a_busy_lane_begins_its_flushes_where_cells_begin_so_that_lanes_flush_together() -> None:
    settings = FlushSettings(put_nano_usd=S3_PUT_NANO_USD)
    begun = [one.begun_ms for one in play(settings, [7] * 1_000, [100])]
    steady = begun[len(begun) // 2 :]
    assert {ms % 250 for ms in steady[:-1]} == {0}
    assert {after - before for before, after in pairwise(steady[:-1])} == {250}
