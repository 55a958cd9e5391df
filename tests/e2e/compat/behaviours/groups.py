"""What groups of consumers do, and what is done to them."""

import asyncio
import functools
from collections.abc import Mapping, Sequence

from tests.e2e.compat.stage import Behaviour, Consumer, Record, Stage, check, same, until

__all__ = ["GROUPS"]

_PARTITIONS = 4


async def _settle(topic: str, members: Sequence[Consumer]) -> list[list[tuple[str, int]]]:
    """Poll until the members share all partitions evenly; what each of them has."""
    everything = [(topic, partition) for partition in range(_PARTITIONS)]
    shares: list[list[tuple[str, int]]] = []

    async def is_shared() -> bool:
        polled = await asyncio.gather(*(one.poll(100) for one in members))
        same([record for some in polled for record in some], [], "records of an empty topic")
        shares[:] = await asyncio.gather(*(one.assigned() for one in members))
        fair = _PARTITIONS // len(members)
        shared = sorted(place for some in shares for place in some)
        return shared == everything and all(len(one) == fair for one in shares)

    await until(is_shared)
    return shares


async def _wave(stage: Stage, topic: str, members: Sequence[Consumer], number: int) -> None:
    """Five records to each partition: each is seen once, by the member that has the partition."""
    places = range(_PARTITIONS)
    records = [Record(value=f"{number} {p} {i}", partition=p) for p in places for i in range(5)]
    shares = await asyncio.gather(*(one.assigned() for one in members))
    await stage.steward.send(topic, records)
    seen: list[list[Record]] = [[] for _ in members]
    while sum(map(len, seen)) < len(records):
        polled = await asyncio.gather(*(one.poll() for one in members))
        for mine, some in zip(seen, polled, strict=True):
            mine.extend(some)
    for mine, share in zip(seen, shares, strict=True):
        wanted = [(p, 5 * number + i, f"{number} {p} {i}") for _, p in share for i in range(5)]
        found = [(one.partition or 0, one.offset, one.value) for one in mine]
        same(sorted(found), sorted(wanted), "records of a member")
    for one, share in zip(members, shares, strict=True):
        for _, partition in share:
            await one.commit(topic, partition, 5 * (number + 1))


async def _group_of_two(stage: Stage) -> None:
    topic = await stage.topic(_PARTITIONS)
    group = stage.name()
    members = [await stage.open(group=group, topics=[topic]) for _ in range(2)]
    await _settle(topic, members)
    await _wave(stage, topic, members, 0)
    for one in members:
        await one.close()


async def _rebalance(stage: Stage) -> None:
    topic = await stage.topic(_PARTITIONS)
    group = stage.name()
    stays, leaves = [await stage.open(group=group, topics=[topic]) for _ in range(2)]
    await _settle(topic, [stays, leaves])
    await _wave(stage, topic, [stays, leaves], 0)
    await leaves.close()
    await _settle(topic, [stays])
    await _wave(stage, topic, [stays], 1)
    await stays.close()


async def _kip_848(stage: Stage) -> None:
    """A client may fall back to the classic protocol in silence; so the group is looked at."""
    topic = await stage.topic(_PARTITIONS)
    group = stage.name()
    join = functools.partial(stage.open, group=group, topics=[topic], protocol="consumer")
    stays, leaves = await join(), await join()
    await _settle(topic, [stays, leaves])
    same(await stage.steward.kind(group), "CONSUMER", "the kind of the group")
    await _wave(stage, topic, [stays, leaves], 0)
    await leaves.close()
    await _settle(topic, [stays])
    await _wave(stage, topic, [stays], 1)
    await stays.close()


async def _static(stage: Stage) -> None:
    topic = await stage.topic(_PARTITIONS)
    join = functools.partial(stage.open, group=stage.name(), topics=[topic])
    first, other = await join(instance="first"), await join(instance="other")
    before, _ = await _settle(topic, [first, other])
    changes = await other.changes()
    await first.close()
    again = await join(instance="first")

    async def has_all_again() -> bool:
        await asyncio.gather(again.poll(100), other.poll(100))
        return await again.assigned() == before

    await until(has_all_again)
    same(await other.changes(), changes, "what the other member was told meanwhile")
    await again.close()
    await other.close()


