"""How far groups are behind: in records, in bytes, in seconds."""

import asyncio
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from lakelog.broker.metrics.lags import AT_ONCE, LOOKED_MAX, Lag
from lakelog.broker.metrics.offset_timeline import POINTS_MAX, OffsetTimeline
from lakelog.broker.server import Broker
from lakelog.broker.shards import Shard
from lakelog.catalog import Topic
from lakelog.groups import Commit, Committed, NewOffset, Offsets, TopicIdPartition
from lakelog.host import new_id
from lakelog.store import Get, GetRange, GetSuffix
from tests.unit.broker.site import NOON, Client, Site, batch, broker, connect, story


def test_an_offset_came_between_the_points_around_it() -> None:
    trail = OffsetTimeline()
    for end, time in ((100, 0), (140, 4_000), (140, 5_000), (140, 9_000), (300, 10_000)):
        trail.note(end, time)
    assert trail.when(99) is None
    assert [trail.when(offset) for offset in (100, 120, 139)] == [0, 2_000, 3_900]
    assert trail.when(140) == 9_000
    assert trail.when(220) == 9_500
    assert trail.when(300) == 10_000


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 5_000)), min_size=1, max_size=400))
def test_a_trail_is_short_and_never_wrong_about_the_order(steps: list[tuple[int, int]]) -> None:
    trail, end, now = OffsetTimeline(), 7, 1_000
    written: dict[int, tuple[int, int]] = {}
    trail.note(end, now)
    for more, later in steps:
        before, now = now, now + later
        written |= dict.fromkeys(range(end, end + more), (before, now))
        end += more
        trail.note(end, now)
    assert len(trail._ends) <= POINTS_MAX
    times = [trail.when(offset) for offset in written]
    assert None not in times
    assert times == sorted(times, key=int)  # type: ignore[arg-type]
    assert trail.when(6) is None
    if len(steps) < POINTS_MAX:
        for offset, (before, after) in written.items():
            assert before <= (trail.when(offset) or 0) <= after


class Hands:
    """A clock with hands that are moved."""

    def __init__(self) -> None:
        self.ms = NOON

    def now_ms(self) -> int:
        return self.ms

    def boot_ms(self) -> int:
        return self.ms


async def commit(running: Broker, group: str, name: str, offset: int) -> None:
    topic = await running.services.catalog.topic(name)
    assert topic is not None
    new = Commit(offsets=(NewOffset(TopicIdPartition(topic.id, 0), offset),))
    await running.services.coordinator.commit(group, new)


def only(running: Broker) -> Lag:
    (lag,) = running.services.lags.rows()
    return lag


async def written(client: Client, *values: bytes) -> None:
    times = [NOON - 60_000] * len(values)
    await client.produce("t", 0, batch(*values, times=times))


@story
async def test_a_group_is_as_old_as_the_first_record_that_it_has_not_read() -> None:
    hands = Hands()
    site = Site(clock=hands)
    site.create("t")
    async with broker(site, clock=hands) as running:
        client, lags = await connect(running), running.services.lags
        await written(client, b"0", b"1")
        await commit(running, "g", "t", 2)
        await lags.look()
        assert (only(running).records, only(running).seconds) == (0, 0.0)
        hands.ms += 10_000
        await written(client, b"2", b"3", b"4", b"5")
        await lags.look()
        hands.ms += 5_000
        lag = only(running)
        assert (lag.group, lag.topic, lag.partition, lag.committed) == ("g", "t", 0, 2)
        assert lag.records == 4
        assert lag.seconds is not None
        assert 5.0 <= lag.seconds <= 15.0
        size = running.services.metrics.topics["t"].bytes_in
        assert lag.size_bytes == size * 4 / 6
        await commit(running, "g", "t", 6)
        await lags.look()
        assert (only(running).records, only(running).size_bytes, only(running).seconds) == (0, 0, 0)
        await client.close()


@story
async def test_what_was_written_before_a_broker_started_has_the_time_of_its_batch() -> None:
    hands = Hands()
    site = Site(clock=hands)
    site.create("t")
    site.append("t", 0, batch(b"0", b"1", times=[NOON - 60_000] * 2))
    site.append("t", 0, batch(b"2", times=[NOON - 30_000]))
    async with broker(site, clock=hands) as running:
        lags = running.services.lags
        await commit(running, "g", "t", 1)
        await lags.look()
        assert (only(running).records, only(running).seconds) == (2, 60.0)
        reads = site.count(GetRange) + site.count(Get) + site.count(GetSuffix)
        await lags.look()
        assert site.count(GetRange) + site.count(Get) + site.count(GetSuffix) == reads
        await commit(running, "g", "t", 2)
        await lags.look()
        assert only(running).seconds == 30.0
        assert len(lags._read) == 1


@story
async def test_a_lag_that_cannot_be_found_out_is_not_called_none() -> None:
    hands = Hands()
    site = Site(clock=hands)
    site.create("t")
    site.append("t", 0, batch(b"0", times=[NOON - 60_000]))
    async with broker(site, clock=hands) as running:
        await commit(running, "g", "t", 0)
        site.fails = lambda op: isinstance(op, Get | GetRange | GetSuffix)
        await running.services.lags.look()
        assert (only(running).records, only(running).seconds) == (1, None)
        site.fails = lambda _: False
        await running.services.lags.look()
        assert only(running).seconds == 60.0


@story
async def test_many_rows_are_looked_at_in_short_turns_and_so_many_a_second() -> None:
    """Rows of topics that are gone take time as well, and nobody may take the loop for long."""
    site, gone = Site(), new_id()
    site.create("t")
    async with broker(site) as running:
        lags, catalog = running.services.lags, running.services.catalog
        for number in range(60):
            rows = {
                TopicIdPartition(gone, index): Committed(1, -1, "", NOON) for index in range(1_000)
            }
            shard = running.services.coordinator._find(f"g{number}")
            assert isinstance(shard, Shard)
            await commit(running, f"g{number}", "t", 0)
            durable = shard.ledger.stored[f"g{number}"]
            shard.ledger.stored[f"g{number}"] = replace(durable, offsets=Offsets.of(rows))
        steps: list[int] = [0]
        by_id = catalog.by_id

        def counted(topic_id: bytes) -> Topic | None:
            steps[-1] += asyncio.current_task() is look
            return by_id(topic_id)

        catalog.by_id = counted  # type: ignore[method-assign]
        look = asyncio.ensure_future(lags.look())
        while not look.done():
            await asyncio.sleep(0)
            steps.append(0)
        assert max(steps) <= AT_ONCE
        assert 40_000 < sum(steps) <= LOOKED_MAX
