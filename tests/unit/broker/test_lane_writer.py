"""The driver of a lane: everybody gets an answer, memory is bounded, and closing loses nothing."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from lakelog.broker import LaneWriter, Supervisor
from lakelog.broker.watches import Watch
from lakelog.catalog import make_namespace
from lakelog.errors import InvalidInputError, LakelogError, UnavailableError
from lakelog.host import SystemClock, new_id
from lakelog.journal import (
    Append,
    FlushSettings,
    Lane,
    PutTimes,
    Stored,
    Unknown,
    append,
    new_append,
)
from lakelog.model import Rules
from lakelog.names import bundle_key
from lakelog.store import Get, GetSuffix, MemoryStore, Op, PutIfAbsent, run, working
from lakelog.testing import make_batch
from tests.patience import until
from tests.virtual_time import VirtualClock, pass_time, run_virtually

TOPIC = b"a topic of tests"
RULES = Rules(lanes=1, checkpoint_every=4)
AT_ONCE = FlushSettings(interval_ms=0)

PerformAsync = Callable[[Op], Awaitable[Any]]


def lane_in(store: MemoryStore) -> Lane:
    run(make_namespace(new_id(), RULES), working(store.perform))
    return Lane(number=0, rules=RULES, clock=SystemClock(), ids=new_id, writer=new_id())


def request(number: int, partition: int = 0) -> Append:
    return new_append(TOPIC, partition, make_batch(number, 1, (-1, -1, -1), 0))


def test_requests_that_come_together_are_one_bundle() -> None:
    store = MemoryStore()

    async def story() -> list[Any]:
        async with LaneWriter(lane_in(store), store.perform_async) as writer:
            return await asyncio.gather(*(writer.append(request(n, n % 7)) for n in range(50)))

    outcomes = run_virtually(story())
    assert all(isinstance(outcome, Stored) for outcome in outcomes)
    assert {outcome.seq for outcome in outcomes} == {0}


def test_a_lane_flushes_as_often_as_it_may_and_knows_how_long_a_put_takes() -> None:
    """By S3's prices, and a store that takes 40 ms: sixty batches, one every 50 ms."""
    store = MemoryStore()
    lane = replace(lane_in(store), clock=VirtualClock())

    async def perform(op: Op) -> Any:
        if isinstance(op, PutIfAbsent):
            await pass_time(0.04)
        return await store.perform_async(op)

    async def story() -> list[Any]:
        settings = FlushSettings(put_nano_usd=5_000)
        async with LaneWriter(lane, perform, settings) as writer:
            waiting = []
            for number in range(60):
                waiting.append(asyncio.create_task(writer.append(request(number))))
                await pass_time(0.05)
            return await asyncio.gather(*waiting)

    bundles = [outcome.seq for outcome in run_virtually(story())]
    assert lane.put_times.median_ms == 40
    alone = [seq for seq in set(bundles) if bundles.count(seq) == 1]
    assert len(alone) >= 8, "it had saved as many"
    assert bundles.count(bundles[-10]) == 5, "then it puts four times a second"


def test_enough_bytes_do_not_wait_for_the_interval() -> None:
    store = MemoryStore()
    one = len(request(0).body)
    settings = FlushSettings(
        put_nano_usd=72_000_000,  # Worth an hour.
        size_bytes_goal=4 * one,
        size_bytes_max=4 * one,
        queue_bytes_max=8 * one,
    )

    async def story() -> list[Any]:
        async with LaneWriter(lane_in(store), store.perform_async, settings) as writer:
            waiting = [writer.append(request(number)) for number in range(8)]
            return await asyncio.wait_for(asyncio.gather(*waiting), 20)

    assert {outcome.seq for outcome in run_virtually(story())} == {0, 1}


def test_a_full_queue_makes_producers_wait_and_nothing_is_lost() -> None:
    store = MemoryStore()
    one = len(request(0).body)
    settings = FlushSettings(
        interval_ms=0, size_bytes_goal=one, size_bytes_max=2 * one, queue_bytes_max=3 * one
    )
    most = [0]

    async def story() -> list[Any]:
        async with LaneWriter(lane_in(store), store.perform_async, settings) as writer:

            async def perform(number: int) -> Any:
                outcome = await writer.append(request(number))
                most[0] = max(most[0], writer.waiting_bytes)
                return outcome

            return await asyncio.gather(*(perform(number) for number in range(40)))

    outcomes = run_virtually(story())
    assert sorted(outcome.base_offset for outcome in outcomes) == list(range(40))
    assert most[0] <= 3 * one


