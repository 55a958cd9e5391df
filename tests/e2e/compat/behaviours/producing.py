"""What producers do."""

import functools
from collections.abc import Mapping

from lakelog.host import SystemClock
from tests.e2e.compat.stage import Behaviour, Record, Stage, check, same

__all__ = ["PRODUCING"]

_HOUR_MS = 3_600_000
_MESSAGE_BYTES_MAX = 1_048_588
"""Kafka's default of max.message.bytes."""
_MARGIN_BYTES = 200
_MURMUR2_OF_7 = {
    "alpha": 1, "beta": 1, "gamma": 6, "delta": 6, "épsilon": 3, "": 2, "42": 3, "lake": 2,
}  # fmt: skip
"""Where Java's producer puts keys, among seven partitions."""


async def _codec(stage: Stage, codec: str) -> None:
    topic = await stage.topic()
    records = [Record(key=f"{i}", value=f"{codec} {i} {'lake ' * 40}") for i in range(100)]
    told = await stage.produce(topic, records, codec=codec)
    read = await stage.read(topic, len(records))
    same([(one.key, one.value) for one in read], [(o.key, o.value) for o in records], "records")
    same([one.offset for one in read], list(range(100)), "offsets")
    same([one for one in told if one], [(0, i) for i, one in enumerate(told) if one], "answers")


async def _acks(stage: Stage, acks: str) -> None:
    topic = await stage.topic()
    records = [Record(value=f"acks {acks} {i}") for i in range(20)]
    told = await stage.produce(topic, records, acks=acks)
    if acks != "0":
        expected = [(0, i) if one else None for i, one in enumerate(told)]
        same(told, expected, "answers")
    read = await stage.read(topic, len(records))
    same([one.value for one in read], [one.value for one in records], "records")
    same([one.offset for one in read], list(range(20)), "offsets")


async def _idempotence(stage: Stage) -> None:
    topic = await stage.topic()
    records = [Record(value=f"{i} {'once ' * 10}") for i in range(1_000)]
    await stage.produce(topic, records, idempotent=True, acks="all", in_flight=5, batch_bytes=4_000)
    read = await stage.read(topic, len(records))
    same([one.value for one in read], [one.value for one in records], "records in order, once")
    same(await stage.ask("offsets", topic=topic, partition=0, at="latest"), 1_000, "the end")


async def _headers(stage: Stage) -> None:
    topic = await stage.topic()
    headers = [("trace", "1"), ("trace", "2"), ("öl", "grün"), ("empty", "")]
    records = [Record(value="with", headers=headers), Record(value="without")]
    await stage.produce(topic, records)
    with_, without = await stage.read(topic, 2)
    # A client that keeps headers by name has them in the order of the names.
    same(sorted(with_.headers), sorted(headers), "headers")
    same([value for name, value in with_.headers if name == "trace"], ["1", "2"], "their order")
    same(list(without.headers), [], "no headers")


async def _nulls(stage: Stage) -> None:
    topic = await stage.topic()
    pairs = [(None, "value"), ("key", None), ("key", "value")]
    await stage.produce(topic, [Record(key=key, value=value) for key, value in pairs])
    read = await stage.read(topic, len(pairs))
    same([(one.key, one.value) for one in read], pairs, "keys and values")


async def _timestamps(stage: Stage) -> None:
    topic = await stage.topic()
    start_ms = SystemClock().now_ms() - _HOUR_MS
    times = [start_ms + step for step in (0, 1, 999, 5, 60_000, -1)]
    await stage.produce(topic, [Record(value="t", timestamp=time_ms) for time_ms in times])
    read = await stage.read(topic, len(times))
    same([one.timestamp for one in read], times, "timestamps")


async def _explicit_partition(stage: Stage) -> None:
    topic = await stage.topic(4)
    records = [Record(value=f"{p} {i}", key="same", partition=p) for i in range(5) for p in (3, 1)]
    await stage.produce(topic, records)
    read = await stage.read(topic, len(records), 4)
    found = [(one.partition, one.offset, one.value) for one in read]
    same(found, [(p, i, f"{p} {i}") for p in (1, 3) for i in range(5)], "records")


async def _partition_by_key(stage: Stage) -> None:
    topic = await stage.topic(7)
    await stage.produce(topic, [Record(key=key, value="v") for key in _MURMUR2_OF_7])
    read = await stage.read(topic, len(_MURMUR2_OF_7), 7)
    same({one.key: one.partition for one in read}, _MURMUR2_OF_7, "partitions of keys")


async def _ten_thousand(stage: Stage) -> None:
    topic = await stage.topic(3)
    records = [Record(key=f"{i}", value=f"{i}", partition=i % 3) for i in range(10_000)]
    await stage.produce(topic, records)
    read = await stage.read(topic, len(records), 3)
    for partition in range(3):
        mine = [one for one in read if one.partition == partition]
        wanted = [one.value for one in records if one.partition == partition]
        same([one.offset for one in mine], list(range(len(wanted))), "offsets")
        same([one.value for one in mine], wanted, "values")


