"""What a request names, one after another: what is asked, changed or described.

A topic is looked for once, in the store if it is not known. Then so many of its partitions are
asked at the same time, and others have their turn on the loop before the next of them. A partition
is asked once, however often it is named, and a lane is looked at once for all its partitions.

Whatever keeps one of them from being answered or changed, the others go on.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterable, Iterator
from typing import Any, TypeVar

from kio.schema.errors import ErrorCode

from lakelog.broker.allowance import SPENT, is_spent
from lakelog.broker.codes import Codes, read_code
from lakelog.broker.lanes import LaneWriter
from lakelog.broker.partitions import Partition
from lakelog.broker.services import Call, Services
from lakelog.broker.supervision import awaited
from lakelog.broker.topic_entry import Entry
from lakelog.broker.turns import in_turns
from lakelog.errors import LakelogError
from lakelog.groups import Code
from lakelog.names import is_topic_name
from lakelog.security import Operation, ResourceType
from lakelog.wire import Fields

__all__ = [
    "ask_partitions",
    "change_each",
    "describe_each",
    "find_entry",
    "find_partition",
    "find_topic",
    "partitions_by_index",
]

AT_ONCE = 64
MESSAGE_CHARS_MAX = 512

T = TypeVar("T")

Refuse = Callable[[T, ErrorCode, str], Fields]
"""Returns the row of what was not answered or changed: why, by Kafka's code and in words."""


async def ask_partitions(
    services: Services,
    call: Call,
    operation: Operation,
    topics: Iterable[tuple[str, Iterable[tuple[int, T]]]],
    ask: Callable[[Partition, T], Awaitable[Fields]],
    refuse: Refuse[T],
    *,
    named_twice: ErrorCode = ErrorCode.none,
    looks_at_lanes: bool = True,
    may_all: bool = False,
) -> list[Fields]:
    """Return a row for each topic, with a row for each of its partitions.

    Topics with which the client may not do this are refused before they are looked for, unless it
    ``may_all`` by something else. ``ask`` answers for a partition whose lane has been looked at,
    unless that is not needed, and may raise a LakelogError; ``refuse`` says why one is not
    answered: it is not there, the store did not tell, the request has asked for enough, or it is
    ``named_twice`` and that has a code. Else it is asked as it was named last.
    """
    wanted: dict[str, dict[int, T]] = {}
    again: set[tuple[str, int]] = set()
    async for name, partitions in in_turns(topics):
        named = wanted.setdefault(name, {})
        for index, one in partitions:
            if index in named and named_twice is not ErrorCode.none:
                again.add((name, index))
            named[index] = one
    looks: dict[LaneWriter, asyncio.Task[None]] = {}
    """One look at each lane, which began with the request or later, whatever it asks."""

    async def answer(name: str, entry: Entry | None, index: int, one: T) -> Fields:
        if (name, index) in again:
            return refuse(one, named_twice, "")
        try:
            partition = None if entry is None else await find_partition(services, entry, index)
            if partition is None:
                return refuse(one, ErrorCode.unknown_topic_or_partition, "")
            if not services.cluster.leads(partition.lane_number):
                await services.cluster.current_leader(partition.lane_number)
                return refuse(one, ErrorCode.not_leader_or_follower, "")
            if looks_at_lanes:
                look = looks.get(partition.lane)
                if look is None:
                    look = looks[partition.lane] = awaited(partition.lane.refresh())
                await asyncio.shield(look)
            return await ask(partition, one)
        except LakelogError as error:
            return refuse(one, read_code(error), str(error)[:MESSAGE_CHARS_MAX])

    found: list[Fields] = []
    async for name, named in in_turns(wanted.items()):
        rows: list[Fields] = []
        if not may_all and not call.may_topic(operation, name):
            code = ErrorCode.topic_authorization_failed
            rows = [refuse(one, code, "") for one in named.values()]
            found.append({"name": name, "partitions": rows})
            continue
        try:
            entry = await services.catalog.find_entry(name)
        except LakelogError as error:
            what = str(error)[:MESSAGE_CHARS_MAX]
            rows = [refuse(one, read_code(error), what) for one in named.values()]
        else:
            all_ = list(named.items())
            for at in range(0, len(all_), AT_ONCE):
                some = all_[at : at + AT_ONCE]
                if is_spent():
                    rows += [refuse(one, ErrorCode.leader_not_available, SPENT) for _, one in some]
                else:
                    rows += await asyncio.gather(*(answer(name, entry, *one) for one in some))
        found.append({"name": name, "partitions": rows})
    return found


