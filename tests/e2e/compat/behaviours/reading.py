"""What consumers do by themselves."""

import time
from collections.abc import Mapping

from lakelog.host import SystemClock
from tests.e2e.compat.stage import Behaviour, Record, Stage, check, elapsed, same

__all__ = ["READING"]

_HOUR_MS = 3_600_000
_PARTITIONS = 1_000


async def _filled(stage: Stage, count: int = 10, partitions: int = 1) -> str:
    topic = await stage.topic(partitions)
    places = range(partitions)
    records = [Record(value=f"{p} {i}", partition=p) for p in places for i in range(count)]
    await stage.steward.send(topic, records)
    return topic


async def _earliest_latest(stage: Stage) -> None:
    topic = await _filled(stage, 7)
    found = [await stage.ask("offsets", topic=topic, partition=0, at="earliest")]
    found.append(await stage.ask("offsets", topic=topic, partition=0, at="latest"))
    same(found, [0, 7], "earliest and latest")
    async with stage.consumer(assign=[(topic, 0)], reset="latest") as one:
        same(await one.poll(500), [], "what was there before")
        await stage.steward.send(topic, [Record(value="new")])
        (read,) = await one.take(1)
        same((read.offset, read.value), (7, "new"), "the next record")


async def _seek(stage: Stage) -> None:
    topic = await _filled(stage, 20)
    async with stage.consumer(assign=[(topic, 0)]) as one:
        await one.take(20)
        for offset in (13, 4):
            await one.seek(topic, 0, offset)
            read = await one.take(20 - offset)
            same([r.offset for r in read], list(range(offset, 20)), f"offsets from {offset}")
            same(read[0].value, f"0 {offset}", "the first record")


async def _seek_by_time(stage: Stage) -> None:
    topic = await stage.topic()
    start_ms = SystemClock().now_ms() - _HOUR_MS
    times = [start_ms + 1_000 * step for step in range(20)]
    records = [Record(value=f"{i}", timestamp=time_ms) for i, time_ms in enumerate(times)]
    await stage.steward.send(topic, records)
    offset = await stage.ask("offsets", topic=topic, partition=0, at=times[12] - 500)
    same(offset, 12, "the first record at or after that time")
    none = await stage.ask("offsets", topic=topic, partition=0, at=times[-1] + 1)
    # KafkaJS and franz-go say "the end" where there is none.
    check(none in (None, 20), f"{none} is said to be as young as nothing is")
    async with stage.consumer(assign=[(topic, 0)]) as one:
        await one.take(20)
        await one.seek(topic, 0, offset)
        read = await one.take(8)
    same([(r.offset, r.timestamp) for r in read], list(enumerate(times))[12:], "records")


async def _out_of_range(stage: Stage) -> None:
    topic = await _filled(stage, 10)
    async with stage.consumer(assign=[(topic, 0)], reset="earliest") as one:
        await one.take(10)
        await one.seek(topic, 0, 1_000)
        read = await one.take(10)
    same([r.offset for r in read], list(range(10)), "offsets after the reset")


async def _empty_polls(stage: Stage) -> None:
    topic = await stage.topic()
    async with stage.consumer(assign=[(topic, 0)]) as one:
        await one.poll(1_000)
        for _ in range(4):
            start = time.monotonic()
            same(await one.poll(300), [], "records of an empty topic")
            took = elapsed(start)
            check(took > 0.2, f"a poll of 0.3 s was over after {took:.3f} s: it spins")
            check(took < 5, f"a poll of 0.3 s took {took:.1f} s")
        await stage.steward.send(topic, [Record(value="now")])
        (read,) = await one.take(1)
        same((read.offset, read.value), (0, "now"), "the first record")


async def _thousand_partitions(stage: Stage) -> None:
    read = await stage.read(stage.many, _PARTITIONS, _PARTITIONS)
    found = [(one.partition, one.offset, one.value) for one in read]
    same(found, [(i, 0, f"{i}") for i in range(_PARTITIONS)], "records")


async def _pause_resume(stage: Stage) -> None:
    topic = await _filled(stage, 5, 2)
    async with stage.consumer(assign=[(topic, 0), (topic, 1)]) as one:
        await one.take(10)
        await one.pause(topic, 0)
        places = [Record(value="later", partition=0), Record(value="now", partition=1)]
        await stage.steward.send(topic, places)
        seen = [*await one.take(1), *await one.poll(800)]
        same(
            [(r.partition, r.offset, r.value) for r in seen], [(1, 5, "now")], "while it is paused"
        )
        await one.resume(topic, 0)
        (read,) = await one.take(1)
        same((read.partition, read.offset, read.value), (0, 5, "later"), "after it")


async def _made(stage: Stage, *abouts: str) -> dict[str, str]:
    """Topics with one record each, by their names; the records say what the topics are about."""
    names = {stage.name(about): about for about in abouts}
    for name, about in names.items():
        await stage.steward.create(name, 1, {})
        await stage.steward.send(name, [Record(value=about)])
    return names


async def _regex(stage: Stage) -> None:
    wanted = await _made(stage, "re-one", "re-two")
    await _made(stage, "other")
    async with stage.consumer(group=stage.name(), pattern=f"^{stage.prefix}-re-.*") as one:
        read = [*await one.take(2), *await one.poll()]
    same({record.topic: record.value for record in read}, wanted, "records")


async def _regex_later(stage: Stage) -> None:
    pattern = f"^{stage.prefix}-re-.*"
    wanted = await _made(stage, "re-one")
    async with stage.consumer(group=stage.name(), pattern=pattern, refresh_ms=500) as one:
        seen = {record.topic: record.value for record in await one.take(1)}
        await _made(stage, "other")
        wanted |= await _made(stage, "re-two")
        # Nothing was committed, so the first may come once more.
        while len(seen) < 2:
            seen |= {record.topic: record.value for record in await one.poll()}
    same(seen, wanted, "records")


async def _read_committed(stage: Stage) -> None:
    topic = await _filled(stage, 10)
    async with stage.consumer(assign=[(topic, 0)], isolation="read_committed") as one:
        read = await one.take(10)
    same([(r.offset, r.value) for r in read], [(i, f"0 {i}") for i in range(10)], "records")


READING: Mapping[str, Behaviour] = {
    "earliest, latest": Behaviour(
        "The first and the next offset are told, and are where reading begins", _earliest_latest
    ),
    "seek": Behaviour("A consumer goes to an offset, forth and back", _seek),
    "seek by time": Behaviour("The first record of a time is found, and read", _seek_by_time),
    "out of range": Behaviour(
        "An offset that is not there leads to the earliest, as asked", _out_of_range
    ),
    "empty polls": Behaviour(
        "Polls of an empty topic wait as long as they should, and end well", _empty_polls
    ),
    "1,000 partitions": Behaviour("One consumer reads a thousand partitions", _thousand_partitions),
    "pause, resume": Behaviour(
        "A paused partition is silent, and goes on where it was", _pause_resume
    ),
    "regex": Behaviour("A pattern subscribes to all topics that match, and to no others", _regex),
    "regex, later": Behaviour("Also to one that is made later", _regex_later),
    "read committed": Behaviour(
        "`read_committed` reads what was written without transactions", _read_committed
    ),
}
