"""Requests of one address stand in line, and those of others do not stand behind them."""

import asyncio
from typing import Any

from lakelog.broker.fair_scheduler import SLICE_S, FairScheduler
from tests.hostile.attacks import connect as connect_from
from tests.patience import HANGS_S
from tests.unit.broker.site import Site, batch, broker, connect, request_frame, story, virtual_story
from tests.virtual_time import pass_time

ASKED = 100
"""Requests of each connection of the attacker: as many as one may have on their way."""


class Worker:
    """Requests that take so long on the loop, and in which order they began."""

    def __init__(self, request_s: float) -> None:
        self._now_s, self._request_s = 0.0, request_s
        self.lines = FairScheduler(lambda: self._now_s)
        self.order: list[str] = []

    async def ask(self, who: str) -> None:
        async with self.lines.turn(who):
            self.order.append(who)
            self._now_s += self._request_s


@story
async def test_an_address_has_a_slice_of_time_and_then_others_have_theirs() -> None:
    worker = Worker(SLICE_S / 4)
    asked = [worker.ask("a") for _ in range(50)]
    await asyncio.gather(*asked, *(worker.ask("b") for _ in range(6)), worker.ask("c"))
    assert "".join(worker.order).startswith("aaaabbbbc")
    assert worker.order.count("a") == 50


@story
async def test_a_request_that_takes_longer_than_a_slice_is_the_only_one_in_it() -> None:
    worker = Worker(2 * SLICE_S)
    await asyncio.gather(*(worker.ask("a") for _ in range(9)), worker.ask("b"), worker.ask("b"))
    assert "".join(worker.order).startswith("abab")


@story
async def test_small_requests_of_one_address_take_few_turns_of_the_loop() -> None:
    worker, turns = Worker(SLICE_S / 100), 0
    asking = asyncio.gather(*(worker.ask("a") for _ in range(1_000)))
    while not asking.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns < 100


@story
async def test_nobody_is_forgotten_when_those_before_it_leave_the_line() -> None:
    worker = Worker(2 * SLICE_S)
    asked = [asyncio.ensure_future(worker.ask("a")) for _ in range(200)]
    for turn in range(120):
        await asyncio.sleep(0)
        for one in asked[turn:-5:3]:
            one.cancel()
    await asyncio.wait(asked, timeout=HANGS_S)
    assert all(one.done() for one in asked)
    assert len(worker.order) == sum(not one.cancelled() for one in asked) >= 5


@virtual_story
async def test_who_keeps_its_turn_keeps_only_its_own_address_waiting() -> None:
    lines, done = FairScheduler(), asyncio.Event()
    entered: list[str] = []

    async def ask(who: str) -> None:
        async with lines.turn(who):
            entered.append(who)
            if who == "a":
                await done.wait()

    first, second = asyncio.create_task(ask("a")), asyncio.create_task(ask("a"))
    await pass_time(0.01)
    await ask("b")
    assert entered == ["a", "b"]
    first.cancel()  # A connection that is lost takes its requests out of the line.
    await pass_time(0.01)
    assert entered == ["a", "b", "a"]
    done.set()
    await second


@story
async def test_many_requests_of_one_address_are_not_answered_before_one_of_another() -> None:
    site = Site()
    for number in range(50):
        site.create(f"topic-{number}")
    async with broker(site) as running:
        honest = await connect(running)
        row = await honest.produce("topic-0", 0, batch(b"x"))
        assert not row.error_code.value
        asked: dict[str, Any] = {
            "allow_auto_topic_creation": False,
            "include_topic_authorized_operations": False,
        }
        ask = request_frame(3, 12, topics=None, **asked) * ASKED
        port = running.ports["PLAINTEXT"]
        hostile = [connect_from("127.0.0.1", port, source="127.0.0.2") for _ in range(5)]
        for one in hostile:
            one.setblocking(False)
            assert one.send(ask) == len(ask)
        await honest.ask(3, 12, topics=None, **asked)
        answered = running.services.metrics.api("Metadata").seconds.count
        for one in hostile:
            one.close()
        await honest.close()
    # Without lines all of them. A slice is of time, so that their number depends on the machine.
    assert answered < len(hostile) * ASKED // 2