async def find_partition(services: Services, entry: Entry, index: int) -> Partition | None:
    """Return a partition. That there is none is said after asking the store: topics grow.

    Raises:
        LakelogError: there was no answer.
    """
    found = entry.partition(index)
    if found is None and index >= 0 and not entry.is_virtual:
        grown = await services.catalog.read_again(entry)
        found = None if grown is None else grown.partition(index)
    return found


def partitions_by_index(topics: Iterable[Any]) -> Iterator[tuple[str, list[tuple[int, Any]]]]:
    """Yield what a request names, as ``ask_partitions`` takes it, if it is named as usual."""
    for topic in topics:
        yield str(topic.name), [(one.partition_index, one) for one in topic.partitions]


async def describe_each(
    services: Services,
    call: Call,
    group_ids: Iterable[str],
    describe: Callable[[str, Code], Fields],
    *,
    with_operations: bool,
) -> list[Fields]:
    """Describe each group once, with what keeps its coordinator or its client from it.

    What was described tells what the client may do with it, if it asks.
    """
    groups = dict.fromkeys(map(str, group_ids), Code.GROUP_AUTHORIZATION_FAILED)
    known = [one for one in groups if call.may_group(Operation.DESCRIBE, one)]
    codes = groups | await services.coordinator.confirm(known)
    rows = [describe(*group) async for group in in_turns(codes.items())]
    for row in rows if with_operations else ():
        if "error_code" not in row:
            allowed = call.operations(ResourceType.GROUP, row["group_id"])
            row["authorized_operations"] = allowed
    return rows


async def find_entry(
    services: Services, call: Call, name: str, topic_id: bytes = b""
) -> Entry | None:
    """Return a topic by its id, if that is given, else by its name; None: there is none.

    An id that is not known is not asked for in the store for somebody who may know of no topic.

    Raises:
        LakelogError: there was no answer, or it may be a topic that cannot be read.
    """
    entry = services.catalog.entry(name, topic_id)
    if entry is None and topic_id and not call.may_know_any(ResourceType.TOPIC):
        return None
    return entry or await services.catalog.find_entry(name, topic_id)


async def find_topic(
    services: Services, call: Call, name: str, topic_id: bytes = b""
) -> Entry | ErrorCode:
    """Return a topic by its id, if that is given, else by its name; or why it cannot be."""
    try:
        entry = await find_entry(services, call, name, topic_id)
    except LakelogError as error:
        return read_code(error)
    if entry is not None:
        return entry
    if topic_id:
        return ErrorCode.unknown_topic_id
    is_name = is_topic_name(name)
    return ErrorCode.unknown_topic_or_partition if is_name else ErrorCode.invalid_topic_exception


async def change_each(
    things: Collection[T],
    key: Callable[[T], Hashable],
    change: Callable[[T], Awaitable[Fields]],
    refuse: Refuse[T],
    *,
    named_twice: str = "",
    codes: Codes = (),
) -> list[Fields]:
    """Change one thing after another, and return a row for each.

    ``change`` may raise a LakelogError, which is told by ``codes``, else as when reading. What is
    named twice, by its ``key``, is not changed if ``named_twice`` says something about it.
    """
    count = Counter(map(key, things))
    rows: list[Fields] = []
    async for one in in_turns(things):
        if named_twice and count[key(one)] > 1:
            rows.append(refuse(one, ErrorCode.invalid_request, named_twice))
        elif is_spent():
            rows.append(refuse(one, ErrorCode.policy_violation, SPENT))
        else:
            try:
                rows.append(await change(one))
            except LakelogError as error:
                rows.append(refuse(one, read_code(error, codes), str(error)[:MESSAGE_CHARS_MAX]))
    return rows