def test_closing_flushes_what_was_accepted_and_accepts_no_more() -> None:
    store = MemoryStore()

    async def story() -> list[Any]:
        settings = FlushSettings(put_nano_usd=72_000_000)  # Worth an hour.
        writer = LaneWriter(lane_in(store), store.perform_async, settings)
        await writer.__aenter__()
        tasks = [asyncio.create_task(writer.append(request(number))) for number in range(5)]
        await asyncio.sleep(0)
        await writer.close()
        with pytest.raises(UnavailableError):
            await writer.append(request(9))
        return await asyncio.gather(*tasks)

    assert all(isinstance(outcome, Stored) for outcome in run_virtually(story()))


def test_a_failed_flush_answers_everybody_with_unknown_and_the_next_one_works() -> None:
    store = MemoryStore()
    complaints: list[LakelogError] = []
    broken = [True]

    async def perform(op: Op) -> Any:
        if broken[0] and isinstance(op, Get) and op.key.endswith("/head"):
            broken[0] = False
            raise UnavailableError("no answer: retry")
        return await store.perform_async(op)

    async def story() -> tuple[list[Any], Any]:
        writer = LaneWriter(lane_in(store), perform, AT_ONCE, on_error=complaints.append)
        async with writer:
            first = await asyncio.gather(*(writer.append(request(number)) for number in range(3)))
            return first, await writer.append(request(7))

    first, last = run_virtually(story())
    assert first == [Unknown()] * 3
    assert isinstance(last, Stored)
    assert len(complaints) == 1


def test_a_bug_in_a_flush_leaves_nobody_waiting() -> None:
    store = MemoryStore()

    async def perform(op: Op) -> Any:
        if isinstance(op, PutIfAbsent):
            raise ZeroDivisionError
        return await store.perform_async(op)

    async def story() -> list[Any]:
        lane = lane_in(store)
        writer = LaneWriter(lane, perform, AT_ONCE)
        await writer.__aenter__()
        waiting = [writer.append(request(number)) for number in range(3)]
        answers = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), 20)
        await writer.close()
        assert not lane.is_sure
        return answers

    assert all(isinstance(answer, UnavailableError) for answer in run_virtually(story()))


def test_a_client_that_gave_up_does_not_keep_the_others_from_their_answers() -> None:
    store = MemoryStore()

    async def perform(op: Op) -> Any:
        if isinstance(op, PutIfAbsent):
            await pass_time(0.03)
        return await store.perform_async(op)

    async def story() -> Any:
        async with LaneWriter(lane_in(store), perform) as writer:
            gone = asyncio.create_task(writer.append(request(1)))
            stays = asyncio.create_task(writer.append(request(2)))
            await pass_time(0.005)
            gone.cancel()
            return await stays

    assert isinstance(run_virtually(story()), Stored)


def test_checkpoints_are_written_beside_the_flushes() -> None:
    store = MemoryStore()

    async def story() -> None:
        async with LaneWriter(lane_in(store), store.perform_async, AT_ONCE) as writer:
            for number in range(9):
                await writer.append(request(number))

    run_virtually(story())
    keys = [key for key in store._keys if key.endswith(".checkpoint")]
    assert [int(key[-31:-11]) for key in keys] == [3, 7]
    assert store.perform(GetSuffix(bundle_key(0, 8), 1)).body == b"K"


def test_a_busy_lane_learns_soon_that_its_floor_has_risen() -> None:
    """Its writer looks at the head only now and then, which nobody who watches would wait for."""
    store = MemoryStore()
    said: list[LakelogError] = []
    lane = lane_in(store)
    fails = False

    async def perform(op: Op) -> Any:
        if fails:
            raise UnavailableError("the store is out: retry")
        return store.perform(op)

    async def story() -> None:
        nonlocal fails
        async with LaneWriter(lane, perform, AT_ONCE, on_error=said.append) as writer:
            await writer.refresh()
            before = lane.last_look
            watching = Supervisor().every("floor", 0.001, writer.look_at_floor)
            await until(lambda: lane.last_look is not before)
            fails = True
            await until(lambda: said)
            fails, before = False, lane.last_look
            await until(lambda: lane.last_look is not before)
            watching.cancel()

    run_virtually(story())


@pytest.mark.parametrize(("is_ours", "most"), [(True, 12), (False, 200)])
def test_a_quiet_lane_is_probed_less_and_less_where_only_this_broker_writes(
    is_ours: bool, most: int
) -> None:
    """Three minutes, in which a fetch waits; then another process stores something after all."""
    store = MemoryStore()
    mine = replace(lane_in(store), clock=VirtualClock())
    other = replace(mine, writer=new_id(), put_times=PutTimes(), counters=Counter())
    grown: list[float] = []
    gets: list[Op] = []

    async def perform(op: Op) -> Any:
        gets.extend([op] if isinstance(op, GetSuffix) else [])
        return await store.perform_async(op)

    async def story() -> tuple[int, float]:
        loop = asyncio.get_running_loop()
        async with LaneWriter(mine, perform, AT_ONCE, probe_ms_max=30_000) as writer:
            await writer.append(request(0))
            if not is_ours:
                run(append(other, [request(1)]), working(store.perform))
                await writer.refresh()
            end = writer.end((TOPIC, 0)) or 0
            writer.watch(Watch((TOPIC, 0), end, lambda: grown.append(loop.time())))
            gets.clear()
            await pass_time(180)
            probes = len(gets)
            run(append(other, [request(2)]), working(store.perform))
            stored_s = loop.time()
            await pass_time(31)
            return probes, grown[0] - stored_s

    probes, late_s = run_virtually(story())
    assert most // 3 < probes < most
    assert late_s <= (30.1 if is_ours else 1.1)


