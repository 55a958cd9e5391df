"""What clients are told while a broker learns a lane again: never less than before."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from lakelog.broker import Broker
from lakelog.errors import UnavailableError
from lakelog.names import LANES_PREFIX
from lakelog.store import Op
from tests.patience import until
from tests.unit.broker.site import Client, Site, batch, broker, connect, records, story
from tests.unit.broker.test_partitions import seal
from tests.virtual_time import pass_time, run_virtually

BEFORE = 10
"""Records that clients know of before anything happens."""
STEPS_MAX = 200
"""Far more answers of the store than it takes to learn the lane."""


class Stepped(Site):
    """A store that answers what is asked about lanes one by one, when it is told to."""

    def __init__(self) -> None:
        super().__init__(checkpoint_every=4)
        self.is_stepped = False
        self.waiting: list[asyncio.Event] = []

    async def perform_async(self, op: Op) -> Any:
        if self.is_stepped and getattr(op, "key", "").startswith(LANES_PREFIX):
            gate = asyncio.Event()
            self.waiting.append(gate)
            await gate.wait()
        return await super().perform_async(op)

    def answer_all(self) -> None:
        self.is_stepped = False
        for gate in self.waiting:
            gate.set()


async def by_fetch(client: Client) -> int:
    row = await client.fetch_one("t", 0, BEFORE - 1, part_bytes=1)
    assert row.error_code is ErrorCode.none
    assert dict(records(row.records))[BEFORE - 1] == b"%d" % (BEFORE - 1)
    return int(row.high_watermark)


async def by_list_offsets(client: Client) -> int:
    row = await client.list_offset("t", 0, -1)
    assert row.error_code is ErrorCode.none
    return int(row.offset)


ASKED = (by_fetch, by_list_offsets)


class Asker:
    """A client that asks for the end again and again, over one connection."""

    def __init__(self, client: Client, ask: Callable[[Client], Awaitable[int]]) -> None:
        self.client, self._ask = client, ask
        self.ends: list[int] = []

    async def run(self) -> None:
        while True:
            end = await self._ask(self.client)
            assert end >= max(self.ends, default=BEFORE), "an end never goes down"
            self.ends.append(end)
            await pass_time(0.001)


def forget(site: Site, running: Broker) -> int:
    """As after an append whose outcome is unknown."""
    running.services.lanes[0].lane.forget()
    return BEFORE


def overtake(site: Site, running: Broker) -> int:
    """Another process appends and seals, and the floor rises over all that this broker knows."""
    for at in range(8):
        site.append("t", 0, batch(b"new %d" % at))
    seal(site)
    site.append("t", 0, batch(b"last"))
    return BEFORE + 9


async def step_through(site: Stepped, askers: list[Asker], happens: Callable[[], int]) -> None:
    """Let the broker learn the lane again; between any two answers of the store all are asked."""
    fetches = askers[0].ends
    await until(lambda: all(asker.ends for asker in askers))
    site.is_stepped = True
    end, steps, answered = happens(), 0, 0
    while steps < 5 or any(asker.ends[-1] != end for asker in askers):
        await until(lambda: site.waiting)
        seen = len(fetches)
        await pass_time(0.005)
        answered += len(fetches) > seen
        site.waiting.pop(0).set()
        steps += 1
        assert steps < STEPS_MAX, "the lane is never learned"
    assert answered >= 4, "what is known is read while the store has not answered"


@pytest.mark.parametrize("happens", [forget, overtake])
def test_nobody_is_told_less_or_cut_off_while_a_lane_is_learned_again(
    happens: Callable[[Site, Broker], int],
) -> None:
    async def main() -> None:
        site = Stepped()
        site.create("t")
        for at in range(BEFORE):
            site.append("t", 0, batch(b"%d" % at))
        async with broker(site) as running:
            askers = [Asker(await connect(running), ask) for ask in ASKED]
            tasks = [asyncio.create_task(asker.run()) for asker in askers]
            try:
                await step_through(site, askers, lambda: happens(site, running))
            finally:
                site.answer_all()
                for task in tasks:
                    task.cancel()
                ended = await asyncio.gather(*tasks, return_exceptions=True)
                for asker in askers:
                    await asker.client.close()
            assert all(isinstance(one, asyncio.CancelledError) for one in ended), ended

    run_virtually(main())


@story
async def test_a_lane_of_which_nothing_is_known_is_not_an_empty_one() -> None:
    site = Site()
    site.create("t")
    site.append("t", 0, batch(b"x"))
    async with broker(site) as running:
        client = await connect(running)
        assert (await client.list_offset("t", 0, -1)).offset == 1
        entry = next(iter(running.services.catalog.entries()))
        partition = entry.partition(0)
        assert partition is not None
        lane = running.services.lanes[0].lane
        lane.snapshot = None
        for asked in (partition.latest, partition.bounds):
            with pytest.raises(UnavailableError, match="lane 0 has not been read to its end yet: "):
                await asked()
        lane.forget()
        assert (await client.list_offset("t", 0, -1)).offset == 1
        await client.close()