async def _large(stage: Stage) -> None:
    topic = await stage.topic()
    value = "x" * (_MESSAGE_BYTES_MAX - _MARGIN_BYTES)
    await stage.produce(topic, [Record(value=value)], codec="none", max_bytes=2 << 20)
    (read,) = await stage.read(topic, 1)
    check(read.value == value, f"a value of {len(read.value or '')} bytes came back")


async def _too_large(stage: Stage) -> None:
    topic = await stage.topic()
    above = Record(value="x" * (_MESSAGE_BYTES_MAX + _MARGIN_BYTES))
    sent = stage.produce(topic, [above], codec="none", max_bytes=2 << 20)
    await stage.refused("MESSAGE_TOO_LARGE", sent)
    await stage.produce(topic, [Record(value="small")])
    (read,) = await stage.read(topic, 1)
    same((read.offset, read.value), (0, "small"), "what was stored")


async def _compacted(stage: Stage) -> None:
    topic = await stage.topic(cleanup_policy="compact")
    await stage.refused("INVALID_RECORD", stage.produce(topic, [Record(value="no key")]))
    await stage.produce(topic, [Record(key="key", value="v")])
    (read,) = await stage.read(topic, 1)
    same((read.offset, read.key), (0, "key"), "what was stored")


async def _auto_create(stage: Stage) -> None:
    topic = stage.name("asked")
    await stage.produce(topic, [Record(value=f"{i}") for i in range(3)])
    read = await stage.read(topic, 3)
    same([one.value for one in read], ["0", "1", "2"], "records")


async def _transaction(stage: Stage) -> None:
    topic = await stage.topic()
    await stage.ask(
        "transact", name=stage.name(), topic=topic, values=["a", "b"], end="commit"
    )  # fmt: skip
    async with stage.consumer(assign=[(topic, 0)], isolation="read_committed") as one:
        read = await one.take(2)
    same([(one.offset, one.value) for one in read], [(0, "a"), (1, "b")], "committed records")
    # The marker of the commit has an offset of its own.
    same(await stage.ask("offsets", topic=topic, partition=0, at="latest"), 3, "the end")


async def _aborted(stage: Stage) -> None:
    topic = await stage.topic()
    await stage.ask("transact", name=stage.name(), topic=topic, values=["no", "no"], end="abort")
    await stage.produce(topic, [Record(value="yes")])
    async with stage.consumer(assign=[(topic, 0)], isolation="read_committed") as one:
        read = await one.take(1)
    same([(one.offset, one.value) for one in read], [(3, "yes")], "what was not aborted")


PRODUCING: Mapping[str, Behaviour] = {
    **{
        f"{codec}": Behaviour(
            f"Records compressed with {codec} come back"
            if codec != "none"
            else "Records that are not compressed come back",
            functools.partial(_codec, codec=codec),
        )
        for codec in ("none", "gzip", "snappy", "lz4", "zstd")
    },
    "acks 0": Behaviour(
        "What nobody acknowledges is stored all the same", functools.partial(_acks, acks="0")
    ),
    "acks 1": Behaviour(
        "`acks=1`: every record is answered with its place", functools.partial(_acks, acks="1")
    ),
    "acks all": Behaviour(
        "`acks=all`: every record is answered with its place", functools.partial(_acks, acks="all")
    ),
    "idempotence": Behaviour(
        "An idempotent producer with five requests in flight: in order, once", _idempotence
    ),
    "headers": Behaviour("Headers come back, also several of one name and empty ones", _headers),
    "nulls": Behaviour("Keys and values that are null come back as null", _nulls),
    "timestamps": Behaviour("Timestamps come back as they were sent", _timestamps),
    "explicit partition": Behaviour(
        "A record goes to the partition that was asked for", _explicit_partition
    ),
    "partition by key": Behaviour(
        "Keys go to the partitions that Java's producer would choose", _partition_by_key
    ),
    "10,000 records": Behaviour("Ten thousand records at once come back in order", _ten_thousand),
    "large message": Behaviour("A message just below `max.message.bytes` comes back", _large),
    "too large": Behaviour("One just above it is refused with MESSAGE_TOO_LARGE", _too_large),
    "compacted topic": Behaviour(
        "A compacted topic refuses records without keys, with INVALID_RECORD", _compacted
    ),
    "auto-create": Behaviour("A topic is created by writing to it", _auto_create),
    "transaction": Behaviour(
        "A transaction is committed, and read with `read_committed`", _transaction
    ),
    "aborted transaction": Behaviour(
        "What was aborted is not read with `read_committed`", _aborted
    ),
}