class Owner:
    """Owns an answer, and waits for its outcome until some time."""

    def __init__(self, answers: dict[int, Any], number: int, deadline_ms: int) -> None:
        self._answers, self._number, self._deadline_ms = answers, number, deadline_ms

    def expire(self, now_ms: int) -> bool:
        is_late = self._deadline_ms < now_ms
        if is_late:
            self._answers[self._number] = Unknown()
        return is_late


def test_what_was_accepted_is_flushed_while_closing_though_somebody_else_is_late() -> None:
    """One of those who wait has given up; the others are stored and answered, not refused."""
    store = MemoryStore()
    answers: dict[int, Any] = {}

    async def story() -> None:
        lane = lane_in(store)
        writer = LaneWriter(lane, store.perform_async, FlushSettings(put_nano_usd=72_000_000))
        await writer.__aenter__()
        now_ms = lane.clock.boot_ms()
        for number in range(4):
            owner = Owner(answers, number, now_ms - 1 if number == 1 else now_ms + 60_000)
            writer.submit(request(number), partial(answers.__setitem__, number), now_ms, owner)
        closing = asyncio.create_task(writer.close())
        await asyncio.sleep(0)
        writer.drop_late(now_ms)
        await closing

    run_virtually(story())
    assert answers.pop(1) == Unknown()
    assert [one.base_offset for one in answers.values()] == [0, 1, 2]


@pytest.mark.parametrize("is_known", [True, False])
def test_what_stands_behind_a_late_batch_of_its_producer_is_not_called_out_of_order(
    is_known: bool,
) -> None:
    """librdkafka would give all that is not acknowledged a new epoch, and store some of it twice.

    The first of two batches has waited for too long; by the time of the flush its client has been
    told so, and will send both of them again. A lane that does not know the producer yet would take
    the second for its first.
    """
    store = MemoryStore()
    answers: dict[int, Any] = {}

    def batch(number: int, producer: int = 7) -> Append:
        return new_append(TOPIC, 0, make_batch(number, 1, (producer, 0, number), 0))

    async def story() -> None:
        lane = lane_in(store)
        async with LaneWriter(lane, store.perform_async) as writer:
            await writer.append(batch(0, 7 if is_known else 8))
            now_ms = lane.clock.boot_ms()
            for number, late_ms in ((1, -1), (2, 60_000)):
                owner = Owner(answers, number, now_ms + late_ms)
                writer.submit(batch(number), partial(answers.__setitem__, number), now_ms, owner)
        assert answers == {1: Unknown(), 2: Unknown()}, "and not refused"

    run_virtually(story())


def test_a_lane_says_what_keeps_it_from_storing_anything() -> None:
    store = MemoryStore()
    refused = InvalidInputError("the bucket is read-only: give this user access")
    refusing, hanging = False, asyncio.Event()

    async def perform(op: Op) -> Any:
        if isinstance(op, PutIfAbsent) and refusing:
            raise refused
        if isinstance(op, PutIfAbsent):
            await hanging.wait()
        return await store.perform_async(op)

    class Clock(SystemClock):
        late_ms = 0

        def boot_ms(self) -> int:
            return super().boot_ms() + self.late_ms

    async def story() -> list[str]:
        nonlocal refusing
        clock = Clock()
        lane = lane_in(store)
        lane.clock = clock
        said = []
        async with LaneWriter(lane, perform, AT_ONCE) as writer:
            said.append(writer.trouble())
            waiting = asyncio.create_task(writer.append(request(0)))
            while lane.putting_since_ms is None:
                await asyncio.sleep(0)
            said.append(writer.trouble())
            clock.late_ms = 20_000
            said.append(writer.trouble())
            assert writer.health.unanswered_s >= 20
            hanging.set()
            await waiting
            said.append(writer.trouble())
            refusing = True
            await writer.append(request(1))
            said.append(writer.trouble())
            refusing = False
            await writer.append(request(2))
            said.append(writer.trouble())
        said.append(writer.trouble())
        return said

    well, putting, stuck, again, failing, better, closed = run_virtually(story())
    assert (well, putting, again, better) == ("", "", "", "")
    assert "lane 0 has waited 20 s for the store" in stuck
    assert "read-only" in failing
    assert "lane 0 is closed" in closed
