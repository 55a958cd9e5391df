"""What administrators do with topics and the cluster.

A list of all topics is waited for: of several brokers, Kafka's as well as ours, one may not have
heard yet of what another one has made.
"""

import asyncio
from collections.abc import Mapping

from tests.e2e.compat.stage import Behaviour, Record, Stage, check, same, until

__all__ = ["TOPICS"]

_DEFAULT_RETENTION_MS = "604800000"
_DEFAULT_MESSAGE_BYTES = "1048588"


async def _create(stage: Stage) -> None:
    topic = stage.name("made")
    configs = {"retention.ms": "7200000"}
    await stage.ask("create_topic", topic=topic, partitions=3, configs=configs)

    async def is_there() -> bool:
        found = (await stage.ask("topics")).get(topic)
        check(found in (None, 3), f"it has {found} partitions, and not 3")
        return bool(found)

    # Kafka says that a topic was created a little before its brokers know it.
    await until(is_there)
    await stage.produce(topic, [Record(value="last", partition=2)])
    read = await stage.read(topic, 1, 3)
    same([(one.partition, one.value) for one in read], [(2, "last")], "records")


async def _create_again(stage: Stage) -> None:
    topic = await stage.topic(2)
    again = stage.ask("create_topic", topic=topic, partitions=5, configs={})
    await stage.refused("TOPIC_ALREADY_EXISTS", again)

    async def is_as_it_was() -> bool:
        found = (await stage.ask("topics")).get(topic)
        check(found in (None, 2), f"it has {found} partitions, and not 2")
        return bool(found)

    await until(is_as_it_was)


async def _delete(stage: Stage) -> None:
    topic, other = await stage.topic(), await stage.topic()
    await stage.ask("delete_topic", topic=topic)

    async def is_gone() -> bool:
        return topic not in await stage.ask("topics")

    async def is_kept() -> bool:
        return other in await stage.ask("topics")

    await until(is_gone)
    await until(is_kept)
    gone = stage.ask("delete_topic", topic=topic)
    await stage.refused("UNKNOWN_TOPIC_OR_PARTITION", gone)


async def _create_partitions(stage: Stage) -> None:
    topic = await stage.topic(2)
    await stage.ask("create_partitions", topic=topic, count=5)

    async def has_grown() -> bool:
        found = (await stage.ask("topics")).get(topic)
        check(found in (None, 2, 5), f"it has {found} partitions")
        return bool(found == 5)

    await until(has_grown)
    fewer = stage.ask("create_partitions", topic=topic, count=3)
    await stage.refused("INVALID_PARTITIONS", fewer)


async def _grow_under_load(stage: Stage) -> None:
    """Records are sent and read all the time, by one producer and one consumer of a group.

    Nothing is committed, so a record may be seen again after a rebalance; none may be missing.
    """
    topic = await stage.topic(1)
    sent: list[str] = []
    seen: dict[tuple[int, int], str] = {}
    keys = [f"key {i}" for i in range(24)]
    one = await stage.open(group=stage.name(), topics=[topic], refresh_ms=500)

    async def send() -> None:
        records = [Record(key=key, value=f"{len(sent) + i}") for i, key in enumerate(keys)]
        sent.extend(record.value or "" for record in records)
        await stage.produce(topic, records, keep="load", refresh_ms=500)

    async def look() -> None:
        for record in await one.poll(most=10_000):
            seen[record.partition or 0, record.offset] = record.value or ""

    async def go_on() -> None:
        await asyncio.gather(send(), look())

    while not seen:
        await go_on()
    growing = asyncio.create_task(stage.steward.grow(topic, 4))
    while {partition for partition, _ in seen} != {0, 1, 2, 3}:
        await go_on()
    await growing
    while len(seen) < len(sent):
        await look()
    await one.close()
    same(sorted(map(int, seen.values())), list(range(len(sent))), "records")
    for partition in range(4):
        offsets = sorted(offset for at, offset in seen if at == partition)
        same(offsets, list(range(len(offsets))), f"offsets of partition {partition}")


async def _describe_configs(stage: Stage) -> None:
    topic = await stage.topic(retention_ms=7_200_000)
    found = await stage.ask("describe_configs", topic=topic)
    wanted = {"retention.ms": "7200000", "max.message.bytes": _DEFAULT_MESSAGE_BYTES}
    same({name: found.get(name) for name in wanted}, wanted, "configs")
    same(found.get("cleanup.policy"), "delete", "cleanup.policy")


