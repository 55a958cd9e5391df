"""A broker whose clock is wrong does not start, or stops appending, and says why."""

from datetime import datetime
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from lakelog.broker import timekeeper
from lakelog.broker.server import Broker
from lakelog.errors import InvalidInputError, UnavailableError
from lakelog.records import decode_batches
from lakelog.store import Op, PutIfAbsent
from tests.patience import until
from tests.unit.broker.site import NOON, Client, Site, batch, broker, connect, story
from tests.virtual_time import VirtualClock

YEAR_MS = 365 * 86_400_000
YEARS_MS = 77 * YEAR_MS


class Watch:
    """The clocks of this machine, which can be set."""

    def __init__(self, wall_ms: int = 0) -> None:
        self.wall_ms = wall_ms
        self.passed_ms = 0

    def now_ms(self) -> int:
        return VirtualClock().now_ms() + self.wall_ms + self.passed_ms

    def boot_ms(self) -> int:
        return VirtualClock().boot_ms() + self.passed_ms


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timekeeper, "LOOK_MS", 10)
    monkeypatch.setattr("lakelog.broker.server.LOOK_MS", 10)


def says(site: Site, event: str) -> list[dict[str, object]]:
    return [one for one in site.log if one["event"] == event]


def bundles(site: Site) -> list[str]:
    return [key for key in site._objects if key.endswith(".bundle")]


@story
async def test_a_broker_whose_clock_is_in_2100_does_not_start_and_leaves_no_trace() -> None:
    site = Site()
    site.create("t")
    before = sorted(site._objects)
    with pytest.raises(UnavailableError, match=r"says 210.* the clock of the store 20.*NTP"):
        async with broker(site, clock=Watch(YEARS_MS)):
            pytest.fail("it started")
    assert sorted(site._objects) == before


@story
async def test_a_broker_asks_again_when_the_first_answer_is_lost() -> None:
    site = Site()
    failed: list[Op] = []

    def fails(op: Op) -> bool:
        if isinstance(op, PutIfAbsent) and len(failed) < 2:
            failed.append(op)
            return True
        return False

    site.fails = fails
    async with broker(site) as running:
        assert running.is_ready() == (True, "ready")
    assert len(failed) == 2


def appended_ms(row: Any) -> int:
    moment: datetime = row.log_append_time
    return round(moment.timestamp() * 1000)


async def produced(client: Client) -> ErrorCode:
    row = await client.produce("t", 0, batch(b"x", times=[NOON]))
    code: ErrorCode = row.error_code
    return code


@story
async def test_a_clock_that_jumps_stops_the_producers_until_it_is_right_again() -> None:
    site, watch = Site(), Watch()
    site.create("t")
    async with broker(site, clock=watch) as running:
        client = await connect(running)
        assert await produced(client) is ErrorCode.none
        stored = bundles(site)
        watch.wall_ms = YEARS_MS
        await until(lambda: not running.is_ready()[0])
        assert "says 210" in running.is_ready()[1]
        for _ in range(5):
            row = await client.produce("t", 0, batch(b"x"))
            assert row.error_code is ErrorCode.request_timed_out
            assert "the clock of this machine" in row.error_message
        assert bundles(site) == stored
        (told,) = says(site, "nothing is appended")
        assert "Set the clock" in str(told["why"])

        watch.wall_ms = 0
        watch.passed_ms += 6_000
        await until(lambda: running.is_ready()[0])
        assert await produced(client) is ErrorCode.none
        assert len(says(site, "nothing is appended")) == 1
        assert len(says(site, "the clock is right again")) == 1
        fold = _fold_ms(running)
        assert abs(fold - VirtualClock().now_ms()) < 60_000
        await client.close()


def _fold_ms(running: Broker) -> int:
    fold = running.services.lanes[0].lane.fold
    assert fold is not None
    return fold.created_ms


@story
async def test_a_jump_that_nobody_has_noticed_yet_is_in_no_stamp() -> None:
    """Between two looks at the clock a record of log append time is produced."""
    site, watch = Site(), Watch()
    site.create("t", message_timestamp_type="LogAppendTime")
    async with broker(site, clock=watch) as running:
        client = await connect(running)
        watch.wall_ms = YEARS_MS
        row = await client.produce("t", 0, batch(b"x"))
        # It is stored by the store's clock, or refused: the jump may have been found by then.
        if row.error_code is ErrorCode.none:
            assert abs(appended_ms(row) - VirtualClock().now_ms()) < 60_000
        assert abs(_fold_ms(running) - VirtualClock().now_ms()) < 60_000 or not bundles(site)
        await client.close()


@story
async def test_records_are_stamped_by_the_clock_of_the_store() -> None:
    site, watch = Site(), Watch(120_000)
    site.create("t", message_timestamp_type="LogAppendTime")
    async with broker(site, clock=watch) as running:
        client = await connect(running)
        row = await client.produce("t", 0, batch(b"x"))
        assert abs(appended_ms(row) - VirtualClock().now_ms()) < 60_000
        found = await client.fetch_one("t", 0, 0)
        (stored,) = decode_batches(bytes(found.records))
        assert [record.timestamp for record in stored.records] == [appended_ms(row)]
        await client.close()


@story
async def test_a_lane_that_is_ahead_of_the_store_is_told_of_once() -> None:
    site = Site(clock=Watch(-YEAR_MS))
    site.create("t")
    site.append("t", 0, batch(b"x"))  # By a process whose clock is a year ahead of the store's.
    async with broker(site, clock=Watch(-YEAR_MS)) as running:
        client = await connect(running)
        before = _fold_ms(running)
        for _ in range(3):
            assert await produced(client) is ErrorCode.none
        assert _fold_ms(running) == before
        (told,) = says(site, "a lane is ahead of the store's clock")
        assert told["lane"] == 0
        await client.close()


def test_a_tolerance_that_cannot_be_kept_is_refused() -> None:
    from lakelog.broker import BrokerSettings

    with pytest.raises(InvalidInputError, match=r"clock\.skew\.max\.ms"):
        BrokerSettings(clock_skew_ms_max=1_999)