async def _cooperative(stage: Stage) -> None:
    topic = await stage.topic(_PARTITIONS)
    group = stage.name()
    join = functools.partial(stage.open, group=group, topics=[topic], assignor="cooperative")
    first = await join()
    await _settle(topic, [first])
    second = await join()
    kept, moved = await _settle(topic, [first, second])
    gone = [place for kind, some in await first.changes() if kind == "revoked" for place in some]
    same(sorted(gone), moved, "what the first member gave up")
    check(len(kept) == 2, f"{kept} is not half of it")
    await _wave(stage, topic, [first, second], 0)
    await second.close()
    await first.close()


async def _committing(stage: Stage, metadata: str = "") -> tuple[str, str, Consumer]:
    """A topic of four partitions, and a group of one member that has committed in two of them."""
    topic, group = await stage.topic(_PARTITIONS), stage.name()
    one = await stage.open(group=group, topics=[topic])
    await _settle(topic, [one])
    await stage.steward.send(topic, [Record(value="v", partition=p) for p in (0, 1)])
    await one.take(2)
    await one.commit(topic, 0, 1, metadata)
    await one.commit(topic, 1, 1)
    return topic, group, one


async def _metadata(stage: Stage) -> None:
    topic, _, one = await _committing(stage, "bis hierher, grün")
    same(await one.committed(topic, 0), (1, "bis hierher, grün"), "offset and metadata")
    same(await one.committed(topic, 2), None, "of a partition without a commit")
    await one.close()


async def _of_another_group(stage: Stage) -> None:
    topic, group, one = await _committing(stage)
    await one.close()
    same(await stage.ask("group_offset", group=group, topic=topic, partition=0), 1, "the offset")
    none = await stage.ask("group_offset", group=group, topic=topic, partition=2)
    same(none, None, "of a partition without a commit")
    other = await stage.ask("group_offset", group=stage.name(), topic=topic, partition=0)
    same(other, None, "of a group that never was")


async def _list(stage: Stage) -> None:
    _, group, one = await _committing(stage)
    check(group in await stage.ask("list_groups"), "it is not listed")
    await one.close()
    check(group in await stage.ask("list_groups"), "it is not listed when it is empty")


async def _describe(stage: Stage) -> None:
    topic, group, one = await _committing(stage)
    found = await stage.ask("describe_group", group=group)
    same(found["state"], "STABLE", "the state")
    (member,) = found["members"]
    everything = [[topic, partition] for partition in range(_PARTITIONS)]
    same(sorted(member), everything, "what its member has")
    await one.close()

    async def is_empty() -> bool:
        found = await stage.ask("describe_group", group=group)
        return bool(found["state"] == "EMPTY" and found["members"] == [])

    await until(is_empty)


async def _delete(stage: Stage) -> None:
    _, group, one = await _committing(stage)
    await stage.refused("NON_EMPTY_GROUP", stage.ask("delete_group", group=group))
    await one.close()
    await stage.ask("delete_group", group=group)
    check(group not in await stage.ask("list_groups"), "it is still listed")
    again = stage.ask("delete_group", group=group)
    await stage.refused("GROUP_ID_NOT_FOUND", again)


async def _delete_offset(stage: Stage) -> None:
    topic, group, one = await _committing(stage)
    where = {"group": group, "topic": topic}
    used = stage.ask("delete_offset", **where, partition=0)
    await stage.refused("GROUP_SUBSCRIBED_TO_TOPIC", used)
    await one.close()
    await stage.ask("delete_offset", **where, partition=0)
    same(await stage.ask("group_offset", **where, partition=0), None, "the deleted offset")
    same(await stage.ask("group_offset", **where, partition=1), 1, "the other offset")


GROUPS: Mapping[str, Behaviour] = {
    "group of two": Behaviour(
        "Two members share the partitions; every record is seen once", _group_of_two
    ),
    "member leaves": Behaviour("A member leaves; the other goes on where it was", _rebalance),
    "static member": Behaviour(
        "A static member comes back to its partitions, and nobody else is disturbed", _static
    ),
    "cooperative": Behaviour("A cooperative rebalance revokes only what moves", _cooperative),
    "KIP-848 group": Behaviour("The same two members, by the new protocol of groups", _kip_848),
    "commit metadata": Behaviour("A commit keeps its metadata", _metadata),
    "offsets of a group": Behaviour(
        "Committed offsets of another group are told", _of_another_group
    ),
    "list groups": Behaviour("Groups are listed, also empty ones", _list),
    "describe group": Behaviour(
        "State and members of a group are told, with what they have", _describe
    ),
    "delete group": Behaviour(
        "A group is deleted when it is empty: NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND", _delete
    ),
    "delete offset": Behaviour(
        "A committed offset is deleted; in use: GROUP_SUBSCRIBED_TO_TOPIC", _delete_offset
    ),
}