async def _alter_configs(stage: Stage) -> None:
    topic = await stage.topic(max_message_bytes=100_000, retention_ms=7_200_000)
    change = {"set": {"segment.bytes": "20971520"}, "delete": ["retention.ms"]}
    await stage.ask("alter_configs", topic=topic, **change)
    wanted = {
        "segment.bytes": "20971520",
        "max.message.bytes": "100000",
        "retention.ms": _DEFAULT_RETENTION_MS,
    }

    async def is_so() -> bool:
        found = await stage.ask("describe_configs", topic=topic)
        if found.get("segment.bytes") != "20971520":
            return False
        same({name: found.get(name) for name in wanted}, wanted, "configs")
        return True

    await until(is_so)


async def _alter_configs_older(stage: Stage) -> None:
    topic = await stage.topic(max_message_bytes=100_000)
    await stage.ask("alter_configs_older", topic=topic, configs={"segment.bytes": "20971520"})
    wanted = {"segment.bytes": "20971520", "max.message.bytes": _DEFAULT_MESSAGE_BYTES}

    async def is_so() -> bool:
        found = await stage.ask("describe_configs", topic=topic)
        if found.get("segment.bytes") != "20971520":
            return False
        same({name: found.get(name) for name in wanted}, wanted, "configs")
        return True

    await until(is_so)


async def _delete_records(stage: Stage) -> None:
    topic = await stage.topic()
    await stage.produce(topic, [Record(value=f"{i}") for i in range(10)])
    await stage.ask("delete_records", topic=topic, partition=0, before=4)
    same(await stage.ask("offsets", topic=topic, partition=0, at="earliest"), 4, "the earliest")
    read = await stage.read(topic, 6)
    same([(one.offset, one.value) for one in read], [(i, f"{i}") for i in range(4, 10)], "records")
    beyond = stage.ask("delete_records", topic=topic, partition=0, before=11)
    await stage.refused("OFFSET_OUT_OF_RANGE", beyond)


async def _describe_cluster(stage: Stage) -> None:
    found = await stage.ask("describe_cluster")
    brokers = {node: f"{host}:{port}" for node, host, port in found["brokers"]}
    check(stage.bootstrap in brokers.values(), f"{stage.bootstrap} is not among {brokers}")
    check(found["controller"] in brokers, f"{found['controller']} is none of {brokers}")
    check(found["cluster"] is None or len(found["cluster"]) >= 1, "the cluster has no id")


async def _describe_log_dirs(stage: Stage) -> None:
    topic = await stage.topic()
    await stage.produce(topic, [Record(value="x" * 10_000) for _ in range(5)], codec="none")
    found = await stage.ask("describe_log_dirs", topic=topic)
    check(50_000 < found < 60_000, f"50,000 bytes were sent, {found} are said to be there")


TOPICS: Mapping[str, Behaviour] = {
    "create topic": Behaviour("A topic is created with its partitions and configs", _create),
    "create again": Behaviour(
        "Creating it again is refused with TOPIC_ALREADY_EXISTS", _create_again
    ),
    "delete topic": Behaviour("A topic is deleted; again: UNKNOWN_TOPIC_OR_PARTITION", _delete),
    "create partitions": Behaviour(
        "A topic gets more partitions, and never fewer: INVALID_PARTITIONS", _create_partitions
    ),
    "grow under load": Behaviour(
        "A producer and a group go on while partitions are added, and use them", _grow_under_load
    ),
    "describe configs": Behaviour(
        "Configs of a topic are told, those set and those not", _describe_configs
    ),
    "alter configs": Behaviour(
        "Configs are set and deleted one by one (incrementally)", _alter_configs
    ),
    "alter configs, older": Behaviour(
        "Configs are set all at once; the others go back to their defaults", _alter_configs_older
    ),
    "delete records": Behaviour(
        "Records before an offset are deleted; beyond the end: OFFSET_OUT_OF_RANGE", _delete_records
    ),
    "describe cluster": Behaviour(
        "The cluster's brokers and controller are told", _describe_cluster
    ),
    "describe log dirs": Behaviour("The bytes of a topic are told", _describe_log_dirs),
}
