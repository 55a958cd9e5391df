"""Requests of one address stand in line, and those of others do not stand behind them."""

import asyncio
from typing import Any

from lakelog.broker.lines import Lines
from tests.hostile.attacks import connect as connect_from
from tests.unit.broker.site import Site, batch, broker, connect, request_frame, story, virtual_story
from tests.virtual_time import pass_time

ASKED = 100
"""Requests of each connection of the attacker: as many as one may have on their way."""


@story
async def test_an_address_has_one_turn_and_then_others_have_theirs() -> None:
    lines, order = Lines(), list[str]()

    async def ask(who: str) -> None:
        async with lines.turn(who):
            order.append(who)

    await asyncio.gather(*(ask("a") for _ in range(50)), ask("b"), ask("b"), ask("c"))
    assert order.count("a") == 50
    assert {"a", "b", "c"} == set(order[:3])
    assert order.index("b", order.index("b") + 1) < 8


@virtual_story
async def test_who_keeps_its_turn_keeps_only_its_own_address_waiting() -> None:
    lines, done = Lines(), asyncio.Event()
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
    assert answered < len(hostile) * ASKED // 10
